"""Rules that others gate with, on the same boots: how often would they block?

Each is used as its project uses it: on every cell by itself, with the project's own level, at a
fixed number of boots a side. Shapes: ``boots`` (requests, pairs, 2, figures), log values; the
answer is whether each request would be blocked, shape (requests,).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ks_2samp, mannwhitneyu, ttest_ind

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def lkp(boots: Floats) -> Flags:
    """LKP (lkp-tests): with 3 boots a side, a change is two ranges that do not overlap."""
    base, candidate = boots[:, :3, 0], boots[:, :3, 1]
    return _any(candidate.min(axis=1) > base.max(axis=1))


def benchstat(boots: Floats) -> Flags:
    """Go's benchstat: Mann-Whitney's U test at 0.05, 6 boots a side."""
    base, candidate = boots[:, :6, 0], boots[:, :6, 1]
    p = mannwhitneyu(candidate, base, axis=1, method="exact").pvalue
    return _any((p < 0.05) & (np.median(candidate, axis=1) > np.median(base, axis=1)))


def student(boots: Floats) -> Flags:
    """A plain t test (Welch) at 0.05, 6 boots a side."""
    base, candidate = boots[:, :6, 0], boots[:, :6, 1]
    p = ttest_ind(candidate, base, axis=1, equal_var=False).pvalue
    return _any((p < 0.05) & (candidate.mean(axis=1) > base.mean(axis=1)))


def pinpoint(boots: Floats) -> Flags:
    """Chromium's Pinpoint: Mann-Whitney or Kolmogorov-Smirnov at 0.01, 10 boots a side.

    Where it cannot tell, Pinpoint goes on; here it does not block.
    """
    base, candidate = boots[:, :10, 0], boots[:, :10, 1]
    rank = mannwhitneyu(candidate, base, axis=1, method="exact").pvalue
    p = np.minimum(rank, _kolmogorov(base, candidate))
    return _any((p < 0.01) & (np.median(candidate, axis=1) > np.median(base, axis=1)))


def _kolmogorov(base: Floats, candidate: Floats) -> Floats:
    """p values of the two-sample test for equally many boots a side, along axis 1."""
    count = base.shape[1]
    order = np.argsort(np.concatenate([base, candidate], axis=1), axis=1)
    walk = np.cumsum(np.where(order < count, 1, -1), axis=1)
    # Only count + 1 distances are possible: each one's exact p value is looked up.
    steps = np.arange(count)
    table = [1.0] + [
        float(ks_2samp(steps, steps + k - 0.5, method="exact").pvalue) for k in steps + 1
    ]
    return np.asarray(np.array(table)[np.abs(walk).max(axis=1)])


def _any(blocked: NDArray[np.bool_]) -> Flags:
    return np.asarray(blocked.any(axis=1))


RIVALS: dict[str, tuple[Callable[[Floats], Flags], int]] = {
    "LKP's ranges": (lkp, 3),
    "benchstat": (benchstat, 6),
    "t test": (student, 6),
    "Pinpoint": (pinpoint, 10),
}
"""Name → the rule, and the boots a side that it takes."""
