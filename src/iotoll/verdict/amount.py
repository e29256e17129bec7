"""By how much the mean I/O moved, without the few large differences that are noise.

One I/O of 256 that met a fetch of free pages moves a plain mean by more than most patches do. So
the mean is made of what the I/Os share: the median difference, and what several of them differ
from it by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iotoll.records.models import Comparison
from iotoll.records.models.verdict import ElementComparison

FEW_CLUSTERS = 0.2
"""Where a larger share of the I/Os is in no stored cluster, the verdict's own size is taken."""
FEW, SHARE = 3, 0.02
"""A difference counts where so many more I/Os have it than its opposite, and such a share."""
WIDE = 8
"""Of differences that no two I/Os share, those above so many times their median are noise."""


@dataclass(frozen=True)
class Amount:
    """``mean``: instructions per I/O; ``some`` says which I/Os have it, where not all have."""

    mean: float
    some: str = ""


def rounded(value: float, digits: int) -> float:
    """Rounded to so many digits; what would be none keeps its first: a cost is not zero."""
    return round(value, digits) or float(f"{value:.1g}")


def amount(differences: NDArray[np.int64], size: int) -> Amount:
    """The mean of paired differences, shape (pairs,), that moved by more than ``size``.

    There must be at least one.
    """
    values, counts = np.unique(differences, return_counts=True)
    return shared(dict(zip(values.tolist(), counts.tolist(), strict=True)), size)


def shared(counts: Mapping[int, int], size: int) -> Amount:
    """As `amount`, of how many I/Os have each difference."""
    total = sum(counts.values())
    middle = _middle(counts)
    rest = {value - middle: count for value, count in counts.items() if value != middle}
    net = {value: count - rest.get(-value, 0) for value, count in rest.items()}
    known = {v: n for v, n in net.items() if n >= max(FEW, SHARE * total)}
    if not known and abs(middle) <= size:
        known = _scattered({v: n for v, n in rest.items() if abs(v) > size})
    else:
        known = _with_hit(known, {v: n for v, n in rest.items() if not {v, -v} & set(known)})
    mean = middle + sum(v * n for v, n in known.items()) / total
    return Amount(mean, _words(middle, known, total))


def mean_of(part: Comparison) -> tuple[float, str]:
    """By how much the mean I/O moved, and which I/Os have it, from what a verdict stores."""
    stored = part.paired
    if stored is None or not part.has_moved:
        return part.delta, ""
    counts = Counter({0: round(stored.exact * stored.pairs)})
    for cluster in stored.clusters:
        counts[cluster.delta] += cluster.ios
    lacking = stored.pairs - counts.total()
    if lacking > FEW_CLUSTERS * stored.pairs:
        return part.delta, ""
    counts[stored.commonest] += lacking
    made = shared(+counts, stored.size)
    return rounded(made.mean, 1), made.some


def element_part(one: ElementComparison) -> str:
    """An element's name among the parts of a cell: ``register_reads.ufs:submission``."""
    return f"{one.element}:{one.section.value if one.section else 'whole'}"


def _with_hit(known: Mapping[int, int], others: Mapping[int, int]) -> dict[int, int]:
    """With those I/Os that have a known difference, and noise beside it.

    Noise moves a cost from one I/O to another, so it cancels in the sum of all others: what is left
    is whole times a known difference.
    """
    left = sum(v * n for v, n in others.items())
    for value in sorted(known, key=lambda v: -known[v]):
        times, odd = divmod(left, value)
        if not odd and 0 < times <= sum(others.values()):
            return {**known, value: known[value] + times}
    return dict(known)


def _middle(counts: Mapping[int, int]) -> int:
    """The lower median."""
    total, below = sum(counts.values()), 0
    for value in sorted(counts):
        below += counts[value]
        if 2 * below >= total:
            return value
    raise ValueError("no differences")


def _scattered(far: Mapping[int, int]) -> dict[int, int]:
    if not far:
        return {}
    typical = abs(_middle({abs(v): far.get(v, 0) + far.get(-v, 0) for v in far}))
    return {v: n for v, n in far.items() if abs(v) <= WIDE * typical}


def _words(middle: int, known: Mapping[int, int], total: int) -> str:
    """``+4 in 94 %, +309 in 6 % of the I/Os``: at most two of those that add most."""
    large = sorted(known, key=lambda v: -abs(v * known[v]))[:2]
    if not large:
        return ""
    rest = total - sum(known.values())
    parts = [(middle, rest)] if middle else []
    parts += [(middle + v, known[v]) for v in large]
    return ", ".join(f"{v:+,} in {max(n / total, 0):.0%}" for v, n in parts) + " of the I/Os"
