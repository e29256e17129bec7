"""JUnit XML, as GitLab, Jenkins and Allure read it: one test case per cell and section."""

from __future__ import annotations

import re
from collections import Counter
from xml.etree import ElementTree

from iotoll.records.models import Outcome
from iotoll.records.text import clean
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.headline import summary
from iotoll.reports.publish.checks import Check, Status, checks

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TYPES = {Status.FAILURE: "regression", Status.ERROR: "infrastructure"}


def junit(evidence: Evidence) -> str:
    """Return the test report of a run as XML text; times are 0, as judging takes none."""
    found = checks(evidence)
    counted = Counter(check.status for check in found)
    counts = {
        "tests": str(len(found)),
        "failures": str(counted[Status.FAILURE]),
        "errors": str(counted[Status.ERROR]),
    }
    root = ElementTree.Element("testsuites", {"name": "iotoll", **counts})
    # Reports of several boards are shown together: a suite and its classes carry the board.
    board = xml_text(evidence.verdict.board if evidence.verdict else evidence.manifest.board)
    stamp = evidence.manifest.created[:19]
    suite = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": f"iotoll {board}",
            **counts,
            "skipped": str(counted[Status.SKIPPED]),
            "time": "0",
            "timestamp": stamp,
        },
    )
    properties = ElementTree.SubElement(suite, "properties")
    for label, value in summary(evidence):
        ElementTree.SubElement(
            properties, "property", {"name": xml_text(label), "value": xml_text(value)}
        )
    for check in found:
        _case(suite, check, evidence, board)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(suite: ElementTree.Element, check: Check, evidence: Evidence, board: str) -> None:
    # Dots would cut the class name into packages where a reader groups by them.
    parts = [xml_text(part).replace(".", "_") for part in (board, check.cell) if part]
    words = {"classname": ".".join(["iotoll", *parts]), "name": check.name, "time": "0"}
    case = ElementTree.SubElement(suite, "testcase", words)
    reason = xml_text(check.reason)
    if check.status is Status.SKIPPED:
        # As text: Jenkins' schema has no attribute for it, and GitLab shows the text.
        ElementTree.SubElement(case, "skipped").text = reason
        return
    if check.status is Status.PASSED:
        ElementTree.SubElement(case, "system-out").text = reason
        return
    kind = _TYPES[check.status]
    failure = evidence.failure if not check.cell else None
    if failure and failure.outcome is Outcome.BROKEN:
        kind = "broken"
    element = ElementTree.SubElement(case, check.status.value, {"message": reason, "type": kind})
    tail = xml_text(failure.log_tail) if failure else ""
    element.text = f"{reason}\n{tail}".rstrip()


def xml_text(text: str) -> str:
    """Text without what XML 1.0 cannot carry, not even escaped."""
    return _NOT_XML.sub("\ufffd", clean(text))
