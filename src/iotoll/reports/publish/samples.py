"""The numbers of a run as one flat list, for formats that carry numbers and no judgement."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iotoll.records.models import Section, Unit
from iotoll.records.models.run import Side
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.view import SectionFigures, cells


@dataclass(frozen=True)
class Figure:
    """One number: ``value`` is in base units, instructions or seconds (never ns).

    ``statistic`` is ``median`` (as recorded), ``corrected`` (median less what the probe costs) or
    ``p99``; each is the median over the boots of a side.
    """

    cell: str
    section: Section
    side: Side
    statistic: str
    value: float


def base_unit(unit: Unit) -> str:
    """The base unit that figures are published in: ``instructions`` or ``seconds``."""
    return "instructions" if unit is Unit.INSTRUCTIONS else "seconds"


def in_base_unit(value: float, unit: Unit) -> float:
    """A duration of the run's clock in its base unit."""
    return value if unit is Unit.INSTRUCTIONS else round(value * 1e-9, 15)


def all_figures(evidence: Evidence) -> Iterator[Figure]:
    """Every figure of every usable cell, in reading order; unusable cells have none."""
    unit = evidence.clock.unit
    for view in cells(evidence):
        for row in view.rows:
            for side, figures in row.sides.items():
                for statistic, value in _statistics(figures):
                    amount = in_base_unit(value, unit)
                    yield Figure(view.name.full, row.section, side, statistic, amount)


def _statistics(figures: SectionFigures) -> Iterator[tuple[str, float]]:
    named = (("median", figures.raw), ("corrected", figures.corrected), ("p99", figures.p99))
    for name, value in named:
        if value is not None:
            yield name, float(value)
