"""The plugin that records what a board executes: built by tools/plugin/build.sh into the cache."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.core.toml import first_error, load_toml, named_file
from iotoll.kernels.tracing import TracingCode
from iotoll.records.models import CacheModel

CACHES = "cortex-a73"
"""The model of caches that is used unless another one is named: that of a HiKey960."""


@cache
def plugin() -> Path:
    """The plugin, built if it was not; raises InfrastructureError where it cannot be built."""
    done = subprocess.run(
        ["bash", str(data_dir("tools/plugin") / "build.sh")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not done.stdout.strip():
        last = done.stderr.strip().splitlines()[-1:] or ["tools/plugin/build.sh failed"]
        raise InfrastructureError(last[0], done.stderr)
    return Path(done.stdout.strip())


@cache
def plugin_name() -> str:
    """What stands for the plugin in a boot's identity; empty where it cannot be built."""
    try:
        return plugin().parent.name
    except InfrastructureError:
        return ""


def plugin_words(
    prefix: Path, probes: str, spans: Path | None, caches: CacheModel | None = None
) -> tuple[str, ...]:
    """QEMU's words that record into ``PREFIX.*``; paths must have no comma."""
    words = f"{plugin()},out={prefix},probes={probes}"
    words += f",spans={spans}" if spans else ""
    return "-plugin", f"{words},caches={_caches(caches)}" if caches else words


_NAME = "libiotoll-record.so"
COUNTS = "counts.bin"
"""The file that the plugin counts into."""


@dataclass(frozen=True)
class CountedCode:
    """What of a kernel the counts need: addresses, as (first, behind the last) where two.

    ``mark`` is the function that is called when a cell begins or ends; ``idle`` is the idle loop,
    and ``leave`` what runs for others when it ends: exceptions, and functions that it calls.
    ``functions`` are all that there are.
    """

    mark: int
    idle: Sequence[tuple[int, int]]
    leave: Sequence[tuple[int, int]]
    functions: npt.NDArray[np.uint64]


def count_words(folder: Path, code: CountedCode, words: Sequence[str] = ()) -> tuple[str, ...]:
    """QEMU's words that count how often code runs into ``COUNTS`` of a folder, beside ``words``."""
    parts = {"idle": sorted(code.idle), "leave": sorted(code.leave), "functions": code.functions}
    for name, spans in parts.items():
        np.asarray(spans, "<u8").tofile(folder / f"counts.{name}")
    first = f"{plugin()},counts={folder / COUNTS},at={code.mark:#x}:0"
    first += "".join(f",{name}={folder}/counts.{name}" for name in parts)
    return *words, "-plugin", first


TRACING = "tracing.bin"
"""The file that says what the guest's tracing executed until each time stamp (tracing.h)."""
WINDOWS = "windows.bin"
"""The file that says what else executed between these (windows.h)."""


def tracing_words(
    folder: Path,
    code: TracingCode,
    words: Sequence[str],
    values: Sequence[tuple[int, int]] = (),
    caches: CacheModel | None = None,
) -> tuple[str, ...]:
    """QEMU's words that also write `TRACING` and `WINDOWS` in a folder.

    ``words`` are those of `count_words`. ``values`` are functions' addresses, each with the number
    of the argument that is kept. With ``caches`` the lines that are touched are counted.
    """
    code.edges.tofile(folder / "tracing.edges")
    pairs = {"clock": code.clock, "vectors": code.vectors, "switch": code.switch}
    pairs["image"] = code.image
    more = f",tracing={folder / TRACING},windows={folder / WINDOWS}"
    more += f",edges={folder / 'tracing.edges'}"
    more += "".join(f",{name}={pair[0]:#x}:{pair[1]:#x}" for name, pair in pairs.items() if pair)
    if code.entries is not None:
        code.entries.tofile(folder / "tracing.entries")
        more += f",entries={folder / 'tracing.entries'}"
    kept = "+".join(f"{address:#x}:{number}" for address, number in values)
    more += f",values={kept}" if kept else ""
    more += f",caches={_caches(caches)}" if caches else ""
    return tuple(f"{word}{more}" if _is_plugin(word) else word for word in words)


def records_all(words: Sequence[str]) -> bool:
    """Whether the words have the plugin record each instruction (`plugin_words`)."""
    return any(_is_plugin(word) for word in words)


def _is_plugin(word: str) -> bool:
    return Path(word.partition(",")[0]).name == _NAME


def _caches(model: CacheModel) -> str:
    levels = [f"{one.size_kib << 10}:{one.ways}" for one in (model.l1i, model.l1d, model.l2)]
    return "+".join((*levels, f"{model.line}:1"))


def load_caches(name: str) -> CacheModel:
    """A model of caches by its name in ``lava-jobs/caches``, or a path; UsageError if invalid."""
    path = named_file(data_dir("lava-jobs") / "caches", name)
    data = load_toml(path)
    try:
        return CacheModel.model_validate({"name": path.stem, **data})
    except ValidationError as error:
        raise first_error(path, error) from error
