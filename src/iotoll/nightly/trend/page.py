"""The trend as static files: ``index.html``, and one ``data/N.js`` per board and branch.

A page from a disk may load scripts but not fetch files, so the data are scripts.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from markupsafe import Markup

from iotoll.nightly.changes.detector import Floats
from iotoll.nightly.changes.drift import Drift, family
from iotoll.nightly.changes.find import Change
from iotoll.nightly.changes.series import Track
from iotoll.nightly.trend import view
from iotoll.records import results
from iotoll.records.text import clean
from iotoll.reports.kit.page import page_template

SHOWN = 40
"""Changes in the page's table; the others are in the feed and in --json."""
TONES = {
    "confirmed": "regression",
    "reappeared": "regression",
    "bisecting": "regression",
    "fixed": "pass",
    "accepted": "pass",
}
"""Colour of a growth's state, as page.css names it."""


def write_page(trend: view.Trend, out: Path) -> Path:
    """Write the page into ``out``; returns its path."""
    for number, track in enumerate(trend.tracks):
        own = [c for c in trend.changes if any(_is_of(c, track, e.board) for e in c.effects)]
        data = json.dumps(_data(track, own, out), separators=(",", ":"), allow_nan=False)
        results.write_text(out / f"data/{number}.js", f"trendData({number},{_safe(data)});\n")
    text = page_template("iotoll.nightly.trend", "trend.html.j2").render(**_context(trend, out))
    path = out / "index.html"
    results.write_text(path, text + "\n")
    return path


def _context(trend: view.Trend, out: Path) -> dict[str, Any]:
    latest = max((t.nights[-1].night for t in trend.tracks), default="")
    return {
        "summaries": view.summaries(trend),
        "open": trend.open_changes[:SHOWN],
        "suspects": trend.suspects[:SHOWN],
        "closed": [c for c in trend.changes if not c.is_open][:SHOWN],
        "omitted": max(0, sum(not c.is_open for c in trend.changes) - SHOWN),
        "view": view,
        "links": lambda change: _link(trend, change, out),
        "latest": latest,
        "families": sorted({d.family for d in trend.drifts}),
        "matrix": _matrix(trend.drifts),
        "budgets": [d for d in trend.drifts if d.eaten is not None],
        "gaps": [_gap(t, out) for t in trend.failed],
        "cost": trend.cost,
        "index": Markup(_safe(json.dumps(_index(trend)))),
        "tones": TONES,
    }


def _link(trend: view.Trend, change: Change, out: Path) -> str:
    """Where the culprit is shown, or the run that found the change; empty where neither is."""
    url = trend.links.get(change.branch, trend.links.get("", ""))
    if change.culprit and url:
        return url.replace("{commit}", change.culprit)
    return change.url if change.url.startswith(("https://", "http://")) else _kept(change.url, out)


def _matrix(drifts: list[Drift]) -> list[dict[str, Any]]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for drift in drifts:
        row = rows.setdefault(
            (drift.branch, drift.board),
            {
                "branch": drift.branch,
                "board": drift.board,
                "release": drift.release,
                "previous": drift.previous,
                "cells": {},
            },
        )
        delta = drift.since_release
        kind = "none"
        if delta is not None:
            worse = view.is_worse(drift, delta)
            kind = "grew" if worse else "shrank" if view.is_worse(drift, -delta) else "same"
        row["cells"][drift.family] = {
            "drift": drift,
            "kind": kind,
            "delta": delta,
            "cell": drift.cell,
        }
    return list(rows.values())


def _gap(track: Track, out: Path) -> dict[str, str]:
    night = track.nights[-1]
    words = {"branch": track.branch, "board": track.board, "commit": str(night.row["commit"])}
    words["subject"] = clean(str(night.row["subject"]))
    url = _kept(str(night.row["url"]), out)
    return {**words, "night": night.night, "reason": clean(night.reason), "url": url}


def _index(trend: view.Trend) -> list[dict[str, Any]]:
    return [
        {
            "branch": t.branch,
            "board": t.board,
            "clock": t.clock,
            "unit": t.unit,
            "commit": trend.links.get(t.branch, trend.links.get("", "")),
            "cells": sorted({s.cell for s in t.series}),
            "sections": sorted({s.section for s in t.series}, key=_order),
        }
        for t in trend.tracks
    ]


def _order(section: str) -> int:
    order = ("overhead", "vfs_fs", "submission", "completion", "return", "hardware", "total")
    return order.index(section) if section in order else len(order)


def _data(track: Track, changes: list[Change], out: Path) -> dict[str, Any]:
    names = ("night", "status", "reason", "commit", "subject", "version", "release", "url")
    nights = {n: [clean(str(night.row[n])) for night in track.nights] for n in names}
    nights["url"] = [_kept(url, out) for url in nights["url"]]
    pinned = [s for s in track.series if not np.isnan(s.reference).all()]
    return {
        "nights": nights,
        "series": {series.key: _numbers(series.values) for series in track.series},
        "reference": {series.key: _numbers(series.reference) for series in pinned},
        "changes": [_mark(change, track) for change in changes],
    }


def _kept(url: str, out: Path) -> str:
    """A night's link; empty where the report was beside the page and is not kept any more."""
    return url if "://" in url or (out / unquote(url)).is_file() else ""


def _numbers(values: Floats) -> list[float | int | None]:
    return [
        None if math.isnan(v) else int(v) if v.is_integer() else round(v, 2)
        for v in values.tolist()
    ]


def _is_of(change: Change, track: Track, board: str) -> bool:
    return change.branch == track.branch and board == track.board


def _mark(change: Change, track: Track) -> dict[str, Any]:
    own = [e for e in change.effects if e.board == track.board]
    return {
        "id": change.id,
        "night": change.night,
        "state": change.state,
        "open": change.is_open,
        "cause": view.cause(change),
        "words": clean(change.words),
        "bisect": view.bisect_command(change),
        "effects": {f"{e.cell}/{e.section}": round(e.delta, 2) for e in own},
        "families": sorted({family(e.cell) for e in own}),
    }


def _safe(data: str) -> str:
    """JSON that can stand inside of a script element."""
    return data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
