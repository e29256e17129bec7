"""A command's options, checked against the board that they name, become a run's manifest."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from iotoll.boards.board import RealBoard, VirtualBoard, load_board
from iotoll.boards.equip import check_cells
from iotoll.boards.matrix import Matrix, chosen_cells, load_matrix
from iotoll.boards.qemu import kvm_works
from iotoll.core.errors import UsageError
from iotoll.labs.lava.config import load_lab
from iotoll.records.models import Clock, RunManifest
from iotoll.verdict.policy import load_any_policy


def new_manifest(command: Sequence[str], options: dict[str, Any], **more: Any) -> RunManifest:
    """The manifest of a run, with everything read that is named.

    ``options`` are board, clock, matrix, policy, runner and lab as on the command line (clock and
    policy may be None); ``more`` are the manifest's other fields. Raises UsageError where they do
    not fit together.
    """
    board = load_board(options["board"])
    clock = clock_of(board, options)
    check_devices(board, load_matrix(options["matrix"]))
    check_device_tree(board)
    policy = options["policy"] or clock.value
    if load_any_policy(policy).clock is not clock:
        raise UsageError(
            f"policy {policy} is not of the clock '{clock.value}' of board {board.name}"
        )
    check_words(clock, options)
    return RunManifest.model_validate(
        {
            "command": list(command),
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "board": options["board"],
            "clock": clock,
            "accelerator": accelerator_of(board, clock, options),
            "matrix": options["matrix"],
            "policy": policy,
            "runner": options["runner"],
            "lab": options["lab"] if options["runner"] == "lava" else None,
            "seed": secrets.randbelow(1 << 31) if clock is Clock.TIME else None,
            **more,
        }
    )


def clock_of(board: VirtualBoard | RealBoard, options: dict[str, Any]) -> Clock:
    """The clock of a run on ``board``; raises UsageError when it has another than asked for."""
    asked = options["clock"]
    if isinstance(board, RealBoard):
        if options["runner"] != "lava":
            raise UsageError(f"board {board.name} is booted by a LAVA lab: --runner lava")
        if asked == Clock.INSTRUCTIONS:
            raise UsageError(f"board {board.name} counts no instructions: --clock time")
        return Clock.TIME
    return Clock(asked or Clock.INSTRUCTIONS)


def check_devices(board: VirtualBoard | RealBoard, matrix: Matrix) -> None:
    """Raise UsageError when the matrix measures a device that the board does not have."""
    known = board.devices if isinstance(board, VirtualBoard) else board.hardware.devices
    if lacking := [device for device in matrix.devices if device not in known]:
        raise UsageError(
            f"matrix {matrix.name} measures {lacking[0]}, which board {board.name} does not have:"
            " name another --matrix"
        )


def asked_cells(options: dict[str, Any]) -> list[str] | None:
    """The cells of ``--cells``, which the board must be able to run; None without the option."""
    matrix = load_matrix(options["matrix"])
    cells = chosen_cells(options["cells"], matrix.cells, matrix.family_cells)
    if cells:
        check_cells(load_board(options["board"]), cells)
    return cells


def check_device_tree(board: VirtualBoard | RealBoard) -> None:
    """Raise UsageError when a real board has no device tree, which mainline lacks for it."""
    if isinstance(board, RealBoard) and not board.dtb:
        raise UsageError(
            f"board {board.name}: mainline Linux has no device tree for it: name the vendor's in"
            f' your board file (extends = "{board.name}", dtb = FILE) and give that: --board'
        )


def accelerator_of(board: VirtualBoard | RealBoard, clock: Clock, options: dict[str, Any]) -> str:
    """What runs the board's code: tcg or kvm of QEMU, or none."""
    if isinstance(board, VirtualBoard):
        return "kvm" if clock is Clock.TIME and kvm_works(board) else "tcg"
    simulated = load_lab(options["lab"]).board(board.name).simulated
    return "tcg" if simulated else "none"


def check_words(clock: Clock, options: dict[str, Any]) -> None:
    """Raise UsageError for words that only the clock `time` knows."""
    for name in ("aa", "experiment"):
        if options.get(name) and clock is not Clock.TIME:
            raise UsageError(f"--{name} is about times: --clock time")
