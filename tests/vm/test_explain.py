"""Explain on a virtual board: a gated patch with planted costs, divided by function."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from iotoll.explain.unseen import Traced
from iotoll.kernels.symbols import read_symbols
from iotoll.records.rundir import SIDES
from tests.vm.conftest import (
    CELLS,
    FAULTS,
    LIMIT,
    UNCALIBRATED,
    Done,
    command,
    environment,
    needs_board,
    run_gate,
    unexplained,
)

pytestmark = [pytest.mark.vm, pytest.mark.timeout(3600)]
CELL = "ufs-4k-randread-t1-direct"
PATCH = FAULTS / "inlined-and-conditional-costs.patch"


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """The gate of a patch with an inlined and a conditional cost."""
    needs_board("virt-arm64")
    folder = tmp_path_factory.mktemp("explain")
    words = ("--cells", CELLS, "--matrix", UNCALIBRATED, "--policy", unexplained(folder))
    return run_gate(folder / "run", "--candidate", PATCH, *words)


@pytest.fixture(scope="module")
def gated(done: Done) -> Path:
    """Its run."""
    assert done.code == 1, done.stderr
    return done.run


def test_costlier_ufs_submission_is_found_there_alone(done: Done) -> None:
    assert done.code == 1, done.verdict
    assert done.verdict["outcome"] == "regression"
    assert done.grew() == {("ufs", "submission")}
    assert len(list(done.run.glob("sides/*/boots/*/boot.json"))) == 2, "changed functions have it"
    ran = json.loads((done.run / "explain.json").read_text())
    assert ran["cells"] == [], "its policy says never: only what ran is noted"
    assert ran["coverage"]["functions"]


def test_g1_4_changed_lines_that_ran_are_told_without_explaining(gated: Path) -> None:
    coverage = json.loads((gated / "explain.json").read_text())["coverage"]
    often = {(line["function"], line["line"]): line["executions"] for line in coverage["lines"]}
    # One is in an inlined function; the loop of 200 turns runs in one I/O of eight.
    assert often["sd_setup_rw10_cmnd", 1253] == {CELL: 20}
    assert often["ufshcd_send_command", 2321] == {CELL: 1}
    assert often["ufshcd_send_command", 2324] == {CELL: pytest.approx(25, abs=1)}
    idle = [f["name"] for f in coverage["functions"] if not f["changed_executed"]]
    assert set(idle) <= {"ufshcd_init"}, "which boots alone run"
    assert sorted(coverage["cells"]) == sorted(CELLS.split(","))


def test_planted_costs_are_named_with_their_sizes(gated: Path) -> None:
    run = gated
    text = explain(run, "--json")
    found = json.loads(text)
    assert found == json.loads((run / "explain.json").read_text())
    (cell,) = found["cells"]
    assert cell["same_base"] and cell["same_candidate"], "an exact board boots the same again"
    (section,) = [s for s in cell["sections"] if s["section"] == "submission"]
    # An I/O that meets a timer may not add up: it is counted, never used.
    assert section["missing_base"] + section["missing_candidate"] <= 5
    first = section["functions"][0]
    assert first["name"] == "sd_init_command" and first["changed"], "the function is inlined"
    assert first["delta"] == 41 and first["share"] > 0.9
    costs = {f["name"]: f for f in section["functions"] if f["changed"]}
    eighth = costs["ufshcd_send_command"]
    # One I/O in eight has 400 instructions more than the others, which test a counter.
    assert eighth["mean"] - eighth["delta"] == pytest.approx(400 / 8, abs=2)
    ran = {f["name"]: f for f in found["coverage"]["functions"]}
    assert ran["sd_init_command"]["calls"][CELL] >= 1
    assert ran["ufshcd_send_command"]["executed"] > 0
    assert (run / f"explain/{CELL}.svg").read_text().startswith("<svg ")
    assert not list((run / "explain").glob("*-record")), "the record itself is not kept"


def test_g2_8_what_is_explained_is_printed_and_made_no_second_time(gated: Path) -> None:
    explain(gated, "--json")
    made = (gated / "explain.json").stat().st_mtime_ns
    text = explain(gated)
    assert "ufshcd_send_command" in text
    assert (gated / "explain.json").stat().st_mtime_ns == made


def explain(run: Path, *words: str) -> str:
    """Explain a run; returns stdout."""
    done = subprocess.run(
        command("explain", run, *words),
        env=environment(),
        capture_output=True,
        text=True,
        # It waits for the kernel tree while another test builds a whole kernel.
        timeout=6 * LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_kernel_costs_what_it_costs_by_function(gated: Path) -> None:
    """Functions of all requests add up to the analyser's counts: nothing is left."""
    found = json.loads(explain(gated, "--since", str(gated), "--json"))
    assert found["cells"] and not found["renamed"] and not found["left_out"]
    for cell in found["cells"]:
        for part in cell["parts"]:
            assert part["first"] == part["second"] == part["unchanged"] > 0, cell["cell"]
            assert part["rest"] == [0, 0] and part["functions"] == []


@pytest.mark.long
def test_modelled_caches_are_deterministic(gated: Path) -> None:
    first = explain(gated, "--cache", "--json")
    assert explain(gated, "--cache", "--json") == first
    found = json.loads(first)["caches"]
    assert found["model"]["name"] == "cortex-a73"
    (section,) = [s for s in found["sections"] if s["section"] == "submission"]
    # An I/O of 4 KiB in ten thousand instructions touches more than these, and less than memory.
    assert 20 < section["data_lines"]["base"] < 2000
    assert 20 < section["code_lines"]["base"] < 4000
    assert section["l1d_misses"]["base"] <= section["data_lines"]["base"] * 10
    assert section["l2_misses"]["base"] <= (
        section["l1d_misses"]["base"] + section["l1i_misses"]["base"]
    )


@pytest.mark.long
def test_untraced_kernels_execute_what_the_gate_counts(gated: Path) -> None:
    found = json.loads(explain(gated, "--untraced", "--json"))
    values = {c["side"]: {s["section"]: s for s in c["sections"]} for c in found["cells"]}
    for side in values.values():
        assert set(side) == {"vfs_fs", "submission", "completion"}
        for section in side.values():
            assert section["ios"] >= 256
            assert abs(section["counted"] - section["untraced"]) <= 2
    grew = values["candidate"]["submission"]["untraced"] - values["base"]["submission"]["untraced"]
    assert 41 <= grew <= 60, "the planted cost is no artefact of the events"


@pytest.mark.long
def test_hidden_costs_are_named_first_with_their_sizes(tmp_path: Path) -> None:
    """Costs in inlined and new functions, under conditions: ten generated patches."""
    words = ("experiment", "explained", "--patches", "10", "--out", tmp_path)
    subprocess.run(command(*words), env=environment(), check=True, timeout=12 * LIMIT)
    rows = {row["what"]: row["named"] for row in json.loads((tmp_path / "table.json").read_text())}
    assert [what for what, row in rows.items() if not row["function"]] == []
    assert [what for what, row in rows.items() if not row["grew"]] == []
    assert [what for what, row in rows.items() if row["first"] != row["grew"]] == []
    assert [what for what, row in rows.items() if row["exact"] != row["runs"]] == []


@pytest.mark.long
def test_a_profile_is_approximate_and_judges_nothing(gated: Path) -> None:
    """Both kernels are built once more, with function_graph's profiler."""
    before = (gated / "verdict.json").read_bytes()
    found = json.loads(explain(gated, "--profile", "--cell", CELL, "--json"))
    assert found["approximate"] is True
    (cell,) = found["cells"]
    functions = {f["name"]: f for f in cell["functions"]}
    inlined = functions["sd_init_command"]
    assert inlined["changed"] and inlined["candidate_calls"] >= 1
    # 41 instructions in every call; an instruction is 1 ns here.
    assert inlined["candidate_ns"] - inlined["base_ns"] == pytest.approx(41, abs=10)
    # The other function is declared inline, which is notrace in the kernel, and is none in another.
    assert "ufshcd_send_command" not in functions
    unseen = {one["name"]: one for one in cell["unseen"]}
    assert unseen["ufshcd_send_command"] == {
        "name": "ufshcd_send_command",
        "sides": ["base", "candidate"],
        "why": "untraced",
        "holders": ["ufshcd_queuecommand"],
    }
    caller = functions["ufshcd_queuecommand"]
    assert caller["holds"] == ["ufshcd_send_command"] and not caller["changed"]
    assert {f["name"] for f in cell["functions"][:2]} == {inlined["name"], caller["name"]}
    # 400 instructions in every eighth call, and a counter's test.
    assert 40 < caller["candidate_ns"] - caller["base_ns"] < 80
    for side in SIDES:
        boot = gated / f"explain/profile/sides/{side}"
        count = entries(Traced(read_symbols(boot / "build/Image")))
        console = (boot / "boots/1/console.log").read_text()
        assert f"ftrace: allocating {count} entries" in console, "as the kernel found them"
    assert (gated / "verdict.json").read_bytes() == before
    assert not (gated / "explain/profile/run.json").exists()


def entries(traced: Traced) -> int:
    """Functions that the tracer can enter. Two labels are where the first ones of sections are."""
    labels = {"_stext", "_sinittext"}
    names = enumerate(traced.symbols.names)
    return sum(traced.is_traced(n) for n, name in names if name not in labels)
