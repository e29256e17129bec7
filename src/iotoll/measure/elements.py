"""What an I/O costs besides instructions: register accesses, barriers, atomics, wake-ups ...

What counts as which element is data (``pipelines/elements.toml``). All are counted in what the
gate's boot executed (`iotoll.measure.windows`), so without what records the trace, and divided into
the sections of I/Os by the same analysis as instructions, which an element takes the place of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError

from iotoll import _native
from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml
from iotoll.kernels.symbols import Symbols
from iotoll.kernels.tracing import VECTORS
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import ACCESS, Ints, Windows
from iotoll.records.models.analysis import ElementRecord, Runs
from iotoll.records.models.base import Model

Number = Annotated[int, BeforeValidator(lambda n: int(n, 0) if isinstance(n, str) else n)]
Word = Annotated[tuple[Number, Number], Field(description="mask, and what is left of the word")]

_PASSED = 32
"""Blocks of functions that pass a call on, of which the caller is looked for behind."""

SHARE = 0.01
"""Functions that have less of an element per I/O are not named."""


class Element(Model):
    """One kind of cost; each way of counting adds to the others."""

    one: str
    many: str
    words: list[Word] = Field(default_factory=list)
    but: list[Word] = Field(default_factory=list)
    functions: list[str] = Field(default_factory=list)
    vectors: list[int] = Field(default_factory=list)
    access: Literal["load", "store"] | None = None


class Elements(Model):
    """The file of elements.

    ``devices`` are names of memory regions, as globs, with their own; ``through`` are functions
    that only pass a call on.
    """

    through: list[str]
    devices: dict[str, str]
    elements: dict[str, Element]

    def device(self, region: str) -> str:
        """What the device of a memory region is called."""
        return next((n for p, n in self.devices.items() if fnmatchcase(region, p)), region)

    def text(self, key: str, number: float) -> str:
        """``+1 register read of UFS``, of an element as `ElementRecord` is named by."""
        name, _, device = key.partition(".")
        known = self.elements.get(name)
        kind = (known.one if abs(number) == 1 else known.many) if known else name
        return f"{number:+g} {kind}" + (f" of {device}" if device else "")


@lru_cache(maxsize=1)
def load_elements() -> Elements:
    """The elements that are counted; raises UsageError when their file is not valid."""
    path = data_dir("pipelines") / "elements.toml"
    try:
        return Elements.model_validate(load_toml(path))
    except ValidationError as error:
        raise first_error(path, error) from error


@dataclass(frozen=True)
class _Counted:
    """One element in a boot's windows: which entries have it, how often, and whose it is there.

    ``owners`` are functions as `Symbols.index` has them: those that have the instruction, or call
    what is counted. ``owner`` is the place in them; the others have the shape (entries with it,).
    """

    key: str
    window: Ints
    count: Ints
    owner: Ints
    owners: Ints


class ElementCounter:
    """Counts the elements of one boot."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._order = np.argsort(windows.times, kind="stable")
        self._times = windows.times[self._order]
        self._counted = _counted(windows, load_elements())
        size = len(windows.windows)
        self._until = [
            windows.sums(np.bincount(one.window, one.count, size).astype(np.int64))[self._order]
            for one in self._counted
        ]

    def of_cells(
        self,
        path: str,
        device: str,
        spans: Sequence[tuple[int, int]],
        tables: Sequence[IoTable],
        comm: str,
    ) -> list[dict[str, ElementRecord]]:
        """The elements of windows of a trace, of which ``tables`` has the I/Os; by element."""
        found: list[dict[str, ElementRecord]] = [{} for _ in tables]
        for place, one in enumerate(self._counted):
            wholes = [self._whole(place, table) for table in tables]
            if not any(whole.any() for whole in wholes):
                continue
            columns = self._sections(place, path, device, spans, comm)
            for cell, (table, whole) in enumerate(zip(tables, wholes, strict=True)):
                if len(columns[cell]["pid"]) != len(table):
                    raise InfrastructureError(f"{path}: {one.key} was cut into other I/Os")
                if whole.any():
                    found[cell][one.key] = self._record(one, table, whole, columns[cell])
        return found

    def _whole(self, place: int, table: IoTable) -> Ints:
        """How many of an element each I/O has from call to return, shape (I/Os,)."""
        until = self._until[place]
        first = np.searchsorted(self._times, table["start"])
        last = np.searchsorted(self._times, table.end)
        whole: Ints = until[last] - until[first]
        return whole

    def _sections(
        self, place: int, path: str, device: str, spans: Sequence[tuple[int, int]], comm: str
    ) -> list[dict[str, Any]]:
        """The columns of `GATE_COLUMNS` with an element in place of instructions, by window."""
        until = self._until[place]
        return cut(self._times, until, path, device, spans, comm, tuple(GATE_COLUMNS.values()))

    def _record(
        self, one: _Counted, table: IoTable, whole: Ints, columns: Mapping[str, Any]
    ) -> ElementRecord:
        """As `iotoll.measure.io_order.ordered` orders I/Os."""
        rows = np.lexsort((np.arange(len(table)), table["pid"]))
        mine = np.lexsort((columns["start"], columns["pid"]))
        return ElementRecord(
            sections={
                section: runs_of(np.ma.array(columns[name])[mine].tolist())
                for section, name in GATE_COLUMNS.items()
            },
            whole=runs_of(whole[rows].tolist()),
            functions=self._functions(one, table),
        )

    def _functions(self, one: _Counted, table: IoTable) -> dict[str, int]:
        """How many each function has from a cell's first I/O to its last."""
        ends = np.searchsorted(self._times, [table["start"].min(), table.end.max()])
        low, high = self._windows.places[self._order[ends]]
        ran = self._windows.marks["window"][low:high].astype(np.int64)
        size = len(self._windows.windows)
        often = np.bincount(ran[ran < size], minlength=size)
        counts = one.count * often[one.window]
        totals = np.bincount(one.owner, counts, len(one.owners)).astype(np.int64)
        sums = dict(zip(one.owners.tolist(), totals.tolist(), strict=True))
        least = SHARE * len(table)
        named = ((self._windows.symbols.name(n), c) for n, c in sums.items() if c >= max(least, 1))
        return dict(sorted(named))


def cut(
    times: Ints,
    until: Ints,
    path: str,
    device: str,
    spans: Sequence[tuple[int, int]],
    comm: str,
    columns: Sequence[str],
) -> list[dict[str, Any]]:
    """The I/Os of windows of a trace, cut by the analyser, with another count for instructions.

    ``until`` is how much of it is before each of the ``times``, which rise; shape (times,) both.
    Returns for each of the ``spans`` these columns, ``pid`` and ``start``, in order of end.
    """
    # Those before the first window and behind the last one are asked for by nobody.
    ends = [min(span[1], np.iinfo(np.int64).max) for span in spans]
    low = max(int(np.searchsorted(times, spans[0][0])) - 1, 0)
    high = int(np.searchsorted(times, max(ends), side="right"))
    here = slice(low, high)
    counts = np.column_stack((times[here], until[here])).astype(np.uint64)
    names = ("pid", "start", *columns)
    parts: list[list[dict[str, Any]]] = [[] for _ in spans]
    _native.stream(
        path,
        [(*span, device, True) for span in spans],
        lambda window, batch: parts[window].append(batch),
        columns=set(names),
        counts=counts.tobytes(),
        comm=comm,
    )
    return [_joined(batches, names) for batches in parts]


def _joined(batches: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Columns as arrays, masked where a value is missing."""
    found: dict[str, Any] = {}
    for name in names:
        parts = [batch[name] for batch in batches]
        values = np.frombuffer(b"".join(part[0] for part in parts), np.int64)
        masks = [part[1] for part in parts if len(part) > 1]
        mask = np.frombuffer(b"".join(masks), np.bool_) if masks else np.zeros(len(values), bool)
        found[name] = np.ma.array(values, mask=mask)
    return found


def runs_of(values: Iterable[int | None]) -> Runs:
    """The values in their order, each with how often it follows itself."""
    return [(value, len(list(same))) for value, same in groupby(values)]


# ---------------------------------------------------------------- what has which element


def _counted(windows: Windows, known: Elements) -> list[_Counted]:
    window, entry, often = windows.entries
    size = len(windows.blocks)
    places = np.concatenate([windows.blocks["address"], windows.accesses["address"]])
    functions = windows.symbols.index(places)
    # Blocks, and behind them accesses: how many of each element they have.
    number = np.where(entry < ACCESS, entry, size + (entry & ~ACCESS))
    counts = {
        key: (element, each)
        for name, element in known.elements.items()
        for key, each in _each(name, element, windows, known)
        if each.any()
    }
    any_has = np.zeros(len(places), np.bool_)
    for _, each in counts.values():
        any_has |= each > 0
    here = np.flatnonzero(any_has[number])
    window_here, number_here, often_here = window[here], number[here], often[here]
    caller = _callers(windows, here, functions[number], _named(windows.symbols, known.through))
    found = []
    for key, (element, each) in counts.items():
        mine = np.flatnonzero(each[number_here] > 0)
        whose = caller[mine] if element.functions else functions[number_here[mine]]
        count = each[number_here[mine]] * often_here[mine]
        owners, owner = np.unique(whose, return_inverse=True)
        found.append(_Counted(key, window_here[mine], count, owner.reshape(-1), owners))
    return [one for one in found if len(one.count)]


def _callers(windows: Windows, here: Ints, function: Ints, through: set[int]) -> Ints:
    """Who calls what entries begin: what ran before in the same window, where its order is known.

    ``function`` is that of each entry of all windows; those of ``through`` are passed over.
    """
    window = windows.entries[0]
    ordered = windows.windows["is_ordered"].astype(bool)
    passes = np.isin(function, np.array(sorted(through), np.int64))
    at, left = here - 1, np.ones(len(here), np.bool_)
    for _ in range(_PASSED):
        left = left & (at >= 0) & (window[at] == window[here]) & passes[at]
        if not left.any():
            break
        at = at - left
    known = (at >= 0) & (window[at] == window[here]) & ordered[window[here]]
    found: Ints = np.where(known, function[at], -2)
    return found


def _named(symbols: Symbols, patterns: Sequence[str]) -> set[int]:
    """Numbers of the functions that globs name."""
    is_named = re.compile("|".join(map(translate, patterns))).match
    return {n for n, name in enumerate(symbols.names) if is_named(name.partition(".")[0])}


def _each(
    name: str, element: Element, windows: Windows, known: Elements
) -> Iterator[tuple[str, Ints]]:
    """How many of an element each block and each access has, by the element's key."""
    blocks, accesses = len(windows.blocks), len(windows.accesses)
    yield name, np.concatenate([_of_blocks(windows, element), np.zeros(accesses, int)])
    if element.access is None or not accesses:
        return
    devices = np.array([known.device(region) for region in windows.devices])
    device = devices[windows.accesses["device"]]
    wanted = windows.accesses["is_store"] == (element.access == "store")
    for one in sorted(set(device[wanted].tolist())):
        here = ((device == one) & wanted).astype(np.int64)
        yield f"{name}.{one}", np.concatenate([np.zeros(blocks, np.int64), here])


def _of_blocks(windows: Windows, element: Element) -> Ints:
    """How many of an element each block has; shape (blocks,)."""
    address = windows.blocks["address"]
    words = windows.special["word"]
    hit = _matches(words, element.words) & ~_matches(words, element.but)
    owner = np.repeat(np.arange(len(address)), windows.blocks["special"])
    counts = np.bincount(owner[hit], minlength=len(address)).astype(np.int64)
    if element.functions:
        counts += _enters(windows, element.functions)
    span = windows.symbols.span(VECTORS)
    if element.vectors and span:
        for vector in element.vectors:
            counts += address == np.uint64(span[0] + vector)
    return counts


def _enters(windows: Windows, patterns: Sequence[str]) -> Ints:
    """Which blocks begin one of the functions that globs name; shape (blocks,)."""
    address, symbols = windows.blocks["address"], windows.symbols
    function = symbols.index(address)
    begins = np.flatnonzero((function >= 0) & (symbols.starts[function] == address))
    named = _named(symbols, patterns)
    counts = np.zeros(len(address), np.int64)
    counts[begins] = [number in named for number in function[begins].tolist()]
    return counts


def _matches(words: Any, patterns: Sequence[tuple[int, int]]) -> Any:
    hit = np.zeros(len(words), np.bool_)
    for mask, value in patterns:
        hit |= (words & np.uint32(mask)) == np.uint32(value)
    return hit
