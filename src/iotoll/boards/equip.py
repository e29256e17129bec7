"""What some cells need of a board beside what every workload has: a second disk, a polled queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from iotoll.boards.board import Board, HostBoard, OwnDisk, VirtualBoard
from iotoll.boards.cells import Cell, parse_cell
from iotoll.boards.matrix import Matrix
from iotoll.core.errors import UsageError

AnyBoard = TypeVar("AnyBoard", bound=Board)

FRAGMENTS = {"kyber": "add-kyber", "bfq": "add-bfq"}
"""Config fragments of the schedulers that the boards' own fragments leave out."""


def fragments(board: Board, cells: Iterable[str], more: Iterable[str] = ()) -> list[str]:
    """The board's config fragments, those of the cells' schedulers, and ``more``; each once."""
    schedulers = [parse_cell(cell).scheduler for cell in cells]
    wanted = [FRAGMENTS[name] for name in schedulers if name in FRAGMENTS]
    return list(dict.fromkeys([*board.fragments, *wanted, *more]))


def lacking(board: Board, cell: Cell) -> str:
    """What the board lacks for a cell; empty if it can run it."""
    if isinstance(board, HostBoard) and (why := _not_traced(cell)):
        return why
    if not isinstance(board, VirtualBoard):
        needs = "a second disk" if cell.spare else "a polled queue" if cell.poll else ""
        return needs and f"{needs} is known of virtual boards alone"
    device = board.devices.get(cell.device)
    if device is None:
        return f"no {cell.device}"
    if cell.queues and cell.queues != device.queues:
        return f"{cell.device} has {device.queues} of {cell.queues} hardware queues"
    if cell.spare and not device.spare:
        return f"no second {cell.device} disk"
    if cell.poll and not device.poll:
        return f"no polled queue of {cell.device}"
    return ""


def _not_traced(cell: Cell) -> str:
    """Why I/Os of a cell do not show where there are no events of system calls; empty if they do.

    Which events are their begin and end instead: crates/iosections/src/uncalled.rs.
    """
    if cell.op == "trim":
        return "no event marks begin and end of a discard there"
    if cell.engine == "libaio":
        return "no event marks begin and end of libaio there: psync or io_uring"
    if cell.engine and not cell.is_direct:
        return f"no event marks the begin of {cell.io_mode} I/O by io_uring there: direct alone"
    if cell.sqpoll or cell.poll:
        return "polling by io_uring was not tried there"
    return ""


def families(board: Board, matrix: Matrix) -> dict[str, list[str]]:
    """The matrix's families, with the cells that the board can run; one without any is left out."""
    found = {
        name: [
            cell
            for cell in cells
            if not lacking(board, parse_cell(cell))
            and _has(board, parse_cell(cell), matrix.families[name].needs)
        ]
        for name, cells in matrix.family_cells.items()
    }
    return {name: cells for name, cells in found.items() if cells}


def _has(board: Board, cell: Cell, needs: str) -> bool:
    """Whether the cell's device has what a family needs."""
    return not needs or (
        isinstance(board, VirtualBoard) and needs in board.devices[cell.device].has
    )


def check_cells(board: Board, cells: Iterable[str]) -> None:
    """Raise UsageError for a cell that the board cannot run."""
    for name in cells:
        if why := lacking(board, parse_cell(name)):
            raise UsageError(f"cell {name}: board {board.name} cannot run it: {why}")


def check_families(board: Board, matrix: Matrix, asked: str | None) -> None:
    """Raise UsageError where ``--cells`` names a family that needs what no device of the board has.

    Its cells alone may run there, as another workload than the family's.
    """
    for name in (part.strip() for part in (asked or "").split(",")):
        family = matrix.families.get(name)
        if family and family.needs and name not in families(board, matrix):
            raise UsageError(f"--cells {name}: board {board.name} has no {family.needs}")


def equipped(board: AnyBoard, cells: Sequence[str]) -> AnyBoard:
    """The board with what these cells need: it is another one for the store of boots."""
    parsed = [parse_cell(cell) for cell in cells]
    if isinstance(board, HostBoard):
        used = (board.devices[name] for name in dict.fromkeys(cell.device for cell in parsed))
        more = [disk.words for disk in used if isinstance(disk, OwnDisk) and disk.words]
        return board.model_copy(update={"cmdline": " ".join([board.cmdline, *more])})
    if not isinstance(board, VirtualBoard):
        return board
    devices = dict(board.devices)
    for name in dict.fromkeys(cell.device for cell in parsed if cell.spare):
        own = board.devices[name]
        devices[f"{name}2"] = own.model_copy(update={"qemu": own.spare})
    polled = dict.fromkeys(board.devices[cell.device].poll for cell in parsed if cell.poll)
    words = " ".join([board.cmdline, *polled])
    return board.model_copy(update={"devices": devices, "cmdline": words})
