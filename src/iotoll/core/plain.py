"""Text of others on a terminal: no escape, no control character, nothing that turns words about."""

from __future__ import annotations

import re
from typing import Any

_HOSTILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_SECTION = re.compile("section_(start|end):")
"""What GitLab's job log folds by."""
_ESCAPED = ("\\u", "\\b", "\\f", "\\r", "\x7f")


def plain(text: str) -> str:
    """A text whose control, bidirectional and invisible characters are replaced by U+FFFD.

    Line feeds and tabs stay; a carriage return before a line feed goes.
    """
    return _HOSTILE.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def plain_log(text: str) -> str:
    """As `plain`, for a line of a CI job's log, which then begins and ends no section either."""
    return _SECTION.sub(r"section-\1:", plain(text))


def is_plain_json(text: str) -> bool:
    """Whether no text in a JSON text has anything but ASCII, line feeds and tabs.

    JSON escapes all other control characters. It is a quick look at long lists of numbers.
    """
    return text.isascii() and not any(part in text for part in _ESCAPED)


def plain_data(data: Any) -> Any:
    """JSON data with every text in it as `plain` makes it."""
    if isinstance(data, str):
        return plain(data)
    if isinstance(data, list):
        return [plain_data(value) for value in data]
    if isinstance(data, dict):
        return {plain(key): plain_data(value) for key, value in data.items()}
    return data
