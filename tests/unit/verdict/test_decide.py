"""The one rule: what of paired differences is growth, and what is noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from iotoll.verdict.instructions import decide
from iotoll.verdict.instructions.decide import Asked, Trial, find
from iotoll.verdict.instructions.pairing import PairedIos
from iotoll.verdict.instructions.record import distribution, how_sure, size_of
from iotoll.verdict.policy import CountRule, load_policy

POLICY = load_policy("instructions")
COUNT = CountRule(threshold=4)
WAIT, COST = 5846, 402
IOS = 384
Ints = NDArray[np.int64]


def asked(count: CountRule = COUNT) -> Asked:
    return Asked(POLICY.moved, count, POLICY.moved.share)


def paired(differences: Ints, own: list[Ints] | None = None, in_round: int = 1) -> PairedIos:
    """Three boots of such differences, and pairs of the base's boots."""
    order = np.arange(len(differences))
    return PairedIos(
        differences,
        np.full(len(differences), 6000),
        order * 3 // len(differences),
        order // in_round,
        own=tuple(own or ()),
        own_rounds=tuple(np.arange(len(one)) // in_round for one in own or ()),
    )


def waits(cost: int, seed: int, share: float = 0.4) -> Ints:
    """Differences of I/Os of which a share of each round of twelve waits for a tag.

    How many wait is the same in each kernel, and who does is decided anew.
    """
    random = np.random.default_rng(seed)
    waiting = np.tile(np.arange(12) < round(share * 12), (2, IOS // 12, 1))
    base, candidate = random.permuted(waiting, axis=2).reshape(2, IOS).astype(np.int64)
    found: Ints = candidate * (WAIT + cost) - base * WAIT
    return found


OWN = [waits(0, seed) for seed in (101, 102, 103)]


def test_a_cost_in_a_path_that_other_ios_take_in_each_kernel() -> None:
    """Who waits for a tag is chance, and how many wait is not: the rounds' sums tell."""
    for seed in range(20):
        for cost in (COST, -COST):
            moved = find(paired(waits(cost, seed), OWN, in_round=12), asked())
            assert moved is not None
            assert moved.grew is (cost > 0)
            assert not moved.rounds or moved.cost == pytest.approx(COST * 5 / 12, abs=1)


def test_the_same_paths_in_another_order_are_no_cost() -> None:
    for seed in range(200):
        assert find(paired(waits(0, seed), OWN, in_round=12), asked()) is None
        assert find(paired(waits(0, seed), in_round=12), asked()) is None, "the first boot"


@pytest.mark.parametrize(("cost", "shown"), [(3, False), (4, False), (5, True), (7, True)])
def test_a_few_large_differences_do_not_hide_a_small_cost(cost: int, shown: bool) -> None:
    """eMMC 128 KiB reads of eight threads, 24 rounds in three boots: the mean is that of noise."""
    differences = np.full(192, cost)
    differences[[3, 70, 150]] = -495
    moved = find(paired(differences, [np.zeros(192, np.int64)], in_round=8), asked())
    assert (moved is not None) is shown
    if moved is not None:
        assert (moved.typical, moved.moved, moved.agree) == (cost, 24, 24)


def test_what_one_io_of_a_round_takes_from_another_cancels_in_their_sum() -> None:
    """Each round's I/Os cost 300 more, and which of them waits for how long is another one."""
    random = np.random.default_rng(3)
    noise = random.normal(0, 30_000, (24, 16)).astype(np.int64)
    noise[:, -1] -= noise.sum(axis=1)
    own = [random.permutation(noise).reshape(-1)]
    found = find(paired(noise.reshape(-1) + 300, own, in_round=16), asked())
    assert found is not None
    assert (found.rounds, found.above, found.total, found.typical) == (True, 24, 24, 300)
    assert find(paired(noise.reshape(-1), own, in_round=16), asked()) is None


@pytest.mark.parametrize(("rounds", "found"), [(72, False), (40, False), (18, True)])
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
    together = paired(differences.reshape(-1), [own.astype(np.int64).reshape(-1)], in_round=32)
    assert (find(together, asked()) is not None) is found


@pytest.mark.parametrize(("own", "found"), [(0, True), (10, True), (25, False), (-25, False)])
def test_a_share_must_be_several_times_what_the_base_shows_of_itself(own: int, found: bool) -> None:
    differences, between = np.zeros(256, np.int64), np.zeros(256, np.int64)
    differences[::7] = 321
    between[: abs(own)] = 321 * np.sign(own)
    together = paired(differences, [np.zeros(256, np.int64), between])
    assert (find(together, asked()) is not None) == found
    assert distribution(together, None, asked()).noise == pytest.approx(abs(own) / 256, abs=1e-4)


def test_ios_of_one_round_share_one_chance() -> None:
    differences = np.zeros(384, np.int64)
    differences[:32] = differences[128:160] = differences[256:288] = 321
    assert find(paired(differences), asked()) is not None
    assert find(paired(differences, in_round=8), asked()) is None, "12 rounds of 48"


@pytest.mark.parametrize(("grown", "found"), [(24, True), (22, True), (21, False)])
def test_few_rounds_tell_if_nearly_all_moved_one_way(grown: int, found: bool) -> None:
    """64 I/Os of eight threads are 24 rounds in three boots."""
    differences = np.where(np.arange(192) // 8 % 24 < grown, 52, -52)
    moved = find(paired(np.roll(differences, 40), in_round=8), asked())
    assert (moved is not None) is found


def test_the_chance_of_rounds_is_that_of_a_fair_coin() -> None:
    one = Trial(False, 4, 9, 1, 99, 0.0, 96, 24, 22, 9.0, (1.0,))
    for moved in (1, 10, 24, 96):
        for agree in range((moved + 1) // 2, moved + 1):
            shown = replace(one, moved=moved, agree=agree)
            assert shown.chance == pytest.approx(scipy.stats.binomtest(agree, moved).pvalue)


def test_each_boot_must_show_a_part() -> None:
    differences = np.zeros(IOS, np.int64)
    differences[IOS // 3 :: 4] = 300
    assert find(paired(differences), asked()) is None, "the first boot has none"
    differences[: IOS // 3 : 16] = 300
    assert find(paired(differences), asked()) is not None


def test_less_than_the_policys_mean_is_no_growth() -> None:
    differences = np.zeros(IOS, np.int64)
    differences[::8] = 7
    assert find(paired(differences), asked()) is None, "0.9 an I/O"
    differences[::8] = 9
    assert find(paired(differences), asked()) is not None


@pytest.mark.parametrize(("every", "size", "found"), [(8, 700, 0), (8, 900, 1), (1, 6, 1)])
def test_few_whole_ios_must_grow_by_more_than_ticks_may(every: int, size: int, found: int) -> None:
    """+127 on 464,873 instructions in 22 % of the rounds blocked a kernel that ends with "-hd"."""
    count = CountRule(threshold=5, few=0.001)
    differences = np.where(np.arange(IOS) % every == 0, size, 0)
    together = replace(paired(differences), base=np.full(IOS, 100_000))
    assert (find(together, asked(count)) is not None) is bool(found)


def test_any_integer_is_judged_by_its_own_threshold() -> None:
    """One register read more in each I/O, or in every 16th; none is allowed."""
    reads = CountRule(threshold=0, unit="register reads")
    one = np.ones(IOS, np.int64)
    rare = (np.arange(IOS) % 16 == 0).astype(np.int64)
    for differences, share in ((one, 1.0), (rare, 1 / 16)):
        moved = find(paired(differences), asked(reads))
        assert moved is not None
        assert (moved.share, moved.typical) == (share, 1)
    assert find(paired(one), asked(replaced(reads, 1))) is None


def replaced(count: CountRule, threshold: int) -> CountRule:
    return count.model_copy(update={"threshold": threshold})


def test_by_hand() -> None:
    """Eight I/Os in four rounds of two boots, each number worked out on paper."""
    differences = np.array([10, 6, 0, 5, 30, -9, 4, 8])
    boot = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    rounds = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    own = np.array([0, 5, 0, -6, 0, 7, 0, 0])
    together = PairedIos(
        differences, np.full(8, 100), boot, rounds, own=(own,), own_rounds=(rounds,)
    )
    first, second, *others = decide.trials(together, asked())
    # 10, 6, 5, 30 and 8 are above 4, -9 is below it; of the rounds' net numbers 2, 1, 0 and 1
    # three have a direction; the middle of 5, 6, 8, 10, 30 is 8; 3 of 4 in the first boot, 1 net
    # of 4 in the second; 5 and 7 against -6 in the base.
    assert first == Trial(False, 4, 5, 1, 8, 1 / 8, 4, 3, 3, 8.0, (3 / 4, 1 / 4))
    assert (first.share, first.cost, first.chance) == (1 / 2, 4.0, 1 / 4)
    # Above 12 there is one.
    assert second == Trial(False, 12, 1, 0, 8, 0.0, 4, 1, 1, 30.0, (0.0, 1 / 4))
    # The rounds' means are 8, 2.5, 10.5 and 6; in the base 2.5, -3, 3.5 and 0.
    assert others == [Trial(True, 4, 3, 0, 4, 0.0, 4, 3, 3, 8.0, (1 / 2, 1.0))]


def sure(differences: Ints, own: list[Ints] | None = None, in_round: int = 1) -> str:
    together = paired(differences, own, in_round)
    moved = find(together, asked())
    return how_sure(distribution(together, moved, asked()), moved)


def test_g2_10_how_sure_is_said_in_plain_words() -> None:
    every = np.full(768, 330)
    every[:8] = 338
    own = np.zeros(768, np.int64)
    own[:3] = 9
    assert sure(every, [own]) == (
        "All 768 I/Os grew, 99% of the I/Os by exactly 330."
        " Two boots of the base differ so in 0.4% of the I/Os."
    )
    some = np.zeros(768, np.int64)
    some[::16] = 305 + np.arange(48)
    some[5] = -99
    assert sure(some, [np.zeros(768, np.int64)]) == (
        "48 of 768 I/Os grew and 1 shrank by more than 4, typically by 328."
        " No two boots of the base differ so."
    )
    assert sure(-every).startswith("All 768 I/Os shrank, 99% of the I/Os by exactly 330.")
    assert sure(np.zeros(768, np.int64)) == "100% of 768 I/Os cost exactly what their pair does."


def test_where_most_moved_the_size_is_the_median_else_a_mean() -> None:
    every, some = np.full(384, 21), np.zeros(384, np.int64)
    some[::8] = 400
    for differences, size in ((every, (6000.0, 21.0)), (some, (6000.0, 50.0))):
        together = paired(differences)
        assert size_of(together, find(together, asked()), COUNT) == size
    assert size_of(paired(np.full(384, 3)), None, COUNT) == (6000.0, 3.0)
