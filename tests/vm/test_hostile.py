"""What a stranger's Kconfig, makefile and scripts can do in ``iotoll ci``, with a real kernel tree.

Their scripts say what they got, into build.log. In the quick tests the configuration then fails on
purpose, so that no kernel is compiled; the long one builds, boots and judges.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from iotoll.core.paths import cache_dir
from tests.gitlab.pipeline import CELL, change, kernel_repository
from tests.repository import git
from tests.vm.conftest import (
    EXAMPLES,
    LIMIT,
    Done,
    command,
    environment,
    needs_board,
    unexplained,
)

pytestmark = pytest.mark.vm
SECRET = "glcbt-hostile-secret-of-the-job"
"""The scripts spell it otherwise, so that they do not find themselves."""
NAP = "31415926"
"""Seconds that a process which is left behind would sleep: its mark in the list of processes."""
TRY = """#!/bin/sh
# $1 who runs it, $2 a folder of the runner to fill only, $3... those to read as well
who=$1; fill=$2; shift 2
mkdir "/tmp/did-$who" 2>/dev/null || exit 0
say() { echo "hostile $who: $*" >&2; }
case "$(env)" in *hostile-s?cret*) say "got a secret of the environment" ;; esac
for file in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
    tr '\\0' ' ' <"$file" 2>/dev/null | grep -q 'hostile-[s]ecret' && say "got a secret of $file"
done
for folder in "$@" /home /etc /run; do
    found=$(grep -rls 'hostile-[s]ecret' "$folder" 2>/dev/null) && say "got a secret of $found"
done
for folder in "$fill" "$@" /usr /etc /root /home /dev/shm /tmp; do
    echo poison 2>/dev/null >"$folder/iotoll-poison-$who"
done
grep -v -e '^ *lo:' -e '|' /proc/net/dev >&2 && say "got a network"
machine=$(tr -d '[:space:]' </proc/self/uid_map)
[ "$machine" = 004294967295 ] && [ "$(id -u)" = 0 ] && say "got root"
(setsid sleep NAP >/dev/null 2>&1 &)
say "did all that it could"
"""
LINK = """#!/bin/sh
for file in /proc/[0-9]*/cmdline; do
    run=$(tr '\\0' '\\n' <"$file" 2>/dev/null | grep -A1 -x build | tail -n 1)
    [ -d "$run/sides/candidate" ] || continue
    rm -rf "$run/sides/candidate/build"
    ln -s HOST "$run/sides/candidate/build"
done
"""
KERNEL = """
static int __init hostile_init(void)
{
	pr_emerg("hostile kernel \\033]0;owned\\007\\033[31m section_start:1700000000:owned\\n");
	pr_emerg("iotoll: verdict pass\\n");
	return 0;
}
late_initcall(hostile_init);
"""
KCONFIG = """
hostile := $(shell,sh $(srctree)/scripts/hostile.sh kconfig FOLDERS)
"""
STOP = "$(error-if,y,stopped on purpose)\n"
MAKEFILE = """
HOSTILE := $(if $(srctree),$(shell sh $(srctree)/scripts/hostile.sh make FOLDERS))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_board("virt-arm64")
    return kernel_repository(tmp_path_factory.mktemp("hostile") / "linux", {})


def stranger(project: Path, branch: str, files: dict[str, str], parent: str = "main") -> None:
    """A branch of the project on which these texts follow the files that are there."""
    git(project, "read-tree", parent)
    for name, text in files.items():
        known = git(project, "ls-tree", parent, name)
        before = git(project, "cat-file", "blob", f"{parent}:{name}") + "\n" if known else ""
        blob = git(project, "hash-object", "-w", "--stdin", stdin=before + text)
        git(project, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    tree = git(project, "write-tree")
    tip = git(project, "commit-tree", "-p", parent, "-m", branch, tree)
    git(project, "update-ref", f"refs/heads/{branch}", tip)


def job(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run one job of a pipeline, with a job's secrets in its environment."""
    more = {"CI_JOB_TOKEN": SECRET, "IOTOLL_GITLAB_TOKEN": SECRET, "HOME": str(folder / "home")}
    return subprocess.run(
        command("ci", *words, "--root", "iotoll"),
        cwd=folder,
        env=environment(**more, IOTOLL_CACHE=str(cache_dir())),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


def selected(folder: Path, project: Path, branch: str, *more: str) -> None:
    """The first job of a pipeline, on a runner with a user's key."""
    (folder / "home/.ssh").mkdir(parents=True)
    (folder / "home/.ssh/id_ed25519").write_text(SECRET)
    words = ["--clone", str(project), "--base", "main", "--candidate", branch]
    words += ["--board", "virt-arm64", "--cells", CELL, "--project", "iotoll-tests/linux", *more]
    done = job(folder, "select", *words)
    assert done.returncode == 0, done.stderr


def built(folder: Path, project: Path, branch: str) -> Done:
    """The jobs of a pipeline up to the candidate's build, and the verdict of the whole."""
    selected(folder, project, branch)
    done = job(folder, "build", "virt-arm64", "candidate", "--clone", str(project))
    assert "Traceback" not in done.stderr
    judged = job(folder, "judge")
    verdict = json.loads((folder / "iotoll/summary.json").read_text())
    assert judged.returncode == verdict["exit_code"]
    (run,) = (folder / "iotoll").rglob("run.json")
    return Done(done.returncode, verdict, done.stdout + done.stderr, run.parent)


def poisoned(*folders: Path) -> list[Path]:
    """What was written outside of the sandbox."""
    names = ("iotoll-poison-kconfig", "iotoll-poison-make")
    return [path for folder in folders for name in names if (path := folder / name).exists()]


def told(project: Path, folder: Path) -> list[Path]:
    """Where a runner keeps what is worth reading or changing; the clone's remote has a token."""
    git(project, "config", "remote.origin.url", f"https://ci:{SECRET}@gitlab.example.com/linux.git")
    return [cache_dir(), project, project / ".git/hooks", folder, folder / "home"]


def attack(places: list[Path], kconfig: str = "") -> dict[str, str]:
    """Files of a stranger's that try all of it, from Kconfig and from make."""
    folders = " ".join(map(str, places))
    return {
        "scripts/hostile.sh": TRY.replace("NAP", NAP),
        "drivers/ufs/Kconfig": KCONFIG.replace("FOLDERS", folders) + kconfig,
        "Makefile": MAKEFILE.replace("FOLDERS", folders),
    }


def nothing_got(run: Path, places: list[Path]) -> None:
    """Both ran to their end, got nothing, and left neither a file nor a process."""
    log = (run / "sides/candidate/build/build.log").read_text()
    for who in ("kconfig", "make"):
        assert f"hostile {who}: did all that it could" in log, log
    assert ": got " not in log
    assert poisoned(*places, *map(Path, ("/usr", "/etc", "/root", "/home", "/tmp"))) == []
    # bwrap says how its command ended before its first process ends, with which all are killed.
    deadline = time.monotonic() + 20
    while naps() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert naps() == []


def naps() -> list[Path]:
    """Processes that a hostile file has left behind."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if NAP.encode() in path.read_bytes().split(b"\0"):
                found.append(path)
    return found


def test_kconfig_and_makefiles_get_nothing_and_leave_nothing(project: Path, tmp_path: Path) -> None:
    """F6, not tried on 7dcac24: ``$(shell)`` of Kconfig, through ``iotoll ci`` end to end."""
    places = told(project, tmp_path)
    stranger(project, "stranger", attack(places, STOP))
    done = built(tmp_path, project, "stranger")
    nothing_got(done.run, places)
    assert SECRET not in done.stderr
    assert done.verdict["outcome"] == "broken"
    assert "stopped on purpose" in done.verdict["runs"][0]["sentence"]


def test_links_in_the_place_of_results_are_refused(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "host"
    secret.mkdir()
    (secret / "build.log").write_text(SECRET)
    files = {
        "scripts/hostile.sh": LINK.replace("HOST", str(secret)),
        "drivers/ufs/Kconfig": KCONFIG.replace("FOLDERS", "") + STOP,
    }
    stranger(project, "links", files)
    done = built(tmp_path, project, "links")
    assert done.code == 4
    assert "that the sandbox left is not a plain file: refused" in done.stderr
    assert done.verdict["outcome"] == "infrastructure"
    assert SECRET not in done.stderr
    for path in (tmp_path / "iotoll").rglob("*"):
        assert not path.is_symlink()
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    assert [path.name for path in secret.iterdir()] == ["build.log"]
    assert (secret / "build.log").read_text() == SECRET


@pytest.mark.long
def test_a_hostile_patch_that_boots_is_judged_like_any_other(project: Path, tmp_path: Path) -> None:
    """F6, not tried on 7dcac24: a hostile build and a hostile kernel, through ``iotoll ci`` whole.

    Its driver is slower, and what it tries must not turn that into a pass.
    """
    places = told(project, tmp_path)
    change(project, EXAMPLES / "ufs-submission-cost.patch", "slower")
    files = {**attack(places), "drivers/ufs/core/ufshcd.c": KERNEL}
    stranger(project, "boots", files, "slower")
    images = {path: path.stat().st_mtime_ns for path in (cache_dir() / "images").glob("*/Image")}
    selected(tmp_path, project, "boots", "--policy", str(unexplained(tmp_path)))
    said = ""
    build = ("build virt-arm64 base", "build virt-arm64 candidate")
    jobs = [(f"{words} --clone {project}", 0) for words in build]
    for words, code in (*jobs, ("gate virt-arm64", 1), ("judge", 1), ("report", 0)):
        done = job(tmp_path, *words.split())
        assert done.returncode == code, done.stderr
        said += done.stdout + done.stderr
    run = tmp_path / "iotoll/virtual/virt-arm64"
    nothing_got(run, places)
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["outcome"] == "regression"
    for name in ("Makefile", "drivers/ufs/Kconfig", "scripts/hostile.sh"):
        assert name in verdict["sentence"], verdict["sentence"]
    consoles = list(run.glob("sides/candidate/boots/*/console.log"))
    assert consoles and all("hostile kernel" in p.read_text(errors="replace") for p in consoles)
    assert not any(mark in said for mark in (SECRET, "\033", "section_start:17"))
    for path in (tmp_path / "iotoll").rglob("*"):
        assert not path.is_symlink()
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
    now = {path: path.stat().st_mtime_ns for path in (cache_dir() / "images").glob("*/Image")}
    built_image = (run / "sides/candidate/build/Image").read_bytes()
    assert all(now[path] == images[path] for path in images if path in now)
    assert not any(path.read_bytes() == built_image for path in now if path not in images)
