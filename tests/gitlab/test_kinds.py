"""F4.8: pipelines of merge requests, of the default branch and of tags: their jobs, their base."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iotoll.ci import plan
from tests.gitlab.pipeline import ROOT, runner
from tests.repository import commit, git, kernel_tree, put
from tests.unit.test_cli import Iotoll, iotoll, mistake, place

__all__ = ["iotoll", "place"]
MERGE_REQUEST = {"CI_PIPELINE_SOURCE": "merge_request_event"}
PUSH = {"CI_PIPELINE_SOURCE": "push", "CI_DEFAULT_BRANCH": "main"}
DRIVER = "drivers/ufs/core/ufshcd.c"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that includes the component, and asks for all three kinds."""
    runner()
    folder = kernel_tree(tmp_path_factory.mktemp("kinds") / "linux", {DRIVER: "int a;\n"})
    shutil.copytree(ROOT / "templates", folder / "templates")
    inputs = {"branches": True, "tags": True}
    include = {"local": "templates/gate.yml", "inputs": inputs}
    (folder / ".gitlab-ci.yml").write_text(json.dumps({"include": [include]}))
    commit(folder, "pipeline")
    git(folder, "remote", "add", "origin", "https://gitlab.example.com/a/linux.git")
    git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(folder, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    return folder


@pytest.mark.parametrize(
    ("variables", "gated"),
    [
        (MERGE_REQUEST, True),
        ({**PUSH, "CI_COMMIT_BRANCH": "main"}, True),
        ({**PUSH, "CI_COMMIT_BRANCH": "topic"}, False),
        ({**PUSH, "CI_COMMIT_TAG": "v1", "CI_COMMIT_BRANCH": ""}, True),
    ],
    ids=["merge request", "default branch", "another branch", "tag"],
)
def test_f4_8_each_kind_has_its_jobs(project: Path, variables: dict[str, str], gated: bool) -> None:
    words = [
        word for name, value in variables.items() for word in ("--variable", f"{name}={value}")
    ]
    done = subprocess.run(
        [*runner(), "--list-csv", "--no-color", *words],
        cwd=project,
        env={**os.environ, "GCL_IGNORE_PREDEFINED_VARS": ",".join(variables)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = {line.partition(";")[0] for line in done.stdout.splitlines() if "iotoll-" in line}
    sides = {f"iotoll-build: [virt-arm64,{side}]" for side in ("base", "candidate")}
    jobs = {"iotoll-select", "iotoll-gate: [virt-arm64]", "iotoll-judge", "iotoll-report", *sides}
    assert found == (jobs if gated else set())


@pytest.fixture
def history(place: Path) -> dict[str, str]:
    """A tree with a tag, a merged change, a pushed one, and a second tag; commits by name."""
    tree = kernel_tree(place / "linux", {DRIVER: "int a;\n"})
    found = {"v1": git(tree, "rev-parse", "HEAD")}
    git(tree, "tag", "v1")
    for name in ("merged", "pushed"):
        put(tree, DRIVER, f"int {name};\n")
        found[name] = commit(tree, name)
    git(tree, "tag", "v2")
    return found


@pytest.mark.parametrize(
    ("variables", "base"),
    [
        ({"CI_MERGE_REQUEST_DIFF_BASE_SHA": "merged"}, "merged"),
        ({"CI_COMMIT_BRANCH": "main", "CI_COMMIT_BEFORE_SHA": "merged"}, "merged"),
        ({"CI_COMMIT_TAG": "v2"}, "v1"),
    ],
    ids=["merge request", "default branch", "tag"],
)
def test_f4_8_each_kind_is_compared_with_what_was_before(
    place: Path,
    iotoll: Iotoll,
    history: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    base: str,
) -> None:
    for name, value in {**variables, "CI_COMMIT_SHA": "pushed"}.items():
        monkeypatch.setenv(name, history.get(value, value) if name.endswith("SHA") else value)
    done = iotoll("ci", "select", "--clone", "linux", "--board", "virt-arm64")
    assert done.returncode == 0, done.stderr
    made = plan.read_plan(place / "iotoll")
    assert (made.base, made.candidate) == (history[base], history["pushed"])


def test_f4_8_a_first_tag_has_nothing_to_be_compared_with(
    iotoll: Iotoll, history: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_COMMIT_TAG", "v1")
    line = mistake(iotoll("ci", "select", "--clone", "linux", "--board", "virt-arm64"))
    assert "v1: no earlier tag in linux" in line
