"""The search on boards' time, on values that a source replays from distributions."""

from __future__ import annotations

import json
import re
import signal
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll.bisect import boards, boards_command, culprit
from iotoll.bisect import log as logs
from iotoll.bisect.bayes import AGAIN, PROMISE, SURE, TOUCHES, Search
from iotoll.bisect.boards import (
    BoardSearch,
    Located,
    UnusableError,
    noise_of,
    points_of,
    prior_of,
    ratios_of,
    shared_manifest,
)
from iotoll.bisect.boards_command import VIRTUAL
from iotoll.bisect.command import setting_of
from iotoll.bisect.culprit import Confirmed
from iotoll.bisect.fields import FILES
from iotoll.bisect.find import Asked
from iotoll.bisect.history import History
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.setting import Setting, locked
from iotoll.bisect.terminal import boards_text
from iotoll.core.cli_support import Output
from iotoll.core.errors import BrokenError, HangError, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.labs.lava.config import load_lab
from iotoll.patch import candidate
from iotoll.records.models import Clock, PairRecord
from iotoll.records.rundir import RunDir
from iotoll.run import manifest
from iotoll.verdict.time.pairs import Pairs
from tests.unit.bisect.commits import QUIET, Tree

POINTS = [f"{n:040x}" for n in range(41)]
NOISE, STEP = 0.01, 0.02


class Replay:
    """A lab whose boards have a step at ``culprit``; the same pair always has the same value.

    A measurement waits for a moment until ``together`` of them were under way at a time.
    """

    def __init__(
        self, culprit: int, broken: tuple[int, ...] = (), unusable: int = 0, together: int = 0
    ) -> None:
        self.culprit = culprit
        self.broken = broken
        self.unusable = unusable
        self.asked: list[tuple[int, int]] = []
        self.inside = self.most = 0
        self.together = together
        self._turn = threading.Condition()

    def ratios(self, commit: str, pairs: int) -> list[float]:
        place = POINTS.index(commit)
        with self._turn:
            self.asked.append((place, pairs))
            self.inside += 1
            self.most = max(self.most, self.inside)
            self._turn.notify_all()
            self._turn.wait_for(lambda: self.most >= self.together, 0.5)
        time.sleep(0.002)
        with self._turn:
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
    assert found.commits == [POINTS[culprit]] and SURE <= found.sure <= PROMISE and not found.why
    assert found.effect == pytest.approx(STEP, abs=0.01)
    assert found.pairs == len(log.of("pair")) < 150


def test_several_boards_work_at_once(tmp_path: Path) -> None:
    source = Replay(23, together=3)
    found, _ = search(tmp_path, source, boards_=4)
    assert found.commits == [POINTS[23]]
    assert source.most >= 3


def test_commits_that_break_are_skipped_and_hide_only_themselves(tmp_path: Path) -> None:
    found, log = search(tmp_path, Replay(23, broken=(22, 20, 5)))
    assert set(found.commits) == {POINTS[23], POINTS[22]}, "nothing tells these apart"
    assert {row["why"] for row in log.of("skipped")} == {"Kernel panic"}


def test_an_end_that_breaks_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be measured: Kernel panic: name another end"):
        search(tmp_path, Replay(3, broken=(40,)))


class Crashes(Replay):
    """B's kernel ends with each of ``errors`` in turn before it is measured."""

    def __init__(self, culprit: int, *errors: Exception) -> None:
        super().__init__(culprit)
        self.errors = list(errors)

    def ratios(self, commit: str, pairs: int) -> list[float]:
        found = super().ratios(commit, pairs)
        if commit == POINTS[40] and self.errors:
            raise self.errors.pop(0)
        return found


def test_what_crashes_once_is_tried_once_more(tmp_path: Path) -> None:
    """A simulated HiKey960 once crashed with A's kernel, which booted hundreds of times."""
    error = BrokenError("boot", "synchronous external abort")
    found, log = search(tmp_path, Crashes(17, error))
    assert found.commits == [POINTS[17]] and not log.of("skipped")
    assert [row["why"] for row in log.of("broke")] == [str(error)]


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (BrokenError("boot", "Kernel panic"), 2),
        (BrokenError("workload", "Oops"), 2),
        (BrokenError("build", "error: no member"), 1),
        # The lab's runner has repeated it by then.
        (HangError("boot", "the console is silent"), 1),
        # Its boots are done, and the same again.
        (UnusableError("workload", "none of 4 pairs of boots may be used"), 1),
    ],
)
def test_what_breaks_again_or_must_is_given_up(
    tmp_path: Path, error: BrokenError, asked: int
) -> None:
    source = Crashes(17, error, error, error)
    with pytest.raises(UsageError, match="name another end"):
        search(tmp_path, source)
    assert [place for place, _ in source.asked].count(40) == asked


def test_a_crash_of_the_first_kernel_in_a_pair_is_tried_once_more(tmp_path: Path) -> None:
    lost = InfrastructureError("the base kernel fails: external abort")
    lost.__cause__ = BrokenError("boot", "external abort")
    found, log = search(tmp_path / "once", Crashes(17, lost))
    assert found.commits == [POINTS[17]] and len(log.of("broke")) == 1
    with pytest.raises(InfrastructureError, match="the base kernel fails"):
        search(tmp_path / "twice", Crashes(17, lost, lost))


def test_a_crash_before_a_kill_is_remembered(tmp_path: Path) -> None:
    log = Log(tmp_path / NAME, {"test": 1})
    log.add("begun", steps=[[22, 1]])
    log.add("broke", place=22, commit=POINTS[22], why="Kernel panic")
    source = Replay(23, broken=(22,))
    search(tmp_path, source)
    assert [place for place, _ in source.asked].count(22) == 1


@pytest.mark.parametrize("culprit", [17, 23])
def test_one_slow_boot_names_no_commit(tmp_path: Path, culprit: int) -> None:
    """In the simulated lab one pair was at -1.2 beside a noise of 0.2: its host was busy."""

    class Slow(Replay):
        def ratios(self, commit: str, pairs: int) -> list[float]:
            found = super().ratios(commit, pairs)
            if POINTS.index(commit) == culprit - 1:
                found[0] = 5 * STEP
            return found

    # With one pair of each, the commit before was named after 10 and 12 pairs, with 99 %.
    found, log = search(tmp_path, Slow(culprit), noise=0.005)
    assert found.commits == [POINTS[culprit]]
    places = [row["place"] for row in log.of("pair")]
    assert min(places.count(place) for place in (culprit - 1, culprit)) >= AGAIN


def test_pairs_of_which_none_may_be_used_end_it(tmp_path: Path) -> None:
    def made(*values: float, why: str = "") -> Pairs:
        record = PairRecord(pair=1, first="base", device="b", seconds=1.0, unused="a hot board")
        ratios = np.array([values]).T
        invalid = {"c": why} if why else {}
        return Pairs([record] * len(values), [("c", "overhead")], ratios, ratios, invalid)

    nan = float("nan")
    assert ratios_of(made(0.1, nan, nan, nan), "c", False)[0] == 0.1
    assert len(ratios_of(made(nan, nan, nan), "c", False)) == 3, "a few may yet be followed"
    with pytest.raises(BrokenError, match="none of 4 pairs of boots may be used: fio failed"):
        ratios_of(made(nan, nan, nan, nan, why="fio failed"), "c", False)
    with pytest.raises(InfrastructureError, match="a hot board: so it is with A itself"):
        ratios_of(made(nan, nan, nan, nan), "c", True)


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


def test_an_interrupt_waits_for_no_job_of_the_lab(tmp_path: Path) -> None:
    over = threading.Event()

    class Waits(Replay):
        def ratios(self, commit: str, pairs: int) -> list[float]:
            if POINTS.index(commit) == 40:
                signal.raise_signal(signal.SIGINT)
                over.wait(60)
            return super().ratios(commit, pairs)

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        search(tmp_path, Waits(7))
    waited = time.monotonic() - begun
    over.set()
    assert waited < 30
    found, _ = search(tmp_path, Replay(7))
    assert found.commits == [POINTS[7]]


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


def test_a_lab_and_a_sandbox_exclude_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path))
    words = {"board": "hikey960", "matrix": "default", "policy": None, "lab": "local"}
    assert setting_of(Path(), {**words, "runner": "lava"}).policy == "time"
    apart = {**words, "runner": "local", "sandbox": True}
    assert setting_of(tmp_path / "repositories/linux.git", apart).sandbox
    with pytest.raises(UsageError, match="iotoll ci bisect --clone"):
        setting_of(Path("/nowhere"), apart)
    with pytest.raises(UsageError, match="--sandbox"):
        setting_of(Path(), {**words, "runner": "lava", "sandbox": True})


def test_what_the_command_line_names_is_read_before_anything_long() -> None:
    setting = Setting(".", "hikey960", "hikey960", "time", "local")
    ends, cell = ("a", "b"), "ufs-4k-randread-t1-direct"
    assert shared_manifest(setting, ends, cell).accelerator == "tcg", "the lab's are simulated"
    for change, wrong, why in (
        ({"matrix": "default"}, cell, "measures emmc, which board hikey960 does not have"),
        ({"board": "virt-arm64"}, cell, "search without --runner lava"),
        ({"policy": "instructions"}, cell, "is not of the clock 'time'"),
        ({"lab": "nowhere"}, cell, "nowhere"),
        ({}, "ufs-4k-*", "is a pattern"),
        ({}, "ufs-5k-randread-t1-direct", "ufs has blocks of 4k"),
    ):
        with pytest.raises(UsageError, match=re.escape(why)):
            shared_manifest(Setting(**{**asdict(setting), **change}), ends, wrong)


@pytest.mark.parametrize("simulated", [True, False])
def test_no_gate_is_run_where_it_could_confirm_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    simulated: bool,
) -> None:
    tree = Tree(tmp_path / "linux")
    good, slow = tree.commit("base"), tree.commit("slow", "cost 9")
    setting = Setting(str(tree.root), "hikey960", "hikey960", "time", "local")
    asked = Asked(good, slow, ("ufs-4k-randread-t1-direct",), "submission")
    local = load_lab("local")
    board = local.board("hikey960").model_copy(update={"simulated": simulated})
    lab = local.model_copy(update={"boards": {"hikey960": board}})
    monkeypatch.setattr(manifest, "load_lab", lambda _: lab)
    monkeypatch.setattr(boards, "check_lab", lambda _: None)
    monkeypatch.setattr(BoardSearch, "run", lambda _: Located([slow], 0.99, 0.5, 9, 1))
    gates: list[str] = []

    def confirm(folder: Path, setting: Setting, parent: str, commit: str, *_: Any) -> Confirmed:
        gates.append(commit)
        return Confirmed(0.5, True, 3, "The candidate makes 1 of 1 cells slower.", str(folder))

    monkeypatch.setattr(boards_command, "confirm", confirm)
    options = {"noise": 0.2, "cheaper": False, "boards": 2, "max_pairs": 400}
    words = (History(tree.root), asked, setting, tmp_path / "out", Output(False, False), options)
    code = boards_command.search_boards(*words)
    answer = json.loads((tmp_path / "out/bisect.json").read_text())
    assert set(answer) == {"schema_version", *FILES["bisect on boards"].fields}
    said = capsys.readouterr()
    if simulated:
        assert (code, answer["outcome"], gates) == (3, "unconfirmed", [])
        assert answer["confirmed"] is None and "QEMU" in answer["virtual"]
        assert "no gate confirms it" in " ".join(said.err.split())
        assert "on virtual boards ended, but it is not confirmed" in said.out
    else:
        assert (code, answer["outcome"], gates) == (0, "found", [slow])
        assert answer["virtual"] is None and "virtual" not in said.out


def test_what_killed_sandboxes_left_is_removed_when_a_search_goes_on(tmp_path: Path) -> None:
    left = [tmp_path / ".culprit-1-sandbox-x", tmp_path / "pairs/.1-sandbox-y"]
    left.append(tmp_path / "revert-1/.run-sandbox-z")
    for folder in left:
        (folder / "run/work/work").mkdir(parents=True, mode=0o000)
    kept = tmp_path / "pairs/1"
    kept.mkdir()
    with locked(tmp_path):
        assert not any(folder.exists() for folder in left) and kept.is_dir()


def test_the_text_says_what_is_known_and_what_is_not() -> None:
    commit = {"sha": "a" * 40, "subject": "slow", "author": "Ada", "email": "a@b", "date": "d"}
    sure = {"delta": 0.021, "sentence": "overhead grew"}
    answer: dict[str, Any] = {
        "outcome": "found", "cell": "c", "section": "overhead", "board": "b", "commits": [commit],
        "effect": 0.02, "noise": 0.01, "sure": 0.993, "why": "", "range": 9, "confirmed": sure,
        "reverted": "it cannot be taken back on the tip: conflict", "learned": 0.03,
        "virtual": None, "disk": {"folder": 1e6},
        "spent": {"pairs": 40, "builds": 5, "skipped": []},
    }  # fmt: skip
    text = boards_text(answer)
    assert text.startswith('aaaaaaaaaaaa ("slow") changed c: overhead on b')
    assert "noise of a pair 1.00%, by these boots 3.00%; chance 99.3%" in text
    assert "cannot be taken back" in text
    answer |= {"outcome": "range", "commits": [commit, commit], "why": "the limit is reached"}
    answer |= {"confirmed": None, "reverted": None}
    assert "one of 2 commits: the limit is reached" in boards_text(answer)
    answer |= {"outcome": "unconfirmed", "commits": [commit], "why": "", "virtual": VIRTUAL}
    first, *more = boards_text(answer).splitlines()
    assert "on virtual boards" in first and "not confirmed" in first
    assert any("no gate was run" in line for line in more) and "against its parent" not in first


def test_the_commit_is_taken_back_on_the_tip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Tree(tmp_path / "linux")
    parent, slow = tree.commit("base"), tree.commit("slow", "cost 9")
    tip = tree.commit("words", path="a.c")
    setting = Setting(str(tree.root), "virt-arm64", "default", "instructions")
    seen: list[bytes] = []

    def judged(run: RunDir, setting: Setting, progress: Progress) -> Any:
        (patch,) = candidate.load(run.manifest).patches
        seen.append(patch.text)
        assert run.manifest.base == tip
        raise BrokenError("apply", "drivers/ufs/core/ufshcd.c: conflict")

    monkeypatch.setattr(culprit, "_judged", judged)
    target = ("ufs-4k-randread-t1-direct", "submission")
    ends = (parent, slow, tip)
    said = culprit.reverted(tmp_path / "r", setting, History(tree.root), ends, target, QUIET)
    assert b"-cost 9" in seen[0]
    assert said == "it cannot be taken back on the tip: drivers/ufs/core/ufshcd.c: conflict"


def test_a_native_board_is_searched_on_its_time_without_a_lab(tmp_path: Path) -> None:
    words = {"board": "host-uml", "matrix": "default", "policy": None, "lab": "local"}
    found = setting_of(tmp_path, words)
    assert (found.matrix, found.policy, found.lab) == ("host-uml", "time", None)
    manifest = shared_manifest(found, ("a" * 40, "b" * 40), "ubd-4k-randread-t1-direct")
    assert (manifest.clock, manifest.runner, manifest.accelerator) == (Clock.TIME, "local", "none")
    with pytest.raises(UsageError, match="boots both kernels in one"):
        setting_of(tmp_path, {**words, "sandbox": True})
