"""Invented counts of cells, and what the gate on the clock `instructions` says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from iotoll.records.models import Section, SideResult
from iotoll.verdict.instructions import rule
from iotoll.verdict.policy import Policy
from tests.unit.runs import side_result

V, S, C, R = Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN
UFS, NVME = "ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"
EIGHT = "ufs-4k-randwrite-t8-sync"
PEAKS = {V: [3150, 3190, 3420], S: [5229, 5301, 5777], C: [2208, 2260, 2500], R: [5766, 5990]}

Counts = Mapping[Section, Sequence[int]]


def counts(seed: int = 0, moved: Mapping[Section, int] | None = None, n: int = 256) -> Counts:
    """Counts of a cell; the sections of ``moved`` cost so much more."""
    random = np.random.default_rng(seed)
    return {
        section: [int(v) + (moved or {}).get(section, 0) for v in random.choice(peaks, size=n)]
        for section, peaks in PEAKS.items()
    }


def chaotic(base: Counts, seed: int, share: float = 0.6) -> Counts:
    """The same I/Os when timers met others of them: as many differ one way as the other."""
    random = np.random.default_rng(seed)
    return {
        section: [
            int(v + random.choice([-321, -37, 37, 321]) * (random.random() < share)) for v in values
        ]
        for section, values in base.items()
    }


def changed(base: Counts, section: Section, cost: Callable[[int], int]) -> Counts:
    """The same I/Os, number i of which costs ``cost(i)`` more in a section."""
    values = [value + cost(i) for i, value in enumerate(base[section])]
    return {**base, section: values}


def judge(
    policy: Policy, base: Mapping[str, Counts], other: Mapping[str, Counts]
) -> rule.Judgement:
    cells = list(base)
    return rule.judge(side_result("base", base), side_result("candidate", other), policy, cells)


def grown(judged: rule.Judgement) -> dict[Section, float]:
    return {s.section: s.delta for v in judged.cells for s in v.sections if s.moved == "grew"}


def boots(side: SideResult, *others: SideResult) -> SideResult:
    """A side whose boots are those of several."""
    cells = {c: [r for s in (side, *others) for r in s.cells[c]] for c in side.cells}
    both = [boot for s in (side, *others) for boot in s.boots]
    return side.model_copy(update={"cells": cells, "boots": both})
