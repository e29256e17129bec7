"""``iotoll experiment time``: the gate on the clock `time` meets the noise of real boots.

Recorded: pairs of boots of host-uml's base with itself, and of the base with kernels that have a
planted delay. Judged: many verdicts over these pairs, by the gate's own code and policy.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

import click

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll_lab.experiments.gates import reader
from iotoll_lab.experiments.timed_boots import AA, Series, read_rows, write_pool
from iotoll_lab.experiments.timed_patches import DELAYS, Delay

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
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/time"))
def time_command(aa: int, pairs: int, only: tuple[str, ...], out: Path) -> None:
    """Boot host-uml again and again: is the gate on the clock `time` right on real noise?"""
    known = {delay.name: delay for delay in DELAYS}
    if missing := set(only) - set(known):
        raise UsageError(f"--only {min(missing)}: there are {', '.join(known)}")
    out.mkdir(parents=True, exist_ok=True)
    progress = Progress()
    why = f"{out}: another experiment is at work there: wait, or choose another --out"
    with alone(out / ".lock", UsageError(why)):
        record([known[name] for name in only or known], out, aa, pairs, progress)


def record(delays: list[Delay], out: Path, aa: int, pairs: int, progress: Progress) -> None:
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
    click.echo(f"written: {pool}")
