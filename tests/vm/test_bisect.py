"""The pipeline of a search, run whole by gitlab-ci-local on a real kernel project.

Every commit but the first is built and booted in the sandbox, the culprit is confirmed and
explained, and the merge request that brought it is told.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.gitlab.pipeline import (
    CELL,
    PIPELINE,
    ROOT,
    change,
    command_script,
    kernel_repository,
    run_pipeline,
)
from tests.gitlab.stub import BOT, PROJECT, TOKEN, serving
from tests.repository import git
from tests.vm.conftest import EXAMPLES, needs_board

pytestmark = pytest.mark.vm
CULPRIT = "ufs-submission-cost"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kernel project with ``pipelines/bisect.yml``, whose branch has one costlier commit."""
    needs_board("virt-arm64")
    folder = tmp_path_factory.mktemp("bisect") / "linux"
    made = kernel_repository(folder, {})
    shutil.copy(ROOT / "pipelines/bisect.yml", made / "ci-config")
    (made / "ci-config/ci.yml").write_text(
        json.dumps({"include": [{"local": "ci-config/bisect.yml"}]})
    )
    git(made, "add", "--force", "ci-config")
    change(made, EXAMPLES / f"{CULPRIT}.patch", "search")
    source = made / "drivers/ufs/core/ufshcd.c"
    for word in ("first", "second", "third"):
        source.write_text(source.read_text() + f"/* {word} */\n")
        git(made, "commit", "-q", "-m", f"ufs: the {word} comment", "--", "drivers")
    return made


def asked(url: str, good: str, bad: str) -> dict[str, str]:
    """The variables of a pipeline that somebody starts by hand."""
    return {
        "CI_PIPELINE_SOURCE": "web",
        "CI_PIPELINE_ID": str(PIPELINE),
        "CI_PROJECT_ID": PROJECT,
        "CI_SERVER_URL": url,
        "IOTOLL_BISECT_GOOD": good,
        "IOTOLL_BISECT_BAD": bad,
        "IOTOLL_BISECT_CELL": CELL,
        "IOTOLL_GITLAB_TOKEN": TOKEN,
    }


@pytest.mark.long
def test_the_culprit_is_found_in_the_sandbox_and_its_request_is_told(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{command_script(tmp_path).parent}:{os.environ['PATH']}")
    good, bad = git(project, "rev-parse", "main"), git(project, "rev-parse", "search")
    culprit = git(project, "rev-parse", "search~3")
    with serving() as (url, gitlab):
        gitlab.brought[culprit] = [{"iid": 7, "state": "merged"}]
        ran = run_pipeline(project, asked(url, good, bad))
        assert gitlab.wrongs == []
    assert ran.jobs == {"iotoll-bisect": "PASS", "iotoll-bisect-post": "PASS"}, ran.output
    answer = json.loads(ran.artifact("iotoll-bisect", "iotoll-bisect/bisect.json").read_text())
    assert answer["outcome"] == "found"
    assert [commit["sha"] for commit in answer["commits"]] == [culprit]
    assert answer["section"] == "submission"
    (function, *_) = answer["confirmed"]["functions"]
    assert function["name"] == "ufshcd_queuecommand" and 300 < function["delta"] < 350
    (note,) = (n["body"] for n in gitlab.notes if n["author"]["id"] == BOT)
    assert culprit[:12] in note and "ufshcd" in note
    assert TOKEN not in ran.output


def test_a_range_without_a_commit_fails_and_nobody_is_told(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{command_script(tmp_path).parent}:{os.environ['PATH']}")
    good = git(project, "rev-parse", "main")
    with serving() as (url, gitlab):
        ran = run_pipeline(project, asked(url, good, good))
        assert gitlab.wrongs == []
    assert ran.jobs["iotoll-bisect"] == "FAIL", ran.output
    assert "holds 0 commits" in ran.log("iotoll-bisect")
    assert gitlab.notes == [] and gitlab.issues == []
