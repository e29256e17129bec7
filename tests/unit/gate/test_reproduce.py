"""A verdict derived again from what its run stored, without any tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.cli import cli
from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, record_failure
from iotoll.gate.reproduce import boot_again, from_stored
from iotoll.records import results
from iotoll.records.models import Outcome
from iotoll.records.rundir import RunDir
from iotoll.run.opening import open_result
from tests.unit.runs import add_boots, make_run

QUIET = Progress(quiet=True)


@pytest.fixture(autouse=True)
def no_tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    made = make_run(tmp_path / "run")
    add_boots(made)
    flow = Flow(made, QUIET)
    flow.collect()
    flow.judge()
    return made


def everything(run: RunDir) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in run.root.rglob("*") if p.is_file()}


def test_a_verdict_comes_out_the_same_bit_for_bit(run: RunDir) -> None:
    before = everything(run)
    found = from_stored(run, QUIET)
    assert found.same and found.differences == []
    assert everything(run) == before, "the run itself is not touched"
    done = CliRunner().invoke(cli, ["reproduce", str(run.verdict)])
    assert done.exit_code == 0
    assert done.output.splitlines()[-1] == "from what is stored: the same verdict: pass"


def test_a_doctored_verdict_is_found_out(run: RunDir) -> None:
    verdict = json.loads(run.verdict.read_text())
    verdict |= {"outcome": "inconclusive", "exit_code": 3}
    run.verdict.write_text(json.dumps(verdict))
    done = CliRunner().invoke(cli, ["reproduce", str(run.root), "--json"])
    assert done.exit_code == 1
    said = json.loads(done.stdout)
    assert not said["reproduced"]
    assert (said["before"], said["after"]) == ("inconclusive", "pass")
    assert 'verdict.json/outcome: "inconclusive", now "pass"' in said["differences"]


def test_other_bytes_with_the_same_fields_are_told(run: RunDir) -> None:
    run.verdict.write_text(run.verdict.read_text() + " ")
    assert from_stored(run, QUIET).differences == ["verdict.json: the same fields, other bytes"]


def test_doctored_figures_are_found_out(run: RunDir) -> None:
    path = run.side("base") / "result.json"
    data = json.loads(path.read_text())
    cell = next(iter(data["cells"]))
    data["cells"][cell][0]["gate"]["submission"][0] += 1
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    (difference,) = from_stored(run, QUIET).differences
    assert difference.startswith(f"sides/base/result.json/cells/{cell}/0/gate/submission/0: ")


def test_another_policy_than_then_is_told(
    run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = run.verdict.read_text()
    known = json.loads(text)["policy_sha256"]
    run.verdict.write_text(text.replace(known, "0" * 64))
    found = from_stored(run, QUIET)
    assert "policy instructions: its file has changed since" in found.differences[0]


def test_a_run_that_broke_has_nothing_to_derive(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    record_failure(Flow(run, QUIET), "build", BrokenError("build", "no type sise_t"))
    found = from_stored(run, QUIET)
    assert not found.same and found.before.outcome is Outcome.BROKEN
    assert found.differences == ["there is nothing to derive: the run ended at its step build"]


def test_what_is_no_result_says_so(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is not a run directory: it has no run\.json"):
        open_result(tmp_path)
    run = make_run(tmp_path / "run")
    with pytest.raises(UsageError, match="has no verdict to reproduce"):
        from_stored(run, QUIET)


def test_booting_again_needs_the_images_that_were_built(run: RunDir) -> None:
    with pytest.raises(UsageError, match="has no image of the base"):
        boot_again(run, QUIET)
    manifest = run.manifest.model_copy(update={"runner": "lava", "lab": "local"})
    results.write(run.root / "run.json", manifest)
    with pytest.raises(UsageError, match="a lab booted it"):
        boot_again(RunDir(run.root), QUIET)


def test_a_damaged_trace_is_named_by_its_place_in_the_run(run: RunDir) -> None:
    trace = sorted(run.side("candidate").rglob("trace.dat"))[0]
    trace.write_bytes(trace.read_bytes()[:1000])
    with pytest.raises(InfrastructureError, match=re.escape(f"{trace}: ends at")):
        from_stored(run, QUIET)
