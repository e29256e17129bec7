"""How much was added since the last release, cell family by cell family, and what is left of it.

Per merge request little is let through; a night's values show the sum of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

import numpy as np

from iotoll.nightly.changes.detector import Floats
from iotoll.nightly.changes.series import Series, Track

SECTION = "overhead"
"""Sections 1, 2 and 4 together."""


def family(cell: str) -> str:
    """The family of a cell: device, size and pattern, such as ``ufs-4k-randread``."""
    return "-".join(cell.split("-")[:3])


@dataclass(frozen=True)
class Drift:
    """One family on one board of one branch: growth of its mean overhead in ``unit``.

    ``cell`` is the one that grew most since the release. None where there is nothing to compare
    with. ``since_previous`` is the growth since the release before: where the tip is a release,
    nothing grew since. ``budget`` is what the team allows until the next release; ``days_left`` is
    None where nothing is eaten.
    """

    branch: str
    board: str
    family: str
    cell: str
    unit: str
    now: float
    last_night: float | None
    last_week: float | None
    since_release: float | None
    release: str
    since_previous: float | None
    previous: str
    last_report: float | None
    budget: float | None
    days_left: float | None

    @property
    def eaten(self) -> float | None:
        """Share of the budget that is used."""
        if self.budget is None or self.since_release is None:
            return None
        return self.since_release / self.budget


def drifts(
    tracks: Iterable[Track],
    budgets: Mapping[str, float] | None = None,
    reported: Mapping[str, str] | None = None,
) -> list[Drift]:
    """The drift of every family; ``budgets`` are by clock's unit, in that unit per I/O.

    ``reported`` is the last night that an earlier report had, by `Track.name`.
    """
    found = []
    for track in tracks:
        groups: dict[str, list[Series]] = {}
        for series in track.series:
            if series.section == SECTION:
                groups.setdefault(family(series.cell), []).append(series)
        told = (reported or {}).get(track.name, "")
        found += [_drift(track, name, group, budgets or {}, told) for name, group in groups.items()]
    return [drift for drift in found if drift is not None]


def _drift(
    track: Track, name: str, group: list[Series], budgets: Mapping[str, float], told: str
) -> Drift | None:
    values = np.stack([series.values for series in group])
    known = [i for i in track.measured if not np.isnan(values[:, i]).all()]
    if not known:
        return None
    last = known[-1]

    def growth(since: int | None) -> float | None:
        """Mean growth over the cells that both nights have."""
        if since is None:
            return None
        difference = values[:, last] - values[:, since]
        both = difference[~np.isnan(difference)]
        return float(both.mean()) if len(both) else None

    today = date.fromisoformat(track.nights[last].night)
    week = [i for i in known if (today - date.fromisoformat(track.nights[i].night)).days >= 7]
    releases = [i for i in known if track.nights[i].release]
    release = releases[-1] if releases else None
    since = growth(release)
    before = releases[-2] if len(releases) > 1 else None
    reports = [i for i in known if track.nights[i].night <= told]
    budget = budgets.get(track.unit)
    days = (
        (today - date.fromisoformat(track.nights[release].night)).days if release is not None else 0
    )
    left = None
    if budget is not None and since is not None and since > 0 and days > 0:
        left = max(0.0, (budget - since) / (since / days))
    return Drift(
        track.branch,
        track.board,
        name,
        _most(values, group, last, release),
        track.unit,
        float(np.nanmean(values[:, last])),
        growth(known[-2] if len(known) > 1 else None),
        growth(week[-1] if week else None),
        since,
        track.nights[release].release if release is not None else "",
        growth(before),
        track.nights[before].release if before is not None else "",
        growth(reports[-1] if reports else None),
        budget,
        left,
    )


def _most(values: Floats, group: list[Series], last: int, since: int | None) -> str:
    if since is None:
        return group[0].cell
    grown = np.nan_to_num(values[:, last] - values[:, since], nan=-np.inf)
    return group[int(np.argmax(grown))].cell
