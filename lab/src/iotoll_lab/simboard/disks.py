"""The disks of a simulated board: sparse files, one of them with a partition table."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import BinaryIO

from iotoll.boards import sparse
from iotoll.core.errors import InfrastructureError, os_fix
from iotoll_lab.simboard import gpt
from iotoll_lab.simboard.profile import Profile

STEP = 1 << 20
ZEROS = bytes(STEP)
LABEL_AT = 1144
MARK = b"iotoll-scratch"


class FlashError(Exception):
    """What a fastboot client is told after FAIL; the text is the firmware's."""


class Flash:
    """All disks of one board, in ``folder``. Writes go straight to the files QEMU reads."""

    def __init__(self, profile: Profile, folder: Path) -> None:
        self.profile = profile
        self.folder = folder
        self._table = folder / f"{profile.table_disk}.img"
        self._size = profile.disk(profile.table_disk).size

    def create(self) -> None:
        """Make the disks that are missing, as a board leaves the factory: with its own table."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            for disk in self.profile.soc.disks:
                path = self.folder / f"{disk.name}.img"
                if path.exists() and path.stat().st_size == disk.size:
                    continue
                with path.open("wb") as stream:
                    stream.truncate(disk.size)
                if path == self._table:
                    self._write_table()
                    for name in self.profile.scratch:
                        _mark(path, self.partition(name).start)
                elif disk.scratch:
                    _mark(path, 0)
        except OSError as error:
            raise InfrastructureError(
                f"{self.folder}: {error.strerror}: {os_fix(error)}"
            ) from error

    def _write_table(self) -> None:
        profile = self.profile
        begin, end = gpt.build(profile.partitions, self._size, profile.block)
        with self._table.open("r+b") as stream:
            stream.write(begin)
            stream.seek(self._size - len(end))
            stream.write(end)

    def partitions(self) -> list[gpt.Partition]:
        """What the table on the disk says now; none when it is not readable."""
        with self._table.open("rb") as stream:
            try:
                return gpt.parse(
                    lambda at, size: _read(stream, at, size), self._size, self.profile.block
                )
            except gpt.TableError:
                return []

    def partition(self, name: str) -> gpt.Partition:
        """The partition ``name``; raises FlashError as the firmware does."""
        for item in self.partitions():
            if item.name == name:
                return item
        raise FlashError("No such partition.")

    def read(self, name: str) -> bytes:
        """All bytes of a partition (use it for small ones)."""
        item = self.partition(name)
        with self._table.open("rb") as stream:
            return _read(stream, item.start, item.size)

    def erase(self, name: str) -> None:
        """Zero a partition, by a hole in the file."""
        item = self.partition(name)
        with self._table.open("r+b") as stream:
            _zero(stream, item.start, item.size)

    def write(self, name: str, image: Path) -> int:
        """Write a raw or sparse image to a partition; returns the bytes written.

        ``ptable`` is the begin of the disk. Raises FlashError before the first byte when the image
        does not fit, unpacked. (The real firmware checks each sparse chunk's length alone and would
        write into the next partition.)
        """
        try:
            if name == "ptable":
                start, size = 0, self.profile.partitions[0].start
            else:
                item = self.partition(name)
                start, size = item.start, item.size
            with image.open("rb") as source, self._table.open("r+b") as target:
                return _copy(source, image.stat().st_size, target, start, size)
        except sparse.SparseError as error:
            raise FlashError(f"Error flashing partition: bad sparse image: {error}") from error
        except OSError as error:
            raise FlashError(f"Error flashing partition: {error.strerror}") from error


def _mark(path: Path, start: int) -> None:
    """Write the mark of lava-jobs/dut/lib.sh where an ext4 file system has its label."""
    with path.open("r+b") as stream:
        stream.seek(start + LABEL_AT)
        stream.write(MARK)


def _copy(source: BinaryIO, length: int, target: BinaryIO, start: int, size: int) -> int:
    header = sparse.read_header(source)
    if (header.unpacked if header else length) > size:
        raise FlashError("Error flashing partition: the image is larger than the partition")
    written = 0
    if header is None:
        target.seek(start)
        while data := source.read(STEP):
            target.write(data)
            written += len(data)
        return written
    for at, data in sparse.pieces(source, header):
        if data == ZEROS[: len(data)]:
            _zero(target, start + at, len(data))
        else:
            target.seek(start + at)
            target.write(data)
        written += len(data)
    return written


def _zero(stream: BinaryIO, at: int, size: int) -> None:
    """Zeros without using disk space, where the host's file system can."""
    stream.flush()
    libc_mode = 0x1 | 0x2  # FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE
    if not _fallocate(stream.fileno(), libc_mode, at, size):
        stream.seek(at)
        for done in range(0, size, STEP):
            stream.write(ZEROS[: min(STEP, size - done)])


def _fallocate(descriptor: int, mode: int, at: int, size: int) -> bool:
    libc = ctypes.CDLL(None, use_errno=True)
    call = getattr(libc, "fallocate64", None) or libc.fallocate
    call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    return int(call(descriptor, mode, at, size)) == 0


def _read(stream: BinaryIO, at: int, size: int) -> bytes:
    return os.pread(stream.fileno(), size, at)
