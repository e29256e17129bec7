"""How small a p value can sign flips give, and so which looks can confirm a regression?

No numpy and no scipy here: a policy is checked by these rules whenever one is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def pairs_needed(level: float) -> int:
    """The fewest pairs with which a p value can be as small as ``level``: 2^-n must not exceed it.

    >>> pairs_needed(0.001)
    10
    """
    return math.ceil(-math.log2(level))


def confirm_levels(looks: Sequence[int], error: float) -> dict[int, float]:
    """The looks (pairs) that can confirm, with the p value that each must reach.

    The error is shared equally; a look takes part when its sign flips can reach its share. Empty
    when none can.

    >>> confirm_levels([3, 12, 16], 0.001)
    {12: 0.0005, 16: 0.0005}
    """
    for first in range(len(looks)):
        able = looks[first:]
        if able[0] >= pairs_needed(error / len(able)):
            return dict.fromkeys(able, error / len(able))
    return {}
