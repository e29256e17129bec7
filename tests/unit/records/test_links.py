"""Links and pipes below a run directory: no command follows one, or waits for one."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.bisect.log import NAME, Log
from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.paths import check_tree
from iotoll.records.rundir import RunDir
from iotoll.run.opening import open_run
from tests.unit.runs import make_run, manifest

REPORT = Path(__file__).parents[2] / "golden/data/report/pass"
COMMANDS = (
    ("report", "{run}"),
    ("reproduce", "{run}"),
    ("reproduce", "{run}/verdict.json"),
    ("reproduce", "{run}", "--again"),
    ("step", "report", "{run}"),
    ("step", "source", "{run}"),
    ("step", "judge", "{run}"),
    ("explain", "{run}"),
    ("compare", "{run}", "{run}"),
    ("publish", "{run}", "--out", "{out}", "--only", "note"),
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    shutil.copytree(REPORT, tmp_path / "run")
    return tmp_path / "run"


def linked(run: Path, name: str, outside: Path) -> None:
    """Move a part of the run outside, and leave a link in its place."""
    path = run / name
    if path.exists():
        shutil.move(path, outside)
    else:
        outside.mkdir()
        path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside)


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_g1_7_no_command_writes_where_a_link_in_a_run_points(
    run: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    outside = tmp_path / "outside"
    linked(run, "sides/candidate", outside)
    before = state(tmp_path)
    line = [word.format(run=run, out=tmp_path / "out") for word in words]
    done = CliRunner().invoke(cli, line)
    assert isinstance(done.exception, UsageError), done.output
    assert "sides/candidate: is a symbolic link: nothing below" in str(done.exception)
    assert state(tmp_path) == before


@pytest.mark.parametrize("name", ["report", "sides", "sides/base/boots", ".steps", "lava", "jobs"])
def test_g1_7_links_to_folders_at_any_depth(run: Path, tmp_path: Path, name: str) -> None:
    linked(run, name, tmp_path / "outside")
    with pytest.raises(UsageError, match="is a symbolic link"):
        RunDir.open(run)


def test_g1_7_links_that_lead_nowhere_or_to_a_file(run: Path, tmp_path: Path) -> None:
    (run / "explain.json").symlink_to(tmp_path / "absent")
    with pytest.raises(UsageError, match=r"explain.json: is a symbolic link"):
        RunDir(run)
    (run / "explain.json").unlink()
    (run / "verdict.previous.json").symlink_to("verdict.json")
    with pytest.raises(UsageError, match=r"verdict.previous.json: is a symbolic link"):
        RunDir(run)


def test_g1_7_a_hard_link_is_refused_too(run: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (run / "lava").mkdir()
    os.link(tmp_path / "mine", run / "lava/journal.jsonl")
    with pytest.raises(UsageError, match=r"journal.jsonl: is a hard link"):
        RunDir(run)


def test_g1_7_nobody_waits_for_a_pipe_or_a_socket(run: Path) -> None:
    os.mkfifo(run / "sides/pipe")
    with pytest.raises(UsageError, match="pipe: is a pipe, a socket or a device"):
        RunDir(run)
    (run / "sides/pipe").unlink()
    with socket.socket(socket.AF_UNIX) as end:
        end.bind(str(run / "s"))
        with pytest.raises(UsageError, match="is a pipe, a socket or a device"):
            RunDir(run)


def test_g1_7_the_run_itself_may_be_the_users_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "last").symlink_to(run)
    assert RunDir.open(tmp_path / "last").root == run
    check_tree(tmp_path / "absent")


def test_g1_7_a_gate_that_resumes_follows_none(tmp_path: Path) -> None:
    kept = make_run(tmp_path / "run")
    (tmp_path / "outside").mkdir()
    shutil.rmtree(kept.root / "sides", ignore_errors=True)
    (kept.root / "sides").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match="sides: is a symbolic link"):
        open_run(kept.root, manifest())


def test_g1_7_a_searchs_folder_is_no_way_out_either(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / NAME).symlink_to(tmp_path / "mine")
    with pytest.raises(UsageError, match="is a symbolic link"):
        Log(tmp_path / "search" / NAME, {"good": "a"})
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("name", ["note.md", ".allure", "allure-history.jsonl"])
def test_g1_7_published_files_replace_no_link(run: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "mine").write_text("mine")
    (out / name).symlink_to(tmp_path / "mine")
    done = CliRunner().invoke(cli, ["publish", str(run), "--out", str(out), "--only", "note"])
    assert isinstance(done.exception, UsageError)
    assert f"{name} is a symbolic link" in str(done.exception)
    assert (tmp_path / "mine").read_text() == "mine"
