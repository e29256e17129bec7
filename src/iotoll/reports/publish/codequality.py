"""Marks at the line of the patch: GitLab's Code Quality report, and SARIF for GitHub.

A regression is listed once per device and section, at the function that was measured to have most
of it. Where no function was measured, it stands where `iotoll.reports.page.blame` pins it to a
changed file, and says so; the note and the report list all of them. Fields as GitLab documents
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from iotoll import __version__
from iotoll.core.digest import json_sha256
from iotoll.patch.diff import Hunk
from iotoll.records.models import (
    FailureRecord,
    Finding,
    GrowthRecord,
    Outcome,
    Section,
    VerdictRecord,
)
from iotoll.records.text import cell_name
from iotoll.reports.page.blame import Place, blame, in_function
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import findings
from iotoll.reports.publish.checks import judged, one_line
from iotoll.verdict.limits import limit_line, rate_line

MAJOR = 0.05
"""A regression whose largest relative change reaches this is ``major``, else ``minor``."""

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "iotoll/regression": "An I/O takes a more expensive way through the storage stack.",
    "iotoll/limit": "A limit of a device, or its throughput, became lower.",
    "iotoll/broken": "The candidate does not apply, build, boot or run the workload.",
}
_FINGERPRINT = "iotoll/v1"

_AT = re.compile(r"(?P<path>[\w.,+/-]+\.[chS]):(?P<line>\d+)(?::\d+)?: (?:fatal )?error: ")


def codequality(evidence: Evidence) -> str:
    """Return the report as JSON text; an empty list when nothing is pinned to the patch."""
    return json.dumps(entries(evidence), indent=1, ensure_ascii=False) + "\n"


def entries(evidence: Evidence) -> list[dict[str, Any]]:
    """What is pinned to a line of the patch, as GitLab has it."""
    found, hunks = [], evidence.hunks
    verdict = evidence.verdict
    if evidence.failure and evidence.failure.outcome is Outcome.BROKEN:
        found = _broken(evidence.failure, hunks)
    elif verdict and judged(verdict):
        for one in findings(evidence):
            if one.kind == "regression" and one.size is not None and one.cells:
                found += _regression(one, hunks)
        found += _slower(verdict, hunks)
        found += _limits(verdict, hunks)
    return found


def _regression(one: Finding, hunks: Sequence[Hunk]) -> list[dict[str, Any]]:
    place = _place(one, hunks)
    if place is None:
        return []
    words = one_line(one.sentence).replace("\u00a0", " ")
    guess = "" if one.functions else f" Pinned here by a guess: {place.how}."
    where = (place.path, place.line)
    severity = _severity(one.share or 0.0)
    return [
        _entry("iotoll/regression", f"{words}.{guess}", severity, where, [one.device, one.part])
    ]


def _place(one: Finding, hunks: Sequence[Hunk]) -> Place | None:
    """Where the function is that has most of it; a guess only where none was measured.

    A function that the patch changes comes before others, whose lines no reviewer sees.
    """
    changed = {hunk.path for hunk in hunks}
    known = [f for f in one.functions if f.file and f.line]
    best = next((f for f in known if f.file in changed), known[0] if known else None)
    if best is not None and best.file and best.line:
        return Place(best.file, best.line, "", best.name)
    device = cell_name(one.cells[0]).device
    if one.functions:
        return in_function(hunks, [f.name for f in one.functions])
    section = next((s for s in Section if s.value == one.part), None)
    return blame(hunks, device, section) if section else None


def _slower(verdict: VerdictRecord, hunks: Sequence[Hunk]) -> list[dict[str, Any]]:
    """Cells whose overhead grew on the clock `time`, and none of its sections surely by itself.

    Once a device, at the code of the section that seems to have grown most.
    """
    worst: dict[str, tuple[GrowthRecord, GrowthRecord, str]] = {}
    for cell in verdict.cells:
        whole = [g for g in cell.growth if g.section is None and g.state == "grew"]
        parts = [g for g in cell.growth if g.section is not None]
        if not whole or not parts or any(g.state == "grew" for g in parts):
            continue
        device = cell_name(cell.cell).device
        if device not in worst or whole[0].growth > worst[device][0].growth:
            worst[device] = (whole[0], max(parts, key=lambda g: g.growth), cell.cell)
    found = []
    for device, (growth, most, name) in worst.items():
        if most.section and (place := blame(hunks, device, most.section)):
            words = (
                f"{growth.figure} of {one_line(name)} grew by {growth.growth:.1%} (at least "
                f"{growth.low:.1%}), most in {most.figure}. Pinned here by a guess: {place.how}."
            )
            found.append(
                _entry(
                    "iotoll/regression",
                    words,
                    _severity(growth.growth),
                    (place.path, place.line),
                    [device, growth.figure],
                )
            )
    return found


def _limits(verdict: VerdictRecord, hunks: Sequence[Hunk]) -> list[dict[str, Any]]:
    """Limits that differ and throughput that fell, once a device: where its requests are made."""
    said: dict[str, list[str]] = {}
    for one in verdict.limits:
        if one.gated and one.accepted is None:
            said.setdefault(one.name.partition(".")[0], []).append(limit_line(one))
    for rate in verdict.throughput:
        if rate.moved == "grew" and rate.accepted is None:
            said.setdefault(rate.cell.partition("-")[0], []).append(rate_line(rate))
    found = []
    for device, lines in said.items():
        if place := blame(hunks, device, Section.SUBMISSION):
            words = one_line(f"{'; '.join(lines)}. Pinned here by a guess: {place.how}.")
            where = (place.path, place.line)
            found.append(_entry("iotoll/limit", words, "major", where, [device]))
    return found


def _severity(growth: float) -> str:
    return "major" if growth >= MAJOR else "minor"


def _broken(failure: FailureRecord, hunks: Sequence[Hunk]) -> list[dict[str, Any]]:
    changed = {h.path for h in hunks}
    text = f"{failure.message}\n{failure.log_tail}"
    match = next((m for m in _AT.finditer(text) if m["path"] in changed), None)
    where = (match["path"], int(match["line"])) if match else None
    if where is None and len(changed) == 1:
        where = (hunks[0].path, hunks[0].line)
    if where is None:
        return []
    words = f"The candidate is broken ({failure.step}): {one_line(failure.message)}"
    return [_entry("iotoll/broken", words, "blocker", where, [failure.step])]


def _entry(
    check: str, description: str, severity: str, where: tuple[str, int], identity: list[str]
) -> dict[str, Any]:
    path, line = where
    return {
        "description": description,
        "check_name": check,
        # Without line and size: GitLab takes the same fingerprint for the same problem.
        "fingerprint": json_sha256([check, path, *identity]),
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }


def sarif(evidence: Evidence) -> str:
    """The same as SARIF 2.1.0, for GitHub's code scanning; fields as OASIS has them.

    A run that failed through a lab or a tool says so: then no result does not mean a pass.
    """
    failure = evidence.failure
    failed = failure is not None and failure.outcome is Outcome.INFRASTRUCTURE
    driver = {
        "name": "iotoll",
        "version": __version__,
        "rules": [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not failed}],
        "results": [_result(entry) for entry in entries(evidence)],
    }
    document = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _result(entry: dict[str, Any]) -> dict[str, Any]:
    place = entry["location"]
    return {
        "ruleId": entry["check_name"],
        "level": "error",  # each of them is why the gate did not pass
        "message": {"text": entry["description"]},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": place["path"]},
                    "region": {"startLine": place["lines"]["begin"]},
                }
            }
        ],
        "partialFingerprints": {_FINGERPRINT: entry["fingerprint"]},
    }
