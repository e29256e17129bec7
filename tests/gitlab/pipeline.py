"""A small real kernel project, and its merge-request pipeline run by gitlab-ci-local."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from iotoll.core import paths
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.kernels import source
from tests.gitlab.stub import PROJECT as NUMBER
from tests.gitlab.stub import TOKEN
from tests.repository import git

ROOT = Path(__file__).parents[2]
PROJECT = "iotoll-tests/linux"
"""Always the same, so that the kernel is built once on this machine."""
PIPELINE = 1002
CELL = "ufs-4k-randread-t1-direct"
LIMIT = 1500  # seconds for a pipeline; far above what it takes on two idle cores
_SUMMARY = re.compile(r"^ (PASS|FAIL|WARN) +(.+?) *(?:\(.*\))?$")
_LINE = re.compile(r"\x1b\[[0-9;]*m")


def runner() -> list[str]:
    """The command of gitlab-ci-local; skips, saying why, where it is not installed."""
    try:
        return paths.node_tool("gitlab-ci-local")
    except UsageError as error:
        pytest.skip(str(error))


def kernel_repository(folder: Path, inputs: dict[str, Any]) -> Path:
    """A kernel project: Debian's source as its first commit, and the pipeline beside it.

    Objects are borrowed from the cache, and only the UFS driver is checked out. The configuration
    is no file of the project's, as docs/gitlab.md wants it.
    """
    tree = source.open_tree("debian", Progress(quiet=True))
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / ".git/objects/info/alternates").write_text(f"{tree.git_dir}/objects\n")
    first = git(folder, "commit-tree", "-m", "Linux", tree.tree_of("base"))
    git(folder, "update-ref", "refs/heads/main", first)
    shown = ("/drivers/ufs/core/", "/Makefile", "/ci-config/")
    git(folder, "sparse-checkout", "set", "--no-cone", *shown)
    git(folder, "checkout", "-q", "main")
    git(folder, "remote", "add", "origin", f"https://gitlab.example.com/{PROJECT}.git")
    git(folder, "update-ref", "refs/remotes/origin/main", first)
    git(folder, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    own = folder / "ci-config"
    shutil.copytree(ROOT / "templates", own / "templates")
    include = {"local": "ci-config/templates/gate.yml", "inputs": inputs}
    # JSON is YAML.
    (own / "ci.yml").write_text(json.dumps({"include": [include]}))
    (folder / ".git/info/exclude").write_text("/.gitlab-ci-local*\n")
    # gitlab-ci-local includes files that git knows: known to the index, but in no commit.
    git(folder, "add", "--force", "ci-config")
    return folder


def change(folder: Path, patch: Path, branch: str) -> str:
    """Commit a patch on a branch of its own; returns the commit."""
    git(folder, "checkout", "-q", "-B", branch, "main")
    git(folder, "apply", "--index", str(patch))
    git(folder, "commit", "-q", "-m", patch.stem, "--", "drivers")
    return git(folder, "rev-parse", "HEAD")


@dataclass
class Ran:
    """A pipeline that has ended: each job's own result, its log and its artifacts."""

    folder: Path
    output: str
    seconds: float
    jobs: dict[str, str] = field(default_factory=dict)

    def log(self, job: str) -> str:
        """What a job printed."""
        lines = [line for line in self.output.splitlines() if line.strip().startswith(job)]
        return "\n".join(lines)

    def artifact(self, job: str, path: str) -> Path:
        """A file that a job left."""
        return self.folder / ".gitlab-ci-local/artifacts" / encoded(job) / path


def encoded(job: str) -> str:
    """A job's name as gitlab-ci-local makes a folder of it: base64 of what is no word."""

    def one(match: re.Match[str]) -> str:
        return base64.urlsafe_b64encode(match[0].encode()).decode().rstrip("=")

    return re.sub(r"[^\w-]+", one, job)


def run_pipeline(folder: Path, variables: dict[str, str]) -> Ran:
    """Run the merge-request pipeline of what is checked out, with the shell executor."""
    command = runner()
    command += ["--file", "ci-config/ci.yml", "--force-shell-executor", "--shell-isolation"]
    command += ["--no-artifacts-to-source", "--no-color", "--concurrency", "2"]
    for name, value in variables.items():
        command += ["--variable", f"{name}={value}"]
    # Variables of the project reach child pipelines, those of a command line do not.
    own = {name: value for name, value in variables.items() if name.startswith("IOTOLL_")}
    (folder / ".gitlab-ci-local-variables.yml").write_text(json.dumps(own))
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "GCL_IGNORE_PREDEFINED_VARS": ",".join(variables)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    output = _LINE.sub("", done.stdout + done.stderr)
    ran = Ran(folder, output, time.monotonic() - started)
    for line in output.splitlines():
        found = _SUMMARY.match(line)
        if found and "downstream pipeline is" not in line:  # a warning, not a job
            ran.jobs[found[2].strip()] = found[1]
    return ran


def merge_request(project: Path, url: str, base: str, **more: str) -> Ran:
    """Run the pipeline of merge request 7, with GitLab's API at ``url``."""
    variables = {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": base,
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_PROJECT_ID": NUMBER,
        "CI_PROJECT_ID": NUMBER,
        "CI_SERVER_URL": url,
        "CI_PIPELINE_ID": str(PIPELINE),
        "IOTOLL_GITLAB_TOKEN": TOKEN,
        **more,
    }
    return run_pipeline(project, variables)


def summary(ran: Ran) -> dict[str, Any]:
    """The verdict of a whole pipeline, as its job left it."""
    path = ran.artifact("iotoll-judge", "iotoll/summary.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def command_script(folder: Path) -> Path:
    """The command ``iotoll`` with this interpreter, as a runner has it on its PATH."""
    path = folder / "iotoll"
    path.write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT / "src"} exec {sys.executable} -P -m iotoll "$@"\n'
    )
    path.chmod(0o755)
    return path
