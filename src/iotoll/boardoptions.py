"""A command's options, held against the board that they name."""

from __future__ import annotations

from typing import Any

from iotoll.boards import RealBoard, VirtualBoard
from iotoll.errors import UsageError
from iotoll.lava.config import load_lab
from iotoll.matrix import Matrix
from iotoll.models import Clock
from iotoll.qemu import kvm_works


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
