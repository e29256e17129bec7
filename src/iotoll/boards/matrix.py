"""The workload matrix: cells, and how many I/Os each runs. Data: ``lava-jobs/matrices/*.toml``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field, ValidationError, field_validator

from iotoll.boards.cells import DEVICES, LARGE_KB, Cell, parse_cell
from iotoll.core.errors import UsageError
from iotoll.core.nearest import nearest
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_extended, load_toml, named_file
from iotoll.records.models.base import Model

DEVICE_IOS = 64
"""I/Os that reach the disk, at least: the gate judges no section of fewer than 24."""
BURSTS = 24
"""Bursts of a cell with a depth, at least: the I/Os of one share their chances, and the sign test
of a first boot (z = 4) needs 16 that grew, also where the first one cannot be identified."""
READ_AHEAD_KB = 256
"""What the kernel reads ahead at a time: twice its own setting, where reads follow each other."""


class Pattern(Model):
    """Block size, order and direction of a cell, as in its name."""

    name: str


class FioSettings(Model):
    """What all cells of a matrix share; ``ios_*`` count over all threads of a cell."""

    ioengine: str
    randseed: int
    file_mb: int = Field(gt=0)
    aged_mb: int = Field(8, gt=0, le=1024, description="the file of cells with the word aged")
    ios_4k: int = Field(gt=0)
    ios_128k: int = Field(gt=0)
    ios_1024k: int | None = Field(None, gt=0, description="absent: as many as of 128 KiB")


class FioChanges(Model):
    """What a device has instead."""

    file_mb: int | None = Field(None, gt=0)
    ios_4k: int | None = Field(None, gt=0)
    ios_128k: int | None = Field(None, gt=0)
    ios_1024k: int | None = Field(None, gt=0)


class Pace(Model):
    """When a board that is exact begins its I/Os, so that two kernels' meet the same timers.

    Each thread begins ``rate_iops`` I/Os a second (0: each one when the one before has ended), one
    of several threads, and one that syncs each write, ``rate_iops_many`` (0: as many), and
    each cell begins when the kernel's clock is 1 ms past a multiple of ``round_us``, plus
    ``perturb_us`` for each boot before this one; each CPU has used ``perturb_pages`` more pages by
    then, for each boot before this one. Its threads begin ``stagger_us`` after each other. Behind
    each cell the board rests for ``rest_us`` at least: what the I/Os have put off runs, and counts.
    """

    rate_iops: int = Field(0, ge=0)
    rate_iops_many: int = Field(0, ge=0)
    round_us: int = Field(0, ge=0)
    perturb_us: int = Field(0, ge=0)
    perturb_pages: int = Field(0, ge=0, le=64)
    stagger_us: int = Field(0, ge=0)
    rest_us: int = Field(0, ge=0, le=60_000_000)

    def rate(self, cell: Cell) -> int:
        """I/Os a second of each thread of a cell.

        A file's time of change counts ticks: a write in the tick of the one before leaves it alone,
        so that an fsync behind it finds nothing to commit. Which writes these are depends on when
        the cell begins. With less than one write a tick each fsync commits. So with O_SYNC; O_DSYNC
        does not wait for the file's times.
        """
        syncs = cell.sync_every == 1 or (cell.fio_sync == "sync" and cell.op != "read")
        seldom = cell.threads > 1 or syncs
        return (seldom and self.rate_iops_many) or self.rate_iops


class Filesystem(Model):
    """How the DUT prepares each device."""

    uuid: str
    mkfs_options: str
    mount_options: str
    scheduler: str


class Family(Model):
    """Cells beside a matrix's own, for patches to code that no cell of its own runs."""

    why: str = Field(min_length=1)
    devices: list[str] = Field(min_length=1)
    workloads: list[str] = Field(min_length=1, description="cells without their device")
    needs: str = Field("", description="what the board's device must have")
    runs: list[str] = Field(
        default_factory=list, description="functions (globs) that no cell of the matrix runs"
    )
    board: str = Field("", description="one that runs it, where the default board does not")

    @field_validator("devices")
    @classmethod
    def _known(cls, devices: list[str]) -> list[str]:
        for name in devices:
            if name not in DEVICES:
                near = nearest(name, DEVICES)
                raise ValueError(f"no device {name!r}: the nearest is {near!r}")
        return devices

    def cells(self, devices: Sequence[str]) -> list[str]:
        """Its cells on those of ``devices`` that it is for, device by device."""
        return [f"{d}-{w}" for d in devices if d in self.devices for w in self.workloads]


class MoreCells(Model):
    """Cells of a matrix beside its patterns, for devices of it; others are left out."""

    devices: list[str] = Field(min_length=1)
    workloads: list[str] = Field(min_length=1, description="cells without their device")


class Matrix(Model):
    """A matrix file, with the families of ``lava-jobs/families.toml`` that it names."""

    name: str
    devices: list[str]
    family_devices: list[str] = Field(
        default_factory=list, description="further devices, of families' cells alone"
    )
    threads: list[int]
    io_modes: list[str]
    patterns: list[Pattern]
    more: list[MoreCells] = Field(default_factory=list)
    fio: FioSettings
    fio_of: dict[str, FioChanges] = Field(default_factory=dict)
    fio_cells: dict[str, dict[str, str]] = Field(
        default_factory=dict, description="cell -> further options of its fio job"
    )
    pace: Pace = Field(default_factory=Pace)
    filesystem: Filesystem
    events: dict[str, list[str]]
    kprobes: dict[str, list[str]]
    families: dict[str, Family] = Field(default_factory=dict)
    calibrate: bool = Field(
        True, description="whether a first boot on the instructions clock calibrates its events"
    )

    @property
    def all_devices(self) -> list[str]:
        """The devices of its own cells, and those of families alone."""
        return list(dict.fromkeys([*self.devices, *self.family_devices]))

    @property
    def family_cells(self) -> dict[str, list[str]]:
        """The cells of each family on this matrix's devices; a family without any is left out."""
        found = {name: family.cells(self.all_devices) for name, family in self.families.items()}
        return {name: cells for name, cells in found.items() if cells}

    @property
    def cells(self) -> list[str]:
        """All cell names, device by device, reads before writes (writes leave pages dirty).

        Those beside the patterns follow a device's others, which so are what they are without them.
        """
        found = []
        for device in self.devices:
            found += [
                f"{device}-{pattern.name}-t{threads}-{mode}"
                for pattern in self.patterns
                for threads in self.threads
                for mode in self.io_modes
            ]
            more = (m.workloads for m in self.more if device in m.devices)
            found += [f"{device}-{workload}" for workloads in more for workload in workloads]
        return list(dict.fromkeys(found))

    def ios(self, cell: Cell) -> int:
        """How many I/Os the cell runs, over all its threads.

        Where only some reach the disk (a sync after several writes, read-ahead), or several share
        their chances (bursts), there are more.
        """
        fio = self.settings(cell.device)
        ios = fio.ios_4k if cell.block_kb <= 4 else fio.ios_128k
        if cell.block_kb >= LARGE_KB:
            ios = fio.ios_1024k or ios
        one_in = 1
        if cell.sync_every:
            one_in = cell.sync_every
        elif cell.io_mode in ("buffered", "sync") and cell.op == "read" and not cell.random:
            one_in = max(READ_AHEAD_KB // cell.block_kb, 1)
        elif cell.sqpoll:
            # On one CPU fio and the kernel's thread wait out each other's turns: 8 ms an entry.
            ios = min(ios, DEVICE_IOS)
        most = (fio.aged_mb if cell.aged else fio.file_mb) * 1024 // cell.block_kb
        if cell.aged:
            # Making such a file costs the board more than its I/Os: each place is used once.
            ios = min(ios, most)
        if one_in > 1:
            ios = max(ios, min(DEVICE_IOS * one_in, most))
        if cell.depth > 1:
            # A file has few places for I/Os of 1 MiB: direct ones may come there several times.
            large = cell.is_direct and cell.block_kb >= LARGE_KB
            bursts = BURSTS * cell.depth * cell.threads
            ios = max(ios, bursts if large else min(bursts, most))
        return max(ios // cell.threads, 1) * cell.threads

    def settings(self, device: str) -> FioSettings:
        """The fio settings of a device's cells."""
        changes = self.fio_of.get(device, FioChanges())
        return self.fio.model_copy(update=changes.model_dump(exclude_none=True))


def load_matrix(name: str) -> Matrix:
    """Load a matrix by name or path; raises UsageError when it is not valid."""
    folder = data_dir("lava-jobs") / "matrices"
    path = named_file(folder, name)
    data = load_extended(folder, path)
    data["families"] = _families(path, data.get("families", []))
    try:
        matrix = Matrix.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        raise first_error(path, error) from error
    others = [cell for cells in matrix.family_cells.values() for cell in cells]
    for cell in [*matrix.cells, *others, *matrix.fio_cells]:
        try:
            parse_cell(cell)
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from error
    return matrix


def _families(path: Path, names: object) -> dict[str, object]:
    """The tables of the families that a matrix names; raises UsageError for an unknown one."""
    known = load_toml(families_path())
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise UsageError(f"{path}: families: must be a list of names: {', '.join(known)}")
    for name in names:
        if name not in known:
            near = nearest(name, list(known))
            raise UsageError(f"{path}: families: no family {name!r}: the nearest is {near!r}")
    return {name: known[name] for name in names}


def families_path() -> Path:
    """Where the families are."""
    return data_dir("lava-jobs") / "families.toml"


def chosen_cells(
    text: str | None, known: list[str], families: Mapping[str, Sequence[str]] | None = None
) -> list[str] | None:
    """The cells that a comma-separated list chooses; None without one.

    An item is the name of a cell, of the matrix or not; the name of one of ``families``; or a
    pattern, which stands for cells of the matrix, else of its families. Raises UsageError where an
    item chooses nothing.
    """
    if text is None:
        return None
    families = families or {}
    more = [cell for cells in families.values() for cell in cells]
    chosen: list[str] = []
    for item in (part.strip() for part in text.split(",")):
        if not item:
            raise UsageError(f"--cells {text!r}: an item is empty: name a cell or a family")
        hits = [c for c in known if fnmatchcase(c, item)]
        hits = hits or list(families.get(item, [])) or [c for c in more if fnmatchcase(c, item)]
        hits = hits or _spelled(item, [*known, *more], families)
        chosen += [c for c in hits if c not in chosen]
    return chosen


def _spelled(item: str, known: list[str], families: Mapping[str, Sequence[str]]) -> list[str]:
    """The cell that is written out, which is none of the ``known``, on a device that they have."""
    if any(mark in item for mark in "*?["):
        raise UsageError(f"--cells {item}: no such cell; the nearest is {nearest(item, known)}")
    if item in load_toml(families_path()):
        raise UsageError(f"--cells {item}: the matrix does not name that family (families = [...])")
    if item.count("-") < 3:
        near = nearest(item, [*families, *known])
        raise UsageError(f"--cells {item}: no such cell or family; the nearest is {near}")
    try:
        cell = parse_cell(item)
    except UsageError as error:
        raise UsageError(f"--cells {item}: {error}") from error
    devices = {name.partition("-")[0] for name in known}
    if cell.device not in devices:
        raise UsageError(
            f"--cells {item}: no such cell: the matrix measures {', '.join(sorted(devices))} alone"
        )
    return [item]
