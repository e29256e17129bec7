#!/usr/bin/env python3
"""Keeps the documents short: pages, words of a page, length of a line.

    tools/lint/pages.py

What is generated (docs/reference) and decisions, one short file each, are no pages; the changelog
grows. Their lines count all the same. Ends with 1 where a limit is passed.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES, WORDS, WIDTH = 25, 2500, 120


def problems(root: Path) -> list[str]:
    """One line for each limit that the documents below ``root`` pass."""
    pages = [root / "README.md", root / "CONTRIBUTING.md", *sorted(root.glob("docs/*.md"))]
    lines = sorted({*pages, root / "CHANGELOG.md", *root.glob("docs/**/*.md")})
    found = []
    if len(pages) > PAGES:
        found.append(f"{len(pages)} pages: at most {PAGES}")
    for page in pages:
        words = len(page.read_text().split())
        if words > WORDS:
            found.append(f"{page.relative_to(root)}: {words} words: at most {WORDS}")
    for page in lines:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            if len(line) > WIDTH:
                where = f"{page.relative_to(root)}:{number}"
                found.append(f"{where}: {len(line)} characters: at most {WIDTH}")
    return found


def main() -> int:
    """Print every limit that is passed; 1 when there is one."""
    found = problems(ROOT)
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
