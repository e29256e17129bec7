"""The step *run* on a board of this machine: boots a kernel with a job, waits, judges, unpacks."""

from __future__ import annotations

import shutil
import tarfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from iotoll.boards import patched
from iotoll.boards.board import Board, HostBoard, LocalBoard, VirtualBoard
from iotoll.boards.plugin import TRACING, WINDOWS, load_caches, plugin_name
from iotoll.boards.qemu import (
    TURNS,
    BootFiles,
    RunningBoard,
    board_words,
    disk_words,
    kernel_words,
    qemu_command,
    tool_versions,
)
from iotoll.boards.ramdisk import Image, job_cpio, write_cpio
from iotoll.boards.uml import STARTED_AS, RunningHost, uml_command, uml_words
from iotoll.boots import proof
from iotoll.boots.console import ConsoleState, read_console
from iotoll.boots.counts import COUNTED, Counter, asked_values
from iotoll.boots.host_load import FACT, Load
from iotoll.core.digest import json_sha256
from iotoll.core.errors import (
    BrokenError,
    BrokenStep,
    HangError,
    InfrastructureError,
    UsageError,
)
from iotoll.core.scratch import scratch
from iotoll.kernels.tracing import tracing_rules
from iotoll.records import results, sealed
from iotoll.records.facts import read_facts, read_limits
from iotoll.records.models import BootRecord, BuildRecord, Clock
from iotoll.records.models.run import FactRecord, Side


class GivenTime:
    """Seconds since it was made, without those in which a process waited for a processor.

    It must be asked often, as a time-out is: what counts between two questions is the thread that
    waited longest, and of a longer pause `LONGEST_PAUSE`: who asks was stopped itself. On a kernel
    without schedstat all host time counts.
    """

    def __init__(self, pid: int) -> None:
        self._tasks = Path(f"/proc/{pid}/task")
        self._last = time.monotonic()
        self._waits = self._read()
        self._given = 0.0

    def seconds(self) -> float:
        """Seconds that the process was given so far."""
        now, waits = time.monotonic(), self._read()
        grown = (wait - self._waits.get(name, wait) for name, wait in waits.items())
        passed = min(now - self._last, LONGEST_PAUSE)
        self._given += passed - min(passed, max(grown, default=0) / 1e9)
        self._last, self._waits = now, waits
        return self._given

    def _read(self) -> dict[str, int]:
        """Nanoseconds that each thread waited on a run queue; none once the process is gone."""
        found = {}
        try:
            for task in self._tasks.iterdir():
                found[task.name] = int((task / "schedstat").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return found
        return found


LONGEST_PAUSE = 10.0
"""Seconds between two questions that count: Ctrl-Z stops who asks and the board alike."""
POLL_SECONDS = 0.1
HANDOVER_LIMIT = 4 << 30
"""Bytes that a board may hand over; a boot of the whole matrix hands over some 100 MB."""
MEMBERS_LIMIT = 100_000
"""Files in what a board hands over; a boot of the whole matrix has some thousand."""
CONSOLE_LIMIT = 16 << 20
"""Bytes of a console that are read; a boot of the whole matrix says some 100 KB."""
CONSOLE_RATE = 4 << 20
"""Bytes a second that are read of it, again and again, while a board runs."""
QUIET_SECONDS, REPORT_SECONDS = 1.0, 10.0
"""A failed kernel's console is read once it was silent for the first, at most after the second."""


@dataclass(frozen=True)
class BootPlan:
    """Everything that decides what one boot does; ``folder`` receives what it leaves.

    A ``fresh`` boot is never taken from the store of earlier boots: it is to be compared with one.
    ``until`` names a step: the boot is ended when the workload reaches it (empty: it runs whole).
    ``in_sandbox``: see `iotoll.boots.sandboxed_boot`. With ``cells_only`` the board leaves out the
    job's calibration, which comes last: it is the base's that counts. ``caches`` is the model in
    which lines of cache are counted, if they are.
    """

    side: Side
    number: int
    board: Board
    clock: Clock
    accelerator: str
    kernel: Path
    image: Image
    job: Path
    job_sha256: str
    cells: list[str]
    runs: int
    folder: Path
    fresh: bool = False
    words: tuple[
        str, ...
    ] = ()  # more of QEMU's command line, which change nothing that the board sees
    until: str = ""
    in_sandbox: bool = False
    cells_only: bool = False
    caches: str | None = None

    @property
    def name(self) -> str:
        """The boot within its run: ``base/1``."""
        return f"{self.side}/{self.number}"

    @property
    def virtual(self) -> VirtualBoard:
        """The board as this machine can be it; raises UsageError for a real one."""
        if not isinstance(self.board, VirtualBoard):
            raise UsageError(f"board {self.board.name} is not QEMU's: --runner lava, or ssh")
        return self.board

    @property
    def local(self) -> LocalBoard:
        """The board as this machine boots it; raises UsageError for a real one."""
        return self.board if isinstance(self.board, HostBoard) else self.virtual

    @property
    def kernel_sha256(self) -> str:
        """The kernel under test, as its build noted it, with its device trees."""
        return results.read(self.kernel.with_name("build.json"), BuildRecord).sha256

    @property
    def key(self) -> str:
        """What the board must name as its job: no other boot on this machine has it."""
        return json_sha256([self.identity(), self.kernel_sha256, self.name])[:16]

    def identity(self) -> str:
        """Digest of the board as the workload sees it, without the kernel under test."""
        known: list[object] = [self.board.model_dump(), self.clock]
        known += [self.image.sha256, self.job_sha256]
        if isinstance(self.board, VirtualBoard):
            # The words say what another version of iotoll makes of the same board.
            known += [board_words(self.board, self.clock, self.accelerator)]
            known += [kernel_words(self.board), disk_words(self.board, "")]
            if self.board.qemu.patched:
                # Its counts are part of what the boot leaves.
                known += [patched.digest(), plugin_name(), tracing_rules()]
                known += [asked_values(self.board.arch)]
            if self.caches:
                known += [load_caches(self.caches).model_dump()]
        if isinstance(self.board, HostBoard):
            known += [uml_words(self.board), STARTED_AS]
        return json_sha256(known)


def boot(
    plan: BootPlan,
    on_cell: Callable[[int], None] = lambda _: None,
    cancelled: threading.Event | None = None,
) -> BootRecord:
    """Boot the board once; leaves console.log, batch folders and boot.json in ``plan.folder``.

    ``on_cell`` is told how many fio runs have begun; ``cancelled`` ends the boot early. Raises
    BrokenError when the kernel or the workload failed, HangError when the board fell silent,
    InfrastructureError when QEMU, nbdkit or the disk failed.
    """
    shutil.rmtree(plan.folder, ignore_errors=True)
    plan.folder.mkdir(parents=True)
    started, load = time.monotonic(), Load.now()
    with scratch() as work:
        files = _files(plan, work)
        _make_ramdisk(plan, files)
        counter = _counter(plan, files)
        command, machine = _machine(plan, files, counter)
        with machine as running:
            state = _watch(plan, files, running, on_cell, cancelled)
            if _reached(plan, state):
                running.end()
        _judge(state, files)
        unpack(files.handover, plan.folder)
        files.handover.unlink()
        if files.turns.is_file():
            shutil.move(files.turns, plan.folder / TURNS)
        counter.keep(files.work, plan.folder)
    record = _record(plan, command, files, time.monotonic() - started, counter.why)
    if isinstance(plan.board, HostBoard):
        record.facts.before[FACT] = f"{load.others_until(Load.now()):.2f}"
    proof.check(plan.name, plan.kernel, plan.board.name, record.facts.before, plan.key)
    results.write(plan.folder / "boot.json", record)
    return record


def boot_again(
    plan: BootPlan,
    on_cell: Callable[[int], None] = lambda _: None,
    cancelled: threading.Event | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> BootRecord:
    """As `boot`, but a board that hangs boots once more: only what repeats is the kernel's.

    The first console is kept beside the boot's folder, and ``tell`` is told.
    """
    try:
        return boot(plan, on_cell, cancelled)
    except HangError as first:
        tell(f"{plan.name}: {first}: it boots once more, and only a hang that repeats counts")
        shutil.copyfile(plan.folder / "console.log", hung_console(plan))
    try:
        return boot(plan, on_cell, cancelled)
    except HangError as error:
        raise HangError(error.step, f"{error}, in 2 of 2 boots", error.log_tail) from error


def hung_console(plan: BootPlan) -> Path:
    """Where the console of a boot that hung is kept."""
    return plan.folder.with_name(f"{plan.folder.name}.hung.log")


def _machine(
    plan: BootPlan, files: BootFiles, counter: Counter
) -> tuple[list[str], RunningBoard | RunningHost]:
    """The command line of a boot, and what runs it."""
    board = plan.local
    if isinstance(board, HostBoard):
        command = uml_command(board, files)
        return command, RunningHost(board, command, files)
    command = qemu_command(board, plan.clock, plan.accelerator, files)
    command += counter.words
    return command, RunningBoard(board, command, files)


def _counter(plan: BootPlan, files: BootFiles) -> Counter:
    """Counts what an exact board executes, where its kernel and this machine allow that."""
    if not plan.board.is_exact or plan.clock is not Clock.INSTRUCTIONS:
        return Counter(plan.words)
    return Counter.of(plan.kernel, files.work, plan.words, plan.caches)


def _files(plan: BootPlan, work: Path) -> BootFiles:
    folder = plan.folder
    return BootFiles(
        plan.kernel,
        work / "ramdisk",
        folder / "console.log",
        folder / "handover.tar",
        folder / "qemu.log",
        work,
        work / TURNS,
    )


def _make_ramdisk(plan: BootPlan, files: BootFiles) -> None:
    try:
        shutil.copy(plan.image.path, files.ramdisk)
        job_cpio(plan.job, files.work / "job.cpio")
        key = files.work / "key/iotoll"
        key.mkdir(parents=True)
        (key / "key").write_text(plan.key)
        # Both words are as long, so that the archive is: the job itself is the same for both sides.
        (key / "runs").write_text("cells" if plan.cells_only else "whole")
        write_cpio(key.parent, files.work / "key.cpio")
        with files.ramdisk.open("ab") as out:
            for name in ("job.cpio", "key.cpio"):
                out.write((files.work / name).read_bytes())
    except OSError as error:
        raise InfrastructureError(
            f"cannot write the ramdisk: {error}: is the disk full?"
        ) from error


def _watch(
    plan: BootPlan,
    files: BootFiles,
    running: RunningBoard | RunningHost,
    on_cell: Callable[[int], None],
    cancelled: threading.Event | None,
) -> ConsoleState:
    limits = plan.local.limits
    given_time, last_sign = GivenTime(running.pid), 0.0
    seen, unread, due = -1, True, 0.0
    while True:
        if cancelled is not None and cancelled.is_set():
            raise InfrastructureError("interrupted before the workload ended: run again to resume")
        status = running.poll()
        sign = _size(files.console) + _size(files.handover)
        now, given = time.monotonic(), given_time.seconds()
        if sign != seen:
            seen, last_sign, unread = sign, given, True
        if unread and now >= due:
            # A console that is flooded is read more seldom the longer it is, and not for ever.
            size = _size(files.console)
            unread, due = False, now + size / CONSOLE_RATE
            state = read_console(_text(files.console))
            if size > CONSOLE_LIMIT and not state.failed_at:
                raise BrokenError(
                    "workload" if state.started else "boot",
                    f"the console has over {CONSOLE_LIMIT >> 20} MiB: the kernel floods it",
                    state.log_tail,
                )
            if _size(files.handover) > HANDOVER_LIMIT:
                raise BrokenError(
                    "workload",
                    f"the board handed over more than {HANDOVER_LIMIT >> 30} GiB: it was ended",
                    state.log_tail,
                )
            on_cell(state.cells)
            if state.failed_at:
                return _whole_report(files, state)
            if _reached(plan, state):
                return state
        if status is not None:
            state = read_console(_text(files.console))
            if state.done or state.failed_at:
                return state
            raise InfrastructureError(
                f"the board's process ended with status {status} before the workload did",
                running.log_tail(),
            )
        _check_limits(state, given, given - last_sign, limits.boot, limits.silence, limits.total)
        running.rest(POLL_SECONDS)


def _reached(plan: BootPlan, state: ConsoleState) -> bool:
    """Whether the boot is to be ended early, and is so far: what precedes was handed over."""
    return bool(plan.until) and plan.until in state.steps and not state.failed_at


def _check_limits(
    state: ConsoleState, age: float, quiet: float, boot_s: float, silence: float, total: float
) -> None:
    if not state.started and age > boot_s:
        raise HangError(
            "boot", f"the kernel did not reach user space in {boot_s:.0f} s", state.log_tail
        )
    step: BrokenStep = "workload" if state.started else "boot"
    if quiet > silence:
        raise HangError(
            step, f"the board hangs: no sign of life for {silence:.0f} s", state.log_tail
        )
    if age > total:
        raise HangError(
            "workload", f"the workload did not end within {total:.0f} s", state.log_tail
        )


def _whole_report(files: BootFiles, first: ConsoleState) -> ConsoleState:
    """The failure once the kernel has printed all of it: its first line precedes the call trace."""
    limit, size = time.monotonic() + REPORT_SECONDS, -1
    while time.monotonic() < limit and (now := _size(files.console)) != size:
        size = now
        time.sleep(QUIET_SECONDS)
    state = read_console(_text(files.console))
    return state if state.failed_at else first


def _judge(state: ConsoleState, files: BootFiles) -> None:
    if state.failed_at:
        if "No space left" in state.log_tail and "handover" in state.reason:
            raise InfrastructureError(f"the host's disk is full: {state.reason}", state.log_tail)
        raise BrokenError(state.failed_at, state.reason, state.log_tail)
    if _size(files.handover) == 0:
        raise InfrastructureError("the board handed over nothing", state.log_tail)


def unpack(handover: Path, target: Path) -> None:
    """Unpack concatenated tar streams; a board's bytes are not trusted: plain files only."""
    try:
        with tarfile.open(handover, "r:", ignore_zeros=True) as archive:  # never packed
            members = []
            for member in archive:
                member.name = member.name.lstrip("/")
                # A sparse file has any size and takes none.
                plain = (member.isreg() and not member.issparse()) or member.isdir()
                # Only QEMU says which CPU executed when, and what.
                own = Path(member.name) in (
                    Path(TURNS),
                    Path(COUNTED),
                    Path(TRACING),
                    Path(WINDOWS),
                )
                if not plain or ".." in Path(member.name).parts or own:
                    raise tarfile.ReadError(f"{member.name!r} may not be unpacked")
                member.mode = 0o755 if member.isdir() else 0o644
                members.append(member)
                if len(members) > MEMBERS_LIMIT:
                    raise tarfile.ReadError(f"it holds more than {MEMBERS_LIMIT:,} files")
            if not members:
                raise tarfile.ReadError("it holds no file")
            # Debian 12's Python 3.11.2 has no extraction filters (3.11.4 has).
            archive.extractall(target, members)
    except (tarfile.TarError, EOFError) as error:
        raise InfrastructureError(
            f"{handover}: what the board handed over is corrupt: {error}"
        ) from error
    except OSError as error:
        raise InfrastructureError(
            f"cannot unpack {handover}: {error}: is the disk full?"
        ) from error


def _record(
    plan: BootPlan, command: list[str], files: BootFiles, seconds: float, uncounted: str
) -> BootRecord:
    board = plan.local
    qemu = board if isinstance(board, VirtualBoard) else None
    return record_of(
        plan,
        [_portable(word, files) for word in command],
        seconds,
        tools=tool_versions(qemu) if qemu else {},
        qemu=patched.digest() if qemu and qemu.qemu.patched else None,
        uncounted=uncounted,
    )


def record_of(
    plan: BootPlan,
    command: list[str],
    seconds: float,
    *,
    tools: Mapping[str, str] = MappingProxyType({}),
    **more: Any,
) -> BootRecord:
    """The record of a boot whose files are in its folder; ``more`` are further fields of it.

    ``tools`` are versions beside those of the image and the board.
    """
    return BootRecord(
        side=plan.side,
        boot=plan.number,
        board=plan.board.name,
        clock=plan.clock,
        accelerator=plan.accelerator,
        tools={**tools, **_tools(plan)},
        board_sha256=plan.identity(),
        models=plan.board.models,
        command=command,
        seconds=round(seconds, 1),
        cells=plan.cells,
        facts=_facts(plan),
        digests=sealed.digests(plan.folder),
        **more,
    )


def _tools(plan: BootPlan) -> dict[str, str]:
    """Versions of what the board's image has, and of what the board said that it has."""
    tools = {f"image {name}": version for name, version in plan.image.packages.items()}
    for line in _text(plan.folder / "boot/tools").splitlines():
        name, _, version = line.partition(" ")
        tools[f"board {name}"] = version
    return tools


def _facts(plan: BootPlan) -> FactRecord:
    """What the board said of itself before and after the workload, in what it handed over."""
    before, after = (_text(plan.folder / name / "facts") for name in ("boot", "after"))
    limits = read_limits(before, after)
    return FactRecord(before=read_facts(before), after=read_facts(after), limits=limits)


def _portable(word: str, files: BootFiles) -> str:
    """A word of QEMU's command line without this machine's folders."""
    for folder in (files.work, files.console.parent, files.kernel.parent):
        word = word.replace(f"{folder}/", "")
    return Path(word).name if word.startswith("/") else word


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _text(path: Path) -> str:
    """A file's text, up to the limit of a console."""
    try:
        with path.open("rb") as stream:
            return stream.read(CONSOLE_LIMIT + 1).decode(errors="replace")
    except OSError:
        return ""
