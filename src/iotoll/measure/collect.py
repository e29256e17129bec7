"""The step *collect*: the boots of one side become its `SideResult`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from pathlib import Path

from iotoll.core.errors import UsageError
from iotoll.kernels.changed import affected_functions, differing_functions
from iotoll.kernels.symbols import Symbols, read_functions
from iotoll.measure import figures
from iotoll.measure.board_records import NAME as RECEIVED
from iotoll.measure.board_records import board_records
from iotoll.measure.boot_trace import analyze_boot, corrected
from iotoll.measure.elements import in_trace
from iotoll.measure.figures import Figures
from iotoll.measure.pmu import read_pmu
from iotoll.measure.same_work import unlike
from iotoll.measure.validity import broken_rule, load_rules
from iotoll.records import results, sealed
from iotoll.records.models import (
    BootRecord,
    BuildRecord,
    CellRecord,
    Clock,
    SideResult,
    SourceRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir

_ABREAST = 2
"""Boots that are analysed at a time."""


def collect(
    run: RunDir,
    cells: Sequence[str],
    clock: Clock,
    side: Side,
    numbers: Sequence[int],
    base: SideResult | None = None,
    anew: bool = False,
) -> SideResult:
    """Analyse the side's boots and write ``result.json``; traces are read, never the board.

    A candidate is given its ``base``, whose work it must have done (`iotoll.measure.same_work`).
    ``anew``: no analysis of before counts. Else the last one of a base is remembered.
    """
    if side != "base" or anew:
        return _collect(run, cells, clock, side, numbers, base, anew)
    known = _collected.get(run.root)
    if known is None or known[0] != _inputs(run, cells, clock, numbers):
        found = _collect(run, cells, clock, side, numbers, base, anew)
        _collected.clear()
        known = _collected[run.root] = _inputs(run, cells, clock, numbers), found
        return found
    for boot in known[1].boots:
        sealed.check(run.boot("base", boot.boot), boot.digests)
    return known[1]


_collected: dict[Path, tuple[tuple[object, ...], SideResult]] = {}


def _collect(
    run: RunDir,
    cells: Sequence[str],
    clock: Clock,
    side: Side,
    numbers: Sequence[int],
    base: SideResult | None,
    anew: bool,
) -> SideResult:
    source = run.side(side) / "source.json"
    boots: list[BootRecord] = []
    records: dict[str, list[CellRecord]] = {name: [] for name in cells}
    costs = base.boots[0].event_cost if base and base.boots else calibrated_costs(run, anew)
    build = results.read(run.build(side) / "build.json", BuildRecord)
    # Instructions are counted alike whatever the board's temperature or governor.
    timed = clock is Clock.TIME
    # What cuts a trace, or sums an array, lets the other thread run.
    with ThreadPoolExecutor(_ABREAST) as pool:
        every = list(pool.map(partial(_of_boot, run, side, anew), numbers))
    for folder, record, found in every:
        boots.append(record.model_copy(update={"event_cost": costs}))
        pmu = read_pmu(folder)
        why = broken_rule(record.facts, build.config_sha256, load_rules()) if timed else None
        for name, cell in found.items():
            other = _at(base, name, len(records[name]))
            unusable = why or cell.invalid or (unlike(other, cell) if other else None)
            counted = in_trace(cell) if cell.vector is None else None
            more = {"invalid": unusable, "counted": counted, "pmu": pmu.get(name, cell.pmu)}
            records[name].append(corrected(cell.model_copy(update=more), costs))
    result = SideResult(
        side=side,
        clock=clock,
        unit=clock.unit,
        source=results.read(source, SourceRecord) if source.is_file() else None,
        build=build,
        boots=boots,
        cells=records,
        changed=_changed(run) if base and _is_counted(records) else None,
    )
    results.write(run.side(side) / "result.json", result)
    return result


def _inputs(
    run: RunDir, cells: Sequence[str], clock: Clock, numbers: Sequence[int]
) -> tuple[object, ...]:
    """All that decides what `collect` finds of a base, and what it has written."""
    boots = [run.boot("base", number) / "boot.json" for number in numbers]
    functions = [affected(run, results.read(path, BootRecord)) for path in boots]
    files = [run.build("base") / "build.json", run.side("base") / "source.json"]
    files += [run.side("base") / "result.json", *boots]
    return (*cells, clock, *functions, *map(results.identity, files))


def _of_boot(
    run: RunDir, side: Side, anew: bool, number: int
) -> tuple[Path, BootRecord, Mapping[str, CellRecord]]:
    folder = run.boot(side, number)
    record = results.read(folder / "boot.json", BootRecord)
    return folder, record, analyze(folder, record, affected(run, record), anew)[0]


def _is_counted(records: Mapping[str, Sequence[CellRecord]]) -> bool:
    return any(record.work for several in records.values() for record in several)


def _changed(run: RunDir) -> list[str] | None:
    """Functions that one of the images has not, or that have other code in the two."""
    both = _images(run)
    return list(differing_functions(*both)) if both else None


def affected(run: RunDir, boot: BootRecord) -> frozenset[str]:
    """Functions that the candidate affects, where several CPUs make the boot's totals unsteady.

    None for boards with one CPU, and where the images do not tell.
    """
    if not boot.shares_clock or run.manifest.kind != "gate":
        return frozenset()
    both = _images(run)
    return affected_functions(*both) if both else frozenset()


def _images(run: RunDir) -> tuple[Symbols, Symbols] | None:
    """The functions of both sides' images; None where one of these has no symbols."""
    try:
        base, candidate = (read_functions(run.build(side) / "Image") for side in SIDES)
    except UsageError:
        return None
    return base, candidate


def _at(side: SideResult | None, cell: str, place: int) -> CellRecord | None:
    known = side.cells.get(cell, []) if side else []
    return known[place] if place < len(known) else None


def calibrated_costs(run: RunDir, anew: bool = False) -> dict[str, float]:
    """Instructions per trace event, from the base's first boot: the same for both sides.

    Empty for a gate on the clock `time`, whose boots have no calibration runs.
    """
    folder = run.boot("base", 1)
    record = results.read(folder / "boot.json", BootRecord)
    if record.clock is Clock.TIME and run.manifest.kind == "gate":
        return {}
    return analyze(folder, record, affected(run, record), anew)[1]


def analyze(
    folder: Path,
    boot: BootRecord,
    functions: frozenset[str] = frozenset(),
    anew: bool = False,
) -> Figures:
    """The cells' records and the events' costs of a boot, by whoever cut its I/Os.

    ``functions`` are counted separately as well (`affected`). It is remembered, for the same
    record and files: the base's first boot is asked for its costs and for its cells, and all first
    boots again after further ones. Other runs find it as well (`iotoll.measure.figures`), unless
    it is wanted ``anew``.
    """
    sealed.check(folder, boot.digests)
    # A record of an older iotoll does not say which files it is of.
    if not boot.digests:
        return _analyzed(folder, boot, functions)
    return _known(folder, boot.model_dump_json(), functions, anew)


@lru_cache(maxsize=16)
def _known(folder: Path, text: str, functions: frozenset[str], anew: bool) -> Figures:
    boot = BootRecord.model_validate_json(text)
    found = None if anew else figures.find(boot, functions)
    if found is None:
        found = _analyzed(folder, boot, functions)
        figures.keep(boot, functions, found)
    return found


def _analyzed(folder: Path, boot: BootRecord, functions: frozenset[str]) -> Figures:
    if boot.measured == "board":
        return board_records(folder / RECEIVED, boot)
    return analyze_boot(folder, boot, functions)
