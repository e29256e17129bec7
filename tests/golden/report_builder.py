"""Makes run directories with invented figures, shaped like measured ones."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from iotoll.records.models import (
    BootRecord,
    BuildRecord,
    CellChoice,
    CellRecord,
    CellVerdict,
    Clock,
    FailureRecord,
    Model,
    Outcome,
    RunManifest,
    Section,
    SectionComparison,
    SectionRecord,
    SelectionRecord,
    SideResult,
    SourceRecord,
    Stats,
    VerdictRecord,
)
from iotoll.records.models.analysis import SumRecord
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.records.models.io_checks import FigureCheck, FioCheck, StepRecord
from iotoll.records.models.run import Side

FOLDER = Path(__file__).parent / "data" / "report"
PATTERNS = ("4k-randread", "4k-randwrite", "128k-seqread", "128k-seqwrite")
FULL = [
    f"{device}-{pattern}-t{threads}-{mode}"
    for device in ("ufs", "nvme")
    for pattern in PATTERNS
    for threads in (1, 8)
    for mode in ("direct", "sync")
]
SMALL = [f"{d}-4k-{p}-t1-direct" for d in ("ufs", "nvme") for p in ("randread", "randwrite")]
SUBJECT = "scsi: ufs: core: Check the power mode before each command"
_BASE = {
    "ufs": {"vfs_fs": 3412, "submission": 5704, "hardware": 0, "completion": 2498, "return": 1876},
    "nvme": {"vfs_fs": 3412, "submission": 5731, "hardware": 0, "completion": 1842, "return": 1871},
}
_EVENTS = {"vfs_fs": 1.0, "submission": 2.0, "hardware": 1.0, "completion": 2.0, "return": 1.0}
_EVENT_COST = 412.0

Planted = Mapping[tuple[str, Section], int]
Cost = Callable[[str, Section], int]


def _hash(seed: str) -> str:
    return (seed.encode().hex() * 64)[:64]


def instructions(cell: str, section: Section) -> int:
    """Return an invented median for one section of one cell, in instructions."""
    device = cell.split("-")[0]
    value = _BASE[device][section.value]
    if "128k" in cell:
        factor = {"vfs_fs": 1.9, "submission": 2.6, "completion": 1.7, "return": 1.1}
        value = int(value * factor.get(section.value, 1.0))
    if "sync" in cell:
        if "write" in cell:
            factor = {"vfs_fs": 3.4, "submission": 3.1, "completion": 2.2, "return": 2.4}
        else:
            factor = {"vfs_fs": 1.4, "submission": 1.3, "completion": 1.1, "return": 1.5}
        value = int(value * factor.get(section.value, 1.0))
    if "-t8-" in cell:
        value += {"completion": 214, "return": 655}.get(section.value, 17)
    return value + sum(map(ord, cell)) % 23


def nanoseconds(cell: str, section: Section) -> int:
    """Return an invented median for one section of one cell, in nanoseconds of a board."""
    hardware = {"4k-randread": 92, "4k-randwrite": 28, "128k-seqread": 124, "128k-seqwrite": 150}
    if section is Section.HARDWARE:
        return 1000 * next(us for pattern, us in hardware.items() if pattern in cell)
    return instructions(cell, section) * 3


def _stats(value: int, count: int) -> Stats:
    if not count:
        return Stats(count=0)
    return Stats(
        count=count, min=value - 41, median=value, mean=value + 18.5, p99=value + 390, max=value * 3
    )


@dataclass
class Case:
    """One golden run directory in the making."""

    name: str
    cells: Sequence[str] = field(default_factory=lambda: SMALL)
    clock: Clock = Clock.INSTRUCTIONS
    board: str = "virt-arm64"
    cost: Cost = instructions
    recorder: Literal["calibrated", "counted", "unknown"] = "calibrated"
    detailed: bool = False
    """Records hold sub-steps and fio's own view, which disagrees on one cell."""

    def __post_init__(self) -> None:
        self.root = FOLDER / self.name
        shutil.rmtree(self.root, ignore_errors=True)

    def put(self, path: str, document: Model) -> None:
        """Write one document in the layout of a run directory."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # Defaults stay out, so that a field added to a model changes no fixture.
        data = document.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        target.write_text(json.dumps(data, sort_keys=True, separators=(",", ":")) + "\n")

    def manifest(
        self, kind: Literal["gate", "measure"] = "gate", candidate: str | None = ""
    ) -> None:
        """Write run.json."""
        patch = "examples/ufs-check-power-mode.patch" if candidate == "" else candidate
        command = ["iotoll", kind, *([patch] if patch else []), "--board", self.board]
        document = RunManifest(
            command=command,
            created="2026-03-02T09:14:07Z",
            kind=kind,
            board=self.board,
            clock=self.clock,
            matrix="default",
            policy="deterministic" if self.clock is Clock.INSTRUCTIONS else "boots",
            tree="debian",
            base="linux-source-6.12" if kind == "gate" else None,
            candidate=patch,
            candidate_kind="patch" if patch else "none",
            cells=None,
        )
        self.put("run.json", document)

    def selection(self, cells: Sequence[str], path: str, why: str, rule: str) -> None:
        """Write selection.json."""
        document = SelectionRecord(
            changed_paths=[path],
            rules=[f"{rule}: {path}"],
            cells=[CellChoice(cell=c, why=why) for c in cells],
            full_matrix=len(cells) == len(FULL),
            why=why,
        )
        self.put("selection.json", document)

    def source(self, side: Side, subjects: Sequence[str] = (SUBJECT,)) -> SourceRecord:
        """Write and return source.json of one side."""
        candidate = side == "candidate"
        document = SourceRecord(
            side=side,
            tree="debian",
            version="6.12.74",
            tree_sha256=_hash("tree"),
            patch_sha256=_hash("patch") if candidate else None,
            patch_subjects=list(subjects) if candidate else [],
            changed_paths=["drivers/ufs/core/ufshcd.c"] if candidate else [],
        )
        self.put(f"sides/{side}/source.json", document)
        return document

    def build(self, side: Side, image: str | None = None) -> BuildRecord:
        """Write and return build.json of one side."""
        document = BuildRecord(
            side=side,
            arch="arm64",
            image=f"sides/{side}/build/Image.gz",
            image_sha256=_hash(image or f"image {side}"),
            config_sha256=_hash("config"),
            fragments=["base-arm64", "tracing", "ufs", "nvme"],
            toolchain="gcc 12.2.0 (aarch64-linux-gnu)",
            seconds=412.0 if side == "base" else 14.0,
        )
        self.put(f"sides/{side}/build/build.json", document)
        return document

    def result(
        self, side: Side, planted: Planted | None = None, invalid: Mapping[str, str] | None = None
    ) -> None:
        """Write source, build and result of a side that ran all cells of the case."""
        records = {
            cell: [self._record(cell, planted or {}, (invalid or {}).get(cell))]
            for cell in self.cells
        }
        document = SideResult(
            side=side,
            clock=self.clock,
            unit=self.clock.unit,
            source=self.source(side),
            build=self.build(side),
            boots=[self._boot(side)],
            cells=records,
        )
        self.put(f"sides/{side}/result.json", document)

    def _boot(self, side: Side) -> BootRecord:
        tools = {"fio": "3.33", "trace-cmd": "3.1.6", "kernel": "6.12.74"}
        virtual = self.board.startswith("virt")
        costs = {"block_bio_queue": _EVENT_COST, "ufshcd_command": 431.0}
        return BootRecord(
            side=side,
            boot=1,
            board=self.board,
            clock=self.clock,
            accelerator="tcg" if virtual else "none",
            tools={**tools, "qemu": "10.0.2"} if virtual else {**tools, "lava": "2025.10"},
            board_sha256=_hash("board"),
            command=["qemu-system-aarch64", "-M", "virt", "-icount", "shift=0,sleep=off"]
            if virtual
            else ["lava", "job", "4711"],
            seconds=74.0,
            cells=list(self.cells),
            event_cost=costs if self.recorder == "calibrated" else {},
        )

    def _record(self, cell: str, planted: Planted, invalid: str | None) -> CellRecord:
        count = 256 if "128k" in cell else 1024
        clean = count - (31 if "-t8-" in cell else 2)
        device = cell.split("-")[0]
        sections: dict[Section, SectionRecord] = {}
        gate: dict[Section, list[int]] = {}
        for section in Section:
            median = self.cost(cell, section) + planted.get((device, section), 0)
            if invalid or (section is Section.HARDWARE and self.clock is Clock.INSTRUCTIONS):
                empty = _stats(0, 0)
                sections[section] = SectionRecord(elapsed=empty, own=empty, own_clean=empty)
                continue
            events = _EVENTS[section.value]
            sections[section] = SectionRecord(
                elapsed=_stats(median + 6, count),
                own=_stats(median, count),
                own_clean=_stats(median, clean),
                probe_events={"event": events},
                corrected_median=self._corrected(median, events),
            )
            gate[section] = [median - 4, median, median, median + 4]
        lost = 40_210 if invalid else 0
        return CellRecord(
            cell=cell,
            clock=self.clock,
            unit=self.clock.unit,
            trace_sha256=_hash(cell),
            trace={"version": 7, "lost_events": lost, "lost_ranges": 3 if lost else 0},
            device={"dev": "8:0" if device == "ufs" else "259:0", "driver": device},
            ios={
                "seen": count,
                "measured": 0 if invalid else count,
                "dropped_lost": count if invalid else 0,
                "clean": 0 if invalid else clean,
            },
            requests={"seen": count, "attributed": count, "requeues": 0},
            marks={
                "device": {"ufshcd_command" if device == "ufs" else "block_rq_issue": count},
                "interrupt": {"irq_handler_entry": count},
            },
            sections=sections,
            overhead=self._sum(sections, SOFTWARE_SECTIONS),
            total=self._sum(sections, tuple(Section)),
            paths=[],
            gate=gate,
            invalid=invalid,
            tracing=count * 2904 if self.recorder == "counted" and not invalid else None,
            **(self._details(cell, count, sections) if self.detailed else {}),
        )

    def _corrected(self, median: int, events: float) -> float | None:
        cost = {"calibrated": events * _EVENT_COST, "counted": 0.0}.get(self.recorder)
        return None if cost is None else median - cost

    def _details(
        self, cell: str, count: int, sections: Mapping[Section, SectionRecord]
    ) -> dict[str, object]:
        """Two sub-steps of the submission, and fio's mean latency; one cell's is too long."""
        whole = sections[Section.SUBMISSION].elapsed.median or 0
        waits = whole // 3
        steps = [
            StepRecord(
                section=Section.SUBMISSION,
                step=step,
                meaning=meaning,
                ios=count,
                median=median,
                mean=median + 3.5,
                p99=median + 90,
                max=median * 3,
            )
            for step, meaning, median in (
                ("bio_queue -> getrq", "split and merge tried, then tag wait", waits),
                ("getrq -> device", "from getrq to device", whole - waits),
            )
        ]
        off = 90_210.0 if cell == self.cells[-1] else 1_480.0
        figure = FigureCheck(
            figure="clat mean",
            fio=80_000.0 + off,
            trace=80_000.0,
            difference=off,
            low=0.0,
            high=5000.0,
            agrees=off <= 5000,
        )
        missing = ["clat p50: not in fio's JSON"]
        check = FioCheck(
            ios_agree=True,
            ios_in_trace=count,
            bytes_agree=True,
            figures=[figure],
            not_compared=missing,
        )
        return {"steps": steps, "fio": {"ios": count}, "fio_check": check}

    @staticmethod
    def _sum(sections: Mapping[Section, SectionRecord], which: Sequence[Section]) -> SumRecord:
        medians = [sections[s].own.median or 0 for s in which]
        count = max(sections[s].own.count for s in which)
        # The builder's means lie 18.5 above the medians: keep the sections adding up.
        live = sum(1 for s in which if sections[s].own.count)
        total = sum(medians)
        stats = _stats(total, count)
        elapsed = stats.model_copy(update={"mean": total + (18.5 + 6) * live} if count else {})
        return SumRecord(elapsed=elapsed, own=stats, own_clean=stats)

    def compare(
        self,
        planted: Planted,
        special: Callable[[str, Section], dict[str, object]] = lambda cell, section: {},
    ) -> list[CellVerdict]:
        """Return cell verdicts for planted costs; ``special`` overrides fields of a comparison."""
        return [self._compare(cell, planted, special) for cell in self.cells]

    def _compare(
        self, cell: str, planted: Planted, special: Callable[[str, Section], dict[str, object]]
    ) -> CellVerdict:
        found = []
        for section in Section:
            if section is Section.HARDWARE and self.clock is Clock.INSTRUCTIONS:
                continue
            base = self.cost(cell, section)
            delta = planted.get((cell.split("-")[0], section), 0)
            threshold = max(20.0, round(base * 0.01))
            gated = section is not Section.RETURN and section is not Section.HARDWARE
            moved = "grew" if delta > threshold else "shrank" if delta < -threshold else "same"
            values: dict[str, object] = {
                "section": section,
                "base": base,
                "candidate": base + delta,
                "delta": delta,
                "relative": delta / base if base else 0.0,
                "threshold": threshold,
                "gated": gated,
                "moved": moved,
                "confidence": "largest difference between boots of one kernel: 4 instructions",
                "why": "" if gated else "shown only, by policy",
            }
            found.append(SectionComparison.model_validate({**values, **special(cell, section)}))
        grew = any(f.moved == "grew" and f.gated for f in found)
        outcome = Outcome.REGRESSION if grew else Outcome.PASS
        return CellVerdict(cell=cell, outcome=outcome, sections=found)

    def verdict(
        self,
        outcome: Outcome,
        sentence: str,
        cells: Sequence[CellVerdict] = (),
        *,
        can_gate: bool = True,
        identical: bool = False,
        failure: FailureRecord | None = None,
    ) -> None:
        """Write verdict.json."""
        document = VerdictRecord(
            outcome=outcome,
            exit_code=outcome.exit_code,
            sentence=sentence,
            clock=self.clock,
            unit=self.clock.unit,
            board=self.board,
            matrix="default",
            policy="deterministic" if self.clock is Clock.INSTRUCTIONS else "boots",
            policy_sha256=_hash("policy"),
            can_gate=can_gate,
            identical_images=identical,
            cells=list(cells),
            failure=failure,
        )
        self.put("verdict.json", document)
