"""Each line of the threat model names a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/threat-model.md").read_text()
THREATS = re.findall(r"^(\d+)\. \*\*(.*?)(?=^\d+\. \*\*|^## |\Z)", PAGE, re.M | re.S)


def test_threats_are_numbered_without_gaps() -> None:
    assert [int(number) for number, _ in THREATS] == list(range(1, len(THREATS) + 1))
    assert len(THREATS) > 20


def test_every_threat_names_tests_that_are_there() -> None:
    for _, text in THREATS:
        named = re.findall(r"`(tests/\S+\.py)::(test_\w+)`", text)
        assert named, text
        for path, name in named:
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M), name
