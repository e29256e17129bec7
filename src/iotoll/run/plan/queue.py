"""Jobs that wait for boards, as LAVA's scheduler hands them out.

Its master looks for work every SCAN seconds. It goes through the free boards of a device type and
gives each the queued job with the highest priority, the oldest first.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SCAN = 20.0
"""Seconds between two looks of LAVA's scheduler, its default."""


@dataclass(frozen=True)
class Queued:
    """What became of the jobs: waits and times to the end of the request, in seconds."""

    waits: NDArray[np.float64]
    turnarounds: NDArray[np.float64]
    busy: float

    def wait(self, share: float) -> float:
        """The wait that this share of the jobs does not exceed."""
        return float(np.quantile(self.waits, share))

    def turnaround(self, share: float) -> float:
        """The same of a merge request's last job, from its arrival on."""
        return float(np.quantile(self.turnarounds, share))


def arrivals(
    requests: int, days: int, peak: float, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Moments of merge requests in seconds, sorted: a Poisson process whose rate has a daily peak.

    ``peak`` is the busiest hour's rate over the mean one; the night's rate makes up for it.
    """
    count = rng.poisson(requests * days)
    hours = 1 + (peak - 1) * np.cos((np.arange(24) - 14) / 24 * 2 * np.pi)
    weights = np.maximum(hours, 0)
    hour = rng.choice(24, count, p=weights / weights.sum())
    day = rng.integers(0, days, count)
    return np.sort((day * 24 + hour + rng.random(count)) * 3600)


def simulate(
    arrived: NDArray[np.float64],
    jobs: int,
    seconds: float,
    spread: float,
    boards: int,
    rng: np.random.Generator,
) -> Queued:
    """Run ``jobs`` jobs of each request on ``boards`` equal boards.

    A job takes ``seconds``, give or take ``spread`` of it (log-normal).
    """
    free = [0.0] * boards
    waits = np.empty(len(arrived) * jobs)
    done = np.empty(len(arrived) * jobs)
    moments = np.repeat(arrived, jobs)
    lengths = seconds * np.exp(rng.normal(-(spread**2) / 2, spread, len(moments)))
    for number, moment in enumerate(moments):
        ready = max(moment, free[0])
        # The scheduler sees a job, or a board that is free again, at its next look.
        start = np.ceil(ready / SCAN) * SCAN
        waits[number] = start - moment
        done[number] = start + lengths[number]
        heapq.heapreplace(free, float(done[number]))
    turnarounds = done.reshape(-1, jobs).max(axis=1) - arrived
    span = max(float(done.max(initial=0.0)), 1.0)
    return Queued(waits, turnarounds, float(lengths.sum()) / (span * boards))
