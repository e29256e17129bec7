"""``iotoll experiment time``: patches with a delay, and verdicts over recorded boots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from iotoll_lab.experiments.timed import time_command
from iotoll_lab.experiments.timed_boots import AA, COLUMNS, FIGURES, low_mean, read_rows, write_pool
from iotoll_lab.experiments.timed_patches import DELAYS, Delay
from iotoll_lab.experiments.timed_verdicts import Timed, aa_verdicts, planted_verdict

from iotoll.records.models import Stats
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.sequential import State, plan_of

CELLS = ("ubd-4k-randread-t1-direct", "ubd-4k-randread-t8-direct")
PLAN = plan_of(load_time_policy("time"), len(CELLS))
SOURCE = "#include <linux/blk-mq.h>\n\nvoid blk_mq_submit_bio(struct bio *bio)\n{\n\treturn;\n}\n"


def rows(series: str, pairs: int, noise: float, growth: float = 0.0) -> list[dict[str, Any]]:
    """Boots of a series, whose candidate takes longer by ``growth``."""
    rng = np.random.default_rng([len(series), pairs])
    made = []
    for pair in range(1, pairs + 1):
        for side in ("base", "candidate"):
            more = 1 + growth * (side == "candidate")
            for cell in CELLS:
                for figure in FIGURES:
                    value = 1000 * more * float(np.exp(rng.normal(0, noise / 2**0.5)))
                    made.append(
                        {"series": series, "pair": pair, "side": side, "begun": float(pair)}
                        | {"seconds": 3.0, "others": 0.1 * (pair % 3), "cell": cell}
                        | {"figure": figure}
                        | dict.fromkeys(("value", "own", "mean", "low", "median", "p90"), value)
                    )
    return made


def frame(*several: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame([row for one in several for row in one], schema=COLUMNS)


def test_a_delay_is_of_the_sections_time() -> None:
    patch = Delay("submission", 10).variant(300, 0.3, lambda _: SOURCE)
    assert "+\tiotoll_delay(100);" in patch.text and "+\tif (1)" in patch.text
    seldom = Delay("submission", 10, "every16th").variant(300, 0.3, lambda _: SOURCE)
    assert "+\tiotoll_delay(1600);" in seldom.text and "% 16" in seldom.text
    many = Delay("submission", 10, "threads8").variant(300, 0.3, lambda _: SOURCE)
    assert "nr_threads > 6" in many.text
    assert len({delay.name for delay in DELAYS}) == len(DELAYS) >= 12


def test_verdicts_share_no_pair_where_they_are_disjoint() -> None:
    timed = Timed.of(frame(rows(AA, 120, 0.01)), AA)
    every, disjoint = aa_verdicts(timed, PLAN, labellings=3, history=40)
    starts = 120 - 40 - PLAN.looks[-1] + 1
    assert every.verdicts == 3 * starts
    assert disjoint.verdicts > 3 and disjoint.pairs <= starts + PLAN.looks[-1]
    assert (every.blocked, every.passed) == (0, every.verdicts)


def test_growth_that_is_added_is_found() -> None:
    timed = Timed.of(frame(rows(AA, 120, 0.01)), AA)
    every, _ = aa_verdicts(timed, PLAN, 2, 40, {(CELLS[0], "overhead"): 0.05})
    assert every.blocked == every.verdicts


def test_a_planted_kernel_is_judged_by_the_history() -> None:
    pool = frame(rows(AA, 80, 0.01), rows("submission-5-always", 16, 0.01, 0.06))
    found, growth = planted_verdict(Timed.of(pool, DELAYS[0].name), Timed.of(pool, AA), PLAN)
    assert State(int(found.state[0])) is State.REGRESSION
    assert np.expm1(growth) == pytest.approx(0.06, abs=0.01)


def test_noise_of_tens_of_per_cent_is_given_up_early_and_blocks_nothing() -> None:
    """Real boots beside other work: 32 pairs of them would have told no more."""
    timed = Timed.of(frame(rows(AA, 120, 0.4)), AA)
    every, _ = aa_verdicts(timed, PLAN, labellings=5, history=40)
    assert (every.blocked, every.passed) == (0, 0)
    assert every.pairs / every.verdicts < 10


def test_a_pool_is_judged_without_a_boot(tmp_path: Path) -> None:
    path = tmp_path / "boots.parquet"
    write_pool([*rows(AA, 90, 0.01), *rows("submission-5-always", 12, 0.01, 0.06)], path)
    words = ["--pool", str(path), "--labellings", "2", "--requests", "20"]
    done = CliRunner().invoke(time_command, [*words, "--out", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "| real, unchanged, disjoint verdicts |" in done.output
    assert "| submission-5-always | 12 | +6." in done.output
    assert (tmp_path / "out/table.md").is_file()


@pytest.mark.parametrize(
    ("text", "words"),
    [("not parquet", "cannot be read as Parquet"), (None, "of 56"), ("", "cannot be read")],
)
def test_a_pool_that_is_none_is_refused(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "boots.parquet"
    if text is None:
        write_pool(rows(AA, 9, 0.01), path)
    else:
        path.write_text(text)
    done = CliRunner().invoke(
        time_command, ["--pool", str(path), "--out", str(tmp_path / "out")], standalone_mode=False
    )
    assert words in str(done.exception)


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "boots.jsonl"
    path.write_text('{"series": "base"}\n{"series": "ba')
    assert read_rows(path) == [{"series": "base"}]


def test_the_mean_of_the_lowest_quarter() -> None:
    stats = Stats(count=8, histogram=[(10, 11, 1), (20, 21, 3), (50, 51, 4)])
    assert low_mean(stats) == 15
    assert low_mean(Stats(count=0)) is None
