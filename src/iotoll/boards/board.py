"""Boards as data, virtual and real: ``lava-jobs/boards/*.toml``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from iotoll.boards.hardware import Hardware, load_hardware
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_extended, named_file
from iotoll.records.models.base import Model
from iotoll.records.models.run import DeviceModel


class QemuSettings(Model):
    """How QEMU is started; ``machine`` is for the instructions clock, the others for time."""

    binary: str
    package: str = Field(description="Debian package that brings the binary, where it is Debian's")
    patched: bool = Field(
        False, description="the QEMU of tools/qemu, which leaves nothing to the host"
    )
    bh_delay_ns: int = Field(0, ge=0, description="of devices' bottom halves; patched alone")
    slice_ns: int = Field(0, ge=0, description="turn of each of several CPUs; patched alone")
    cpus: int = Field(1, gt=0, le=8)
    machine: list[str]
    time_machine: list[str]
    kvm_machine: list[str]
    kvm_host: str = Field(description="host machine (uname -m) on which KVM may work")
    network: list[str] = Field(default_factory=list, description="network card; empty: none")


class DeviceSettings(Model):
    """One storage device; ``{drive}`` in ``qemu`` stands for the drive's id.

    ``model`` is for the patched QEMU, ``delay_ms`` for nbdkit behind Debian's.
    """

    size_mb: int = Field(gt=0)
    model: DeviceModel | None = None
    delay_ms: int | None = Field(None, ge=0, description="what nbdkit adds to every command")
    qemu: list[str]
    # Not part of what every workload sees: only cells that need these get them (equip.py).
    spare: list[str] = Field(
        default_factory=list, exclude=True, description="QEMU's words for a second disk"
    )
    poll: str = Field("", exclude=True, description="kernel's words that give it a polled queue")
    queues: int = Field(1, gt=0, exclude=True, description="hardware queues without polled ones")
    has: list[str] = Field(
        default_factory=list, exclude=True, description="what families of cells may need of it"
    )


class Limits(Model):
    """Time-outs in seconds of host time, without what QEMU waits for a processor."""

    boot: float = Field(gt=0, description="until the workload's first line")
    silence: float = Field(gt=0, description="without a line or any data: the board hangs")
    total: float = Field(gt=0)


class Board(Model):
    """What a workload has to know of any board."""

    name: str
    arch: Literal["arm", "arm64", "x86_64", "um"]
    description: str
    fragments: list[str] = Field(description="kernel-configs/NAME.config, in order")
    huge_pages: int
    buffer_kb: int = Field(description="trace buffer of each CPU")
    io_timeout_ms: int | None = Field(None, description="of a command; None: the kernel's own")
    trace_clock: str
    # It belongs to the kernel under test, not to what the workload sees.
    tree: str = Field(
        "debian", exclude=True, description="kernel tree of runs for which the user names none"
    )
    matrix: str = Field(
        "default", exclude=True, description="matrix of runs for which the user names none"
    )

    @property
    def models(self) -> dict[str, DeviceModel]:
        """What the devices of an exact board are modelled on; empty for any other board."""
        return {}

    @property
    def is_exact(self) -> bool:
        """Whether the board leaves nothing to the host, so that I/Os can be paired."""
        return False

    @property
    def image_arch(self) -> str:
        """The architecture of the programs that its RAM disk holds."""
        return self.arch

    @property
    def job_settings(self) -> dict[str, str]:
        """What the DUT's scripts must know of the board beside the job."""
        return {}


class VirtualBoard(Board):
    """A board file of a board that QEMU is."""

    arch: Literal["arm64", "x86_64"]
    console: str
    cmdline: str
    memory_mb: int
    qemu: QemuSettings
    devices: dict[str, DeviceSettings]
    limits: Limits

    @property
    def models(self) -> dict[str, DeviceModel]:
        """What the devices of an exact board are modelled on; empty for any other board."""
        return {n: d.model for n, d in self.devices.items() if d.model is not None}

    @property
    def is_exact(self) -> bool:
        """Whether the board leaves nothing to the host, so that I/Os can be paired."""
        return self.qemu.patched

    @property
    def has_recorder(self) -> bool:
        """Whether its boots count what they execute, I/O by I/O, without what records the trace."""
        return self.is_exact

    @model_validator(mode="before")
    @classmethod
    def _one_server(cls, data: Any) -> Any:
        """A file that extends one of the other kind has both `delay_ms` and `model`: keep one."""
        other = "delay_ms" if data.get("qemu", {}).get("patched") else "model"
        devices = {
            name: {key: value for key, value in device.items() if key != other}
            for name, device in data.get("devices", {}).items()
        }
        return {**data, "devices": devices}

    @model_validator(mode="after")
    def _served(self) -> VirtualBoard:
        wanted = "model" if self.qemu.patched else "delay_ms"
        patched = f"qemu.patched = {str(self.qemu.patched).lower()}"
        for name, device in self.devices.items():
            if getattr(device, wanted) is None:
                raise ValueError(f"devices.{name}.{wanted} is needed with {patched}")
        for name in ("bh_delay_ns", "slice_ns"):
            if getattr(self.qemu, name) and not self.qemu.patched:
                raise ValueError(f"qemu.{name} must be 0 with {patched}")
        return self


class HostDisk(Model):
    """A disk of a board that is a process: a new file behind ``node``, for each boot."""

    size_mb: int = Field(gt=0)
    node: str = Field(pattern=r"^/dev/ubd[a-z]$", description="its block device in the guest")


class OwnDisk(Model):
    """A disk that the guest's kernel has in its own memory: ``words`` or a script tell it so."""

    size_mb: int = Field(gt=0, description="as the words say")
    node: str = Field(pattern=r"^/dev/[a-z0-9]+$")
    words: str = Field("", description="of the kernel's command line")
    script: str = Field(
        "", pattern=r"^([a-z-]+\.sh)?$", description="of lava-jobs/dut: makes the disk, before all"
    )

    @model_validator(mode="after")
    def _made(self) -> OwnDisk:
        if bool(self.words) == bool(self.script):
            raise ValueError(f"{self.node} needs either words or a script that makes it")
        return self


class HostBoard(Board):
    """A board file of User Mode Linux: the kernel under test is a process of this machine.

    It runs on this machine's CPU, so its clock is `time`, as a real board's is. Its root file
    system is the RAM disk, and its disks are files of the boot: it is given nothing of the host's.
    """

    arch: Literal["um"]
    cmdline: str
    memory_mb: int = Field(gt=0)
    devices: dict[str, HostDisk | OwnDisk]
    handover: HostDisk = Field(description="the disk that takes what the board hands over")
    # It is about verdicts, and no boot is another one for it.
    can_gate: bool = Field(
        False, exclude=True, description="its verdicts may block: false until its noise is known"
    )
    limits: Limits

    @property
    def disks(self) -> list[HostDisk]:
        """The disks that are this machine's."""
        own = [disk for disk in self.devices.values() if isinstance(disk, HostDisk)]
        return [*own, self.handover]

    @property
    def image_arch(self) -> str:
        """The architecture of the programs that its RAM disk holds: this machine's."""
        return "x86_64"

    @property
    def job_settings(self) -> dict[str, str]:
        """Which disks are which, and how records leave the board."""
        targets = {f"TARGET_{name}": disk.node for name, disk in self.devices.items()}
        made = {
            f"MAKE_{name}": f"{disk.script} {disk.size_mb}"
            for name, disk in self.devices.items()
            if isinstance(disk, OwnDisk) and disk.script
        }
        return {**targets, **made, "HANDOVER": "disk", "HANDOVER_DISK": self.handover.node}


LocalBoard = VirtualBoard | HostBoard
"""Boards that this machine boots."""


class RealBoard(Board):
    """A board file of hardware, which only a LAVA lab can boot: real, or simulated to its UART."""

    hardware: Hardware
    # Not part of what the workload sees: it belongs to the kernel under test.
    dtb: str = Field(
        exclude=True,
        description="device tree in place of the hardware's own: a blob, relative to the board"
        " file, or as make names it; empty: there is none",
    )

    @property
    def blob(self) -> Path | None:
        """The device tree, if it is a file of the lab's own."""
        return Path(self.dtb) if Path(self.dtb).is_absolute() else None

    @property
    def dtbs(self) -> list[str]:
        """Device trees that are built with the kernel, as make names them."""
        return [self.dtb] if self.dtb and self.blob is None else []

    @property
    def job_settings(self) -> dict[str, str]:
        """What the DUT's scripts must know of the hardware."""
        return self.hardware.job_settings


AnyBoard = VirtualBoard | HostBoard | RealBoard


def load_board(name: str) -> AnyBoard:
    """Load a board by name or path; raises UsageError when it is not valid.

    A real board's file names its hardware file, from which architecture and fragments come. A file
    may name another one that it ``extends``: then it holds what differs.
    """
    folder = data_dir("lava-jobs") / "boards"
    path = named_file(folder, name)
    data: dict[str, Any] = {**load_extended(folder, path), "name": path.stem}
    try:
        if data.get("arch") == "um":
            return HostBoard.model_validate(data)
        if "hardware" not in data:
            return VirtualBoard.model_validate(data)
        hardware = load_hardware(str(data["hardware"]))
        same = {k: getattr(hardware, k) for k in ("arch", "description", "fragments")}
        tree = {"dtb": _device_tree(path, str(data.get("dtb") or hardware.dtb))}
        return RealBoard.model_validate({**data, **same, **tree, "hardware": hardware})
    except ValidationError as error:
        raise first_error(path, error) from error


def _device_tree(board_file: Path, name: str) -> str:
    """What a board file names: a file's absolute path, or the name of one that make builds."""
    blob = board_file.parent / name
    return str(blob.resolve()) if name and blob.is_file() else name


def load_virtual_board(name: str) -> VirtualBoard:
    """As `load_board`; raises UsageError for a board that this machine cannot be."""
    board = load_board(name)
    if isinstance(board, HostBoard):
        raise UsageError(f"board {name} is not QEMU's, and counts no instructions: name another")
    if not isinstance(board, VirtualBoard):
        raise UsageError(f"board {name} is not virtual: it needs a lab (--runner lava)")
    return board
