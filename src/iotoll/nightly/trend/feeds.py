"""What other tools read of the trend: an Atom feed, OpenMetrics, a dashboard for Grafana."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from iotoll.nightly.changes.find import Change
from iotoll.nightly.trend import view
from iotoll.records.text import clean

ENTRIES = 100
_ATOM = "http://www.w3.org/2005/Atom"


def atom(trend: view.Trend, link: str = "index.html") -> str:
    """The feed of all changes that are sure enough to tell, newest first."""
    ElementTree.register_namespace("", _ATOM)
    feed = ElementTree.Element(f"{{{_ATOM}}}feed")
    told = [change for change in trend.changes if change.is_told][:ENTRIES]
    latest = max((t.nights[-1].night for t in trend.tracks), default="1970-01-01")
    _add(feed, "title", "iotoll: storage overhead, changes")
    _add(feed, "id", "urn:iotoll:trend")
    _add(feed, "updated", f"{latest}T00:00:00Z")
    _add(_add(feed, "author"), "name", "iotoll")
    for change in told:
        entry = _add(feed, "entry")
        _add(entry, "title", f"[{change.state}] {view.change_sentence(change)}")
        _add(entry, "id", f"urn:iotoll:change:{change.id}")
        _add(entry, "updated", _updated(change))
        _add(entry, "link").set("href", f"{link}#change-{change.id}")
        _add(entry, "content", "\n".join(view.effect_text(e) for e in change.effects[:50]))
    ElementTree.indent(feed)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(feed, "unicode") + "\n"


def _add(parent: ElementTree.Element, name: str, text: str = "") -> ElementTree.Element:
    child = ElementTree.SubElement(parent, f"{{{_ATOM}}}{name}")
    child.text = clean(text) or None
    return child


def _updated(change: Change) -> str:
    if change.notes:
        return change.notes[-1].at
    return f"{change.fixed or change.night}T00:00:00Z"


def metrics(trend: view.Trend) -> str:
    """OpenMetrics 1.0: overhead and drift per family, changes counted with the last as exemplar."""
    registry = CollectorRegistry()
    registry.register(_Metrics(trend))
    # The library types its registry, but not this function.
    written: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return written.decode()


class _Metrics(Collector):
    """The families of a trend; only those that have a sample."""

    def __init__(self, trend: view.Trend) -> None:
        self.trend = trend

    def collect(self) -> Iterator[Metric]:
        """Overhead and drift by family, then changes by branch."""
        for unit, base, scale in (("instructions", "instructions", 1.0), ("ns", "seconds", 1e-9)):
            labels = ("branch", "board", "family")
            now = GaugeMetricFamily(
                "iotoll_nightly_overhead", "Mean overhead of one I/O.", labels=labels, unit=base
            )
            words = "Growth of it since the last release."
            since = GaugeMetricFamily("iotoll_nightly_drift", words, labels=labels, unit=base)
            for drift in (d for d in self.trend.drifts if d.unit == unit):
                where = [_label(text) for text in (drift.branch, drift.board, drift.family)]
                now.add_metric(where, drift.now * scale)
                if drift.since_release is not None:
                    since.add_metric(where, drift.since_release * scale)
            yield from (family for family in (now, since) if family.samples)
        yield from self._changes()

    def _changes(self) -> Iterator[Metric]:
        found = CounterMetricFamily("iotoll_nightly_changes", "Growths found.", labels=("branch",))
        left = GaugeMetricFamily(
            "iotoll_nightly_open_changes", "Growths that are still there.", labels=("branch",)
        )
        for branch in sorted({track.branch for track in self.trend.tracks}):
            grown = [c for c in self.trend.changes if c.branch == branch and c.grew and c.is_told]
            last = Exemplar({"change": grown[0].id}, 1.0) if grown else None
            found.add_metric([_label(branch)], len(grown), exemplar=last)
            opened = sum(change.branch == branch for change in self.trend.open_changes)
            left.add_metric([_label(branch)], opened)
        yield from (family for family in (found, left) if family.samples)


def _label(value: str) -> str:
    return clean(value).encode("utf-8", "replace").decode()


_SOURCE = {"type": "prometheus", "uid": "${source}"}
_QUERIES = (
    ("Overhead", "iotoll_nightly_overhead_instructions", "{{branch}} {{board}} {{family}}"),
    ("Drift since release", "iotoll_nightly_drift_instructions", "{{branch}} {{family}}"),
    ("Overhead, time", "iotoll_nightly_overhead_seconds", "{{branch}} {{board}} {{family}}"),
    ("Open changes", "iotoll_nightly_open_changes", "{{branch}}"),
)


def grafana() -> str:
    """A dashboard over the metrics, for any Prometheus data source."""
    branch = {
        "name": "branch",
        "type": "query",
        "datasource": _SOURCE,
        "query": "label_values(iotoll_nightly_open_changes, branch)",
        "includeAll": True,
        "multi": True,
        "refresh": 2,
    }
    variables = [{"name": "source", "type": "datasource", "query": "prometheus"}, branch]
    return (
        json.dumps(
            {
                "title": "iotoll nightly",
                "uid": "iotoll-nightly",
                "schemaVersion": 39,
                "tags": ["iotoll"],
                "time": {"from": "now-90d", "to": "now"},
                "templating": {"list": variables},
                "panels": [_panel(n, *query) for n, query in enumerate(_QUERIES)],
            },
            indent=1,
        )
        + "\n"
    )


def _panel(number: int, title: str, name: str, legend: str) -> dict[str, Any]:
    """The panel of one metric; two stand beside each other."""
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "gridPos": {"h": 9, "w": 12, "x": 12 * (number % 2), "y": 9 * (number // 2)},
        "fieldConfig": {
            "defaults": {"unit": "s" if name.endswith("seconds") else "short"},
            "overrides": [],
        },
        "targets": [
            {
                "refId": "A",
                "datasource": _SOURCE,
                "expr": f'{name}{{branch=~"$branch"}}',
                "exemplar": True,
                "legendFormat": legend,
            }
        ],
    }
