"""A cell's I/Os by thread, as columns in which two boots are compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iotoll.records.models import OrderedIos, Section

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Column:
    """One section of one thread's I/Os in order of start, shape (I/Os,) each.

    ``value`` is in the record's unit, and 0 where it is not ``known``; ``kind`` says which events
    bound the section.
    """

    value: Ints
    known: NDArray[np.bool_]
    kind: NDArray[np.str_]

    def cut(self, start: int, end: int) -> Column:
        """The I/Os from number ``start`` to before number ``end``."""
        here = slice(start, end)
        return Column(self.value[here], self.known[here], self.kind[here])


NONE = Column(np.empty(0, np.int64), np.empty(0, np.bool_), np.empty(0, np.str_))
"""Of a thread that a boot has not."""


class Ordered:
    """The I/Os of one boot's cell; columns are made once, when they are asked for."""

    def __init__(self, ios: OrderedIos) -> None:
        self.sections = list(ios.sections)
        self._ios = ios
        self._columns: dict[Section | None, dict[int, Column]] = {}

    def columns(self, section: Section | None) -> dict[int, Column]:
        """Number of a thread → its I/Os; the section None is the whole I/O."""
        if section not in self._columns:
            self._columns[section] = _by_thread(self._ios, section)
        return self._columns[section]

    def along(
        self, other: Ordered, section: Section | None, lag: int
    ) -> Iterator[tuple[Column, Column, int]]:
        """Both sides of each thread, of one length, and how many I/Os only one side has.

        With a ``lag`` the first I/O of each thread is left out on one side, and the last on the
        other: none of them is counted as being on one side only.
        """
        one, two = self.columns(section), other.columns(section)
        for thread in sorted({*one, *two}):
            before, after = one.get(thread, NONE), two.get(thread, NONE)
            first, second = max(lag, 0), max(-lag, 0)
            lengths = len(before.value) - first, len(after.value) - second
            both = max(min(lengths), 0)
            yield (
                before.cut(first, first + both),
                after.cut(second, second + both),
                0 if lag else max(lengths) - both,
            )


def _by_thread(ios: OrderedIos, section: Section | None) -> dict[int, Column]:
    values: Sequence[int | None] = ios.whole if section is None else ios.sections.get(section, [])
    rows = len(values)
    thread = np.array(ios.thread[:rows], np.int64)
    known = np.array([value is not None for value in values], np.bool_)
    value = np.array([value or 0 for value in values], np.int64)
    kind = np.full(rows, "")
    if section is not None and ios.marks:
        names = np.array([kinds.get(section, "") for kinds in ios.mark_kinds])
        kind = names[np.array(ios.marks[:rows], np.int64)]
    found = {}
    for number in np.unique(thread):
        mine = thread == number
        found[int(number)] = Column(value[mine], known[mine], kind[mine])
    return found
