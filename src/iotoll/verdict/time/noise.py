"""The history of a board's noise: pairs of boots of one kernel with itself, kept as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError
from iotoll.core.paths import cache_dir
from iotoll.records import results
from iotoll.records.models import NoisePair, NoiseRecord
from iotoll.verdict.time.pairs import Pairs
from iotoll.verdict.time.variance import FLOOR, of_history

Floats = NDArray[np.float64]

FEWEST = 8
"""Pairs with fewer of which a figure has no history."""

KEPT = 240
"""Pairs of a board that are kept, newest last: a board changes over the months."""


@dataclass(frozen=True)
class NoiseHistory:
    """What is known of figures beforehand: shapes (pairs, figures), (figures,) and (figures,).

    ``far`` is the share of their pairs that were set aside as far from the others.
    """

    variance: Floats
    freedom: Floats
    far: Floats

    @property
    def pairs(self) -> int:
        """Pairs that the history of the middle figure rests on."""
        known = self.freedom[self.freedom > 0]
        return int(np.median(known)) + 1 if len(known) else 0


def history_file(board: str, matrix: str) -> Path:
    """Where a board's history is kept on this machine."""
    return cache_dir() / "noise" / f"{Path(board).stem}-{Path(matrix).stem}.json"


def load(path: Path, board: str, matrix: str) -> NoiseRecord:
    """Read a history; an empty one when there is no file. UsageError for another board's."""
    if not path.is_file():
        return NoiseRecord(board=board, matrix=matrix, pairs=[])
    record = results.read(path, NoiseRecord)
    if (record.board, record.matrix) != (board, matrix):
        raise UsageError(
            f"{path} is the noise of board {record.board} and matrix {record.matrix}, not of "
            f"{board} and {matrix}: move it away, or name another file (iotoll noise --out)"
        )
    return record


def extended(record: NoiseRecord, pairs: Pairs) -> NoiseRecord:
    """The history with more pairs of one kernel with itself; those it has already count once."""
    known = {pair.run for pair in record.pairs}
    added = []
    for row, pair in zip(pairs.ratios, pairs.records, strict=True):
        ratios: dict[str, dict[str, float]] = {}
        for (cell, figure), value in zip(pairs.names, row.tolist(), strict=True):
            if np.isfinite(value):
                ratios.setdefault(cell, {})[figure] = round(value, 9)
        one = NoisePair(device=pair.device, run=json_sha256(ratios), ratios=ratios)
        if ratios and one.run not in known:
            added.append(one)
    return record.model_copy(update={"pairs": [*record.pairs, *added][-KEPT:]})


def history(
    record: NoiseRecord, names: Sequence[tuple[str, str]], devices: Sequence[str]
) -> NoiseHistory:
    """The history of figures (cell, figure) for pairs that ran on these devices, in order.

    A device without pairs of its own has those of all devices of its type. A figure without
    history has freedom 0 and variance 1.
    """
    variance, freedom = np.ones((len(devices), len(names))), np.full(len(names), np.inf)
    far = np.zeros(len(names))
    for device in dict.fromkeys(devices):
        own, known, aside = _of_device(record, names, device)
        variance[[d == device for d in devices]] = own
        freedom, far = np.minimum(freedom, known), np.maximum(far, aside)
    freedom = np.where(np.isfinite(freedom), freedom, 0.0)
    # Where one of several boards is unknown, none is: a mixture would be neither.
    return NoiseHistory(np.where(freedom > 0, variance, 1.0), freedom, far)


def _of_device(
    record: NoiseRecord, names: Sequence[tuple[str, str]], device: str
) -> tuple[Floats, Floats, Floats]:
    own = [pair for pair in record.pairs if pair.device == device]
    used = own if len(own) >= FEWEST else record.pairs
    variance = np.ones(len(names))
    freedom, far = np.zeros((2, len(names)))
    for at, (cell, figure) in enumerate(names):
        values = [v for p in used if (v := p.ratios.get(cell, {}).get(figure)) is not None]
        if len(values) < FEWEST:
            continue
        found = of_history(np.array(values)[:, None])
        if found.variance[0] > FLOOR:
            variance[at], freedom[at], far[at] = found.variance[0], len(values) - 1, found.far[0]
    return variance, freedom, far
