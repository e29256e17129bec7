"""OpenMetrics 1.0 text: values, changes and thresholds, for GitLab's metrics report and others."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric, StateSetMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from iotoll.records.models import Outcome
from iotoll.records.text import clean
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.publish.checks import judged
from iotoll.reports.publish.samples import all_figures, base_unit, in_base_unit
from iotoll.verdict.words import parts


def openmetrics(evidence: Evidence) -> str:
    """Return the metrics of a run; two runs of the same thing on one board have the same series."""
    registry = CollectorRegistry()
    registry.register(_Collected(evidence))
    # The library types its registry, but not this function.
    written: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return written.decode()


class _Collected(Collector):
    """The families of one run; each series names the board, so that boards share no series."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.board = evidence.manifest.board

    def collect(self) -> Iterator[Metric]:
        """Only families that have a sample."""
        verdict = self.evidence.verdict
        yield from (family for family in self._gauges() if family.samples)
        if verdict is not None and judged(verdict):
            states = StateSetMetricFamily(
                "iotoll_verdict", "Outcome of the run.", labels=("board",)
            )
            values = {outcome.value: outcome is verdict.outcome for outcome in Outcome}
            states.add_metric([_label(self.board)], values)
            yield states

    def _gauges(self) -> Iterator[Metric]:
        unit, verdict = self.evidence.clock.unit, self.evidence.verdict
        base = base_unit(unit)

        def gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, text, labels=("board", *labels), unit=base)

        place = ("cell", "section")
        words = "Latency section of one I/O."
        values = gauge("iotoll_section", words, *place, "side", "statistic")
        for f in all_figures(self.evidence):
            self._add(values, f.value, f.cell, f.section.value, f.side, f.statistic)
        words = "Candidate minus base, as judged."
        change = gauge("iotoll_change", words, *place, "gated")
        words = "A larger change is a regression."
        threshold = gauge("iotoll_threshold", words, *place, "gated")
        for cell in verdict.cells if verdict else []:
            for name, found in parts(cell):
                where = (cell.cell, name, str(found.gated).lower())
                self._add(change, in_base_unit(found.delta, unit), *where)
                self._add(threshold, in_base_unit(found.threshold, unit), *where)
        yield from (values, change, threshold)

    def _add(self, family: GaugeMetricFamily, value: float, *labels: str) -> None:
        family.add_metric([_label(text) for text in (self.board, *labels)], value)


def _label(value: str) -> str:
    return clean(value).encode("utf-8", "replace").decode()
