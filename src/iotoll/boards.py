"""Virtual boards as data: ``lava-jobs/boards/*.toml``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError

from iotoll.matrix import first_error, load_toml, named_file
from iotoll.models.base import Model
from iotoll.paths import data_dir


class QemuSettings(Model):
    """How QEMU is started; ``machine`` is for the instructions clock, the others for time."""

    binary: str
    package: str = Field(description="Debian package that brings the binary")
    machine: list[str]
    time_machine: list[str]
    kvm_machine: list[str]
    kvm_host: str = Field(description="host machine (uname -m) on which KVM may work")


class DeviceSettings(Model):
    """One storage device; ``{drive}`` in ``qemu`` stands for the drive's id."""

    size_mb: int = Field(gt=0)
    delay_ms: int = Field(ge=0, description="what nbdkit adds to every command")
    qemu: list[str]


class Limits(Model):
    """Time-outs in seconds of host time."""

    boot: float = Field(gt=0, description="until the workload's first line")
    silence: float = Field(gt=0, description="without a line or any data: the board hangs")
    total: float = Field(gt=0)


class Board(Model):
    """A board file."""

    name: str
    arch: Literal["arm64", "x86_64"]
    description: str
    fragments: list[str] = Field(description="kernel-configs/NAME.config, in order")
    console: str
    cmdline: str
    memory_mb: int
    huge_pages: int
    buffer_kb: int
    io_timeout_ms: int
    trace_clock: str
    qemu: QemuSettings
    devices: dict[str, DeviceSettings]
    limits: Limits


def load_board(name: str) -> Board:
    """Load a board by name or path; raises UsageError when it is not valid."""
    path = named_file(data_dir("lava-jobs") / "boards", name)
    try:
        return Board.model_validate({"name": path.stem, **load_toml(path)})
    except ValidationError as error:
        raise first_error(path, error) from error
