"""The search on boards' time: in a lab several commits at once, until one of them is likely enough.

A value is the log of what a commit's kernel takes over what A's does, in one pair of boots on one
board (`iotoll.verdict.time.pairs`): boards differ by more than kernels do. What is measured next
follows from the values alone (`iotoll.bisect.bayes`), and all values are in the log.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from iotoll.bisect.bayes import AGAIN, PROMISE, SURE, TOUCHES, Search, Step
from iotoll.bisect.history import History
from iotoll.bisect.log import Log
from iotoll.bisect.setting import Part, Setting, request_of
from iotoll.boards.board import VirtualBoard, load_board
from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.boots.pair_order import boot_order
from iotoll.boots.schedule import run_boots
from iotoll.core.errors import BrokenError, HangError, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.measure.collect import collect
from iotoll.patch import selection
from iotoll.patch.candidate import CandidateChoice
from iotoll.records.models import Clock, RunManifest
from iotoll.run.manifest import new_manifest
from iotoll.run.opening import locked, open_run
from iotoll.verdict.time.noise import FEWEST, history, history_file, load
from iotoll.verdict.time.pairs import Pairs, make_pairs

FIRST = 2
"""Pairs of A with itself, and of B, before anything is reckoned."""

IN_VAIN = 4
"""Pairs of a commit of which one must be of use."""


class UnusableError(BrokenError):
    """A commit's boots ended well, and none of them may be used: more of them would not help."""


class Source(Protocol):
    """Measures commits; called for several commits at once."""

    def ratios(self, commit: str, pairs: int) -> list[float]:
        """Log ratios of the first ``pairs`` pairs against A; NaN for those that may not be used.

        Raises BrokenError for a commit that does not build, boot or survive the workload.
        """


class PairSource:
    """Boots pairs of A and a commit, in a LAVA lab or as processes of this machine.

    Each commit has a run directory (and journal): whatever is stopped is taken up again.
    """

    def __init__(
        self, root: Path, setting: Setting, first: str, target: Part, progress: Progress
    ) -> None:
        self.root = root
        self.setting = setting
        self.first = first
        self.cell, self.figure = target
        self.progress = progress
        self._building = threading.Lock()

    def ratios(self, commit: str, pairs: int) -> list[float]:
        """As `Source.ratios`."""
        choice = CandidateChoice("revision", self.setting.tree, self.first, commit)
        manifest = new_manifest(
            request_of(self.setting, choice, [self.cell], aa=commit == self.first)
        )
        flow = Flow(open_run(self.root / "pairs" / commit[:16], manifest), self.progress)
        with locked(flow.run):
            with self._building:
                flow.source()
                flow.build()
            order = boot_order(flow.run.manifest.seed, pairs)
            run_boots(flow.run, flow.bench, order, self.progress, 1, flow.connect)
            numbers = range(1, pairs + 1)
            base = collect(flow.run, flow.cells, Clock.TIME, "base", numbers)
            other = collect(flow.run, flow.cells, Clock.TIME, "candidate", numbers, base)
        made = make_pairs(base, other, [self.cell], [self.figure], flow.run.manifest.seed)
        return ratios_of(made, self.cell, commit == self.first)


def ratios_of(made: Pairs, cell: str, is_first: bool) -> list[float]:
    """The pairs' only figure; NaN where it may not be used.

    Where none of several may be used, the commit cannot be measured: BrokenError, or for A itself
    InfrastructureError, since further boots would cost time and tell nothing.
    """
    values = [float(value) for value in made.ratios[:, 0]]
    if len(values) < IN_VAIN or any(map(math.isfinite, values)):
        return values
    unused = [record.unused for record in made.records if record.unused]
    why = made.invalid.get(cell) or next(iter(unused), "no value is in both boots")
    text = f"none of {len(values)} pairs of boots may be used: {why}"
    if is_first:
        raise InfrastructureError(f"{text}: so it is with A itself, so nothing can be compared")
    raise UnusableError("workload", text)


@dataclass
class Located:
    """Where a search on boards' time ended.

    ``commits`` are the likeliest ones, newest first, ``sure`` is their chance together; ``effect``
    is the change as a share (0.02: 2 % more). ``why`` says what kept it from being sure.
    """

    commits: list[str]
    sure: float
    effect: float
    pairs: int
    measured: int
    skipped: list[str] = field(default_factory=list)
    why: str = ""


@dataclass
class BoardSearch:
    """One search along ``points`` (A first, B last); ``boards`` commits are measured at a time.

    ``most`` is the limit on pairs of boots. Everything measured is in ``log``.
    """

    points: Sequence[str]
    source: Source
    search: Search
    log: Log
    progress: Progress
    boards: int = 1
    most: int = 400

    def run(self) -> Located:
        """Search until one commit, or several that nothing tells apart, are likely enough."""
        self._resume()
        last = len(self.points) - 1
        self._measure([(0, FIRST), (last, FIRST)])
        if ends := [p for p in (0, last) if p in self.search.skipped]:
            why = next(row["why"] for row in self.log.of("skipped") if row["place"] == ends[0])
            commit = self.points[ends[0]][:12]
            raise UsageError(f"{commit} cannot be measured: {why}: name another end")
        while True:
            group, sure = self.search.likeliest()
            few = [p for p in self._decisive(group) if self.search.count[p] < AGAIN]
            if sure >= SURE and not few:
                return self._located(group, sure, "")
            if self._spent() >= self.most:
                return self._located(group, sure, f"the limit of {self.most} pairs is reached")
            if sure >= SURE:
                steps = [Step(place, 1, 0.0) for place in few]
            else:
                steps = self.search.several(self.boards)
            if not steps:
                return self._located(group, sure, "no commit is left that can be measured")
            self._measure([(s.place, self._pairs(s.place) + s.boots) for s in steps])
            self._tell()

    def _decisive(self, group: Sequence[int]) -> list[int]:
        """The places on which a group's chance rests: its measured one, and the one before it."""
        before = next(p for p in range(group[0] - 1, -1, -1) if p not in self.search.skipped)
        return [before, group[-1]]

    # ------------------------------------------------------------ the log

    def _resume(self) -> None:
        for row in self.log.of("pair"):
            self._take(row["place"], row["value"])
        self.search.skipped |= {row["place"] for row in self.log.of("skipped")}
        # What had been begun is finished first: the lab may have its jobs still.
        begun = {place: pairs for row in self.log.of("begun") for place, pairs in row["steps"]}
        self._measure([(place, pairs) for place, pairs in begun.items()])

    def _take(self, place: int, value: float | None) -> None:
        if value is not None:
            self.search.add(place, value)

    def _pairs(self, place: int) -> int:
        """Pairs of a commit that were booted, usable or not."""
        return sum(row["place"] == place for row in self.log.of("pair"))

    def _spent(self) -> int:
        return len(self.log.of("pair"))

    # ------------------------------------------------------------ measuring

    def _measure(self, steps: Sequence[tuple[int, int]]) -> None:
        """Boot each place until it has so many pairs, all of them side by side."""
        steps = [
            (place, pairs)
            for place, pairs in steps
            if self._pairs(place) < pairs and place not in self.search.skipped
        ]
        if not steps:
            return
        self.log.add("begun", steps=[list(step) for step in steps])
        names = (f"{self.points[place][:12]} to {pairs} pairs" for place, pairs in steps)
        self.progress.say(f"measures {', '.join(names)}")
        failed: Exception | None = None
        again: list[tuple[int, int]] = []
        jobs = [self._begin(self.points[place], pairs) for place, pairs in steps]
        for step, job in zip(steps, jobs, strict=True):
            place = step[0]
            try:
                values = job.result()
            except Exception as error:
                if self._may_repeat(place, error):
                    again.append(step)
                elif isinstance(error, BrokenError):
                    self._skip(place, error)
                else:
                    failed = failed or error  # the others' values are kept before it is raised
            else:
                self._note(place, values)
        if failed is not None:
            raise failed
        self._measure(again)

    def _may_repeat(self, place: int, error: Exception) -> bool:
        """Whether a commit is tried once more: boards crash too, so only what repeats counts.

        A hang was tried twice by then (`iotoll.labs.lava.runner`), and a build fails again. What
        A's kernel broke in a pair of boots is the cause of the lab's error.
        """
        broken = error if isinstance(error, BrokenError) else error.__cause__
        if not isinstance(broken, BrokenError) or isinstance(broken, HangError | UnusableError):
            return False
        repeated = place in {row["place"] for row in self.log.of("broke")}
        if repeated or broken.step not in ("boot", "workload"):
            return False
        self.log.add("broke", place=place, commit=self.points[place], why=str(error))
        self.progress.say(f"{self.points[place][:12]}: {error}: tried once more")
        return True

    def _begin(self, commit: str, pairs: int) -> Future[list[float]]:
        """Measure a commit in a thread that ends with the process: Ctrl-C waits for no job."""
        found: Future[list[float]] = Future()

        def measure() -> None:
            try:
                found.set_result(self.source.ratios(commit, pairs))
            except BaseException as error:
                found.set_exception(error)

        threading.Thread(target=measure, daemon=True).start()
        return found

    def _note(self, place: int, values: Sequence[float]) -> None:
        for value in values[self._pairs(place) :]:
            usable = value if math.isfinite(value) else None
            self.log.add("pair", place=place, commit=self.points[place], value=usable)
            self._take(place, usable)

    def _skip(self, place: int, error: BrokenError) -> None:
        self.log.add(
            "skipped", place=place, commit=self.points[place], step=error.step, why=str(error)
        )
        self.search.skipped.add(place)
        self.progress.say(f"{self.points[place][:12]} is skipped: {error}")

    # ------------------------------------------------------------ what is said

    def _tell(self) -> None:
        group, sure = self.search.likeliest()
        names = ", ".join(self.points[place][:12] for place in group[:3])
        self.progress.say(f"{self._spent()} pairs: {names} with {sure:.0%}")

    def _located(self, group: Sequence[int], sure: float, why: str) -> Located:
        return Located(
            [self.points[place] for place in group][::-1],
            min(sure, PROMISE),
            math.expm1(self.search.effect()),
            self._spent(),
            len({row["place"] for row in self.log.of("pair")} - {0, len(self.points) - 1}),
            [self.points[place] for place in sorted(self.search.skipped)],
            why,
        )


def points_of(log: History, good: str, bad: str) -> list[str]:
    """A, and the first parents from where they leave A to B: what a search walks along."""
    chain = list(log.graph([good], bad, first_parent=True))[::-1]
    if not chain:
        raise UsageError(f"{good[:12]}..{bad[:12]}: holds no commit: swap them?")
    if log.parents(chain[0])[:1] != [good]:
        raise UsageError(
            f"{good[:12]} is not on the line of {bad[:12]}'s first parents: name one that is"
        )
    return [good, *chain]


def prior_of(log: History, points: Sequence[str], cell: str) -> list[float]:
    """Prior odds of each commit: larger where it touches code that the cell's selection names."""
    merges = {c for c in points[1:] if len(log.parents(c)) > 1}
    changed = log.changed([c for c in points[1:] if c not in merges])
    # What a merge brings is not listed: it may be anything.
    return [
        TOUCHES if c in merges or selection.select(changed.get(c, []), [cell]).cells else 1.0
        for c in points[1:]
    ]


def noise_of(setting: Setting, target: Part) -> float:
    """The standard deviation of one pair's log ratio, by the board's A/A history."""
    path = history_file(setting.board, setting.matrix)
    record = load(path, Path(setting.board).stem, Path(setting.matrix).stem)
    found = history(record, [target], [""])
    if not found.freedom[0] or not math.isfinite(found.variance[0, 0]):
        raise UsageError(
            f"{path}: has fewer than {FEWEST} pairs of {target[0]}: {target[1]}: gate a kernel"
            " with itself (iotoll gate --aa, iotoll noise), or give --noise"
        )
    return math.sqrt(float(found.variance[0, 0]))


def check_figure(figure: str) -> None:
    """Raise UsageError for what a board's boots have no value of."""
    known = ("overhead", "vfs_fs", "submission", "completion")
    if figure not in known:
        raise UsageError(f"--section {figure}: on boards' time it is one of {', '.join(known)}")


def shared_manifest(setting: Setting, asked: Sequence[str], cell: str) -> RunManifest:
    """The manifest of B against A, with everything read that the command line names.

    ``asked`` are A and B. Raises UsageError where names do not fit together.
    """
    board = load_board(setting.board)
    if isinstance(board, VirtualBoard):
        raise UsageError(
            f"--board {board.name}: counts instructions, of which one boot is enough: search"
            " without --runner lava"
        )
    if chosen_cells(cell, load_matrix(setting.matrix).cells) != [cell]:
        raise UsageError(f"--cell {cell}: is a pattern: name one cell")
    good, bad = asked
    choice = CandidateChoice("revision", setting.tree, good, bad)
    return new_manifest(request_of(setting, choice, [cell]))


def check_lab(setting: Setting) -> None:
    """Raise what keeps the lab from running the board's jobs, before anything long begins."""
    # Only a search that begins needs HTTP, which takes a tenth of a second to import.
    from iotoll.labs.lava import check
    from iotoll.labs.lava.config import load_lab
    from iotoll.labs.lava.server import connect

    lab = load_lab(setting.lab or "local")
    if not lab.boards:
        raise InfrastructureError(f"lab {lab.name}: has no boards")
    check.demand(lab, connect(lab, check.RETRIES), [Path(setting.board).stem])
