"""Reads fio's own JSON (``--output-format=json+``): what fio did, and how long it took."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iotoll.core.errors import InfrastructureError

BUCKET = 1 / 64
"""Relative width of fio's latency buckets at its widest (FIO_IO_U_PLAT_BITS is 6); a percentile is
the middle of its bucket, so up to half of this off."""


@dataclass(frozen=True)
class Latency:
    """One of fio's latencies over reads and writes of a job, in ns.

    ``percentiles`` holds those of ``WANTED`` that fio recorded: by default only those of clat.
    """

    count: int
    mean: float
    percentiles: Mapping[float, float]


WANTED = (50.0, 99.0)

MOST = 2**63
"""No count and no time (ns) of fio's is as large."""


@dataclass(frozen=True)
class FioJob:
    """Totals of one job (or of one reporting group), ramp time excluded by fio itself.

    Jobs of one name (``numjobs`` without ``group_reporting``) are one job. ``options`` are those of
    fio's JSON, the global ones first; ``trims`` of the ``ios`` discard blocks. ``syncs``, such as
    those of ``fsync=N``, come on top of the ``ios``.
    """

    name: str
    ios: int
    bytes: int
    error: int
    slat: Latency | None
    clat: Latency | None
    lat: Latency | None
    trims: int = 0
    syncs: int = 0
    options: Mapping[str, str] = field(default_factory=dict)

    def totals(self) -> dict[str, Any]:
        """The totals as a cell's record keeps them; keys without a value are left out."""
        kept: dict[str, Any] = {"ios": self.ios, "bytes": self.bytes, "error": self.error}
        for name, found in (("lat", self.lat), ("clat", self.clat)):
            if found:
                kept[f"{name}_mean_ns"] = found.mean
                kept |= {f"{name}_p{p:g}_ns": v for p, v in found.percentiles.items()}
        return kept


def read_jobs(path: Path) -> dict[str, FioJob]:
    """Read all jobs by name; raises InfrastructureError naming the file when it is not fio's."""
    try:
        text = path.read_text()
        data = json.loads(text[text.index("{\n") :])  # fio writes notes before its JSON
    except (OSError, ValueError, RecursionError) as error:
        raise InfrastructureError(f"{path}: not fio's JSON: {str(error)[:200]}") from error
    return jobs_of(data, str(path))


def jobs_of(data: Any, where: str) -> dict[str, FioJob]:
    """All jobs of fio's parsed JSON by name; raises InfrastructureError naming ``where``."""
    try:
        shared = _options(data.get("global options"))
        named: dict[str, list[Mapping[str, Any]]] = {}
        for job in data["jobs"]:
            named.setdefault(job["jobname"], []).append(job)
        return {name: _job(name, jobs, shared) for name, jobs in named.items()}
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise InfrastructureError(f"{where}: not fio's JSON: {error!r}"[:400]) from error


def joined(name: str, jobs: Sequence[FioJob]) -> FioJob:
    """All of some jobs as one; raises ValueError without any.

    Options that they do not share say nothing of all, and percentiles cannot be joined.
    """
    first, *rest = jobs
    if not rest:
        return first
    shared = {k: v for k, v in first.options.items() if all(j.options.get(k) == v for j in rest)}
    engines = {"ioengine", "rw", "bs"}
    if any((job.options.keys() & engines) - shared.keys() for job in jobs):
        shared = {}
    return FioJob(
        name=name,
        ios=sum(job.ios for job in jobs),
        bytes=sum(job.bytes for job in jobs),
        error=next((job.error for job in jobs if job.error), 0),
        slat=_joined([job.slat for job in jobs]),
        clat=_joined([job.clat for job in jobs]),
        lat=_joined([job.lat for job in jobs]),
        trims=sum(job.trims for job in jobs),
        syncs=sum(job.syncs for job in jobs),
        options=shared,
    )


def _joined(parts: Sequence[Latency | None]) -> Latency | None:
    known = [part for part in parts if part is not None]
    count = sum(part.count for part in known)
    if not count:
        return None
    return Latency(count, sum(part.mean * part.count for part in known) / count, {})


def _job(name: str, jobs: Sequence[Mapping[str, Any]], shared: Mapping[str, str]) -> FioJob:
    sides = [job[side] for job in jobs for side in ("read", "write", "trim") if side in job]
    busy = [side for side in sides if side["total_ios"]]
    return FioJob(
        name=name,
        ios=sum(_count(side["total_ios"]) for side in sides),
        bytes=sum(_count(side["io_bytes"]) for side in sides),
        error=next((_count(abs(job["error"])) for job in jobs if job["error"]), 0),
        slat=_latency([side.get("slat_ns", {}) for side in busy]),
        clat=_latency([side.get("clat_ns", {}) for side in busy]),
        lat=_latency([side.get("lat_ns", {}) for side in busy]),
        trims=sum(_count(job["trim"]["total_ios"]) for job in jobs if "trim" in job),
        syncs=sum(_count(job["sync"].get("total_ios", 0)) for job in jobs if "sync" in job),
        options={**shared, **_options(jobs[0].get("job options"))},
    )


def _options(found: Mapping[str, Any] | None) -> dict[str, str]:
    return {key: str(value) for key, value in (found or {}).items()}


def _count(value: Any) -> int:
    """A count as fio prints it; raises ValueError for what no fio counts up to."""
    if not isinstance(value, int) or not 0 <= value < MOST:
        raise ValueError(f"not a count ({type(value).__name__})")
    return value


def _time(value: Any) -> float:
    """A latency in ns; raises ValueError for what is no time."""
    number = float(value)
    if not 0 <= number < MOST:
        raise ValueError("not a latency")
    return number


def _latency(parts: Sequence[Mapping[str, Any]]) -> Latency | None:
    parts = [part for part in parts if part.get("N")]
    count = sum(_count(part["N"]) for part in parts)
    if not count:
        return None
    mean = sum(_time(part["mean"]) * _count(part["N"]) for part in parts) / count
    percentiles = {p: v for p in WANTED if (v := _percentile(parts, p)) is not None}
    return Latency(count, mean, percentiles)


def _percentile(parts: Sequence[Mapping[str, Any]], percent: float) -> float | None:
    """Nearest rank over the buckets of all parts; else what fio says of a single part."""
    if all(part.get("bins") for part in parts):
        bins: dict[float, int] = {}
        for part in parts:
            for value, count in part["bins"].items():
                bins[_time(value)] = bins.get(_time(value), 0) + _count(count)
        rank = math.ceil(percent / 100 * sum(bins.values()))
        seen = 0
        for value in sorted(bins):
            seen += bins[value]
            if seen >= rank:
                return value
    if len(parts) == 1 and parts[0].get("percentile"):
        found = parts[0]["percentile"].get(f"{percent:.6f}")
        return None if found is None else _time(found)
    return None
