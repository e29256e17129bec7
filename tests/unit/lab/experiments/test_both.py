"""``iotoll experiment both``: instructions beside time, from recorded boots."""

from __future__ import annotations

import pytest
from iotoll_lab.experiments.both import COSTS, BothRow, row_of, table
from iotoll_lab.experiments.timed_patches import DELAYS, delayed

SOURCE = "#include <linux/blk-mq.h>\n\nvoid blk_mq_submit_bio(struct bio *bio)\n{\n\treturn;\n}\n"


def boot(
    pair: int, side: str, value: float | None, figure: str = "submission"
) -> dict[str, object]:
    return {"pair": pair, "side": side, "figure": figure, "value": value}


def test_a_line_is_of_the_pairs_that_are_whole() -> None:
    rows = [
        *(boot(pair, "base", 1000.0) for pair in (1, 2, 3, 4)),
        *(
            boot(pair, "candidate", 1000.0 + grown)
            for pair, grown in ((1, 480), (2, 500), (3, 520))
        ),
        boot(4, "candidate", None),
        boot(1, "candidate", 9e9, "vfs_fs"),
    ]
    row = row_of("submission", 1000, 2002.0, rows)
    assert (row.pairs, row.ns, row.share) == (3, 500.0, 0.5)
    # Student's, with 2 degrees of freedom: 4.303 standard errors of 11.5 ns.
    assert row.low == pytest.approx(500 - 49.7, abs=0.1)
    assert row.high == pytest.approx(500 + 49.7, abs=0.1)


def test_how_far_both_go_together_stands_below_the_table() -> None:
    rows = [BothRow("vfs_fs", n, 2.0 * n, 0.5 * n, 0.4 * n, 0.6 * n, 0.1, 6) for n in (9, 1, 5)]
    lines = table(rows)
    assert [line.split("|")[2].strip() for line in lines[2:5]] == ["1", "5", "9"]
    assert lines[-1].startswith("3 kernels: r = 1.000 (Pearson), 1.000 (Spearman); 0.25 ns")
    assert len(table(rows[:2])) == 4


def test_a_loop_is_the_same_on_any_cpu() -> None:
    patch = delayed("x", "submission", 4000, "always", lambda path: SOURCE)
    assert "+\tiotoll_delay(4000);" in patch.text and 'asm volatile("" : "+r" (n))' in patch.text
    assert len(set(COSTS)) == len(COSTS) and {s for s, _ in COSTS} == {d.section for d in DELAYS}
