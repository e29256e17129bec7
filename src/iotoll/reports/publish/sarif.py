"""SARIF 2.1.0, for GitHub's code scanning: the marks of the Code Quality report.

Fields as OASIS has them, and those that GitHub documents as needed ("SARIF support for code
scanning"). A run that failed through a lab or a tool says so: then no result is not a pass.
"""

from __future__ import annotations

import json
from typing import Any

from iotoll import __version__
from iotoll.records.models import Outcome
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.publish.codequality import entries

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "iotoll/regression": "An I/O takes a more expensive way through the storage stack.",
    "iotoll/limit": "A limit of a device, or its throughput, became lower.",
    "iotoll/broken": "The candidate does not apply, build, boot or run the workload.",
}
_FINGERPRINT = "iotoll/v1"


def sarif(evidence: Evidence) -> str:
    """Return the report as JSON text; without results when nothing is pinned to the patch."""
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
