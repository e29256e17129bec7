"""What function_graph's profiler counted on a board, read and compared: approximate by nature.

The board sends one JSON document for each cell (lava-jobs/profile/mark.sh), which is checked here:
a board's output is not trusted.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from iotoll.core.errors import InfrastructureError
from iotoll.measure.board_records import NAME as RECEIVED
from iotoll.records.models import ProfiledCell, ProfiledFunction, UnseenFunction
from iotoll.records.models.base import Model

NAME = "functions"
"""Of the file in a batch's folder, and how the cells of its documents begin."""

CUT = 30
"""Letters of a function's name that the kernel prints."""

SHOWN = 100
"""Functions of a cell that are kept beside the changed ones."""

_LARGEST = 16 << 20  # bytes of what one boot may say
_MOST = 50_000  # functions of all CPUs in one cell

Counts = Mapping[str, tuple[int, float]]
"""Calls and nanoseconds by function, over all CPUs and the whole cell."""

_Row = tuple[
    Annotated[str, Field(pattern=r"^[A-Za-z0-9_.$]{1,30}$")],
    Annotated[int, Field(ge=0)],
    Annotated[float, Field(ge=0)],
]


class _Document(Model):
    cell: str = Field(pattern=r"^functions\.[0-9]{1,6}$")
    of: str = Field(max_length=120)
    functions: list[_Row] = Field(max_length=_MOST)


_READER = TypeAdapter(_Document)


def read_profile(folder: Path) -> dict[str, Counts]:
    """What a boot's folder holds of each cell; raises InfrastructureError for what is not ours."""
    return dict(_counts(text, path) for path, text in _documents(folder))


def _documents(folder: Path) -> Iterable[tuple[Path, str]]:
    for path in [*sorted(folder.glob(f"*/{NAME}")), folder / RECEIVED]:
        if not path.is_file():
            continue
        if path.stat().st_size > _LARGEST:
            raise InfrastructureError(f"{path}: is over {_LARGEST >> 20} MiB: boot again")
        for line in path.read_text(errors="replace").splitlines():
            if path.name == NAME or line.startswith(f'{{"cell":"{NAME}.'):
                yield path, line


def _counts(text: str, path: Path) -> tuple[str, Counts]:
    try:
        document = _READER.validate_python(json.loads(text))
    except (ValueError, RecursionError) as error:
        problem = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise InfrastructureError(f"{path}: what was profiled cannot be read: {problem}") from error
    sums: dict[str, tuple[int, float]] = {}
    for name, calls, microseconds in document.functions:
        before = sums.get(name, (0, 0.0))
        sums[name] = before[0] + calls, before[1] + 1000 * microseconds
    return document.of, sums


def complete(counts: Counts, names: Iterable[str]) -> Counts:
    """The same counts, with names that were cut made whole where one of ``names`` begins so."""
    found: dict[str, set[str]] = {}
    for name in names:
        found.setdefault(name[:CUT], set()).add(name)
    whole = {cut: next(iter(known)) for cut, known in found.items() if len(known) == 1}
    return {whole.get(name, name): count for name, count in counts.items()}


def compare_profiles(
    cell: str,
    ios: int,
    sides: tuple[Counts, Counts],
    changed: Collection[str] | None = None,
    unseen: Sequence[UnseenFunction] = (),
) -> ProfiledCell:
    """Both sides per I/O. ``changed`` functions have other machine code; None: not known.

    ``unseen`` are those of them without a line: their holders are marked.
    """
    found = [
        ProfiledFunction(
            name=name,
            base_calls=round(before[0] / ios, 4),
            candidate_calls=round(after[0] / ios, 4),
            base_ns=round(before[1] / ios, 1),
            candidate_ns=round(after[1] / ios, 1),
            changed=None if changed is None else name in changed,
            holds=sorted({one.name for one in unseen if name in one.holders}),
        )
        for name in sorted({*sides[0], *sides[1]})
        for before, after in [[side.get(name, (0, 0.0)) for side in sides]]
    ]
    found.sort(key=lambda f: (not _matters(f), -abs(f.change), f.name))
    kept = max(SHOWN, sum(map(_matters, found)))
    return ProfiledCell(
        cell=cell,
        ios=ios,
        functions=found[:kept],
        left_out=max(len(found) - kept, 0),
        unseen=list(unseen),
    )


def _matters(function: ProfiledFunction) -> bool:
    """Whether the function has changed code, or the time of a changed one."""
    return bool(function.changed or function.holds)
