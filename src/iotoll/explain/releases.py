"""Two kernel releases side by side: which functions account for what an I/O costs more or less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.explain.by_function import SECTIONS, CellFunctions, by_function
from iotoll.explain.explainer import check_cells
from iotoll.explain.matching import Calls, Kernel, direct_calls, owners, renamed, stem
from iotoll.kernels.symbols import read_functions
from iotoll.records.models import Clock, Section
from iotoll.records.models.releases import (
    FunctionCost,
    ReleaseCell,
    ReleaseFunction,
    ReleasePart,
    ReleasesRecord,
    RenamedFunction,
)
from iotoll.records.models.run import Side
from iotoll.reports.compare import RunValues, open_side, remarks

Pair = tuple[int, int]
Divided = Mapping[str, CellFunctions]


def compare_releases(
    first: Path, second: Path, asked: Sequence[str], progress: Progress
) -> ReleasesRecord:
    """Divide the cells that two runs share by function, and match the functions of both kernels.

    Raises UsageError where the runs do not compare, or have not kept what they executed.
    """
    sides = open_side(first, None), open_side(second, None)
    cells, left_out = _cells(sides, asked)
    kernels = _kernel(sides[0]), _kernel(sides[1])
    divided = _divided(sides[0], cells, progress), _divided(sides[1], cells, progress)
    ran = _ran(divided[0]), _ran(divided[1])
    direct = direct_calls(kernels[0].symbols, ran[0]), direct_calls(kernels[1].symbols, ran[1])
    found = renamed(kernels, ran, _callers(divided, direct))
    names = {one.first: one.second for one in found}
    compared = []
    for cell in cells:
        pair = divided[0][cell], divided[1][cell]
        if pair[0].ios == pair[1].ios:
            compared.append(compare_cell(pair, names, direct))
        else:
            left_out[cell] = f"{pair[0].ios} I/Os of one kernel, {pair[1].ios} of the other"
    return ReleasesRecord(
        board=_board(sides[0]),
        kernels=(_label(sides[0]), _label(sides[1])),
        renamed=[
            RenamedFunction(first=r.first, second=r.second, likeness=round(r.likeness, 2))
            for r in found
        ],
        cells=compared,
        remarks=remarks(*sides),
        left_out=left_out,
    )


# ---------------------------------------------------------------- what is compared


def _cells(
    sides: tuple[RunValues, RunValues], asked: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """The cells to compare, and of those that cannot be the reason; raises UsageError."""
    boards = [_board(side) for side in sides]
    if boards[0] != boards[1]:
        raise UsageError(
            f"the runs have different boards, {boards[0]} and {boards[1]}: measure both kernels"
            " on one"
        )
    for side in sides:
        if side.result.clock is not Clock.INSTRUCTIONS:
            raise UsageError(
                f"{side.run.root}: only runs on the clock instructions are divided by function"
            )
    known = list(dict.fromkeys(cell for side in sides for cell in side.result.cells))
    check_cells(asked, known)
    wanted = [cell for cell in known if cell in asked or not asked]
    reasons = {cell: why for cell in wanted if (why := _unusable(sides, cell))}
    if len(reasons) == len(wanted):
        raise UsageError("no cell can be compared: " + ": ".join(next(iter(reasons.items()))))
    return [cell for cell in wanted if cell not in reasons], reasons


def _unusable(sides: tuple[RunValues, RunValues], cell: str) -> str:
    for side in sides:
        records = side.result.cells.get(cell, [])
        if not records:
            return f"{side.run.root.name} did not run it"
        if records[0].invalid:
            return f"{side.run.root.name}: {records[0].invalid}"
    return ""


def _kernel(side: RunValues) -> Kernel:
    return Kernel.of(read_functions(side.run.build(_side(side)) / "Image"))


def _side(side: RunValues) -> Side:
    return "candidate" if side.side == "candidate" else "base"


def _board(side: RunValues) -> str:
    """The board's name: a file of the user's may be the same board with another configuration."""
    return side.run.manifest.board.removesuffix(".toml").rpartition("/")[2]


def _label(side: RunValues) -> str:
    return side.result.boots[0].tools.get("board kernel") or side.run.root.name


def _divided(side: RunValues, cells: Sequence[str], progress: Progress) -> Divided:
    title = f"divide I/Os by function ({_label(side)})"
    found: dict[str, CellFunctions] = {}
    with progress.step(title, len(cells)) as step:
        for folder, own in side.run.first_folders(_side(side)).items():
            wanted = [cell for cell in cells if cell in own]
            more = by_function(
                folder, wanted, lambda done: step.update(len(found) + done, len(cells))
            )
            found.update(more)
    return found


# ---------------------------------------------------------------- functions of both


def _ran(divided: Divided) -> Counter[str]:
    """Instructions of each function over all cells."""
    found: Counter[str] = Counter()
    for cell in divided.values():
        for counts in cell.counts.values():
            found.update(counts)
    return found


def _callers(divided: tuple[Divided, Divided], direct: tuple[Calls, Calls]) -> tuple[Calls, Calls]:
    """Calls of each function by caller over all cells, of both kernels."""
    one, other = ([cell.callers for cell in side.values()] for side in divided)
    return _calls(one, direct[0], {}), _calls(other, direct[1], {})


def _calls(
    several: Sequence[Calls], direct: Calls, names: Mapping[str, str]
) -> dict[str, dict[str, int]]:
    """Sums of calls by the names of rows; a function's calls of its own parts are left out.

    Of a function no call of which was seen, the places that call it ``direct``ly.
    """
    found: dict[str, dict[str, int]] = {}
    seen = {name for calls in several for name in calls}
    unseen = {name: callers for name, callers in direct.items() if name not in seen}
    for calls in (*several, unseen):
        for name, callers in calls.items():
            row = _row(name, names)
            for caller, number in callers.items():
                by = _row(caller, names)
                if by != row:
                    mine = found.setdefault(row, {})
                    mine[by] = mine.get(by, 0) + number
    return found


def _row(name: str, names: Mapping[str, str]) -> str:
    """What a function is called in the table: ``names`` has those that were renamed since."""
    return names.get(stem(name), stem(name))


def compare_cell(
    pair: tuple[CellFunctions, CellFunctions],
    names: Mapping[str, str],
    direct: tuple[Calls, Calls] = ({}, {}),
) -> ReleaseCell:
    """One cell of both kernels; ``names`` are the second kernel's of functions of the first.

    ``direct`` are the places of both that call a function.
    """
    costs = _costs(pair[0], names), _costs(pair[1], {})
    ran = set().union(*costs[0].values()), set().union(*costs[1].values())
    calls = _calls([pair[0].callers], direct[0], names), _calls([pair[1].callers], direct[1], {})
    owned = owners(ran, calls)
    was = {second: first for first, second in names.items()}
    parts = [
        _part(section, (pair[0].totals[section], pair[1].totals[section]), both, owned, was)
        for section in SECTIONS
        if any(both := (costs[0][section], costs[1][section]))
    ]
    return ReleaseCell(cell=pair[0].cell, ios=pair[0].ios, parts=parts)


def _costs(cell: CellFunctions, names: Mapping[str, str]) -> dict[Section, dict[str, int]]:
    """A kernel's instructions by section and row."""
    found: dict[Section, dict[str, int]] = {}
    for section, counts in cell.counts.items():
        mine = found.setdefault(section, {})
        for name, count in counts.items():
            row = _row(name, names)
            mine[row] = mine.get(row, 0) + count
    return found


def _part(
    section: Section,
    totals: Pair,
    costs: tuple[Mapping[str, int], Mapping[str, int]],
    owned: Mapping[str, str],
    was: Mapping[str, str],
) -> ReleasePart:
    groups: dict[str, list[FunctionCost]] = {}
    for name in sorted(costs[0].keys() | costs[1].keys()):
        cost = FunctionCost(name=name, first=costs[0].get(name, 0), second=costs[1].get(name, 0))
        groups.setdefault(owned.get(name, name), []).append(cost)
    rows = [_function(name, parts, was) for name, parts in groups.items()]
    differ = [row for row in rows if row.change or any(part.change for part in row.parts)]
    differ.sort(key=lambda row: (-abs(row.change), row.name))
    return ReleasePart(
        section=section,
        first=totals[0],
        second=totals[1],
        functions=differ,
        unchanged=sum(row.first for row in rows if row not in differ),
        rest=(totals[0] - sum(costs[0].values()), totals[1] - sum(costs[1].values())),
    )


def _function(name: str, parts: Sequence[FunctionCost], was: Mapping[str, str]) -> ReleaseFunction:
    """A row: a function, and those that only one kernel runs and that it answers for."""
    several = [part.name for part in parts] != [name]
    return ReleaseFunction(
        name=name,
        was=was.get(name),
        first=sum(part.first for part in parts),
        second=sum(part.second for part in parts),
        parts=sorted(parts, key=lambda p: (p.name != name, -abs(p.change), p.name))
        if several
        else [],
    )
