"""The name that was probably meant: one function for commands, boards, runs, matrices, cells."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

ALIKE = 0.6
"""How alike two names must be (difflib's ratio) for one to be offered in the place of the other."""


def nearest(word: str, known: Iterable[str], alike: float = 0.0) -> str:
    """The known name that is most like ``word``, at least so much; empty where there is none.

    Capitals do not count, and a word that begins one name alone is that name's.
    """
    names = list(known)
    begun = [name for name in names if word and name.lower().startswith(word.lower())]
    if len(begun) == 1:
        return begun[0]
    lower = {name.lower(): name for name in names}
    found = get_close_matches(word.lower(), list(lower), 1, alike)
    return lower[found[0]] if found else ""


def near_path(path: Path) -> str:
    """As `meant`, of a path that is not there: what is beside it, or of its folder's name."""
    try:
        beside = [one.name for one in path.parent.iterdir()]
    except OSError:
        return near_path(path.parent) if path.parent != path and path.parent.name else ""
    found = nearest(path.name, beside, ALIKE)
    return f": did you mean {path.parent / found}?" if found else ""


def meant(word: str, known: Iterable[str]) -> str:
    """``: did you mean NAME?``, to end a message with; empty where no name is alike."""
    found = nearest(word, known, ALIKE)
    return f": did you mean {found}?" if found else ""
