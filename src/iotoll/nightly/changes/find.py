"""Changes: the steps of many cells that one range of commits made are one change.

A change's state comes from the history (found, fixed, reappeared) and from what people and other
commands noted about it (`notes`): a note may confirm, explain or accept it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from iotoll.core.digest import json_sha256
from iotoll.nightly.changes.detector import WINDOW, Baseline, Step, exact_steps
from iotoll.nightly.changes.notes import Cause, Note, State, note
from iotoll.nightly.changes.series import Series, Track
from iotoll.nightly.history.files import Files

_FITS = 0.1
"""A drop takes an exact growth back whose size differs by at most this share of it."""
_SAME = 0.2
"""A growth is an earlier one again whose size differs by at most so many instructions."""
_BACK = 0.8
"""Share of a noisy growth that must have gone for it to count as fixed."""
_NIGHTS, _ENOUGH = 7, 5  # of a noisy clock, for a level


@dataclass(frozen=True)
class Life:
    """Of an exact series, by each growth's night: the nights on which it went and came again."""

    gone: dict[int, set[int]]
    again: dict[int, set[int]]


def life(steps: Sequence[Step]) -> Life:
    """Which drop takes which growth back: the one whose size it has, else all that are below it.

    Each drop is one growth's, so that a later revert of another one closes nothing.
    """
    found = Life({}, {})
    up: list[Step] = []
    closed: list[Step] = []
    for step in sorted(steps, key=lambda one: one.index):
        if step.size > 0:
            same = [s for s in closed if abs(s.size - step.size) <= _SAME]
            if same:
                found.again.setdefault(same[-1].index, set()).add(step.index)
                closed.remove(same[-1])
            up.append(same[-1] if same else step)
            continue
        fits = [s for s in up if abs(s.size + step.size) <= _FITS * s.size]
        best = min(fits, key=lambda s: (abs(s.size + step.size), -s.index), default=None)
        gone = [s for s in up if step.after <= s.before] if best is None else [best]
        for one in gone:
            found.gone.setdefault(one.index, set()).add(step.index)
            up.remove(one)
            closed.append(one)
    return found


@dataclass(frozen=True)
class Grown:
    """One series that grew at ``step``; an exact one with what became of its growths."""

    series: Series
    step: Step
    exact: bool
    life: Life

    def gone(self, index: int) -> bool:
        """Whether the growth went away: on that night, or by then on a noisy clock."""
        if not self.exact:
            return self._level(index, self.step.size * _BACK)
        return index in self.life.gone.get(self.step.index, ())

    def returned(self, index: int) -> bool:
        """Whether it came again."""
        if not self.exact:
            return not self._level(index, self.step.size / 2)
        return index in self.life.again.get(self.step.index, ())

    def _level(self, index: int, less: float) -> bool:
        # One night of a noisy clock proves nothing.
        recent = self.series.followed[max(self.step.index, index - _NIGHTS + 1) : index + 1]
        known = recent[~np.isnan(recent)]
        return len(known) >= _ENOUGH and bool(np.median(known) <= self.step.after - less)


def aftermath(grown: Sequence[Grown], measured: Sequence[int]) -> tuple[int | None, list[int]]:
    """The night since which all that grew is gone (None while it is not), and each return's."""
    fixed, returns = None, []
    first = max((one.step.index for one in grown), default=0)
    back: set[int] = set()
    for index in (i for i in measured if grown and i > first):
        # Several commits may take it back, each its part.
        here = {n for n, one in enumerate(grown) if one.gone(index)}
        again = {n for n, one in enumerate(grown) if n in back - here and one.returned(index)}
        back = (back | here) - (again if fixed is None else set())
        if fixed is None and len(back) == len(grown):
            fixed = index
        elif fixed is not None and all(one.returned(index) for one in grown):
            returns.append(index)
            fixed = None
            back = set()
    return fixed, returns


OPEN: frozenset[State] = frozenset({"new", "confirmed", "bisecting", "explained", "reappeared"})
MODELLED = ("hardware", "total")
"""Sections that on an exact board hold the device model's time, which is not the kernel's."""
_FDR = 0.05
_NEAR = 2  # nights within which boundaries of noisy series are one boundary
Found = tuple[Series, Step]


@dataclass(frozen=True)
class Effect:
    """What one series of one board did: levels in the track's unit, ``now`` tonight's."""

    board: str
    unit: str
    cell: str
    section: str
    before: float
    after: float
    now: float

    @property
    def delta(self) -> float:
        """By how much it grew."""
        return self.after - self.before

    @property
    def key(self) -> tuple[str, str, bool]:
        """What two boards' effects of one cause share."""
        return self.cell, self.section, self.delta > 0


@dataclass(frozen=True)
class Change:
    """One change of one branch: the nights around it, its kernels, and what it did where.

    ``was`` are ids that it had before another board narrowed its range. ``again`` are the kernels
    around its last return, which another commit may have made. ``causes`` are all its culprits,
    and ``same`` is the change of another branch that has them too. ``undone`` is the commit that
    took it back, ``undone_by`` the change of that night, which ``undoes`` this one.
    """

    id: str
    branch: str
    clock: str
    last: str
    night: str
    found: str
    from_run: str
    to_run: str
    from_commit: str
    to_commit: str
    effects: list[Effect]
    state: State = "new"
    culprit: str = ""
    words: str = ""
    by: str = ""
    fixed: str = ""
    returns: tuple[str, ...] = ()
    again: tuple[str, str] | None = None
    url: str = ""
    was: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    same: str = ""
    undone: str = ""
    undone_by: str = ""
    undoes: tuple[str, ...] = ()
    notes: list[Note] = field(default_factory=list)

    @property
    def worst(self) -> Effect:
        """The largest growth; of an improvement the largest saving."""
        return max(self.effects, key=lambda e: (e.delta if self.grew else -e.delta, e.cell))

    @property
    def grew(self) -> bool:
        """Whether any section of any cell became costlier."""
        return any(effect.delta > 0 for effect in self.effects)

    @property
    def ends(self) -> tuple[str, str]:
        """The commits between which its culprits are: those of its last return, if it has one."""
        return self.again or (self.from_commit, self.to_commit)

    @property
    def is_open(self) -> bool:
        """Whether somebody still has to do something about it."""
        return self.grew and self.state in OPEN

    @property
    def is_told(self) -> bool:
        """Whether it is sure enough to tell anybody."""
        return self.state not in ("new", "dismissed")


def changes(tracks: Iterable[Track], notes: Sequence[Note] = ()) -> list[Change]:
    """Every change of the tracks, newest first, each in its state."""
    found: list[Change] = []
    for track in tracks:
        own = [_change(track, pairs) for pairs in _groups(track)]
        found += [change for change in own if not _is_return(change, own)]
    made = _linked([_noted(change, notes) for change in _joined(found)])
    return sorted(made, key=lambda c: (c.night, c.id), reverse=True)


def _linked(found: Sequence[Change]) -> list[Change]:
    """With links between what grew and the change that took it back, on the night it was gone."""
    back: dict[str, str] = {}
    for change in (c for c in found if c.grew and c.state == "fixed" and c.fixed):
        keys = {(effect.cell, effect.section) for effect in change.effects if effect.delta > 0}
        for other in found:
            fell = {(e.cell, e.section) for e in other.effects if e.delta < 0}
            if (other.branch, other.night) == (change.branch, change.fixed) and keys & fell:
                back[change.id] = other.id
    return [
        replace(
            change,
            undone_by=back.get(change.id, ""),
            undoes=tuple(sorted(one for one, by in back.items() if by == change.id)),
        )
        for change in found
    ]


def _groups(track: Track) -> list[list[Found]]:
    """Steps of one boundary: on an exact board of the same two nights, else of near ones."""
    groups: dict[tuple[int, int], list[Found]] = {}
    if track.is_exact:
        for series in track.series:
            steps = [] if series.section in MODELLED else exact_steps(series.values)
            # Where the board itself changed, a step is not the kernel's.
            for step in (s for s in steps if not _resets(track, s)):
                groups.setdefault((step.last, step.index), []).append((series, step))
        return [groups[key] for key in sorted(groups)]
    for series, step in sorted(noisy(track), key=lambda pair: pair[1].index):
        near = [k for k in groups if step.last < k[1] or step.index - k[1] <= _NEAR]
        groups.setdefault(near[0] if near else (step.last, step.index), []).append((series, step))
    return list(groups.values())


def _resets(track: Track, step: Step) -> bool:
    return any(step.last < night <= step.index for night in track.resets)


def noisy(track: Track) -> list[Found]:
    """The steps of all series of a noisy track: each night by Benjamini and Hochberg's rule."""
    waiting = {
        number: (Baseline(series.followed, track.resets), series)
        for number, series in enumerate(track.series)
    }
    suspected = {n: baseline.suspect() for n, (baseline, _) in waiting.items()}
    found = []
    while tonight := [step.found for step in suspected.values() if step is not None]:
        now = min(tonight)
        due = {n: s for n, s in suspected.items() if s is not None and s.found == now}
        for number in believed({n: step.score for n, step in due.items()}, len(track.series)):
            baseline, series = waiting[number]
            baseline.believe(due[number])
            found.append((series, due[number]))
        for number in due:
            suspected[number] = waiting[number][0].suspect()
    return found


def believed(scores: dict[int, float], series: int) -> list[int]:
    """Which of tonight's scores hold among ``series``, at a false discovery rate of 5 %."""
    ranked = sorted(scores, key=lambda n: -scores[n])
    good = 0
    for rank, number in enumerate(ranked, 1):
        # A score is the largest of up to WINDOW boundaries.
        p = min(1.0, WINDOW * math.erfc(scores[number] / math.sqrt(2)))
        good = rank if p <= _FDR * rank / series else good
    return ranked[:good]


def _change(track: Track, pairs: Sequence[Found]) -> Change:
    # The clearest step says best on which night it was.
    _, clearest = max(pairs, key=lambda pair: (pair[1].score, -pair[1].index))
    a, b = track.nights[clearest.last], track.nights[clearest.index]
    # Where a boundary lies on a noisy clock is known to some nights only: a board's own.
    board = [] if track.is_exact else [track.board]
    grown = [
        Grown(series, step, track.is_exact, _life(track, series))
        for series, step in pairs
        if step.size > 0
    ]
    fixed, returns = aftermath(grown, track.measured)
    return Change(
        id=json_sha256([track.branch, a.kernel, b.kernel, *board])[:12],
        branch=track.branch,
        clock=track.clock,
        last=a.night,
        night=b.night,
        found=track.nights[max(step.found for _, step in pairs)].night,
        from_run=a.run,
        to_run=b.run,
        from_commit=a.kernel,
        to_commit=b.kernel,
        effects=[_effect(track, series, step) for series, step in pairs],
        state="confirmed" if track.is_exact else "new",
        url=b.url,
        fixed=track.nights[fixed].night if fixed is not None else "",
        returns=tuple(track.nights[i].night for i in returns),
        again=_around(track, returns[-1]) if returns else None,
    )


def _around(track: Track, index: int) -> tuple[str, str]:
    """The kernels of a night that was measured, and of the one before it."""
    before = max(i for i in track.measured if i < index)
    return track.nights[before].kernel, track.nights[index].kernel


def _life(track: Track, series: Series) -> Life:
    if not track.is_exact:
        return Life({}, {})
    return life([s for s in exact_steps(series.values) if not _resets(track, s)])


def _effect(track: Track, series: Series, step: Step) -> Effect:
    values = series.values
    known = np.flatnonzero(~np.isnan(values))
    before, after = step.before, step.after
    if not track.is_exact:
        # Logs of ratios become the tip's unit again.
        scale = float(np.nanmedian(values[: step.index]))
        before, after = scale, scale * float(np.exp(step.size))
    now = float(values[known[-1]])
    return Effect(track.board, track.unit, series.cell, series.section, before, after, now)


def _is_return(change: Change, own: Sequence[Change]) -> bool:
    """Whether ``change`` is an earlier one that reappeared: it is told as that one."""
    keys = {effect.key for effect in change.effects if effect.delta > 0}
    return any(
        change.night in other.returns
        and keys
        and keys <= {effect.key for effect in other.effects if effect.delta > 0}
        for other in own
    )


def _joined(found: Sequence[Change]) -> list[Change]:
    """One change for one range; a board that missed nights joins the narrower range of another."""
    made: dict[str, Change] = {}
    for change in sorted(found, key=lambda c: (c.last, c.night), reverse=True):
        home = made.get(change.id) or _narrower(change, list(made.values()))
        if home is None:
            made[change.id] = change
            continue
        made[home.id] = replace(
            home,
            effects=[*home.effects, *change.effects],
            was=(*home.was, *([change.id] if change.id != home.id else [])),
            fixed=_both_fixed(home, change),
            returns=tuple(sorted({*home.returns, *change.returns})),
            again=home.again or change.again,
        )
    return list(made.values())


def _both_fixed(one: Change, other: Change) -> str:
    """The night on which every board that grew was as before; empty while one is not."""
    nights = [change.fixed for change in (one, other) if change.grew]
    return max(nights) if nights and all(nights) else ""


def _narrower(change: Change, known: Sequence[Change]) -> Change | None:
    """The change of another board whose nights lie in this one's, with the most in common."""
    boards = {effect.board for effect in change.effects}
    keys = {effect.key for effect in change.effects}
    fit = [
        (len(keys & {effect.key for effect in other.effects}), other.id, other)
        for other in known
        if other.branch == change.branch
        and other.clock == change.clock == "instructions"
        and change.last <= other.last < other.night <= change.night
        and not boards & {effect.board for effect in other.effects}
    ]
    best = max(fit, default=None, key=lambda entry: entry[:2])
    return best[2] if best is not None and best[0] else None


def _noted(change: Change, notes: Sequence[Note]) -> Change:
    names = {change.id, *change.was}
    own = sorted((n for n in notes if n.change in names), key=lambda n: (n.at, n.state))
    made = replace(change, notes=own)
    forgotten = _before_return(own) if change.returns and not change.fixed else 0
    for number, entry in enumerate(own):
        if entry.state and not entry.seen:
            made = replace(made, state=entry.state)
        if number < forgotten:
            continue
        made = replace(
            made,
            culprit=entry.commit or made.culprit,
            causes=tuple(entry.causes) or made.causes,
            same=entry.same or made.same,
            undone=entry.undone or made.undone,
            words=entry.words or made.words,
            by=entry.by or made.by,
        )
    # On a noisy clock nobody knows yet whether there is anything to fix.
    if made.state not in ("new", "dismissed"):
        if change.fixed:
            made = replace(made, state="fixed")
        elif change.returns:
            made = replace(made, state="reappeared")
    return made


def _before_return(own: Sequence[Note]) -> int:
    """How many notes are older than a change's last return.

    A growth of the same size may be another commit's, so what they found says nothing of it.
    """
    seen = [(number, entry.state) for number, entry in enumerate(own) if entry.seen]
    fixed = max((number for number, state in seen if state == "fixed"), default=-1)
    again = [number for number, state in seen if state == "reappeared" and number > fixed]
    return again[0] if again else len(own)


def record(files: Files, found: Iterable[Change]) -> int:
    """Append to the log each state that is not its last entry; returns how many were new."""
    made = 0
    for change in found:
        states = [n.state for n in change.notes if n.state]
        if change.state != (states[-1] if states else ""):
            note(files, change.id, state=change.state, seen=True, by="iotoll")
            made += 1
    return made
