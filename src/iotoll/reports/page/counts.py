"""What qualifies a cell's figures, in words: counts that add up, marks, and fio's own view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from iotoll.measure.elements import load_elements
from iotoll.records.models import CellRecord, Section
from iotoll.records.text import clean, listed, number
from iotoll.verdict.elements import IN_TRACE, OF_PMU

_PARTS = (
    ("measured", "attributed"),
    ("no_request", "without a request"),
    ("dropped_lost", "dropped"),
    ("incomplete", "in flight"),
)
"""Counts that every I/O seen falls into, and what a reader is told: dropped ones touch lost
events, those in flight began before the trace or end after it."""

_RARE = (
    ("waited", "waited without an own request"),
    ("ambiguous", "not told apart"),
    ("other_device", "on another device"),
)
"""More of them, told when there are any."""


def count_line(record: CellRecord) -> str:
    """Return ``257 seen = 256 attributed + 0 dropped + 1 in flight``.

    What the parts do not explain is shown as such.
    """
    ios = record.ios
    if "seen" not in ios:
        return ""
    parts = [f"{number(ios[key])} {word}" for key, word in _PARTS if key in ios]
    parts += [f"{number(ios[key])} {word}" for key, word in _RARE if ios.get(key)]
    rest = ios["seen"] - sum(ios.get(key, 0) for key, _ in _PARTS + _RARE)
    if rest:
        parts.append(f"{number(rest)} unexplained")
    return f"{number(ios['seen'])} seen = {' + '.join(parts)}"


_ENDED_BY = {
    Section.SUBMISSION: "device",
    Section.HARDWARE: "interrupt",
    Section.RETURN: "end",
}
"""The mark of the record that ends a section; it was chosen among several events."""

_ALWAYS = {Section.VFS_FS: "block_bio_queue", Section.COMPLETION: "block_rq_complete"}
"""Sections that always end at the same event."""


def _events(found: Mapping[str, int]) -> str:
    ordered = sorted(found.items(), key=lambda f: (-f[1], f[0]))
    return ", ".join(f"{clean(event)} {number(count)}" for event, count in ordered)


def mark_line(record: CellRecord) -> str:
    """Return the event that ended each section, and for how many requests or I/Os."""
    if not any(record.marks.values()):
        return ""
    parts = []
    if start := record.marks.get("start"):
        parts.append(f"I/O begins at {_events(start)}")
    always = dict(_ALWAYS)
    if Section.COMPLETION in record.not_in_source:
        always[Section.HARDWARE] = always[Section.COMPLETION]
    for section in (s for s in Section if s not in record.not_in_source):
        found = record.marks.get(_ENDED_BY.get(section, ""), {})
        if event := always.get(section) or _events(found):
            parts.append(f"{section.value} ends at {event}")
    return "; ".join(parts)


def unseen_line(record: CellRecord) -> str:
    """Return the sections that the source does not tell of, and why."""
    by_reason: dict[str, list[str]] = {}
    for section in (s for s in Section if s in record.not_in_source):
        by_reason.setdefault(record.not_in_source[section], []).append(section.value)
    missing = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    if missing:
        missing.append("own time (it does not record what else ran)")
    return "; ".join(missing)


def source_line(record: CellRecord) -> str:
    """Return what a recording was before it became a trace.dat, and how exact its times are."""
    trace = record.trace
    if "format" not in trace:
        return ""
    packing = f" ({trace['packing']})" if trace.get("packing") else ""
    exact = trace.get("resolution_ns")
    times = f"; its times are multiples of {number(exact)} ns" if exact else ""
    return f"read from {clean(str(trace['format']))}{packing}{times}"


def counts(record: CellRecord) -> list[tuple[str, str]]:
    """Return, in words, the counts that qualify a cell's figures."""
    # Where only requests and bios are known, there is no I/O whose counts could qualify anything.
    blocks = (record.blocks or {}).get("devices") and not record.ios.get("measured")
    of_these = {k: v for k, v in record.ios.items() if k in ("selected", "clean", "detached")}
    followed = [
        ("I/Os", count_line(record)),
        ("of these", listed(of_these)),
        ("requests", listed(record.requests)),
        ("marks", mark_line(record)),
    ]
    lines = [
        ("source", source_line(record)),
        ("device", "" if blocks else listed(record.device)),
        *([] if blocks else followed),
        ("not in this source", unseen_line(record)),
    ]
    return [(label, text) for label, text in lines if text]


def element_lines(records: Sequence[CellRecord]) -> list[tuple[str, str]]:
    """Return the elements that one side's boots count once of a cell: the medians of its boots.

    What not all boots could count is named; nothing where boots count them in another way.
    """
    usable = [record for record in records if record.invalid is None]
    elements = load_elements()
    lines: list[tuple[str, str]] = []
    if usable and all(record.counted is not None for record in usable):
        counted = [record.counted or {} for record in usable]
        known = {name: e.many for name, e in elements.elements.items() if e.trace or e.events}
        sizes = _medians(counted)
        words = [elements.text(name, round(n, 2)).removeprefix("+") for name, n in sizes.items()]
        missing = [many for name, many in known.items() if name not in sizes]
        lines.append((IN_TRACE, _told(words, missing)))
    found = [record.pmu for record in usable if record.pmu is not None]
    if found:
        events = [f"{name} {number(n)}" for name, n in _medians(p.per_io for p in found).items()]
        why: dict[str, list[str]] = {}
        for name, text in {n: text for pmu in found for n, text in pmu.missing.items()}.items():
            why.setdefault(text, []).append(name)
        missing = [f"{', '.join(names)} ({text})" for text, names in why.items()]
        lines.append((OF_PMU, _told(events, missing)))
    return lines


def _medians(means: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Of what all boots have."""
    boots = list(means)
    names = [name for name in boots[0] if all(name in one for one in boots)]
    return {name: median(one[name] for one in boots) for name in names}


def _told(words: Sequence[str], missing: Sequence[str]) -> str:
    lines = [f"{', '.join(words)} per I/O"] if words else []
    lines += [f"not counted: {', '.join(missing)}"] if missing else []
    return clean("; ".join(lines))
