"""``iotoll experiment time``: the gate on the clock `time` meets the noise of real boots.

Recorded: pairs of boots of host-uml's base with itself, and of the base with kernels that have a
planted delay. Judged: many verdicts over these pairs, by the gate's own code and policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click
import polars as pl

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.sequential import plan_of
from iotoll_lab.experiments.gates import reader
from iotoll_lab.experiments.timed_boots import AA, COLUMNS, Series, read_rows, write_pool
from iotoll_lab.experiments.timed_patches import DELAYS, Delay
from iotoll_lab.experiments.timed_tables import Asked, tables

TURN_NS = 0.3
"""Of the delay's loop, for the size of patches alone: the table says what they were measured as."""
_SIZED_BY = "ubd-4k-randread-t1-direct"
_FIRST = 8
"""Pairs of the base with itself before a delay is sized."""


@click.command("time")
@click.option("--aa", default=24, show_default=True, type=click.IntRange(1),
              help="Pairs of the base with itself before each planted kernel.")  # fmt: skip
@click.option("--pairs", default=16, show_default=True, type=click.IntRange(1, 99),
              help="Pairs of each planted kernel.")  # fmt: skip
@click.option("--only", multiple=True, help="This planted kernel; repeatable.")
@click.option("--pool", type=click.Path(path_type=Path, dir_okay=False),
              help="Judge this file's boots, and boot nothing.")  # fmt: skip
@click.option("--labellings", default=50, show_default=True, type=click.IntRange(1),
              help="So often the boots of a pair of one kernel are labelled anew.")  # fmt: skip
@click.option("--history", default=40, show_default=True, type=click.IntRange(8),
              help="Pairs before a verdict that are its board's history.")  # fmt: skip
@click.option("--requests", default=2000, show_default=True, type=click.IntRange(10),
              help="Simulated verdicts of a line.")  # fmt: skip
@click.option("--policy", default="time", show_default=True, help="Policy or file.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/time"))
def time_command(
    aa: int, pairs: int, only: tuple[str, ...], pool: Path | None, out: Path, **options: object
) -> None:
    """Boot host-uml again and again: is the gate on the clock `time` right on real noise?"""
    known = {delay.name: delay for delay in DELAYS}
    if missing := set(only) - set(known):
        raise UsageError(f"--only {min(missing)}: there are {', '.join(known)}")
    policy = load_time_policy(str(options["policy"]))
    out.mkdir(parents=True, exist_ok=True)
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        if pool is None:
            pool = out / "boots.parquet"
            record([known[name] for name in only or known], out, aa, pairs, Progress())
        frame = read_pool(pool)
        plan = plan_of(policy, frame["cell"].n_unique())
        asked = Asked(*(int(str(options[n])) for n in ("labellings", "history", "requests")))
        wanted = asked.history + plan.looks[-1]
        if (there := frame.filter(pl.col("series") == AA)["pair"].n_unique()) < wanted:
            raise UsageError(f"{pool}: has {there} pairs of the base with itself, of {wanted}")
        found = tables(frame, plan, asked)
        results.write_text(out / "table.md", "\n".join(found) + "\n")
    click.echo("\n".join(found))


def read_pool(path: Path) -> pl.DataFrame:
    """A file of boots; raises UsageError where it is none."""
    try:
        frame = pl.read_parquet(path)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"--pool {path}: cannot be read as Parquet: {error}") from error
    if lacking := [name for name in COLUMNS if name not in frame.columns]:
        raise UsageError(f"--pool {path}: has no column {lacking[0]}: it holds no boots")
    return frame


def record(delays: Sequence[Delay], out: Path, aa: int, pairs: int, progress: Progress) -> None:
    """Boot the pairs, a planted kernel after some of the base: so these are of all the hours."""
    lines, pool = out / "boots.jsonl", out / "boots.parquet"
    Series(AA, None).record(out, min(aa, _FIRST), progress)
    read = reader("debian", progress)
    for number, delay in enumerate(delays, 1):
        Series(AA, None).record(out, aa * number, progress)
        patch = out / "patches" / f"{delay.name}.patch"
        if not patch.is_file():
            size = median(
                row["value"]
                for row in read_rows(lines)
                if (row["series"], row["cell"], row["figure"]) == (AA, _SIZED_BY, delay.section)
            )
            results.write_text(patch, delay.variant(size, TURN_NS, read).text)
        Series(delay.name, patch).record(out, pairs, progress)
        write_pool(read_rows(lines), pool)
