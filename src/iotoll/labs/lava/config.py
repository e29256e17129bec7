"""LAVA labs as data: ``lava-jobs/labs/*.toml``."""

from __future__ import annotations

from functools import cached_property
from ipaddress import IPv4Address
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml, named_file
from iotoll.labs.lava.issues import Issue, load_issues
from iotoll.records.models.base import Model


class JobSettings(Model):
    """What all jobs of a lab share."""

    priority: int = Field(ge=0, le=100, description="LAVA's: 0 low, 50 medium, 100 high")
    visibility: Literal["public", "personal", "group"]
    groups: list[str] = Field(default_factory=list, description="for visibility 'group'")
    queue_limit: int = Field(gt=0, description="jobs of ours in LAVA at a time, waiting or running")
    attempts: int = Field(ge=1, description="of one boot, when the lab fails; all are kept")
    poll_seconds: float = Field(
        5.0, ge=0.5, le=300, description="between two looks at how our jobs are: one request"
    )
    log_seconds: float = Field(
        10.0, ge=2, le=600, description="between two looks into a running job's log for a crash"
    )
    notify: list[str] = Field(
        default_factory=list, description="e-mail addresses to which LAVA reports jobs that failed"
    )
    callback: str = Field(
        "", description="URL that LAVA calls when a job has ended: status alone, no token"
    )

    @model_validator(mode="after")
    def _groups_are_named(self) -> JobSettings:
        if (self.visibility == "group") != bool(self.groups):
            raise ValueError("'groups' goes with visibility = \"group\", and only with it")
        return self


class Timeouts(Model):
    """Time-outs in minutes; a job ends when the first is over."""

    queue: int = Field(gt=0, description="until LAVA gives the job a board")
    deploy: int = Field(gt=0)
    boot: int = Field(gt=0)
    workload: int = Field(gt=0)
    job: int = Field(gt=0, description="from the job's start to its end")
    actions: dict[str, int] = Field(
        default_factory=dict,
        description="minutes of single actions by LAVA's names, as fastboot-flash-action",
    )


class LabBoard(Model):
    """How the jobs of a board are run in a lab; ``count`` is how many `iotoll lab up` makes.

    Of a real board it makes simulated ones.
    """

    device_type: str
    tags: list[str] = Field(default_factory=list, description="LAVA device tags that it must have")
    same_board: bool = Field(
        False,
        description="both boots of a pair on one device: its own name is one of its device tags",
    )
    count: int = Field(0, ge=0)
    simulated: bool = Field(False, description="QEMU is the SoC: its time is not a board's")
    docker: str = Field(
        "", description="container image that runs fastboot on the worker; '' the worker's own"
    )
    cool_down_seconds: int = Field(
        0, ge=0, le=3600, description="that a board rests before its workload begins"
    )
    send_times: int = Field(
        1, ge=1, le=9, description="how often a board sends each record over its serial line"
    )
    file_server: IPv4Address | None = Field(
        None,
        description="of the lab's file server, as the board sees it: raw traces go there;"
        " None: they stay on the board",
    )
    timeouts: Timeouts

    @property
    def asked(self) -> str:
        """Which devices its jobs ask LAVA for, in words."""
        tags = f" with tags {', '.join(self.tags)}" if self.tags else ""
        return f"of type {self.device_type}{tags}"


class Lab(Model):
    """A lab file."""

    name: str
    description: str
    server: str = Field(description="URL of the LAVA server; '' is the lab that 'iotoll lab' made")
    files: str = Field(description="URL of the lab's file server; '' as above")
    jobs: JobSettings
    known_issues: list[str] = Field(
        default_factory=list,
        description="packs of known issues (lava-jobs/known-issues/), or files",
    )
    boards: dict[str, LabBoard]

    @field_validator("server", "files")
    @classmethod
    def _is_a_plain_url(cls, text: str) -> str:
        found = urlsplit(text)
        if text and (found.scheme not in ("http", "https") or not found.hostname):
            raise ValueError("give http://HOST or https://HOST")
        if found.username or found.password or found.query or found.fragment:
            raise ValueError("a URL without user, password or query: tokens are never in a file")
        return text

    @model_validator(mode="after")
    def _both_or_none(self) -> Lab:
        if bool(self.server) != bool(self.files):
            raise ValueError("give both 'server' and 'files', or neither")
        return self

    @model_validator(mode="after")
    def _boards_speak_no_tls(self) -> Lab:
        sending = [name for name, board in self.boards.items() if board.file_server]
        if sending and urlsplit(self.files).scheme == "https":
            raise ValueError(f"board {sending[0]} has a 'file_server', which needs http in 'files'")
        return self

    @field_validator("jobs")
    @classmethod
    def _callback_is_plain(cls, jobs: JobSettings) -> JobSettings:
        if jobs.callback:
            cls._is_a_plain_url(jobs.callback)
        return jobs

    @cached_property
    def issues(self) -> list[Issue]:
        """The known issues of the lab's boards; raises UsageError when a pack is not valid."""
        return load_issues(self.known_issues)

    def board(self, name: str) -> LabBoard:
        """How a board's jobs run here; raises UsageError when the lab has no such board."""
        if name not in self.boards:
            known = ", ".join(sorted(self.boards))
            raise UsageError(f"lab {self.name} has no board {name}; it has: {known}")
        return self.boards[name]


def load_lab(name: str) -> Lab:
    """Load a lab by name or path; raises UsageError when it is not valid."""
    path = named_file(data_dir("lava-jobs") / "labs", name)
    try:
        return Lab.model_validate({"name": path.stem, **load_toml(path)})
    except ValidationError as error:
        raise first_error(path, error) from error
