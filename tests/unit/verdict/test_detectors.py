"""What moved where I/Os take several paths: by the sums of rounds, and by sizes without opposites.

The figures are those of a cost of 402 instructions where an I/O finds no free tag (docs/cells.md):
such a wait is 5,846 longer, and who waits is decided anew in each kernel.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from iotoll.verdict.instructions import detectors, pairing
from iotoll.verdict.instructions.pairing import Moved, PairedIos

SIZES = [12, 50, 200, 1000, 4000]
WAIT, COST = 5846, 402
IOS = 384


def paired(
    differences: NDArray[np.int64], own: list[NDArray[np.int64]] | None = None, in_round: int = 1
) -> PairedIos:
    count = len(differences)
    return PairedIos(
        differences,
        np.full(count, 6000),
        np.arange(count) * 3 // count,
        np.arange(count) // in_round,
        own=tuple(own or ()),
        own_rounds=tuple(np.arange(len(one)) // in_round for one in own or ()),
    )


def waits(cost: int, seed: int, share: float = 0.4) -> NDArray[np.int64]:
    """Differences of I/Os of which a share waits in either kernel, others in each."""
    random = np.random.default_rng(seed)
    base, candidate = (random.random((2, IOS)) < share).astype(np.int64)
    found: NDArray[np.int64] = candidate * (WAIT + cost) - base * WAIT
    return found


def find(found: PairedIos, z: float = 5.0) -> Moved | None:
    return detectors.find(found, SIZES, z, share=0.02, mean=1.0, noise=4.0)


OWN = [waits(0, seed) for seed in (101, 102, 103)]


def test_a_cost_in_a_path_that_other_ios_take_in_each_kernel() -> None:
    """The sign test misses it: about as many I/Os wait in the base alone as in the candidate."""
    for seed in range(20):
        found = paired(waits(COST, seed), OWN)
        assert pairing.find(found, SIZES, 5.0, 0.02, 1.0, 4.0) is None
        moved = find(found)
        assert moved is not None and moved.grew
        both = (np.abs(found.differences - COST) <= 12).sum()
        alone = min((found.differences == WAIT + COST).sum(), (found.differences == -WAIT).sum())
        assert moved.cost == round(float(both + alone) * COST / IOS, 1)
        assert f"{COST:+,d} in {both}" in moved.what


def test_a_path_that_became_shorter_is_an_improvement() -> None:
    moved = find(paired(waits(-COST, 1), OWN))
    assert moved is not None and not moved.grew and moved.cost is not None and moved.cost < 0


def test_the_same_paths_in_another_order_are_no_cost() -> None:
    for seed in range(200):
        assert find(paired(waits(0, seed), OWN)) is None
        assert find(paired(waits(0, seed)), z=4.0) is None, "the first boot"


def test_a_cost_in_all_ios_is_seen_beside_longer_paths() -> None:
    """+404 in most, and a path of 1,397 that one kernel takes: +1,801 and -993."""
    random = np.random.default_rng(5)
    differences = 404 + random.choice([0, 1397, -1397], IOS, p=[0.5, 0.25, 0.25])
    own = [random.choice([0, 1397, -1397], IOS, p=[0.5, 0.25, 0.25]) for _ in range(3)]
    found = detectors._by_sizes(paired(differences, own), 12, 5.0, 0.02, 1.0, 4.0)
    assert found is not None and found.grew
    assert found.cost == 404.0


def test_sizes_that_contradict_each_other_say_nothing() -> None:
    """Some I/Os are dearer and some are cheaper: not what one cost can be."""
    differences = np.zeros(IOS, np.int64)
    differences[::5], differences[1::5] = 300, -777
    assert find(paired(differences, OWN)) is None


def test_a_size_that_one_boot_lacks_is_chance() -> None:
    differences = np.zeros(IOS, np.int64)
    differences[IOS // 3 :: 4] = 300
    assert detectors._by_sizes(paired(differences, OWN), 12, 5.0, 0.02, 1.0, 4.0) is None


def test_a_size_that_the_base_shows_one_way_must_be_clearer() -> None:
    differences, own = np.zeros(IOS, np.int64), np.zeros(IOS, np.int64)
    differences[::10], own[::20] = 300, 300
    found = paired(differences, [own])
    assert detectors.one_sided(found, 12, 5.0, 1.0) != []
    assert detectors.one_sided(found, 12, 5.0, 4.0) == []


def test_ios_of_one_round_wait_in_place_of_each_other() -> None:
    """Each round's waits cost 402 more, and who waits for how long differs in all of them."""
    random = np.random.default_rng(3)
    noise = random.normal(0, 3000, (IOS // 32, 32)).astype(np.int64)
    noise[:, -1] -= noise.sum(axis=1)
    differences = np.tile(noise.reshape(-1), 6) + 300
    own = [np.tile(random.permutation(noise.reshape(-1)), 6)]
    found = paired(differences, own, in_round=32)
    moved = find(found)
    assert moved is not None and moved.grew and moved.cost == 300.0
    assert "72 of 72 rounds" in moved.what
    assert find(paired(differences - 300, own, in_round=32)) is None


@pytest.mark.parametrize(("rounds", "found"), [(72, False), (30, False), (18, True)])
def test_rounds_that_move_so_between_boots_of_the_base_are_no_cost(
    rounds: int, found: bool
) -> None:
    """An innocent kernel was blocked: two disks, whose threads meet otherwise in each boot."""
    random = np.random.default_rng(3)
    noise = random.normal(0, 3000, (72, 32))
    noise[:, -1] -= noise.sum(axis=1)
    differences = (noise + np.where(np.arange(72) % 9 < 8, 300, -300)[:, None]).astype(np.int64)
    own = noise.copy()
    own[:rounds] += 400
    moved = find(paired(differences.reshape(-1), [own.astype(np.int64).reshape(-1)], in_round=32))
    assert (moved is not None) is found


def test_where_the_base_is_unsteady_a_minority_is_no_growth() -> None:
    """128 KiB reads through read-ahead: 100 of 195 I/Os grew and 40 shrank, without the cost."""
    random = np.random.default_rng(9)
    size = random.integers(200, 9000, 195)
    sign = np.concatenate([np.ones(100), -np.ones(40), np.zeros(55)])
    differences = (size * random.permutation(sign)).astype(np.int64)
    own = [(size * random.permutation(np.tile([1, -1, 1, -1, 0], 39))).astype(np.int64)]
    assert find(paired(differences, own)) is None
    steady = [np.zeros(195, np.int64)]
    assert find(paired(differences, steady)) is not None


def test_most_of_all_ios_are_enough_where_the_base_moves_much() -> None:
    """176 of 189 fsyncs grew; four times the base's own net share of 33 % cannot be reached."""
    random = np.random.default_rng(2)
    size = random.integers(12000, 15000, 189)
    differences = size * np.concatenate([np.ones(176), -np.ones(13)]).astype(np.int64)
    differences = random.permutation(differences)
    own = [random.permutation(size * np.repeat([1, -1, 0], [99, 36, 54]))]
    moved = find(paired(differences, own))
    assert moved is not None and moved.grew
    half = random.permutation(size * np.repeat([1, -1], [140, 49]))
    assert find(paired(half, own)) is None, "net 48 %"


def spread(seed: int, exact: int = 0, share: float = 0.0) -> NDArray[np.int64]:
    """Noise in each of the I/Os of three boots, but for a share that differs exactly."""
    random = np.random.default_rng(seed)
    found = 2 * random.integers(-4500, 4500, (3, IOS // 3))  # never odd by chance
    found[:, : round(share * IOS / 3)] = exact
    return found.reshape(-1)


SPREAD = [spread(seed) for seed in (201, 202, 203)]


def test_one_value_in_many_ios_is_a_cost_where_all_others_differ_by_chance() -> None:
    """Eight threads that write 128 KiB through the page cache: +21 in 94 of 384 I/Os, never -21."""
    moved = find(paired(spread(1, 21, 0.25), SPREAD, in_round=8))
    assert moved is not None and moved.grew and moved.cost == 21
    assert moved.what == "96 of 384 I/Os differ by exactly +21, 0 by -21"
    moved = find(paired(spread(1, -21, 0.25), SPREAD, in_round=8))
    assert moved is not None and not moved.grew and moved.cost == -21
    half = spread(1, 21, 0.25)
    half[:10] = half[128:138] = half[256:266] = 0
    moved = find(paired(half, SPREAD, in_round=8))
    assert moved is not None and moved.cost == round(21 * 66 / 96, 1), "the others cost nothing"


@pytest.mark.parametrize("why", ["few", "opposites", "one boot", "base", "other", "small"])
def test_one_value_is_chance(why: str) -> None:
    found, own = spread(1, 8 if why == "small" else 21, 0.08 if why == "few" else 0.25), SPREAD
    if why == "opposites":
        found[[0, 1, 128, 129, 256, 257, 2]] = -21
    elif why == "one boot":
        found[128:256] = spread(2)[:128]
    elif why == "base":
        own = [spread(seed, 43, 0.08) for seed in (201, 202, 203)]
    elif why == "other":
        found[[*range(112, 128), *range(240, 256), *range(368, 384)]] = -777
    assert find(paired(found, own, in_round=8)) is None


def test_few_rounds_that_agree_are_enough_for_a_size_too() -> None:
    """eMMC 128 KiB reads of eight threads, 24 rounds in three boots: the mean is that of noise."""
    found = np.full(192, 21)
    found[[64, 80, 150]] = -1495
    assert found.mean() < 1
    own = np.zeros(192, np.int64)
    own[:9] = np.resize([509, -395], 9)
    moved = find(paired(found, [own], in_round=8))
    assert moved is not None and moved.grew and moved.share == 189 / 192
    found[range(8, 192, 16)] = -21
    assert find(paired(found, [own], in_round=8)) is None, "these have opposites"
