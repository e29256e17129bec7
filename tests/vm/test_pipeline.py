"""The merge-request pipeline, run whole by gitlab-ci-local on a real kernel project.

The runner's parent status is known to lie about child pipelines, so each job's own result is read.
GitLab itself is the stub of tests/gitlab, at which the jobs with a token are pointed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gitlab.pipeline import (
    CELL,
    change,
    command_script,
    kernel_repository,
    merge_request,
    summary,
)
from tests.gitlab.stub import BOT, TOKEN, State, serving
from tests.repository import git
from tests.vm.conftest import EXAMPLES, needs_board

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_board("virt-arm64")
    folder = tmp_path_factory.mktemp("project")
    iotoll = command_script(folder)
    inputs = {"boards": ["virt-arm64"], "cells": CELL, "iotoll": str(iotoll)}
    return kernel_repository(folder / "linux", inputs)


@pytest.fixture
def server() -> Iterator[tuple[str, State]]:
    with serving() as (url, state):
        yield url, state
        assert state.wrongs == []


def everything(folder: Path) -> Iterator[bytes]:
    """All that a pipeline left, less the variables that gitlab-ci-local itself writes down."""
    for path in (folder / ".gitlab-ci-local/artifacts").rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.read_bytes()


def test_planted_regression_fails_and_is_told(project: Path, server: tuple[str, State]) -> None:
    url, state = server
    base = git(project, "rev-parse", "main")
    candidate = change(project, EXAMPLES / "ufs-submission-cost.patch", "slower")
    ran = merge_request(project, url, base)
    assert ran.jobs == {
        "iotoll-select": "PASS",
        "iotoll-build: [virt-arm64,base]": "PASS",
        "iotoll-build: [virt-arm64,candidate]": "PASS",
        "iotoll-gate: [virt-arm64]": "FAIL",
        "iotoll-judge": "FAIL",
        "iotoll-report": "PASS",
        "iotoll-post": "PASS",
    }, ran.output
    found = summary(ran)
    assert found["outcome"] == "regression", ran.output
    assert found["plan"]["base"] == base and found["plan"]["candidate"] == candidate
    (note,) = (n["body"] for n in state.notes if n["author"]["id"] == BOT)
    assert "iotoll: regression" in note.splitlines()[1] and "submission" in note
    (status,) = state.statuses
    assert status["state"] == "failed"
    assert TOKEN not in ran.output
    assert not any(TOKEN.encode() in data for data in everything(project))
