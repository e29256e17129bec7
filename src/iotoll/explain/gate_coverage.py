"""Which of the changed functions ran in the gate's own boot of the candidate.

A plugin of QEMU notes when their blocks run in the candidate's first boot. It changes nothing that
the board does, and costs next to nothing, so that a pass says what it covered without another boot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from iotoll.boards.board import VirtualBoard
from iotoll.boards.plugin import coverage_words
from iotoll.boots.local import BootPlan
from iotoll.explain.coverage import CellTime, ran, with_data
from iotoll.explain.record import NOTHING, probes, read_record
from iotoll.explain.tables import io_tables
from iotoll.kernels.changed import changed_functions
from iotoll.kernels.symbols import Symbols, read_symbols
from iotoll.records import results
from iotoll.records.models import Clock, ExplainRecord, VerdictRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir, images
from iotoll.run.setup import Setup
from iotoll.verdict.policy import Policy

_ENDINGS = ("only", "blocks", "runs", "marks", "json")


def watched(setup: Setup, plans: Sequence[BootPlan]) -> list[BootPlan]:
    """The plans of a run's boots; the candidate's first one notes which changed functions run.

    Where that cannot be, the boots are as they were, and the progress says why.
    """
    return [
        replace(plan, words=_words(setup)) if plan.name == "candidate/1" else plan for plan in plans
    ]


def can_watch(setup: Setup) -> bool:
    """Whether it is asked for, on an exact arm64 board with one CPU that this machine boots."""
    manifest, board = setup.run.manifest, setup.board
    return (
        setup.explains
        and isinstance(setup.policy, Policy)
        and setup.policy.explain.ran
        and manifest.clock is Clock.INSTRUCTIONS
        and manifest.runner == "local"
        and isinstance(board, VirtualBoard)
        and (board.is_exact, board.arch, board.qemu.cpus) == (True, "arm64", 1)
    )


def _words(setup: Setup) -> tuple[str, ...]:
    prefix = _prefix(setup.run)
    _clear(prefix)
    try:
        base, candidate = (symbols_of(setup.run, side) for side in setup.sides)
        spans = [s for n in changed_functions(base, candidate) if (s := candidate.span(n))]
        only = _path(prefix, "only")
        only.parent.mkdir(parents=True, exist_ok=True)
        np.array(sorted(set(spans)), "<u8").tofile(only)
        if not spans:
            return ()
        return coverage_words(prefix, probes(candidate).partition("+")[0], only)
    except Exception as error:  # a ready-made image may be anything; the gate goes on
        setup.progress.say(f"which changed functions run will not be said: {error}")
        return ()


def after_verdict(setup: Setup) -> None:
    """Write what ran as ``explain.json``, if the candidate's boot noted it."""
    run = setup.run
    prefix = _prefix(run)
    only = _path(prefix, "only")
    unchanged = only.is_file() and not only.stat().st_size
    if not unchanged and not _path(prefix, "json").is_file():
        return
    try:
        base, candidate = (symbols_of(run, side) for side in setup.sides)
        known = frozenset(base.names)
        if unchanged:
            found = with_data(ran(NOTHING, {}, candidate, (), known), base, candidate)
        else:
            changed = changed_functions(base, candidate)
            found = ran(read_record(prefix), _times(setup), candidate, changed, known)
    except Exception as error:  # its files come from where it booted; the verdict stands
        setup.progress.say(f"which changed functions ran is not known: {error}")
    else:
        verdict = results.read(run.verdict, VerdictRecord)
        explained = ExplainRecord(
            board=run.manifest.board,
            outcome=verdict.outcome,
            cells=[],
            coverage=found,
            images=images(run),
        )
        results.write(run.explained, explained)
    _clear(prefix)


def _times(setup: Setup) -> dict[str, CellTime]:
    tables = io_tables(setup.run.boot("candidate", 1), setup.cells)
    return {
        cell: CellTime(int(tables[cell]["start"].min()), int(tables[cell].end.max()), len(table))
        for cell in setup.cells
        if (table := tables.get(cell)) is not None and len(table)
    }


def symbols_of(run: RunDir, side: Side) -> Symbols:
    """The functions of a side's kernel; raises UsageError where its image has none to be read."""
    return read_symbols(run.build(side) / "Image")


def _prefix(run: RunDir) -> Path:
    """Beside the boot's folder: in a sandbox, what is above is not there."""
    return run.boot("candidate", 1).with_name("ran")


def _path(prefix: Path, ending: str) -> Path:
    return prefix.with_name(f"{prefix.name}.{ending}")


def _clear(prefix: Path) -> None:
    for ending in _ENDINGS:
        _path(prefix, ending).unlink(missing_ok=True)
