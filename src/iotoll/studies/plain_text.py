"""A study as text for a commit log or a cover letter: plain ASCII, 75 columns at most."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import pairwise

from iotoll import __version__
from iotoll.records.models import Clock
from iotoll.records.models.study import StudyRecord
from iotoll.reports.page.plain_text import COLUMNS, ascii_only, fill, item, repeat_with
from iotoll.studies.page import PUBLISHED, Grid, claim_row, grids, said_values, summary

LABEL = 33
"""Widest first column of a table; longer labels take several lines."""
NARROW = 7
"""Widest part of a column's title that must not be cut: a word or a unit is at least this wide."""


def commit_text(record: StudyRecord) -> str:
    """The claims with both values and their verdicts, and what a reader must know of them."""
    claims, checks = _claims(record, short=True), _checks(record, short=True)
    return _text(record, [_lead(record), *claims, *checks])


def cover_text(record: StudyRecord) -> str:
    """The same with every table, for a cover letter."""
    tables = [_table(grid) for grid in grids(record)]
    claims, checks = _claims(record, short=False), _checks(record, short=False)
    parts = [_lead(record), *claims, *checks, *tables]
    return _text(record, parts)


def _text(record: StudyRecord, parts: Sequence[str]) -> str:
    blocks = [part for part in parts if part]
    blocks.append(_where(record))
    blocks += _list("Published values from:", record.sources)
    blocks += _list("Assumed:", record.assumed)
    blocks += _list("Not measured:", record.not_shown)
    blocks.append(repeat_with(record.command))
    return ascii_only("\n\n".join(blocks)) + "\n"


def _lead(record: StudyRecord) -> str:
    head = fill(f"{record.title} (study {record.name}, measured with iotoll {__version__}):")
    return f"{head}\n{fill(summary(record))}"


def _claims(record: StudyRecord, short: bool) -> Iterator[str]:
    """Each claim with its verdict, both values and their unit; ``short``: those that are judged."""
    lines = []
    left_out = [c for c in record.claims if short and c.verdict == "needs a board"]
    for claim in record.claims:
        if claim in left_out:
            continue
        text, seed, ours, verdict = claim_row(claim)
        said = said_values(claim, seed, ours)
        values = f" {said[0].upper()}{said[1:]}." if ours else ""
        lines.append(textwrap.indent(item(f"{verdict}: {text}.{values}", 2), "  "))
    if left_out:
        why = "; ".join(dict.fromkeys(claim.why for claim in left_out))
        text = f"needs a board: {len(left_out)} more, whose values --cover prints ({why})."
        lines.append(textwrap.indent(item(text, 2), "  "))
    if lines:
        yield "Claims:\n" + "\n".join(lines)


def _checks(record: StudyRecord, short: bool) -> Iterator[str]:
    """Each check of a fio run; ``short``: those that are not as asked, and how many are."""
    shown = [c for c in record.checks if not short or c.verdict != "as asked"]
    lines = [f"{c.run}, {c.what}: asked {c.asked}, ran {c.ran} ({c.verdict})" for c in shown]
    if left_out := len(record.checks) - len(shown):
        lines.append(f"as asked: {left_out} more, which --cover prints")
    if lines:
        yield "Asked and ran:\n" + "\n".join(textwrap.indent(item(line, 2), "  ") for line in lines)


def _where(record: StudyRecord) -> str:
    unit = "instructions, 1 of which takes 1 ns" if record.clock is Clock.INSTRUCTIONS else "time"
    kind = "virtual board, modelled devices" if record.virtual else "real board"
    lines = [fill(f"Clock: {unit} ({kind}).")]
    lines += [fill(f"Kernel: {name}.") for name in [_kernel(record.command)] if name]
    for variant in record.variants:
        said = variant.missing or f"{variant.why}; {variant.kernel}"
        lines.append(fill(f"Boot {variant.name}: board {variant.board}; {said}."))
    return "\n".join(lines)


def _kernel(command: Sequence[str]) -> str:
    """The kernel as the command names it; empty for the board's own."""
    given = dict(pairwise(command))
    if image := given.get("--image"):
        return f"image {image}"
    base, tree = given.get("--base"), given.get("--tree")
    parts = [f"revision {base}" if base else "", f"source {tree}" if tree else ""]
    return ", ".join(part for part in parts if part)


def _list(title: str, items: Sequence[str]) -> list[str]:
    lines = [textwrap.indent(item(text, 2), "  ") for text in items]
    return [f"{title}\n" + "\n".join(lines)] if lines else []


def _table(grid: Grid) -> str:
    """The table in blocks of as many columns as fit, each with the rows' labels."""
    heads = [_words(ascii_only(title).split()) for title in grid.table.head]
    rows = [[ascii_only(" ".join(text.split())) for text in row] for row in grid.table.rows]
    label = max((len(line) for row in rows for line in _wrapped(row[0])), default=0)
    wide = [
        max([len(line) for line in heads[i]] + [len(_cut(row[i])) for row in rows])
        for i in range(len(heads))
    ]
    blocks, start = [], 1
    while start < len(heads):
        end, used = start, label + 2
        while end < len(heads) and (end == start or used + 2 + wide[end] <= COLUMNS):
            used += 2 + wide[end]
            end += 1
        if end < len(heads) and end - start > 1 and grid.table.head[end].startswith(PUBLISHED):
            end -= 1  # a published value stays beside ours
        blocks.append(_block(heads, rows, wide, label, range(start, end)))
        start = end
    return fill(f"{grid.title}:") + "\n" + "\n\n".join(blocks)


def _block(
    heads: list[list[str]], rows: list[list[str]], wide: list[int], label: int, places: range
) -> str:
    deep = max(len(heads[i]) for i in places)
    lines = []
    for level in range(deep):
        parts = [([""] * (deep - len(heads[i])) + heads[i])[level].rjust(wide[i]) for i in places]
        lines.append("  ".join([" " * (label + 2), *parts]).rstrip())
    for row in rows:
        names = _wrapped(row[0])
        lines += [f"  {name}" for name in names[:-1]]
        parts = [_cut(row[i]).rjust(wide[i]) for i in places]
        lines.append("  ".join([f"  {names[-1].ljust(label)}", *parts]).rstrip())
    return "\n".join(lines)


def _cut(text: str) -> str:
    """A value that is a list of points stands in the pages alone: its first one is enough here."""
    return text if len(text) <= 30 else text.split(", ")[0]


def _wrapped(label: str) -> list[str]:
    return textwrap.wrap(label, LABEL, break_on_hyphens=False) or [""]


def _words(words: list[str]) -> list[str]:
    """A title in short lines; a unit in brackets stays whole."""
    lines: list[str] = []
    for word in words:
        inside = bool(lines) and "[" in lines[-1] and "]" not in lines[-1]
        if lines and (inside or len(lines[-1]) + 1 + len(word) <= NARROW + 3):
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines or [""]
