"""Renders LAVA job definitions: a board's fragment over the base job, with the test's fragment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import jinja2
import yaml

from iotoll.boards.board import VirtualBoard
from iotoll.boards.hardware import AndroidBoot, Hardware, PartitionRootfs, UbootBoot
from iotoll.boards.qemu import kernel_words
from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError
from iotoll.labs.lava.config import Lab
from iotoll.labs.lava.dictionary import LAVA_ARCH, environment

KERNEL_TYPE = {"arm": "zimage", "arm64": "image"}
"""What U-Boot is given for each architecture, in LAVA's words; neither is packed."""
SHELL = "iotoll=shell"
"""On the kernel's command line: the board waits on its console for what to run."""


@dataclass(frozen=True)
class File:
    """A file that LAVA's worker downloads, and the SHA-256 by which it is checked."""

    url: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is particular to one job; ``name`` is what people see, ``metadata`` what we look up.

    ``expected`` are the test cases without which LAVA calls the test failed. ``device`` is the only
    one that may run it, None for any of its type and tags; a health check runs on every device of
    the type. ``traces`` is the URL below which the board puts its raw traces; None: it keeps them.
    """

    template: ClassVar[str]

    name: str
    metadata: Mapping[str, str]
    expected: Sequence[str]
    device: str | None = None
    health_check: bool = False
    traces: str | None = None


@dataclass(frozen=True, kw_only=True)
class VirtualJob(Job):
    """A boot of a virtual board: QEMU loads kernel and ramdisk."""

    template = "virtual.yaml.j2"

    arch: str
    kernel: File
    ramdisk: File
    kernel_words: str


@dataclass(frozen=True, kw_only=True)
class FastbootJob(Job):
    """A boot of a board that is flashed; each image has its partition.

    ``boot`` is a boot image with its own command line, ``system`` an ext4 image, gzip'd; ``method``
    is LAVA's to start it.
    """

    template = "fastboot.yaml.j2"

    method: str
    boot_partition: str
    boot: File
    system_partition: str
    system: File


@dataclass(frozen=True, kw_only=True)
class UbootJob(Job):
    """A boot of a board whose U-Boot loads all files over TFTP; ``ramdisk`` is gzip'd.

    The command line is that of its LAVA device type.
    """

    template = "uboot.yaml.j2"

    kernel: File
    kernel_type: str
    dtb: File
    ramdisk: File


def virtual_job(
    board: VirtualBoard,
    name: str,
    kernel: File,
    ramdisk: File,
    metadata: Mapping[str, str],
    expected: Sequence[str],
) -> VirtualJob:
    """A boot of a virtual board as a job."""
    return VirtualJob(
        name=name,
        metadata=metadata,
        expected=expected,
        arch=LAVA_ARCH[board.arch],
        kernel=kernel,
        ramdisk=ramdisk,
        kernel_words=f"{kernel_words(board)} {SHELL}",
    )


def fastboot_job(
    hardware: Hardware,
    name: str,
    boot: File,
    system: File,
    metadata: Mapping[str, str],
    expected: Sequence[str],
) -> FastbootJob:
    """A boot of a board with fastboot as a job; raises UsageError for another board."""
    spec, root = hardware.boot, hardware.rootfs
    if not isinstance(spec, AndroidBoot) or not isinstance(root, PartitionRootfs):
        raise UsageError(f"board {hardware.name} is not flashed by fastboot")
    return FastbootJob(
        name=name,
        metadata=metadata,
        expected=expected,
        method=spec.method,
        boot_partition=spec.partition,
        boot=boot,
        system_partition=root.partition,
        system=system,
    )


def uboot_job(
    hardware: Hardware,
    name: str,
    kernel: File,
    dtb: File,
    ramdisk: File,
    metadata: Mapping[str, str],
    expected: Sequence[str],
) -> UbootJob:
    """A boot of a board with U-Boot as a job; raises UsageError for another board."""
    if not isinstance(hardware.boot, UbootBoot):
        raise UsageError(f"board {hardware.name}: its boot loader is not U-Boot")
    return UbootJob(
        name=name,
        metadata=metadata,
        expected=expected,
        kernel=kernel,
        kernel_type=KERNEL_TYPE[hardware.arch],
        dtb=dtb,
        ramdisk=ramdisk,
    )


def definition_sha256(text: str) -> str:
    """The digest of what a job definition says, however its YAML is written."""
    try:
        return json_sha256(yaml.load(text, Loader=yaml.CBaseLoader))
    except (yaml.YAMLError, RecursionError, TypeError):
        return "no definition"


def render(job: Job, board: str, lab: Lab) -> str:
    """The definition as YAML; raises UsageError when the lab has no such board."""
    template: jinja2.Template = environment(".").get_template(f"jobs/{job.template}")
    return template.render(job=job, lab=lab, lab_board=lab.board(board))
