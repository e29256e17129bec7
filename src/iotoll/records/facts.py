"""The facts that a board writes about itself before and after its workload (``facts.sh``)."""

from __future__ import annotations

LINES, LENGTH = 200, 200
"""Facts of a board that are read, and characters of a value."""


def read_facts(text: str) -> dict[str, str]:
    """The facts of ``facts.sh``: one ``NAME VALUE`` a line."""
    pairs = [line.strip().partition(" ") for line in text.splitlines()[:LINES]]
    return {name: value.strip()[:LENGTH] for name, _, value in pairs if name and value.strip()}
