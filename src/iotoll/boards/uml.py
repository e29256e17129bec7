"""Starts a board that is User Mode Linux: the kernel under test as a process of this machine.

Its disks are in this machine's memory, without a name in any file system, and so is what it hands
over until it ends: what else the machine does with its own disks is not part of a measurement. The
guest gets no path of the host's but its kernel's and RAM disk's: hostfs is not built in.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType
from typing import IO

from iotoll.boards.board import HostBoard, HostDisk
from iotoll.boards.qemu import BootFiles
from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.proc import require_tool, rest, run_logged, stop, tail_file

STARTED_AS = 2
"""Counts up when the process is started in a way that changes its times; 2: on one CPU."""
_CHUNK = 1 << 16
_LAST_WORDS = 2.0
"""Seconds until what the process printed last is in the console's file, once it has ended."""
CONSOLE_MOST = 64 << 20
"""Bytes of console that are kept: a kernel that prints without end is ended by who reads them."""


def uml_words(board: HostBoard) -> list[str]:
    """What the kernel is told of the board: all of its command line but this boot's files."""
    words = [f"mem={board.memory_mb}M", *board.cmdline.split()]
    # Only the first console is anybody's: what the guest prints there is the process's output.
    return [*words, "con=null", "con0=null,fd:1", "ssl=null", "umid=iotoll"]


def registers() -> Path:
    """The library by which it runs on a CPU with more registers than it keeps (xstate.c).

    Built into the cache if it is not there; raises InfrastructureError where it cannot be.
    """
    source = data_dir("tools/uml") / "xstate.c"
    made = cache_dir() / "uml" / file_sha256(source)[:16] / "xstate.so"
    if not made.is_file():
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            built = Path(folder) / made.name
            words = [require_tool("gcc", "gcc"), "-std=gnu11", "-O2", "-fPIC", "-shared"]
            run_logged([*words, "-o", str(built), str(source)], made.with_suffix(".log"), 60)
            built.replace(made)
    return made


def uml_command(board: HostBoard, files: BootFiles) -> list[str]:
    """The command line of a boot, without its disks, which have no names (`RunningHost`)."""
    own = [f"initrd={files.ramdisk}", f"uml_dir={files.work}/uml"]
    return [str(files.kernel), *uml_words(board), *own]


class RunningHost:
    """A started board; use as a context manager, so that nothing outlives it.

    The console is written to ``files.console`` while it runs, and what was handed over to
    ``files.handover`` at its end. As `iotoll.boards.qemu.RunningBoard` otherwise.
    """

    def __init__(self, board: HostBoard, command: list[str], files: BootFiles) -> None:
        self._board = board
        self._command = command
        self._files = files
        self._disks: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._pump: threading.Thread | None = None

    def __enter__(self) -> RunningHost:
        kernel = self._files.work / "linux"
        try:
            shutil.copyfile(self._files.kernel, kernel)  # an image in a run is no program
            kernel.chmod(0o755)
            for disk in self._board.disks:
                self._disks[disk.node] = _new_disk(disk)
            disks = [f"{Path(n).name}=/proc/self/fd/{fd}" for n, fd in self._disks.items()]
            with self._files.log.open("wb") as log:
                self._process = self._start([str(kernel), *self._command[1:], *disks], log)
        except OSError as error:
            self._close()
            raise InfrastructureError(f"cannot start User Mode Linux: {error}") from error
        except BaseException:
            self._close()
            raise
        self._pump = threading.Thread(target=self._copy_console, daemon=True)
        self._pump.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        try:
            if self._process is not None:
                _stop_all(self._process)
            if self._pump is not None:
                self._pump.join(_LAST_WORDS)
            if kind is None:
                _copy_data(self._disks[self._board.handover.node], self._files.handover)
        except OSError as failed:
            raise InfrastructureError(
                f"cannot write {self._files.handover}: {failed.strerror}: is the disk full?"
            ) from failed
        finally:
            self._close()

    def end(self, seconds: float = 120) -> None:
        """End the board: nothing of this machine's waits for it to write a last file."""
        assert self._process is not None
        _stop_all(self._process)

    def poll(self) -> int | None:
        """The process's exit status, or None while it runs."""
        assert self._process is not None
        status = self._process.poll()
        if status is not None and self._pump is not None:
            self._pump.join(_LAST_WORDS)
        return status

    def rest(self, seconds: float) -> None:
        """Do nothing for so long, or until the board ends."""
        assert self._process is not None
        rest(self._process, seconds)

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def log_tail(self) -> str:
        """The last lines that the process wrote beside the console."""
        return tail_file(self._files.log)

    def _start(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        # The guest's memory lies in TMPDIR if that is in memory (the sandbox's, where /dev/shm is
        # root's alone), else in /dev/shm (arch/um/os-Linux/mem.c).
        # On one CPU: the disk's thread and each program are woken there, not on a CPU that sleeps.
        cpu = str(max(os.sched_getaffinity(0)))
        words = [require_tool("taskset", "util-linux"), "--cpu-list", cpu]
        words += [require_tool("setpriv", "util-linux"), "--pdeathsig", "KILL", "--"]
        with registers().open("rb") as library:
            return subprocess.Popen(
                [*words, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={
                    "PATH": os.environ.get("PATH", os.defpath),
                    "TMPDIR": str(self._files.work),
                    # A path with a space or a colon would be two.
                    "LD_PRELOAD": f"/proc/self/fd/{library.fileno()}",
                },
                pass_fds=(*self._disks.values(), library.fileno()),
                start_new_session=True,
            )

    def _copy_console(self) -> None:
        """Pass on what the guest prints; a pipe, as a console that is a file is refused (epoll)."""
        assert self._process is not None and self._process.stdout is not None
        left = CONSOLE_MOST
        with self._process.stdout as source, self._files.console.open("wb", buffering=0) as target:
            while chunk := os.read(source.fileno(), _CHUNK):
                target.write(chunk[:left])
                left -= min(left, len(chunk))

    def _close(self) -> None:
        for fd in self._disks.values():
            os.close(fd)
        self._disks = {}


def _stop_all(process: subprocess.Popen[bytes]) -> None:
    """End the process, and those of the guest's programs, which outlive one that was killed."""
    stop(process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _new_disk(disk: HostDisk) -> int:
    """A disk in memory: its descriptor is its only name."""
    fd = os.memfd_create(Path(disk.node).name)
    os.truncate(fd, disk.size_mb << 20)
    return fd


def _copy_data(source: int, target: Path) -> None:
    """Copy a sparse file up to the end of its data, which may be far before its own end."""
    size, end = os.fstat(source).st_size, 0
    while end < size:
        try:
            end = os.lseek(source, os.lseek(source, end, os.SEEK_DATA), os.SEEK_HOLE)
        except OSError:  # ENXIO: no data behind this
            break
    at = 0
    with target.open("wb") as stream:
        while at < end and (data := os.pread(source, min(_CHUNK, end - at), at)):
            stream.write(data)
            at += len(data)
