"""`iotoll explain --untraced`: both kernels boot without events, and functions cut their I/Os.

The job is the run's own but for its events: one that never happens is recorded in their place, so
that the cells are still marked in the trace. Only the chosen cells run, without calibration.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_low

import numpy as np

from iotoll.boards.plugin import plugin_words
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import plan_boot
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.kernels.symbols import Symbols
from iotoll.measure.boot_trace import BootTraceFile
from iotoll.measure.explain.record import Record, read_record
from iotoll.measure.explain.untraced import CutIos, cut_cell, untraced_probes
from iotoll.measure.explain.walk import Walker
from iotoll.records import results
from iotoll.records.models import (
    CellRecord,
    Section,
    SideResult,
    UntracedCell,
    UntracedRecord,
    UntracedSection,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.run.explain import Explainer
from iotoll.run.explain_boots import boot_recorded
from iotoll.run.explained import images

NEVER = "oom:oom_score_adj_update"
"""An event that every kernel has and no workload of ours meets: trace-cmd wants at least one."""

_MODES = ("direct", "sync")  # of cells whose I/Os are calls of pread and pwrite


class Untraced:
    """The boots of one run without events; raises UsageError where it cannot be explained."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._run = explainer.run
        self._folder = explainer.folder / "untraced"

    def measure(self, cells: Sequence[str]) -> UntracedRecord:
        """Boot both kernels; leaves ``untraced.json`` in the run directory."""
        for cell in cells:
            if not cell.endswith(_MODES):
                raise UsageError(f"{cell}: only cells of pread and pwrite are cut without events")
        devices = dict.fromkeys(cell.partition("-")[0] for cell in cells)
        # A record of all cells would fill a disk: one device's has about a gigabyte.
        found = [
            one
            for device in devices
            for one in self._sides([c for c in cells if c.partition("-")[0] == device])
        ]
        record = UntracedRecord(
            board=self._run.manifest.board, cells=found, images=images(self._run)
        )
        results.write(self._run.untraced, record)
        return record

    def _sides(self, cells: Sequence[str]) -> list[UntracedCell]:
        symbols = {side: self._explainer.symbols(side) for side in SIDES}
        records = {side: self._folder / f"{side}-record" for side in SIDES}
        try:
            plans = {side: self._plan(side, cells, symbols[side], records[side]) for side in SIDES}
            boot_recorded(list(plans.values()), self._explainer.progress, "untraced, recorded")
            return [
                one
                for side, plan in plans.items()
                for one in self._cut_side(plan, records[side], symbols[side], cells)
            ]
        finally:
            for folder in records.values():
                shutil.rmtree(folder, ignore_errors=True)

    def _cut_side(
        self, plan: BootPlan, recorded: Path, symbols: Symbols, cells: Sequence[str]
    ) -> list[UntracedCell]:
        cut = self._cut(plan, read_record(recorded / "record"), symbols, cells)
        known = results.read(self._run.side(plan.side) / "result.json", SideResult).cells
        return [_cell(plan.side, cell, cut[cell], known.get(cell, [])) for cell in cells]

    def _plan(self, side: Side, cells: Sequence[str], symbols: Symbols, recorded: Path) -> BootPlan:
        """The run's boot without events, recorded, in a folder of its own."""
        bench = self._explainer.flow.bench
        matrix = bench.matrix.model_copy(update={"events": {"common": [NEVER]}, "kprobes": {}})
        quiet = replace(bench, matrix=matrix, cells=list(cells), calibrate=False)
        plan = plan_boot(RunDir(self._folder), quiet, side, 1)
        shutil.rmtree(recorded, ignore_errors=True)
        recorded.mkdir(parents=True)
        words = plugin_words(recorded / "record", untraced_probes(symbols), None)
        kernel, folder = self._run.build(side) / "Image", self._folder / side
        return replace(plan, kernel=kernel, folder=folder, words=words)

    def _cut(
        self, plan: BootPlan, record: Record, symbols: Symbols, cells: Sequence[str]
    ) -> Mapping[str, CutIos]:
        windows = _windows(plan.folder, record)
        walker = Walker(record, symbols)
        found = {}
        for cell in cells:
            if cell not in windows:
                raise InfrastructureError(f"{plan.folder}: the board handed over no mark of {cell}")
            kprobes = self._explainer.flow.bench.matrix.kprobes.get(cell.partition("-")[0], [])
            # r:GROUP/EVENT FUNCTION: what the traced boot's doorbell is found by.
            functions = [probe.split()[-1] for probe in kprobes]
            found[cell] = cut_cell(record, walker, symbols, windows[cell], functions)
        return found


def _windows(folder: Path, record: Record) -> dict[str, tuple[int, int]]:
    """The runs of each cell: from its mark in the trace to the next one."""
    found = {}
    for path in sorted(folder.glob("*/trace.dat")):
        for window in BootTraceFile(path).windows:
            at = record.at(np.array([window.start, window.end]))
            if at[0] < 0:
                raise InfrastructureError(f"{path}: the mark of {window.name} is not in the record")
            runs = record.clock["run"].astype(np.int64)
            found[window.name] = (
                int(runs[at[0]]),
                int(runs[at[1]]) if at[1] >= 0 else len(record.runs),
            )
    return found


def _cell(side: Side, cell: str, cut: CutIos, known: Sequence[CellRecord]) -> UntracedCell:
    # Of several requests only the first one's way is cut: what follows it is not the return.
    single = all(_is_whole(known, section) for section in cut.sections)
    sections = [
        UntracedSection(
            section=section,
            traced=_traced(known, section),
            calibrated=known[0].sections[section].corrected_median if single else None,
            untraced=float(median_low(values.tolist())),
        )
        for section, values in cut.sections.items()
        if len(values) and (single or section is not Section.RETURN)
    ]
    ios = len(next(iter(cut.sections.values())))
    return UntracedCell(cell=cell, side=side, ios=ios, not_cut=cut.not_cut, sections=sections)


def _traced(known: Sequence[CellRecord], section: Section) -> float | None:
    """The median that the gate compares, of the first boot."""
    ordered = known[0].in_order if known else None
    if ordered is None:
        return None
    values = [v for v in ordered.sections.get(section, []) if v]
    return float(median_low(values)) if values else None


def _is_whole(known: Sequence[CellRecord], section: Section) -> bool:
    """Whether an I/O's first request is usually all of it: the gate's value is the section's."""
    part = known[0].sections.get(section) if known else None
    return part is not None and part.own.median == _traced(known, section)
