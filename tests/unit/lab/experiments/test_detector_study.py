"""The study of detectors: its simulated nights, and what it counts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from iotoll_lab.experiments.alarms import perfherder_alarms
from iotoll_lab.experiments.detector import (
    CHANGED,
    STEP_AT,
    Nights,
    changed_row,
    detector_command,
    noise,
    quiet_row,
)

from iotoll.core.errors import UsageError

NEVER = frozenset[int]()


@pytest.mark.parametrize(("kind", "rho"), [("iid", 0.0), ("t3", 0.0), ("ar3", 0.3), ("ar5", 0.5)])
def test_noise_is_what_it_says(kind: str, rho: float) -> None:
    made = noise(kind, np.random.default_rng(5), (40, 500))
    assert np.std(made) == pytest.approx(1, abs=0.15)
    assert np.mean(made[:, 1:] * made[:, :-1]) == pytest.approx(rho, abs=0.05)


def test_alarms_and_waits_are_counted() -> None:
    quiet = quiet_row("x", "m", lambda line, resets: [3, 9], Nights(np.zeros((2, 50))))
    assert (quiet.series_nights, quiet.alarms_per_100) == (100, 4.0)
    nights = CHANGED["iid, step of 2"](np.random.default_rng(1), (4, STEP_AT + 40))
    row = changed_row("x", "m", lambda line, resets: [7, STEP_AT + 4], nights)
    assert (row.found, row.mean_wait) == (1.0, 5.0)
    assert row.alarms_per_100 == pytest.approx(100 / STEP_AT)
    assert changed_row("x", "m", lambda line, resets: [], nights).mean_wait is None


def test_perfherders_rule_waits_for_twelve_nights_and_knows_swaps() -> None:
    values = np.random.default_rng(3).normal(0, 1, 100)
    values[60:] += 6
    values[[10, 20]] = np.nan
    (night,) = perfherder_alarms(values, NEVER)
    assert 70 <= night <= 73
    assert perfherder_alarms(values, frozenset({60})) == []


def test_the_command_writes_what_it_counted(tmp_path: Path) -> None:
    out = tmp_path / "detector.json"
    words = ["--series", "3", "--nights", "40", "--seed", "1", "--out", str(out)]
    found = CliRunner().invoke(detector_command, words, catch_exceptions=False)
    assert found.exit_code == 0
    rows = json.loads(out.read_text())["rows"]
    assert {row["method"] for row in rows} == {"iotoll", "Perfherder"}
    step = next(r for r in rows if r["nights"] == "iid, step of 2" and r["method"] == "iotoll")
    assert step["found"] == 1.0


def test_an_interpreter_without_otava_is_refused(tmp_path: Path) -> None:
    found = CliRunner().invoke(detector_command, ["--otava", str(tmp_path / "python")])
    assert isinstance(found.exception, UsageError)
    assert "--otava" in str(found.exception)


def test_a_published_series_is_read_and_not_run(tmp_path: Path) -> None:
    source = tmp_path / "series.py"
    rng = np.random.default_rng(8)
    values = [round(float(v)) for v in [*rng.normal(2000, 10, 40), *rng.normal(2200, 10, 20)]]
    source.write_text(f"raise SystemExit\nSMALL = [1, 2]\ndef series():\n    return {values}\n")
    words = ["--published", str(source)]
    found = CliRunner().invoke(detector_command, words, catch_exceptions=False)
    assert found.exit_code == 0
    assert "iotoll: told on 41: +10" in found.output
    assert "since 40" in found.output
    source.write_text("SERIES = ['a', 1]\n")
    assert isinstance(CliRunner().invoke(detector_command, words).exception, UsageError)
