"""Changed functions that function_graph's profiler has no line of, and who has their time.

The tracer enters a function by instructions at its start, which the compiler leaves out where the
kernel's source says ``notrace``. The kernel's ``inline`` says so too: a function that is declared
inline, and that the compiler keeps as a function of its own all the same, is not traced. What it
executes is then part of its caller's own time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from iotoll.explain.profile import CUT
from iotoll.kernels.changed import BRANCH, LONGEST, NOP, distance, matches
from iotoll.kernels.symbols import Symbols
from iotoll.records.models import UnseenFunction
from iotoll.records.rundir import SIDES


@dataclass(frozen=True)
class Traced:
    """The functions of one arm64 kernel with a function tracer, by their numbers in ``symbols``."""

    symbols: Symbols

    @cached_property
    def _words(self) -> npt.NDArray[np.uint32]:
        image = self.symbols.image
        return np.frombuffer(image[: len(image) // 4 * 4], "<u4")

    @cached_property
    def _places(self) -> npt.NDArray[np.int64]:
        """Where each function starts, in words of the image, and where the last one ends."""
        starts = (self.symbols.starts - np.uint64(self.symbols.base)) // np.uint64(4)
        return np.append(starts.astype(np.int64), len(self._words))

    @cached_property
    def calls(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Function that calls or jumps, and function that it enters: of each ``b`` and ``bl``."""
        pattern, low, bits = BRANCH
        place = np.flatnonzero(matches(self._words, pattern))
        goal = place + distance(self._words[place], low, bits)
        source, target = (np.searchsorted(self._places, at, "right") - 1 for at in (place, goal))
        last = len(self.symbols.names)
        real = (source >= 0) & (source < last) & (target >= 0) & (target < last)
        real[real] &= np.diff(self._places)[source[real]] * 4 <= LONGEST
        real &= source != target
        return source[real], target[real]

    def has(self, name: str) -> bool:
        """Whether the kernel has a function of that name."""
        return self.symbols.span(name) is not None

    def enters(self, name: str) -> bool:
        """Whether the tracer can enter a function; not where there is none of that name."""
        return self.has(name) and self.is_traced(self.symbols.names.index(name))

    def is_traced(self, number: int) -> bool:
        """Whether two ``nop`` wait for the tracer at the start of a function.

        No ``bti`` is before them: Linux has none in kernels of GCC (ARM64_BTI_KERNEL).
        """
        place, end = self._places[number : number + 2].tolist()
        words: list[int] = self._words[place : min(place + 2, end)].tolist()
        return words == [NOP, NOP]

    def holders(self, name: str) -> frozenset[str]:
        """Traced functions that call a function directly, or by way of others without a trace.

        Calls through pointers are not known.
        """
        source, target = self.calls
        new = {self.symbols.names.index(name)}
        known, found = set(new), set()
        while new:
            callers = set(source[np.isin(target, list(new))].tolist())
            traced = {number for number in callers if self.is_traced(number)}
            found |= traced
            new = callers - traced - known
            known |= new
        return frozenset(self.symbols.names[number] for number in found)


@dataclass(frozen=True)
class Profiled:
    """Gated and profiled kernel of one side."""

    gated: Symbols
    traced: Traced

    def why(self, name: str, seen: Collection[str]) -> tuple[str, Collection[str]] | None:
        """Why a function is not ``seen``, and its holders; None: it is, or is in no kernel."""
        if name in seen:
            return None
        if not self.traced.has(name):
            return ("absent", ()) if self.gated.span(name) else None
        if not self.traced.enters(name):
            return "untraced", self.traced.holders(name) & set(seen)
        # Where one function alone begins so, its name was made whole.
        return ("cut", [name[:CUT]]) if name[:CUT] in seen else ("idle", ())


def unseen_functions(
    changed: Collection[str],
    kernels: tuple[Profiled, Profiled],
    seen: tuple[Collection[str], Collection[str]],
) -> list[UnseenFunction]:
    """The ``changed`` functions without a line, in order of name; base first in each pair.

    ``seen`` has the names of each side's lines in one cell, whole where they can be.
    """
    return [one for name in sorted(changed) for one in _unseen(name, kernels, seen)]


def _unseen(
    name: str,
    kernels: tuple[Profiled, Profiled],
    seen: tuple[Collection[str], Collection[str]],
) -> Iterator[UnseenFunction]:
    reasons = {
        side: reason
        for side, kernel, lines in zip(SIDES, kernels, seen, strict=True)
        if (reason := kernel.why(name, lines)) is not None
    }
    kinds = {why: None for why, _ in reasons.values()}
    if len(kinds) > 1 or any(name in lines for lines in seen):
        # Then it is not idle on both sides, and calls that one of them did not make are 0 there.
        kinds.pop("idle", None)
    for why in kinds:
        sides = [side for side, reason in reasons.items() if reason[0] == why]
        holders = {holder for side in sides for holder in reasons[side][1]}
        fields = {"name": name, "sides": sides, "why": why, "holders": sorted(holders)}
        yield UnseenFunction.model_validate(fields)
