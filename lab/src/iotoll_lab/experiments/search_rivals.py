"""Other rules of search, by which `iotoll.bisect.bayes` is compared on the same ranges.

Each takes ``boot(place)``, which gives one boot's value of a commit (0 is A, n is B), and returns
where it says that the step is. They are written from the rules' descriptions, for simulations only.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Boot = Callable[[int], float]

SURE = 0.99
"""What git_bayesect's rule stops at here: as sure as the others claim to be."""

MOST = 2000
"""Boots after which a rule gives up and names its best."""


def git_bisect(size: int, boot: Boot) -> int:
    """``git bisect``: one boot a step, good or bad by the middle between one boot of A and B."""
    middle = (boot(0) + boot(size)) / 2
    low, high = 0, size
    while high - low > 1:
        at = (low + high) // 2
        if boot(at) > middle:
            high = at
        else:
            low = at
    return high


def bayesect(size: int, boot: Boot) -> int:
    """git_bayesect's rule: each boot passes or fails; both rates unknown, with Beta priors.

    The next commit is the one with the least expected entropy. Pass or fail is by the middle
    between four boots of A and of B, which is generous: the rule itself has no such boots.
    """
    ends = [np.mean([boot(place) for _ in range(4)]) for place in (0, size)]
    middle = float(sum(ends) / 2)
    fails, passes = np.zeros(size + 1), np.zeros(size + 1)
    for _ in range(MOST):
        chance, rate0, rate1 = _rates(fails, passes)
        if chance.max() >= SURE:
            break
        below = np.concatenate([[0.0], np.cumsum(chance)])
        place = _least_entropy(chance, below, rate0, rate1)
        failed = boot(place) > middle
        fails[place] += failed
        passes[place] += not failed
    return int(np.argmax(_rates(fails, passes)[0])) + 1


def _rates(
    fails: NDArray[np.float64], passes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Posterior of the step, and per commit the chance to fail before and from it."""
    # scipy takes a second to import, and other experiments do without.
    from scipy.special import betaln

    f, p = np.cumsum(fails), np.cumsum(passes)
    f0, p0 = f[:-1] + 1, p[:-1] + 9
    f1, p1 = f[-1] - f[:-1] + 9, p[-1] - p[:-1] + 1
    likely = betaln(f0, p0) + betaln(f1, p1)
    weight = np.exp(likely - likely.max())
    return weight / weight.sum(), f0 / (f0 + p0), f1 / (f1 + p1)


def _least_entropy(
    chance: NDArray[np.float64],
    below: NDArray[np.float64],
    rate0: NDArray[np.float64],
    rate1: NDArray[np.float64],
) -> int:
    sums0 = np.concatenate([[0.0], np.cumsum(chance * rate0)])
    sums1 = np.concatenate([[0.0], np.cumsum(chance * rate1)])
    total = np.clip(sums1 + (sums0[-1] - sums0), 1e-9, 1 - 1e-9)

    def bits(rate: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(-rate * np.log2(rate) - (1 - rate) * np.log2(1 - rate))

    own0 = np.concatenate([[0.0], np.cumsum(chance * bits(rate0))])
    own1 = np.concatenate([[0.0], np.cumsum(chance * bits(rate1))])
    return int(np.argmax(bits(total) - own1 - (own0[-1] - own0)))


ROUND, ROUNDS = 10, 16
DIFFERENT, SAME = 0.01, 0.35


def pinpoint(size: int, boot: Boot) -> int:
    """Pinpoint's rule: ten boots a commit; two commits are compared by Mann and Whitney's test.

    Clearly different: their middle is measured. Clearly the same: done. Neither: ten more boots of
    both, up to 160. Of neighbours that differ most the newer is named.
    """
    values: dict[int, list[float]] = {p: [boot(p) for _ in range(ROUND)] for p in (0, size)}
    settled: set[tuple[int, int]] = set()
    while True:
        order = sorted(values)
        todo = False
        for low, high in pairwise(order):
            if (low, high) in settled:
                continue
            chance = rank_test(values[low], values[high])
            if chance < DIFFERENT:
                if high - low == 1:
                    settled.add((low, high))
                    continue
                middle = (low + high) // 2
                values[middle] = [boot(middle) for _ in range(ROUND)]
            elif chance > SAME or len(values[low]) + len(values[high]) >= 2 * ROUND * ROUNDS:
                settled.add((low, high))
                continue
            else:
                for place in (low, high):
                    if len(values[place]) < ROUND * ROUNDS:
                        values[place] += [boot(place) for _ in range(ROUND)]
            todo = True
            break
        if not todo:
            break
    pairs = list(pairwise(sorted(values)))
    return min(pairs, key=lambda pair: rank_test(values[pair[0]], values[pair[1]]))[1]


def rank_test(one: list[float], other: list[float]) -> float:
    """Two-sided chance of Mann and Whitney's test, by the normal approximation."""
    from scipy.special import ndtr

    n, m = len(one), len(other)
    ranks = np.argsort(np.argsort(np.array([*one, *other]))) + 1
    u = float(ranks[:n].sum()) - n * (n + 1) / 2
    z = (abs(u - n * m / 2) - 0.5) / np.sqrt(n * m * (n + m + 1) / 12)
    return float(2 * ndtr(-max(z, 0.0)))
