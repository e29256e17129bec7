"""The facts that a board writes about itself before and after its workload (``facts.sh``).

Its kernel's limits (``limits.sh``) are among them, as lines ``limit NAME VALUE``. All of it is
untrusted input: it is bounded, and what does not read as a fact is left out.
"""

from __future__ import annotations

import re

LINES, LENGTH = 200, 200
"""Facts of a board that are read, and characters of a value."""
LIMITS = 1000
"""Limits of a board that are read."""
LIMIT = "limit"
LATER = "end."
"""Begins the name of a limit that had another value after the workload than before it."""
_NAME = re.compile(r"[A-Za-z][\w./+-]{0,99}")


def read_facts(text: str) -> dict[str, str]:
    """The facts of ``facts.sh``: one ``NAME VALUE`` a line."""
    lines = [line for line in text.splitlines() if not line.startswith(f"{LIMIT} ")]
    pairs = [line.strip().partition(" ") for line in lines[:LINES]]
    return {name: value.strip()[:LENGTH] for name, _, value in pairs if name and value.strip()}


def read_limits(before: str, after: str = "") -> dict[str, str]:
    """The limits among the facts before the workload, and what they had become after it.

    Names are those of sysfs with dots (``ufs.queue.max_sectors_kb``). A value has no blanks:
    those of a list are commas.
    """
    found, later = _limits(before), _limits(after)
    changed = {name: value for name, value in later.items() if value != found.get(name)}
    return {**found, **{f"{LATER}{name}": value for name, value in changed.items()}}


def _limits(text: str) -> dict[str, str]:
    lines = [line for line in text.splitlines() if line.startswith(f"{LIMIT} ")]
    found = {}
    for line in lines[:LIMITS]:
        _, name, *values = line.split(" ", 2)
        value = re.sub(r"[\s,]+", ",", " ".join(values)).strip(",")[:LENGTH]
        if _NAME.fullmatch(name) and value.isprintable() and value:
            found[name.replace("/", ".")] = value
    return found
