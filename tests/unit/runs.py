"""Run directories for unit tests, from real boots (data/README.md) and small figures."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iotoll.boards.board import load_board
from iotoll.boards.ramdisk import Image
from iotoll.boots.local import BootPlan
from iotoll.core.paths import data_dir
from iotoll.patch.candidate import CandidateChoice
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    CellChoice,
    CellRecord,
    Clock,
    FailureRecord,
    OrderedIos,
    Outcome,
    RunManifest,
    Section,
    SelectionRecord,
    SideResult,
    SourceRecord,
    VerdictRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir

BOOTS = Path(__file__).with_name("data")
CELLS = ["ufs-4k-randread-t1-direct", "ufs-4k-randread-t1-sync"]
EXAMPLES = data_dir("results-schema") / "valid"
IMAGES = {"base": "1" * 64, "candidate": "2" * 64}
TREES = {"base": "1" * 40, "candidate": "2" * 40}


def manifest(**changes: Any) -> RunManifest:
    """A gate run of a patch on the default board."""
    values = {
        "command": ["iotoll", "gate"],
        "created": "2026-01-05T10:00:00+00:00",
        "kind": "gate",
        "board": "virt-arm64",
        "clock": "instructions",
        "matrix": "default",
        "policy": "instructions",
        "tree": "debian",
        "candidate": "x.patch",
        "candidate_kind": "patch",
    }
    return RunManifest.model_validate({**values, **changes})


def boot_plan(kernel: Path, folder: Path, side: Side = "base") -> BootPlan:
    """The first boot of one cell on the default board."""
    return BootPlan(
        side=side,
        number=1,
        board=load_board("virt-arm64"),
        clock=Clock.INSTRUCTIONS,
        accelerator="tcg",
        kernel=kernel,
        image=Image(kernel.with_name("ramdisk"), "0" * 64, {}),
        job=kernel.with_name("job"),
        job_sha256="1" * 64,
        cells=CELLS[:1],
        runs=2,
        folder=folder,
    )


def asked(choice: CandidateChoice, **changes: Any) -> RunManifest:
    """A gate run of what a command line names."""
    return manifest(
        tree=choice.tree,
        base=choice.base,
        candidate=choice.candidate,
        candidate_kind=choice.kind,
        **changes,
    )


def make_run(
    root: Path, cells: Sequence[str] = CELLS, images: Mapping[str, str] = IMAGES, **changes: Any
) -> RunDir:
    """A run directory whose sources are selected and whose kernels are built."""
    run = RunDir(root)
    results.write(run.root / "run.json", manifest(**changes))
    choices = [CellChoice(cell=cell, why="asked for by hand") for cell in cells]
    selection = SelectionRecord(
        changed_paths=[], rules=[], cells=choices, full_matrix=False, why="asked for by hand"
    )
    results.write(run.selection, selection)
    for side in SIDES:
        source = results.read(EXAMPLES / "source.json", SourceRecord)
        named = {"side": side, "git_tree": TREES[side]}
        results.write(run.side(side) / "source.json", source.model_copy(update=named))
        build = results.read(EXAMPLES / "build.json", BuildRecord)
        changed = {"side": side, "image_sha256": images[side]}
        results.write(run.build(side) / "build.json", build.model_copy(update=changed))
    return run


def add_boots(run: RunDir) -> None:
    """Put the two real boots into a run directory, as if they had just ended."""
    for side in SIDES:
        shutil.copytree(BOOTS / side, run.boot(side, 1))


def agreeing(verdict: VerdictRecord, outcome: Outcome | None = None) -> VerdictRecord:
    """The verdict with an outcome that its cells agree with, else with cells that agree with it."""
    bad = any(cell.outcome is Outcome.REGRESSION for cell in verdict.cells)
    outcome = outcome or (Outcome.REGRESSION if bad else Outcome.PASS)
    changes: dict[str, Any] = {"outcome": outcome, "exit_code": outcome.exit_code, "failure": None}
    if outcome is not Outcome.REGRESSION:
        changes |= {"pools": [], "regressions": []}
        changes["cells"] = [] if bad else verdict.cells
    if outcome in (Outcome.BROKEN, Outcome.INFRASTRUCTURE):
        changes["failure"] = FailureRecord(outcome=outcome, step="boot", message="It is so.")
    return verdict.model_copy(update=changes)


def in_order(sections: Mapping[Section, Sequence[int | None]]) -> OrderedIos:
    """I/Os of one thread with these counts; the whole of each one is the sum of its counts."""
    columns = [list(counts) for counts in sections.values()]
    rows = list(zip(*columns, strict=True))
    return OrderedIos(
        thread=[0] * len(rows),
        sections=dict(zip(sections, columns, strict=True)),
        whole=[sum(value or 0 for value in row) for row in rows],
    )


def side_result(
    side: Side,
    counts: Mapping[str, Mapping[Section, Sequence[int | None]]],
    invalid: Mapping[str, str] | None = None,
    board: str | None = None,
    clock: Clock = Clock.INSTRUCTIONS,
) -> SideResult:
    """A side with one boot, whose cells have these counts per I/O and nothing else of interest."""
    example = results.read(EXAMPLES / "result.json", SideResult)
    record = results.read(EXAMPLES / "cell.json", CellRecord)
    cells = {
        name: [
            record.model_copy(
                update={
                    "cell": name,
                    "gate": {s: list(c) for s, c in sections.items()},
                    "in_order": in_order(sections) if clock is Clock.INSTRUCTIONS else None,
                    "invalid": (invalid or {}).get(name),
                }
            )
        ]
        for name, sections in counts.items()
    }
    boot = example.boots[0].model_copy(update={"side": side})
    if board is not None:
        boot = boot.model_copy(update={"board_sha256": board})
    return example.model_copy(
        update={"side": side, "clock": clock, "unit": clock.unit, "boots": [boot], "cells": cells}
    )
