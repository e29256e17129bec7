"""What a finished job's end means for its boot: the records decide, not what LAVA's charts lack."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.labs.lava.issues import load_issues
from iotoll.labs.lava.job_end import Ended, judge
from iotoll.labs.lava.server import JobState
from tests.unit.labs.lava.test_classify import BEGUN, END, log_of
from tests.unit.labs.lava.test_submission import make_plan
from tests.unit.measure.test_serial import message

CELL = "ufs-4k-randread-t1-direct"
FIGURE = f"{CELL}.submission.median"
FIO = {"jobs": [{"jobname": CELL, "error": 0, "read": {"total_ios": 256, "io_bytes": 1 << 20}}]}
DONE = ("target", "iotoll: done")


def sent() -> list[tuple[str, str]]:
    """The lines of a boot's documents, as LAVA's log has them."""
    documents: list[dict[str, Any]] = [
        {"cell": CELL, "x": "y" * 40},
        {"cell": "fio.ufs", "fio": FIO},
    ]
    lines = [line for d in documents for line in message(json.dumps(d), str(d["cell"]))]
    return [("target", line.decode().rstrip("\n")) for line in lines]


def ended(lines: list[tuple[str, str]], lacking: tuple[str, ...] = ()) -> Ended:
    state = JobState(7, "iotoll", "Finished", "Complete", "b-01", None, None, None)
    return Ended(state, log_of(*BEGUN, *lines, DONE, END), "", "", lacking)


def test_figure_that_lava_lost_costs_no_boot(tmp_path: Path) -> None:
    plan = replace(make_plan(tmp_path), cells=[CELL])
    documents = judge(ended(sent(), (FIGURE,)), plan, load_issues([]))
    assert list(documents.cells) == [CELL]


def test_damaged_line_costs_none_that_came_twice(tmp_path: Path) -> None:
    plan = replace(make_plan(tmp_path), cells=[CELL])
    lines = sent()
    at, (level, text) = next((n, x) for n, x in enumerate(lines) if " D " in x[1])
    lines[at] = (level, text[:40] + "~" + text[41:])
    with pytest.raises(InfrastructureError, match=f"the serial line lost a part of {CELL}: 1 of"):
        judge(ended(lines), plan, load_issues([]))
    documents = judge(ended([*lines, *sent()]), plan, load_issues([]))
    assert list(documents.cells) == [CELL]
