"""What moved in a part of a cell: by the sign test, else by the sums of rounds, and by sizes.

`iotoll.verdict.instructions.pairing` counts which paired I/Os grew. In a cell in which the base's
own boots differ in many I/Os that says little: who waits for a tag, or at which I/O a CPU fetches
free pages, is decided anew in each kernel. Two things say more there.

*Sums.* The I/Os of one round share what there is to wait for: one waits in place of another. The
sum of their differences is free of that. It is tested as single I/Os are, a round being one chance.

*Sizes.* Two kernels of the same code take the same paths, so a path that is longer by 5,846 is seen
as +5,846 where only the candidate takes it, and as -5,846 where only the base does: each size has
its opposite. A cost of 402 in that path turns this into +402 (both take it), +6,248 and -5,846, of
which none has an opposite. So a size that many rounds show and whose opposite is all but absent is
no noise. Of such sizes the smallest is taken for the cost; one of the other sign must be explained
by it, as above, or where the cost is in all I/Os (+402, +6,248 and -5,444).

*One value.* Noise spreads: in the cells of which eight threads write through the page cache, no
value but 0 is the difference of more than 5 % of the I/Os between two of the base's boots. Code
costs the same each time it runs, so the I/Os that take the same path in both kernels all differ by
one value, and what the others do is no matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iotoll.verdict.instructions import pairing
from iotoll.verdict.instructions.pairing import MAJORITY, Ints, Moved, PairedIos

WIDTH = 12
"""Differences of one path are this far apart at most, instructions: lists and bits that are long or
short by one."""

OPPOSITE = 16
"""A size is one-sided if its opposite is this many times rarer, at least."""

FEWEST = 3
"""I/Os that have exactly the same difference, before what is near it counts as one size."""


SAME = 0.1
"""The net share of I/Os of each boot that must differ by one and the same value."""

PARTNER = 4
"""A longer path is noise if the other kernel alone takes it at most so many times more seldom."""


@dataclass(frozen=True)
class Band:
    """A size of difference that shows on one side: ``delta`` (signed) in ``ios`` I/Os.

    ``opposite`` I/Os have the negative of it. ``members`` are the rows of the pairs that have it.
    """

    delta: int
    ios: int
    opposite: int
    members: Ints


def find(
    paired: PairedIos, sizes: Sequence[int], z: float, share: float, mean: float, noise: float
) -> Moved | None:
    """As `iotoll.verdict.instructions.pairing.find`, and by sums, sizes and values where that
    finds nothing.
    """
    return (
        pairing.find(paired, sizes, z, share, mean, noise)
        or _by_sums(paired, sizes, z, mean)
        or _by_sizes(paired, sizes[0], z, share, mean, noise)
        or _by_value(paired, sizes[0], z, mean, noise)
    )


def _by_sums(paired: PairedIos, sizes: Sequence[int], z: float, mean: float) -> Moved | None:
    """The sign test of the rounds' sums: most of all rounds must move the same way.

    And twice the share that does so between two of the base's boots: two disks at once met each
    other otherwise in an innocent kernel, in 42 rounds of 48.
    """
    means, index = pairing.round_means(paired.differences, paired.round)
    if len(means) == len(paired.differences):
        return None
    boot = np.zeros(len(means), np.int64)
    boot[index] = paired.boot
    for size in sizes:
        above, below = int((means > size).sum()), int((means < -size).sum())
        net = above - below
        cost = float(paired.differences.mean())
        each = [pairing.net(means[boot == n], size) * np.sign(net) for n in np.unique(boot)]
        if abs(net) < max(MAJORITY * len(means), z * (above + below) ** 0.5):
            continue
        if abs(net) < 2 * _own_rounds(paired, size) * len(means):
            continue
        if cost * np.sign(net) >= mean and min(each) >= abs(net) / len(each) / 2:
            what = f"{above} of {len(means)} rounds of I/Os grew and {below} shrank together"
            return Moved(size, above, below, abs(net) / len(means), round(cost, 1), what)
    return None


def _own_rounds(paired: PairedIos, size: int) -> float:
    """The largest net share of rounds whose sums differ past ``size`` between the base's boots."""
    shares = []
    for differences, rounds in zip(paired.own, paired.own_rounds, strict=True):
        if len(differences):
            means, _ = pairing.round_means(differences, rounds)
            shares.append(abs(pairing.net(means, size)) / len(means))
    return max(shares, default=0.0)


def _by_sizes(
    paired: PairedIos, least: int, z: float, share: float, mean: float, noise: float
) -> Moved | None:
    total = len(paired.differences)
    bands = one_sided(paired, least, z, noise)
    if not bands:
        return None
    first = min(bands, key=lambda band: abs(band.delta))
    counted = _explained(paired, bands, first)
    if counted is None:
        return None
    ios = sum(n for _, n in counted)
    cost = sum(delta * n for delta, n in counted) / total
    if ios < share * total or abs(cost) < mean or not _in_every_boot(paired, first):
        return None
    grew = first.delta > 0
    what = ", ".join(f"{b.delta:+,d} in {b.ios} ({-b.delta:+,d} in {b.opposite})" for b in bands)
    above, below = (ios, 0) if grew else (0, ios)
    return Moved(least, above, below, ios / total, round(cost, 1), f"I/Os differ by {what}")


def one_sided(paired: PairedIos, least: int, z: float, noise: float) -> list[Band]:
    """The sizes above ``least`` that show on one side, in order of their size.

    A round is one chance, as in the sign test, and must reach ``z``, or of few rounds as many must
    agree as are enough there; the net share must reach ``noise`` times what two boots of the base
    show of the same size.
    """
    differences = paired.differences
    sizes = np.abs(differences)
    left = sizes > least
    found = []
    while left.any():
        values, counts = np.unique(sizes[left], return_counts=True)
        if counts.max() < FEWEST:
            break
        middle = int(values[counts.argmax()])
        (members,) = np.nonzero(left & (np.abs(sizes - middle) <= WIDTH))
        left[members] = False
        signs = np.sign(differences[members])
        together = np.bincount(paired.round[members], signs).astype(np.int64)
        votes = np.sign(together)
        moved, net = int(np.count_nonzero(votes)), int(signs.sum())
        way = 1 if net > 0 else -1
        ios, opposite = int((signs == way).sum()), int((signs == -way).sum())
        agree = votes.sum() * way >= z * moved**0.5 or pairing.few_agree(together, z)
        if moved == 0 or not agree or opposite * OPPOSITE > ios:
            continue
        if abs(net) < noise * _own_net(paired, middle) * len(differences):
            continue
        members = members[signs == way]
        delta = int(np.quantile(differences[members], 0.5, method="lower"))
        found.append(Band(delta, ios, opposite, members))
    return sorted(found, key=lambda band: (abs(band.delta), band.delta))


def _own_net(paired: PairedIos, size: int) -> float:
    """The largest net share of I/Os that differ by about ``size`` in two of the base's boots."""
    nets = [
        abs(float(np.sign(own[np.abs(np.abs(own) - size) <= WIDTH]).sum())) / len(own)
        for own in paired.own
        if len(own)
    ]
    return max(nets, default=0.0)


def _explained(
    paired: PairedIos, bands: Sequence[Band], first: Band
) -> list[tuple[int, int]] | None:
    """What each size says of the cost, as (instructions, I/Os); None if one contradicts the first.

    A path that only one kernel takes is noise, in whichever direction, and so is how often.
    """
    counted = [(first.delta, first.ios)]
    done = [first]
    for band in bands:
        if any(band is one for one in done):
            continue
        done.append(band)
        for both in (1, 2):
            wanted = both * first.delta - band.delta
            (there,) = np.nonzero(np.abs(paired.differences - wanted) <= 2 * WIDTH)
            if wanted * band.delta < 0 and len(there) * PARTNER >= band.ios:
                ios = band.ios + len(there) if both == 2 else min(band.ios, len(there))
                counted.append((first.delta, ios))
                done += [one for one in bands if abs(one.delta - wanted) <= 2 * WIDTH]
                break
        else:
            if band.delta * first.delta < 0:
                return None
            counted.append((band.delta, band.ios))
    return counted


def _in_every_boot(paired: PairedIos, band: Band) -> bool:
    """Whether each boot has at least a quarter of its share of these I/Os."""
    boots = np.bincount(paired.boot[band.members], minlength=int(paired.boot.max()) + 1)
    present = np.bincount(paired.boot)
    least = band.ios / len(paired.differences) / 4
    return bool((boots[present > 0] >= least * present[present > 0]).all())


def _by_value(paired: PairedIos, least: int, z: float, mean: float, noise: float) -> Moved | None:
    """The value, above ``least``, by which more I/Os differ than by any between the base's boots.

    Each boot must show that, and hardly an I/O its opposite; a value of the other sign that is as
    common says that it is no one cost. Fewer may differ by nothing: the cost is that of the I/Os
    whose path is the same, which differ by it or by nothing.
    """
    if not paired.unsteady(least):
        return None
    differences = paired.differences
    value, share = _commonest(differences, least)
    wanted = max(SAME, noise * max(_commonest(own, least)[1] for own in paired.own if len(own)))
    way = np.where(np.abs(differences) == abs(value), np.sign(differences * value), 0)
    shares = [float(way[paired.boot == boot].mean()) for boot in np.unique(paired.boot)]
    if min(shares) < wanted:
        return None
    ios, opposite, same = (int((differences == one).sum()) for one in (value, -value, 0))
    _, others = np.unique(differences[differences * value < 0], return_counts=True)
    if max(opposite * OPPOSITE, others.max(initial=0) * PARTNER, same) > ios:
        return None
    cost = value * ios / (ios + same)
    if abs(cost) < mean or ios - opposite < z * (ios + opposite) ** 0.5:
        return None
    above, below = (ios, opposite) if value > 0 else (opposite, ios)
    told = f"by exactly {value:+,d}, {opposite} by {-value:+,d}"
    what = f"{ios} of {len(differences)} I/Os differ {told}"
    return Moved(least, above, below, share, round(cost, 1), what)


def _commonest(differences: Ints, least: int) -> tuple[int, float]:
    """The value above ``least`` that most I/Os have more than its opposite, and their net share.

    Of equally common values the smallest one; 0 and no share where there is none.
    """
    far = differences[np.abs(differences) > least]
    if not len(far):
        return 0, 0.0
    sizes, index = np.unique(np.abs(far), return_inverse=True)
    nets = np.bincount(index.reshape(-1), np.sign(far))
    best = int(np.abs(nets).argmax())
    return int(sizes[best] * np.sign(nets[best])), float(abs(nets[best])) / len(differences)
