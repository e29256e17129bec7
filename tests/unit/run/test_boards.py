"""The search on boards' time, on values that a source replays from distributions."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.reports.bisect.boards import boards_text
from iotoll.run.bisect import boards
from iotoll.run.bisect import log as logs
from iotoll.run.bisect.boards import BoardSearch, Located, noise_of, points_of, prior_of
from iotoll.run.bisect.command import setting_of
from iotoll.run.bisect.history import History
from iotoll.run.bisect.log import NAME, Log
from iotoll.run.bisect.setting import Setting
from iotoll.verdict.search.bayes import SURE, TOUCHES, Search
from tests.unit.run.commits import QUIET, Tree

POINTS = [f"{n:040x}" for n in range(41)]
NOISE, STEP = 0.01, 0.02


class Replay:
    """A lab whose boards have a step at ``culprit``; the same pair always has the same value."""

    def __init__(self, culprit: int, broken: tuple[int, ...] = (), unusable: int = 0) -> None:
        self.culprit = culprit
        self.broken = broken
        self.unusable = unusable
        self.asked: list[tuple[int, int]] = []
        self.inside = self.most = 0
        self._lock = threading.Lock()

    def ratios(self, commit: str, pairs: int) -> list[float]:
        place = POINTS.index(commit)
        with self._lock:
            self.asked.append((place, pairs))
            self.inside += 1
            self.most = max(self.most, self.inside)
        time.sleep(0.002)
        with self._lock:
            self.inside -= 1
        if place in self.broken:
            raise BrokenError("boot", "Kernel panic")
        found = []
        for number in range(pairs):
            chance = np.random.default_rng([place, number])
            value = STEP * (place >= self.culprit) + NOISE * chance.standard_normal()
            found.append(float("nan") if number < self.unusable else float(value))
        return found


def search(
    root: Path, source: Replay, boards_: int = 1, most: int = 400, noise: float = NOISE
) -> tuple[Located, Log]:
    log = Log(root / NAME, {"test": 1})
    state = Search(len(POINTS) - 1, noise)
    return BoardSearch(POINTS, source, state, log, QUIET, boards_, most).run(), log


@pytest.mark.parametrize("culprit", [1, 17, 40])
def test_the_culprit_is_named_on_noisy_boards(tmp_path: Path, culprit: int) -> None:
    found, log = search(tmp_path, Replay(culprit))
    assert found.commits == [POINTS[culprit]] and found.sure >= SURE and not found.why
    assert found.effect == pytest.approx(STEP, abs=0.01)
    assert found.pairs == len(log.of("pair")) < 150


def test_several_boards_work_at_once(tmp_path: Path) -> None:
    source = Replay(23)
    found, _ = search(tmp_path, source, boards_=4)
    assert found.commits == [POINTS[23]]
    assert source.most >= 3


def test_commits_that_break_are_skipped_and_hide_only_themselves(tmp_path: Path) -> None:
    found, log = search(tmp_path, Replay(23, broken=(22, 20, 5)))
    assert set(found.commits) == {POINTS[23], POINTS[22]}, "nothing tells these apart"
    assert {row["why"] for row in log.of("skipped")} == {"Kernel panic"}


def test_an_end_that_breaks_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be measured"):
        search(tmp_path, Replay(3, broken=(40,)))


def test_pairs_that_may_not_be_used_count_as_spent_and_tell_nothing(tmp_path: Path) -> None:
    found, log = search(tmp_path, Replay(9, unusable=1))
    assert found.commits == [POINTS[9]]
    assert any(row["value"] is None for row in log.of("pair"))


def test_nothing_to_find_ends_at_the_limit_and_is_no_answer(tmp_path: Path) -> None:
    found, _ = search(tmp_path, Replay(99), most=60)
    assert "limit of 60 pairs" in found.why and 60 <= found.pairs < 80


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs."""


def test_killed_at_any_line_it_goes_on_and_asks_for_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, _ = search(tmp_path / "whole", Replay(12))
    add = logs.Log.add
    left = [0]

    def one_line(self: Log, event: str, **values: Any) -> dict[str, Any]:
        left[0] -= 1
        if left[0] < 0:
            raise Killed(event)
        return add(self, event, **values)

    attempts = 0
    while True:
        attempts += 1
        left[0] = 3
        try:
            with monkeypatch.context() as patch:
                patch.setattr(logs.Log, "add", one_line)
                found, _log = search(tmp_path / "k", Replay(12))
            break
        except Killed:
            assert attempts < 300
    assert attempts > 5 and (found.commits, found.sure) == (whole.commits, whole.sure)
    assert found.pairs == whole.pairs, "no pair is measured twice"


def test_a_lab_that_fails_keeps_what_the_others_measured(tmp_path: Path) -> None:
    class Fails(Replay):
        def ratios(self, commit: str, pairs: int) -> list[float]:
            if POINTS.index(commit) == 40:
                raise InfrastructureError("the lab is down")
            return super().ratios(commit, pairs)

    with pytest.raises(InfrastructureError, match="the lab is down"):
        search(tmp_path, Fails(7))
    rows = Log(tmp_path / NAME, {"test": 1}).of("pair")
    assert {row["place"] for row in rows} == {0}
    found, _ = search(tmp_path, Replay(7))
    assert found.commits == [POINTS[7]]


@pytest.mark.parametrize("said", [0.75, 1.25])
def test_a_history_that_misjudges_the_noise_is_corrected_by_the_boots(said: float) -> None:
    chance = np.random.default_rng(5)
    state = Search(10, said)
    for _ in range(60):
        state.add(0, float(chance.normal()))
        state.add(10, 1 + float(chance.normal()))
    assert state.sigma[0] == pytest.approx(1.0, abs=0.12)


# ------------------------------------------------------------ the range


def test_points_prior_and_what_is_refused(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "linux")
    first = tree.commit("base")
    driver = tree.commit("driver")
    words = tree.commit("words", path="Documentation/x.rst")
    history = History(tree.root)
    points = points_of(history, first, words)
    assert points == [first, driver, words]
    assert prior_of(history, points, "ufs-4k-randread-t1-direct") == [TOUCHES, 1.0]
    with pytest.raises(UsageError, match="swap them"):
        points_of(history, words, first)
    tree.git("checkout", "-qb", "side", first)
    aside = tree.commit("aside", path="a.c")
    with pytest.raises(UsageError, match="first parents"):
        points_of(history, aside, words)


def test_without_a_history_of_noise_the_way_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path))
    setting = Setting(".", "hikey960", "hikey960", "time", "local")
    with pytest.raises(UsageError, match=r"fewer than 8 pairs .* or give --noise"):
        noise_of(setting, ("ufs-4k-randread-t1-direct", "overhead"))
    with pytest.raises(UsageError, match="--section return"):
        boards.check_figure("return")


def test_a_lab_and_a_sandbox_exclude_each_other() -> None:
    words = {"board": "hikey960", "matrix": "default", "policy": None, "lab": "local"}
    assert setting_of(Path(), {**words, "runner": "lava"}).policy == "time"
    assert setting_of(Path(), {**words, "runner": "local", "sandbox": True}).sandbox
    with pytest.raises(UsageError, match="--sandbox"):
        setting_of(Path(), {**words, "runner": "lava", "sandbox": True})


def test_the_text_says_what_is_known_and_what_is_not() -> None:
    commit = {"sha": "a" * 40, "subject": "slow", "author": "Ada", "email": "a@b", "date": "d"}
    sure = {"delta": 0.021, "sentence": "overhead grew"}
    answer: dict[str, Any] = {
        "outcome": "found", "cell": "c", "section": "overhead", "board": "b", "commits": [commit],
        "effect": 0.02, "noise": 0.01, "sure": 0.993, "why": "", "range": 9, "confirmed": sure,
        "reverted": "it cannot be taken back on the tip: conflict",
        "spent": {"pairs": 40, "builds": 5, "skipped": []}, "disk": {"folder": 1e6},
    }  # fmt: skip
    text = boards_text(answer)
    assert text.startswith('aaaaaaaaaaaa ("slow") changed c: overhead on b')
    assert "chance 99.3%" in text and "cannot be taken back" in text
    answer |= {"outcome": "range", "commits": [commit, commit], "why": "the limit is reached"}
    answer |= {"confirmed": None, "reverted": None}
    assert "one of 2 commits: the limit is reached" in boards_text(answer)
