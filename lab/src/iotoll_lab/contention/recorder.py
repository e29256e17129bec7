"""The plugin that writes what each CPU accesses (``accesses.c``): built, asked for, and read.

It runs beside the plugin of tools/plugin, whose parts it is built from: that one stays as it is,
and so do the boots that it counts.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from iotoll.boards import patched
from iotoll.boots.counts import counted_code
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.proc import require_tool
from iotoll.kernels.symbols import ARM64, Symbols
from iotoll.kernels.tracing import tracing_code

LOAD, STORE, CLOCK, OPEN, CLOSE = range(5)
"""Kinds of records, as accesses.c has them."""

RECORD = np.dtype(
    [
        ("physical", "<u8"),
        ("address", "<u8"),
        ("site", "<u4"),
        ("cpu", "u1"),
        ("bytes", "u1"),
        ("kind", "u1"),
        ("none", "u1"),
    ]
)
_SITE = np.dtype([("address", "<u8"), ("word", "<u8")])
_PARTS = ("machine.c", "record.c", "cache.c", "tracing.c")
"""Of tools/plugin: what it is linked with."""
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")


@dataclass(frozen=True, eq=False)
class Accesses:
    """One boot's records in order (`RECORD`), and the instructions that made them.

    ``sites`` has ``address`` and ``word`` of each, by number. ``distances`` is how far each CPU's
    own data is from where the kernel was linked for it; empty where that was not asked.
    """

    records: npt.NDArray[np.void]
    sites: npt.NDArray[np.void]
    distances: npt.NDArray[np.uint64]


@cache
def plugin() -> Path:
    """The plugin, built if it was not; raises InfrastructureError where it cannot be built."""
    header = patched.folder() / "include/qemu-plugin.h"
    if not header.is_file():
        raise InfrastructureError(f"{header} is missing: {patched.build_command('aarch64')}")
    own, parts = Path(__file__).with_name("accesses.c"), data_dir("tools/plugin")
    sources = [own, *(parts / name for name in _PARTS)]
    gcc = require_tool("gcc", "gcc")
    told = [header, *sources, *sorted(parts.glob("*.h"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in told))
    digest.update(" ".join((*_FLAGS, _output([gcc, "--version"]))).encode())
    path = cache_dir() / "plugin" / f"lab-{digest.hexdigest()[:16]}" / "libiotoll-accesses.so"
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    require_tool("pkg-config", "pkg-config")
    glib = [_output(["pkg-config", one, "glib-2.0"]).split() for one in ("--cflags", "--libs")]
    made = path.with_suffix(".new")
    command = [gcc, *_FLAGS, "-fvisibility=hidden", f"-I{header.parent}", f"-I{parts}", *glib[0]]
    _output([*command, "-o", str(made), *map(str, sources), *glib[1]])
    made.replace(path)
    return path


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["it failed"]
        raise InfrastructureError(f"{command[0]}: {last[0]}", done.stderr)
    return done.stdout


def record_words(
    folder: Path, symbols: Symbols, distances: tuple[int, int] | None
) -> tuple[str, ...]:
    """QEMU's words that write accesses into ``folder``; it must have no comma in its name.

    ``distances`` is where the kernel has the distances of its CPUs' own data (``__per_cpu_offset``)
    and how many. Raises UsageError for a kernel whose own tracing is not known.
    """
    if symbols.machine != ARM64:
        raise UsageError(f"accesses of {symbols.machine} are not recorded: choose an arm64 board")
    code, counted = tracing_code(symbols), counted_code(symbols)
    folder.mkdir(parents=True, exist_ok=True)
    code.edges.tofile(folder / "edges")
    assert code.vectors is not None
    words = f"{plugin()},out={folder / 'boot'},at={counted.mark:#x}:0,edges={folder / 'edges'}"
    words += f",clock={code.clock[0]:#x}:{code.clock[1]:#x}"
    words += f",vectors={code.vectors[0]:#x}:{code.vectors[1]:#x}"
    words += f",percpu={distances[0]:#x}:{distances[1]}" if distances else ""
    return "-plugin", words


def read_accesses(folder: Path) -> Accesses:
    """What a boot left in the folder of `record_words`; raises InfrastructureError."""
    prefix = folder / "boot"
    try:
        told: dict[str, Any] = json.loads(prefix.with_suffix(".json").read_text())
        found = Accesses(
            np.memmap(prefix.with_suffix(".accesses"), RECORD, "r"),
            np.fromfile(prefix.with_suffix(".sites"), _SITE),
            np.fromfile(prefix.with_suffix(".percpu"), np.uint64),
        )
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"{prefix}: the plugin left no whole record: {error}") from error
    if (len(found.records), len(found.sites)) != (told["accesses"], told["sites"]):
        raise InfrastructureError(f"{prefix}: the plugin's record is cut off")
    return found
