"""What an I/O costs besides instructions: register accesses, barriers, atomics, wake-ups ...

What counts as which element is data (``pipelines/elements.toml``). All are counted in what the
gate's boot executed (`iotoll.measure.windows`), so without what records the trace, and divided into
the sections of I/Os by the same analysis as instructions, which an element takes the place of.
Of boards that keep no windows, the trace itself tells some of them (`in_trace`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from iotoll import _native
from iotoll.boots.counts import idle_functions
from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml
from iotoll.kernels.symbols import Symbols
from iotoll.kernels.tracing import VECTORS
from iotoll.measure.io_order import GATE_COLUMNS
from iotoll.measure.iotable import IoTable
from iotoll.measure.windows import NO_WINDOW, Ints, Ints32, Windows
from iotoll.records.models import CellRecord
from iotoll.records.models.analysis import ElementRecord, Runs
from iotoll.records.models.base import Model
from iotoll.records.text import MINUS

Number = Annotated[int, BeforeValidator(lambda n: int(n, 0) if isinstance(n, str) else n)]
Word = Annotated[tuple[Number, Number], Field(description="mask, and what is left of the word")]

_PASSED = 32
"""Blocks of functions that pass a call on, of which the caller is looked for behind."""

AFFECTED = "instructions"
"""What the kernel's own instructions in some functions are called among elements."""

SHARE = 0.01
"""Functions that have less of an element per I/O are not named."""


class Element(Model):
    """One kind of cost; each way of counting adds to the others.

    ``machine`` is the only one that has it; ``on`` are fields that are others on a machine.
    """

    one: str
    many: str
    machine: Literal["arm64", "x86_64"] | None = None
    on: dict[str, Element] = Field(default_factory=dict)
    words: list[Word] = Field(default_factory=list)
    but: list[Word] = Field(default_factory=list)
    functions: list[str] = Field(default_factory=list)
    handlers: list[str] = Field(default_factory=list)
    vectors: list[int] = Field(default_factory=list)
    access: Literal["load", "store"] | None = None
    values: dict[str, int] = Field(
        default_factory=dict, description="functions (globs), and which argument is summed"
    )
    touch: Literal["data_lines", "code_lines", "l1d_misses", "l1i_misses", "l2_misses"] | None = (
        None
    )
    trace: Literal["requests", "kib"] | None = None
    events: list[str] = Field(
        default_factory=list, description="events of the trace, in an I/O's own time"
    )

    @model_validator(mode="before")
    @classmethod
    def _on_machines(cls, data: Any) -> Any:
        """What is others on a machine stands for what it replaces alone."""
        own = {name: value for name, value in data.items() if name != "on"}
        return {
            **own,
            "on": {machine: {**own, **more} for machine, more in data.get("on", {}).items()},
        }


class Elements(Model):
    """The file of elements.

    ``devices`` are names of memory regions, as globs, with their own; ``through`` are functions
    that only pass a call on.
    """

    through: list[str]
    devices: dict[str, str]
    elements: dict[str, Element]

    def of(self, machine: str) -> Elements:
        """Those that a machine has, as they are counted there."""
        known = {
            name: one.on.get(machine, one)
            for name, one in self.elements.items()
            if one.machine in (None, machine)
        }
        return self.model_copy(update={"elements": known})

    def device(self, region: str) -> str:
        """What the device of a memory region is called."""
        return next((n for p, n in self.devices.items() if fnmatchcase(region, p)), region)

    def text(self, key: str, number: float, minus: str = MINUS) -> str:
        """``+1 register read of UFS``, of an element as `ElementRecord` is named by."""
        name, _, device = key.partition(".")
        known = self.elements.get(name)
        kind = (known.one if abs(number) == 1 else known.many) if known else name
        amount = f"{number:+g}".replace("-", minus)
        return f"{amount} {kind}" + (f" of {device}" if device else "")


@lru_cache(maxsize=1)
def load_elements() -> Elements:
    """The elements that are counted; raises UsageError when their file is not valid."""
    path = data_dir("pipelines") / "elements.toml"
    try:
        return Elements.model_validate(load_toml(path))
    except ValidationError as error:
        raise first_error(path, error) from error


@dataclass(frozen=True)
class _InWindows:
    """What windows have of an element: which of them, how much, and whose it is there.

    ``owners`` are functions as `Symbols.index` has them: those that have the instruction, or call
    what is counted. ``owner`` is the place in them; all have the shape (entries with it,).
    """

    window: Ints32
    count: Ints
    owner: Ints
    owners: Ints | Ints32

    def until(self, windows: Windows) -> Ints:
        """How much was executed before each mark of the clock."""
        size = len(windows.windows)
        return windows.sums(np.bincount(self.window, self.count, size).astype(np.int64))

    def of(self, windows: Windows, low: int, high: int) -> Ints:
        """How much each of ``owners`` has in what marks ``low`` to ``high`` end."""
        ran = windows.marks["window"][low:high].astype(np.int64)
        size = len(windows.windows)
        often = np.bincount(ran[ran < size], minlength=size)
        counts = self.count * often[self.window]
        found: Ints = np.bincount(self.owner, counts, len(self.owners)).astype(np.int64)
        return found


@dataclass(frozen=True)
class _AtMarks:
    """The same of what no window repeats: amounts in the window that ends with a mark."""

    mark: Ints
    amount: Ints
    owner: Ints
    owners: Ints | Ints32

    def until(self, windows: Windows) -> Ints:
        """As `_InWindows.until`."""
        return windows.mark_sums(self.mark, self.amount)

    def of(self, windows: Windows, low: int, high: int) -> Ints:
        """As `_InWindows.of`."""
        del windows
        here = (self.mark >= low) & (self.mark < high)
        counts = np.bincount(self.owner[here], self.amount[here], len(self.owners))
        found: Ints = counts.astype(np.int64)
        return found


_Part = _InWindows | _AtMarks


@dataclass(frozen=True)
class _Counted:
    """One element of a boot, by its key: each way in which it is counted."""

    key: str
    parts: list[_Part]


class ElementCounter:
    """Counts the elements of one boot."""

    def __init__(self, windows: Windows, affected: Collection[str] = ()) -> None:
        """``affected`` are functions whose instructions are counted as well, as `AFFECTED`."""
        self._windows = windows
        self._readings = Readings.of(windows)
        self._known = load_elements().of(windows.symbols.machine)
        self._counted = _counted(windows, self._known)
        if affected:
            self._counted.append(_Counted(AFFECTED, [_of_functions(windows, affected)]))
        self._until: list[Ints] = [
            np.sum([part.until(windows) for part in one.parts], axis=0) for one in self._counted
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
        found = [_of_trace(table, self._known) for table in tables]
        every = {n: [self._whole(n, table) for table in tables] for n in range(len(self._counted))}
        here = [place for place, wholes in every.items() if any(whole.any() for whole in wholes)]
        # The analyser cuts the I/Os by the next element while the records of one are made.
        with ThreadPoolExecutor(1) as pool:
            sections = pool.map(lambda n: self._sections(n, path, device, spans, comm), here)
            for place, columns in zip(here, sections, strict=True):
                one = self._counted[place]
                for cell, (table, whole) in enumerate(zip(tables, every[place], strict=True)):
                    if len(columns[cell]["pid"]) != len(table):
                        raise InfrastructureError(f"{path}: {one.key} was cut into other I/Os")
                    if whole.any():
                        found[cell][one.key] = self._record(one, table, whole, columns[cell])
        return found

    def _whole(self, place: int, table: IoTable) -> Ints:
        """How many of an element each I/O has from call to return, shape (I/Os,).

        Other CPUs count as well: each from its last reading of the clock before the call to its
        last one before the return.
        """
        return self._readings.between(self._until[place], table["start"], table.end)

    def _sections(
        self, place: int, path: str, device: str, spans: Sequence[tuple[int, int]], comm: str
    ) -> list[dict[str, Any]]:
        """The columns of `GATE_COLUMNS` with an element in place of instructions, by window."""
        columns = tuple(GATE_COLUMNS.values())
        return cut(self._readings, self._until[place], path, device, spans, comm, columns)

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
        sums: Counter[int] = Counter()
        for low, high in self._windows.reach(int(table["start"].min()), int(table.end.max())):
            for part in one.parts:
                counts = part.of(self._windows, low, high)
                sums.update(dict(zip(part.owners.tolist(), counts.tolist(), strict=True)))
        least = SHARE * len(table)
        named = ((self._windows.symbols.name(n), c) for n, c in sums.items() if c >= max(least, 1))
        # No function takes an exception: arm64's table of vectors does.
        return dict(sorted((name, count) for name, count in named if name != VECTORS))


def _of_trace(table: IoTable, known: Elements) -> dict[str, ElementRecord]:
    """What nothing but the trace says of the I/Os, their KiB: whole ones alone, and no function."""
    found = {}
    for name, element in known.elements.items():
        if element.trace != "kib":
            continue
        rows = np.lexsort((np.arange(len(table)), table["pid"]))
        sizes = {path: int(_kib(path)) for path in set(table["path"].tolist())}
        whole = [sizes[path] for path in table["path"][rows].tolist()]
        if any(whole):
            found[name] = ElementRecord(sections={}, whole=runs_of(whole), functions={})
    return found


_STEP = re.compile(r"(?:^|\+)(?:(\d+)x)?[A-Za-z]+(\d+(?:\.5)?)")
"""Like requests with data that follow each other in a path: how many, and the KiB of each."""

_OTHER = "other"
"""What stands for all paths of a record beyond the most frequent ones."""


def _kib(path: str) -> float:
    """The KiB of a path's requests: 128 of ``4xR32+hFF``."""
    return sum(int(many or 1) * float(kib) for many, kib in _STEP.findall(path))


def in_trace(record: CellRecord) -> dict[str, float]:
    """The elements that the trace of a cell tells, by name: the mean of its measured I/Os.

    Requests and their KiB are those that carried part of an I/O. Events are those in the *own* time
    of I/Os (docs/method.md), so none of other tasks that run meanwhile. What the trace cannot tell
    is left out: what it has no event of, and all events where it does not know whose code ran, or
    where I/Os end before their interrupt and their wake-up do (libaio, io_uring).
    """
    ios = sum(path.ios for path in record.paths)
    found = {}
    for name, element in load_elements().elements.items():
        if element.trace is not None and ios and all(p.path != _OTHER for p in record.paths):
            kib = element.trace == "kib"
            sums = (p.ios * (_kib(p.path) if kib else p.requests) for p in record.paths)
            found[name] = round(sum(sums) / ios, 4)
        elif element.events and _are_counted(record, element.events):
            found[name] = round(_in_own_time(record, element.events), 4)
    return found


def _are_counted(record: CellRecord, events: Collection[str]) -> bool:
    """Whether the trace has all these events, and events in own time were counted at all."""
    seen = record.trace.get("events") or {}
    counted = any(section.probe_events for section in record.sections.values())
    marks = [set(record.marks.get(name, ())) for name in ("start", "end")]
    returned = marks[1] == {"sys_exit"} or marks[0] == {"iomap_dio_rw_begin"}
    return counted and returned and all(seen.get(event) for event in events)


def _in_own_time(record: CellRecord, events: Collection[str]) -> float:
    sections = record.sections.values()
    return sum(section.probe_events.get(event, 0.0) for section in sections for event in events)


@dataclass(frozen=True)
class Readings:
    """Readings of the trace clock: ``cpus`` has those of each CPU, by number, in order of time.

    ``times`` are those of all of them, shape (readings,), by the same numbers.
    """

    times: Ints
    cpus: list[Ints]

    @classmethod
    def of(cls, windows: Windows) -> Readings:
        """Those of a boot."""
        return cls(windows.times, windows.in_time)

    @cached_property
    def _of_cpus(self) -> list[tuple[Ints, Ints]]:
        """The readings of each CPU by number, and their times."""
        return [(mine, self.times[mine]) for mine in self.cpus]

    def between(self, until: Ints, begin: Ints, end: Ints) -> Ints:
        """What all CPUs have between pairs of times, shape (pairs,).

        ``until`` is what each reading has before it on its CPU, shape (readings,).
        """
        total = np.zeros(len(begin), np.int64)
        for mine, times in self._of_cpus:
            for sign, at in ((-1, begin), (1, end)):
                place = np.searchsorted(times, at, side="right")
                # Before its first reading a CPU has nothing.
                read = place > 0
                total[read] += sign * until[mine[place[read] - 1]]
        return total

    def counts(self, until: Ints, begin: int, end: int) -> bytes:
        """Option ``counts`` of the analyser, for events between two times."""
        rows = []
        for cpu, (mine, times) in enumerate(self._of_cpus):
            low = max(int(np.searchsorted(times, begin)) - 1, 0)
            here = mine[low : int(np.searchsorted(times, end, side="right"))]
            number = np.full(len(here), cpu, np.int64)
            rows.append(np.column_stack((number, self.times[here], until[here])))
        return np.concatenate(rows).astype(np.uint64).tobytes()


def cut(
    readings: Readings,
    until: Ints,
    path: str,
    device: str,
    spans: Sequence[tuple[int, int]],
    comm: str,
    columns: Sequence[str],
) -> list[dict[str, Any]]:
    """The I/Os of windows of a trace, cut by the analyser, with another count for instructions.

    ``until`` is how much of it each reading has before it on its CPU; shape (readings,).
    Returns for each of the ``spans`` these columns, ``pid`` and ``start``, in order of end.
    """
    # Those before the first window and behind the last one are asked for by nobody.
    last = max(min(span[1], np.iinfo(np.int64).max) for span in spans)
    names = ("pid", "start", *columns)
    parts: list[list[dict[str, Any]]] = [[] for _ in spans]
    _native.stream(
        path,
        [(*span, device, True) for span in spans],
        lambda window, batch: parts[window].append(batch),
        columns=set(names),
        counts=readings.counts(until, spans[0][0], last),
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
    places = np.concatenate([windows.blocks["address"], windows.accesses["address"]])
    functions = windows.symbols.index(places)
    number = windows.numbers
    function = functions.astype(np.int32)[number]
    found: dict[str, list[_Part]] = {}
    for key, part in (
        *_of_windows(windows, known, number, function),
        *_of_values(windows, known, function),
        *_of_touches(windows, known, functions),
    ):
        found.setdefault(key, []).append(part)
    return [_Counted(key, parts) for key, parts in found.items()]


def _of_functions(windows: Windows, names: Collection[str]) -> _InWindows:
    """The instructions of some functions."""
    window, entry, often = windows.entries
    function = windows.symbols.index(windows.blocks["address"])
    numbers = [n for n, name in enumerate(windows.symbols.names) if name in names]
    # Accesses have no instructions.
    is_theirs = np.append(np.isin(function, np.array(numbers, np.int64)), False)
    here = np.flatnonzero(is_theirs[np.minimum(entry, np.uint32(len(function)))])
    block = entry[here]
    count = windows.blocks["instructions"][block].astype(np.int64) * often[here]
    owners, owner = np.unique(function[block], return_inverse=True)
    return _InWindows(window[here], count, owner.reshape(-1), owners)


def _of_windows(
    windows: Windows, known: Elements, number: npt.NDArray[np.uint32], function: Ints32
) -> Iterator[tuple[str, _Part]]:
    """What blocks and accesses have; ``number`` is `Windows.numbers`, ``function`` its own."""
    window, _, often = windows.entries
    counts = {
        key: (element, each)
        for name, element in known.elements.items()
        for key, each in _each(name, element, windows, known)
        if each.any()
    }
    any_has = np.zeros(len(windows.blocks) + len(windows.accesses), np.bool_)
    for _, each in counts.values():
        any_has |= each > 0
    here = np.flatnonzero(any_has[number] & ~_idles(windows, function))
    window_here, number_here, often_here = window[here], number[here], often[here]
    caller = _callers(windows, here, function, _named(windows.symbols, known.through))
    for key, (element, each) in counts.items():
        mine = np.flatnonzero(each[number_here] > 0)
        if not len(mine):
            continue
        whose = caller[mine] if element.functions else function[here[mine]]
        count = each[number_here[mine]] * often_here[mine]
        owners, owner = np.unique(whose, return_inverse=True)
        yield key, _InWindows(window_here[mine], count, owner.reshape(-1), owners)


def _idles(windows: Windows, function: Ints32) -> npt.NDArray[np.bool_]:
    """Which entries the CPU executes while it idles; ``function`` is that of each entry.

    How often it idles before an I/O has ended depends on when its parts end, so it is no cost of
    the I/O. It idles as in `iotoll.boots.counts`: from where a function of the idle loop runs until
    an exception is taken, or others are worked for. Where the order in a window is not known, only
    the loop's own functions are told.
    """
    known = windows.symbols.names
    begins, ends = (
        # -1 and -2 are no functions
        np.array([name in names for name in known] + [False, False])[function]
        for names in map(set, idle_functions(windows.symbols))
    )
    found: npt.NDArray[np.bool_] = begins
    window = windows.entries[0]
    ordered = windows.windows["is_ordered"].astype(bool)
    has_any = np.zeros(len(windows.windows), np.bool_)
    has_any[window[begins]] = True
    (here,) = np.nonzero((has_any & ordered)[window])
    if len(here):
        # The last entry so far that decides it, if there is one in the same window.
        decides = np.where((begins | ends)[here], np.arange(len(here)), 0)
        last = here[np.maximum.accumulate(decides)]
        found[here] = begins[last] & (window[last] == window[here])
    return found


def _of_values(windows: Windows, known: Elements, function: Ints32) -> Iterator[tuple[str, _Part]]:
    """What functions were called with; ``function`` is that of each entry."""
    values = windows.values
    mark = values["mark"].astype(np.int64)
    ended = mark < len(windows.marks)
    window = np.full(len(values), NO_WINDOW, np.int64)
    window[ended] = windows.marks["window"][mark[ended]]
    place = values["place"].astype(np.int64)
    begins = np.searchsorted(windows.entries[0], np.arange(len(windows.windows)))
    there = (window != NO_WINDOW) & (place != NO_WINDOW)
    here = np.where(there, begins[np.where(there, window, 0)] + place, 0) if len(begins) else place
    here = np.where(here < len(function), here, 0)
    caller = _callers(windows, here, function, _named(windows.symbols, known.through))
    caller = np.where(there, caller, -2)
    for name, element in known.elements.items():
        named = _named_in(windows.called, element.values)
        mine = np.flatnonzero(np.isin(values["which"], named) & ended)
        if len(mine):
            owners, owner = np.unique(caller[mine], return_inverse=True)
            amount = values["amount"][mine].astype(np.int64)
            yield name, _AtMarks(mark[mine], amount, owner.reshape(-1), owners)


def _of_touches(windows: Windows, known: Elements, functions: Ints) -> Iterator[tuple[str, _Part]]:
    """Lines of cache and misses, where they were counted; ``functions`` is that of each block."""
    touches = windows.touches
    if touches is None:
        return
    touches = touches[touches["mark"] < len(windows.marks)]
    mark = touches["mark"].astype(np.int64)
    owners, owner = np.unique(functions[touches["block"]], return_inverse=True)
    for name, element in known.elements.items():
        if element.touch is not None:
            amount = touches[element.touch].astype(np.int64)
            yield name, _AtMarks(mark, amount, owner.reshape(-1), owners)


def _named_in(names: Sequence[str], globs: Iterable[str]) -> list[int]:
    known = list(globs)
    return [n for n, name in enumerate(names) if any(fnmatchcase(name, g) for g in known)]


def _callers(windows: Windows, here: Ints, function: Ints32, through: set[int]) -> Ints32:
    """Who calls what entries begin: what ran before in the same window, where its order is known.

    ``function`` is that of each entry of all windows; those of ``through`` are passed over.
    """
    window = windows.entries[0]
    ordered = windows.windows["is_ordered"].astype(bool)
    passes = np.zeros(len(windows.symbols.names) + 2, np.bool_)  # -1 and -2 are no functions
    passes[list(through)] = True
    at, left = here - 1, np.ones(len(here), np.bool_)
    for _ in range(_PASSED):
        left = left & (at >= 0) & (window[at] == window[here]) & passes[function[at]]
        if not left.any():
            break
        at = at - left
    known = (at >= 0) & (window[at] == window[here]) & ordered[window[here]]
    found: Ints32 = np.where(known, function[at], np.int32(-2))
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
    if named := [*element.functions, *element.handlers]:
        counts += _enters(windows, named)
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
