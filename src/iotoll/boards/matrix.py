"""The workload matrix: cells, and how many I/Os each runs. Data: ``lava-jobs/matrices/*.toml``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from pydantic import Field, ValidationError

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_extended, named_file
from iotoll.records.models.base import Model

CELL = re.compile(
    r"(?P<device>ufs|nvme|emmc)-(?P<kb>\d+)k-(?P<rw>rand|seq)(?P<op>read|write)"
    r"-t(?P<threads>\d+)-(?P<mode>direct|sync)"
)


@dataclass(frozen=True)
class Cell:
    """One point of the matrix; ``block_kb`` is the I/O size in KiB."""

    name: str
    device: str
    block_kb: int
    random: bool
    op: str
    threads: int
    io_mode: str

    @property
    def fio_rw(self) -> str:
        """fio's ``rw=`` for this cell."""
        return ("rand" if self.random else "") + self.op

    @property
    def workload(self) -> str:
        """The cell's name without its device, to compare devices with each other."""
        return self.name.partition("-")[2]


def parse_cell(name: str) -> Cell:
    """Parse a cell name such as ``ufs-4k-randread-t1-direct``; raises UsageError."""
    match = CELL.fullmatch(name)
    if match is None:
        raise UsageError(f"cell {name!r} is not DEVICE-SIZEk-PATTERN-tTHREADS-MODE")
    return Cell(
        name,
        match["device"],
        int(match["kb"]),
        match["rw"] == "rand",
        match["op"],
        int(match["threads"]),
        match["mode"],
    )


class Pattern(Model):
    """Block size, order and direction of a cell, as in its name."""

    name: str


class FioSettings(Model):
    """What all cells of a matrix share; ``ios_*`` count over all threads of a cell."""

    ioengine: str
    randseed: int
    file_mb: int = Field(gt=0)
    ios_4k: int = Field(gt=0)
    ios_128k: int = Field(gt=0)


class FioChanges(Model):
    """What a device has instead."""

    file_mb: int | None = Field(None, gt=0)
    ios_4k: int | None = Field(None, gt=0)
    ios_128k: int | None = Field(None, gt=0)


class Pace(Model):
    """When a board that is exact begins its I/Os, so that two kernels' meet the same timers.

    Each thread begins ``rate_iops`` I/Os a second (0: each one when the one before has ended), and
    each cell begins when the board's clock is at a multiple of ``round_us``, plus ``perturb_us``
    for each boot before this one.
    """

    rate_iops: int = Field(0, ge=0)
    round_us: int = Field(0, ge=0)
    perturb_us: int = Field(0, ge=0)


class Filesystem(Model):
    """How the DUT prepares each device."""

    uuid: str
    mkfs_options: str
    mount_options: str
    scheduler: str


class Matrix(Model):
    """A matrix file."""

    name: str
    devices: list[str]
    threads: list[int]
    io_modes: list[str]
    patterns: list[Pattern]
    fio: FioSettings
    fio_of: dict[str, FioChanges] = Field(default_factory=dict)
    pace: Pace = Field(default_factory=Pace)
    filesystem: Filesystem
    events: dict[str, list[str]]
    kprobes: dict[str, list[str]]

    @property
    def cells(self) -> list[str]:
        """All cell names, device by device, reads before writes (writes leave pages dirty)."""
        return [
            f"{device}-{pattern.name}-t{threads}-{mode}"
            for device in self.devices
            for pattern in self.patterns
            for threads in self.threads
            for mode in self.io_modes
        ]

    def ios(self, cell: Cell) -> int:
        """How many I/Os the cell runs, over all its threads."""
        fio = self.settings(cell.device)
        return fio.ios_4k if cell.block_kb <= 4 else fio.ios_128k

    def settings(self, device: str) -> FioSettings:
        """The fio settings of a device's cells."""
        changes = self.fio_of.get(device, FioChanges())
        return self.fio.model_copy(update=changes.model_dump(exclude_none=True))


def load_matrix(name: str) -> Matrix:
    """Load a matrix by name or path; raises UsageError when it is not valid."""
    folder = data_dir("lava-jobs") / "matrices"
    path = named_file(folder, name)
    data = load_extended(folder, path)
    try:
        matrix = Matrix.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        raise first_error(path, error) from error
    for cell in matrix.cells:
        try:
            parse_cell(cell)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
    return matrix


def chosen_cells(text: str | None, known: list[str]) -> list[str] | None:
    """The cells that a comma-separated list of names and patterns chooses; None without one."""
    if text is None:
        return None
    chosen: list[str] = []
    for pattern in text.split(","):
        hits = [c for c in known if fnmatchcase(c, pattern.strip())]
        if not hits:
            raise UsageError(f"--cells {pattern}: no such cell; there is for example {known[0]}")
        chosen += [c for c in hits if c not in chosen]
    return chosen
