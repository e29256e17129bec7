"""Two hundred simulated nights of two branches: failures, releases, reverts, costs in some I/Os.

Branch `mainline` has the commits of `next` five nights later, so each culprit comes twice. Git, the
history, the changes and what follows of them are real; measurements and searches are simulated.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

import pytest

from iotoll.core.progress import Progress
from iotoll.nightly.changes.find import Change, record
from iotoll.nightly.config import Config, load_config
from iotoll.nightly.followup import follow_up
from iotoll.nightly.history.store import Store
from iotoll.nightly.history.tables import Point, blank, measurements
from iotoll.nightly.night import with_steps
from iotoll.nightly.trend import view
from iotoll.records import results
from iotoll.records.models import Section
from tests.golden.runs import real
from tests.unit.nightly.test_nightly import TOML
from tests.unit.nights import _write
from tests.unit.runs import side_result

NIGHTS, EACH, LAG = 220, 3, 5
CELLS = ("ufs-4k-randread-t1-direct", "nvme-4k-randwrite-t1-direct")
FIRST = date(2026, 1, 1)


@dataclass(frozen=True)
class Event:
    """Commit ``at`` costs ``size`` in a cell, until commit ``back`` takes it back (0: never)."""

    at: int
    cell: str
    size: int
    back: int


def events(chance: random.Random) -> list[Event]:
    """A growth every eight nights, half of which are taken back; some together in one night."""
    made = []
    for night in range(10, NIGHTS - 30, 8):
        at = night * EACH + chance.randrange(EACH)
        back = (night + chance.randint(2, 6)) * EACH if chance.random() < 0.5 else 0
        size = chance.randint(10, 200)
        made.append(Event(at, chance.choice(CELLS), size, back))
    return made


def repository(root: Path, planted: Sequence[Event]) -> list[str]:
    """A line of commits; a revert says what it reverts, as `git revert` does."""
    subprocess.run(["git", "init", "-q", "--bare", "--template=", str(root)], check=True)
    shas: list[str] = []
    reverts = {event.back: event.at for event in planted if event.back}
    done = 0
    # A revert names a commit, so what is before it must be there.
    for end in sorted({*reverts, NIGHTS * EACH}):
        stream = []
        for at in range(done, end):
            words = f"change {at}\n"
            if at in reverts:
                words = f'Revert "change"\n\nThis reverts commit {shas[reverts[at]]}.\n'
            parent = f"from {shas[-1]}\n" if at == done and shas else ""
            parent = f"from :{at}\n" if at > done else parent
            stream.append(
                f"commit refs/heads/main\nmark :{at + 1}\ncommitter A <a@example.org> {at} +0000\n"
                f"data {len(words)}\n{words}{parent}M 100644 inline file\ndata 4\n{at:04}\n"
            )
        marks = root / "marks"
        command = ["git", "-C", str(root), "fast-import", "--quiet", f"--export-marks={marks}"]
        subprocess.run(command, input="".join(stream).encode(), check=True)
        by_mark = dict(line.split() for line in marks.read_text().splitlines())
        shas += [by_mark[f":{at + 1}"] for at in range(done, end)]
        done = end
    return shas


def value(planted: Sequence[Event], cell: str, tip: int) -> float:
    """The overhead of a cell at a commit."""
    own = [e for e in planted if e.cell == cell and e.at <= tip and not 0 < e.back <= tip]
    return 1000.0 + sum(event.size for event in own)


def write(
    store: Store, branch: str, lag: int, shas: Sequence[str], planted: Sequence[Event],
    failed: set[int],
) -> None:  # fmt: skip
    """All nights of a branch, month by month."""
    months: dict[str, list[Point]] = {}
    for night in range(lag, NIGHTS):
        tip = (night - lag) * EACH + EACH - 1
        row = blank(branch, "virt-arm64", str(FIRST + timedelta(days=night)))
        row |= {"run": f"{branch}-{night:04}", "commit": shas[tip], "board_sha256": "b"}
        row |= {"clock": "instructions", "unit": "instructions"}
        row |= {"release": f"v{night // 40}" if night % 40 == 0 else ""}
        rows = [("tip", c, "overhead", "median", value(planted, c, tip)) for c in CELLS]
        if night in failed:
            row |= {"status": "failed", "reason": "boot: panic"}
            rows = []
        months.setdefault(row["night"][:7], []).append(Point(row, measurements(row, rows)))
    for month, points in months.items():
        _write(store, month, points)


class Oracle:
    """Stands for `iotoll bisect`: names what is planted in the range."""

    def __init__(self, shas: Sequence[str], planted: Sequence[Event]) -> None:
        self.shas, self.planted = list(shas), planted
        self.asked: list[tuple[int, int]] = []

    def __call__(self, words: Sequence[str], log: Path) -> int:
        good, bad = (self.shas.index(words[words.index(w) + 1]) for w in ("--good", "--bad"))
        self.asked.append((good, bad))
        moved = [(e.at, e.cell, e.size) for e in self.planted]
        moved += [(e.back, e.cell, -e.size) for e in self.planted if e.back]
        culprits = [
            {
                "commits": [{"sha": self.shas[at], "subject": self.subject(at), "author": "A"}],
                "parts": [{"cell": cell, "section": "overhead", "delta": size, "some": ""}],
                "functions": [],
                "changed": ["f"],
            }
            for at, cell, size in sorted(moved)
            if good < at <= bad
        ]
        out = Path(words[words.index("--out") + 1])
        out.mkdir(parents=True)
        (out / "bisect.json").write_text(json.dumps({"outcome": "found", "culprits": culprits}))
        return 0

    def subject(self, at: int) -> str:
        back = any(event.back == at for event in self.planted)
        return 'Revert "change"' if back else f"change {at}"


def grown(changes: Sequence[Change], branch: str) -> list[Change]:
    return [change for change in changes if change.branch == branch and change.grew]


@pytest.mark.parametrize("seed", [1])
def test_g3_2_g3_6_g3_10_two_hundred_nights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.chdir(tmp_path)
    chance = random.Random(f"nights {seed}")
    planted = events(chance)
    shas = repository(tmp_path / "tree", planted)
    (tmp_path / "nightly.toml").write_text(TOML)
    config: Config = load_config(Path("nightly.toml"))
    mainline = config.branch[0]
    branches = [mainline.model_copy(update={"name": "next"}), mainline]
    config = config.model_copy(update={"branch": branches, "bisects": 999})
    store = Store(config.history)
    failed = {name: set(chance.sample(range(15, NIGHTS - 2), 16)) for name in ("next", "mainline")}
    write(store, "next", 0, shas, planted, failed["next"])
    write(store, "mainline", LAG, shas, planted, failed["mainline"])
    oracle = Oracle(shas, planted)
    for _ in range(4):
        found = view.load(store, None, {}).changes
        record(store.files, found)
        if not follow_up(config, store, found, Progress(True), seek=oracle):
            break
    else:
        pytest.fail("it finds something to do for ever")
    found = view.load(store, None, {}).changes
    for branch in ("next", "mainline"):
        _check(branch, grown(found, branch), shas, planted)
    assert len(oracle.asked) < len(grown(found, "next")) + len(grown(found, "mainline")) / 2
    trend = view.load(store, None, {})
    assert view.summaries(trend)[0].worse is False, "both tips are measured, and nothing grew"


def _check(
    branch: str, changes: Sequence[Change], shas: Sequence[str], planted: Sequence[Event]
) -> None:
    """Each growth has one change, its culprit, and is closed where all of it was taken back."""
    for event in planted:
        own = [c for c in changes if shas[event.at] in {cause.commit for cause in c.causes}]
        hidden = not own and event.back
        if hidden:  # it came and went between two measured nights, or while it was open
            continue
        if not own:
            closed = [c for c in changes if _holds(c, shas, event.at)]
            assert closed and closed[0].state == "fixed", (branch, event)
            continue
        (change,) = own
        others = [e for e in planted if shas[e.at] in {cause.commit for cause in change.causes}]
        if all(e.back for e in others):
            assert change.state == "fixed" and (change.undone_by or change.undone), event
        elif not any(e.back for e in others):
            assert change.state == "explained", event


def _holds(change: Change, shas: Sequence[str], at: int) -> bool:
    low, high = shas.index(change.from_commit), shas.index(change.to_commit)
    return low < at <= high


def test_g3_1_the_nights_steps_are_the_gates(tmp_path: Path) -> None:
    """+305 in every 16th I/O, then a comment: a median sees neither, the gate's rule the first."""
    counts = [[1000 + i % 3 for i in range(512)] for _ in range(3)]
    for line in counts[1:]:
        line[::16] = [value + 305 for value in line[::16]]
    for number, line in enumerate(counts):
        line[7 + 3 * number] += 790  # a timer, which meets another I/O each night
    store, last = Store(str(tmp_path / "h")), tmp_path / "last.json"
    for number, line in enumerate(counts):
        row = blank("main", "virt-arm64", f"2026-11-0{number + 1}")
        row |= {"run": f"r{number}", "commit": f"{number:040x}", "board_sha256": "b"}
        row |= {"clock": "instructions", "unit": "instructions"}
        medians = [("tip", CELLS[0], s, "median", 1001.0) for s in ("submission", "overhead")]
        now = tmp_path / f"result-{number}.json"
        results.write(now, side_result("base", {CELLS[0]: {Section.SUBMISSION: line}}))
        manifest = real("regression").manifest.model_copy(update={"policy": "instructions"})
        point = Point(row, measurements(row, medians))
        store.add(with_steps(point, manifest, now, last))
    (change,) = view.load(store, None, {}).changes
    assert change.night == "2026-11-02"
    assert {round(effect.delta, 1) for effect in change.effects} == {19.1}
