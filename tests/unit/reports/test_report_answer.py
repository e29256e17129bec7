"""The first screen: what moved, where, how sure, what to do; findings F4.1 to F4.4, F2.8, F6.7."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iotoll.records.models import BootRecord, Outcome, Section
from iotoll.records.rundir import RunDir
from iotoll.records.text import NBSP
from iotoll.reports.page import diagrams
from iotoll.reports.page.evidence import Evidence, gather
from iotoll.reports.page.findings import groups_of
from iotoll.reports.page.headline import headline
from iotoll.reports.page.html import page_html
from iotoll.reports.page.summary import first_screen, seen_once
from iotoll.reports.page.view import cells
from iotoll.reports.publish.checks import Status, checks
from iotoll.reports.publish.junit import junit
from iotoll.reports.publish.note import note
from iotoll.verdict.accept import apply
from iotoll.verdict.policy import load_policy
from tests.golden.runs import CASES, IDS, real


def lines(evidence: Evidence) -> str:
    facts = first_screen(evidence)
    told = [*headline(evidence).more]
    told += [f"{f.label}: {line}" for f in facts for line in f.lines]
    told += [f"{words}: {command}" for f in facts for words, command in f.commands]
    return "\n".join(told).replace(NBSP, " ")


def edited(folder: Path, change: Any, name: str = "regression") -> RunDir:
    """A copy of a measured run whose verdict.json ``change`` edits."""
    shutil.copytree(real(name).root, folder)
    data = json.loads((folder / "verdict.json").read_text())
    change(data)
    (folder / "verdict.json").write_text(json.dumps(data))
    return RunDir.open(folder)


def test_f4_1_the_headline_is_the_median_not_the_largest(tmp_path: Path) -> None:
    def outlier(data: dict[str, Any]) -> None:
        cell = dict(data["cells"][0])
        found = dict(cell["sections"][1], delta=389.0, relative=0.071)
        sections = [*cell["sections"][:1], found, *cell["sections"][2:]]
        data["cells"].append({**cell, "cell": "ufs-4k-randread-t8-direct", "sections": sections})

    head = headline(gather(edited(tmp_path / "run", outlier)))
    words = "+329 instructions per UFS request (+13 % of submission, recorder included; +327"
    words += " to +389 by workload), "
    assert head.sentence == f"{words}in all 3 workloads"


def test_f1_4_a_pass_says_that_nobody_looked_whether_its_code_ran() -> None:
    told = lines(gather(real("pass")))
    assert "What ran: not looked at: whether these cells run " in told
    assert "see what of the change ran: iotoll explain " in told
    assert "not looked at" not in lines(gather(real("regression")))


def test_f4_2_where_and_what_to_do_are_on_the_first_screen() -> None:
    told = lines(gather(real("regression")))
    assert "issue → device (driver: command, DMA map, doorbell): +328 instructions" in told
    assert "drivers/ufs/core/ufshcd.c:3059 ufshcd_queuecommand: a guess" in told
    assert "iotoll reproduce runs/regression" in told
    assert "iotoll explain runs/regression" in told
    assert "Iotoll-Accept: ufs-* submission +329 REASON" in told


def test_a_board_that_explain_does_not_record_is_profiled() -> None:
    """`iotoll explain` was offered for boards that it refuses."""
    run = gather(real("regression"))
    sides = {
        name: side.model_copy(update={"boots": [on_four_cpus(boot) for boot in side.boots]})
        for name, side in run.sides.items()
    }
    builds = {
        name: build.model_copy(update={"arch": "x86_64"}) for name, build in run.builds.items()
    }
    lab = run.manifest.model_copy(update={"runner": "lava"})
    for other in (
        replace(run, sides=sides),
        replace(run, builds=builds),
        replace(run, manifest=lab),
    ):
        told = lines(other)
        profiled = "it is in, approximately: iotoll explain runs/regression --profile$"
        assert re.search(profiled, told, re.M)
        assert not re.search("iotoll explain runs/regression$", told, re.M)


def on_four_cpus(boot: BootRecord) -> BootRecord:
    command = shlex.join(boot.command).replace("-smp 1", "-smp 4")
    return boot.model_copy(update={"command": shlex.split(command)})


def test_code_that_no_cell_runs_is_named_with_the_board_that_has_such_cells(tmp_path: Path) -> None:
    why = "only a UFS host with several hardware queues runs it: --board virt-arm64-smp4"
    path = "drivers/ufs/core/ufs-mcq.c"

    def uncovered(data: dict[str, Any]) -> None:
        doubts = [f"no cell runs {path}: {why}", "base, ufs-4k: a warning of fio's"]
        data |= {"outcome": "inconclusive", "exit_code": 3, "warnings": doubts}

    run = edited(tmp_path / "run", uncovered, "pass")
    selection = json.loads(run.selection.read_text())
    run.selection.write_text(json.dumps({**selection, "unmeasured": {path: why}}))
    told = lines(gather(run))
    assert f"Mind: no cell runs {path}" in told
    assert "a warning of fio's" not in told  # it stands beside its cell
    assert re.search(
        r"on a board that runs it: iotoll gate .* --board virt-arm64-smp4$", told, re.M
    )
    assert "measure again" not in told


def test_a_family_that_the_board_does_not_run_is_named_with_its_command(tmp_path: Path) -> None:
    """blk-mq.c promises four queues, which the default board has not: it was left out silently."""
    run = edited(tmp_path / "run", lambda data: None, "pass")
    selection = json.loads(run.selection.read_text())
    run.selection.write_text(
        json.dumps({**selection, "left_out": {"queues": "virt-arm64-smp4"}}),
    )
    evidence = gather(run)
    words = ["iotoll", "gate", "--candidate", "x.patch", "--out", "runs/x", "--board=virt-arm64"]
    told = lines(
        replace(evidence, manifest=evidence.manifest.model_copy(update={"command": words}))
    )
    wanted = (
        "run the family queues as well:"
        " iotoll gate --candidate x.patch --board virt-arm64-smp4 --cells queues"
    )
    assert wanted in told.splitlines()


def test_a_step_that_does_not_show_the_change_is_not_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(real("regression").root, folder)
    path = folder / "sides/candidate/result.json"
    data = json.loads(path.read_text())
    for records in data["cells"].values():
        for record in records:
            for step in record["steps"]:
                step["median"] -= 300 if step["step"] == "issue -> device" else 0
    path.write_text(json.dumps(data))
    assert "doorbell" not in lines(gather(RunDir.open(folder)))


@pytest.mark.parametrize("beyond", [True, False])
def test_a_whole_io_is_shown_where_it_moved_by_more_than_its_sections(
    tmp_path: Path, beyond: bool
) -> None:
    def moved(data: dict[str, Any]) -> None:
        for cell in data["cells"]:
            grown = [s["delta"] for s in cell["sections"] if s["moved"] == "grew"]
            delta = sum(grown) + (700.0 if beyond else 0.0)
            size = {"base": 90_000.0, "candidate": 90_000.0 + delta, "delta": delta}
            size |= {"relative": delta / 90_000, "threshold": 5.0, "gated": True, "moved": "grew"}
            if grown:
                cell["whole"] = size | {"confidence": "told so"}

    evidence = gather(edited(tmp_path / "run", moved))
    groups = [g for g in groups_of(evidence.verdict) if g.section is None]
    assert [(g.title, g.kind) for g in groups] == [("whole I/O", "regression")] * beyond
    head = headline(evidence)
    assert ("of the whole I/O" in " ".join([head.sentence, *head.more])) is beyond
    assert ("`whole I/O`" in note(evidence, ())) is beyond
    assert "Whole I/O" in page_html(evidence), "its figures stand below the cell's sections"
    # A device whose whole I/Os alone moved.
    data = json.loads((tmp_path / "run/verdict.json").read_text())
    for cell in data["cells"]:
        for section in cell["sections"]:
            section |= {"moved": "same", "delta": 0.0, "candidate": section["base"]}
    (tmp_path / "run/verdict.json").write_text(json.dumps(data))
    told = lines(gather(RunDir.open(tmp_path / "run")))
    assert "Iotoll-Accept: ufs-* whole +" in told
    assert "unchanged" not in told


def test_f4_4_growth_in_one_of_two_pairs_is_seen(tmp_path: Path) -> None:
    def once(data: dict[str, Any]) -> None:
        for cell in data["cells"]:
            cell["outcome"] = "pass"
            cell["sections"][1].update(moved="same", why="grew in one of two pairs of boots")
        data.update(outcome="pass", exit_code=0, regressions=[])

    evidence = gather(edited(tmp_path / "run", once))
    assert len(seen_once(cells(evidence))) == 4
    assert "Seen once: ufs-4k-randread-t1-direct: submission +329 instructions" in lines(evidence)
    assert "+329 △" in page_html(evidence)


def test_f4_4_strips_tell_40_from_4000() -> None:
    end = 1000
    places = [diagrams._along(ratio, end) for ratio in (0, 0.5, 1, 40 / 12, 4000 / 12, end)]
    assert places == sorted(places) and places[0] == 0 and places[-1] == 1
    assert places[4] - places[3] > 0.3
    assert diagrams._along(-40, end) == -diagrams._along(40, end)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_f2_8_bars_are_never_negative_and_differ_by_the_verdict(case: Path) -> None:
    evidence = gather(RunDir.open(case))
    share = evidence.clock.value == "time"
    for view in cells(evidence):
        assert all((f.corrected or 0) >= 0 for r in view.rows for f in r.sides.values())
        if share or not all(row.comparison for row in view.rows):
            continue
        measure = diagrams.Measure(True, False, 1.0)
        bars = {side: dict(diagrams.stack(view, side, measure)) for side in view.rows[0].sides}
        assert all(value >= 0 for bar in bars.values() for value in bar.values())
        if len(bars) == 2 and all(bars.values()):
            for row in view.rows:
                assert row.comparison is not None
                drawn = bars["candidate"][row.section] - bars["base"][row.section]
                assert drawn == pytest.approx(row.comparison.candidate - row.comparison.base)


def test_f6_7_no_control_or_direction_mark_reaches_a_report(tmp_path: Path) -> None:
    evil = "\x1b[31m\u202eevil\u2066\x9b\u061c"
    folder = tmp_path / "run"
    shutil.copytree(real("regression").root, folder)
    for path in sorted(folder.rglob("*.json")):
        data = json.loads(path.read_text())
        for key in ("version", "toolchain", "board", "tree", "policy", "matrix"):
            if isinstance(data.get(key), str):
                data[key] += evil
        for boot in data.get("boots", []) if isinstance(data.get("boots"), list) else []:
            boot["tools"] = {f"{name}{evil}": value + evil for name, value in boot["tools"].items()}
        path.write_text(json.dumps(data))
    evidence = gather(RunDir.open(folder))
    for text in (page_html(evidence), note(evidence, []), junit(evidence)):
        assert "evil" in text
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u202a-\u202e\u2066-\u2069]", text)


def test_accepted_growth_is_shown_in_every_report(tmp_path: Path) -> None:
    run = RunDir.open(Path(shutil.copytree(real("regression").root, tmp_path / "run")))
    before = gather(run)
    assert before.verdict is not None
    trailer = "ufs-* submission +350 checks each request"
    policy = load_policy("instructions")
    verdict = apply(before.verdict, [trailer], policy, "Maintainer")
    run.verdict.write_text(verdict.model_dump_json(exclude_none=True))
    evidence = gather(run)
    assert headline(evidence).word == "Pass"
    assert [g.kind for g in groups_of(evidence.verdict)] == ["accepted"]
    assert "Accepted: 2 movements by Maintainer: checks each request" in lines(evidence)
    assert "accepted" in note(evidence, []) and "◆" in page_html(evidence)
    accepted = [c for c in checks(evidence) if c.reason.startswith("accepted (checks each")]
    assert len(accepted) == 2
    assert all(c.status is Status.PASSED and c.section is Section.SUBMISSION for c in accepted)
    assert "accepted (checks each request): +327 to +329 instructions per UFS" in junit(evidence)


def test_the_trailer_that_is_proposed_is_enough(tmp_path: Path) -> None:
    """A mean of +6.4 was proposed as +6, which did not cover it."""

    def rare(data: dict[str, Any]) -> None:
        for cell in data["cells"]:
            for found in cell["sections"]:
                if found["moved"] == "grew":
                    found |= {"delta": 6.4, "relative": 6.4 / found["base"]}

    evidence = gather(edited(tmp_path / "run", rare))
    assert evidence.verdict is not None
    (proposed,) = re.findall(r"Iotoll-Accept: (.*) REASON", lines(evidence))
    assert proposed == "ufs-* submission +7"
    policy = load_policy("instructions")
    verdict = apply(evidence.verdict, [f"{proposed} checks"], policy, "Maintainer")
    assert verdict.outcome is Outcome.PASS


def test_a_trailer_is_proposed_for_each_section_that_grew(tmp_path: Path) -> None:
    """One was proposed, and the run still blocked with it."""

    def two(data: dict[str, Any]) -> None:
        for cell in (cell for cell in data["cells"] if cell["outcome"] == "regression"):
            found = cell["sections"][0]
            found |= {"moved": "grew", "delta": 90.0, "relative": 90.0 / found["base"]}

    evidence = gather(edited(tmp_path / "run", two))
    assert evidence.verdict is not None
    told = lines(evidence)
    assert "accept it, with 2 lines in the commit message" in told
    proposed = re.findall(r"Iotoll-Accept: (.*) REASON", told)
    assert proposed == ["ufs-* submission +329", "ufs-* vfs_fs +90"]
    policy = load_policy("instructions")
    for count, outcome in ((1, Outcome.REGRESSION), (2, Outcome.PASS)):
        asked = [f"{line} checks" for line in proposed[:count]]
        assert apply(evidence.verdict, asked, policy, "Maintainer").outcome is outcome


def test_f4_5_boards_do_not_collide_in_junit() -> None:
    text = junit(gather(real("regression")))
    assert 'classname="iotoll.virt-arm64.ufs-4k-randread-t1-direct"' in text


def test_f4_6_a_report_that_draws_nothing_does_not_load_matplotlib() -> None:
    words = "import sys, iotoll.gate.command; sys.exit('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], check=False)
    assert done.returncode == 0
