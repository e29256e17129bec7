"""What a stranger's Kconfig, makefile and scripts can do in ``iotoll ci``, with a real kernel tree.

Their scripts say what they got, into build.log; after that the configuration fails on purpose, so
that no kernel is compiled.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from iotoll.core.paths import cache_dir
from tests.gitlab.pipeline import CELL, kernel_repository
from tests.repository import git
from tests.vm.conftest import LIMIT, Done, command, environment, needs_board

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
KCONFIG = """
hostile := $(shell,sh $(srctree)/scripts/hostile.sh kconfig FOLDERS)
$(error-if,y,stopped on purpose)
"""
MAKEFILE = """
HOSTILE := $(if $(srctree),$(shell sh $(srctree)/scripts/hostile.sh make FOLDERS))
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_board("virt-arm64")
    return kernel_repository(tmp_path_factory.mktemp("hostile") / "linux", {})


def stranger(project: Path, branch: str, files: dict[str, str]) -> None:
    """A branch of the project on which these texts follow the files that are there."""
    git(project, "read-tree", "main")
    for name, text in files.items():
        known = git(project, "ls-tree", "main", name)
        before = git(project, "cat-file", "blob", f"main:{name}") + "\n" if known else ""
        blob = git(project, "hash-object", "-w", "--stdin", stdin=before + text)
        git(project, "update-index", "--add", "--cacheinfo", f"100644,{blob},{name}")
    tree = git(project, "write-tree")
    tip = git(project, "commit-tree", "-p", "main", "-m", branch, tree)
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


def built(folder: Path, project: Path, branch: str) -> Done:
    """The jobs of a pipeline up to the candidate's build, and the verdict of the whole."""
    (folder / "home/.ssh").mkdir(parents=True)
    (folder / "home/.ssh/id_ed25519").write_text(SECRET)
    words = ["--clone", str(project), "--base", "main", "--candidate", branch]
    words += ["--board", "virt-arm64", "--cells", CELL, "--project", "iotoll-tests/linux"]
    done = job(folder, "select", *words)
    assert done.returncode == 0, done.stderr
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


def test_kconfig_and_makefiles_get_nothing_and_leave_nothing(project: Path, tmp_path: Path) -> None:
    """F6, not tried on 7dcac24: ``$(shell)`` of Kconfig, through ``iotoll ci`` end to end."""
    git(project, "config", "remote.origin.url", f"https://ci:{SECRET}@gitlab.example.com/linux.git")
    places = [cache_dir(), project, project / ".git/hooks", tmp_path, tmp_path / "home"]
    folders = " ".join(map(str, places))
    files = {
        "scripts/hostile.sh": TRY.replace("NAP", NAP),
        "drivers/ufs/Kconfig": KCONFIG.replace("FOLDERS", folders),
        "Makefile": MAKEFILE.replace("FOLDERS", folders),
    }
    stranger(project, "stranger", files)
    done = built(tmp_path, project, "stranger")
    log = (done.run / "sides/candidate/build/build.log").read_text()
    for who in ("kconfig", "make"):
        assert f"hostile {who}: did all that it could" in log, done.stderr + log
    assert "hostile" in log and ": got " not in log
    assert poisoned(*places, *map(Path, ("/usr", "/etc", "/root", "/home", "/tmp"))) == []
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(NAP.encode() in line.split(b"\0") for line in lines)
    assert SECRET not in done.stderr
    assert done.verdict["outcome"] == "broken"
    assert "stopped on purpose" in done.verdict["runs"][0]["sentence"]
