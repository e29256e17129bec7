"""Dividing ranges as git does, and the search on a noisy clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from click.testing import CliRunner
from iotoll_lab.experiments import search_rivals
from iotoll_lab.experiments.search import search_command, simulate

from iotoll.bisect.bayes import CHANGE, HISTORY, LARGER, RARER, SCALES, Search, information
from iotoll.bisect.graph import Range, steps
from iotoll.bisect.ledger import Line, Step, minus, plus

PART = ("cell", "submission")


def line(count: int, **weights: float) -> Range:
    """Commits cN..c1 in a row, newest first."""
    parents = {f"c{n}": [f"c{n - 1}"] for n in range(count, 0, -1)}
    return Range(parents, weights)


def test_the_middle_is_chosen_and_the_cheaper_of_two() -> None:
    graph = line(8)
    suspects = graph.suspects("c8", [])
    assert graph.next(suspects, "c8", []) == "c4"
    seven = line(7)
    suspects = seven.suspects("c7", [])
    assert seven.next(suspects, "c7", [], lambda c: c != "c4") == "c4"
    assert seven.next(suspects, "c7", [], lambda c: c != "c3") == "c3"


def test_steps_are_the_logarithm() -> None:
    assert [steps(n) for n in (1, 2, 3, 4, 64, 65)] == [0, 1, 2, 2, 6, 7]


def test_what_is_far_from_skipped_commits_is_preferred() -> None:
    graph = line(16)
    suspects = graph.suspects("c16", [])
    chosen = graph.next(suspects, "c16", ["c8"])
    assert chosen is not None and abs(int(chosen[1:]) - 8) >= 2


def test_commits_that_cannot_be_the_one_are_not_tested() -> None:
    graph = line(9, **{f"c{n}": 0.0 for n in range(1, 10) if n not in (3, 7)})
    suspects = graph.suspects("c9", [])
    assert graph.next(suspects, "c9", []) == "c3"
    assert graph.next(graph.suspects("c9", ["c3"]), "c9", []) is None


def test_a_merge_reaches_both_branches() -> None:
    graph = Range({"m": ["a2", "b2"], "a2": ["a1"], "b2": ["b1"], "a1": ["o"], "b1": ["o"]})
    assert set(graph.suspects("m", ["a2"])) == {"m", "b2", "b1"}
    assert graph.suspects("b2", []) == ["b2", "b1"]


def between(values: Mapping[str, int | None], least: int = 0) -> Callable[[str, str], Step]:
    """Steps from one value to another, which the gate counts above ``least``."""

    def step(one: str, other: str) -> Step:
        delta = (values[other] or 0) - (values[one] or 0)
        return Step({PART: delta} if delta else {}, frozenset([PART] if abs(delta) > least else []))

    return step


def test_a_line_is_divided_into_what_adds_up() -> None:
    values = dict.fromkeys(map(str, range(9)), 0) | {"5": 30, "6": 30, "7": 10, "8": 10}
    measured: list[str] = []

    def measure(commit: str) -> bool:
        measured.append(commit)
        return True

    rows = Line([*map(str, range(9))], measure, between(values), lambda: True).rows()
    moved = {r.commits: r.deltas for r in rows if r.deltas}
    assert moved == {("5",): {PART: 30}, ("7",): {PART: -20}}
    assert plus([r.deltas for r in rows]) == minus({PART: 10}, {})
    assert len(measured) == len(set(measured))


VALUES = (
    {0: [0.1, -0.3], 2: [0.9], 4: [1.4, 0.8]},
    {0: [0.0, 0.2], 1: [0.9], 3: [0.2], 4: [1.1, 1.3]},
    {0: [0.5, -1.5], 2: [1.0, -0.7, 0.1], 4: [1.0, 3.0]},
)


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("said", [0.3, 1.0])
def test_chances_are_those_of_all_means_and_all_noise(
    values: dict[int, list[float]], said: float
) -> None:
    """Integrated on a grid: a flat mean, a larger one after; noise as HISTORY boots know it."""
    state = Search(4, said)
    for place, some in values.items():
        for value in some:
            state.add(place, value)
    sigmas = np.geomspace(0.02, 20, 60)
    # The grid's steps of sigma are proportional to it, so its density has one power less.
    noise = np.exp(-HISTORY * said**2 / (2 * sigmas**2)) * sigmas**-HISTORY
    means = np.linspace(-12, 14, 261)
    apart = means[None, :] - means[:, None]
    expected = np.zeros(4)
    for weight, sigma in zip(noise, sigmas, strict=True):
        likely = np.where(apart > 0, RARER**SCALES / (CHANGE * LARGER**SCALES * sigma), 0.0)
        for number in range(SCALES):
            scale = CHANGE * LARGER**number * sigma
            one = RARER**number * np.exp(-(apart**2) / (2 * scale**2)) / scale
            likely += np.where(apart > 0, one, 0.0)
        for step in range(1, 5):
            log = np.zeros((2, len(means)))
            for place, some in values.items():
                for value in some:
                    log[int(place >= step)] -= (value - means) ** 2 / (2 * sigma**2) + np.log(sigma)
            before, after = np.exp(log)
            expected[step - 1] += weight * (before @ likely @ after)
    assert state.posterior() == pytest.approx(expected / expected.sum(), abs=0.03)


@pytest.mark.parametrize("change", [1e2, 1e4, 1e8])
def test_a_change_far_above_the_noise_is_found_at_its_place(change: float) -> None:
    search = Search(20, 1.0)
    for place in range(21):
        search.add(place, change * (place >= 13))
    assert search.likeliest()[0] == [13] and search.likeliest()[1] > 0.999


def test_what_the_gate_does_not_count_is_in_the_sum_and_names_nobody() -> None:
    values = {"0": 0, "1": 0, "2": 40, "3": 0, "4": 50, "5": None, "6": 90, "7": None, "8": 150}

    def measure(commit: str) -> bool:
        return values[commit] is not None

    found = Line([*values], measure, between(values, 40), lambda: True).rows()
    assert [(r.commits, r.why) for r in found if r.deltas] == [
        (("2",), "small"), (("3",), "small"), (("4",), "commit"),
        (("5", "6"), "small"), (("7", "8"), "skipped"),
    ]  # fmt: skip
    assert plus([r.deltas for r in found]) == {PART: 150}


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.8])
def test_information_is_that_of_a_coin_when_values_are_far_apart(chance: float) -> None:
    coin = -chance * np.log2(chance) - (1 - chance) * np.log2(1 - chance)
    found = information(np.array([chance, chance]), np.array([0.0, 8.0]))
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    assert found[1] == pytest.approx(coin, abs=2e-3)


def test_a_clear_step_is_found_at_its_place() -> None:
    search = Search(20, 1.0)
    for place in range(21):
        search.add(place, 100.0 * (place >= 13))
    assert search.likeliest()[0] == [13] and search.likeliest()[1] > 0.999
    down = Search(20, 1.0, direction=-1)
    for place in range(21):
        down.add(place, -100.0 * (place >= 13))
    assert down.likeliest()[0] == [13]


def test_the_order_of_values_does_not_matter_so_a_log_resumes_it() -> None:
    chance = np.random.default_rng(3)
    values = [
        (int(p), float(v))
        for p, v in zip(chance.integers(0, 21, 60), chance.normal(size=60), strict=True)
    ]
    one, other = Search(20, 1.0), Search(20, 1.0)
    for place, value in values:
        one.add(place, value)
    for place, value in values[::-1]:
        other.add(place, value)
    assert one.posterior() == pytest.approx(other.posterior())


def test_skipped_commits_merge_with_the_next_one_into_a_range() -> None:
    search = Search(10, 1.0, skipped={4, 5})
    for place in (0, 1, 2, 3, 6, 7, 8, 9, 10):
        search.add(place, 50.0 * (place >= 6))
    assert search.likeliest()[0] == [4, 5, 6]


def test_code_in_question_is_measured_first() -> None:
    prior = [1.0] * 100
    prior[79] = 1000.0
    search = Search(100, 0.01, prior=prior)
    for _ in range(2):
        search.add(0, 0.0)
        search.add(100, 1.0)
    step = search.next()
    assert step is not None and step.place in (79, 80)


def test_several_boards_measure_several_commits() -> None:
    search = Search(50, 0.5)
    for place in (0, 50):
        search.add(place, float(place > 0))
    places = [step.place for step in search.several(3)]
    assert len(set(places)) == 3


def test_misuse_is_refused() -> None:
    wrong: list[Callable[[], Search]] = [
        lambda: Search(0, 1.0),
        lambda: Search(5, 0.0),
        lambda: Search(5, 1.0, direction=2),
        lambda: Search(5, 1.0, prior=[1.0]),
    ]
    for make in wrong:
        with pytest.raises(ValueError):
            make()


def test_simulated_searches_beat_plain_bisection() -> None:
    ours, git = (simulate(rule, 2.0, 1.0, 20, 40, 7) for rule in ("iotoll", "git bisect"))
    assert ours.right >= 0.9 > git.right


def test_simulated_searches_name_no_commit_after_one_boot_of_it() -> None:
    # So clear that one boot of each commit would do.
    found = simulate("iotoll", 1000.0, 1.0, 50, 8, 7)
    assert found.right == 1.0
    assert found.boots >= 4 + found.builds + 1, "A and B twice, and one commit of two again"


def test_rank_test_tells_shifted_values() -> None:
    one = [float(n) for n in range(10)]
    assert search_rivals.rank_test(one, [v + 100 for v in one]) < 0.001
    assert search_rivals.rank_test(one, [v + 0.5 for v in one]) > 0.3


@pytest.mark.parametrize("change", ["0", "-1", "nan"])
def test_a_change_of_nothing_is_refused(change: str) -> None:
    result = CliRunner().invoke(search_command, ["--change", change])
    assert result.exit_code == 2 and "--change" in result.output
