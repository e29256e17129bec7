"""Coverage: which instructions of chosen functions ran in the recorded I/Os, and how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from iotoll.explain.attribute import CellParts
from iotoll.explain.pieces import Pieces, executions_by_line
from iotoll.explain.record import Ints, Record
from iotoll.kernels.flow import ends_of
from iotoll.kernels.symbols import Symbols
from iotoll.records.models import CoverageRecord, FunctionCoverage, LineCoverage
from iotoll.reports.page.coverage import coverage_sentence

UNCHANGED = "No function's machine code changed."
ONLY_DATA = (
    "No function's machine code changed; the images differ in data, such as limits, tables or"
    " line numbers. Limits were compared (docs/method.md)."
)
"""What is said of a change without code where the images differ."""


class Executed:
    """How many different instructions of each function ran at least once while boots recorded."""

    def __init__(self, symbols: Symbols, names: Sequence[str]) -> None:
        self._symbols = symbols
        self._spans = {name: symbols.instructions(name) for name in names if symbols.span(name)}
        self._ran = {name: np.zeros(len(spans), np.bool_) for name, spans in self._spans.items()}

    def add(self, record: Record) -> None:
        """Add what a boot recorded."""
        longest: dict[int, int] = {}
        for block, count in zip(*record.split(record.distinct()), strict=True):
            longest[int(block)] = max(int(count), longest.get(int(block), 0))
        blocks = np.array(list(longest), np.int64)
        first = record.blocks["address"][blocks].astype(np.uint64)
        sizes = np.array(list(longest.values()), np.int64)
        behind = ends_of(self._symbols, first, sizes).behind
        for name, places in self._spans.items():
            low, high = np.searchsorted(places, first), np.searchsorted(places, behind)
            for begin, end in {*zip(low.tolist(), high.tolist(), strict=True)}:
                self._ran[name][begin:end] = True

    def counts(self) -> dict[str, int]:
        """The number of instructions of each function that the kernel has."""
        return {name: int(np.count_nonzero(which)) for name, which in self._ran.items()}


def coverage(
    cells: Mapping[str, CellParts],
    executed: Mapping[str, int],
    symbols: Symbols,
    changed: Sequence[str],
    base_names: frozenset[str],
    added: Mapping[str, Sequence[int]] | None = None,
    note: str | None = None,
) -> CoverageRecord:
    """Join what ran of the changed functions with how often each cell's I/Os called them.

    ``added`` are the lines of the change by file; ``note`` says why lines are not known.
    """
    added = added or {}
    lines = line_coverage(cells, added)
    calls = {
        name: {c: n for c, p in cells.items() if (n := _calls(p, name)) > 0} for name in changed
    }
    functions = _functions(symbols, changed, base_names, executed, calls)
    return in_words(
        CoverageRecord(
            cells=list(cells),
            functions=functions,
            gone=sorted(base_names - set(symbols.names)),
            sentence=UNCHANGED,
            changed_lines=sum(len(numbers) for numbers in added.values()),
            lines=lines,
            note=note,
        )
    )


@dataclass(frozen=True)
class ChangedCode:
    """The changed functions of the candidate: ``places`` are the numbers of those of their
    instructions that the base has not, by function.

    ``pieces`` are the lines of those functions whose lines are known, ``added`` the lines of the
    change by file.
    """

    symbols: Symbols
    places: Mapping[str, Ints]
    base_names: frozenset[str]
    pieces: Pieces
    added: Mapping[str, Sequence[int]]

    @cached_property
    def addresses(self) -> npt.NDArray[np.uint64]:
        """Where each of their instructions is, in order."""
        parts = [self.symbols.instructions(name) for name in self.places]
        return np.sort(np.concatenate([np.zeros(0, np.uint64), *parts]))

    @cached_property
    def lines(self) -> dict[tuple[str, int], tuple[str, dict[str, list[int]]]]:
        """The changed lines that have machine code: file and line; in which function, and the
        addresses of its instructions by the function of the image."""
        found: dict[tuple[str, int], tuple[str, dict[str, list[int]]]] = {}
        wanted = {(path, number) for path, numbers in self.added.items() for number in numbers}
        places = self.pieces.addresses
        owners = self.symbols.index(places)
        rows = zip(places.tolist(), owners.tolist(), self.pieces.frames, strict=True)
        for address, owner, frames in rows:
            for place in dict.fromkeys((frame.file, frame.line) for frame in frames):
                if place in wanted:
                    name = next(f.function for f in frames if (f.file, f.line) == place)
                    _, mine = found.setdefault(place, (name, {}))
                    mine.setdefault(self.symbols.name(owner), []).append(address)
        return found

    def changed(self) -> dict[str, npt.NDArray[np.uint64]]:
        """The addresses of what changed in each function: of its changed lines, if it has any."""
        of_lines: dict[str, set[int]] = {}
        for _, mine in self.lines.values():
            for name, addresses in mine.items():
                of_lines.setdefault(name, set()).update(addresses)
        found = {}
        for name, places in self.places.items():
            own = self.symbols.instructions(name)[places].tolist()
            found[name] = np.array(sorted(of_lines.get(name, own)), np.uint64)
        return found


@dataclass(frozen=True)
class CellExecutions:
    """How often each of `ChangedCode.addresses` was executed in a cell of so many I/Os."""

    ios: int
    counts: Ints


def of_boot(cells: Mapping[str, CellExecutions], code: ChangedCode) -> CoverageRecord:
    """What ran of changed code in a boot whose cells were counted instruction by instruction.

    `in_words` is for the caller, who knows why lines are not known.
    """
    order = code.addresses
    zero = np.zeros(len(order), np.int64)
    total = sum((cell.counts for cell in cells.values()), zero)
    changed = code.changed()
    functions = []
    for name in code.places:
        low, high = np.searchsorted(order, np.array(code.symbols.span(name), np.uint64))
        mine = np.searchsorted(order, changed[name])
        functions.append(
            FunctionCoverage(
                name=name,
                new=name not in code.base_names,
                instructions=int(high - low),
                executed=int(np.count_nonzero(total[low:high])),
                calls=_per_io(cells, {c: int(one.counts[low]) for c, one in cells.items()}),
                changed=len(mine),
                changed_executed=int(np.count_nonzero(total[mine])),
                executions=_per_io(cells, {c: _most(one, mine) for c, one in cells.items()}),
            )
        )
    lines = []
    for (path, number), (name, places) in sorted(code.lines.items()):
        at = [np.searchsorted(order, np.array(own, np.uint64)) for own in places.values()]
        often = {c: sum(_most(one, own) for own in at) for c, one in cells.items()}
        lines.append(
            LineCoverage(file=path, line=number, function=name, executions=_per_io(cells, often))
        )
    return CoverageRecord(
        cells=list(cells),
        functions=functions,
        gone=sorted(code.base_names - set(code.symbols.names)),
        sentence=UNCHANGED,
        changed_lines=sum(len(numbers) for numbers in code.added.values()),
        lines=lines,
    )


def _most(cell: CellExecutions, places: Ints) -> int:
    return int(cell.counts[places].max(initial=0))


def _per_io(cells: Mapping[str, CellExecutions], often: Mapping[str, int]) -> dict[str, float]:
    """Executions per I/O of the cells that have any."""
    return {c: round(n / cells[c].ios, 3) for c, n in often.items() if n and cells[c].ios}


def _functions(
    symbols: Symbols,
    changed: Sequence[str],
    base_names: frozenset[str],
    executed: Mapping[str, int],
    calls: Mapping[str, Mapping[str, float]],
) -> list[FunctionCoverage]:
    """What is said of each changed function; ``calls`` are per I/O, by function and cell."""
    return [
        FunctionCoverage(
            name=name,
            new=name not in base_names,
            instructions=len(symbols.instructions(name)),
            executed=executed.get(name, 0),
            calls=dict(calls.get(name, {})),
        )
        for name in changed
    ]


def line_coverage(
    cells: Mapping[str, CellParts], added: Mapping[str, Sequence[int]]
) -> list[LineCoverage]:
    """The lines of a change that have machine code, and how often each ran per I/O of a cell."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    wanted = {(path, number) for path, numbers in added.items() for number in numbers}
    for cell, parts in cells.items():
        if parts.pieces is None or parts.executions is None:
            continue
        for place, count in executions_by_line(parts.pieces, parts.executions).items():
            if place in wanted:
                mine = found.setdefault(place, {})
                if count and parts.ios:
                    mine[cell] = round(count / parts.ios, 3)
    return [LineCoverage(file=p[0], line=p[1], executions=found[p]) for p in sorted(found)]


def _calls(parts: CellParts, name: str) -> float:
    """Calls of a function per I/O, over everything that ran from the first I/O to the last."""
    return round(parts.calls.get(name, 0) / parts.ios, 3) if parts.ios else 0.0


def in_words(found: CoverageRecord) -> CoverageRecord:
    """The record with its sentence."""
    return found.model_copy(update={"sentence": coverage_sentence(found)})


def with_data(found: CoverageRecord, base: Symbols, candidate: Symbols) -> CoverageRecord:
    """The same, of a change without code: whether the images differ nevertheless."""
    if found.functions or base.image == candidate.image:
        return found
    return found.model_copy(update={"sentence": ONLY_DATA})
