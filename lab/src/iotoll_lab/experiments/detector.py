"""``iotoll experiment detector``: simulated nights, and how often and how soon a step is found.

Noise has a standard deviation of 1. Each method reads a series night by night and sees no later
night. False alarms are counted over series without a step, the wait over series with one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import numpy as np

from iotoll.core.errors import UsageError
from iotoll.nightly.changes.detector import Floats, noisy_steps
from iotoll.records import results
from iotoll_lab.experiments.alarms import (
    Alarms,
    iotoll_alarms,
    otava_alarms,
    perfherder_alarms,
    published_series,
)

STEP_AT = 80
"""Night of the step."""
GIVEN_UP = 40
"""Nights after which a step counts as missed."""
_RHO = {"ar3": 0.3, "ar5": 0.5}


@dataclass(frozen=True)
class Nights:
    """Simulated series, shape (series, nights), and the nights on which the board was swapped."""

    values: Floats
    resets: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Row:
    """One method on one kind of nights; waits count the night of the step as 1."""

    nights: str
    method: str
    series_nights: int
    alarms_per_100: float
    found: float
    median_wait: float | None
    mean_wait: float | None


def noise(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Noise of standard deviation 1: ``iid``, ``t3``, ``ar3``, ``ar5``; shape (series, nights)."""
    if kind == "t3":
        return np.asarray(rng.standard_t(3, shape) / np.sqrt(3))
    made = rng.normal(size=shape)
    if rho := _RHO.get(kind):
        for night in range(1, shape[1]):
            made[:, night] = rho * made[:, night - 1] + np.sqrt(1 - rho**2) * made[:, night]
    return made


def _gaps(rng: np.random.Generator, shape: tuple[int, int]) -> Nights:
    values = noise("iid", rng, shape)
    values[rng.random(shape) < 0.15] = np.nan
    return Nights(values)


def _swaps(rng: np.random.Generator, shape: tuple[int, int]) -> Nights:
    """Every 60 nights another board, whose level is 5 away or less."""
    resets = range(60, shape[1], 60)
    values = noise("iid", rng, shape)
    for night in resets:
        values[:, night:] += rng.uniform(-5, 5, (shape[0], 1))
    return Nights(values, frozenset(resets))


def _quiet(kind: str) -> Callable[[np.random.Generator, tuple[int, int]], Nights]:
    return lambda rng, shape: Nights(noise(kind, rng, shape))


QUIET = {
    **{kind: _quiet(kind) for kind in ("iid", "t3", "ar3")},
    "iid with gaps": _gaps,
    "iid with board swaps": _swaps,
    "ar5": _quiet("ar5"),
}
"""Nights without a step of the kernel's."""


def _stepped(kind: str, size: float) -> Callable[[np.random.Generator, tuple[int, int]], Nights]:
    def made(rng: np.random.Generator, shape: tuple[int, int]) -> Nights:
        values = noise(kind, rng, shape)
        values[:, STEP_AT:] += size
        return Nights(values)

    return made


def _slope(rng: np.random.Generator, shape: tuple[int, int]) -> Nights:
    """From the step's night on 0.1 more each night."""
    values = noise("iid", rng, shape)
    return Nights(values + 0.1 * np.maximum(0, np.arange(shape[1]) - STEP_AT + 1))


CHANGED = {
    "iid, step of 2": _stepped("iid", 2),
    "t3, step of 2": _stepped("t3", 2),
    "ar3, step of 2": _stepped("ar3", 2),
    "iid, step of 1": _stepped("iid", 1),
    "iid, slope of 0.1 a night": _slope,
    "ar5, step of 2": _stepped("ar5", 2),
}
"""Nights with a change on night STEP_AT."""


def quiet_row(name: str, method: str, alarms: Alarms, nights: Nights) -> Row:
    """False alarms of a method on nights without a step."""
    count = sum(len(alarms(line, nights.resets)) for line in nights.values)
    return Row(name, method, nights.values.size, 100 * count / nights.values.size, 0, None, None)


def changed_row(name: str, method: str, alarms: Alarms, nights: Nights) -> Row:
    """How soon a method finds the change, and what it cried before."""
    waits, early = [], 0
    for line in nights.values:
        told = alarms(line, nights.resets)
        early += sum(night < STEP_AT for night in told)
        later = [night - STEP_AT + 1 for night in told if night >= STEP_AT]
        if later and later[0] <= GIVEN_UP:
            waits.append(later[0])
    size = len(nights.values)
    return Row(
        name,
        method,
        nights.values.size,
        100 * early / (size * STEP_AT),
        len(waits) / size,
        float(np.median(waits)) if waits else None,
        float(np.mean(waits)) if waits else None,
    )


def rows(methods: Mapping[str, tuple[Alarms, int]], nights: int, seed: int) -> list[Row]:
    """All kinds of nights by all methods; of each method its own number of series."""
    found = []
    for number, (name, quiet) in enumerate(QUIET.items()):
        for method, (alarms, series) in methods.items():
            rng = np.random.default_rng([seed, number])
            found.append(quiet_row(name, method, alarms, quiet(rng, (series, nights))))
            click.echo(_line(found[-1]))
    for number, (name, changed) in enumerate(CHANGED.items()):
        for method, (alarms, series) in methods.items():
            rng = np.random.default_rng([seed, 100 + number])
            shape = (max(1, series // 3), STEP_AT + GIVEN_UP)
            found.append(changed_row(name, method, alarms, changed(rng, shape)))
            click.echo(_line(found[-1]))
    return found


def _line(row: Row) -> str:
    text = f"{row.nights:26} {row.method:12} {row.alarms_per_100:6.3f} alarms/100"
    if row.nights in QUIET:
        return text
    mean = f"{row.mean_wait:5.1f}" if row.mean_wait is not None else "    -"
    return f"{text}, found {row.found:6.1%}, mean wait {mean} nights"


def _tell(values: Floats, methods: Mapping[str, tuple[Alarms, int]]) -> None:
    """Print the nights of each method's alarms in one series of logs; nights count from 0."""
    for method, (alarms, _) in methods.items():
        if method != "iotoll":
            click.echo(f"{method}: told on {', '.join(map(str, alarms(values, frozenset())))}")
    for step in noisy_steps(values):
        click.echo(f"iotoll: told on {step.found}: {np.expm1(step.size):+.1%} since {step.index}")


@click.command("detector")
@click.option("--series", default=300, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--nights", default=200, show_default=True, type=click.IntRange(20, 10_000))
@click.option("--seed", default=2, show_default=True, type=click.IntRange(0))
@click.option(
    "--otava",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="PYTHON",
    help="Interpreter that has apache-otava: it judges the same series, a tenth of them.",
)
@click.option(
    "--published",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Python source with a series: what each method says of it, in place of simulated nights.",
)
@click.option(
    "--out", default="runs/detector.json", show_default=True, type=click.Path(path_type=Path)
)
def detector_command(
    series: int, nights: int, seed: int, otava: Path | None, published: Path | None, out: Path
) -> None:
    """Simulate nights: false alarms in 100 series-nights, and nights until a step is found."""
    methods: dict[str, tuple[Alarms, int]] = {
        "iotoll": (iotoll_alarms, series),
        "Perfherder": (perfherder_alarms, series),
    }
    if otava is not None:
        try:
            methods["Otava"] = (otava_alarms(otava), max(1, series // 10))
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError(f"--otava {otava}: not a Python with apache-otava: {error}") from error
    if published is not None:
        _tell(published_series(published), methods)
        return
    found = rows(methods, nights, seed)
    answer = {"series": series, "nights": nights, "seed": seed, "rows": [asdict(r) for r in found]}
    results.write_text(out, json.dumps(answer, indent=1) + "\n")
    click.echo(str(out))
