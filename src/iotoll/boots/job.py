"""Renders a job: the folder of fio jobs, event lists and settings that the DUT's scripts read."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from iotoll.boards.board import Board, RealBoard, VirtualBoard
from iotoll.boards.cells import Cell, parse_cell
from iotoll.boards.hardware import PMU_EVENTS
from iotoll.boards.matrix import Matrix, Pace
from iotoll.core.digest import files_sha256
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.records.results import write_text

if TYPE_CHECKING:
    import jinja2

CALIBRATION_IOS, TIMED_IOS = 32, 512
"""I/Os of a calibration run: counts of instructions have peaks, times scatter."""
PREFIX = "calibration"
PLACE = "place.sh"
"""Of a job for several CPUs: what no CPU is named for gets one."""


def is_calibration(name: str) -> bool:
    """Tell whether a run's name is a calibration run's."""
    return name.startswith(f"{PREFIX}-")


@dataclass(frozen=True)
class FioRun:
    """One fio run of a batch: a cell, or a calibration run (docs/method.md)."""

    name: str
    cell: Cell
    ios: int
    calibration: str = ""


@dataclass
class Batch:
    """What one fio process runs under one trace-cmd, on one device."""

    name: str
    device: str
    events: list[str]
    kprobes: list[str]
    runs: list[FioRun] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    """What the disk is set to while it runs, as the DUT's scripts name it (lib.sh, set_disk)."""


def make_batches(
    matrix: Matrix, cells: list[str], calibrate: bool, calibration_ios: int = CALIBRATION_IOS
) -> list[Batch]:
    """Group cells by device and setting, in the matrix's order; calibration batches come last.

    Cells that the matrix does not name follow its own, in the order of ``cells``.
    """
    batches = []
    own = [name for name in matrix.cells if name in set(cells)]
    wanted = [parse_cell(name) for name in dict.fromkeys([*own, *cells])]
    devices = [d for d in matrix.all_devices if any(c.device == d for c in wanted)]
    for device in devices:
        groups: dict[tuple[str, ...], list[Cell]] = {}
        for cell in (c for c in wanted if c.device == device):
            groups.setdefault(cell.setting, []).append(cell)
        # Those that need the raw disk come last: it is unmounted for them.
        for setting, members in sorted(groups.items(), key=lambda g: (g[1][0].is_raw, bool(g[0]))):
            batch = _batch(matrix, "-".join((device, *setting)), device)
            for key in ("libaio", "io_uring", "fsync", "trim"):
                batch.events += matrix.events.get(key, []) if key in setting else []
            if any(not cell.is_direct and not cell.sync_every for cell in members):
                batch.events += matrix.events.get("cached", [])
            batch.settings = _settings(members[0])
            batch.runs = [FioRun(c.name, c, matrix.ios(c)) for c in members]
            batches.append(batch)
    for device in devices if calibrate else []:
        batch = _batch(matrix, f"{PREFIX}-{device}", device)
        # A direct read passes every event once, whatever the file system does.
        cell = parse_cell(f"{device}-4k-randread-t1-direct")
        batch.runs = [FioRun(f"{PREFIX}-{device}-reference", cell, calibration_ios)]
        for event in batch.events:
            mode = "off" if event.startswith("iotoll:") else "double"
            name = f"{PREFIX}-{device}-{event.partition(':')[2]}"
            run = FioRun(name, cell, calibration_ios, f"{mode} {event.replace(':', '/')}")
            batch.runs.append(run)
        batches.append(batch)
    return batches


def _settings(cell: Cell) -> dict[str, str]:
    found = {
        "SCHEDULER": cell.scheduler,
        "QUEUES": str(cell.queues or ""),
        "TAGS": str(cell.tags or ""),
        "SECOND": "1" if cell.disks > 1 else "",
        "RAW": "1" if cell.is_raw else "",
    }
    return {key: value for key, value in found.items() if value}


def _batch(matrix: Matrix, name: str, device: str) -> Batch:
    events = matrix.events.get("common", []) + matrix.events.get(device, [])
    return Batch(name, device, events, matrix.kprobes.get(device, []))


def render_job(
    board: Board,
    matrix: Matrix,
    batches: list[Batch],
    target: Path,
    more: Mapping[str, str] | None = None,
    late: int = 0,
) -> str:
    """Write the job folder, in place of what it held, and return the SHA-256 over its files.

    ``more`` are further settings for the DUT's scripts. Each cell begins ``late`` bits later than
    in a first boot, when a CPU has used as many bits more of pages. Raises UsageError where it
    would overwrite more than the board's owner named.
    """
    _check_raw(board, batches)
    shutil.rmtree(target, ignore_errors=True)
    pace = _pace(board, matrix)
    threads = max([*matrix.threads, *(r.cell.threads for b in batches for r in b.runs)])
    cpus = board.qemu.cpus if isinstance(board, VirtualBoard) else 1
    if pace.round_us and cpus > 1:
        write_text(target / PLACE, (data_dir("lava-jobs") / "jobs" / PLACE).read_text())
    fio = partial(
        template().render,
        pace=pace,
        more=matrix.fio_cells,
        late_us=late * pace.perturb_us,
        extra_pages=late * pace.perturb_pages,
        threads=threads,
        huge_pages=board.huge_pages,
        cpus=cpus,
    )
    for batch in batches:
        text = fio(batch=batch, matrix=matrix.settings(batch.device))
        write_text(target / f"{batch.name}.fio", text)
        write_text(target / f"{batch.name}.events", _lines(batch.events))
        write_text(target / f"{batch.name}.kprobes", _lines(batch.kprobes))
        if batch.settings:
            write_text(target / f"{batch.name}.disk", _shell(batch.settings))
    if more and PMU_EVENTS in more:
        for batch in _counted(batches):
            runs = [f"{run.name} {run.ios}" for run in batch.runs]
            write_text(target / f"{batch.name}.pmu", _lines(runs))
    settings = {**_environment(board, matrix, batches, threads), **_in_step(pace), **(more or {})}
    write_text(target / "job.env", _shell(settings))
    return files_sha256([p for p in target.iterdir() if p.is_file()], target)


def _counted(batches: list[Batch]) -> list[Batch]:
    """Those whose cells can run once more: a raw cell leaves its disk without a file system."""
    raw = {batch.device for batch in batches if "RAW" in batch.settings}
    return [b for b in batches if b.device not in raw and not is_calibration(b.name)]


def _environment(
    board: Board, matrix: Matrix, batches: list[Batch], threads: int
) -> dict[str, object]:
    """What job.env says of the board, its disks and their file systems."""
    disks = _disks(batches)
    return {
        "BOARD": board.name,
        # This machine's boards have disks made for their boot: all others must be marked (lib.sh).
        "SCRATCH": "" if isinstance(board, RealBoard) else 1,
        "DEVICES": " ".join(disks),
        "BATCHES": " ".join(b.name for b in batches),
        **{f"FILE_MB_{name}": matrix.settings(device).file_mb for name, device in disks.items()},
        **{f"AGED_MB_{name}": mb for name, mb in _aged(matrix, batches).items()},
        "THREADS": threads,
        "FS_UUID": matrix.filesystem.uuid,
        "MKFS_OPTIONS": matrix.filesystem.mkfs_options,
        "MOUNT_OPTIONS": matrix.filesystem.mount_options,
        "SCHEDULER": matrix.filesystem.scheduler,
        "HUGE_PAGES": board.huge_pages,
        "BUFFER_KB": board.buffer_kb,
        "IO_TIMEOUT_MS": "" if board.io_timeout_ms is None else board.io_timeout_ms,
        "TRACE_CLOCK": board.trace_clock,
    }


@cache
def template() -> jinja2.Template:
    """What a batch of fio jobs is rendered with."""
    # Imported by a boot alone, and a build comes first.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(data_dir("lava-jobs") / "jobs"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # fio jobs and shell words, not markup; all values come from our data
    )
    return environment.get_template("batch.fio.j2")


def _check_raw(board: Board, batches: list[Batch]) -> None:
    """A raw cell overwrites a whole disk, also where only a partition of it was named."""
    if not isinstance(board, RealBoard):
        return
    for batch in batches:
        second = f"{batch.device}2"
        if "RAW" in batch.settings and (named := board.hardware.devices.get(second)):
            raise UsageError(
                f"board {board.name}: {batch.runs[0].name} overwrites a whole disk, and its"
                f" hardware file names {named} for {second}: leave {second} out, then it is the"
                " second disk without partitions, if that is marked as one that may be overwritten"
            )


def _pace(board: Board, matrix: Matrix) -> Pace:
    """The matrix's; where the host's load or a real clock decides, fio begins the threads."""
    return matrix.pace.model_copy(update={} if board.is_exact else {"round_us": 0})


def _in_step(pace: Pace) -> dict[str, object]:
    """Settings for boards that count instructions; empty words for others."""
    return {
        "QUIET": "1" if pace.rate_iops else "",
        "PAGE_KB": 64 if pace.round_us else "",
    }


def _disks(batches: list[Batch]) -> dict[str, str]:
    """The disks that the board prepares, and the device whose settings each has."""
    disks: dict[str, str] = {}
    for batch in batches:
        disks[batch.device] = batch.device
        if any(run.cell.spare for run in batch.runs):
            disks[f"{batch.device}2"] = batch.device
    return disks


def _aged(matrix: Matrix, batches: list[Batch]) -> dict[str, int]:
    """The disks that need a file whose extents are out of order, and its size in MiB."""
    devices = {b.device for b in batches if any(run.cell.aged for run in b.runs)}
    return {device: matrix.settings(device).aged_mb for device in sorted(devices)}


def _shell(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={shlex.quote(str(value))}\n" for key, value in settings.items())


def _lines(words: list[str]) -> str:
    return "".join(f"{word}\n" for word in words)
