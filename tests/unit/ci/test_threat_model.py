"""Each line of the threat model names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
LINES = [
    line
    for line in (ROOT / "docs/threat-model.md").read_text().splitlines()
    if re.match(r"\| \d+ \|", line)
]


def test_lines_are_numbered_without_gaps() -> None:
    assert [int(line.split("|")[1]) for line in LINES] == list(range(1, len(LINES) + 1))
    assert len(LINES) > 20


def test_every_line_names_a_test_that_is_there() -> None:
    for line in LINES:
        found = re.search(r"`(tests/\S+\.py)::(test_\w+)` \|$", line)
        assert found, line
        text = (ROOT / found[1]).read_text()
        assert re.search(rf"^def {found[2]}\(", text, re.M), line
