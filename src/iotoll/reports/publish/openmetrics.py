"""OpenMetrics 1.0 text: figures, changes and thresholds, for GitLab's metrics report and others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iotoll.records.models import Outcome
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.text import clean
from iotoll.reports.publish.checks import judged
from iotoll.reports.publish.figures import all_figures, base_unit, in_base_unit

Sample = tuple[Mapping[str, str], float]


def openmetrics(evidence: Evidence) -> str:
    """Return the metrics of a run; two runs of the same thing have the same series."""
    unit = evidence.clock.unit
    base = base_unit(unit)
    verdict = evidence.verdict
    lines = []
    figures = [
        (
            {
                "cell": f.cell,
                "section": f.section.value,
                "side": f.side,
                "statistic": f.statistic,
            },
            f.value,
        )
        for f in all_figures(evidence)
    ]
    lines += _gauge(f"iotoll_section_{base}", base, "Latency section of one I/O.", figures)
    for name, words in (
        ("change", "Candidate minus base, as judged."),
        ("threshold", "A larger change is a regression."),
    ):
        samples: list[Sample] = [
            (
                {
                    "cell": cell.cell,
                    "section": found.section.value,
                    "gated": str(found.gated).lower(),
                },
                in_base_unit(found.delta if name == "change" else found.threshold, unit),
            )
            for cell in (verdict.cells if verdict else [])
            for found in cell.sections
        ]
        lines += _gauge(f"iotoll_{name}_{base}", base, words, samples)
    if verdict is not None and judged(verdict):
        lines += ["# TYPE iotoll_verdict stateset", "# HELP iotoll_verdict Outcome of the run."]
        for outcome in Outcome:
            labels = _labels({"iotoll_verdict": outcome.value})
            lines.append(f"iotoll_verdict{labels} {int(outcome is verdict.outcome)}")
    return "\n".join([*lines, "# EOF"]) + "\n"


def _gauge(name: str, unit: str, words: str, samples: Iterable[Sample]) -> list[str]:
    rows = [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
    head = [f"# TYPE {name} gauge", f"# UNIT {name} {unit}", f"# HELP {name} {words}"]
    return [*head, *rows] if rows else []


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _labels(labels: Mapping[str, str]) -> str:
    quoted = (f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return "{" + ",".join(quoted) + "}"


def _escaped(value: str) -> str:
    text = clean(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return text.encode("utf-8", "replace").decode()
