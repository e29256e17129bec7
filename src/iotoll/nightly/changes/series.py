"""The nights of a history as series, one per board, cell and section."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from iotoll.nightly.changes.detector import Floats
from iotoll.nightly.history.query import Database

NIGHTS = 1000
"""Nights that are looked at, unless asked for more."""


@dataclass(frozen=True)
class Night:
    """One night of one board on one branch: a row of the table ``runs``."""

    row: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        try:
            return self.row[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def kernel(self) -> str:
        """What was measured: the commit, or the image where the tree is no git tree."""
        return str(self.row["commit"] or self.row["image_sha256"])


@dataclass(frozen=True)
class Series:
    """One value per night; NaN where there is none. ``reference`` is of the pinned kernel."""

    branch: str
    board: str
    cell: str
    section: str
    values: Floats
    reference: Floats

    @property
    def key(self) -> str:
        """Its name, unique in a track."""
        return f"{self.cell}/{self.section}"

    @property
    def followed(self) -> Floats:
        """What the detector sees of a noisy clock: log of tip over reference, or of the tip."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self.values)
            # Without a reference in every night there is no common scale.
            known = ~np.isnan(self.values)
            if known.any() and not np.isnan(self.reference[known]).any():
                logs = logs - np.log(self.reference)
        logs[~np.isfinite(logs)] = np.nan
        return logs


@dataclass(frozen=True)
class Track:
    """One board on one branch: its nights in order, and its series over them."""

    branch: str
    board: str
    clock: str
    unit: str
    nights: list[Night]
    series: list[Series] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name among all tracks."""
        return f"{self.branch}@{self.board}"

    @property
    def is_exact(self) -> bool:
        """Whether its board repeats itself."""
        return self.clock == "instructions"

    @cached_property
    def measured(self) -> list[int]:
        """Indices of the nights that have values: their own, or those of a tip that stood still."""
        return [i for i, night in enumerate(self.nights) if night.status != "failed"]

    @cached_property
    def resets(self) -> frozenset[int]:
        """Nights from which on the board or its job was another one."""
        known = self.measured
        pairs = itertools.pairwise(known)
        return frozenset(
            b for a, b in pairs if self.nights[a].board_sha256 != self.nights[b].board_sha256
        )


def tracks(database: Database, branch: str | None = None, nights: int = NIGHTS) -> list[Track]:
    """All tracks of a history or of one branch, by branch and board, of the last ``nights``."""
    by_track: dict[tuple[str, str], list[Night]] = {}
    for row in database.runs(branch):
        by_track.setdefault((row["branch"], row["board"]), []).append(Night(row))
    return [_track(database, *key, _decided(rows)[-nights:]) for key, rows in by_track.items()]


def _decided(rows: list[Night]) -> list[Night]:
    """One entry a night: a later run that succeeded stands for those that failed."""
    chosen: dict[str, Night] = {}
    for night in rows:
        known = chosen.get(night.night)
        if known is None or known.status == "failed" or night.status == "measured":
            chosen[night.night] = night
    return list(chosen.values())


def _track(database: Database, branch: str, board: str, nights: list[Night]) -> Track:
    clocks = [night for night in nights if night.clock]
    clock, unit = (clocks[-1].clock, clocks[-1].unit) if clocks else ("", "")
    lines = _lines(database.values(branch, board, nights[0].night), nights)
    # The same kernel on an exact board gives the same values, so it did not boot.
    for index, night in enumerate(nights):
        if index and night.status == "unmoved":
            for line in lines.values():
                line[index] = line[index - 1]
            for key in (key for key in lines if key[2] == "step"):
                lines[key][index] = 0.0
    empty = np.full(len(nights), np.nan)
    series = [
        Series(
            branch,
            board,
            cell,
            section,
            _added_up(line, lines.get((cell, section, "step"), empty)),
            lines.get((cell, section, "reference"), empty),
        )
        for (cell, section, side), line in sorted(lines.items())
        if side == "tip"
    ]
    return Track(branch, board, clock, unit, nights, series)


def _added_up(medians: Floats, steps: Floats) -> Floats:
    """The first median and what each night moved; where no step is known, what medians moved by."""
    if np.isnan(steps).all():
        return medians
    values, last = medians.copy(), -1
    for index in np.flatnonzero(~np.isnan(medians)).tolist():
        if last >= 0:
            step = steps[index]
            moved = medians[index] - medians[last] if np.isnan(step) else step
            values[index] = values[last] + moved
        last = index
    return values


def _lines(
    batches: Iterable[pa.RecordBatch], nights: list[Night]
) -> dict[tuple[str, str, str], Floats]:
    """By cell, section and side one value per night; shape (nights,) each."""
    place = {night.run: index for index, night in enumerate(nights)}
    lines: dict[tuple[str, str, str], Floats] = {}
    for batch in batches:
        runs, names = _codes(batch.column("run"))
        at = np.array([place.get(name, -1) for name in names], dtype=np.int64)[runs]
        values = batch.column("value").to_numpy(zero_copy_only=False)
        columns = [_codes(batch.column(name)) for name in ("cell", "section", "side")]
        code = np.zeros(len(batch), dtype=np.int64)
        for codes, known in columns:
            code = code * len(known) + codes
        order = np.argsort(code, kind="stable")
        bounds = np.flatnonzero(np.diff(code[order], prepend=-1, append=-1))
        for low, high in itertools.pairwise(bounds):
            rows = order[low:high]
            cell, section, side = (known[codes[rows[0]]] for codes, known in columns)
            line = lines.setdefault((cell, section, side), np.full(len(nights), np.nan))
            rows = rows[at[rows] >= 0]
            line[at[rows]] = values[rows]
    return lines


def _codes(column: pa.Array) -> tuple[Any, list[str]]:
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column.indices.to_numpy(zero_copy_only=False), column.dictionary.to_pylist()
