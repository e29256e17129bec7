"""The GitHub Action: its files against GitHub's schemas, and its script run as a runner runs it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from iotoll import __version__
from tests.repository import commit, git, kernel_tree, put
from tests.unit.kernels.archives import FILES, LINES
from tests.unit.lists.archives import GOLDEN

ROOT = Path(__file__).parents[3]
ACTION = ROOT / "action.yml"
WORKFLOW = ROOT / "templates/github.yml"


def action() -> dict[str, Any]:
    loaded = yaml.safe_load(ACTION.read_text())
    assert isinstance(loaded, dict)
    return loaded


@pytest.mark.parametrize(
    ("schema", "path"), [("github-actions", ACTION), ("github-workflows", WORKFLOW)]
)
def test_files_are_of_githubs_schema(schema: str, path: Path) -> None:
    words = ["-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", str(path)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    lint = shutil.which("actionlint")
    if lint is None:
        pytest.skip("actionlint is not installed: go install github.com/rhysd/actionlint")
    config = tmp_path / "actionlint.yml"
    config.write_text("self-hosted-runner:\n  labels: [iotoll]\n")
    words = [lint, "-config-file", str(config), str(WORKFLOW)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_nothing_of_a_pull_request_is_text_of_a_script() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]


def test_the_workflow_names_the_version_of_this_release() -> None:
    text = WORKFLOW.read_text()
    assert f"iotoll@v{__version__}" in text and f"iotoll:{__version__}" in text


def run(tmp_path: Path, linux: Path, iotoll: str, **inputs: str) -> tuple[int, dict[str, str], str]:
    """Run the action's script; its exit code, its outputs, and the job's summary."""
    (step,) = action()["runs"]["steps"]
    given = {name: str(one["default"]) for name, one in action()["inputs"].items()}
    given |= {"tree": str(linux), "out": "out", **inputs}
    names = {key: value.split("inputs.")[1].split(" ")[0] for key, value in step["env"].items()}
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/iotoll"
    program.write_text(f"#!/bin/sh\n{iotoll}\n")
    program.chmod(0o755)
    output, summary = tmp_path / "output", tmp_path / "summary"
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{program.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "IOTOLL_CACHE": str(tmp_path / "cache"),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(summary),
            **{key: given[name] for key, name in names.items()},
        },
        capture_output=True,
        text=True,
        check=False,
    )
    lines = output.read_text().splitlines() if output.exists() else []
    said = dict(line.split("=", 1) for line in lines)
    return done.returncode, said, summary.read_text() if summary.exists() else done.stderr


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    return kernel_tree(tmp_path / "linux", {**FILES, "drivers/hid/hid-core.c": LINES})


REAL = f'exec {sys.executable} -m iotoll "$@"'


def test_what_cannot_be_built_is_no_pass(tmp_path: Path, linux: Path) -> None:
    base = git(linux, "rev-parse", "HEAD")
    put(linux, "drivers/hid/hid-core.c", LINES.replace("line 2\n", "LINE 2\n"))
    head = commit(linux, "hid: a line")
    code, said, summary = run(tmp_path, linux, REAL, base=base, head=head)
    # The tree is no kernel: its base cannot be built.
    assert code == 4, summary
    assert said == {"exit_code": "4", "sarif": "out/public/sarif.json"}
    assert "iotoll: infrastructure" in summary
    (found,) = json.loads((tmp_path / "out/public/sarif.json").read_text())["runs"]
    assert found["invocations"] == [{"executionSuccessful": False}]
    assert (tmp_path / "out/public/junit.xml").is_file()


def test_a_usage_error_leaves_no_report_and_fails(tmp_path: Path, linux: Path) -> None:
    head = git(linux, "rev-parse", "HEAD")
    code, said, summary = run(tmp_path, linux, REAL, base=head, head=head, cells="no-such-cell-x")
    assert code == 2, summary
    assert said == {"exit_code": "2"}


@pytest.mark.parametrize(("code", "name", "ends"), [(1, "regression", 1), (3, "pass", 0)])
def test_a_verdict_ends_the_job_as_it_should(
    tmp_path: Path, linux: Path, code: int, name: str, ends: int
) -> None:
    """The verdict is a stored run's; what the script makes of it is real."""
    head = git(linux, "rev-parse", "HEAD")
    stored = f'[ "$1" != gate ] || {{ mkdir -p out; cp -r {GOLDEN / name} out/run; exit {code}; }}'
    ended, said, summary = run(tmp_path, linux, f"{stored}\n{REAL}", base=head, head=head)
    assert (ended, said["exit_code"]) == (ends, str(code)), summary
    assert f"iotoll: {name}" in summary
    (found,) = json.loads((tmp_path / "out/public/sarif.json").read_text())["runs"]
    assert bool(found["results"]) is (name == "regression")
