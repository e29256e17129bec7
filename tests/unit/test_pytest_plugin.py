"""The gate suite and the plugin, run by a pytest of their own on real run directories."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from iotoll.pytest_plugin import NO_RUN, check_name
from iotoll.reports.page.evidence import gather
from iotoll.reports.publish.checks import Check, Status, checks
from tests.golden.runs import DATA, HOSTILE, REAL, hostile, real

ROOT = Path(__file__).parents[2]
SUITE = ROOT / "tests/gate"
EXIT = {"pass": 0, "smoke": 0}  # pytest's own: 1 when a test failed or was in error


def run_pytest(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run pytest in ``folder`` with our plugin and allure's, and a JUnit file of pytest's own."""
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder)),
            *("-p", "no:cacheprovider", "-p", "allure_pytest.plugin", "-p", "iotoll.pytest_plugin"),
            *("-rA", f"--junitxml={folder}/pytest.xml", *map(str, words)),
        ],
        cwd=folder,
        env={**os.environ, **own, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def outcomes(folder: Path) -> dict[str, Status]:
    """What pytest itself says happened to each test."""
    found = {}
    for case in ElementTree.parse(folder / "pytest.xml").iter("testcase"):
        tags = {child.tag for child in case} & {"failure", "error", "skipped"}
        name = case.attrib["name"].partition("[")[2].removesuffix("]")
        found[name] = Status(tags.pop()) if tags else Status.PASSED
    return found


@pytest.mark.parametrize("path", REAL, ids=[p.name for p in REAL])
def test_each_outcome_of_a_real_run(path: Path, tmp_path: Path) -> None:
    done = run_pytest(tmp_path, SUITE, "--iotoll-run", path)
    wanted = checks(gather(real(path.name)))
    assert outcomes(tmp_path) == {check_name(c): c.status for c in wanted}
    assert done.returncode == EXIT.get(path.name, 1), done.stdout
    if path.name == "infrastructure":
        assert "QEMU ended with status -9" in done.stdout


def test_without_a_run_it_skips_with_the_reason(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, SUITE)
    assert done.returncode == 0 and NO_RUN in done.stdout
    assert set(outcomes(tmp_path).values()) == {Status.SKIPPED}


def test_a_wrong_run_directory_ends_pytest_at_once(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, SUITE, "--iotoll-run", tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "is not a run directory" in done.stderr
    run = Path(shutil.copytree(DATA / "runs/pass", tmp_path / "run"))
    (run / "verdict.json").write_text("{")
    done = run_pytest(tmp_path, SUITE, "--iotoll-run", run)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "verdict.json" in done.stderr


OWN = """
from iotoll.records.models import Section

def test_run(iotoll_run):
    assert iotoll_run.evidence.verdict.outcome == "regression"
    assert [c.name for c in iotoll_run.cells.values()][0].startswith("ufs-")

def test_cell(iotoll_cell):
    assert iotoll_cell.verdict.outcome in ("pass", "regression")
    assert iotoll_cell.view.moved == (iotoll_cell.verdict.outcome == "regression")

def test_budget(iotoll_comparison):
    if iotoll_comparison.section is Section.SUBMISSION:
        assert iotoll_comparison.figures.candidate < 5500, iotoll_comparison.cell.name
"""


def test_users_write_checks_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(OWN)
    done = run_pytest(tmp_path, tmp_path, "--iotoll-run", DATA / "runs/regression")
    assert done.returncode == 1
    found = outcomes(tmp_path)
    failed = {name for name, status in found.items() if status is Status.FAILURE}
    assert failed == {
        "ufs-4k-randread-t1-direct: submission",
        "ufs-4k-randwrite-t8-direct: submission",
    }
    assert found["nvme-4k-randread-t1-direct"] is Status.PASSED
    skipped = run_pytest(tmp_path, tmp_path)
    assert skipped.returncode == 0 and set(outcomes(tmp_path).values()) == {Status.SKIPPED}


def allure_results(folder: Path, run: Path) -> list[dict[str, Any]]:
    run_pytest(
        *(folder, SUITE, "--iotoll-run", run, "--alluredir", folder / "results"),
        "--iotoll-link=report=https://ci.example/r",
    )
    return [json.loads(p.read_text()) for p in (folder / "results").glob("*-result.json")]


def test_allure_gets_board_kernel_patch_section_links_and_pictures(tmp_path: Path) -> None:
    found = {r["name"]: r for r in allure_results(tmp_path, DATA / "runs/regression")}
    one = found["ufs-4k-randread-t1-direct: submission"]
    labels = {x["name"]: x["value"] for x in one["labels"]}
    assert labels["board"] == "virt-arm64" and labels["section"] == "submission"
    assert labels["parentSuite"] == "UFS" and labels["suite"] == "ufs-4k-randread-t1-direct"
    values = {x["name"]: x for x in one["parameters"]}
    assert "6.12.117" in values["kernel"]["value"]
    assert "Check transfer requests" in values["patch"]["value"]
    # What changes from run to run must not cut a test's history.
    assert all(values[name]["excluded"] for name in ("kernel", "patch", "commit"))
    assert "excluded" not in values["board"]
    assert [x["url"] for x in one["links"]] == ["https://ci.example/r"]
    for attached in one["attachments"]:
        assert attached["type"] == "image/svg+xml"
        root = ElementTree.parse(tmp_path / "results" / attached["source"]).getroot()
        assert root.tag.endswith("}svg") and float(root.attrib["height"]) > 0
        assert "var(--" not in (tmp_path / "results" / attached["source"]).read_text()
    assert len(one["attachments"]) == 2
    assert found["verdict"]["status"] == "failed"


def test_history_follows_a_test_over_patches_and_outcomes(tmp_path: Path) -> None:
    names = ("regression", "pass")
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = (
        {r["name"]: r["historyId"] for r in allure_results(tmp_path / at, DATA / "runs" / name)}
        for at, name in zip("ab", names, strict=True)
    )
    assert one == two and len(set(one.values())) == len(one)


def test_allure_statuses(tmp_path: Path) -> None:
    (whole,) = [
        r for r in allure_results(tmp_path, DATA / "runs/infrastructure") if r["name"] == "verdict"
    ]
    assert whole["status"] == "broken", "Allure's word for an error outside of what is tested"


def test_hostile_texts_end_no_test(tmp_path: Path) -> None:
    run = hostile(tmp_path / "run")
    done = run_pytest(tmp_path, SUITE, "--iotoll-run", run.root)
    wanted = [c for c in checks(gather(run)) if c.status is Status.FAILURE]
    assert done.returncode == 1 and len(wanted) == 3
    assert outcomes(tmp_path) == {check_name(c): c.status for c in checks(gather(run))}
    assert "\x1b" not in done.stdout and HOSTILE.split()[0] in done.stdout


def test_a_check_has_a_name_of_its_own() -> None:
    for path in REAL:
        names = [check_name(c) for c in checks(gather(real(path.name)))]
        assert len(set(names)) == len(names)
    assert check_name(Check("", None, Status.PASSED, "")) == "verdict"
