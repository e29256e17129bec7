"""What a desk's candidate sees while it is built: finding F6.4, in a real sandbox.

The tree's makefile runs the candidate's own text.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from iotoll.core.errors import BrokenError, IotollError
from iotoll.core.progress import Progress
from iotoll.kernels import build, kernel_job, overrun, sandbox, source
from iotoll.kernels.compiling import TIMEOUT
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.rundir import RunDir
from iotoll.run import sandboxed
from tests.repository import MAKEFILE, git, kernel_tree
from tests.unit.runs import manifest

QUIET = Progress(quiet=True)
SECRET = "glpat-64_secret-of-a-desk"
CONFIGURES = """
import pathlib, sys
args = sys.argv[1:]
fragments = [args[i + 1] for i, word in enumerate(args) if word == "-K"]
config = pathlib.Path(args[args.index("-b") + 1], ".config")
config.write_text("".join(pathlib.Path(name).read_text() for name in fragments))
"""
COMPILES = """
import pathlib, sys
image = pathlib.Path(sys.argv[1], "arch/arm64/boot/Image")
image.parent.mkdir(parents=True, exist_ok=True)
exec(pathlib.Path("driver.c").read_text(), {"image": image})
"""
GOOD = "image.write_text('good')\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own kernel tree, on a desk with secrets in the usual places."""
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MY_TOKEN", SECRET)
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/id_ed25519").write_text(SECRET)
    package = tmp_path / "make/tuxmake"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(CONFIGURES)
    (package.parent / "compiles.py").write_text(COMPILES)
    monkeypatch.syspath_prepend(str(package.parent))
    try:
        sandbox.check()
        kernel_job.installed_toolchain("arm64")
    except IotollError as error:
        pytest.skip(str(error))
    rule = f"Image:\n\t@{sys.executable} {package.parent}/compiles.py $(O)\n"
    files = {"driver.c": GOOD, "Makefile": MAKEFILE + rule}
    folder = kernel_tree(tmp_path / "linux", files)
    git(folder, "remote", "add", "origin", f"https://me:{SECRET}@git.example.com/linux.git")
    return folder


def gate_of(folder: Path, tree: Path, text: str) -> RunDir:
    """A run of a patch that makes ``text`` what is executed, with the base built as at a desk."""
    lines = "".join(f"+{line}\n" for line in text.splitlines())
    patch = folder / "candidate.patch"
    count = len(text.splitlines())
    patch.write_text(f"--- a/driver.c\n+++ b/driver.c\n@@ -1 +1,{count} @@\n-{GOOD}{lines}")
    choice = candidate.classify(str(patch), tree=str(tree))
    named = {"tree": choice.tree, "candidate": choice.candidate, "candidate_kind": choice.kind}
    run = RunDir(folder / "run")
    results.write(run.root / "run.json", manifest(**named))
    source.prepare(run, QUIET, ["ufs-x"])
    build.build_side(run, "base", SPEC, QUIET, warm=True)
    return run


SPEC = build.KernelSpec("arm64", ["base", "ufs"])
LOOK = """
import os, pathlib, socket
found = []
for top in (TMP, "/root", "/home", "/etc", "/proc"):
    for folder, _, names in os.walk(top):
        for name in names if top != "/proc" else [n for n in names if n in ("environ", "cmdline")]:
            path = pathlib.Path(folder, name)
            try:
                if b"secret-of" + b"-a-desk" in path.read_bytes():
                    found.append(str(path))
            except OSError:
                pass
net = [name for _, name in socket.if_nameindex()]
pathlib.Path(TMP, "cache/poison").write_text("x")
image.write_text(repr((found, net, os.getuid() != 0 or "user namespace", "MY_TOKEN" in os.environ)))
"""


def test_f6_4_a_desks_candidate_sees_no_secret_and_changes_no_cache(
    tmp_path: Path, tree: Path
) -> None:
    run = gate_of(tmp_path, tree, LOOK.strip().replace("TMP", repr(str(tmp_path))))
    assert sandboxed.why_not(run, SPEC) == ""
    sandboxed.at_desk(run, SPEC, QUIET)
    found, net, user, token = eval((run.build("candidate") / "Image").read_text())
    assert found == []
    assert net == ["lo"]
    assert user is True or user == "user namespace"
    assert token is False
    assert not (tmp_path / "cache/poison").exists()
    job = sandboxed.job_of(run, "candidate", SPEC)
    assert job.is_done, "its image is kept under its own key, so it is built once"
    assert (run.build("base") / "Image").read_text() == "good"


def test_f6_4_the_image_of_the_base_cannot_be_given_out_again(tmp_path: Path, tree: Path) -> None:
    text = f"""
import pathlib
image.write_text(repr([str(p) for p in pathlib.Path({str(tmp_path)!r}).rglob("Image")]))
"""
    run = gate_of(tmp_path, tree, text.strip())
    sandboxed.at_desk(run, SPEC, QUIET)
    assert eval((run.build("candidate") / "Image").read_text()) == []


def test_f6_4_a_fragment_of_the_users_own_is_shown(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.config"
    own.write_text("CONFIG_OWN=y\n")
    monkeypatch.chdir(tmp_path)
    spec = build.KernelSpec("arm64", ["base", "ufs", "own.config"])
    run = gate_of(tmp_path, tree, "image.write_text('better')")
    sandboxed.at_desk(run, spec, QUIET)
    assert "CONFIG_OWN=y" in (run.build("candidate") / "config").read_text()
    record = results.read(run.build("candidate") / "build.json", results.DOCUMENTS["build"])
    assert record.model_dump()["fragments"] == list(spec.fragments)


def test_f6_4_what_does_not_build_is_broken(tmp_path: Path, tree: Path) -> None:
    run = gate_of(tmp_path, tree, "raise SystemExit(2)")
    with pytest.raises(BrokenError) as caught:
        sandboxed.at_desk(run, SPEC, QUIET)
    assert caught.value.step == "build"
    assert not sandboxed.job_of(run, "candidate", SPEC).is_done


def test_f6_4_only_what_the_candidate_changes_is_written_anew(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files have another owner in there: git wrote all of them anew, so make built all of them."""
    known = sandbox._bring_out
    written: list[str] = []

    def look(upper: Path, *words: Any) -> None:
        sources = upper.parents[1].glob("cache-*/upper/src")
        written.extend(path.name for src in sources for path in src.rglob("*") if path.is_file())
        known(upper, *words)

    monkeypatch.setattr(sandbox, "_bring_out", look)
    run = gate_of(tmp_path, tree, "image.write_text('better')")
    sandboxed.at_desk(run, SPEC, QUIET)
    assert written == ["driver.c"]


def test_g1_6_a_desks_candidate_sees_its_own_tree_of_the_cache(tmp_path: Path, tree: Path) -> None:
    """G1.6: a makefile listed the cache, and its build log is an artifact."""
    cache = tmp_path / "cache"
    text = f"""
import pathlib
cache = pathlib.Path({str(cache)!r})
found = {{"/".join(p.relative_to(cache).parts[:3]) for p in cache.rglob("*") if p.is_file()}}
image.write_text(repr(sorted(found)))
"""
    run = gate_of(tmp_path, tree, text.strip())
    (own,) = (cache / "trees").iterdir()
    for name in (
        "trees/another/work/x/src",
        "boots/x",
        "ccache/0",
        f"trees/{own.name}/work/arm64-2",
    ):
        (cache / name).mkdir(parents=True)
        (cache / name / "file").write_text("another project's")
    sandboxed.at_desk(run, SPEC, QUIET)
    found = eval((run.build("candidate") / "Image").read_text())
    allowed = tuple(f"trees/{own.name}/{name}" for name in ("work", "git", "ccache"))
    assert found and all(name.startswith(allowed) for name in found), found
    assert b"another" not in (run.build("candidate") / "Image").read_bytes()


def ended(run: RunDir) -> str:
    """Why a candidate's build was ended from outside; nothing of it runs any more."""
    with pytest.raises(BrokenError) as caught:
        sandboxed.at_desk(run, SPEC, QUIET)
    assert caught.value.step == "build"
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(str(run.root).encode() in line for line in lines)
    assert [path.name for path in run.root.parent.glob(".run-*")] == []
    return str(caught.value)


def test_f6_a_build_without_end_that_stops_the_iotoll_beside_it(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not tried on 7dcac24: the time limit was kept by a process that the build may stop."""
    text = """
import os, signal, time
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) not in (1, os.getpid()):
        os.kill(int(name), signal.SIGSTOP)
time.sleep(4242)
"""
    run = gate_of(tmp_path, tree, text.strip())
    monkeypatch.setattr(sandboxed, "GRACE_SECONDS", 8 - TIMEOUT)
    assert "did not end within 8 s" in ended(run)


def test_f6_a_build_that_fills_the_disk_is_ended(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not tried on 7dcac24: nothing kept a build from taking all of the runner's disk."""
    text = """
import time
with image.with_name("filler").open("wb") as out:
    for _ in range(1000):
        out.write(bytes(4 << 20))
        out.flush()
        time.sleep(0.2)
"""
    run = gate_of(tmp_path, tree, text.strip())
    room = 64 << 20
    monkeypatch.setattr(overrun.Disk, "_free", lambda disk: room - disk._size())
    assert "GiB of the disk free: it was ended" in ended(run)


def test_f6_4_a_desk_that_allows_no_sandbox_says_why_in_one_line(
    tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = gate_of(tmp_path, tree, "image.write_text('better')")
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create' >&2\nexit 1\n")
    (tools / "bwrap").chmod(0o755)
    monkeypatch.setattr(sandbox, "PATH", f"{tools}:{sandbox.PATH}")
    assert sandboxed.why_not(run, SPEC) == "bwrap: No permissions to create"
    compiler = tools / kernel_job.TARGETS["arm64"].compiler
    compiler.symlink_to(str(shutil.which(compiler.name)))
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    assert sandboxed.why_not(run, SPEC) == f"the compiler {compiler} is not visible in it"
