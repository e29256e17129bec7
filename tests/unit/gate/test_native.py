"""``iotoll gate --confirm time``: what a native board says beside an exact board's verdict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.gate import confirm, reproduce
from iotoll.records import results
from iotoll.records.models import (
    CellVerdict,
    Clock,
    NoiseRecord,
    OtherClock,
    Outcome,
    VerdictRecord,
)
from iotoll.records.text import MINUS, NBSP, clock_note
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.findings import findings
from iotoll.reports.publish.kcidb import kcidb
from iotoll.reports.publish.note import note
from iotoll.verdict.findings import of_native, of_times
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.clocks import CONFIRMED
from iotoll.verdict.time.judge import decide, shares
from iotoll.verdict.time.pairs import make_pairs
from tests.golden.runs import real
from tests.unit.runs import make_run
from tests.unit.verdict.time.sides import CELLS, FIGURES, noisy, side


def timed(growth: float = 0.0, noise: float = 0.005, pairs: int = 12) -> VerdictRecord:
    """A verdict of the native board, where submission (figure 2) of all cells grew by so much."""
    values = noisy(3, pairs, noise, {(cell, 2): growth for cell in range(len(CELLS))})
    found = make_pairs(side("base", values[0]), side("candidate", values[1]), CELLS, FIGURES, 1)
    none = NoiseRecord(board="host-uml", matrix="host-uml", pairs=[])
    decision = decide(found, CELLS, load_time_policy("time"), none, 1)
    known = gather(real("regression")).verdict
    assert known is not None
    return known.model_copy(
        update={
            "clock": Clock.TIME,
            "outcome": decision.outcome,
            "cells": decision.cells,
            "sequential": decision.sequential,
            "regressions": decision.regressions,
        }
    )


def native(verdict: VerdictRecord, missing: list[str] | None = None) -> OtherClock:
    return OtherClock(
        clock=Clock.TIME,
        outcome=verdict.outcome,
        sentence="x",
        regressions=verdict.regressions,
        run="r",
        blocks=False,
        reading="",
        board="host-uml",
        times=shares(verdict),
        missing=missing or [],
    )


def told(verdict: VerdictRecord) -> list[str]:
    """The findings of an exact run whose submission grew, with that native board beside it."""
    run = gather(real("regression"))
    assert run.verdict is not None
    beside = run.verdict.model_copy(update={"other": native(verdict)})
    found = findings(replace(run, verdict=beside))
    return [one.sentence.replace(NBSP, " ").replace(MINUS, "-") for one in found]


def test_a_share_has_the_interval_of_its_pairs() -> None:
    (share,) = [one for one in shares(timed(0.014)) if one.part == "submission"]
    assert share.low < 0.014 < share.high and share.high - share.low < 0.012
    assert (share.moved, share.pairs) == ("grew", 12)
    wide = {one.part: one.moved for one in shares(timed(noise=0.3))}
    assert set(wide.values()) <= {"unknown", "grew", "shrank"} and "unknown" in wide.values()


def test_pairs_that_are_set_aside_do_not_count() -> None:
    verdict = timed()
    assert verdict.sequential is not None
    first, *rest = verdict.sequential.pairs
    aside = [first.model_copy(update={"unused": "set aside"}), *rest]
    course = verdict.sequential.model_copy(update={"pairs": aside})
    found = shares(verdict.model_copy(update={"sequential": course}))
    assert {one.pairs for one in found} == {11}


def test_the_mean_of_several_cells_is_of_one_boot() -> None:
    """Cells of a boot share its noise: twice the cells make no interval narrower."""
    one = timed(noise=0.02)
    doubled = one.model_copy(update={"cells": [*one.cells, *one.cells]})
    single, both = ([s.high - s.low for s in shares(v)] for v in (one, doubled))
    assert both == pytest.approx(single, rel=0.01)


def test_time_is_said_beside_the_instructions() -> None:
    (first, *_) = told(timed(0.05))
    assert "instructions per UFS request" in first
    assert "+5.1 % (4.9 to 5.3 %) of submission on this CPU" in first
    assert "time did not" not in first


def test_instructions_grew_and_time_did_not() -> None:
    (first, *_) = told(timed())
    assert "instructions grew, time did not: no time that shows: " in first


def test_noise_is_no_statement_that_time_did_not_grow() -> None:
    (first, *_) = told(timed(noise=0.3))
    assert "too noisy to tell" in first and "time did not" not in first


def test_time_grew_and_instructions_did_not() -> None:
    verdict = timed(0.08)
    assert verdict.outcome is Outcome.REGRESSION
    quiet: list[CellVerdict] = []
    (found,) = of_native(quiet, native(verdict))
    assert found.named == "time grew, instructions did not"
    assert found.kind == "ungated" and "of submission on this CPU" in found.sentence
    assert of_native(quiet, native(timed())) == [] == of_native(quiet, None)


def test_what_is_not_in_the_native_kernel_is_said() -> None:
    missing = ["drivers/ufs/core/ufshcd.c"]
    assert f"not in its kernel: {missing[0]}" in of_times([], native(timed(), missing))
    nothing = native(timed(), missing).model_copy(update={"times": []})
    words = f"was not measured on host-uml: its kernel has nothing of {missing[0]}."
    assert words in of_times([], nothing)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clock": Clock.TIME}, "itself is on that clock"),
        ({"beside": "/x"}, "choose one"),
        ({"candidate_kind": "images"}, "needs sources"),
    ],
)
def test_confirm_is_refused(changes: dict[str, object], words: str) -> None:
    manifest = gather(real("regression")).manifest.model_copy(update=changes)
    with pytest.raises(UsageError, match=words):
        confirm.check(manifest)


def test_a_verdict_that_is_derived_again_has_what_the_native_board_said(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    results.write_text(run.root / CONFIRMED / "verdict.json", "{}")
    with reproduce._copy(run) as copy:
        assert (copy.root / CONFIRMED / "verdict.json").is_file()


def test_its_nanoseconds_are_no_boards() -> None:
    note = clock_note(Clock.TIME, virtual=False, native=True)
    assert "this machine's CPU" in note and "real board" not in note
    assert clock_note(Clock.TIME, virtual=False) == "Nanoseconds on a real board."


def test_no_output_of_a_native_run_speaks_of_a_real_board() -> None:
    run = gather(real("regression"))
    told = {"accelerator": "none", "runner": "local", "clock": Clock.TIME, "board": "host-uml"}
    evidence = replace(
        run, manifest=run.manifest.model_copy(update=told), verdict=timed(0.05), sides={}
    )
    assert evidence.native and not evidence.virtual
    found = [kcidb(evidence, [], "x"), note(evidence, [])]
    assert all("on this machine" in text and "real board" not in text for text in found)
