#!/usr/bin/env python3
"""Writes docs/studies/: the page of each study with its pictures, and the table of docs/studies.md.

    tools/docs/studies.py [--check] [FOLDER...]

FOLDER is what `iotoll study NAME --out FOLDER` left: its study.json becomes docs/studies/NAME.json.
Without one the pages are written again from the records that are there. `--check` writes nothing
and ends with 1 where a page is not what would be written.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from iotoll.records import results
from iotoll.records.models import StudyRecord
from iotoll.reports.kit.svg import standalone
from iotoll.studies.page import command, grids, study_markdown, summary

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/studies"
OVERVIEW = ROOT / "docs/studies.md"
BEGIN, END = "<!-- studies: begin (tools/docs/studies.py) -->", "<!-- studies: end -->"


def records() -> list[StudyRecord]:
    """The records that the pages are made of, by name."""
    return [results.read(path, StudyRecord) for path in sorted(FOLDER.glob("*.json"))]


def pages() -> dict[Path, str]:
    """Every generated file with its text."""
    found: dict[Path, str] = {}
    rows = ["| study | question | result | command |", "|---|---|---|---|"]
    for record in records():
        found[FOLDER / f"{record.name}.md"] = study_markdown(record)
        for grid in grids(record):
            if grid.picture:
                found[FOLDER / f"{record.name}-{grid.name}.svg"] = standalone(grid.picture)
        link = f"[{record.title}](studies/{record.name}.md)"
        rows.append(f"| {link} | {record.question} | {summary(record)} | `{command(record)}` |")
    text = OVERVIEW.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    found[OVERVIEW] = "\n".join([f"{before}{BEGIN}", *rows, f"{END}{after}"])
    return found


def main(words: list[str]) -> int:
    """Write or check the pages; returns the exit code."""
    check = "--check" in words
    FOLDER.mkdir(exist_ok=True)
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
