"""The trend in a terminal: summaries, open changes, and a sparkline per cell family."""

from __future__ import annotations

import click
import numpy as np

from iotoll.nightly.changes.drift import SECTION, Drift, family
from iotoll.nightly.changes.find import Change
from iotoll.nightly.changes.series import Track
from iotoll.nightly.trend import view
from iotoll.records.text import clean

_BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40
"""Nights in a sparkline."""


def lines_of(trend: view.Trend) -> list[str]:
    """The trend as lines: what got worse and what failed first, then each family's curve."""
    lines = [f"worse than {one.since}? {one.sentence}" for one in view.summaries(trend)]
    for track in trend.tracks:
        night = track.nights[-1]
        if night.status == "failed":
            reason = clean(night.reason)
            commit = f" {night.commit[:12]}" if night.commit else ""
            lines.append(
                f"no values: {night.night}, {track.branch} on {track.board}{commit}: {reason}"
            )
    opened = trend.open_changes
    lines += ["", f"open changes: {len(opened)}"]
    for change in opened:
        lines.append(f"  {change.id} {change.state:10} {view.change_sentence(change)}")
        lines += [f"    {clean(view.cause_text(cause))}" for cause in change.causes]
    if trend.suspects:
        lines.append(f"suspected, not confirmed: {len(trend.suspects)}")
    for track in trend.tracks:
        lines += ["", f"{track.branch} on {track.board}, overhead of the last {WIDTH} nights"]
        own = [d for d in trend.drifts if (d.branch, d.board) == (track.branch, track.board)]
        lines += [f"  {drift.family:20} {_line(track, drift)}" for drift in own]
    return lines


def show_log(change: Change) -> None:
    """Print one change and everything that was noted about it, oldest first."""
    click.echo(f"{change.id} {change.state}: {view.change_sentence(change)}")
    for entry in change.notes:
        parts = (entry.state, entry.told, entry.commit[:12], clean(entry.words), clean(entry.by))
        click.echo(f"  {entry.at[:16]} {', '.join(part for part in parts if part)}")


def sparkline(values: list[float | None]) -> str:
    """One character per value; a space is a gap, and equal values are a flat low line."""
    known = [v for v in values if v is not None]
    if not known:
        return " " * len(values)
    low, span = min(known), max(known) - min(known)
    scale = (len(_BARS) - 1) / span if span else 0.0
    return "".join(" " if v is None else _BARS[round((v - low) * scale)] for v in values)


def _line(track: Track, drift: Drift) -> str:
    values = np.stack(
        [s.values for s in track.series if s.section == SECTION and family(s.cell) == drift.family]
    )[:, -WIDTH:]
    nights = [column[~np.isnan(column)] for column in values.T]
    means = [float(night.mean()) if len(night) else None for night in nights]
    since = (
        ""
        if drift.since_release is None
        else (f" {view.amount(drift.since_release, drift.unit)} since {clean(drift.release)}")
    )
    eaten = "" if drift.eaten is None else f", {drift.eaten:.0%} of the budget"
    now = drift.now if drift.unit == "instructions" else drift.now / 1000
    unit = "instructions" if drift.unit == "instructions" else "µs"
    return f"{sparkline(means)} {now:,.1f} {unit}{since}{eaten}"
