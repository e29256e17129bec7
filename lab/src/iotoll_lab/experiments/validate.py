"""``python -m iotoll_lab.experiments.validate``: the tables of docs/validation-time.md, by
simulation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np

from iotoll.core.cli_support import guarded
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import SideResult, VerdictRecord
from iotoll.records.rundir import SIDES, RunDir
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.pairs import OVERHEAD, make_pairs
from iotoll.verdict.time.sequential import plan_of
from iotoll.verdict.time.simulate import (
    KINDS,
    BoardNoise,
    Planted,
    Tally,
    batches,
    board_noise,
    interval,
)
from iotoll_lab.experiments.rivals import RIVALS


@dataclass(frozen=True)
class ValidationRow:
    """One line of a table."""

    table: str
    name: str
    noise: BoardNoise
    planted: Planted = field(default_factory=Planted)
    share: float = 1.0

    def requests(self, asked: int) -> int:
        """How many merge requests it simulates."""
        return max(int(asked * self.share), 1)


def rows() -> list[ValidationRow]:
    """All lines, those that matter most first. Figure 0 is a cell's overhead, 2 a section."""

    def unchanged(pair: float) -> list[ValidationRow]:
        return [ValidationRow("unchanged", f"{k}, {pair:.1%}", board_noise(k, pair)) for k in KINDS]

    planted = [
        ValidationRow("planted", f"{k}, 1.0%, +{g:.0%}", board_noise(k, 0.01), Planted(g), 0.2)
        for k in KINDS
        for g in (0.02, 0.03)
    ]
    other = {
        "half of the noise shared": board_noise("normal", 0.01, shared=0.5),
        "no history": board_noise("normal", 0.01, history=0),
        "20 pairs of history": board_noise("normal", 0.01, history=20),
        "twice as noisy as its history": board_noise("normal", 0.01, today=2.0),
        "four times as noisy, t3": board_noise("t3", 0.01, today=4.0),
    }
    others = [
        ValidationRow("other", f"{name}, {what}", noise, Planted(growth), share)
        for name, noise in other.items()
        for what, growth, share in (("unchanged", 0.0, 0.2), ("+2%", 0.02, 0.1))
    ]
    section = [
        ValidationRow(
            "section", f"one section, +{g:.0%}", board_noise("normal", 0.01), Planted(g, (2,)), 0.1
        )
        for g in (0.02, 0.03, 0.04, 0.05)
    ]
    ends = [*unchanged(0.005), *unchanged(0.015)]
    return [*_mixed(), *unchanged(0.01), *planted[:2], *ends, *planted[2:], *section, *others]


def _mixed() -> list[ValidationRow]:
    """Some boots, cells or boards are slower or noisier than the others."""
    mixtures: dict[str, dict[str, Any]] = {
        "5% of boots +8%": {"slow": 0.05},
        "5% of boots +8%, per cell": {"slow": 0.05, "slow_cells": True},
        "one cell of 4%": {"noisy": 4},
        "one cell of 4% today": {"noisy": 4, "noisy_today": True},
        "one overhead of 4%": {"noisy": 1},
        "one overhead of 4% today": {"noisy": 1, "noisy_today": True},
        "one bad board of three": {"boards": 3, "bad_board": 4.0},
    }
    mixed = [
        ValidationRow(
            "mixture", f"{name}, {what}", board_noise("normal", 0.01, **more), Planted(growth), 0.2
        )
        for name, more in mixtures.items()
        for what, growth in (("unchanged", 0.0), ("+2%", 0.02))
    ]
    return mixed + [
        ValidationRow(
            "mixture",
            f"{share:.0%} of the candidate's boots +8%",
            board_noise("normal", 0.01, slow_candidate=share),
            share=0.2,
        )
        for share in (0.3, 0.5)
    ]


@click.command()
@click.option("--policy", default="time", show_default=True)
@click.option("--cells", default=32, show_default=True)
@click.option("--requests", default=10_000, show_default=True, type=click.IntRange(10))
@click.option(
    "--table",
    type=click.Choice(["mixture", "unchanged", "planted", "section", "other"]),
    help="Only this table.",
)
@click.option("--seed", default=20_260, show_default=True, type=click.IntRange(0))
@click.option(
    "--out", default="runs/validation", show_default=True, type=click.Path(path_type=Path)
)
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Repeatable: judge the boots of this run by the others' rules; nothing is simulated.",
)
def validate(
    policy: str,
    cells: int,
    requests: int,
    table: str | None,
    seed: int,
    out: Path,
    runs: tuple[Path, ...],
) -> None:
    """Simulate every line of the tables and print them; stopped, it goes on with the next line."""
    if runs:
        for path in runs:
            click.echo(real_line(RunDir.open(path)))
        return
    chosen = load_time_policy(policy)
    plan = plan_of(chosen, cells)
    # Rivals look at one figure a cell, as their users do: the overhead.
    overhead = np.arange(cells) * len(chosen.figures)
    progress = Progress()
    for row in rows():
        if table not in (None, row.table):
            continue
        count = row.requests(requests)
        path = out / f"{row.table}-{''.join(c if c.isalnum() else '-' for c in row.name)}.json"
        key = [chosen.sha256, cells, count, seed]
        if path.is_file() and (known := json.loads(path.read_text()))["key"] == key:
            click.echo(line(row, known))
            continue
        tally, rivals = Tally(), dict.fromkeys(RIVALS, 0)
        with progress.step(f"{row.table}: {row.name}", count) as step:
            for batch in batches(plan, row.noise, row.planted, count, seed):
                tally.add(batch.judged, row.planted)
                for name, (rule, _) in RIVALS.items():
                    rivals[name] += int(rule(batch.boots[..., overhead]).sum())
                step.update(tally.requests, count, f"{tally.requests} of {count}")
        found = {"key": key, "tally": tally.as_dict(), "rivals": rivals}
        results.write_text(path, json.dumps(found, indent=1) + "\n")
        click.echo(line(row, found))


def real_line(run: RunDir) -> str:
    """A run's verdict, and how many of its blocks of pairs each other rule would block."""
    verdict = results.read(run.verdict, VerdictRecord)
    chosen = load_time_policy(run.manifest.policy)
    sides = [results.read(run.side(side) / "result.json", SideResult) for side in SIDES]
    cells = [cell.cell for cell in verdict.cells]
    pairs = make_pairs(sides[0], sides[1], cells, list(chosen.figures), run.manifest.seed)
    overhead = [at for at, (_, figure) in enumerate(pairs.names) if figure == OVERHEAD]
    base = np.log(pairs.base[:, overhead])
    boots = np.stack([base, base + pairs.ratios[:, overhead]], axis=1)
    parts = [run.root.name, str(len(pairs.records)), verdict.outcome.value]
    for rule, count in RIVALS.values():
        blocks = len(boots) // count
        whole = boots[: blocks * count].reshape(blocks, count, 2, len(overhead))
        parts.append(f"{int(rule(whole).sum()) if blocks else 0} of {blocks}")
    return f"| {' | '.join(parts)} |"


def line(row: ValidationRow, found: dict[str, Any]) -> str:
    """One line of a table, in Markdown."""
    tally = Tally(**found["tally"])

    def share(hits: int) -> str:
        low, high = interval(hits, tally.requests)
        return f"{hits / tally.requests:.2%} ({low:.2%} to {high:.2%})"

    parts = [row.name, f"{tally.requests:,}", share(tally.blocked), share(tally.passed)]
    parts += [share(tally.inconclusive), f"{tally.mean_pairs:.2f} ± {tally.pairs_error:.2f}"]
    parts += [f"{hits / tally.requests:.1%}" for hits in found["rivals"].values()]
    return f"| {' | '.join(parts)} |"


if __name__ == "__main__":
    guarded(validate)
