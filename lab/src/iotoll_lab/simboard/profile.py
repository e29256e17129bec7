"""What a simulated board is made of: lava-jobs/simboards/NAME.toml and its hardware file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jinja2

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import load_toml, named_file
from iotoll_lab.simboard.gpt import Partition


@dataclass(frozen=True)
class Disk:
    """One disk of the SoC: bytes, and QEMU's words with ``{drive}`` for the drive's id.

    ``scratch`` says that all of it may be overwritten, and is marked so.
    """

    name: str
    size: int
    qemu: tuple[str, ...]
    scratch: bool = False


@dataclass(frozen=True)
class Soc:
    """What stands in for the SoC; ``uart`` is the number that Linux gives the board's console."""

    binary: str
    package: str
    machine: tuple[str, ...]
    uart: int
    cmdline: str
    disks: tuple[Disk, ...]


@dataclass(frozen=True)
class Profile:
    """A kind of board. Sizes are in bytes; ``table_disk`` holds the partitions.

    Those in ``scratch`` may be overwritten, and are marked so.
    """

    name: str
    product: str
    compatible: str
    max_download: int
    rom_seconds: float
    block: int
    table_disk: str
    partitions: tuple[Partition, ...]
    boot_partition: str
    soc: Soc
    scratch: tuple[str, ...] = ()

    def disk(self, name: str) -> Disk:
        """The disk ``name``."""
        return next(d for d in self.soc.disks if d.name == name)


def load(name: str) -> Profile:
    """Load a profile by name or path; raises UsageError that names file and field."""
    folder = data_dir("lava-jobs")
    path = named_file(folder / "simboards", name)
    data = load_toml(path)
    hardware_path = folder / "hardware" / f"{data.get('hardware')}.toml"
    hardware = load_toml(hardware_path)
    try:
        return _profile(path.stem, data, hardware)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"{path} (with {hardware_path.name}): {error!r} is missing or wrong"
        ) from error


def _profile(name: str, data: dict[str, Any], hardware: dict[str, Any]) -> Profile:
    storage, soc = hardware["storage"], data["soc"]
    table_disk = f"lu{storage['lun']}"
    disks = []
    for key, item in soc["disks"].items():
        size = storage["size_mb"] if key == table_disk else item["size_mb"]
        disks.append(Disk(key, int(size) << 20, tuple(item["qemu"]), bool(item.get("scratch"))))
    at, partitions = int(storage["first_kb"]), []
    for item in storage["partitions"]:
        partitions.append(Partition(item["name"], at << 10, int(item["kb"]) << 10))
        at += int(item["kb"])
    return Profile(
        name=name,
        product=data["product"],
        compatible=hardware["compatible"],
        max_download=int(data["max_download"]),
        rom_seconds=float(data["rom_seconds"]),
        block=int(storage["block"]),
        table_disk=table_disk,
        partitions=tuple(partitions),
        boot_partition=hardware["boot"]["partition"],
        soc=Soc(
            soc["binary"],
            soc["package"],
            tuple(soc["machine"]),
            int(soc["uart"]),
            soc["cmdline"],
            tuple(disks),
        ),
        scratch=tuple(data.get("scratch", ())),
    )


def simulated_device(name: str, serial: str) -> str:
    """The device dictionary of the simulated HiKey960 ``name``, for LAVA's own hi960-hikey type."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("lava-jobs") / "devices"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Jinja2 for LAVA, not markup
    )
    return environment.get_template("simulated-hikey960.jinja2.j2").render(name=name, serial=serial)
