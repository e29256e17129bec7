"""The files of a history: a local folder, or a bucket of an S3-compatible store by its URL.

A file appears whole or not at all, and never changes. Files of a remote store are read through a
local copy, so that each engine sees plain local Parquet.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from iotoll.core.digest import json_sha256
from iotoll.core.errors import InfrastructureError, ResultError, UsageError
from iotoll.core.paths import cache_dir, check_target


class Files:
    """Reads and writes whole files below one place; names are relative, with ``/``."""

    def __init__(self, place: str) -> None:
        """Raises UsageError for a URL that is not one of a known object store."""
        self.place = place
        self.remote = "://" in place and not place.startswith("file://")
        try:
            if self.remote:
                self._fs, self._root = fs.FileSystem.from_uri(place)
            else:
                path = Path(place.removeprefix("file://")).resolve()
                self._fs, self._root = fs.LocalFileSystem(), str(path)
        except (pa.ArrowInvalid, OSError) as error:
            why = str(error).splitlines()[0][:200]
            raise UsageError(
                f"--history {place}: {why}: name a folder, or s3://BUCKET/FOLDER"
            ) from error
        self._root = self._root.rstrip("/")

    def names(self, folder: str) -> list[str]:
        """All files below ``folder``, sorted; none where it does not exist."""
        selector = fs.FileSelector(f"{self._root}/{folder}", recursive=True, allow_not_found=True)
        try:
            infos = self._fs.get_file_info(selector)
        except OSError as error:
            raise self._failed("list", folder, error) from error
        found = [i.path for i in infos if i.type == fs.FileType.File]
        return sorted(
            p.removeprefix(self._root).lstrip("/")
            for p in found
            if not p.rsplit("/", 1)[1].startswith(".")
        )

    def exists(self, name: str) -> bool:
        """Whether the file is there."""
        try:
            info: Any = self._fs.get_file_info(f"{self._root}/{name}")
        except OSError as error:
            raise self._failed("look for", name, error) from error
        return bool(info.type == fs.FileType.File)

    def read(self, name: str) -> bytes:
        """The file's bytes."""
        try:
            with self._fs.open_input_stream(f"{self._root}/{name}") as stream:
                return bytes(stream.read())
        except OSError as error:
            raise self._failed("read", name, error) from error

    def write(self, name: str, data: bytes) -> None:
        """Write a file at once: on a disk by rename, in an object store as one object."""
        path = f"{self._root}/{name}"
        try:
            if self.remote:
                with self._fs.open_output_stream(path) as stream:
                    stream.write(data)
                return
            write_local(Path(path), data)
        except OSError as error:
            raise self._failed("write", name, error) from error

    def delete(self, name: str) -> None:
        """Remove a file; one that is gone is well."""
        try:
            self._fs.delete_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._failed("delete", name, error) from error

    def local(self, name: str) -> str:
        """Path of the file on this machine; of a remote one, of its copy in the cache."""
        if not self.remote:
            return f"{self._root}/{name}"
        # Files never change, so a copy that is there is right.
        path = cache_dir() / "history" / json_sha256(self.place)[:16] / name
        if not path.is_file():
            write_local(path, self.read(name))
        return str(path)

    def _failed(self, what: str, name: str, error: OSError) -> InfrastructureError:
        why = " ".join(str(error).split())[:300]
        return InfrastructureError(f"history {self.place}: cannot {what} {name or '/'}: {why}")


def write_local(path: Path, data: bytes) -> None:
    """Write a file of this machine by rename, on disk before its name is."""
    check_target(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def to_parquet(table: pa.Table, version: int) -> bytes:
    """The bytes of a Parquet file that names the schema's version."""
    sink = pa.BufferOutputStream()
    metadata = {**(table.schema.metadata or {}), b"iotoll.history": str(version).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), sink, compression="zstd")
    return bytes(sink.getvalue().to_pybytes())


def from_parquet(data: bytes, where: str) -> tuple[pa.Table, int]:
    """A table and the version of its schema; raises ResultError for anything else."""
    try:
        table = pq.read_table(pa.BufferReader(data))
        return table, int((table.schema.metadata or {})[b"iotoll.history"])
    except (pa.ArrowInvalid, OSError, KeyError, ValueError) as error:
        raise ResultError(f"{where} is not a file of a history: restore or remove it") from error
