"""Reads trailers (``Key: value``) of commit messages; the diff below a message has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

ACCEPT = "Iotoll-Accept"
"""Trailer by which a change names the growth that it asks to be accepted."""

LIMIT = 50
"""Trailers of one candidate that are read; nobody needs more, and a message may be of any size."""

_LINE_LIMIT = 500
_END = re.compile(r"---(?: .*)?|diff --git .*|Index: .*")


def trailers(messages: Iterable[str], key: str = ACCEPT) -> list[str]:
    """Return the values of ``key`` in commit messages or mail bodies, in order, `LIMIT` at most.

    A line counts where it begins with the key, in any case of letters, above the first diff; a
    quoted or indented line does not, except for those that continue a value, as in mail headers.
    """
    found: list[str] = []
    for message in messages:
        for value in _of(message, key):
            if len(found) == LIMIT:
                return found
            found.append(value)
    return found


def _of(message: str, key: str) -> Iterator[str]:
    start = re.compile(rf"{re.escape(key)}:[ \t]*(.*)", re.I)
    value: str | None = None
    for line in message.splitlines():
        if _END.fullmatch(line):
            break
        if value is not None and line[:1] in (" ", "\t") and line.strip():
            value = f"{value} {line.strip()}"
            continue
        if value is not None:
            yield value[:_LINE_LIMIT]
        match = start.fullmatch(line.rstrip())
        value = match[1].strip() if match else None
    if value is not None:
        yield value[:_LINE_LIMIT]
