"""The flow on the clock `time`: pair after pair, in the recorded order, until they tell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from iotoll_lab.experiments.validate import real_line

from iotoll.boots.pair_order import boot_order
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.gate import flow as flow_module
from iotoll.gate.flow import Flow
from iotoll.records import results
from iotoll.records.models import Outcome, SelectionRecord, SideResult, VerdictRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.reports.page import render_report
from iotoll.reports.publish import FORMATS, Source
from iotoll.reports.publish.checks import Status, checks
from tests.unit.runs import make_run
from tests.unit.verdict.time.sides import CELLS, noisy, side


class Boots:
    """Stands for the boards: boots take their figures from a table."""

    def __init__(self, run: RunDir, monkeypatch: pytest.MonkeyPatch, **kind: Any) -> None:
        self.run, self.values = run, noisy(21, 16, **kind)
        self.asked: list[list[tuple[Side, int]]] = []
        monkeypatch.setattr(flow_module, "run_boots", self._boot)
        monkeypatch.setattr(Flow, "collect", lambda flow: self._collect())
        monkeypatch.setattr(Flow, "bench", None)

    def _boot(
        self, run: RunDir, bench: Any, wanted: Any, progress: Any, abreast: int, connect: Any
    ) -> None:
        assert abreast == 1, "boots side by side disturb each other's times"
        self.asked.append(list(wanted))

    def _collect(self) -> None:
        pairs = max(number for _, number in self.asked[-1])
        names: tuple[Side, Side] = ("base", "candidate")
        for name, values in zip(names, self.values, strict=True):
            results.write(self.run.side(name) / "result.json", side(name, values[:pairs]))


def timed(root: Path, **changes: Any) -> RunDir:
    words = {"clock": "time", "policy": "time", "seed": 5, "experiment": True, **changes}
    return make_run(root, cells=CELLS, **words)


def judged(run: RunDir) -> VerdictRecord:
    flow = Flow(run, Progress(quiet=True))
    flow.boot()
    flow.collect()
    flow.judge()
    return results.read(run.verdict, VerdictRecord)


@pytest.fixture(autouse=True)
def no_history(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))


def test_a_regression_takes_look_after_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = timed(tmp_path / "run")
    boots = Boots(run, monkeypatch, growth={(0, 0): 0.05})
    verdict = judged(run)
    assert verdict.outcome is Outcome.REGRESSION
    assert boots.asked[0] == boot_order(5, 3)
    assert boots.asked[-1] in (boot_order(5, 12), boot_order(5, 16))
    assert verdict.sequential is not None and verdict.sequential.seed == 5
    assert verdict.sequential.experiment and not verdict.can_gate
    assert [p.first for p in verdict.sequential.pairs[:2]] == [s for s, _ in boot_order(5, 2)[::2]]
    page = render_report(run).read_text()
    assert "An experiment: judged as a board" in page and "Pairs of boots" in page


def test_a_verdict_is_derived_again_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = timed(tmp_path / "run")
    Boots(run, monkeypatch)
    judged(run)
    before = run.verdict.read_bytes()
    run.verdict.unlink()
    Flow(run, Progress(quiet=True)).judge()
    assert run.verdict.read_bytes() == before


def test_a_real_board_can_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = timed(tmp_path / "run", accelerator="none", experiment=False)
    Boots(run, monkeypatch, noise=0.002)
    verdict = judged(run)
    assert verdict.outcome is Outcome.PASS and verdict.can_gate


def test_a_kernel_against_itself_cannot_gate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = timed(tmp_path / "run", accelerator="none", experiment=False, aa=True)
    Boots(run, monkeypatch, noise=0.002)
    assert not judged(run).can_gate


def test_the_other_clock_is_shown_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = make_run(tmp_path / "other", cells=[])
    flow = Flow(other, Progress(quiet=True))
    assert not results.read(other.selection, SelectionRecord).cells
    flow.judge()
    run = timed(tmp_path / "run", beside=str(other.root))
    Boots(run, monkeypatch, noise=0.002)
    verdict = judged(run)
    assert verdict.other is not None
    assert verdict.other.reading == "Neither more instructions nor slower."
    assert results.read(run.side("base") / "result.json", SideResult).clock == "time"


@pytest.mark.parametrize(
    ("changes", "images", "complaint"),
    [
        ({}, {"base": "b" * 64, "candidate": "d" * 64}, "judged another candidate or base"),
        ({"clock": "time", "policy": "time"}, None, "is of the same clock, 'time'"),
    ],
)
def test_another_candidate_or_the_same_clock_is_not_shown_beside(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    images: dict[str, str] | None,
    complaint: str,
) -> None:
    run = timed(tmp_path / "run", beside=str(tmp_path / "other"))
    other = make_run(
        tmp_path / "other", cells=[], **changes, **({"images": images} if images else {})
    )
    Flow(other, Progress(quiet=True)).judge()
    for one in (run, other):  # ready-made images: there is no source to compare
        for name in SIDES:
            (one.side(name) / "source.json").unlink()
    Boots(run, monkeypatch, noise=0.002)
    with pytest.raises(UsageError, match=complaint):
        judged(run)


def test_a_run_without_kernels_is_not_shown_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_run(tmp_path / "other", cells=[])
    for name in SIDES:
        (other.side(name) / "source.json").unlink()
        (other.build(name) / "build.json").unlink()
    run = timed(tmp_path / "run", beside=str(other.root))
    Boots(run, monkeypatch, noise=0.002)
    with pytest.raises(UsageError, match="has no base kernel yet"):
        judged(run)


def test_the_rules_of_others_judge_the_same_boots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = timed(tmp_path / "run")
    Boots(run, monkeypatch, growth={(0, 0): 0.05})
    judged(run)
    cells = real_line(run).strip("| ").split(" | ")
    assert cells == ["run", "12", "regression", "4 of 4", "2 of 2", "2 of 2", "1 of 1"]


def test_overhead_that_grew_is_told_in_every_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no section: what knows sections alone would leave it out."""
    run = timed(tmp_path / "run", accelerator="none", experiment=False)
    patch = data_dir("pipelines").resolve().parent / "examples/patches/ufs-submission-cost.patch"
    results.write_text(run.change, patch.read_text().partition("\ndiff ")[2].join(["diff ", ""]))
    Boots(run, monkeypatch, growth={(0, 0): 0.05})
    assert judged(run).outcome is Outcome.REGRESSION
    source = Source(run)
    failed = [c for c in checks(source.evidence) if c.status is Status.FAILURE]
    assert [(c.cell, c.name) for c in failed] == [("", "verdict"), (CELLS[0], "overhead")]
    assert failed[1].reason.startswith("grew by +")
    text = {name: FORMATS[name].text(source) for name in ("note", "junit", "kcidb", "codequality")}
    assert f"▲ regression `overhead` | `{CELLS[0]}`" in text["note"]
    assert text["junit"].count("<failure") == 2
    tests = {t["path"]: t["status"] for t in json.loads(text["kcidb"])["tests"]}
    assert tests[f"iotoll.{CELLS[0]}.overhead.gate"] == "FAIL"
    assert tests[f"iotoll.{CELLS[1]}.overhead.gate"] == "PASS"
    (entry,) = json.loads(text["codequality"])
    assert entry["location"]["path"] == "drivers/ufs/core/ufshcd.c"
    assert entry["description"].startswith(f"overhead of {CELLS[0]} grew by ")
