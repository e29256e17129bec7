"""What a run directory is published as: files for GitLab, dashboards, KCIDB and people.

Every format but Allure's is a pure function of the run directory and of the links that are given:
the same run gives the same bytes. `iotoll.reports.publish.checks` decides the outcomes for all of
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.records import results
from iotoll.records.rundir import RunDir
from iotoll.reports.page.evidence import Evidence, gather
from iotoll.reports.page.html import page_html
from iotoll.reports.publish import codequality, junit, kcidb, links, note, openmetrics
from iotoll.reports.publish.links import Link


@dataclass(frozen=True)
class Source:
    """A run and what else goes into its files: links, and KCIDB's name for this CI system."""

    run: RunDir
    links: Sequence[Link] = ()
    origin: str = "iotoll"
    history: Path | None = field(default=None)

    @cached_property
    def evidence(self) -> Evidence:
        """The run's result files."""
        return gather(self.run)

    @property
    def patches(self) -> list[str]:
        """SHA-256 of the candidate's patch files, in order."""
        folder = self.run.side("candidate") / "patches"
        return [file_sha256(path) for path in sorted(folder.glob("*.patch"))]


@dataclass(frozen=True)
class Format:
    """One published file: its name, what it is for, and the text of it."""

    file: str
    purpose: str
    text: Callable[[Source], str]


FORMATS: dict[str, Format] = {
    "report": Format("report.html", "the whole report", lambda s: page_html(s.evidence)),
    "note": Format("note.md", "merge-request note", lambda s: note.note(s.evidence, s.links)),
    "junit": Format("junit.xml", "test report", lambda s: junit.junit(s.evidence)),
    "codequality": Format(
        "codequality.json",
        "GitLab: lines of the patch",
        lambda s: codequality.codequality(s.evidence),
    ),
    "sarif": Format(
        "sarif.json", "GitHub: lines of the patch", lambda s: codequality.sarif(s.evidence)
    ),
    "annotations": Format(
        "annotations.json",
        "GitLab: links of the job",
        lambda s: links.job_annotations(s.evidence, s.links),
    ),
    "openmetrics": Format(
        "metrics.txt", "values as OpenMetrics", lambda s: openmetrics.openmetrics(s.evidence)
    ),
    "kcidb": Format(
        "kcidb.json",
        "submission to KCIDB",
        lambda s: kcidb.kcidb(s.evidence, s.patches, s.origin),
    ),
}
"""The formats that are one text each; `iotoll.reports.publish.allure` makes Allure's report."""


def write(source: Source, out: Path, names: Sequence[str]) -> list[Path]:
    """Write the named formats of a run into the folder ``out``; return the files' paths."""
    made = []
    for name in names:
        path = out / FORMATS[name].file
        results.write_text(path, FORMATS[name].text(source))
        made.append(path)
    return made
