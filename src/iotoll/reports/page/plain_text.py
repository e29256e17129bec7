"""A run's result as text for a commit log or a cover letter: plain ASCII, 75 columns at most.

Every column names its unit; kernel, board, what was not measured and the command that repeats it
are part of the text, so that who reads it in a mail can check it.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from statistics import median

from iotoll import __version__
from iotoll.core.errors import UsageError
from iotoll.records.models import Clock, Finding, FoundFunction, Outcome, Unit
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.records.text import MINUS, NBSP, NO_VALUE, clean, number, plural, signed
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import findings, headline_of, lines_of
from iotoll.reports.page.headline import candidate_title, headline, summary
from iotoll.reports.page.view import CellView, cells, shown_sections, unit_of
from iotoll.verdict.accept import proposed
from iotoll.verdict.words import WHOLE, WORK

COLUMNS = 75
"""Widest line: a commit log is shown indented by four, in terminals of 80."""

_UNITS = {Unit.INSTRUCTIONS: "instr", Unit.NANOSECONDS: "ns"}
_ASCII = str.maketrans(
    {MINUS: "-", NBSP: " ", NO_VALUE: "-", "→": "->", "…": "...", "\u2019": "'", "µ": "u"}
    | {"▲": "+", "▼": "-", "◆": "accepted:", "○": "not gated:"}
)
_BY_WORKLOAD = "Software path (sections 1+2+4) by workload:"
Row = Sequence[str]


def commit_text(evidence: Evidence) -> str:
    """Return every finding with its functions, as a commit message has it.

    Raises UsageError for a run without figures.
    """
    views = _usable(evidence, "--commit")
    found = findings(evidence, views)
    return _text(evidence, [_lead(evidence, found), _findings(evidence, found, views)])


def cover_text(evidence: Evidence, command: Sequence[str] | None = None) -> str:
    """Return the same with one line per workload, for a cover letter; raises as `commit_text`.

    ``command`` repeats it; by default the run's own.
    """
    views = _usable(evidence, "--cover")
    found = findings(evidence, views)
    parts = [_lead(evidence, found), _findings(evidence, found, views)]
    return _text(evidence, [*parts, _by_workload(evidence, views)], command)


def mail_text(evidence: Evidence) -> str:
    """Return a mail to who wrote the change, in the form of the kernel's test robots.

    Its subject and its first line say the finding; table, reproduction and trailers follow.
    Raises as `commit_text`.
    """
    views = _usable(evidence, "--mail")
    found = findings(evidence, views)
    told = [one.sentence for one in found if one.kind == "regression"]
    what = told[0].partition(", ")[0] if told else headline(evidence, found).word.lower()
    title = ascii_only(candidate_title(evidence))
    subject = f"Subject: [iotoll] {title}: {ascii_only(what)}"
    parts = [
        subject,
        "Hello,",
        fill(f"iotoll noticed {told[0] if told else _verdict(evidence, found)} on:"),
        f"  {title}",
        _findings(evidence, found, views),
        _by_workload(evidence, views),
    ]
    verdict = evidence.verdict
    wanted = proposed(verdict) if verdict and told else []
    if wanted:
        lines = "\n".join(f"  Iotoll-Accept: {line} REASON" for line in wanted)
        parts.append(f"If it is meant to cost this, say so in the commit message:\n{lines}")
    return _text(evidence, parts)


def _usable(evidence: Evidence, option: str) -> list[CellView]:
    verdict = evidence.verdict
    views = cells(evidence)
    failed = verdict and verdict.outcome in (Outcome.BROKEN, Outcome.INFRASTRUCTURE)
    if failed or evidence.failure or (not views and not (verdict and verdict.identical_images)):
        said = verdict.outcome.value if verdict else "unfinished"
        raise UsageError(f"{option}: this run has no values to quote: {said}")
    return views


def _text(evidence: Evidence, parts: Iterable[str], command: Sequence[str] | None = None) -> str:
    blocks = [part for part in parts if part]
    repeat = repeat_with(command or evidence.manifest.command)
    blocks += [_where(evidence), _not_measured(evidence), repeat]
    return ascii_only("\n\n".join(blocks)) + "\n"


def ascii_only(text: str) -> str:
    """The text in plain ASCII; what has no counterpart is a question mark."""
    return text.translate(_ASCII).encode("ascii", "replace").decode()


def fill(text: str) -> str:
    """One paragraph of ASCII in lines of at most `COLUMNS`."""
    return textwrap.fill(ascii_only(" ".join(clean(text).split())), COLUMNS, break_on_hyphens=False)


def _lead(evidence: Evidence, found: Sequence[Finding]) -> str:
    unit = "instructions" if unit_of(evidence) is Unit.INSTRUCTIONS else "nanoseconds (ns)"
    head = f"Software overhead per I/O in {unit}, measured with iotoll {__version__}:"
    if any(one.kind == "regression" for one in found):
        return fill(head)
    return f"{fill(head)}\n{fill(_verdict(evidence, found))}"


def _verdict(evidence: Evidence, found: Sequence[Finding]) -> str:
    return headline_of(evidence, found) or "One kernel was measured."


_LEAST = 0.01
"""Functions that have a smaller share of a finding, and are unchanged, are counted."""


def _findings(evidence: Evidence, found: Sequence[Finding], views: Sequence[CellView]) -> str:
    """Every finding with its functions; without one, the sections' medians by device."""
    if not found:
        return _by_section(evidence, views)
    lines = []
    for one in found:
        least = _LEAST * abs(one.size or 0)
        told = [f for f in one.functions if f.changed or abs(f.delta) >= least]
        lines += [fill(lines_of([one])[0]), *map(_function_line, told)]
        if left := len(one.functions) - len(told):
            lines.append(f"           {plural(left, 'function')} by less than {number(least)} each")
    return ascii_only("\n".join(lines))


_HANG = " " * 11


def _function_line(one: FoundFunction) -> str:
    size = ascii_only(signed(one.delta))
    into = f", inlined into {one.into}" if one.into else ""
    changed = " (changed)" if one.changed else ""
    place = f"\n{_HANG}{one.file}:{one.line}" if one.file else ""
    line = ascii_only(f"  {size:>7}  {one.name}{into}{changed}")
    # A name is never cut: it is searched for.
    line = textwrap.fill(
        line, COLUMNS, subsequent_indent=_HANG, break_long_words=False, break_on_hyphens=False
    )
    return line + ascii_only(place)


def _by_section(evidence: Evidence, views: Sequence[CellView]) -> str:
    unit = _UNITS[unit_of(evidence)]
    rows: list[Row] = []
    for device in dict.fromkeys(view.name.device_label for view in views):
        mine = [view for view in views if view.name.device_label == device]
        rows += _device_rows(evidence, device, mine)
    if not rows:
        return ""
    judged = any(row.comparison for view in views for row in view.rows)
    if not judged:
        return _table(("device", "section", f"median\n[{unit}]", "workloads\n[number]"), rows)
    changes = (f"change\n[{unit}]", "change\n[%]", f"largest\n[{unit}]")
    head = ("device", "section", *changes, "grew in\n[workloads]")
    note = "Changes are medians over the workloads of a device, and the largest one."
    if any(row[1].endswith("(*)") for row in rows):
        note += " (*) shown only."
    return f"{_table(head, rows)}\n{fill(note)}"


def _device_rows(evidence: Evidence, device: str, views: Sequence[CellView]) -> Iterable[Row]:
    for section in shown_sections(evidence.clock):
        rows = [row for view in views for row in view.rows if row.section is section]
        found = [row.comparison for row in rows if row.comparison]
        if found:
            grew = sum(c.moved == "grew" for c in found)
            deltas, relative = [c.delta for c in found], median(c.relative for c in found)
            label = section.value + ("" if any(c.gated for c in found) else " (*)")
            values = (_signed(median(deltas)), _percent(relative), _signed(max(deltas, key=abs)))
            yield (device, label, *values, f"{grew} of {len(found)}")
            continue
        known = [f.raw for row in rows for f in row.sides.values() if f.raw is not None]
        if known:
            yield (device, section.value, f"{median(known):.0f}", str(len(known)))
    yield from _path_row(device, views)


def _path_row(device: str, views: Sequence[CellView]) -> Iterable[Row]:
    changes = [change for view in views if (change := view.path)]
    if not changes:
        return
    deltas = [after - before for before, after in changes]
    shares = [(after - before) / before for before, after in changes if before]
    grew = sum(_path_grew(view) for view in views if view.path)
    yield (
        device,
        "1+2+4",
        _signed(median(deltas)),
        _percent(median(shares)) if shares else "-",
        _signed(max(deltas, key=abs)),
        f"{grew} of {len(changes)}",
    )


def _path_grew(view: CellView) -> bool:
    found = [r.comparison for r in view.rows if r.section in SOFTWARE_SECTIONS and r.comparison]
    return any(c.moved == "grew" for c in found)


def _by_workload(evidence: Evidence, views: Sequence[CellView]) -> str:
    unit = _UNITS[unit_of(evidence)]
    rows: list[Row] = []
    if evidence.verdict is None:
        totals = [(v.name.full, v.total("base", SOFTWARE_SECTIONS, corrected=False)) for v in views]
        rows = [(name, f"{value:.0f}") for name, value in totals if value is not None]
        head: Row = ("workload", f"medians\n[{unit}]")
        return f"{_BY_WORKLOAD}\n{_table(head, rows)}" if rows else ""
    for view in views:
        if (found := view.path) is None:
            continue
        before, after = found
        share = _percent((after - before) / before) if before else "-"
        values = (f"{before:.0f}", f"{after:.0f}", _signed(after - before), share)
        rows.append((view.name.full, *values))
    if not rows:
        return ""
    names = ("base", "patched", "change")
    head = ("workload", *(f"{name}\n[{unit}]" for name in names), "change\n[%]")
    return f"{_BY_WORKLOAD}\n{_table(head, rows)}"


def _signed(value: float) -> str:
    return f"{value:+.0f}" if round(value) else "0"


def _percent(share: float) -> str:
    return f"{share * 100:+.1f}" if round(share, 3) else "0.0"


def _table(head: Row, rows: Sequence[Row]) -> str:
    """Columns as narrow as they can be, under heads of two lines: name and unit."""
    names = [text.partition("\n")[0] for text in head]
    units = [text.partition("\n")[2] for text in head]
    everything = [names, units, *rows]
    widths = [max(len(row[at]) for row in everything) for at in range(len(head))]
    words = 2 if "section" in head else 1
    # The units must stay: a name that leaves them no room has a line of its own.
    widths[0] = min(widths[0], COLUMNS - 2 - sum(widths[1:]) - 2 * (len(widths) - 1))
    lines = []
    for row in everything:
        if len(row[0]) > widths[0]:
            lines.append(f"  {row[0]}")
            row = ("", *row[1:])
        parts = [
            text.ljust(width) if at < words else text.rjust(width)
            for at, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(parts)).rstrip())
    return "\n".join(lines)


def _where(evidence: Evidence) -> str:
    facts = dict(summary(evidence))
    shown = [f"{name}: {facts[name]}" for name in ("Kernel", "Board", "Matrix") if name in facts]
    return "\n".join(fill(line) for line in shown)


def _not_measured(evidence: Evidence) -> str:
    lines = []
    if evidence.clock is Clock.INSTRUCTIONS:
        lines.append("time and the device itself (the board is virtual: it counts instructions)")
    elif evidence.virtual:
        lines.append("the latency of any real device (the board is virtual)")
    if evidence.selection and not evidence.selection.full_matrix:
        count = plural(len(evidence.selection.cells), "workload")
        lines.append(f"workloads other than the {count} selected")
    ungated: dict[str, int] = {}
    for view in cells(evidence):
        found = [(row.section.value, row.comparison) for row in view.rows]
        for part, comparison in (*found, (WHOLE, view.whole), (WORK, view.work)):
            if comparison and not comparison.gated:
                name = f"{part}: {clean(comparison.why) or 'shown only'}"
                ungated[name] = ungated.get(name, 0) + 1
    lines += [f"not judged in {plural(n, 'workload')}: {name}" for name, n in ungated.items()]
    skipped = {choice.cell for choice in evidence.selection.cells} if evidence.selection else set()
    if missing := sorted(skipped - {view.name.full for view in cells(evidence)}):
        lines.append(f"{plural(len(missing), 'selected workload')} not run, as {missing[0]}")
    wrapped = [textwrap.indent(item(line, 4), "  ") for line in lines]
    return "Not measured:\n" + "\n".join(wrapped) if wrapped else ""


def item(line: str, less: int) -> str:
    """One item of a list, in lines of at most `COLUMNS` less ``less``."""
    text = ascii_only(" ".join(line.split()))
    return textwrap.fill(
        f"- {text}", COLUMNS - less, subsequent_indent="  ", break_on_hyphens=False
    )


def repeat_with(command: Sequence[str]) -> str:
    """The command, cut so that a shell reads it as one: also inside of a long argument."""
    lines, line = [], " "
    for word in (shlex.quote(clean(word)) for word in command):
        if len(line) + 1 + len(word) > COLUMNS - 2 and line.strip():
            lines.append(f"{line} \\")
            line = "   "
        line += f" {word}"
        # A backslash at the end of a line joins it with the next, which must not be indented;
        # within quotes it would stay, so these end before it and begin again behind it.
        quote = "'" if word.startswith("'") else ""
        while len(line) > COLUMNS - 2 and word.count("'") in (0, 2):
            cut = line.rfind(",", 0, COLUMNS - 3) + 1 or COLUMNS - 3
            lines.append(f"{line[:cut]}{quote}\\")
            line = quote + line[cut:]
    return "Repeat with:\n" + "\n".join([*lines, line])
