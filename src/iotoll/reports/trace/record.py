"""``iotoll record``: the trace-cmd command that records what ``iotoll analyze`` needs.

The events are those of this kernel's tracefs; a device is one of this machine's. The command is
printed, or run where it may.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import click

from iotoll.core.cli_support import FiniteRange
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import check_target
from iotoll.core.proc import require_tool, tail_file
from iotoll.core.progress import Progress
from iotoll.reports.trace.command import analyze_command

SYS = Path("/sys")
TRACEFS = (SYS / "kernel/tracing", SYS / "kernel/debug/tracing")
_CALLS = (
    *("read", "pread64", "readv", "preadv", "preadv2"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "fsync", "fdatasync"),
    *("io_submit", "io_getevents", "io_uring_enter"),
)
_BLOCK = (
    *("bio_queue", "bio_remap", "bio_backmerge", "bio_frontmerge", "bio_complete", "split"),
    *("getrq", "rq_insert", "rq_merge", "rq_issue", "rq_requeue", "rq_complete"),
)
EVENTS = (
    *(f"block:block_{name}" for name in _BLOCK),
    *(f"syscalls:sys_{side}_{call}" for call in _CALLS for side in ("enter", "exit")),
    # `_sqe` to 6.2, `_req` from 6.5.
    *("io_uring:io_uring_submit_req", "io_uring:io_uring_submit_sqe"),
    *("io_uring:io_uring_queue_async_work", "io_uring:io_uring_complete"),
    *("irq:irq_handler_entry", "irq:irq_handler_exit", "irq:softirq_entry", "irq:softirq_exit"),
    *("sched:sched_switch", "sched:sched_waking"),
)
"""What the sections need of any kernel, in the order of an I/O's way (docs/method.md)."""

DRIVERS = {
    "nvme": ("nvme:nvme_setup_cmd", "nvme:nvme_sq", "nvme:nvme_complete_rq"),
    "mmc": ("mmc:mmc_request_start", "mmc:mmc_request_done"),
    "ufs": ("ufs:ufshcd_command",),
    "scsi": ("scsi:scsi_dispatch_cmd_start", "scsi:scsi_dispatch_cmd_done"),
}
"""What marks the hand-over to a device, and its end, by driver."""

_SHARE, _LEAST, _MOST = 20, 4 << 10, 64 << 10
"""Buffers take at most this part of the free memory; KiB for each CPU."""


@dataclass(frozen=True)
class Device:
    """A block device and those below it: what has to pass the filter.

    ``numbers`` is empty where one of them has none in sysfs: nothing can be filtered then. Such are
    the paths of an NVMe multipath head, whose requests they have (Linux 4.15 on, GENHD_FL_HIDDEN).
    """

    name: str
    number: str
    numbers: tuple[str, ...]
    drivers: frozenset[str]


@dataclass(frozen=True)
class Recording:
    """A recording as it will be made."""

    out: Path
    events: tuple[str, ...]
    device: Device | None = None
    seconds: float | None = None
    kib: int = _MOST
    missing: tuple[str, ...] = field(default=())

    def command(self) -> list[str]:
        """The words of the trace-cmd command."""
        words = ["trace-cmd", "record", "-C", "mono", "-b", str(self.kib), "-o", str(self.out)]
        for event in self.events:
            words += ["-e", event]
            if self.device and self.device.numbers and event.startswith("block:"):
                numbers = (f"dev == {_kernel_number(n)}" for n in self.device.numbers)
                words += ["-f", " || ".join(numbers)]
        if self.seconds is not None:
            words += ["sleep", f"{self.seconds:g}"]
        return words

    def analysis(self) -> list[str]:
        """What follows it."""
        device = ["--device", self.device.number] if self.device else []
        return ["iotoll", "analyze", str(self.out), *device]

    def text(self) -> str:
        """Both commands as a shell takes them: a line for each event."""
        lines: list[str] = []
        for word in self.command():
            if word in ("-e", "sleep"):
                lines.append("")
            if lines:
                lines[-1] = f"{lines[-1]} {shlex.quote(word)}".strip()
            else:
                lines = [word]
        return " \\\n    ".join(lines) + "\n" + shlex.join(self.analysis())


def _kernel_number(number: str) -> int:
    """The device's number in trace events: 12 bits major, 20 bits minor."""
    major, minor = map(int, number.split(":"))
    return major << 20 | minor


def find_device(name: str) -> Device:
    """Find a device of this machine by name, path or number; raises UsageError without it."""
    block = SYS / "class/block"
    wanted = name.removeprefix("/dev/").replace("/", "!")
    if re.fullmatch(r"\d+:\d+", name):
        found = [path for path in _listed(block) if _number(path) == name]
    else:
        real = os.path.realpath(f"/dev/{name.removeprefix('/dev/')}").rpartition("/")[2]
        found = [path for path in (block / wanted, block / real) if (path / "dev").is_file()]
    if not found:
        known = ", ".join(sorted(path.name for path in _listed(block) if _number(path)))
        raise UsageError(f"--device {name}: this machine has no such block device; it has {known}")
    top = found[0]
    members = {path.name: path for path in _below(top)}
    numbers = tuple(dict.fromkeys(_number(path) for path in members.values()))
    drivers = frozenset(driver for path in members for driver in _drivers(path))
    return Device(top.name, _number(top), numbers if all(numbers) else (), drivers)


def _listed(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _number(device: Path) -> str:
    try:
        return (device / "dev").read_text().strip()
    except OSError:
        return ""


def _below(device: Path) -> Iterable[Path]:
    """The device, its disk if it is a partition, and its parts."""
    yield device
    real = device.resolve()
    if (real / "partition").is_file():
        yield from _below(device.parent / real.parent.name)
    for slave in _listed(device / "slaves"):
        yield from _below(device.parent / slave.name)
    # The paths of an NVMe multipath head: nvme0n1 stands on nvme0c0n1, nvme0c1n1, ...
    if head := re.fullmatch(r"nvme(\d+)n(\d+)", device.name):
        yield from sorted(device.parent.glob(f"nvme{head[1]}c*n{head[2]}"))


def _drivers(name: str) -> tuple[str, ...]:
    """The groups of `DRIVERS` that a device of this name can be of; none for what is not known."""
    for start, found in (("nvme", ("nvme",)), ("mmcblk", ("mmc",)), ("sd", ("ufs", "scsi"))):
        if name.startswith(start):
            return found
    return ()


def known_events(tracefs: Path) -> frozenset[str]:
    """The events of a tracefs, as GROUP:EVENT."""
    folders = (path for path in _listed(tracefs / "events") if path.is_dir())
    return frozenset(
        f"{group.name}:{event.name}" for group in folders for event in _listed(group)
        if event.is_dir()
    )  # fmt: skip


def choose(known: frozenset[str] | None, drivers: Collection[str] | None) -> tuple[list[str], ...]:
    """Return the events to record, and those that this kernel lacks.

    ``known`` is what there is, None where that cannot be read; ``drivers`` those of the device.
    """
    wanted = list(EVENTS)
    for driver, events in DRIVERS.items():
        if drivers is None or driver in drivers:
            wanted += events
    if known is None:
        return wanted, []
    found = [event for event in wanted if event in known]
    if "ufs:ufshcd_command" in found:
        # The same commands, later on their way.
        found = [event for event in found if event not in DRIVERS["scsi"]]
    lacking = [event for event in _BLOCK_NEEDED if event not in known]
    if lacking:
        raise UsageError(
            f"this kernel has no event {lacking[0]}: build it with CONFIG_BLK_DEV_IO_TRACE"
        )
    if drivers is None:
        # Which drivers the disks have is not known: what is not there is not missed.
        wanted = list(EVENTS)
    renamed = {"io_uring:io_uring_submit_req", "io_uring:io_uring_submit_sqe"}
    there = known | renamed if renamed & set(found) else known
    return found, [event for event in wanted if event not in there]


_BLOCK_NEEDED = ("block:block_bio_queue", "block:block_rq_issue", "block:block_rq_complete")


def buffer_kib() -> int:
    """KiB of a CPU's buffer: as much as a small part of the free memory allows."""
    try:
        text = Path("/proc/meminfo").read_text()
        free = int(re.search(r"MemAvailable:\s+(\d+)", text)[1])  # type: ignore[index]
    except (OSError, TypeError):
        return _LEAST
    return max(_LEAST, min(_MOST, free // _SHARE // (os.cpu_count() or 1)))


@click.command("record")
@click.option("--device", metavar="NAME|MAJ:MIN", help="Only this device and what it stands on.")
@click.option(
    "--for",
    "seconds",
    type=FiniteRange(0, 86_400, min_open=True),
    metavar="S",
    help="End after so many seconds. Default: at Ctrl-C.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default="trace.dat",
    show_default=True,
    help="The file to record into.",
)
@click.option("--run", is_flag=True, help="Run the commands; needs root and trace-cmd.")
def record_command(device: str | None, seconds: float | None, out: Path, run: bool) -> None:
    """Print the trace-cmd command that records all that analyze needs, or run it.

    The events are those that this kernel has; analyze follows on what was recorded. Ctrl-C ends
    the recording, and the file is complete.
    """
    wanted = find_device(device) if device else None
    known = next((found for path in TRACEFS if (found := known_events(path))), None)
    why = _may_not_run() if run else None
    if run and known is None and why is None:
        known = _asked()
    events, missing = choose(known, wanted.drivers if wanted and wanted.drivers else None)
    plan = Recording(out, tuple(events), wanted, seconds, buffer_kib(), tuple(missing))
    if run and why is None:
        _record(plan)
        analyze_command.main(plan.analysis()[2:], standalone_mode=False)
        return
    if known is None:
        click.echo("# tracefs cannot be read here, so the events were not checked: run it as root")
    elif missing:
        click.echo(f"# Linux {platform.release()} has not: {', '.join(missing)}")
    click.echo(plan.text())
    if why is not None:
        raise UsageError(f"--run: {why}; the commands are printed instead")


def _may_not_run() -> str | None:
    return None if os.geteuid() == 0 else "recording needs root"


def _asked() -> frozenset[str]:
    """The events by trace-cmd, which mounts tracefs where it is not."""
    tool = require_tool("trace-cmd", "trace-cmd")
    found = subprocess.run([tool, "list", "-e"], capture_output=True, text=True, check=False)
    if found.returncode:
        raise InfrastructureError("trace-cmd list -e failed: is CONFIG_FTRACE on?", found.stderr)
    return frozenset(found.stdout.split())


def _record(plan: Recording) -> None:
    """Run trace-cmd; Ctrl-C ends it as it ends trace-cmd alone: the file is complete."""
    require_tool("trace-cmd", "trace-cmd")
    check_target(plan.out)
    progress = Progress()
    until = "Ctrl-C" if plan.seconds is None else f"{plan.seconds:g} s have passed, or Ctrl-C,"
    progress.say(f"record {len(plan.events)} kinds of events into {plan.out} until {until} ends it")
    start, interrupted = time.monotonic(), False
    with tempfile.NamedTemporaryFile(prefix="iotoll-record-", suffix=".log") as log:
        # A session of its own, so that the terminal's Ctrl-C comes to it through us, once.
        process = subprocess.Popen(
            plan.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            while process.poll() is None:
                try:
                    process.wait()
                except KeyboardInterrupt:
                    interrupted = True
                    os.killpg(process.pid, signal.SIGINT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
        if interrupted and process.returncode == -signal.SIGINT:
            progress.say("interrupted before trace-cmd recorded anything")
            raise KeyboardInterrupt
        if process.returncode or not plan.out.is_file():
            end = f"trace-cmd ended with status {process.returncode} and no usable file"
            raise InfrastructureError(f"{plan.out}: {end}", tail_file(Path(log.name)))
    took = f"{time.monotonic() - start:.1f} s"
    size = plan.out.stat().st_size / 1e6
    how = "interrupted after" if interrupted and plan.seconds is not None else "recorded"
    progress.say(f"{how} {took}: {plan.out}, {size:.1f} MB, is complete")
