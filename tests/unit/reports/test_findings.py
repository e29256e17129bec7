"""Findings: one source of every output's numbers; findings G2.1 to G2.6, G2.9 and G2.10."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from iotoll.core.paths import data_dir
from iotoll.patch.diff import Hunk
from iotoll.records import results
from iotoll.records.models import ExplainRecord, Finding, FindingsRecord, Outcome, PairedIosRecord
from iotoll.records.models.finding import FoundFunction
from iotoll.records.rundir import RunDir
from iotoll.records.text import MINUS, NBSP, signed
from iotoll.reports.page import render_report
from iotoll.reports.page.evidence import Evidence, gather
from iotoll.reports.page.findings import findings, record_of
from iotoll.reports.page.html import page_html
from iotoll.reports.page.plain_text import COLUMNS, commit_text, cover_text, mail_text
from iotoll.reports.page.short import telling
from iotoll.reports.page.sure import in_words
from iotoll.reports.page.terminal import SCREEN, print_report, print_screen
from iotoll.reports.page.view import cells
from iotoll.reports.publish.codequality import codequality
from iotoll.reports.publish.junit import junit
from iotoll.reports.publish.note import note
from iotoll.verdict.accept import apply, proposed
from iotoll.verdict.findings import told as with_sentence
from iotoll.verdict.policy import load_policy
from tests.golden.runs import CASES, IDS, real

EXPLAINED = results.read(data_dir("results-schema") / "valid/explain.json", ExplainRecord)
CHECKSUM = "ufshcd_check_command"
SCREENS = Path(__file__).parents[2] / "golden/data/screens"


def plain(text: str) -> str:
    """Words as they are read: without the signs that keep them together, on one line."""
    text = text.replace(NBSP, " ").replace("\u2060", "").replace(MINUS, "-").replace("`", "")
    return " ".join(text.split())


def explained() -> Evidence:
    """The regression with functions: most of it is inlined code of a changed function."""
    run = gather(real("regression"))
    (cell,) = EXPLAINED.cells
    cells = [
        cell.model_copy(update={"cell": one.cell})
        for one in (run.verdict.cells if run.verdict else ())
    ]
    return replace(run, explained=EXPLAINED.model_copy(update={"cells": cells}))


def screen(evidence: Evidence, width: int = 80) -> list[str]:
    stream = io.StringIO()
    print_screen(evidence, Console(file=stream, width=width, color_system=None))
    return stream.getvalue().splitlines()


def outputs(evidence: Evidence) -> dict[str, str]:
    """Every output that says what was found, as a reader reads it."""
    full = io.StringIO()
    print_report(evidence, Console(file=full, width=80, color_system=None))
    made = {
        "terminal": "\n".join(screen(evidence)),
        "full": full.getvalue(),
        "page": re.sub(r"<style>.*?</style>|<[^>]+>", " ", page_html(evidence), flags=re.S),
        "note": note(evidence, []),
        "mail": mail_text(evidence),
        "commit": commit_text(evidence),
        "cover": cover_text(evidence),
        "junit": junit(evidence),
        "codequality": " ".join(e["description"] for e in json.loads(codequality(evidence))),
        "findings": record_of(evidence).sentence,
    }
    return {name: plain(text) for name, text in made.items()}


def test_g2_1_the_sentence_is_the_same_in_every_output() -> None:
    evidence = explained()
    (one, *_) = findings(evidence)
    sentence = plain(one.sentence)
    assert sentence == (
        "+327 to +329 instructions per UFS request (+14 % of submission), 321 of them in"
        f" {CHECKSUM} (ufshcd.c:2948), in both workloads"
    )
    for name, text in outputs(evidence).items():
        assert sentence in text, name


def test_g2_1_a_share_is_of_what_the_section_costs_without_the_recorder() -> None:
    evidence = gather(real("regression"))
    (one, *_) = findings(evidence)
    base = evidence.sides["base"].cells[one.cells[0]][0].sections
    section = next(record for name, record in base.items() if name.value == one.part)
    assert section.corrected_median and section.own.median
    assert one.share is not None
    assert one.share == pytest.approx(329 / section.corrected_median, rel=0.03)
    assert one.share > 329 / section.own.median


SIZED = re.compile(r"(?<![\w.:>])[+-]\d[\d,]*(?:\.\d+)?(?: %)?")
ENDS = {
    "terminal": "report:",
    "full": "The run ",
    "page": "Every value, cell by cell",
    "note": "Every cell that moved",
    "mail": "Software path",
    "commit": "Kernel:",
    "cover": "Software path",
    "junit": '<testcase classname="iotoll.virt-arm64.',
    "codequality": "Pinned",
    "findings": "\n",
}
"""Where an output ends to say what was found; tables of all cells and sections follow."""


@pytest.mark.parametrize("counted", [False, True])
def test_g2_3_no_two_outputs_say_different_numbers(counted: bool, tmp_path: Path) -> None:
    """Every size and percentage of an output stands in the findings, or is a cell's of them."""
    evidence = stored("checksum-two-cells", tmp_path) if counted else explained()
    verdict, found = evidence.verdict, findings(evidence)
    assert verdict is not None
    known = {number for one in found for number in SIZED.findall(plain(one.sentence))}
    known |= {number for line in proposed(verdict) for number in SIZED.findall(line)}
    known |= {plain(signed(function.delta)) for one in found for function in one.functions}
    views = cells(evidence)
    compared = [
        (view, one)
        for view in views
        for one in (*(row.comparison for row in view.rows), view.whole, view.work)
        if one is not None
    ]
    of_cells = {part for view, one in compared for part in SIZED.findall(
        plain(view.change(one.delta, one.base)))}  # fmt: skip
    made = outputs(evidence)
    for name, end in ENDS.items():
        text = re.sub(r"\d{4}-\d\d-\d\d", "", made[name].partition(end)[0])
        said = {part for part in SIZED.findall(text) if "e" not in part}
        allowed = known | of_cells if name in ("full", "page", "terminal", "note") else known
        assert said and said <= allowed, (name, said - allowed)
    for view, one in compared:
        if one.moved == "grew" and not view.recorder_counted:
            assert "%" not in view.change(one.delta, one.base), "it would be of the recorder's cost"
    by_name = {cell.cell: cell for cell in verdict.cells}
    for told in (told for told in found if told.part not in ("whole", "work")):
        sections = [s for cell in told.cells for s in by_name[cell].sections]
        deltas = [s.delta for s in sections if s.section == told.part]
        assert (told.least, told.most) == (min(deltas, key=abs), max(deltas, key=abs))


def stored(name: str, folder: Path) -> Evidence:
    """A gate of the stored first screens."""
    with tarfile.open(SCREENS / f"{name}.tar.gz") as tar:
        tar.extractall(folder / "run", filter="data")
    return gather(RunDir.open(folder / "run"))


def test_g2_3_a_trailer_accepts_what_the_sentence_says() -> None:
    evidence = gather(real("regression"))
    verdict = evidence.verdict
    assert verdict is not None
    record = record_of(evidence)
    for one, trailer in zip(record.findings, record.trailers, strict=False):
        assert f"+{one.most:.0f}" == trailer.split()[2]
    asked = [f"{line} it is needed" for line in record.trailers]
    assert apply(verdict, asked, load_policy("instructions"), "Maintainer").outcome is Outcome.PASS


def test_g2_3_requests_are_said_where_they_explain_a_size(tmp_path: Path) -> None:
    """+1,640 for an O_SYNC write is five requests of 328 each."""

    def five(data: dict[str, Any]) -> None:
        (cell,) = [c for c in data["cells"] if c["cell"] == "ufs-4k-randread-t1-direct"]
        (found,) = [s for s in cell["sections"] if s["section"] == "submission"]
        size = 5 * found["delta"]
        whole = {**found, "base": 100_000.0, "delta": size, "candidate": 100_000.0 + size}
        del whole["section"]
        cell["whole"] = {**whole, "relative": size / 100_000}

    run = edited(tmp_path / "run", five)
    evidence = gather(run)
    sides = {}
    for side, result in evidence.sides.items():
        cells = {
            name: [
                record.model_copy(
                    update={
                        "requests": {"attributed": 256, "helper": 1024},
                        "ios": {**record.ios, "measured": 256},
                    }
                )
                for record in records
            ]
            for name, records in result.cells.items()
        }
        sides[side] = result.model_copy(update={"cells": cells})
    (whole,) = [one for one in findings(replace(evidence, sides=sides)) if one.part == "whole"]
    assert "+1,645 instructions per UFS I/O" in plain(whole.sentence)
    assert "5 requests of +329 each" in plain(whole.sentence)


def edited(folder: Path, change: Any, name: str = "regression") -> RunDir:
    """A copy of a measured run whose verdict.json ``change`` edits."""
    shutil.copytree(real(name).root, folder)
    data = json.loads((folder / "verdict.json").read_text())
    change(data)
    (folder / "verdict.json").write_text(json.dumps(data))
    return RunDir.open(folder)


def test_g2_2_nothing_is_guessed_where_functions_were_measured() -> None:
    hunk = Hunk("drivers/ufs/core/ufshcd.c", "static int ufshcd_probe(struct hba *h)", 9000, 50)
    guessed = replace(gather(real("regression")), hunks=(hunk,))
    measured = replace(explained(), hunks=(hunk,))
    (entry, *_) = json.loads(codequality(guessed))
    assert "by a guess" in entry["description"] and entry["location"]["lines"]["begin"] == 9000
    (entry, *_) = json.loads(codequality(measured))
    assert "guess" not in entry["description"]
    assert entry["location"] == {"path": "drivers/ufs/core/ufshcd.c", "lines": {"begin": 2948}}
    for name, text in outputs(measured).items():
        assert "guess" not in text and "ufshcd_probe" not in text.partition("Where")[0], name
    assert any("a guess from the changed lines" in plain(line) for line in screen(guessed)) or (
        "a guess from the changed lines" in plain(" ".join(screen(guessed)))
    )


def test_g2_4_a_pass_does_not_call_unchanged_what_changed(tmp_path: Path) -> None:
    def two(data: dict[str, Any]) -> None:
        for section in data["cells"][0]["sections"]:
            section |= {"delta": 2.0, "candidate": section["base"] + 2.0}

    told = plain(" ".join(screen(gather(edited(tmp_path / "run", two, "pass")))))
    assert "unchanged" not in told
    full = outputs_of_pass(gather(RunDir.open(tmp_path / "run")))
    assert "+2 instructions in vfs_fs of" in full and "unchanged" not in full


def outputs_of_pass(evidence: Evidence) -> str:
    stream = io.StringIO()
    print_report(evidence, Console(file=stream, width=200, color_system=None))
    return plain(stream.getvalue())


def test_g2_6_every_finding_and_function_is_in_the_text_for_a_list(tmp_path: Path) -> None:
    def more(data: dict[str, Any]) -> None:
        for cell in data["cells"]:
            for section in cell["sections"]:
                section |= {"delta": 50.0, "relative": 0.02, "moved": "grew", "gated": True}
            cell["outcome"] = "regression"

    evidence = gather(edited(tmp_path / "run", more))
    found = [one for one in findings(evidence) if one.kind == "regression"]
    assert len(found) == 8
    for text in (commit_text(evidence), cover_text(evidence), mail_text(evidence)):
        assert "more below" not in text
        for one in found:
            assert plain(one.sentence) in plain(text)
        assert max(map(len, text.partition("\n\n")[2].splitlines())) <= COLUMNS
        assert text.isascii() and "\x1b" not in text


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_g2_7_the_first_screen_fits_and_its_commands_can_be_pasted(case: Path) -> None:
    evidence = gather(RunDir.open(case))
    lines = screen(evidence)
    assert len(lines) <= SCREEN
    commands = [line for line in lines if line.startswith("    ")]
    assert all(len(line) <= 80 for line in lines if line not in commands)
    for line in commands:
        if "iotoll gate" in line:
            assert line.strip() in " ".join(["iotoll", *evidence.manifest.command]) or (
                evidence.manifest.command[-1] in line
            )


def test_g2_7_a_mail_says_it_first() -> None:
    text = mail_text(explained())
    subject, _, rest = text.partition("\n\n")
    assert subject.startswith("Subject: [iotoll] ") and "+327 to +329 instructions" in subject
    assert rest.startswith("Hello,\n\niotoll noticed +327 to +329 instructions per UFS request")
    assert "Iotoll-Accept: ufs-* submission +329 REASON" in rest and "Repeat with:" in rest


@pytest.mark.parametrize("name", ["regression", "pass", "smoke", "infrastructure", "broken"])
def test_g2_9_a_note_can_be_read_and_its_paths_pasted(name: str) -> None:
    body = note(gather(real(name)), [])
    assert "\u2060" not in body
    assert body.count("\\") <= 6, body
    for path in re.findall(r"[\w/]+\.c:\d+", body.replace("`", "")):
        assert path in body


def test_g2_10_how_sure_in_words() -> None:
    verdict = gather(real("regression")).verdict
    assert verdict is not None
    (found,) = [s for s in verdict.cells[0].sections if s.section == "submission"]
    paired = PairedIosRecord(
        pairs=768, exact=0.0, commonest=330, commonest_share=0.9974, mean=330.9, above=768,
        below=0, size=4, noise=0.004,
    )  # fmt: skip
    all_grew = found.model_copy(update={"paired": paired, "confidence": "768 of 768; net 0.4%"})
    assert plain(in_words(all_grew)) == (
        "All 768 I/Os grew, 99 % by exactly 330. Two boots of the base differ in 0.4 % of the I/Os."
    )
    one_shrank = {"paired": paired.model_copy(update={"above": 767, "below": 1, "noise": 0.0})}
    assert plain(in_words(all_grew.model_copy(update=one_shrank))) == (
        "767 of 768 I/Os grew and 1 shrank by more than 4, 99 % by exactly 330. No two boots of"
        " the base differ so."
    )


def test_findings_are_stored_beside_the_report(tmp_path: Path) -> None:
    run = RunDir.open(Path(shutil.copytree(real("regression").root, tmp_path / "run")))
    render_report(run)
    stored = results.read(run.findings, FindingsRecord)
    assert stored == record_of(gather(run))
    assert all(isinstance(one, Finding) and one.sentence for one in stored.findings)


def test_other_costs_are_findings_and_come_first(tmp_path: Path) -> None:
    def reads(data: dict[str, Any]) -> None:
        for cell in data["cells"][:2]:
            function = {"name": "ufshcd_send_command", "base": 2.0, "candidate": 3.0}
            one = {"element": "register_reads.UFS", "section": "submission", "base": 2.0}
            one |= {"candidate": 3.0, "delta": 1.0, "relative": 0.5, "threshold": 0.0}
            one |= {"gated": True, "moved": "grew", "confidence": "all"}
            cell["elements"] = [{**one, "functions": [function]}]

    (first, second, *_) = findings(gather(edited(tmp_path / "run", reads)))
    assert first.sentence == (
        "+1 register read of UFS per UFS request in submission, in ufshcd_send_command,"
        " in both workloads"
    )
    assert second.element == "instructions"


@pytest.mark.parametrize("cells", [2, 40])
def test_g2_7_the_first_screen_leaves_no_finding_out(tmp_path: Path, cells: int) -> None:
    """ "3 more findings: --full" stood where there was no room: each is named with its size."""

    def more(data: dict[str, Any]) -> None:
        first = data["cells"][0]
        for section in first["sections"]:
            section |= {"moved": "grew", "gated": True, "relative": 0.02}
        first["outcome"] = "regression"
        devices = ["ufs", "nvme", "emmc", "sata", *(f"disk{n}" for n in range(cells))]
        data["cells"] = [
            json.loads(json.dumps({**first, "cell": f"{device}-4k-randread-t1-direct"}))
            for device in devices[:cells]
        ]
        for number, cell in enumerate(data["cells"]):
            for at, section in enumerate(cell["sections"]):
                section |= {"delta": 1000.0 + 10 * number + at, "candidate": section["base"] + 1}

    evidence = gather(edited(tmp_path / "run", more))
    found = [one for one in findings(evidence) if one.kind == "regression"]
    assert len(found) == 4 * cells
    lines = screen(evidence)
    text = plain(" ".join(lines))
    assert "more finding" not in text
    for one in found:
        assert plain(signed(one.size)) in text, one.sentence
    assert len(lines) <= SCREEN or cells == 40, "it grows with findings alone"
    assert max(map(len, lines)) <= 80


def test_of_a_log_the_lines_that_tell_what_failed_are_shown() -> None:
    boot = [f"[    0.{n:03}] usual line {n}" for n in range(30)]
    log = [*boot[:10], "[    0.100] ufshcd: Failed getting the geometry", *boot[10:]]
    assert telling("\n".join(log), 4) == [log[10]]
    assert telling("\n".join(boot), 4) == boot[-4:]
    assert telling("\n".join(boot[:3]), 4) == boot[:3], "a short one is shown whole"


def test_a_function_inlined_into_several_is_named_once() -> None:
    """A header's: each of its callers has the code, and the reader looks for one place."""
    parts = [(3.0, "scsi_queue_rq"), (2.0, "scsi_init_command"), (2.0, "scsi_mq_set_rq")]
    functions = [
        FoundFunction(
            name="blk_mq_rq_to_pdu",
            delta=delta,
            changed=True,
            into=into,
            file="include/linux/blk-mq.h",
            line=990,
        )
        for delta, into in parts
    ]
    one = findings(explained())[0]
    found = one.model_copy(update={"size": 8.0, "least": 8.0, "most": 8.0, "functions": functions})
    assert "7 of them in blk_mq_rq_to_pdu (blk-mq.h:990), in" in with_sentence(found).sentence
