"""``iotoll plan``: simulates LAVA's scheduler for a load, boards and runners."""

from __future__ import annotations

import heapq
import json
import math
from dataclasses import dataclass

import click
import numpy as np
from numpy.typing import NDArray

from iotoll.core.cli_support import FiniteRange
from iotoll.core.errors import UsageError

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


DAYS = 5
"""Days that are simulated; the first one fills the queue."""
_MOST_JOBS = 5_000_000


@click.command("plan")
@click.option(
    "--requests",
    default=50,
    show_default=True,
    type=click.IntRange(1, 10_000),
    help="Merge requests a day.",
)
@click.option(
    "--families",
    default=2,
    show_default=True,
    type=click.IntRange(1, 100),
    help="Families of cells of one boot.",
)
@click.option(
    "--boots",
    default=8,
    show_default=True,
    type=click.IntRange(1, 200),
    help="Boots of one merge request.",
)
@click.option(
    "--boot-seconds",
    default=240.0,
    show_default=True,
    type=FiniteRange(1, 86_400),
    help="Seconds of one boot without its cells.",
)
@click.option(
    "--family-seconds",
    default=40.0,
    show_default=True,
    type=FiniteRange(0, 86_400),
    help="Seconds for the cells of one family.",
)
@click.option(
    "--boards",
    type=click.IntRange(1, 2000),
    help="Boards in the lab. Default: as many as --wait needs.",
)
@click.option(
    "--wait",
    type=FiniteRange(0),
    default=30.0,
    show_default=True,
    help="Longest wait of 95 % of the jobs, in minutes.",
)
@click.option(
    "--peak",
    default=1.8,
    show_default=True,
    type=FiniteRange(1, 2),
    help="Load of the busiest hour, as a multiple of the mean.",
)
@click.option(
    "--build-seconds",
    default=600.0,
    show_default=True,
    type=FiniteRange(1, 86_400),
    help="Seconds to build one kernel.",
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
def plan_command(**asked: float | int | bool | None) -> None:
    """Estimate how many boards and runners a load needs, by simulating LAVA's scheduler.

    A merge request is --boots jobs, one boot each, of --boot-seconds plus --family-seconds for each
    of --families. Its two kernels are built by runners, --build-seconds each.
    """
    found = plan(asked)
    if asked["as_json"]:
        click.echo(json.dumps(found, indent=1))
        return
    click.echo(
        f"{found['jobs_a_day']:,} jobs and {found['board_hours_a_day']:,.0f} board hours a day\n"
        f"{found['boards']} boards: {found['busy']:.0%} busy, wait {found['wait_median']:.0f} min"
        f" (median), {found['wait_95']:.0f} min (95 %)\n"
        f"a merge request's boots end after {found['request_median']:.0f} min (median),"
        f" {found['request_95']:.0f} min (95 %)\n"
        f"{found['runners']} runners for the builds"
    )


def plan(asked: dict[str, float | int | bool | None]) -> dict[str, float]:
    """The answer; minutes where it is not said. Raises UsageError for more than it simulates."""
    number = {name: float(value or 0) for name, value in asked.items()}
    requests, boots = int(number["requests"]), int(number["boots"])
    seconds = number["boot_seconds"] + number["families"] * number["family_seconds"]
    jobs = requests * boots
    if jobs * DAYS > _MOST_JOBS:
        raise UsageError(f"--requests {requests} --boots {boots}: more jobs than it simulates")
    limit = number["wait"] * 60
    least = math.ceil(jobs * seconds / 86_400)
    boards = int(number["boards"]) or _enough(number, seconds, least, limit)
    rng = np.random.default_rng(int(number["seed"]))
    queued = simulate(
        arrivals(requests, DAYS, number["peak"], rng), boots, seconds, 0.1, boards, rng
    )
    # Two kernels each; builds have the requests' peak, and runners are 70 % busy in it.
    runners = math.ceil(2 * requests * number["build_seconds"] * number["peak"] / 86_400 / 0.7)
    return {
        "jobs_a_day": jobs,
        "board_hours_a_day": jobs * seconds / 3600,
        "boards": boards,
        "busy": queued.busy,
        "wait_median": queued.wait(0.5) / 60,
        "wait_95": queued.wait(0.95) / 60,
        "request_median": queued.turnaround(0.5) / 60,
        "request_95": queued.turnaround(0.95) / 60,
        "runners": runners,
    }


def _enough(number: dict[str, float], seconds: float, least: int, limit: float) -> int:
    """The fewest boards whose 95 % wait is within ``limit`` seconds."""
    low, high = max(1, least), max(2, least * 8)
    while low < high:
        middle = (low + high) // 2
        rng = np.random.default_rng(int(number["seed"]))
        arrived = arrivals(int(number["requests"]), DAYS, number["peak"], rng)
        queued = simulate(arrived, int(number["boots"]), seconds, 0.1, middle, rng)
        low, high = (low, middle) if queued.wait(0.95) <= limit else (middle + 1, high)
    return low
