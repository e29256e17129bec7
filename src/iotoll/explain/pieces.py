"""Instructions of the changed functions one by one: inlined functions and lines that ran."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from iotoll.explain.record import Ints, Record
from iotoll.kernels.debuginfo import Frame, FunctionLines
from iotoll.kernels.flow import ends_of
from iotoll.kernels.symbols import Symbols

_CHUNK = 1 << 22  # runs that are counted at a time


@dataclass(frozen=True)
class Label:
    """An inlined function in a function of the image: ``chain`` has the innermost one first."""

    function: str
    chain: tuple[str, ...]


@dataclass(frozen=True)
class Pieces:
    """Instructions whose lines are known, in order of address; arrays of shape (instructions,).

    ``label`` is the number in ``labels`` of what each instruction belongs to; -1: to the function
    itself. ``frames`` are those of each instruction, ``begins`` file and line of each function.
    """

    addresses: npt.NDArray[np.uint64]
    label: Ints
    labels: tuple[Label, ...]
    frames: tuple[tuple[Frame, ...], ...]
    begins: Mapping[str, tuple[str, int]]

    @cached_property
    def places(self) -> Mapping[Label, Frame]:
        """The first line of each inlined function that any instruction is from."""
        found: dict[Label, Frame] = {}
        for number, frames in zip(self.label.tolist(), self.frames, strict=True):
            if number >= 0:
                known = found.setdefault(self.labels[number], frames[0])
                if frames[0].file == known.file and frames[0].line < known.line:
                    found[self.labels[number]] = frames[0]
        return found


def make_pieces(symbols: Symbols, lines: Mapping[str, FunctionLines]) -> Pieces:
    """Join the lines of functions with where their instructions are."""
    spans = {name: span for name in lines if (span := symbols.span(name))}
    addresses: list[int] = []
    numbers: list[int] = []
    frames: list[tuple[Frame, ...]] = []
    labels: dict[Label, int] = {}
    for name in sorted(spans, key=lambda n: spans[n]):
        places = symbols.instructions(name).tolist()
        for address, found in zip(places, lines[name].frames, strict=False):
            chain = tuple(frame.function for frame in found[:-1])
            number = labels.setdefault(Label(name, chain), len(labels)) if chain else -1
            addresses.append(address)
            numbers.append(number)
            frames.append(found)
    return Pieces(
        np.array(addresses, np.uint64),
        np.array(numbers, np.int64),
        tuple(labels),
        tuple(frames),
        {name: (lines[name].file, lines[name].line) for name in spans},
    )


class PieceCounter:
    """Counts how often each instruction of some pieces ran in parts of a record."""

    def __init__(self, record: Record, pieces: Pieces, symbols: Symbols) -> None:
        self.pieces = pieces
        self._record = record
        words = record.distinct()
        blocks, counts = record.split(words)
        first = record.blocks["address"][blocks]
        low = np.searchsorted(pieces.addresses, first)
        behind = ends_of(symbols, first.astype(np.uint64), counts.astype(np.int64)).behind
        high = np.searchsorted(pieces.addresses, behind)
        hit = high > low
        self._words, self._low, self._high = words[hit], low[hit], high[hit]

    def count(self, spans: list[tuple[int, int]]) -> Ints:
        """Executions of each instruction in the runs from each number to before another."""
        size = len(self.pieces.addresses)
        total = np.zeros(size + 1, np.int64)
        if len(self._words):
            for first, last in spans:
                for low in range(first, last, _CHUNK):
                    runs = np.asarray(self._record.runs[low : min(low + _CHUNK, last)])
                    at = np.searchsorted(self._words, runs).clip(0, len(self._words) - 1)
                    at = at[self._words[at] == runs]
                    total += np.bincount(self._low[at], minlength=size + 1)
                    total -= np.bincount(self._high[at], minlength=size + 1)
        counted: Ints = np.cumsum(total)[:size]
        return counted

    def by_label(self, executions: Ints) -> Ints:
        """Instructions of each inlined function, shape (labels,)."""
        inlined = self.pieces.label >= 0
        sums = np.bincount(self.pieces.label[inlined], executions[inlined], len(self.pieces.labels))
        return sums.astype(np.int64)


def executions_by_line(pieces: Pieces, executions: Ints) -> dict[tuple[str, int], int]:
    """How often each line ran: the most often executed of the instructions that are from it.

    A line whose code an inlined function is part of has those of the calls as well.
    """
    found: dict[tuple[str, int], int] = {}
    for frames, count in zip(pieces.frames, executions.tolist(), strict=True):
        for frame in frames:
            key = frame.file, frame.line
            found[key] = max(count, found.get(key, 0))
    return found


_HUNK = re.compile(rb"^@@ -\d+(?:,\d+)? \+(\d+)(?:,\d+)? @@")


def added_lines(change: bytes) -> dict[str, list[int]]:
    """Numbers of the lines that a change adds or replaces, by file; ``change`` is as git has it."""
    found: dict[str, list[int]] = {}
    path, number = "", 0
    for line in change.split(b"\n"):
        if line.startswith(b"diff --git "):
            path, number = "", 0
        elif not number and line.startswith(b"+++ b/"):
            path = line[6:].rstrip(b"\t").decode("utf-8", "replace")
        elif match := _HUNK.match(line):
            number = int(match[1])
        elif number and path:
            if line.startswith(b"+"):
                found.setdefault(path, []).append(number)
            number += not line.startswith((b"-", b"\\"))
    return found
