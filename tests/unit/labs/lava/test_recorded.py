"""The rules on excerpts of logs that LAVA 2026.10 wrote when tests/lab injected the faults.

An excerpt holds LAVA's own errors, the phases' beginnings, the kernel's words around a crash and
the last lines; server addresses are replaced.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotoll.core.errors import BrokenError
from iotoll.labs.lava.classify import classify, evidence
from iotoll.labs.lava.issues import load_issues
from iotoll.labs.lava.job_log import read_log

DATA = Path(__file__).with_name("data")
RECORDED = {
    # excerpt: health of the job, step if broken, rule
    "panic-at-boot": ("Incomplete", "boot", "crash"),
    "board-killed": ("Incomplete", None, "connection-closed"),
    "bug-in-workload": ("Canceled", "workload", "crash"),
    "hang-in-workload": ("Incomplete", "workload", "hangs-in-workload"),
}


def test_every_excerpt_is_judged() -> None:
    assert sorted(path.stem for path in DATA.glob("*.yaml")) == sorted(RECORDED)


@pytest.mark.parametrize("name", RECORDED)
def test_what_real_jobs_ended_with(name: str) -> None:
    health, step, rule = RECORDED[name]
    data = (DATA / f"{name}.yaml").read_bytes()
    (end,) = (line for line in data.decode().splitlines() if '"case": "job"' in line)
    said = json.loads(end[2:])["msg"]
    kind, error = said.get("error_type", ""), said.get("error_msg", "")
    found = classify(evidence(health, kind, error, read_log(data)), load_issues([]))
    assert str(found).endswith(f"[{rule}]"), str(found)
    assert (found.step if isinstance(found, BrokenError) else None) == step
