"""docs/reference/findings.md: each finding of the reviews has a test, or is said to be open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNTS = {
    "F1": 8,
    "F2": 8,
    "F3": 8,
    "F4": 8,
    "F6": 9,
    "F7": 9,
    "G1": 11,
    "G2": 13,
    "G3": 11,
    "G4": 10,
}
NUMBERS = [f"{group}.{number + 1}" for group, count in COUNTS.items() for number in range(count)]
ITEM = re.compile(r"^- ([FG]\d(?:\.\d+)?): .*\n(?:  .*\n)*?  (open: .*|`.*`)$", re.M)
FILE = ROOT / "docs/reference/findings.md"
ROWS = {found[1]: found[2] for found in ITEM.finditer(FILE.read_text())}
"""Number of a finding → its test, or ``open: why``."""


def test_no_finding_is_left_out() -> None:
    assert sorted(ROWS) == sorted([*NUMBERS, "F5"])


@pytest.mark.parametrize("number", [*NUMBERS, "F5"])
def test_a_finding_has_a_test_that_carries_its_number(number: str) -> None:
    row = ROWS[number]
    if row.startswith("open: "):
        return
    found = re.fullmatch(r"`((?:tests|crates)/\S+\.(?:py|rs))::(\w+)`", row)
    assert found, row
    text = (ROOT / found[1]).read_text()
    body = re.search(rf"^(?:def|fn) {found[2]}\(.*?(?=^(?:def|fn|class) |\Z)", text, re.M | re.S)
    assert body, row
    number = number.replace(".", "[._]")
    assert re.search(rf"(?:\b|_)(?i:{number})(?!\d)", body[0]), row


def test_every_test_that_the_page_names_is_there() -> None:
    text = FILE.read_text()
    named = re.findall(r"`((?:tests|crates)/\S+\.(?:py|rs))::(\w+)`", text)
    assert len(named) > len(ROWS)
    for path, name in named:
        found = re.search(rf"^\s*(?:def|fn) {name}\(", (ROOT / path).read_text(), re.M)
        assert found, f"{path}::{name}"
