"""Renders LAVA job definitions: a board's fragment over the base job, with the test's fragment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import jinja2

from iotoll.boards import Board
from iotoll.lava.config import Lab
from iotoll.lava.device import LAVA_ARCH, environment
from iotoll.qemu import kernel_words

SHELL = "iotoll=shell"
"""On the kernel's command line: the board waits on its console for what to run."""


@dataclass(frozen=True)
class File:
    """A file that LAVA's worker downloads, and the SHA-256 by which it is checked."""

    url: str
    sha256: str


@dataclass(frozen=True)
class Job:
    """What is particular to one job; ``name`` is what people see, ``metadata`` what we look up.

    ``expected`` are the test cases without which LAVA calls the test failed.
    """

    name: str
    arch: str
    kernel: File
    ramdisk: File
    kernel_words: str
    metadata: Mapping[str, str]
    expected: Sequence[str]


def virtual_job(
    board: Board,
    name: str,
    kernel: File,
    ramdisk: File,
    metadata: Mapping[str, str],
    expected: Sequence[str],
) -> Job:
    """A boot of a virtual board as a job."""
    words = f"{kernel_words(board)} {SHELL}"
    return Job(name, LAVA_ARCH[board.arch], kernel, ramdisk, words, metadata, expected)


def render(job: Job, board: str, lab: Lab) -> str:
    """The definition as YAML; raises UsageError when the lab has no such board."""
    template: jinja2.Template = environment(".").get_template("jobs/virtual.yaml.j2")
    return template.render(job=job, lab=lab, lab_board=lab.board(board))
