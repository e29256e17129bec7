"""The nightly: gaps, missed nights, tips that stood still, two at once; a real git tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from iotoll.core.errors import BrokenError, UsageError
from iotoll.core.progress import Progress
from iotoll.nightly.command import date_of
from iotoll.nightly.config import Board, Branch, Config, load_config
from iotoll.nightly.followup import TRIES, follow_up
from iotoll.nightly.history.store import Store
from iotoll.nightly.history.tables import Point, blank, measurements
from iotoll.nightly.night import check, only_one, request, run_night
from iotoll.nightly.trend import view
from iotoll.records.models import Clock, RunManifest, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import new_manifest
from tests.golden.runs import real
from tests.unit.nights import history

CELL = "ufs-4k-randread-t1-direct"

TOML = """
history = "h"
[[branch]]
name = "mainline"
tree = "tree"
ref = "main"
[[board]]
name = "virt-arm64"
matrix = "small"
"""


class Bench:
    """Stands for builds and boots: every kernel has a measured run's values."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.broken: set[str] = set()

    def __call__(self, manifest: RunManifest, folder: Path, progress: Progress) -> RunDir:
        commit = str(manifest.base)
        self.asked.append(commit)
        if commit in self.broken:
            raise BrokenError("build", "drivers/ufs does not compile")
        # Its commit is the only thing that is this night's own.
        for path in real("regression").root.rglob("*.json"):
            data = json.loads(path.read_text())
            if path.name == "result.json":
                data["source"]["commit"] = commit
            target = folder / path.relative_to(real("regression").root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(data))
        return RunDir.open(folder)


class Tree:
    """A git tree whose commits are made on stated days."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._git("init", "-q", "-b", "main", str(folder))

    def commit(self, day: str) -> str:
        (self.folder / "file").write_text(day)
        self._git("-C", str(self.folder), "add", "file", day=day)
        self._git("-C", str(self.folder), "commit", "-q", "-m", f"of {day}", day=day)
        return self._git("-C", str(self.folder), "rev-parse", "HEAD").strip()

    @staticmethod
    def _git(*words: str, day: str = "2026-11-01") -> str:
        names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
        dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"{day}T12:00:00+00:00")
        environment = {**os.environ, **dict.fromkeys(names, "a@b"), **dates}
        return subprocess.run(
            ["git", *words], check=True, capture_output=True, text=True, env=environment
        ).stdout


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nightly.toml").write_text(TOML)
    return load_config(Path("nightly.toml"))


def nights(points: list[Point]) -> list[tuple[str, str]]:
    return [(p.run["night"], p.run["status"]) for p in points]


def test_nights_missed_unmoved_failed_and_repeated(config: Config, tmp_path: Path) -> None:
    tree, bench, store = Tree(tmp_path / "tree"), Bench(), Store(config.history)
    quiet = Progress(True)

    def run(day: str) -> list[tuple[str, str]]:
        return nights(run_night(config, store, day, quiet, bench))

    first = tree.commit("2026-11-01")
    assert run("2026-11-01") == [("2026-11-01", "measured")]
    assert run("2026-11-01") == []
    second = tree.commit("2026-11-03")
    # Two nights were missed: on one the tip stood still, on the other it moved.
    assert run("2026-11-04") == [
        ("2026-11-02", "unmoved"),
        ("2026-11-03", "measured"),
        ("2026-11-04", "unmoved"),
    ]
    assert bench.asked == [first, second]
    bench.broken.add(third := tree.commit("2026-11-05"))
    assert run("2026-11-05") == [("2026-11-05", "failed")]
    bench.broken.clear()
    assert run("2026-11-05") == [("2026-11-05", "measured")]
    assert bench.asked == [first, second, third, third]
    reasons = [r["reason"] for r in store.rows("mainline", "virt-arm64")]
    assert "build: drivers/ufs does not compile; commit by a@b <a@b>" in reasons


def test_one_branch_that_fails_takes_no_other_down(config: Config, tmp_path: Path) -> None:
    Tree(tmp_path / "tree").commit("2026-11-01")
    lost = config.branch[0].model_copy(update={"name": "next", "tree": "nowhere"})
    both = config.model_copy(update={"branch": [lost, *config.branch]})
    points = run_night(both, Store(config.history), "2026-11-01", Progress(True), Bench())
    assert nights(points) == [("2026-11-01", "failed"), ("2026-11-01", "measured")]
    assert "nowhere" in points[0].run["reason"]


def test_a_night_that_fails_has_a_report_and_a_submission(config: Config, tmp_path: Path) -> None:
    """KCIDB is told of builds that fail as well."""

    def work(manifest: RunManifest, folder: Path, progress: Progress) -> RunDir:
        shutil.copytree(real("broken-build").root, folder)
        raise BrokenError("build", "drivers/ufs does not compile")

    Tree(tmp_path / "tree").commit("2026-11-01")
    (point,) = run_night(config, Store(config.history), "2026-11-01", Progress(True), work)
    assert point.run["status"] == "failed"
    report = Path(config.page) / unquote(point.run["url"])
    assert "does not" in report.read_text()
    builds = json.loads((report.parent / "kcidb.json").read_text())["builds"]
    assert "FAIL" in {build["status"] for build in builds}


def test_a_night_from_the_future_ends_no_series(config: Config, tmp_path: Path) -> None:
    """The clock of a machine was wrong for a day."""
    Tree(tmp_path / "tree").commit("2026-11-01")
    store, bench = Store(config.history), Bench()
    for day in ("2026-11-02", "2027-11-02", "2026-11-03"):
        made = nights(run_night(config, store, day, Progress(True), bench))
        assert (day, "measured") in made or (day, "unmoved") in made


@pytest.mark.parametrize("night", ["2026-11", "yesterday", "2999-01-01", "2026-02-30"])
def test_a_night_that_is_no_day_or_not_there_yet_is_refused(night: str) -> None:
    with pytest.raises(UsageError, match=f"--night {night}"):
        date_of(night)


def test_a_night_is_written_with_two_digits() -> None:
    assert date_of("2026-1-3") == "2026-01-03"


def test_a_board_that_there_is_not_is_refused_before_anything_runs(config: Config) -> None:
    board = config.board[0]
    check(config)
    for wrong in ({"name": "hikey-1"}, {"cells": ["ufs-4k-none"]}, {"matrix": "large"}):
        changed = config.model_copy(update={"board": [board.model_copy(update=wrong)]})
        with pytest.raises(UsageError):
            check(changed)


def test_two_at_once(tmp_path: Path) -> None:
    with only_one(tmp_path), pytest.raises(UsageError, match="another nightly"), only_one(tmp_path):
        pass


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "mainline"', 'name = "../x"', "branch.0.name"),
        ('ref = "main"', 'ref = "--upload-pack=x"', "branch.0.ref"),
        ('ref = "main"', "", "branch.0.ref"),
        ('history = "h"', 'hystory = "h"', "hystory"),
        ('matrix = "small"', "boots = 0", "board.0.boots"),
    ],
)
def test_invalid_config(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "nightly.toml"
    path.write_text(TOML.replace(old, new))
    with pytest.raises(UsageError, match=message) as error:
        load_config(path)
    assert "\n" not in str(error.value)


class Judge:
    """Stands for paired boots: gives one verdict for every change, and keeps what was asked."""

    def __init__(self, outcome: str) -> None:
        verdict = json.loads(real("regression").verdict.read_text())
        self.verdict = VerdictRecord.model_validate(verdict | {"outcome": outcome})
        self.asked: list[RunManifest] = []

    def __call__(self, manifest: RunManifest, folder: Path, progress: Progress) -> VerdictRecord:
        self.asked.append(manifest)
        return self.verdict


def noisy_night(place: Path, config: Config) -> tuple[Config, Store]:
    """A history with a step on a real board's clock, and a file that names that board."""
    rng = np.random.default_rng(8)
    level = np.where(np.arange(60) >= 40, 1.06, 1.0)
    line = (10_000 * np.exp(rng.normal(0, 0.01, 60)) * level).tolist()
    store = history(place, {(CELL, "overhead"): line}, "mainline", clock="time")
    return config, store


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("regression", "confirmed"), ("pass", "dismissed"), ("inconclusive", "new")],
)
def test_a_paired_comparison_confirms_a_noisy_change(
    config: Config, tmp_path: Path, outcome: str, state: str
) -> None:
    Tree(tmp_path / "tree").commit("2026-11-01")
    config, store = noisy_night(tmp_path / "h", config)
    judge = Judge(outcome)
    for _ in range(TRIES + 1):
        found = view.load(store, None, {}).changes
        follow_up(config, store, found, Progress(True), judge)
    (change,) = view.load(store, None, {}).changes
    assert change.state == state
    assert len(judge.asked) == (TRIES if state == "new" else 1)
    asked = judge.asked[0]
    assert (asked.base, asked.candidate) == (change.from_commit, change.to_commit)
    assert asked.cells == [CELL]


def exact_night(place: Path, first: str, second: str) -> Store:
    store = Store(str(place))
    for number, (commit, value) in enumerate(((first, 100.0), (second, 141.0)), 1):
        row = blank("mainline", "virt-arm64", f"2026-11-0{number}")
        row |= {"run": commit[:24], "commit": commit, "board_sha256": "b"}
        row |= {"clock": "instructions", "unit": "instructions"}
        found = measurements(row, [("tip", CELL, "submission", "median", value)])
        store.add(Point(row, found))
    return store


def test_a_range_of_one_commit_needs_no_search(config: Config, tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree")
    first, second = tree.commit("2026-11-01"), tree.commit("2026-11-02")
    store = exact_night(tmp_path / "h", first, second)
    follow_up(config, store, view.load(store, None, {}).changes, Progress(True))
    (change,) = view.load(store, None, {}).changes
    assert (change.state, change.culprit, change.words) == ("explained", second, "of 2026-11-02")


@pytest.mark.parametrize(("outcome", "state"), [("found", "explained"), ("range", "confirmed")])
def test_a_longer_range_is_searched_once_a_night(
    config: Config, tmp_path: Path, outcome: str, state: str
) -> None:
    tree = Tree(tmp_path / "tree")
    shas = [tree.commit(f"2026-11-0{day}") for day in (1, 2, 3)]
    store = exact_night(tmp_path / "h", shas[0], shas[2])
    asked: list[Sequence[str]] = []

    def seek(words: Sequence[str], log: Path) -> int:
        asked.append(words)
        out = Path(words[words.index("--out") + 1])
        out.mkdir(parents=True)
        commit = {"sha": shas[1], "subject": "of 2026-11-02"}
        culprit: dict[str, object] = {
            "commits": [commit | {"author": "a@b"}],
            "functions": [],
            "changed": [],
        }
        culprit["parts"] = [{"cell": CELL, "section": "submission", "delta": 41.0, "some": ""}]
        answer = {"outcome": outcome, "culprits": [culprit], "why": "skipped commits hide it"}
        (out / "bisect.json").write_text(json.dumps(answer))
        return 0 if outcome == "found" else 3

    changes = view.load(store, None, {}).changes
    follow_up(config.model_copy(update={"bisects": 0}), store, changes, Progress(True), seek=seek)
    assert asked == []
    follow_up(config, store, changes, Progress(True), seek=seek)
    assert list(asked[0][:3]) == ["bisect", "--tree", "tree"]
    (change,) = view.load(store, None, {}).changes
    assert (change.state, change.culprit) == (state, shas[1] if outcome == "found" else "")
    assert [n.state for n in change.notes] == ["bisecting", state]


def test_a_native_board_is_one_of_a_night(tmp_path: Path) -> None:
    track = Branch(name="main", tree=str(tmp_path), ref="main")
    board = Board(name="host-uml", matrix="host-uml", reference="v6.12", boots=12)
    asked = new_manifest(request(track, board, "a" * 40))
    assert (asked.kind, asked.clock, asked.policy) == ("gate", Clock.TIME, "time")
    assert asked.cells and {cell.partition("-")[0] for cell in asked.cells} == {"ubd"}
