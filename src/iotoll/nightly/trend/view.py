"""What every form of the trend shows, made once from a history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iotoll.nightly.changes.drift import SECTION, Drift, drifts
from iotoll.nightly.changes.find import Change, Effect, changes
from iotoll.nightly.changes.notes import Cause, notes
from iotoll.nightly.changes.series import NIGHTS, Track, tracks
from iotoll.nightly.history.engines import Name
from iotoll.nightly.history.query import Database
from iotoll.nightly.history.store import Store

EXACT_SLACK, NOISY_SLACK = 0.5, 0.02
"""What a family must have grown by to count as worse: instructions, or a share of the time."""


@dataclass(frozen=True)
class Trend:
    """Tracks, changes (newest first) and drifts of a history.

    ``links`` are URLs of a commit by branch, with ``{commit}`` in them; of all others by ``""``.
    ``cost`` says what the night itself took.
    """

    tracks: list[Track]
    changes: list[Change]
    drifts: list[Drift]
    links: Mapping[str, str] = field(default_factory=dict)
    cost: str = ""

    @property
    def failed(self) -> list[Track]:
        """Tracks whose tip of the last night has no values."""
        return [track for track in self.tracks if track.nights[-1].status == "failed"]

    @property
    def open_changes(self) -> list[Change]:
        """Growths that are sure, that nobody accepted and nothing undid."""
        return [change for change in self.changes if change.is_open and change.is_told]

    @property
    def suspects(self) -> list[Change]:
        """Growths on a noisy clock that no paired comparison has confirmed yet."""
        return [change for change in self.changes if change.is_open and not change.is_told]

    def track(self, branch: str, board: str) -> Track:
        """The track of a drift."""
        return next(t for t in self.tracks if (t.branch, t.board) == (branch, board))


@dataclass(frozen=True)
class Summary:
    """Whether anything is worse than at one moment, in a sentence; None: nothing to compare."""

    since: str
    worse: bool | None
    sentence: str


def load(
    store: Store,
    branch: str | None,
    budgets: Mapping[str, float],
    nights: int = NIGHTS,
    engine: Name = "duckdb",
    reported: Mapping[str, str] | None = None,
) -> Trend:
    """The last ``nights`` of a history, or of one of its branches."""
    database = Database(store.find(branch), engine)
    try:
        found = tracks(database, branch, nights)
    finally:
        database.close()
    return Trend(found, changes(found, notes(store.files)), drifts(found, budgets, reported))


def summaries(trend: Trend) -> list[Summary]:
    """Worse than last night, last week, the last releases: the page's first lines."""
    moments = [
        ("last night", "last_night"),
        ("a week ago", "last_week"),
        ("the last release", "since_release"),
        ("the release before", "since_previous"),
    ]
    if any(drift.last_report is not None for drift in trend.drifts):
        moments[0] = ("the last report", "last_report")
    found = [_summary(trend, name, attribute) for name, attribute in moments]
    has_two = any(drift.previous for drift in trend.drifts)
    return found if has_two else found[:-1]


def is_worse(drift: Drift, delta: float) -> bool:
    """Whether a growth is more than the clock's own slack."""
    return delta > (EXACT_SLACK if drift.unit == "instructions" else NOISY_SLACK * drift.now)


def _summary(trend: Trend, name: str, attribute: str) -> Summary:
    stale = {(track.branch, track.board) for track in trend.failed}
    every = [(d, getattr(d, attribute)) for d in trend.drifts]
    known = [(d, v) for d, v in every if v is not None and (d.branch, d.board) not in stale]
    missing = _missing(trend)
    if not known:
        return Summary(name, None, missing or f"nothing to compare with {name}")
    worse = [(d, delta) for d, delta in known if is_worse(d, delta)]
    lacking = sum((d.branch, d.board) not in stale for d in trend.drifts) - len(known)
    unknown = f"; {lacking} not comparable" if lacking else ""
    unknown += f"; {missing}" if missing else ""
    grown = _grown_tonight(trend) if attribute in ("last_night", "last_report") else []
    if not worse and grown:
        return Summary(name, True, f"yes: {change_sentence(grown[0])}{unknown}")
    if not worse:
        # What was not measured may have grown.
        sentence = f"no: none of {len(known)} cell families grew{unknown}"
        return Summary(name, None if missing else False, sentence)
    drift, delta = max(worse, key=lambda pair: pair[1] / pair[0].now)
    top = f"{drift.family} on {drift.branch}, {drift.board}: {amount(delta, drift.unit)}"
    return Summary(name, True, f"yes: {len(worse)} of {len(known)} families grew, {top}{unknown}")


def _missing(trend: Trend) -> str:
    """The tips that were not measured; empty where all were."""
    names = [f"{track.branch} on {track.board}" for track in trend.failed]
    return f"not measured: {', '.join(names)}" if names else ""


def _grown_tonight(trend: Trend) -> list[Change]:
    """Growths that the last night of a branch found, also where a family's mean hides them."""
    latest = max((track.nights[-1].night for track in trend.tracks), default="")
    return [change for change in trend.open_changes if change.night == latest]


def amount(value: float, unit: str) -> str:
    """A difference with sign and unit: ``+41 instructions``, ``+1.25 µs``."""
    # A little less than nothing is nothing: no "-0.00".
    if unit == "instructions":
        digits = 0 if value % 1 == 0 else 1
        return f"{round(value, digits) + 0.0:+,.{digits}f} instructions"
    return f"{round(value / 1000, 2) + 0.0:+,.2f} µs"


def effect_text(effect: Effect) -> str:
    """One effect in words."""
    share = f" ({effect.delta / effect.before:+.1%})" if effect.before else ""
    return f"{effect.cell} {effect.section} {amount(effect.delta, effect.unit)}{share}"


def cause(change: Change) -> str:
    """The culprit, or the range that hides it."""
    if len(change.causes) > 1:
        return ", ".join(one.commit[:12] for one in change.causes)
    if change.culprit:
        return change.culprit[:12]
    return "..".join(commit[:12] for commit in change.ends)


def cause_text(one: Cause) -> str:
    """A culprit in a line: commit, author, what it moved most, and its functions."""
    worst = one.worst
    size = f": {worst.cell} {worst.section} {worst.delta:+g} instructions" if worst else ""
    some = f" ({worst.some})" if worst and worst.some else ""
    more = f" and {len(one.parts) - 1} more sections" if len(one.parts) > 1 else ""
    functions = f", in {', '.join(one.functions[:4])}" if one.functions else ""
    author = f" by {one.author}" if one.author else ""
    mark = ", an improvement" if worst and worst.delta < 0 else ""
    return f"{one.line}{author}{size}{some}{more}{functions}{mark}"


def change_sentence(change: Change) -> str:
    """One line: how much, where, since when, and the commits."""
    parts = len(change.effects)
    cells = len({effect.cell for effect in change.effects})
    boards = ", ".join(sorted({effect.board for effect in change.effects}))
    more = f", {parts} sections of {cells} cells" if parts > 1 else ""
    how = effect_text(change.worst)
    return f"{change.branch}: {how} on {boards}{more}, {change.night}, {cause(change)}"


def bisect_command(change: Change) -> str:
    """The command that looks for the culprit; empty where a board's time grew."""
    if change.clock != "instructions":
        return ""
    worst = change.worst
    parts = [e for e in change.effects if e.cell == worst.cell and e.section != SECTION]
    section = max(parts, key=lambda e: abs(e.delta)).section if parts else ""
    return (
        f"iotoll bisect --tree TREE --good {change.ends[0][:12]} --bad"
        f" {change.ends[1][:12]} --cell {worst.cell}" + (section and f" --section {section}")
    )


def reproduce_command(change: Change) -> str:
    """The command that shows the change again."""
    worst = change.worst
    clock = "" if change.clock == "instructions" else " --runner lava"
    return (
        f"iotoll gate --tree TREE --base {change.ends[0][:12]} --candidate"
        f" {change.ends[1][:12]} --board {worst.board} --cells {worst.cell}{clock}"
    )


def as_json(trend: Trend) -> dict[str, Any]:
    """The same for scripts."""
    return {
        "answers": [vars(summary) for summary in summaries(trend)],
        "changes": [change_json(change) for change in trend.changes],
        "drift": [{**vars(drift), "eaten": drift.eaten} for drift in trend.drifts],
        "nights": [
            {name: night.row[name] for name in ("branch", "board", "night", "status", "reason")}
            for track in trend.tracks
            for night in track.nights[-7:]
        ],
    }


def change_json(change: Change) -> dict[str, Any]:
    """One change as plain data."""
    data = {k: v for k, v in vars(change).items() if k not in ("notes", "aftermath")}
    data["causes"] = [one.model_dump(mode="json") for one in change.causes]
    data["effects"] = [{**vars(effect), "delta": effect.delta} for effect in change.effects]
    return {**data, "open": change.is_open, "sentence": change_sentence(change)}
