"""Pairs become verdicts; and what a gate must notice when its data are tampered with."""

from __future__ import annotations

import numpy as np
import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.records.models import NoisePair, NoiseRecord, Outcome, Section, SideResult, Stats
from iotoll.verdict.policy import load_time_policy
from iotoll.verdict.time.judge import Decision, decide
from iotoll.verdict.time.noise import extended
from iotoll.verdict.time.pairs import make_pairs
from tests.unit.verdict.time.sides import CELLS, FIGURES, noisy, side

POLICY = load_time_policy("time")
S = Section.COMPLETION
EMPTY = NoiseRecord(board="b", matrix="m", pairs=[])


def history(noise: float = 0.005, pairs: int = 60) -> NoiseRecord:
    rng = np.random.default_rng(99)
    made = [
        NoisePair(
            device="b",
            run=str(n),
            ratios={c: {f: float(rng.normal(0, noise)) for f in FIGURES} for c in CELLS},
        )
        for n in range(pairs)
    ]
    return NoiseRecord(board="b", matrix="m", pairs=made)


def judged(base: SideResult, candidate: SideResult, noise: NoiseRecord | None = None) -> Decision:
    pairs = make_pairs(base, candidate, CELLS, FIGURES, seed=4)
    return decide(pairs, CELLS, POLICY, noise or history(), seed=4)


def verdict_of(values: tuple[np.ndarray, np.ndarray], noise: NoiseRecord | None = None) -> Decision:
    return judged(side("base", values[0]), side("candidate", values[1]), noise)


def test_an_unchanged_kernel_passes_with_three_pairs() -> None:
    found = verdict_of(noisy(1, 3))
    assert (found.outcome, found.wanted, found.sequential.used) == (Outcome.PASS, 0, 3)
    assert found.sentence.startswith("None of 2 cells became slower by ")
    assert found.sequential.promise.startswith("A patch that changes nothing is blocked at most")
    assert {g.state for c in found.cells for g in c.growth} == {"within"}


def test_a_regression_raises_an_alarm_then_is_confirmed() -> None:
    values = noisy(2, 12, growth={(1, 0): 0.05})
    early = verdict_of((values[0][:3], values[1][:3]))
    assert early.outcome is Outcome.INCONCLUSIVE
    late = verdict_of(values)
    assert (late.outcome, late.sequential.used) == (Outcome.REGRESSION, 12)
    (text,) = late.regressions
    assert text.startswith(f"{CELLS[1]}: overhead +5.")
    grown = late.cells[1].growth[0]
    assert grown.state == "grew" and grown.exact == 1 / 4096
    assert grown.low < 0.05 < grown.high
    assert late.cells[0].outcome is Outcome.PASS


def test_an_alarm_goes_on_to_the_pairs_that_can_confirm_it() -> None:
    values = noisy(3, 4, noise=0.002, growth={(0, 0): 0.20})
    found = verdict_of(values, history(0.002))
    assert found.cells[0].growth[0].state == "alarm"
    assert found.wanted == 12, "8 pairs have 256 sign flips: too few to confirm 1 in 1000"


def test_swapped_labels_turn_a_regression_into_an_improvement() -> None:
    base, candidate = noisy(4, 16, growth={(0, 0): 0.05})
    assert verdict_of((base, candidate)).outcome is Outcome.REGRESSION
    swapped = verdict_of((candidate, base))
    assert swapped.outcome is Outcome.PASS
    assert swapped.improvements and not swapped.regressions


def test_swapped_labels_of_some_pairs_are_no_regression() -> None:
    base, candidate = noisy(5, 16, growth={(0, 0): 0.05})
    base[::2], candidate[::2] = candidate[::2].copy(), base[::2].copy()
    assert verdict_of((base, candidate)).outcome is not Outcome.REGRESSION


def test_one_boot_given_twice_is_refused() -> None:
    base, candidate = noisy(6, 3)
    records = side("candidate", candidate)
    cells = {name: [found[0], found[0], found[2]] for name, found in records.cells.items()}
    with pytest.raises(InfrastructureError, match="boot 1 and candidate boot 2 hold the same"):
        judged(side("base", base), records.model_copy(update={"cells": cells}))


def test_base_given_as_candidate_is_refused() -> None:
    base = side("base", noisy(6, 3)[0])
    with pytest.raises(InfrastructureError, match="the same recording"):
        judged(base, base.model_copy(update={"side": "candidate"}))


def test_constant_data_are_no_certainty() -> None:
    """Figures that never scatter: neither a division by zero nor a block without confirmation."""
    base = np.full((4, 2, 4), 10_000.0)
    found = verdict_of((base, base * 1.05), EMPTY)
    assert found.outcome is Outcome.INCONCLUSIVE and found.wanted == 12
    assert verdict_of((base, base), EMPTY).outcome is Outcome.PASS


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_values_that_are_none_are_not_used(bad: float) -> None:
    base, candidate = noisy(7, 4)
    candidate[1, 0, 0] = bad
    found = verdict_of((base, candidate))
    growth = found.cells[0].growth[0]
    assert growth.pairs < found.sequential.used
    assert growth.ratios[1] is None


def without_time(found: SideResult, cell: str) -> SideResult:
    """A side of which ``completion`` of a cell takes no time."""
    none = Stats(count=2048, min=0, median=0, trimmed_mean=0.0, mean=0.0, max=0)
    cells = {
        name: [
            record.model_copy(
                update={
                    "sections": {
                        **record.sections,
                        S: record.sections[S].model_copy(update={"elapsed": none}),
                    }
                }
            )
            if name == cell
            else record
            for record in records
        ]
        for name, records in found.cells.items()
    }
    return found.model_copy(update={"cells": cells})


def test_a_section_that_a_disk_does_not_have_is_said_and_keeps_no_cell_from_passing() -> None:
    """null_blk ends a request in its queue function: there is no completion to be timed."""
    values = noisy(1, 3)
    base, candidate = side("base", values[0]), side("candidate", values[1])
    none = without_time(base, CELLS[0])
    known = history()
    for pair in known.pairs:
        pair.ratios[CELLS[0]][S.value] = 0.0  # as `extended` keeps it
    found = judged(none, without_time(candidate, CELLS[0]), known)
    assert found.outcome is Outcome.PASS
    (growth,) = [g for g in found.cells[0].growth if g.figure == S.value]
    assert "takes no time" in growth.why and not found.cells[1].growth[3].why
    # What takes time in one kernel alone is no such section, and nothing says by how much it grew.
    assert judged(none, candidate).outcome is not Outcome.PASS


def test_a_cell_without_any_figure_is_infrastructure() -> None:
    base, candidate = noisy(8, 4)
    found = judged(
        side("base", base),
        side("candidate", candidate, invalid={(CELLS[1], n): "throttled" for n in range(4)}),
    )
    assert (found.outcome, found.wanted) == (Outcome.INFRASTRUCTURE, 0)
    assert "nvme-4k-randread-t1-direct has no usable values: candidate: throttled" in found.sentence


def test_an_invalid_boot_never_votes() -> None:
    """A pair whose figures are invalid changes nothing, however wild they are."""
    base, candidate = noisy(9, 4, noise=0.002)
    plain = verdict_of((base[:3], candidate[:3]), history(0.002))
    candidate[3] *= 5
    broken = side("candidate", candidate, invalid={(c, 3): "lost events" for c in CELLS})
    found = judged(side("base", base), broken, history(0.002))
    assert found.outcome is plain.outcome is Outcome.PASS
    assert found.cells[0].growth[0].growth == plain.cells[0].growth[0].growth


def test_one_boot_of_one_side_only() -> None:
    base, candidate = noisy(10, 3)
    found = judged(side("base", base), side("candidate", candidate[:1]))
    assert (found.outcome, found.wanted, found.sequential.used) == (Outcome.INCONCLUSIVE, 3, 0)


def test_a_missing_cell_never_passes() -> None:
    base, candidate = noisy(11, 3)
    found = judged(side("base", base), side("candidate", candidate[:, :1], cells=CELLS[:1]))
    assert found.outcome is Outcome.INFRASTRUCTURE
    assert found.cells[1].why == "no values of the candidate"


def test_boots_on_different_boards_are_no_pair() -> None:
    base, candidate = noisy(12, 3)
    other = side("candidate", candidate)
    boots = [b.model_copy(update={"board_sha256": "9" * 64}) for b in other.boots]
    found = judged(side("base", base), other.model_copy(update={"boots": boots}))
    assert found.outcome is Outcome.INFRASTRUCTURE
    assert "different boards" in found.cells[0].why


def test_noise_too_large_says_how_many_pairs_would_do() -> None:
    found = verdict_of(noisy(13, 16, noise=0.06), history(0.06))
    assert (found.outcome, found.wanted) == (Outcome.INCONCLUSIVE, 0)
    assert found.sequential.would_do is not None and found.sequential.would_do > 16
    assert f"about {found.sequential.would_do} pairs would tell" in found.sentence


def test_a_figure_too_noisy_for_its_limit_is_named_and_no_pass() -> None:
    """F5: one cell of 4 % among good ones: the others pass, and it is not among them."""
    cells = [f"ufs-4k-randread-t{n}-direct" for n in range(1, 12)]
    rng = np.random.default_rng(16)
    scale = np.full((len(cells), 1), 0.003)
    scale[4] = 0.04
    base, candidate = (
        10_000 * np.exp(rng.normal(0, 1, (16, len(cells), 4)) * scale / 2**0.5) for _ in range(2)
    )
    past = NoiseRecord(
        board="b",
        matrix="m",
        pairs=[
            NoisePair(
                device="b",
                run=str(n),
                ratios={
                    cell: {f: float(rng.normal(0, scale[at, 0])) for f in FIGURES}
                    for at, cell in enumerate(cells)
                },
            )
            for n in range(60)
        ],
    )
    pairs = make_pairs(
        side("base", base, cells), side("candidate", candidate, cells), cells, FIGURES, seed=4
    )
    found = decide(pairs, cells, POLICY, past, seed=4)
    assert found.outcome is Outcome.PASS
    assert "None of 10 cells" in found.sentence
    assert f"Not judged today: {cells[4]}: overhead" in found.sentence
    assert found.cells[4].outcome is Outcome.INCONCLUSIVE
    assert found.cells[4].why.startswith("not judged today: overhead")
    assert found.sequential.not_judged


def test_a_slow_boot_is_set_aside_and_named() -> None:
    base, candidate = noisy(17, 5, noise=0.005)
    base[1] *= 1.08
    found = verdict_of((base, candidate))
    assert found.outcome is Outcome.PASS
    assert found.sequential.pairs[1].unused.startswith("set aside: one boot was slow as a whole")


def test_a_candidate_slow_in_most_boots_does_not_pass() -> None:
    """What is set aside may not hide a candidate whose boots are slow."""
    base, candidate = noisy(18, 32, noise=0.005)
    candidate[::3] *= 1.08
    found = verdict_of((base, candidate))
    assert found.outcome is not Outcome.PASS
    assert any("more often than this board's history" in g.why for g in found.cells[0].growth)


def test_a_history_takes_each_pair_once() -> None:
    base, candidate = noisy(14, 5)
    pairs = make_pairs(side("base", base), side("candidate", candidate), CELLS, FIGURES, None)
    once = extended(EMPTY, pairs)
    assert len(once.pairs) == 5
    assert extended(once, pairs) == once


def test_a_verdict_is_derived_again() -> None:
    values = noisy(15, 16, growth={(0, 0): 0.03})
    assert verdict_of(values) == verdict_of(values)
