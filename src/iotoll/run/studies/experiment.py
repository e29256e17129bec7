"""How far the deterministic gate can be trusted: its false alarms and what it detects.

``iotoll experiment aa`` boots one kernel again and again, in pairs, and lets
the gate judge every pair: whatever it finds is a false alarm. ``detection`` boots a kernel that
executes a known number of extra instructions in one latency section, twice as the gate does, and
counts in which cells the gate finds them, and what it finds besides. Both resume, and write their
figures beside the boots.
"""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from iotoll.boards.board import load_virtual_board
from iotoll.boards.matrix import load_matrix
from iotoll.boards.ramdisk import get_image
from iotoll.boots.schedule import Bench, plan_boot, run_boots, run_plans, with_cmdline
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.kernels.build import build_side
from iotoll.kernels.cache import copy_tree
from iotoll.kernels.source import prepare
from iotoll.measure.collect import collect
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import CellVerdict, Clock, Outcome, RunManifest
from iotoll.records.models.base import SOFTWARE_SECTIONS, Section
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run.studies.exact import exact_command
from iotoll.verdict import instructions
from iotoll.verdict.policy import Policy, load_policy

COSTS = (20, 50, 100, 300)
"""Planted instructions per I/O."""

BASES = 6
"""Boots of the unplanted kernel, which the cases share in turn."""

PLANTS = {
    Section.VFS_FS: ("ext4.planted_vfs_fs",),
    Section.SUBMISSION: ("ufshcd_core.planted_submission", "nvme.planted_submission"),
    Section.COMPLETION: ("ufshcd_core.planted_completion", "nvme.planted_completion"),
}
"""Kernel parameters of examples/patches/planted-costs.patch that plant a cost in a section."""


@dataclass(frozen=True)
class Judged:
    """A pair of boots, judged as for an alarm and as for confirming one."""

    alarm: instructions.Judgement
    confirm: instructions.Judgement


@click.group("experiment", context_settings={"help_option_names": ["-h", "--help"]})
def experiment_group() -> None:
    """Experiments on boards and on the gate itself."""


experiment_group.add_command(exact_command)


@experiment_group.command("aa")
@click.option("--pairs", default=50, show_default=True, type=click.IntRange(2))
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--policy", default="instructions", show_default=True)
@click.option("--cells", default="*", show_default=True, help="Only cells of this pattern.")
@click.option("--out", default="runs/aa", show_default=True, type=click.Path(path_type=Path))
def aa_command(pairs: int, board: str, policy: str, cells: str, out: Path) -> None:
    """Boot one kernel in PAIRS pairs and count what the gate finds."""
    progress = Progress()
    run = _open(out, board, None)
    bench = _bench(run, progress, cells)
    build_side(run, "base", bench.board.arch, bench.board.fragments, progress)
    copy_tree(run.build("base"), run.build("candidate"))
    judged = []
    for number in range(1, pairs + 1):
        progress.say(f"pair {number} of {pairs}")
        run_boots(run, bench, [("base", number), ("candidate", number)], progress)
        judged.append(_judged_pair(run, bench, policy, number))
    _store(out / "aa.json", {"board": board, **_false_alarms(judged, load_policy(policy))})


@experiment_group.command("detection")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--policy", default="instructions", show_default=True)
@click.option("--patch", default="examples/patches/planted-costs.patch", show_default=True)
@click.option("--out", default="runs/detection", show_default=True, type=click.Path(path_type=Path))
def detection_command(board: str, policy: str, patch: str, out: Path) -> None:
    """Plant costs of known size in sections 1, 2 and 4 and count the cells that show them."""
    progress = Progress()
    run = _open(out, board, patch)
    bench = _bench(run, progress)
    for side in ("base", "candidate"):
        build_side(run, side, bench.board.arch, bench.board.fragments, progress)
    # Both sides run the patched kernel: only the planted cost differs.
    copy_tree(run.build("candidate"), run.build("base"))
    rows = list(_planted(run, bench, policy, progress))
    _store(out / "detection.json", {"board": board, "rows": rows})


def _open(out: Path, board: str, patch: str | None) -> RunDir:
    choice = candidate.classify(patch)
    if not (out / "run.json").is_file():
        manifest = RunManifest(
            command=["python", "-m", "iotoll.run.studies.experiment"],
            created="",
            kind="measure",
            board=board,
            clock=Clock.INSTRUCTIONS,
            matrix="default",
            policy="instructions",
            tree=choice.tree,
            candidate=choice.candidate,
            candidate_kind=choice.kind,
        )
        results.write(out / "run.json", manifest)
    return RunDir.open(out)


def _bench(run: RunDir, progress: Progress, pattern: str = "*") -> Bench:
    board, matrix = load_virtual_board(run.manifest.board), load_matrix(run.manifest.matrix)
    cells = fnmatch.filter(matrix.cells, pattern)
    if not cells:
        raise UsageError(f"--cells {pattern}: no cell of the matrix {matrix.name} matches")
    prepare(run, progress, cells)
    image = get_image(board.arch, progress)
    return Bench(board, matrix, image, cells, Clock.INSTRUCTIONS, "tcg", calibrate=False)


def _judged_pair(run: RunDir, bench: Bench, policy_name: str, number: int) -> Judged:
    """Judge one pair, or read what was judged before by the same policy."""
    policy = load_policy(policy_name)
    path = run.root / "pairs" / f"{number}.json"
    step, inputs = f"pair/{number}", {"policy": policy.sha256}
    if run.is_done(step, inputs):
        data = json.loads(path.read_text())
        return Judged(*(_concluded(data[name]) for name in ("alarm", "confirm")))
    judged = _judged(run, bench, policy, number, number)
    data = {
        name: [cell.model_dump(mode="json") for cell in judgement.cells]
        for name, judgement in (("alarm", judged.alarm), ("confirm", judged.confirm))
    }
    results.write_text(path, json.dumps(data) + "\n")
    run.mark_done(step, inputs)
    return judged


def _concluded(cells: list[dict[str, Any]]) -> instructions.Judgement:
    return instructions.conclude([CellVerdict.model_validate(cell) for cell in cells])


def _judged(run: RunDir, bench: Bench, policy: Policy, base: int, candidate: int) -> Judged:
    pair: tuple[tuple[Side, int], ...] = (("base", base), ("candidate", candidate))
    before, after = (collect(run, bench.cells, bench.clock, side, [n]) for side, n in pair)
    fits = (policy.comb.alarm, policy.comb.confirm)
    return Judged(
        *(instructions.judge_cells(before, after, policy, bench.cells, fit) for fit in fits)
    )


def _false_alarms(judged: Sequence[Judged], policy: Policy) -> dict[str, Any]:
    """Every alarm is confirmed with each of the other pairs as the second one.

    Both sides are one kernel, so what seems cheaper is an alarm of the sides the other way round.
    """
    alarms = [j for j in judged if j.alarm.regressions or j.alarm.improvements]
    seconds = [(first, second) for first in alarms for second in judged if second is not first]
    both = [
        instructions.confirmed(first.confirm, second.confirm, policy) for first, second in seconds
    ]
    first = [j.alarm for j in judged]
    gated = {(v.cell, s.section) for j in first for v in j.cells for s in v.sections if s.gated}
    return {
        "pairs": len(judged),
        "cells": len(first[0].cells),
        "gated_sections": len(gated),
        "comparisons": sum(s.gated for j in first for v in j.cells for s in v.sections),
        "alarms": len(alarms),
        "confirmations_tried": len(seconds),
        "confirmed": sum(bool(j.regressions or j.improvements) for j in both),
        "blocked": sum(j.outcome is Outcome.REGRESSION for j in first),
        "outcomes": {o.value: sum(j.outcome is o for j in first) for o in Outcome},
        "regressions": [j.regressions for j in first if j.regressions],
        "improvements": [j.improvements for j in first if j.improvements],
        "spread": _spread(first),
    }


def _spread(judged: Sequence[instructions.Judgement]) -> dict[str, dict[str, float]]:
    """Per cell and section: the largest difference that was seen between two boots."""
    largest: dict[str, dict[str, float]] = {}
    for judgement in judged:
        for verdict in judgement.cells:
            row = largest.setdefault(verdict.cell, {})
            for s in verdict.sections:
                key = s.section.value
                row[key] = max(row.get(key, 0.0), abs(s.delta))
    return largest


def _planted(
    run: RunDir, bench: Bench, policy_name: str, progress: Progress
) -> Iterator[dict[str, Any]]:
    policy = load_policy(policy_name)
    cases = [(section, cost) for section in SOFTWARE_SECTIONS for cost in COSTS]
    run_boots(run, bench, [("base", n) for n in range(1, BASES + 1)], progress)
    plans = [
        plan_boot(run, with_cmdline(bench, _words(section, cost)), "candidate", boot)
        for n, (section, cost) in enumerate(cases)
        for boot in (2 * n + 1, 2 * n + 2)
    ]
    run_plans(run, plans, progress)
    for n, (section, cost) in enumerate(cases):
        boots = [(boot - 1) % BASES + 1 for boot in (2 * n + 1, 2 * n + 2)]
        first, second = (
            _judged(run, bench, policy, base, candidate)
            for base, candidate in zip(boots, (2 * n + 1, 2 * n + 2), strict=True)
        )
        both = instructions.confirmed(first.confirm, second.confirm, policy)
        alarm = first.alarm.outcome is Outcome.REGRESSION
        for device in bench.matrix.devices:
            yield {"alarm": alarm, **_detected(both, device, section, cost)}


def _words(section: Section, cost: int) -> str:
    return " ".join(f"{name}={cost}" for name in PLANTS[section])


def _detected(
    judged: instructions.Judgement, device: str, section: Section, cost: int
) -> dict[str, Any]:
    verdicts = [v for v in judged.cells if v.cell.startswith(f"{device}-")]
    hits = [
        s
        for v in verdicts
        for s in v.sections
        if s.section is section and s.moved == "grew" and s.gated
    ]
    wrong = [
        f"{v.cell}: {s.section.value}"
        for v in verdicts
        for s in v.sections
        if s.section is not section and s.moved == "grew" and s.gated
    ]
    deltas = sorted(s.delta for s in hits)
    return {
        "device": device,
        "section": section.value,
        "planted": cost,
        "cells": len(verdicts),
        "gated": sum(s.section is section and s.gated for v in verdicts for s in v.sections),
        "detected": len(hits),
        "missed": [
            v.cell
            for v in verdicts
            if not any(s.section is section and s.moved == "grew" and s.gated for s in v.sections)
        ],
        "size_min": deltas[0] if deltas else None,
        "size_median": deltas[len(deltas) // 2] if deltas else None,
        "size_max": deltas[-1] if deltas else None,
        "elsewhere": wrong,
    }


def _store(path: Path, data: dict[str, Any]) -> None:
    results.write_text(path, json.dumps(data, indent=1) + "\n")
    click.echo(json.dumps({k: v for k, v in data.items() if k != "spread"}, indent=1))
    click.echo(f"written: {path}")
