"""Real boards as data: ``lava-jobs/hardware/*.toml``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, ValidationError

from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml, named_file
from iotoll.records.models.base import Model

PMU_EVENTS = "PMU_EVENTS"
"""Word of job.env: what perf counts, where the board's file says so."""


class AndroidBoot(Model):
    """An Android boot image (header version 0) with a gzip'd kernel and the DTB behind it."""

    kind: Literal["android"]
    partition: str
    method: Literal["grub", "fastboot"] = Field("grub", description="LAVA's, to start the image")
    page_size: int
    base: int
    kernel_offset: int
    ramdisk_offset: int
    tags_offset: int


class UbootBoot(Model):
    """Kernel, DTB and ramdisk as files, which U-Boot loads over the network."""

    kind: Literal["u-boot"]


class PartitionRootfs(Model):
    """The root file system is an ext4 image in a partition."""

    kind: Literal["partition"]
    partition: str
    size_mb: int = Field(gt=0)


class RamdiskRootfs(Model):
    """The root file system is the ramdisk."""

    kind: Literal["ramdisk"]


class StoragePartition(Model):
    """One partition of the board's own table."""

    name: str
    kb: int = Field(gt=0)


class Storage(Model):
    """The disk with the partition table that fastboot writes to."""

    lun: int = Field(ge=0, description="UFS logical unit")
    block: int = Field(gt=0, description="logical block size in bytes")
    size_mb: int = Field(gt=0)
    first_kb: int = Field(gt=0, description="begin of the first partition")
    partitions: list[StoragePartition]

    def size(self, name: str) -> int:
        """Bytes of the partition ``name``; raises KeyError."""
        return {p.name: p.kb << 10 for p in self.partitions}[name]


class Pmu(Model):
    """What the board's `perf stat` counts of each cell, in a separate run (dut/pmu.sh).

    No more than the PMU has counters: what perf would estimate is not taken.
    """

    events: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9_./:=-]{1,64}$")]] = Field(
        min_length=1, max_length=16, description="as perf names them, such as instructions:k"
    )


class Hardware(Model):
    """A hardware file."""

    name: str
    arch: Literal["arm", "arm64"]
    description: str
    fragments: list[str] = Field(description="kernel-configs/NAME.config, in order")
    oldest_kernel: str = Field(description="first mainline version that has what the board needs")
    dtb: str = Field(description="device tree as make names it, or empty: the vendor's")
    compatible: str = Field(description="of the device tree's root")
    console: str
    cmdline: str
    boot: AndroidBoot | UbootBoot = Field(discriminator="kind")
    rootfs: PartitionRootfs | RamdiskRootfs = Field(discriminator="kind")
    devices: dict[str, str] = Field(
        description="device of the matrix → block device that may be overwritten"
    )
    storage: Storage | None = None
    pmu: Pmu | None = None

    @property
    def full_cmdline(self) -> str:
        """The kernel's command line with its console."""
        return f"console={self.console} {self.cmdline}"

    @property
    def job_settings(self) -> dict[str, str]:
        """What the DUT's scripts must know of this board (job.env)."""
        found = {f"TARGET_{name}": target for name, target in self.devices.items()}
        return {**found, PMU_EVENTS: " ".join(self.pmu.events)} if self.pmu else found


def load_hardware(name: str) -> Hardware:
    """Load a board by name or path; raises UsageError when it is not valid."""
    path = named_file(data_dir("lava-jobs") / "hardware", name)
    try:
        found = Hardware.model_validate({"name": path.stem, **load_toml(path)})
    except ValidationError as error:
        raise first_error(path, error) from error
    return found
