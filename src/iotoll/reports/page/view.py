"""Arranges the evidence of a run for reading, for HTML and terminal alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from iotoll.measure.fio_words import fio_lines, fio_warnings
from iotoll.records.models import (
    CellRecord,
    CellVerdict,
    Clock,
    Comparison,
    Outcome,
    Section,
    SectionComparison,
    SectionRecord,
    SideResult,
    Unit,
    WorkComparison,
)
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.records.models.io_checks import StepRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES
from iotoll.records.text import CellName, cell_name, change, clean, plural, signed
from iotoll.reports.page.counts import counts, element_lines
from iotoll.reports.page.evidence import Evidence
from iotoll.verdict.growth import moved_alone

ONCE = "in one of two pairs"
"""What a verdict says of growth that a second pair of boots did not show."""


@dataclass(frozen=True)
class SectionFigures:
    """One section of one cell on one side; medians over boots of each boot's statistic.

    ``raw`` is as measured, ``corrected`` without the calibrated cost of the trace's recorder (0
    where that exceeds it). Where the board counted the recorder, neither has it: they are equal.
    ``share_of_total`` is the mean of the section over the mean of the whole I/O.
    ``ios`` and ``clean`` are summed over boots.
    """

    raw: float | None = None
    corrected: float | None = None
    p99: float | None = None
    share_of_total: float | None = None
    ios: int = 0
    clean: int = 0

    @property
    def clean_share(self) -> float | None:
        """The share of I/Os that nothing foreign interrupted inside this section."""
        return self.clean / self.ios if self.ios else None


@dataclass(frozen=True)
class SectionRow:
    """One line of a cell's table."""

    section: Section
    sides: Mapping[Side, SectionFigures]
    comparison: SectionComparison | None


@dataclass(frozen=True)
class StepRow:
    """A sub-step of a section, with the record of each side's first usable boot."""

    section: Section
    step: str
    meaning: str
    sides: Mapping[Side, StepRecord]


@dataclass(frozen=True)
class CellView:
    """Everything that is known of one cell."""

    name: CellName
    outcome: Outcome | None
    why: str
    rows: tuple[SectionRow, ...]
    troubles: tuple[str, ...]
    counts: tuple[tuple[str, str], ...] = ()
    steps: tuple[StepRow, ...] = ()
    whole: Comparison | None = None
    work: WorkComparison | None = None
    recorder_counted: bool = False
    timed: bool = False

    @property
    def has_values(self) -> bool:
        """Whether any section has a figure."""
        return any(f.raw is not None for row in self.rows for f in row.sides.values())

    @property
    def moved_alone(self) -> Comparison | None:
        """The comparison of the whole I/O where it moved by more than its sections."""
        if self.whole is None:
            return None
        sections = [row.comparison for row in self.rows if row.comparison]
        return self.whole if moved_alone(self.whole, sections) else None

    def change(self, delta: float, base: float) -> str:
        """``+300 (+5.3 %)``; the size alone where ``base`` has the cost of recording the trace.

        A share of that would be smaller than the finding's, which is of what the kernel costs.
        """
        if not base or not (self.recorder_counted or self.timed):
            return signed(delta)
        return change(delta, delta / base)

    def total(
        self, side: Side, sections: Iterable[Section], corrected: bool = True
    ) -> float | None:
        """Return the sum of the sections' medians, or None when one of them is missing."""
        wanted = set(sections)
        chosen = [row.sides[side] for row in self.rows if row.section in wanted]
        values = [f.corrected if corrected else f.raw for f in chosen]
        known = [v for v in values if v is not None]
        return sum(known) if known and len(known) == len(wanted) else None

    @property
    def path(self) -> tuple[float, float] | None:
        """The software path as judged (sections 1, 2 and 4): base, candidate; None: not whole."""
        found = [r.comparison for r in self.rows if r.section in SOFTWARE_SECTIONS]
        known = [c for c in found if c is not None]
        if len(known) != len(SOFTWARE_SECTIONS):
            return None
        return sum(c.base for c in known), sum(c.candidate for c in known)

    @property
    def moved(self) -> bool:
        """Whether any section, gated or not, or the whole I/O left its threshold."""
        sections = any(r.comparison and r.comparison.has_moved for r in self.rows)
        return sections or self.moved_alone is not None


@dataclass(frozen=True)
class DeviceRatio:
    """Software overhead of one workload on a device, without the recorder, as a share of UFS's."""

    name: CellName
    ufs: Mapping[Side, float]
    other: Mapping[Side, float]

    def share(self, side: Side) -> float | None:
        """Return other / UFS for one side, None when either is missing."""
        if side not in self.ufs or side not in self.other or not self.ufs[side]:
            return None
        return self.other[side] / self.ufs[side]


def shown_sections(clock: Clock) -> tuple[Section, ...]:
    """Return the sections that have a meaning on a clock: ``hardware`` has none in instructions."""
    if clock is Clock.INSTRUCTIONS:
        return tuple(s for s in Section if s is not Section.HARDWARE)
    return tuple(Section)


def section_label(record: CellRecord, section: Section) -> str:
    """Return a section's name; of two that the source does not tell apart, both."""
    if section is Section.HARDWARE and Section.COMPLETION in record.not_in_source:
        return f"{section.value} + {Section.COMPLETION.value}"
    return section.value


def lost_events(record: CellRecord) -> int:
    """Return how many trace events were lost, as far as the trace can tell."""
    count = record.trace.get("lost_events", 0)
    return count if isinstance(count, int) else 0


def dropped_ios(record: CellRecord) -> int:
    """Return how many I/Os were left out because they touch a lost range."""
    return record.ios.get("dropped_lost", 0)


def raw_median(record: SectionRecord, clock: Clock) -> float | None:
    """Return the section's median as recorded: own instructions, or elapsed time."""
    order = (record.own, record.elapsed)
    if clock is Clock.TIME:
        order = (record.elapsed, record.own)
    return next((s.median for s in order if s.count and s.median is not None), None)


def _middle(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return median(known) if known else None


def _not_negative(value: float | None) -> float | None:
    # The recorder's cost is an average: taken off a section that held no event, it exceeds it.
    return None if value is None else max(value, 0.0)


def _share(record: CellRecord, section: Section) -> float | None:
    # Sections of one I/O add up exactly, so means (unlike medians) give shares that add up to 1.
    part, whole = record.sections[section].elapsed.mean, record.total.elapsed.mean
    return part / whole if part is not None and whole else None


def ends_unmarked(record: CellRecord) -> bool:
    """Whether no event marks where a completion begins: its zeros are no values.

    So it is with a disk that ends a request in its queue function (null_blk, scsi_debug).
    """
    return set(record.marks.get("interrupt", ())) == {"none"}


def figures(records: list[CellRecord], section: Section) -> SectionFigures:
    """Condense one section over the usable boots of one cell."""
    told = [r for r in records if not (section is Section.COMPLETION and ends_unmarked(r))]
    usable = [r for r in told if r.invalid is None and section in r.sections]
    parts = [r.sections[section] for r in usable]
    if not parts:
        return SectionFigures()
    return SectionFigures(
        raw=_middle(raw_median(p, r.clock) for p, r in zip(parts, usable, strict=True)),
        # Of some boots only it would be another quantity than the raw figure beside it.
        corrected=_not_negative(_middle(p.corrected_median for p in parts))
        if all(p.corrected_median is not None for p in parts)
        else None,
        p99=_middle(p.own.p99 if p.own.p99 is not None else p.elapsed.p99 for p in parts),
        share_of_total=_middle(_share(r, section) for r in usable),
        ios=sum(p.own.count or p.elapsed.count for p in parts),
        clean=sum(p.own_clean.count for p in parts),
    )


def _troubles(sides: Mapping[Side, SideResult], cell: str) -> tuple[str, ...]:
    found = []
    for side, result in sides.items():
        records = result.cells.get(cell, [])
        if not records:
            found.append(f"{side}: no values")
        for boot, record in zip(result.boots_of(cell), records, strict=False):
            where = f"{side}, boot {boot}"
            if record.invalid is not None:
                found.append(f"{where}: invalid: {record.invalid}")
            if lost := lost_events(record):
                dropped = plural(dropped_ios(record), "I/O")
                found.append(f"{where}: {plural(lost, 'trace event')} lost, {dropped} left out")
            if record.invalid is None:
                found += [f"{where}: {text}" for text in fio_warnings(record)]
    return tuple(found)


def _counts(sides: Mapping[Side, SideResult], cell: str) -> tuple[tuple[str, str], ...]:
    """The counts of each side's first boot, of elements those of all its boots.

    Once where both sides have the same.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for side, result in sides.items():
        records = result.cells.get(cell, [])
        for record in records[:1]:
            fio = [("fio", text) for agrees, text in fio_lines(record) if agrees]
            for line in (*counts(record), *fio, *element_lines(records)):
                found.setdefault(line, []).append(side)
    both = len(sides) > 1
    return tuple(
        (f"{label} ({', '.join(who)})" if both and len(who) == 1 else label, text)
        for (label, text), who in found.items()
    )


def _steps(evidence: Evidence, cell: str) -> tuple[StepRow, ...]:
    """The sub-steps of the shown sections, in order of the path."""
    rows: dict[tuple[Section, str, str], dict[Side, StepRecord]] = {}
    for side, result in evidence.sides.items():
        usable = [r for r in result.cells.get(cell, []) if r.invalid is None]
        for found in usable[0].steps if usable else ():
            rows.setdefault((found.section, found.step, found.meaning), {})[side] = found
    shown = shown_sections(evidence.clock)
    order = sorted((key for key in rows if key[0] in shown), key=lambda key: shown.index(key[0]))
    return tuple(StepRow(*key, rows[key]) for key in order)


def cells(evidence: Evidence) -> list[CellView]:
    """Return every cell that was judged, measured or tried, in reading order."""
    verdicts: dict[str, CellVerdict] = {}
    if evidence.verdict:
        verdicts = {c.cell: c for c in evidence.verdict.cells}
    names = set(verdicts).union(*(side.cells for side in evidence.sides.values()))
    return [
        _cell(evidence, name, verdicts.get(name.full)) for name in sorted(map(cell_name, names))
    ]


def _cell(evidence: Evidence, name: CellName, verdict: CellVerdict | None) -> CellView:
    compared = {c.section: c for c in verdict.sections} if verdict else {}
    # Where the gate cannot act, a cell's outcome would read as a judgement that nobody made.
    judged = verdict is not None and evidence.verdict is not None and evidence.verdict.can_gate
    rows = tuple(
        SectionRow(
            section,
            {s: figures(r.cells.get(name.full, []), section) for s, r in evidence.sides.items()},
            compared.get(section),
        )
        for section in shown_sections(evidence.clock)
    )
    return CellView(
        name=name,
        outcome=verdict.outcome if verdict and judged else None,
        why=clean(verdict.why) if verdict else "",
        rows=rows,
        troubles=_troubles(evidence.sides, name.full),
        counts=_counts(evidence.sides, name.full),
        steps=_steps(evidence, name.full),
        whole=verdict.whole if verdict else None,
        work=verdict.work if verdict else None,
        timed=evidence.clock is Clock.TIME,
        recorder_counted=recorder_counted(
            record for side in evidence.sides.values() for record in side.cells.get(name.full, [])
        ),
    )


def by_group(views: Iterable[CellView]) -> dict[str, list[CellView]]:
    """Return the cells by panel (``UFS, direct``), in reading order."""
    panels: dict[str, list[CellView]] = {}
    for view in views:
        panels.setdefault(view.name.group, []).append(view)
    return panels


def recorder_counted(records: Iterable[CellRecord]) -> bool:
    """Tell whether all usable records are without what recorded the trace, as the board counted."""
    usable = [record for record in records if record.invalid is None]
    return bool(usable) and all(record.tracing is not None for record in usable)


def all_counted(views: Iterable[CellView]) -> bool:
    """Tell whether no figure has what recorded the trace (`recorder_counted`)."""
    return all(view.recorder_counted for view in views if view.has_values)


def values_of(views: Iterable[CellView]) -> str:
    """Return what the sections' values hold of the trace's recorder, in one sentence."""
    views = list(views)
    if all_counted(views):
        return "Values are without the recorder: the board counted what records the trace."
    if is_corrected(views):
        return "Corrected values: the calibrated cost of the recorded events is taken off."
    return "Raw values: the cost of recording the trace is in them."


def is_corrected(views: Iterable[CellView]) -> bool:
    """Tell whether every section that has a raw figure has a corrected one as well."""
    measured = [f for v in views for r in v.rows for f in r.sides.values() if f.raw is not None]
    return bool(measured) and all(f.corrected is not None for f in measured)


def device_ratios(views: list[CellView]) -> dict[str, list[DeviceRatio]]:
    """Return other devices against UFS by panel (``NVMe, direct``), without the recorder only."""
    ufs = {v.name.peers: v for v in views if v.name.device == "ufs"}
    panels: dict[str, list[DeviceRatio]] = {}
    for view in views:
        same = ufs.get(view.name.peers)
        if same is None or view.name.device == "ufs":
            continue
        ratio = DeviceRatio(view.name, _overheads(same), _overheads(view))
        if any(ratio.share(side) is not None for side in SIDES):
            panels.setdefault(view.name.group, []).append(ratio)
    return panels


def _overheads(view: CellView) -> dict[Side, float]:
    found = {
        side: view.total(side, SOFTWARE_SECTIONS)
        for side in SIDES
        if all(side in row.sides for row in view.rows)
    }
    return {side: value for side, value in found.items() if value is not None}


def unit_of(evidence: Evidence) -> Unit:
    """The unit of every duration of this run."""
    return evidence.verdict.unit if evidence.verdict else evidence.clock.unit
