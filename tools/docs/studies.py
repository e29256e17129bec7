#!/usr/bin/env python3
"""Writes docs/reference/studies/: the page of each study with its pictures, and the list of
docs/studies.md.

    tools/docs/studies.py [--check] [FOLDER...]

FOLDER is what `iotoll study NAME --out FOLDER` left: its study.json becomes
docs/reference/studies/NAME.json. Without one the pages are written again from the records that are
there. `--check` writes nothing and ends with 1 where a page is not what would be written. Lines
have at most 120 characters: a table with longer rows becomes a list.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from iotoll.records import results
from iotoll.records.models import StudyRecord
from iotoll.reports.kit.svg import standalone
from iotoll.studies.page import command, grids, study_markdown, summary

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/reference/studies"
OVERVIEW = ROOT / "docs/studies.md"
BEGIN, END = "<!-- studies: begin (tools/docs/studies.py) -->", "<!-- studies: end -->"
WIDTH = 120


def records() -> list[StudyRecord]:
    """The records that the pages are made of, by name."""
    return [results.read(path, StudyRecord) for path in sorted(FOLDER.glob("*.json"))]


def narrow(page: str) -> str:
    """A page with lines of at most `WIDTH` characters."""
    lines: list[str] = []
    for table, block in groupby(page.splitlines(), key=lambda line: line.startswith("|")):
        if table:
            lines += _table(list(block))
        else:
            lines += (part for line in block for part in _wrapped(line))
    return "\n".join(lines) + "\n"


def _wrapped(line: str) -> list[str]:
    if line.startswith(("#", "!", "    ")):
        return [line]
    indent = "  " if line.startswith("- ") else ""
    first, *others = textwrap.wrap(
        line, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    ) or [""]
    # A line that goes on with an operator begins no list.
    return [first, *(re.sub(r"^( *)([-*+] )", r"\1\\\2", other) for other in others)]


def _table(lines: list[str]) -> list[str]:
    """The table itself where it is narrow enough, with a unit of all columns in its corner."""
    head, *rows = ([cell.strip() for cell in line[1:-1].split(" | ")] for line in lines)
    units = {title.rpartition(" [")[2] for title in head[1:]}
    if not head[0] and len(units) == 1 and all(" [" in title for title in head[1:]):
        head = [units.pop().rstrip("]"), *(title.rpartition(" [")[0] for title in head[1:])]
        lines = ["| " + " | ".join(head) + " |", *lines[1:]]
    if max(map(len, lines)) <= WIDTH:
        return lines
    return [part for row in rows[1:] for part in _item(head, row)]


def _item(head: list[str], row: list[str]) -> Iterator[str]:
    """A row of a table as an item of a list."""
    pairs = zip(head[1:], row[1:], strict=True)
    values = "; ".join(f"{title}: {value}" for title, value in pairs if value)
    yield from _wrapped(f"- **{row[0]}**: {values}")


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    found: dict[Path, str] = {}
    items: list[str] = []
    for record in records():
        found[FOLDER / f"{record.name}.md"] = narrow(study_markdown(record))
        for grid in grids(record):
            if grid.picture:
                found[FOLDER / f"{record.name}-{grid.name}.svg"] = standalone(grid.picture)
        link = f"[{record.title}](reference/studies/{record.name}.md)"
        text = f"- {link} (`{command(record)}`). {record.question} Result: {summary(record)}."
        items += _wrapped(text)
    text = OVERVIEW.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    found[OVERVIEW] = "\n".join([f"{before}{BEGIN}", "", *items, "", f"{END}{after}"])
    return found


def main(words: list[str]) -> int:
    """Write or check the pages; returns the exit code."""
    check = "--check" in words
    FOLDER.mkdir(parents=True, exist_ok=True)
    for word in (w for w in words if w != "--check"):
        record = results.read(Path(word) / "study.json", StudyRecord)
        shutil.copyfile(Path(word) / "study.json", FOLDER / f"{record.name}.json")
    stale = []
    for path, text in pages().items():
        if not path.is_file() or path.read_text() != text:
            stale.append(path)
            if not check:
                path.write_text(text)
    for path in stale:
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
