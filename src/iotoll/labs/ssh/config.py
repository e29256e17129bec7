"""A developer's own boards as data: a desk file says how each is reached and booted."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml, named_file
from iotoll.records.models.base import Model


class SshBoard(Model):
    """How one board is reached and booted; time-outs in seconds."""

    host: str = Field(
        pattern=r"^[A-Za-z0-9_\[][A-Za-z0-9._@:%\[\]-]*$",
        description="as ssh takes it: root@board, or a Host of ~/.ssh/config",
    )
    options: list[str] = Field(default_factory=list, description="more words for ssh")
    boot: Literal["kexec", "command", "running"] = Field(
        description="the running kernel starts the one under test, a command of this machine boots"
        " it, or nothing does: then what runs can be measured alone"
    )
    command: list[str] = Field(
        default_factory=list,
        description='for boot = "command": it finds IOTOLL_IMAGE and IOTOLL_DTB in its environment',
    )
    reset: list[str] = Field(
        default_factory=list, description="of this machine: ends a board that hangs, and starts it"
    )
    ramdisk: str = Field("", description="for kexec: a file of this machine")
    cmdline: str = Field("", description="for kexec; empty: that of the kernel that runs")
    boot_seconds: float = Field(180, gt=0, description="until a booted board answers")
    silence_seconds: float = Field(300, gt=0, description="without a line: the workload hangs")
    total_seconds: float = Field(7200, gt=0, description="of the workload")
    poll_seconds: float = Field(10, ge=0.2, le=300, description="between two looks at a workload")
    cool_down_seconds: int = Field(0, ge=0, le=3600, description="of rest before the workload")
    simulated: bool = Field(False, description="QEMU is the board: its time is not a board's")

    @model_validator(mode="after")
    def _has_a_command(self) -> SshBoard:
        if (self.boot == "command") != bool(self.command):
            raise ValueError("'command' goes with boot = \"command\", and only with it")
        return self


class Desk(Model):
    """A desk file."""

    name: str
    description: str
    boards: dict[str, SshBoard]

    def board(self, name: str) -> SshBoard:
        """How a board is reached; raises UsageError when the desk file has no such board."""
        if name not in self.boards:
            known = ", ".join(sorted(self.boards)) or "none"
            raise UsageError(f"desk {self.name} has no board {name}; it has: {known}")
        return self.boards[name]


def load_desk(name: str) -> Desk:
    """Load a desk file by name or path; raises UsageError when it is not valid."""
    path = named_file(data_dir("lava-jobs") / "desks", name)
    try:
        desk = Desk.model_validate({"name": path.stem, **load_toml(path)})
    except ValidationError as error:
        raise first_error(path, error) from error
    for board in desk.boards.values():
        if board.ramdisk and not (path.parent / board.ramdisk).is_file():
            raise UsageError(f"{path}: ramdisk {board.ramdisk}: no such file")
    place = {name: _beside(path, board) for name, board in desk.boards.items()}
    return desk.model_copy(update={"boards": place})


def _beside(path: Path, board: SshBoard) -> SshBoard:
    """The same board; a relative ramdisk lies beside the desk file."""
    ramdisk = str((path.parent / board.ramdisk).resolve()) if board.ramdisk else ""
    return board.model_copy(update={"ramdisk": ramdisk})
