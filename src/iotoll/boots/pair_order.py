"""In which order do the boots of a pair run? ABBA or BAAB, by a recorded seed.

A board that warms up or wears makes every later boot a little slower. Two pairs in the order base,
candidate, candidate, base (or the other way round) cancel a steady drift; which of the two is
chance, so that nothing that repeats can hide behind the order.
"""

from __future__ import annotations

import hashlib

from iotoll.records.models.run import Side


def first_side(seed: int | None, pair: int) -> Side:
    """Which side boots first in a pair (from 1 on); without a seed, the base in odd pairs."""
    block, second = divmod(pair - 1, 2)
    swapped = 0
    if seed is not None:
        swapped = hashlib.sha256(f"{seed} {block}".encode()).digest()[0] & 1
    return "base" if second == swapped else "candidate"


def boot_order(seed: int | None, pairs: int) -> list[tuple[Side, int]]:
    """The boots of that many pairs, in the order in which they are to run."""
    order: list[tuple[Side, int]] = []
    for pair in range(1, pairs + 1):
        first = first_side(seed, pair)
        other: Side = "candidate" if first == "base" else "base"
        order += [(first, pair), (other, pair)]
    return order
