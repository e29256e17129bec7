"""Changes: one per cause, in the right state; drift; the detector on simulated nights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from iotoll_lab.experiments.detector import noise

from iotoll.core.errors import UsageError
from iotoll.nightly.changes.detector import exact_steps, noisy_steps
from iotoll.nightly.changes.find import believed, record
from iotoll.nightly.changes.notes import note
from iotoll.nightly.history.store import Store
from iotoll.nightly.trend import view
from tests.unit.nights import history

CELLS = ["ufs-4k-randread-t1-direct", "ufs-4k-randread-t8-direct", "nvme-4k-randread-t1-direct"]


def load(store: Store, **budgets: float) -> view.Trend:
    return view.load(store, None, budgets)


def test_every_exact_step_is_found_and_gaps_are_stepped_over() -> None:
    values = np.array([100, 100, np.nan, 112, 112, 111.0])
    assert [(s.index, s.size) for s in exact_steps(values)] == [(3, 12), (5, -1)]


def test_one_commit_in_many_cells_is_one_change(tmp_path: Path) -> None:
    values = {(c, s): [100] * 3 + [141] * 3 for c in CELLS for s in ("submission", "overhead")}
    history(tmp_path, values)
    store = history(tmp_path, values, board="virt-x86_64")
    trend = load(store)
    assert len(trend.changes) == 1
    change = trend.changes[0]
    assert (change.state, len(change.effects), change.night) == ("confirmed", 12, "2026-01-04")
    assert (change.from_commit, change.to_commit) == (f"{2:040x}", f"{3:040x}")
    assert {e.board for e in change.effects} == {"virt-arm64", "virt-x86_64"}


@pytest.mark.parametrize(
    ("line", "state", "is_open"),
    [
        ([100, 141, 141, 141], "confirmed", True),
        ([100, 141, 100, 100], "fixed", False),
        ([100, 141, 100, 141], "reappeared", True),
        ([100, 141, 121, 121], "confirmed", True),
    ],
)
def test_states_that_the_values_show(
    tmp_path: Path, line: list[float], state: str, is_open: bool
) -> None:
    trend = load(history(tmp_path, {(CELLS[0], "overhead"): line}))
    first = min(trend.changes, key=lambda c: c.night)
    assert (first.state, first.is_open) == (state, is_open)


def test_states_that_people_note(tmp_path: Path) -> None:
    store = history(tmp_path, {(CELLS[0], "overhead"): [100, 141, 141]})
    name = load(store).changes[0].id
    note(store.files, name, state="bisecting")
    assert load(store).changes[0].state == "bisecting"
    note(store.files, name, state="explained", commit="abcdef123456")
    found = load(store).changes[0]
    assert (found.state, found.culprit, found.is_open) == ("explained", "abcdef123456", True)
    note(store.files, name, state="accepted", words="zoned devices need it", by="a maintainer")
    found = load(store).changes[0]
    assert (found.state, found.words, found.culprit) == (
        "accepted",
        "zoned devices need it",
        "abcdef123456",
    )
    assert not found.is_open
    with pytest.raises(UsageError, match="12 hexadecimal"):
        note(store.files, "../../etc", state="accepted")


def test_a_fix_is_seen_above_later_growth_and_a_return_is_the_same_change(tmp_path: Path) -> None:
    line = [100.0, 141, 151, 110, 110]
    trend = load(history(tmp_path / "a", {(CELLS[0], "overhead"): line}))
    first = min(trend.changes, key=lambda c: c.night)
    assert (first.state, first.fixed) == ("fixed", "2026-01-04")
    again = load(
        history(tmp_path / "b", {(CELLS[0], "overhead"): [100, 141, 100, 141, 100, 141.0]})
    )
    grown = [c for c in again.changes if c.grew]
    assert [(c.state, c.night, c.returns) for c in grown] == [
        ("reappeared", "2026-01-02", ("2026-01-04", "2026-01-06"))
    ]


def test_a_board_that_missed_nights_joins_the_narrower_range(tmp_path: Path) -> None:
    key = (CELLS[0], "overhead")
    history(tmp_path, {key: [100, 100, 0, 141]}, board="b", failed={2: "no power"})
    wide = load(Store(str(tmp_path))).changes[0]
    store = history(tmp_path, {key: [100, 100, 100, 141]}, board="a")
    found = load(store).changes
    assert [(c.last, c.night, c.was, len(c.effects)) for c in found] == [
        ("2026-01-03", "2026-01-04", (wide.id,), 2)
    ]
    note(store.files, wide.id, state="accepted", words="as agreed")
    assert load(store).changes[0].state == "accepted"


def test_a_range_is_as_wide_as_the_series_own_gap(tmp_path: Path) -> None:
    values: dict[tuple[str, str], list[float | None]] = {
        (CELLS[0], "overhead"): [100, None, 141],
        (CELLS[1], "overhead"): [100, 100, 141],
    }
    found = load(history(tmp_path, values)).changes
    assert {c.last for c in found} == {"2026-01-01", "2026-01-02"}


def test_another_exact_board_claims_no_step(tmp_path: Path) -> None:
    line = [100.0, 100, 150, 150]
    store = history(tmp_path, {(CELLS[0], "overhead"): line}, boards={2: "c", 3: "c"})
    assert load(store).changes == []


def test_states_are_appended_to_a_log(tmp_path: Path) -> None:
    key = (CELLS[0], "overhead")
    store = history(tmp_path, {key: [100, 141]})
    assert record(store.files, load(store).changes) == 1
    assert record(store.files, load(store).changes) == 0
    name = load(store).changes[0].id
    note(store.files, name, state="bisecting", by="somebody")
    history(tmp_path, {key: [100, 141, 100]})
    record(store.files, load(store).changes)
    change = next(c for c in load(store).changes if c.id == name)
    log = [(n.state, n.by) for n in change.notes]
    assert log == [("confirmed", "iotoll"), ("bisecting", "somebody"), ("fixed", "iotoll")]


def test_a_change_keeps_its_id_when_nights_are_added(tmp_path: Path) -> None:
    values = [100, 141, 141, 141, 150]
    names = []
    for nights in (2, 3, 5):
        trend = load(history(tmp_path / str(nights), {(CELLS[0], "overhead"): values[:nights]}))
        names.append(min(trend.changes, key=lambda c: c.night).id)
    assert len(set(names)) == 1


def test_drift_and_budget(tmp_path: Path) -> None:
    line = [100.0] * 5 + [104] * 5 + [110] * 11
    store = history(tmp_path, {(CELLS[0], "overhead"): line}, releases={0: "v1", 5: "v2"})
    drift = load(store, instructions=12).drifts[0]
    assert (drift.release, drift.since_release, drift.last_night) == ("v2", 6, 0)
    assert drift.eaten == 0.5
    assert drift.days_left == pytest.approx(15)
    worse = {a.since: a.worse for a in view.summaries(load(store))}
    moments = ("last night", "a week ago", "the last release", "the release before")
    assert worse == dict(zip(moments, (False, False, True, True), strict=True))


def test_nothing_to_compare_is_no_pass(tmp_path: Path) -> None:
    store = history(tmp_path, {(CELLS[0], "overhead"): [100.0]})
    assert [a.worse for a in view.summaries(load(store))] == [None, None, None]


def test_a_noisy_step_is_new_until_confirmed(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    board = np.exp(rng.normal(0, 0.05, 60))  # what both kernels of a night share
    noise = np.exp(rng.normal(0, 0.01, 60))
    step = np.where(np.arange(60) >= 40, 1.05, 1.0)
    values = {(CELLS[0], "overhead"): (10_000 * board * noise * step).tolist()}
    reference = {(CELLS[0], "overhead"): (10_000 * board).tolist()}
    store = history(tmp_path, values, board="hikey960", clock="time", reference=reference)
    change = load(store).changes[0]
    assert (change.state, change.is_told) == ("new", False)
    assert abs(int(change.to_commit, 16) - 40) <= 1
    assert change.worst.delta / change.worst.before == pytest.approx(0.05, abs=0.01)
    note(store.files, change.id, state="confirmed")
    assert load(store).changes[0].is_told


def test_one_boundary_of_many_noisy_cells_is_one_change(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    step = np.where(np.arange(60) >= 40, 1.05, 1.0)
    values = {
        (f"ufs-4k-randread-t{n}-direct", "overhead"): (
            10_000 * np.exp(rng.normal(0, 0.01, 60)) * step
        ).tolist()
        for n in range(1, 9)
    }
    found = load(history(tmp_path, values, board="hikey960", clock="time")).changes
    assert len(found) == 1
    assert len(found[0].effects) >= 7


def test_a_noisy_change_that_went_is_fixed_once_confirmed(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    level = np.where((np.arange(90) >= 40) & (np.arange(90) < 65), 1.06, 1.0)
    line = (10_000 * np.exp(rng.normal(0, 0.01, 90)) * level).tolist()
    store = history(tmp_path, {(CELLS[0], "overhead"): line}, board="hikey960", clock="time")
    first = min(load(store).changes, key=lambda c: c.night)
    assert first.state == "new"
    note(store.files, first.id, state="confirmed")
    found = min(load(store).changes, key=lambda c: c.night)
    assert (found.state, "2026-03-07" <= found.fixed <= "2026-03-12") == ("fixed", True)


def test_false_discoveries_are_bounded_over_many_cells() -> None:
    assert believed({0: 4.3}, 10) == [0]
    assert believed({0: 4.3}, 1000) == []
    assert sorted(believed({0: 5.5, 1: 4.9, 2: 3.9}, 3000)) == [0, 1]


def test_another_board_is_no_change() -> None:
    values = np.concatenate([np.random.default_rng(1).normal(0, 1, 30), np.full(30, 9.0)])
    values[30:] += np.random.default_rng(2).normal(0, 1, 30)
    assert noisy_steps(values)
    assert not noisy_steps(values, frozenset({30}))


def test_the_detector_finds_steps_and_is_quiet_without() -> None:
    rng = np.random.default_rng(19)
    assert sum(len(noisy_steps(rng.normal(0, 1, 150))) for _ in range(40)) <= 1
    waits = []
    for _ in range(40):
        values = rng.normal(0, 1, 100)
        values[60:] += 2
        values[rng.integers(0, 60, 5)] = np.nan
        steps = noisy_steps(values)
        assert len(steps) == 1
        assert abs(steps[0].index - 60) <= 6
        waits.append(steps[0].found - 60 + 1)
    assert np.mean(waits) <= 8


def test_correlated_nights_raise_few_alarms_and_hide_no_step() -> None:
    rng = np.random.default_rng(23)
    quiet = noise("ar3", rng, (30, 200))
    assert sum(len(noisy_steps(line)) for line in quiet) <= 6  # 0.1 in 100 nights
    stepped = noise("ar3", rng, (30, 120))
    stepped[:, 80:] += 2
    nights = [[s.found - 79 for s in noisy_steps(line) if s.found >= 80] for line in stepped]
    waits = [found[0] for found in nights if found]
    assert len(waits) >= 29
    assert np.mean(waits) <= 9


@pytest.mark.parametrize(("kind", "size"), [("iid", 2), ("ar3", 3), ("t3", 4), ("iid", 20)])
def test_a_step_lies_between_the_two_nights_that_are_named(kind: str, size: float) -> None:
    """Else the comparison of their two kernels would find nothing and dismiss a real change."""
    lines = noise(kind, np.random.default_rng(6), (30, 90))
    lines[:, 40:] += size
    steps = [next((s for s in noisy_steps(line) if s.found >= 40), None) for line in lines]
    named = [s for s in steps if s is not None]
    assert len(named) >= 28
    assert np.mean([s.last < 40 <= s.index for s in named]) >= 0.9
    if size == 20:
        assert all((s.last, s.index) == (39, 40) for s in named)


@pytest.mark.parametrize("values", [np.full(80, 5.0), np.full(80, np.nan), np.arange(5.0)])
def test_series_without_noise_or_values_have_no_step(values: np.ndarray) -> None:
    assert noisy_steps(values) == []


def test_an_outlier_is_not_a_level() -> None:
    values = np.random.default_rng(3).normal(0, 1, 100)
    values[[50, 70, 75]] = 40
    assert noisy_steps(values) == []
