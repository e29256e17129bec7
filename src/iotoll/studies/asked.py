"""What a published fio command asks for beside what fio says that it ran.

A benchmark's text, its command, fio's own header and its result need not agree; a value is worth
what ran. Everything here is read from fio's JSON and from the options of the command.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from iotoll.core.errors import InfrastructureError, UsageError

KNOWN = {
    "rw": r"(rand)?(read|write|rw)",
    "bs": r"\d+[kKmM]?",
    "size": r"\d+[kKmMgG]?",
    "direct": r"[01]",
    "iodepth": r"\d+",
    "numjobs": r"\d+",
    "runtime": r"\d+",
    "thread": r"1?",
    "group_reporting": r"1?",
    "ioengine": r"[a-z_]+",
    "offset_increment": r"\d+[kKmMgG]?",
    "name": r"[\w-]+",
    "filename": r"[\w./-]+",
}
"""The options that a published command may have, and the form of their values."""
ONE_IN_FLIGHT = ("psync", "sync", "vsync", "pvsync", "pvsync2", "mmap")
"""fio's engines that have one I/O in flight whatever iodepth says."""
YEAR_2000_MS = 946_684_800_000
LITTLE = 0.05
"""By how much IOPS x latency may differ from the number of jobs."""
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}

Kind = Literal["as asked", "differs", "note"]


@dataclass(frozen=True)
class Check:
    """One comparison: what, asked, ran, and how they compare."""

    what: str
    asked: str
    ran: str
    verdict: Kind


@dataclass(frozen=True)
class Ran:
    """What fio reports of one job or reporting group; times in ns and ms, rates per second.

    ``partial``: the options are those that a published log names, and the others are not known.
    ``timestamp_ms`` is None where the log's date is not known.
    """

    options: Mapping[str, str]
    directions: tuple[str, ...]
    ios: int
    bytes: int
    runtime_ms: int
    clat_mean_ns: float
    clat_p99_ns: float
    lat_mean_ns: float
    timestamp_ms: int | None
    partial: bool = False

    @property
    def iops(self) -> float:
        """I/Os a second of fio's run time."""
        return self.ios * 1000 / self.runtime_ms if self.runtime_ms else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bandwidth over fio's run time."""
        return self.bytes * 1000 / self.runtime_ms if self.runtime_ms else 0.0


def parse_command(text: str) -> dict[str, str]:
    """The options of a fio command; raises UsageError for a word that is unknown or merged.

    Takes ``-opt=value``, ``--opt=value``, ``-opt value`` and flags, as fio does.
    """
    words = shlex.split(text)
    if not words or words[0] != "fio":
        raise UsageError(f"{text!r} is not a fio command: its first word is 'fio'")
    found: dict[str, str] = {}
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in KNOWN:
            raise UsageError(f"fio option {word!r} is unknown: there are {', '.join(KNOWN)}")
        if not equals and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if name in found:
            raise UsageError(f"fio option {name!r} is given twice")
        if not re.fullmatch(KNOWN[name], value):
            merged = re.search(r"-(\w+)=", value)
            hint = f": {merged[1]}= is merged into it, a blank is missing" if merged else ""
            raise UsageError(f"fio option {name}={value!r} has no valid value{hint}")
        found[name] = value
    return found


def read_fio(path: Path) -> dict[str, Ran]:
    """What each job of fio's JSON ran; raises InfrastructureError naming the file."""
    try:
        text = path.read_text()
        data = json.loads(text[text.index("{\n") :])  # fio writes notes before its JSON
        stamp = int(data.get("timestamp_ms", 0))
        shared = data.get("global options", {})
        return {job["jobname"]: _ran(job, shared, stamp) for job in data["jobs"]}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise InfrastructureError(f"{path}: not fio's JSON: {str(error)[:200]}") from error
    except RecursionError as error:
        raise InfrastructureError(f"{path}: not fio's JSON: too deep") from error


def _ran(job: Mapping[str, Any], shared: Mapping[str, Any], stamp: int) -> Ran:
    sides = {
        way: job[way] for way in ("read", "write", "trim") if job.get(way, {}).get("total_ios")
    }
    ios = sum(int(side["total_ios"]) for side in sides.values())

    def mean(key: str) -> float:
        total = sum(float(s[key]["mean"]) * int(s["total_ios"]) for s in sides.values())
        return total / ios if ios else 0.0

    percentiles = [s["clat_ns"].get("percentile", {}).get("99.000000", 0) for s in sides.values()]
    return Ran(
        options={k: str(v) for k, v in {**shared, **job.get("job options", {})}.items()},
        directions=tuple(sides),
        ios=ios,
        bytes=sum(int(side["io_bytes"]) for side in sides.values()),
        runtime_ms=max((int(side["runtime"]) for side in sides.values()), default=0),
        clat_mean_ns=mean("clat_ns"),
        clat_p99_ns=float(max(percentiles, default=0)),
        lat_mean_ns=mean("lat_ns"),
        timestamp_ms=stamp,
    )


def size_of(text: str) -> int:
    """Bytes of a size such as ``1024k``; fio's k is 1,024."""
    found = re.fullmatch(r"(\d+)([kmg]?)", text.lower())
    if found is None:
        raise UsageError(f"{text!r} is not a size of fio's")
    return int(found[1]) * _FACTORS[found[2]]


def checks(asked: Mapping[str, str], ran: Ran, requests: float | None) -> list[Check]:
    """Compare what was asked with what ran; ``requests`` is the number of requests per I/O."""
    return [
        *_options(asked, ran),
        _direction(asked, ran),
        _depth(asked, ran),
        _little(asked, ran),
        *_covered(asked, ran),
        _requests(ran, requests),
        _ended(asked, ran),
        _bandwidth(ran),
        *_clock(ran),
    ]


def _options(asked: Mapping[str, str], ran: Ran) -> list[Check]:
    found = []
    for name in ("rw", "bs", "ioengine", "numjobs", "size", "direct"):
        if name not in asked or (ran.partial and name not in ran.options):
            continue
        theirs = ran.options.get(name, "not in fio's JSON")
        same = asked[name].lower() == theirs.lower()
        if not same and name in ("bs", "size") and re.fullmatch(r"\d+[kmg]?", theirs.lower()):
            same = size_of(asked[name]) == size_of(theirs)
        found.append(Check(name, asked[name], theirs, "as asked" if same else "differs"))
    return found


def _direction(asked: Mapping[str, str], ran: Ran) -> Check:
    wanted = asked.get("rw", "read").removeprefix("rand")
    ways = " and ".join(ran.directions) or "nothing"
    expected = {"rw": "read and write"}.get(wanted, wanted)
    return Check("direction", expected, ways, "as asked" if ways == expected else "differs")


def _depth(asked: Mapping[str, str], ran: Ran) -> Check:
    wanted = asked.get("iodepth", "1")
    engine = ran.options.get("ioengine", "")
    if engine in ONE_IN_FLIGHT and wanted != "1":
        return Check("iodepth", wanted, f"1: {engine} has one I/O in flight per job", "differs")
    theirs = ran.options.get("iodepth", "1")
    return Check("iodepth", wanted, theirs, "as asked" if theirs == wanted else "differs")


def _in_flight(asked: Mapping[str, str], ran: Ran) -> int:
    one = ran.options.get("ioengine", "") in ONE_IN_FLIGHT
    depth = 1 if one else int(asked.get("iodepth", "1"))
    return int(asked.get("numjobs", "1")) * depth


def _little(asked: Mapping[str, str], ran: Ran) -> Check:
    wanted = _in_flight(asked, ran)
    found = ran.iops * ran.lat_mean_ns / 1e9
    good = abs(found / wanted - 1) <= LITTLE
    text = f"{found:.2f} (IOPS x mean latency)"
    return Check("I/Os in flight", str(wanted), text, "as asked" if good else "differs")


def _covered(asked: Mapping[str, str], ran: Ran) -> list[Check]:
    jobs = int(asked.get("numjobs", "1"))
    if jobs < 2 or "offset_increment" in asked or "size" not in asked:
        return []
    theirs = ran.options.get("size", "")
    one = size_of(theirs if re.fullmatch(r"\d+[kKmMgG]?", theirs) else asked["size"])
    text = f"{ran.bytes / 2**30:.2f} GiB of traffic over the same {one / 2**30:.2f} GiB"
    wanted = f"{jobs} jobs of {asked['size']}, without offset_increment"
    return [Check("area", wanted, text, "differs" if ran.bytes > one else "note")]


def _requests(ran: Ran, requests: float | None) -> Check:
    if not requests or not ran.ios:
        return Check("requests per I/O", "1", "not known", "note")
    each = ran.bytes / ran.ios / requests / 1024
    kind: Kind = "as asked" if requests < 1.01 else "differs"
    return Check("requests per I/O", "1", f"{requests:.2f}, about {each:.0f} KiB each", kind)


def _ended(asked: Mapping[str, str], ran: Ran) -> Check:
    limit = asked.get("runtime")
    seconds = ran.runtime_ms / 1000
    if limit is None:
        return Check("end", "by size", f"after {seconds:.1f} s", "as asked")
    early = seconds < 0.99 * float(limit)
    why = "by size" if early else "by run time"
    kind: Kind = "note" if early else "as asked"
    return Check("end", f"runtime of {limit} s", f"{why}, after {seconds:.1f} s", kind)


def _bandwidth(ran: Ran) -> Check:
    rate = ran.bytes_per_second
    text = f"{rate / 2**20:.1f} MiB/s = {rate / 1e6:.1f} MB/s, {ran.iops:.0f} IOPS"
    return Check(f"bandwidth of the {' and '.join(ran.directions) or 'job'}", "-", text, "note")


def _clock(ran: Ran) -> list[Check]:
    if ran.timestamp_ms is None:
        return []
    when = "before 2000:" if ran.timestamp_ms < YEAR_2000_MS else "after 2000;"
    return [Check("the board's date", "-", f"{when} not used", "note")]
