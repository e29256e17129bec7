"""Two sides of a run on the clock `time`, with figures of one's own choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from iotoll.records import results
from iotoll.records.models import CellRecord, Clock, SideResult
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.records.models.run import Side
from tests.unit.runs import EXAMPLES

CELLS = ["ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"]
FIGURES = ["overhead", *(s.value for s in SOFTWARE_SECTIONS)]


def side(
    name: Side,
    values: np.ndarray,
    cells: Sequence[str] = CELLS,
    invalid: Mapping[tuple[str, int], str] | None = None,
) -> SideResult:
    """A side whose boots have these values, ns: shape (boots, cells, 4), as `FIGURES`."""
    example = results.read(EXAMPLES / "result.json", SideResult)
    record = results.read(EXAMPLES / "cell.json", CellRecord)
    boots = [
        example.boots[0].model_copy(
            update={"side": name, "boot": n + 1, "clock": Clock.TIME, "seconds": 30.0}
        )
        for n in range(len(values))
    ]
    found = {
        cell: [
            _record(record, cell, row[at], name, n, (invalid or {}).get((cell, n)))
            for n, row in enumerate(values)
        ]
        for at, cell in enumerate(cells)
    }
    return example.model_copy(
        update={
            "side": name,
            "clock": Clock.TIME,
            "unit": Clock.TIME.unit,
            "boots": boots,
            "cells": found,
        }
    )


def _record(
    record: CellRecord, cell: str, row: np.ndarray, side: Side, boot: int, invalid: str | None
) -> CellRecord:
    overhead, *parts = (float(v) for v in row)
    base = record.overhead.elapsed
    sections = {
        section: record.sections[section].model_copy(
            update={"elapsed": base.model_copy(update={"trimmed_mean": value})}
        )
        for section, value in zip(SOFTWARE_SECTIONS, parts, strict=True)
    }
    return record.model_copy(
        update={
            "cell": cell,
            "clock": Clock.TIME,
            "unit": Clock.TIME.unit,
            "trace_sha256": f"{side}-{boot}",
            "sections": {**record.sections, **sections},
            "overhead": record.overhead.model_copy(
                update={"elapsed": base.model_copy(update={"trimmed_mean": overhead})}
            ),
            "invalid": invalid,
        }
    )


def noisy(
    seed: int,
    pairs: int,
    noise: float = 0.005,
    growth: Mapping[tuple[int, int], float] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Base and candidate values of some pairs; ``growth`` by (cell, figure)."""
    rng = np.random.default_rng(seed)
    shape = (pairs, len(CELLS), len(FIGURES))
    base, candidate = (10_000 * np.exp(rng.normal(0, noise / 2**0.5, shape)) for _ in range(2))
    for (cell, figure), share in (growth or {}).items():
        candidate[:, cell, figure] *= 1 + share
    return base, candidate
