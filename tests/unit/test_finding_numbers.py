"""Every finding of the review of 2026-11-22 has a test that carries its number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNTS = {1: range(1, 9), 2: range(1, 9), 4: range(1, 8), 6: range(1, 10)}
NUMBERS = [
    *(f"F{group}.{number}" for group, numbers in COUNTS.items() for number in numbers),
    "F3.1",
    "F5",
    *(f"F7.{number}" for number in (1, 2, 4, 6, 7, 8)),
]


def _texts() -> Iterator[str]:
    for pattern in ("tests/**/test_*.py", "crates/*/tests/**/*.rs", "crates/*/src/**/*.rs"):
        for path in ROOT.glob(pattern):
            if path != Path(__file__):
                yield path.read_text()


@pytest.fixture(scope="module")
def named() -> set[str]:
    """The numbers that names or comments of tests carry: F1.5, f1_5."""
    found: set[str] = set()
    for text in _texts():
        for group, number in re.findall(r"(?:\b|_)[fF]([1-8])(?:[._](\d+))?(?![\dA-Za-z])", text):
            found.add(f"F{group}.{number}" if number else f"F{group}")
    return found


@pytest.mark.parametrize("number", NUMBERS)
def test_a_finding_has_a_test(number: str, named: set[str]) -> None:
    assert number in named
