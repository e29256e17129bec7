"""The nights on which a detector raises an alarm: iotoll's, and others' on the same series."""

from __future__ import annotations

import ast
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np

from iotoll.core.errors import UsageError
from iotoll.nightly.changes.detector import Floats, noisy_steps

Alarms = Callable[[Floats, frozenset[int]], list[int]]
"""(values of one series, resets) → the nights of the alarms; NaN is a gap."""

BACK, FORE, LIMIT = 12, 12, 7.0
"""Perfherder's rule: values before and after, and the weighted t value of an alert."""

_OTAVA = """
import json, sys
from otava.analysis import compute_change_points
for line in sys.stdin:
    found = compute_change_points(json.loads(line), window_len=50, max_pvalue=0.001)
    points = found[0] if isinstance(found, tuple) else found
    print(json.dumps([int(p.index) for p in points]), flush=True)
"""


def iotoll_alarms(values: Floats, resets: frozenset[int]) -> list[int]:
    """The nights on which iotoll's detector claims a step."""
    return [step.found for step in noisy_steps(values, resets)]


def perfherder_alarms(values: Floats, resets: frozenset[int]) -> list[int]:
    """The nights on which Perfherder's rule would alert: it waits for FORE values after a step.

    A Welch t of linearly weighted values; of neighbours the largest is the alert.
    """
    known = np.flatnonzero(~np.isnan(values))
    line = values[known]
    weights = np.arange(1, BACK + 1) / BACK
    scores = np.zeros(len(line))
    for at in range(BACK, len(line) - FORE + 1):
        old = _weighted(line[at - BACK : at], weights)
        new = _weighted(line[at : at + FORE], weights[::-1])
        error = np.sqrt(old[1] / BACK + new[1] / FORE)
        scores[at] = abs(new[0] - old[0]) / error if error else 0.0
    alarms = []
    for at in np.flatnonzero(scores > LIMIT).tolist():
        near = scores[max(0, at - FORE) : at + FORE + 1]
        if scores[at] == near.max() and not resets & set(range(known[at - 1] + 1, known[at] + 1)):
            alarms.append(int(known[min(at + FORE - 1, len(line) - 1)]))
    return alarms


def _weighted(values: Floats, weights: Floats) -> tuple[float, float]:
    mean = float(np.average(values, weights=weights))
    # Of weights the effective number counts.
    freedom = 1 - float((weights**2).sum() / weights.sum() ** 2)
    return mean, float(np.average((values - mean) ** 2, weights=weights)) / freedom


def otava_alarms(python: Path) -> Alarms:
    """Otava's alarms, with its own settings; it runs each night over the last 90 nights.

    A change point within 3 nights of one that was told is the same one. Raises OSError or
    subprocess.SubprocessError where ``python`` has no Otava.
    """
    subprocess.run([python, "-c", "import otava.analysis"], check=True, capture_output=True)
    process = subprocess.Popen(
        [python, "-c", _OTAVA], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def points(values: list[float]) -> list[int]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(values) + "\n")
        process.stdin.flush()
        found: list[int] = json.loads(process.stdout.readline())
        return found

    def alarms(values: Floats, resets: frozenset[int]) -> list[int]:
        told: list[tuple[int, int]] = []
        known = np.flatnonzero(~np.isnan(values))
        bounds = sorted(resets)
        for count in range(12, len(known) + 1):
            tonight = int(known[count - 1])
            since = max([b for b in bounds if b <= tonight], default=0)
            part = known[max(0, count - 90) : count]
            part = part[part >= since]
            if len(part) < 12:
                continue
            for index in points(values[part].tolist()):
                night = int(part[min(index, len(part) - 1)])
                if all(abs(night - other) > 3 for other, _ in told):
                    told.append((night, tonight))
        return [tonight for _, tonight in told]

    return alarms


def published_series(path: Path) -> Floats:
    """Logs of the longest list of numbers in a Python source, which is parsed and not run.

    Otava's source package has such a one, with the changes that people see in it in words:
    ``tests/tigerbeetle_test.py``. Raises UsageError.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError) as error:
        raise UsageError(f"--published {path}: not a Python source: {error}") from error
    found = [_numbers(node) for node in ast.walk(tree) if isinstance(node, ast.List)]
    longest = max(found, key=len, default=[])
    if len(longest) < 2 * BACK or min(longest) <= 0:
        raise UsageError(f"--published {path}: no list of {2 * BACK} or more positive numbers")
    return np.asarray(np.log(longest))


def _numbers(node: ast.List) -> list[float]:
    values = [e.value for e in node.elts if isinstance(e, ast.Constant)]
    numbers = [float(v) for v in values if isinstance(v, int | float)]
    return numbers if len(numbers) == len(node.elts) else []
