"""A merge request's pipeline with its child: the gate here, then a board in a real LAVA."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from iotoll.labs.local import LabState
from tests.gitlab.pipeline import (
    CELL,
    PIPELINE,
    change,
    command_script,
    encoded,
    kernel_repository,
    merge_request,
    summary,
)
from tests.gitlab.stub import BOT, serving
from tests.repository import git
from tests.vm.conftest import EXAMPLES

pytestmark = [pytest.mark.lab, pytest.mark.vm]
BOARD = "virt-arm64"
CHILD, JOB = 2000, 31


def zipped(folder: Path) -> bytes | None:
    """A folder as GitLab hands out a job's artifacts."""
    if not folder.is_dir():
        return None
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                packed.write(path, path.relative_to(folder))
    return out.getvalue()


@pytest.mark.long
def test_neutral_change_passes_on_a_labs_board_too(
    state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    inputs = {
        "boards": [BOARD],
        "lava_boards": BOARD,
        "lab": str(lab_file),
        "cells": CELL,
        "iotoll": str(command_script(tmp_path)),
    }
    project = kernel_repository(tmp_path / "linux", inputs)
    change(project, EXAMPLES / "neutral.patch", "neutral")
    left = project / ".gitlab-ci-local/artifacts" / encoded(f"lava {BOARD}")
    with serving() as (url, gitlab):
        gitlab.bridges[PIPELINE] = [
            {"id": 1, "name": "iotoll-boards", "downstream_pipeline": {"id": CHILD}}
        ]
        gitlab.jobs[CHILD] = [{"id": JOB, "name": f"lava {BOARD}"}]
        gitlab.artifacts[JOB] = lambda: zipped(left)
        base = git(project, "rev-parse", "main")
        ran = merge_request(project, url, base, IOTOLL_LAVA_TOKEN_FILE=state.token_file)
        assert gitlab.wrongs == []
    # The parent says PASS of a child whatever it did: what the child's job left is read.
    assert set(ran.jobs.values()) == {"PASS"}, ran.output
    assert {f"[iotoll-boards] -> {job} {BOARD}" for job in ("build", "lava")} <= ran.jobs.keys()
    found = summary(ran)
    assert [(r["runner"], r["outcome"]) for r in found["runs"]] == [
        ("local", "pass"),
        ("lava", "pass"),
    ], ran.output
    assert (left / f"iotoll/lava/{BOARD}/verdict.json").is_file()
    (note,) = (n["body"] for n in gitlab.notes if n["author"]["id"] == BOT)
    assert "iotoll: pass" in note and f"{BOARD} (LAVA)" in note.replace("\\", "")
    token = Path(state.token_file).read_text().strip()
    assert token not in ran.output
