"""What a run is asked to do, checked against the board that it names, becomes its manifest."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from iotoll.boards.board import AnyBoard, HostBoard, RealBoard, VirtualBoard, load_board
from iotoll.boards.equip import check_cells, check_families
from iotoll.boards.matrix import Matrix, chosen_cells, load_matrix
from iotoll.boards.qemu import kvm_works
from iotoll.boots.schedule import PARTS
from iotoll.core.errors import UsageError
from iotoll.labs.lava.config import load_lab
from iotoll.labs.ssh.config import load_desk
from iotoll.patch import selection
from iotoll.patch.candidate import CandidateChoice, named_paths
from iotoll.records.models import Clock, RunManifest
from iotoll.records.rundir import RunDir
from iotoll.verdict.policy import load_any_policy

Runner = Literal["local", "lava", "ssh"]
"""Where the boards boot: on this machine, in a LAVA lab, or on the desk: reached by ssh."""


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked to do, before anything that it names was read.

    ``command`` is what the report shows as the way to run it again. ``board``, ``matrix``,
    ``policy`` and ``lab`` are names or files; ``clock`` and ``policy`` are None where the board
    decides. ``cells`` are names of the matrix, None where the candidate's paths select.
    """

    command: tuple[str, ...]
    kind: Literal["gate", "measure"]
    choice: CandidateChoice
    board: str
    matrix: str = "default"
    clock: Clock | None = None
    policy: str | None = None
    runner: Runner = "local"
    lab: str = "local"
    cells: tuple[str, ...] | None = None
    boots: int = 1
    series: str | None = None
    aa: bool = False
    experiment: bool = False
    beside: Path | None = None
    approved_by: str | None = None
    lines: bool = False


def asked_for(
    kind: Literal["gate", "measure"],
    choice: CandidateChoice,
    *,
    board: str | None,
    matrix: str | None,
    cells: str | None,
    **more: Any,
) -> RunManifest:
    """The manifest of what a command's options ask for: no ``board`` is the candidate's paths'.

    No ``matrix`` is the board's.

    ``cells`` are comma-separated, with * for any. ``more`` are fields of `RunRequest` as given.
    Errors are those of `new_manifest`.
    """
    board = board or selection.board_for(named_paths(choice)) or "virt-arm64"
    matrix = matrix or load_board(board).matrix
    loaded = load_matrix(matrix)
    chosen = chosen_cells(cells, loaded.cells, loaded.family_cells)
    check_families(load_board(board), loaded, cells)
    return new_manifest(
        RunRequest(
            command=("iotoll", *sys.argv[1:]),
            kind=kind,
            choice=choice,
            board=board,
            matrix=matrix,
            cells=tuple(chosen) if chosen is not None else None,
            **more,
        )
    )


def new_manifest(request: RunRequest) -> RunManifest:
    """The manifest of a run, with everything read that is named.

    Raises UsageError where a name is unknown, or where they do not fit together.
    """
    board = load_board(request.board)
    clock = clock_of(board, request)
    check_devices(board, load_matrix(request.matrix))
    check_cells(board, request.cells or ())
    if request.runner == "ssh":
        check_desk(board, request)
    else:
        check_device_tree(board)
    policy = request.policy or clock.value
    check_policy(board, clock, policy)
    check_time_options(clock, request)
    if request.beside is not None:
        RunDir.open(request.beside)
    choice = request.choice
    try:
        return RunManifest(
            command=list(request.command),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            kind=request.kind,
            board=request.board,
            clock=clock,
            accelerator=accelerator_of(board, clock, request),
            matrix=request.matrix,
            policy=policy,
            tree=board.tree if choice.tree == "debian" else choice.tree,
            base=choice.base,
            candidate=choice.candidate,
            candidate_kind=choice.kind,
            cells=None if request.cells is None else [*request.cells],
            boots=request.boots,
            parts=parts_of(board, clock, request),
            seed=secrets.randbelow(1 << 31) if clock is Clock.TIME else None,
            aa=request.aa,
            experiment=request.experiment,
            beside=str(request.beside.resolve()) if request.beside else None,
            runner=request.runner,
            lab=None if request.runner == "local" else request.lab,
            approved_by=request.approved_by,
            lines=request.lines,
            series=request.series,
        )
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"--{first['loc'][0]} {first['input']}: {first['msg']}") from error


def clock_of(board: AnyBoard, request: RunRequest) -> Clock:
    """The clock of a run on ``board``; raises UsageError when it has another than asked for."""
    if isinstance(board, RealBoard):
        if request.runner == "local":
            raise UsageError(
                f"board {board.name} is booted by a LAVA lab (--runner lava), or by ssh:"
                " --runner ssh --lab FILE (docs/boards.md)"
            )
        if request.clock is Clock.INSTRUCTIONS:
            raise UsageError(f"board {board.name} counts no instructions: --clock time")
        return Clock.TIME
    if isinstance(board, HostBoard):
        if request.runner != "local":
            raise UsageError(f"board {board.name} is a process of this machine: --runner local")
        if request.clock is Clock.INSTRUCTIONS:
            raise UsageError(f"board {board.name} counts no instructions: --clock time")
        return Clock.TIME
    return request.clock or Clock.INSTRUCTIONS


def check_policy(board: AnyBoard, clock: Clock, policy: str) -> None:
    """Raise UsageError where a policy judges another clock than the run's."""
    if load_any_policy(policy).clock is not clock:
        why = f"is not of the clock '{clock.value}' of board {board.name}"
        raise UsageError(f"policy {policy} {why}")


def parts_of(board: AnyBoard, clock: Clock, request: RunRequest) -> int:
    """How many boots of each side divide the cells of a gate, where there are many of them."""
    is_divided = (
        isinstance(board, VirtualBoard)
        and board.has_recorder
        and clock is Clock.INSTRUCTIONS
        and (request.kind, request.runner, request.boots) == ("gate", "local", 1)
    )
    return PARTS if is_divided else 1


def check_devices(board: AnyBoard, matrix: Matrix) -> None:
    """Raise UsageError when the board lacks a device of the matrix, or room for its files."""
    known = set(board.hardware.devices if isinstance(board, RealBoard) else board.devices)
    if lacking := [device for device in matrix.all_devices if device not in known]:
        raise UsageError(
            f"matrix {matrix.name} measures {lacking[0]}, which board {board.name} does not have:"
            " name another --matrix"
        )
    if isinstance(board, RealBoard):
        return  # the board itself looks how large its partitions are (lava-jobs/dut/prepare.sh)
    for device in matrix.all_devices:
        file_mb, size_mb = matrix.settings(device).file_mb, board.devices[device].size_mb
        if 2 * file_mb >= size_mb:
            raise UsageError(
                f"matrix {matrix.name}: file_mb = {file_mb} for {device}: files take twice that,"
                f" and the disk of board {board.name} has {size_mb} MiB: give it less"
            )


def check_device_tree(board: AnyBoard) -> None:
    """Raise UsageError when a real board has no device tree, which mainline lacks for it."""
    if isinstance(board, RealBoard) and not board.dtb:
        raise UsageError(
            f"board {board.name}: mainline Linux has no device tree for it: name the vendor's in"
            f' your board file (extends = "{board.name}", dtb = FILE) and give that: --board'
        )


def check_desk(board: AnyBoard, request: RunRequest) -> None:
    """Raise UsageError where a board cannot be reached by ssh, or boots no kernel as asked."""
    if not isinstance(board, RealBoard):
        raise UsageError(f"board {board.name} is QEMU's, which this machine boots: --runner local")
    if request.lab == "local":
        raise UsageError(
            "--runner ssh needs --lab FILE, which says how the board is reached: copy"
            " lava-jobs/desks/example.toml (docs/boards.md)"
        )
    desk = load_desk(request.lab).board(board.name)
    boots_none = desk.boot == "running"
    if boots_none and (request.kind != "measure" or request.choice.tree is not None):
        raise UsageError(
            f'board {board.name} boots no kernel of iotoll\'s (boot = "running"): measure what it'
            " runs, iotoll measure --image FILE, and compare two runs"
        )


def accelerator_of(board: AnyBoard, clock: Clock, request: RunRequest) -> str:
    """What runs the board's code: tcg or kvm of QEMU, or none."""
    if isinstance(board, HostBoard):
        return "none"
    if not isinstance(board, RealBoard):
        return "kvm" if clock is Clock.TIME and kvm_works(board) else "tcg"
    where = load_desk(request.lab) if request.runner == "ssh" else load_lab(request.lab)
    simulated = where.board(board.name).simulated
    return "tcg" if simulated else "none"


def check_time_options(clock: Clock, request: RunRequest) -> None:
    """Raise UsageError for options that only the clock `time` has."""
    for name, given in (("aa", request.aa), ("experiment", request.experiment)):
        if given and clock is not Clock.TIME:
            raise UsageError(f"--{name} is about times: --clock time")
