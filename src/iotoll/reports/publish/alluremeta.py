"""What Allure is told of a test: where it belongs, what it ran on, links and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import allure
from allure_commons.types import AttachmentType

from iotoll.records.text import clean, clock_note, section_title
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.headline import candidate_title
from iotoll.reports.publish.checks import Check, moved_by
from iotoll.reports.publish.links import Link

if TYPE_CHECKING:
    from iotoll.reports.publish.judged import JudgedCell

_TEST: Any = allure.dynamic  # typed in part only


def describe(
    evidence: Evidence, check: Check | None, cell: JudgedCell | None, links: Sequence[Link]
) -> None:
    """Add metadata to the test that is running under allure-pytest."""
    board = clean(evidence.manifest.board)
    _TEST.label("board", board)
    _TEST.parameter("board", board)
    for name, value in _changing(evidence).items():
        # What differs from run to run must not make it another test: history would end there.
        _TEST.parameter(name, value, excluded=True)
    for link in links:
        _TEST.link(link.url, name=link.label)
    if check is not None:
        _TEST.title(clean(f"{check.cell}: {check.name}") if check.cell else "verdict")
        _TEST.description(_words(evidence, check))
    if check is not None and check.section:
        _TEST.label("section", check.part)
        _TEST.story(section_title(check.section))
    if cell is not None:
        _TEST.parent_suite(clean(cell.view.name.device_label))
        _TEST.suite(clean(cell.name))
        for title, svg in cell.pictures.items():
            allure.attach(svg, title, AttachmentType.SVG)
    else:
        _TEST.parent_suite("The run")
        _TEST.suite("Verdict")
        _attach_log(evidence)


def _changing(evidence: Evidence) -> dict[str, str]:
    source = evidence.sources.get("candidate") or evidence.sources.get("base")
    found = {"patch": candidate_title(evidence)}
    if source:
        found["kernel"] = f"Linux {clean(source.version)}"
        found["commit"] = clean(source.commit or source.tree_sha256)
    return found


def _words(evidence: Evidence, check: Check) -> str:
    """Plain text; Allure shows a description as markdown, so nothing of a run's own goes in."""
    lines = [clock_note(evidence.clock, evidence.virtual, evidence.native)]
    if check.comparison:
        unit = evidence.clock.unit.value
        lines.insert(0, f"Candidate minus base: {moved_by(check.comparison)} {unit}.")
    return "\n\n".join(lines)


def _attach_log(evidence: Evidence) -> None:
    if evidence.failure and evidence.failure.log_tail:
        text = clean(evidence.failure.log_tail)
        allure.attach(text, "Last lines of the log", AttachmentType.TEXT)
