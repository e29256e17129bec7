"""The sandbox that a candidate is built and booted in, really run."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest

from iotoll.ci import sandbox
from iotoll.ci.sandbox import Kept
from iotoll.core.errors import IotollError, ResultError

SECRET = "glcbt-64_secret-of-the-job"


@pytest.fixture
def run_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CI_JOB_TOKEN", SECRET)
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/compiled").write_text("as it was")
    root = tmp_path / "job/iotoll/run"
    root.mkdir(parents=True)
    (root / "run.json").write_text("{}")
    try:
        sandbox.check()
    except IotollError as error:
        pytest.skip(str(error))
    return root


def python(text: str) -> list[str]:
    return ["-c", text]


def test_a_candidate_sees_no_token(run_root: Path, tmp_path: Path) -> None:
    # Where a job of GitLab's has it: its environment, its shell's, the clone's remote, files.
    (tmp_path / "job/.git").mkdir()
    (tmp_path / "job/.git/config").write_text(f"url = https://ci:{SECRET}@gitlab.example.com/")
    (tmp_path / "job.tmp").mkdir()
    (tmp_path / "job.tmp/TOKEN").write_text(SECRET)
    text = """
import os, pathlib, sys
found = []
def files():
    yield from pathlib.Path("/proc").glob("[0-9]*/environ")
    yield from pathlib.Path("/proc").glob("[0-9]*/cmdline")
    for top in sys.argv[1:]:
        for folder, _, names in os.walk(top):
            yield from (pathlib.Path(folder, name) for name in names)
for path in files():
    try:
        if b"secret-of-the" + b"-job" in path.read_bytes():
            found.append(str(path))
    except OSError:
        pass
print(len(list(files())), found, file=open(sys.argv[1] + "/out", "w"))
"""
    kept = Kept(("out",))
    words = [*python(text), str(run_root), str(tmp_path), "/tmp", "/root", "/home", "/etc", "/run"]
    assert sandbox.run(words, run_root, kept) == 0
    count, _, found = (run_root / "out").read_text().strip().partition(" ")
    assert found == "[]"
    assert int(count) > 2, "it did look at something"


def test_a_candidate_reaches_no_network(run_root: Path) -> None:
    text = """
import socket
names = [name for _, name in socket.if_nameindex()]
try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as error:
    names.append(error.strerror)
assert names in (["lo", "Network is unreachable"],), names
"""
    assert sandbox.run(python(text), run_root, Kept(())) == 0


def test_a_candidate_cannot_change_the_cache(run_root: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    text = f"""
import pathlib
cache = pathlib.Path({str(cache)!r})
assert (cache / "compiled").read_text() == "as it was"
(cache / "compiled").write_text("poisoned")
(cache / "more").write_text("poisoned")
assert (cache / "compiled").read_text() == "poisoned"
"""
    assert sandbox.run(python(text), run_root, Kept(())) == 0
    assert [p.name for p in cache.iterdir()] == ["compiled"]
    assert (cache / "compiled").read_text() == "as it was"
    # The base is the project's own code.
    assert sandbox.run(python(text), run_root, Kept(()), trusted=True) == 0
    assert (cache / "compiled").read_text() == "poisoned"


def test_a_build_brings_out_its_own_files_only(run_root: Path) -> None:
    text = f"""
import pathlib
root = pathlib.Path({str(run_root)!r})
for name in ("Image", "verdict.json", "run.json"):
    (root / name).write_text("from inside")
"""
    assert sandbox.run(python(text), run_root, Kept(("Image",))) == 0
    assert (run_root / "Image").read_text() == "from inside"
    assert (run_root / "run.json").read_text() == "{}"
    assert not (run_root / "verdict.json").exists()
    assert [p.name for p in run_root.parent.iterdir()] == ["run"], "nothing is left beside it"


@pytest.mark.parametrize(
    "act",
    [
        "os.symlink('/etc/shadow', root / 'build/Image')",
        "os.mkfifo(root / 'build/Image')",
        "os.makedirs(root / 'build/Image')",
        "os.rmdir(root / 'build'); os.symlink('/etc', root / 'build')",
    ],
)
def test_what_a_build_leaves_is_a_plain_file_or_refused(run_root: Path, act: str) -> None:
    text = f"""
import os, pathlib
root = pathlib.Path({str(run_root)!r})
(root / 'build').mkdir()
{act}
"""
    names = ("build/Image", "build/shadow")
    with pytest.raises(ResultError, match="no plain file: refused"):
        sandbox.run(python(text), run_root, Kept(names))


def test_processes_end_with_the_sandbox(run_root: Path) -> None:
    seconds = f"4242.{os.getpid()}"  # nobody else's
    text = f"import subprocess; subprocess.Popen(['sleep', '{seconds}'], start_new_session=True)"
    assert sandbox.run(python(text), run_root, Kept(())) == 0
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            lines.append(path.read_bytes())
    assert not any(f"sleep\0{seconds}".encode() in line for line in lines)
