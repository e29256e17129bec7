"""A virtual board as a LAVA device: the device dictionary that an administrator installs."""

from __future__ import annotations

import jinja2

from iotoll.boards.board import VirtualBoard
from iotoll.boards.qemu import board_words, disk_words
from iotoll.core.paths import data_dir
from iotoll.records.models import Clock

DEVICE_TYPES = {"arm64": "qemu-aarch64", "x86_64": "qemu"}
"""LAVA's own device type for each architecture of a virtual board."""
LAVA_ARCH = {"arm64": "arm64", "x86_64": "amd64"}
"""LAVA's name of an architecture, as a job's context says it."""
PROGRAM = "virt-board"
"""The script lava-jobs/devices/virt-board, which must be on the worker's PATH."""


def environment(folder: str) -> jinja2.Environment:
    """Jinja2 for the files of a folder below lava-jobs/; what is undefined is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("lava-jobs") / folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # YAML and shell words, not markup; values are quoted by `tojson`
    )


def virtual_device(board: VirtualBoard, name: str, clock: Clock = Clock.INSTRUCTIONS) -> str:
    """The device dictionary of a virtual board named ``name``, for LAVA's qemu device types."""
    sockets = f"/tmp/iotoll-{name}"
    disks = [
        f"{device}:{settings.size_mb}:{settings.delay_ms}"
        for device, settings in board.devices.items()
        if settings.model is None
    ]
    words = ["--sockets", sockets]
    words += [word for disk in disks for word in ("--disk", disk)]
    words += ["--", board.qemu.binary, *board_words(board, clock, "tcg")]
    words += ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
    words += disk_words(board, sockets)
    template = environment("devices").get_template("virtual.jinja2.j2")
    return template.render(
        name=name, board=board, device_type=DEVICE_TYPES[board.arch], program=PROGRAM, words=words
    )
