"""The child pipeline with a lab's boards, written from the plan, and what comes back of it."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from iotoll.ci.plan import run_folder
from iotoll.core.errors import ResultError
from iotoll.records.models import PlanRecord

BOARDS = "boards.yml"
LARGEST = 2 << 30  # bytes that one board's results may take, unpacked
MOST_FILES = 20_000
BOARD_TIME = "12 hours"
"""What GitLab gives a board's job: up to 16 pairs of boots, and the queue before each."""
LAVA_JOB = "lava "
"""How the name of a job begins that runs a board; its name follows."""


def child_pipeline(plan: PlanRecord, words: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    """The jobs for the boards in a lab, as GitLab reads them.

    ``words`` is ``iotoll ci select`` with all that fixes the plan, less its boards: each child
    makes its own run directory, since GitLab gives children no files of their parents'.
    ``settings`` has ``iotoll`` (the command), ``tags`` and ``image``.
    """
    if plan.nothing or plan.refused or not plan.lava_boards:
        why = plan.refused or "nothing to run on a board: no cell is selected"
        return {"nothing": {**_common(settings), "script": [f"echo {_quoted(why)}"]}}
    jobs: dict[str, Any] = {"stages": ["build", "boards"]}
    for board in plan.lava_boards:
        folder = str(run_folder(Path("iotoll"), board, "lava"))
        select = _line([settings["iotoll"], "ci", "select", *words, "--lava-board", board])
        job = [settings["iotoll"], "ci"]
        jobs[f"build {board}"] = {
            **_common(settings),
            "stage": "build",
            "script": [
                select,
                _line([*job, "build", board, "base", "--runner", "lava"]),
                _line([*job, "build", board, "candidate", "--runner", "lava"]),
            ],
            "retry": RETRY,
            "artifacts": {"when": "always", "paths": ["iotoll/"], "expire_in": "2 weeks"},
        }
        jobs[f"{LAVA_JOB}{board}"] = {
            **_common(settings),
            "stage": "boards",
            "needs": [f"build {board}"],
            # Secrets of the lab are variables of this environment: no other job has them.
            "environment": {"name": "iotoll/lab", "action": "access"},
            "variables": {"GIT_STRATEGY": "empty"},
            "script": [_line([*job, "lava", board])],
            "timeout": BOARD_TIME,
            "allow_failure": {"exit_codes": [3]},
            "retry": RETRY,
            "artifacts": {"when": "always", "paths": [f"{folder}/"], "expire_in": "2 weeks"},
        }
    return jobs


RETRY: dict[str, Any] = {
    "max": 2,
    "when": ["runner_system_failure", "scheduler_failure", "data_integrity_failure"],
    "exit_codes": [4],
}
"""Tried again is what a runner or iotoll's infrastructure failed at: it has no verdict."""


def _common(settings: dict[str, Any]) -> dict[str, Any]:
    common: dict[str, Any] = {"interruptible": True, "variables": {"GIT_CHECKOUT": "false"}}
    if settings["tags"]:
        common["tags"] = settings["tags"]
    if settings["image"]:
        common["image"] = settings["image"]
    return common


def _line(words: list[str]) -> str:
    return " ".join([words[0], *(_quoted(word) for word in words[1:])])


def _quoted(word: str) -> str:
    """A word for a shell in a CI script, where GitLab would also expand a dollar sign."""
    plain = word.replace("'", "").replace("$", "")
    return plain if plain and all(c.isalnum() or c in "-_./,:=!" for c in plain) else f"'{plain}'"


def to_yaml(jobs: dict[str, Any]) -> str:
    """A pipeline as YAML."""
    text: str = yaml.dump(jobs, Dumper=_Plain, sort_keys=False, width=1000)
    return text


class _Plain(yaml.SafeDumper):
    """What is used twice is written twice: easier to read than YAML's anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Never an anchor."""
        return True


def unpack(archive: Path, root: Path, board: str) -> None:
    """Unpack the artifacts of a board's job; raises ResultError for what cannot be trusted.

    Only plain files of that board's run directory are taken.
    """
    prefix = PurePosixPath("iotoll/lava", board)
    total = 0
    try:
        with zipfile.ZipFile(archive) as packed:
            members = packed.infolist()
            if len(members) > MOST_FILES:
                raise ResultError(f"{board}: its artifacts have more than {MOST_FILES} files")
            for member in members:
                path = PurePosixPath(member.filename)
                mode = member.external_attr >> 16
                if ".." in path.parts or (mode and not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))):
                    raise ResultError(f"{board}: artifact {member.filename!r} is refused")
                if member.is_dir() or not path.is_relative_to(prefix):
                    continue
                total += member.file_size
                if total > LARGEST:
                    raise ResultError(f"{board}: its artifacts are larger than 2 GiB")
                target = root / path.relative_to("iotoll")
                target.parent.mkdir(parents=True, exist_ok=True)
                _copy(packed, member, target)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise ResultError(f"{board}: its artifacts are not an archive ({error})") from error


def _copy(packed: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    left = member.file_size  # as declared, and checked above: the stream may not be longer
    with packed.open(member) as source, target.open("wb") as out:
        while block := source.read(min(left + 1, 1 << 20)):
            left -= len(block)
            if left < 0:
                raise ResultError(f"{member.filename!r}: is larger than it says")
            out.write(block)
