"""The tables of the history, and what a run directory adds to them.

``measurements`` has one row per run, side, cell, section and statistic; ``runs`` one per run, a
night that failed included; ``boards`` one per state of a board. The columns are SCHEMAS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import ResultError, UsageError
from iotoll.records import results
from iotoll.records.models import (
    CellRecord,
    Clock,
    RunManifest,
    Section,
    SideResult,
    VerdictRecord,
)
from iotoll.records.models.analysis import Stats
from iotoll.records.rundir import RunDir

VERSION = 2
"""Version of SCHEMAS, in ``format.json`` and in each file; `migrate` brings older files to it."""

_RUN_NAMES = (
    *("run", "branch", "board", "night", "created", "clock", "unit", "status", "reason"),
    *("commit", "subject", "version", "release", "reference"),
    *("image_sha256", "board_sha256", "url"),
)
_BOARD_NAMES = ("board", "board_sha256", "accelerator", "tools", "first_run")
_NAME = pa.dictionary(pa.int32(), pa.string())
SCHEMAS = {
    "runs": pa.schema([(name, pa.string()) for name in _RUN_NAMES] + [("boots", pa.int32())]),
    "measurements": pa.schema(
        [
            ("run", _NAME),
            ("branch", _NAME),
            ("board", _NAME),
            ("night", _NAME),
            ("side", _NAME),
            ("cell", _NAME),
            ("section", _NAME),
            ("statistic", _NAME),
            ("value", pa.float64()),
        ]
    ),
    "boards": pa.schema([(name, pa.string()) for name in _BOARD_NAMES]),
}
"""Columns of each table. ``night`` is an ISO date; ``value`` is in the run's ``unit``."""

STATUSES = ("measured", "failed", "unmoved")
_BRANCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")


@dataclass(frozen=True)
class Point:
    """What one run adds: all of its values, or the reason why it has none.

    ``run`` is a row of the table ``runs``; a gap has no measurements and no board row.
    """

    run: dict[str, Any]
    measurements: pa.Table
    board: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """The run's id, made of its contents."""
        return str(self.run["run"])


def of_run(
    directory: RunDir,
    branch: str,
    night: str | None = None,
    release: str = "",
    url: str = "",
    subject: str = "",
) -> Point:
    """What the run in ``directory`` adds; without a result it is a gap with the failure's words.

    In a gate's run the candidate is the tip and the base the pinned reference. Raises UsageError
    for an impossible branch or night, ResultError where the run has neither result nor failure.
    """
    manifest = directory.manifest
    if manifest.kind == "gate" and manifest.candidate_kind == "none" and manifest.aa:
        raise UsageError(f"{directory.root}: a run of one kernel with itself does not belong in it")
    row = blank(branch, manifest.board, night or manifest.created[:10])
    row |= {"created": manifest.created, "clock": manifest.clock.value, "release": release}
    row |= {"unit": manifest.clock.unit.value, "url": url}
    tip = directory.side("candidate" if manifest.kind == "gate" else "base") / "result.json"
    if not tip.is_file():
        return _gap(directory, manifest, row)
    sides = {"tip": tip}
    if manifest.kind == "gate":
        sides["reference"] = directory.side("base") / "result.json"
    loaded = {side: results.read(path, SideResult) for side, path in sides.items()}
    digests = [file_sha256(path) for path in sides.values()]
    row["run"] = json_sha256([branch, row["night"], manifest.model_dump(mode="json"), digests])[:24]
    row |= _kernel(loaded["tip"], subject)
    if "reference" in loaded:
        reference = loaded["reference"]
        source = reference.source
        row["reference"] = (source and source.commit) or reference.build.image_sha256
    rows = [(side, *value) for side, result in loaded.items() for value in values(result)]
    if not rows:
        row |= {"status": "failed", "reason": _no_values(loaded["tip"])}
    return Point(row, measurements(row, rows), _board(row, loaded["tip"]))


def gap(branch: str, board: str, night: str, reason: str, **more: str) -> Point:
    """A night without values; ``more`` are other columns of ``runs``, such as ``status``."""
    row = blank(branch, board, night) | {"status": "failed", "reason": reason} | more
    row["run"] = json_sha256(row)[:24]
    return Point(row, measurements(row, []))


def blank(branch: str, board: str, night: str) -> dict[str, Any]:
    """A row of ``runs`` with its partition; raises UsageError for impossible names."""
    if not _BRANCH.fullmatch(branch) or ".." in branch:
        raise UsageError(f"branch {branch!r}: letters, digits and . _ / - only, at most 100")
    try:
        date.fromisoformat(night)
    except ValueError as error:
        raise UsageError(f"night {night!r}: name a date such as 2026-11-23") from error
    row: dict[str, Any] = dict.fromkeys(SCHEMAS["runs"].names, "")
    created = f"{night}T00:00:00+00:00"
    return row | {
        "branch": branch,
        "board": board,
        "night": night,
        "created": created,
        "status": "measured",
        "boots": 0,
    }


def measurements(row: dict[str, Any], rows: list[tuple[str, str, str, str, float]]) -> pa.Table:
    """The table of ``rows`` (side, cell, section, statistic, value) of one run."""
    columns = list(zip(*rows, strict=True)) or [()] * 5
    fixed = [
        pa.array([row[name]] * len(rows), pa.string())
        for name in ("run", "branch", "board", "night")
    ]
    arrays = fixed + [pa.array(column, pa.string()) for column in columns[:4]]
    arrays.append(pa.array(columns[4], pa.float64()))
    return pa.table(arrays, names=SCHEMAS["measurements"].names).cast(SCHEMAS["measurements"])


def values(result: SideResult) -> Iterator[tuple[str, str, str, float]]:
    """(cell, section, statistic, value) of every usable cell, each the median over its boots.

    Software sections are `own` counts on the clock `instructions`, and wall-to-wall on `time`.
    """
    for cell, records in result.cells.items():
        usable = [r for r in records if r.invalid is None]
        boots = [dict(_statistics(record, result.clock)) for record in usable]
        for key in boots[0] if boots else ():
            found = [boot[key] for boot in boots if key in boot]
            yield cell, key[0], key[1], float(np.median(found))


def _statistics(record: CellRecord, clock: Clock) -> Iterator[tuple[tuple[str, str], float]]:
    own = clock is Clock.INSTRUCTIONS
    for section, values_of in record.sections.items():
        stats = values_of.own if own and section is not Section.HARDWARE else values_of.elapsed
        yield from _named(section.value, stats)
        if values_of.corrected_median is not None:
            yield (section.value, "corrected"), values_of.corrected_median
    yield from _named("overhead", record.overhead.own if own else record.overhead.elapsed)
    yield from _named("total", record.total.elapsed)


def _named(section: str, stats: Stats) -> Iterator[tuple[tuple[str, str], float]]:
    for name in ("median", "trimmed_mean", "p99"):
        value = getattr(stats, name)
        if value is not None:
            yield (section, name), float(value)


def _kernel(result: SideResult, subject: str) -> dict[str, Any]:
    source, boots = result.source, result.boots
    return {
        "commit": (source and source.commit) or "",
        "subject": " ".join(subject.split())[:200],
        "version": source.version if source else "",
        "image_sha256": result.build.sha256,
        "board_sha256": boots[0].board_sha256 if boots else "",
        "boots": len(boots),
    }


def _board(row: dict[str, Any], result: SideResult) -> dict[str, Any] | None:
    if not result.boots:
        return None
    boot = result.boots[0]
    return {
        "board": row["board"],
        "board_sha256": boot.board_sha256,
        "accelerator": boot.accelerator,
        "tools": "; ".join(f"{k} {v}" for k, v in sorted(boot.tools.items()) if k != "kernel"),
        "first_run": row["run"],
    }


def _no_values(result: SideResult) -> str:
    why = {record.invalid for cell in result.cells.values() for record in cell} - {None}
    return f"no usable cell: {sorted(map(str, why))[0]}" if why else "no cell was measured"


def _gap(directory: RunDir, manifest: RunManifest, row: dict[str, Any]) -> Point:
    failure = None
    if directory.verdict.is_file():
        failure = results.read(directory.verdict, VerdictRecord).failure
    if failure is None:
        raise ResultError(
            f"{directory.root} holds neither a result nor a failure: finish the run first"
        )
    row |= {"status": "failed", "reason": f"{failure.step}: {failure.message}"[:500]}
    row["run"] = json_sha256([row, manifest.model_dump(mode="json")])[:24]
    return Point(row, measurements(row, []))
