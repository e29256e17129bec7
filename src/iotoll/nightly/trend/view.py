"""What every form of the trend shows, made once from a history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iotoll.nightly.changes.drift import SECTION, Drift, drifts
from iotoll.nightly.changes.find import Change, Effect, changes
from iotoll.nightly.changes.notes import notes
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
    """

    tracks: list[Track]
    changes: list[Change]
    drifts: list[Drift]
    links: Mapping[str, str] = field(default_factory=dict)

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
) -> Trend:
    """The last ``nights`` of a history, or of one of its branches."""
    database = Database(store.find(branch), engine)
    try:
        found = tracks(database, branch, nights)
    finally:
        database.close()
    return Trend(found, changes(found, notes(store.files)), drifts(found, budgets))


def summaries(trend: Trend) -> list[Summary]:
    """Worse than last night, last week, last release: the page's first lines."""
    moments = (
        ("last night", "last_night"),
        ("a week ago", "last_week"),
        ("the last release", "since_release"),
    )
    return [_summary(trend, name, attribute) for name, attribute in moments]


def is_worse(drift: Drift, delta: float) -> bool:
    """Whether a growth is more than the clock's own slack."""
    return delta > (EXACT_SLACK if drift.unit == "instructions" else NOISY_SLACK * drift.now)


def _summary(trend: Trend, name: str, attribute: str) -> Summary:
    known = [(d, getattr(d, attribute)) for d in trend.drifts]
    known = [(d, delta) for d, delta in known if delta is not None]
    if not known:
        return Summary(name, None, f"nothing to compare with {name}")
    worse = [(d, delta) for d, delta in known if is_worse(d, delta)]
    lacking = len(trend.drifts) - len(known)
    unknown = f"; {lacking} not comparable" if lacking else ""
    if not worse:
        return Summary(name, False, f"no: none of {len(known)} cell families grew{unknown}")
    drift, delta = max(worse, key=lambda pair: pair[1] / pair[0].now)
    top = f"{drift.family} on {drift.branch}, {drift.board}: {amount(delta, drift.unit)}"
    return Summary(name, True, f"yes: {len(worse)} of {len(known)} families grew, {top}{unknown}")


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
    if change.culprit:
        return change.culprit[:12]
    return f"{change.from_commit[:12]}..{change.to_commit[:12]}"


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
        f"iotoll bisect --tree TREE --good {change.from_commit[:12]} --bad"
        f" {change.to_commit[:12]} --cell {worst.cell}" + (section and f" --section {section}")
    )


def reproduce_command(change: Change) -> str:
    """The command that shows the change again."""
    worst = change.worst
    clock = "" if change.clock == "instructions" else " --runner lava"
    return (
        f"iotoll gate --tree TREE --base {change.from_commit[:12]} --candidate"
        f" {change.to_commit[:12]} --board {worst.board} --cells {worst.cell}{clock}"
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
    data["effects"] = [{**vars(effect), "delta": effect.delta} for effect in change.effects]
    return {**data, "open": change.is_open, "sentence": change_sentence(change)}
