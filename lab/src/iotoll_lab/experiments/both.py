"""``iotoll experiment both``: what planted costs are in instructions, and in time on this CPU.

Each patch executes a loop of a known number of turns in one section of each I/O. The gate counts it
on an exact board; host-uml boots the same patch in pairs with the base.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import click
import numpy as np

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll_lab.experiments.gates import gate_variant, reader
from iotoll_lab.experiments.timed_boots import Series, read_rows
from iotoll_lab.experiments.timed_patches import delayed
from iotoll_lab.experiments.variants import Variant

COSTS: tuple[tuple[str, int], ...] = (
    ("submission", 10_000),
    ("vfs_fs", 2_000),
    ("completion", 4_000),
    ("submission", 1_000),
    ("vfs_fs", 20_000),
    ("completion", 30_000),
    ("submission", 4_000),
    ("vfs_fs", 500),
    ("completion", 1_000),
    ("submission", 40_000),
)
"""Section, and turns of the loop, in the order in which they run: where time ends, the first ones
are there."""
_CELL = "ufs-4k-randread-t1-direct"
"""Its driver ends requests by the block layer's function that ubd's uses, NVMe's by another."""
_EXACT: Mapping[str, object] = {
    **{"tree": "debian", "board": "virt-arm64", "matrix": "default", "cells": _CELL},
    "again": None,
}


@dataclass(frozen=True)
class BothRow:
    """A planted cost: instructions per I/O, and ns per I/O with an interval of 95 %.

    ``share`` is its part of what the section takes in the base.
    """

    section: str
    turns: int
    instructions: float
    ns: float
    low: float
    high: float
    share: float
    pairs: int


@click.command("both")
@click.option("--pairs", default=6, show_default=True, type=click.IntRange(2),
              help="Pairs of boots of each kernel on host-uml.")  # fmt: skip
@click.option("--patches", default=len(COSTS), type=click.IntRange(1, len(COSTS)),
              show_default=True, help="So many of the planted kernels.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/both"))
def both_command(pairs: int, patches: int, out: Path) -> None:
    """Plant costs: instructions on an exact board beside nanoseconds on host-uml."""
    out.mkdir(parents=True, exist_ok=True)
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        progress = Progress()
        read = reader("debian", progress)
        found: list[BothRow] = []
        for section, turns in COSTS[:patches]:
            variant = delayed(f"{section}-{turns}", section, turns, "always", read)
            exact = _instructions(variant, section, out / "exact", progress)
            patch = out / "exact/patches" / f"{variant.name}.patch"
            Series(variant.name, patch).record(out, pairs, progress)
            rows = [r for r in read_rows(out / "boots.jsonl") if r["series"] == variant.name]
            found.append(row_of(section, turns, exact, rows))
            results.write_text(out / "table.md", "\n".join(table(found)) + "\n")
    click.echo("\n".join(table(found)))


def _instructions(variant: Variant, section: str, out: Path, progress: Progress) -> float:
    """What the gate says that the section of the cell grew by; raises UsageError if it did not."""
    row = gate_variant(variant, out, _EXACT, progress)
    name = f"{_CELL.partition('-')[0]} {section}"
    if row is None or name not in row.grew:
        said = row.sentence if row else "nothing"
        raise UsageError(f"{variant.name}: the exact board does not show it, but says: {said}")
    return row.grew[name][1]


def row_of(section: str, turns: int, exact: float, rows: Sequence[Mapping[str, object]]) -> BothRow:
    """A line of the table from boots of one kernel and the base, as `rows_of` gives them."""
    # scipy takes a second to import, and other commands do without.
    from scipy import stats

    values: dict[object, dict[object, list[float]]] = {}
    for row in rows:
        value = row["value"]
        if row["figure"] == section and isinstance(value, float | int):
            values.setdefault(row["pair"], {}).setdefault(row["side"], []).append(float(value))
    both = [sides for sides in values.values() if len(sides) == 2]
    base = [fmean(sides["base"]) for sides in both]
    grown = np.array([fmean(sides["candidate"]) for sides in both]) - np.array(base)
    mean, error = float(grown.mean()), float(grown.std(ddof=1)) / len(both) ** 0.5
    reach = float(stats.t.ppf(0.975, len(both) - 1)) * error
    share = mean / fmean(base)
    return BothRow(section, turns, exact, mean, mean - reach, mean + reach, share, len(both))


def table(rows: Sequence[BothRow]) -> list[str]:
    """The table as Markdown, and below it how far the two numbers go together."""
    lines = [
        "| planted in | turns | instructions | ns on this CPU (95 %) | of its section | pairs |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for r in sorted(rows, key=lambda r: r.instructions):
        interval = f"{r.ns:+,.0f} ({r.low:,.0f} to {r.high:,.0f})"
        lines.append(
            f"| `{r.section}` | {r.turns:,} | +{r.instructions:,.0f} | {interval} |"
            f" {r.share:+,.0%} | {r.pairs} |"
        )
    return [*lines, "", correlation(rows)] if len(rows) > 2 else lines


def correlation(rows: Sequence[BothRow]) -> str:
    """Correlation over the kernels, and what an instruction of the loop takes."""
    # scipy takes a second to import, and other commands do without.
    from scipy import stats

    counts, times = [r.instructions for r in rows], [r.ns for r in rows]
    straight, ranks = stats.pearsonr(counts, times), stats.spearmanr(counts, times)
    slope = float(np.dot(counts, times) / np.dot(counts, counts))
    return (
        f"{len(rows)} kernels: r = {straight.statistic:.3f} (Pearson), {ranks.statistic:.3f}"
        f" (Spearman); {slope:.2f} ns an instruction."
    )
