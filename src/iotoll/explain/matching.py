"""Which functions of one kernel release are which of another one, and who answers for the others.

Functions are compared by what their code is called, wherever their file is: a function that moved
to another file is the same one, which images do not tell and nothing here says. Parts that the
compiler split off (``.isra.0``, ``.constprop.0``, ``.part.0``, ``.cold``) belong to their function.
A function that only one *image* has may be the other one's under a new name: then their machine
code is alike. What only one kernel *runs* in a cell counts with its caller, as code that is inlined
in one of them does.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from iotoll.kernels.changed import BRANCH, distance, matches, normal
from iotoll.kernels.flow import Kind, read_flow
from iotoll.kernels.symbols import X86_64, Symbols
from iotoll.kernels.x86 import instructions

_SPLIT_OFF = re.compile(r"(?:\.(?:isra|constprop|part|cold|llvm|lto_priv)(?:\.\d+)*)+$")

_SURE = 0.8
"""Likeness of machine code from which two functions with other names are one."""

_LIKELY = 0.5
"""The same for two that have the same caller, and take about as many instructions."""

_ABOUT = 0.5
"""The least share of the larger one that the smaller one takes then."""

_SHORTEST = 8
"""Instructions of a function below which likeness of code says nothing."""

_GRAM = 3
"""Instructions in a row that are compared."""

_CALLS = 0.5
"""Share of a function's calls from which one caller answers for it."""


def stem(name: str) -> str:
    """A function's name without what the compiler adds to parts that it splits off."""
    return _SPLIT_OFF.sub("", name)


@dataclass(frozen=True)
class Kernel:
    """One release: the names of its whole image, and the code of each."""

    symbols: Symbols
    stems: frozenset[str]

    @classmethod
    def of(cls, symbols: Symbols) -> Kernel:
        """A kernel by its image's symbols."""
        return cls(symbols, frozenset(map(stem, symbols.names)))


@dataclass(frozen=True)
class Rename:
    """A function that only the first image has, and one that only the second has, with like code.

    ``likeness`` is the share of their code that is the same, 0 to 1.
    """

    first: str
    second: str
    likeness: float


Calls = Mapping[str, Mapping[str, int]]


def renamed(
    kernels: tuple[Kernel, Kernel],
    ran: tuple[Mapping[str, int], Mapping[str, int]],
    calls: tuple[Calls, Calls],
) -> list[Rename]:
    """The functions that have another name in the second kernel, by their stems.

    ``ran`` are the instructions of each kernel's functions in the same I/Os, ``calls`` those of
    each stem by the caller's.
    Each is matched once, the most alike first.
    """
    first, second = kernels
    gone = sorted({stem(name) for name in ran[0]} - second.stems)
    new = sorted({stem(name) for name in ran[1]} - first.stems)
    grams = _grams(first, gone), _grams(second, new)
    sums = _by_stem(ran[0]), _by_stem(ran[1])
    found = []
    for one in grams[0]:
        for other in grams[1]:
            alike = _likeness(grams[0][one], grams[1][other])
            shared = calls[0].get(one, {}).keys() & calls[1].get(other, {}).keys()
            less, more = sorted((sums[0][one], sums[1][other]))
            if alike >= (_LIKELY if shared and less >= _ABOUT * more else _SURE):
                found.append(Rename(one, other, alike))
    kept: list[Rename] = []
    for rename in sorted(found, key=lambda r: (-r.likeness, r.first, r.second)):
        if all(rename.first != k.first and rename.second != k.second for k in kept):
            kept.append(rename)
    return sorted(kept, key=lambda r: r.first)


def _grams(kernel: Kernel, stems: Sequence[str]) -> dict[str, Counter[tuple[int, ...]]]:
    """The instructions in a row of functions by stem, without registers, constants, addresses."""
    names = [name for name in dict.fromkeys(stems) if kernel.symbols.span(name)]
    found = {}
    for name, words in zip(names, _operations(kernel.symbols, names), strict=True):
        if len(words) >= _SHORTEST:
            rows = zip(*(words[n:] for n in range(_GRAM)), strict=False)
            found[name] = Counter(rows)
    return found


def _operations(symbols: Symbols, names: Sequence[str]) -> list[list[int]]:
    """What the instructions of functions do, without padding."""
    codes = [symbols.code(name) for name in names]
    if symbols.machine == X86_64:
        each = (instructions(np.frombuffer(code, np.uint8))[0] for code in codes)
        return [one.opcode[~one.is_nop].tolist() for one in each]
    # Upper bits say what an instruction does; the lower ones are registers and constants.
    return [(np.frombuffer(code, "<u4") >> 21).tolist() for code in normal(codes)]


def _by_stem(ran: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in ran.items():
        found[stem(name)] += count
    return found


def _likeness(one: Counter[tuple[int, ...]], other: Counter[tuple[int, ...]]) -> float:
    both = (one & other).total()
    return 2 * both / (one.total() + other.total())


def direct_calls(symbols: Symbols, ran: Iterable[str]) -> dict[str, dict[str, int]]:
    """How many places of the functions that ran call each function directly, by caller.

    For calls whose order was not kept, as between two marks far from each other.
    """
    found: dict[str, dict[str, int]] = {}
    for caller in ran:
        span = symbols.span(caller)
        if span is None:
            continue
        targets = _targets(symbols, *span)
        number = np.searchsorted(symbols.starts, targets).clip(0, len(symbols.starts) - 1)
        for one in number[symbols.starts[number] == targets].tolist():
            mine = found.setdefault(symbols.names[one], {})
            mine[caller] = mine.get(caller, 0) + 1
    return found


def _targets(symbols: Symbols, begin: int, end: int) -> npt.NDArray[np.uint64]:
    """Where the calls and jumps of some code lead: a tail call is one as well."""
    if symbols.machine == X86_64:
        flow = read_flow(symbols, begin, end).values()
        found = [one.target for one in flow if one.kind in (Kind.CALL, Kind.JUMP)]
        return np.array(found, np.uint64)
    words = symbols.words(np.arange(begin, end, 4, dtype=np.uint64))
    # The pattern of both b and bl.
    places = np.flatnonzero(matches(words, BRANCH[0]))
    steps = distance(words[places], *BRANCH[1:])
    # Steps back are large numbers without a sign: the sum is the same.
    return np.uint64(begin) + (4 * (places + steps)).astype(np.uint64)


def owners(ran: tuple[set[str], set[str]], calls: tuple[Calls, Calls]) -> dict[str, str]:
    """Who answers for each function that only one kernel runs: the next caller that both run.

    All are names of rows. A function without a caller that makes most of its calls, or whose
    callers lead to none that both run, answers for itself and is left out.
    """
    both = ran[0] & ran[1]
    found = {}
    for side in (0, 1):
        for name in ran[side] - both:
            owner = _owner(name, both, calls[side])
            if owner is not None:
                found[name] = owner
    return found


def _owner(name: str, both: set[str], calls: Calls) -> str | None:
    passed: set[str] = set()
    while name not in both:
        callers = calls.get(name, {})
        if name in passed or not callers:
            return None
        passed.add(name)
        most = min(callers, key=lambda caller: (-callers[caller], caller))
        if callers[most] < _CALLS * sum(callers.values()):
            return None
        name = most
    return name
