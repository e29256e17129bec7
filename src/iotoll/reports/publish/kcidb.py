"""KCIDB submission (schema 5.3): checkouts, builds, and one test per number and per judgement.

A number is a test of its own with status DONE, in base units; what the gate concludes of a section
is another, without a number: FAIL, PASS, SKIP, or MISS where the lab failed. Both kernels are in.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any

from kcidb_io.schema import V5_3

from iotoll.core.digest import json_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.records.models import FailureRecord, Outcome, SideResult
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES
from iotoll.records.text import clean, clock_note
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.publish.checks import Check, Status, checks
from iotoll.reports.publish.samples import Figure, all_figures

_STATUS = {
    Status.PASSED: "PASS",
    Status.FAILURE: "FAIL",
    Status.ERROR: "MISS",
    Status.SKIPPED: "SKIP",
}
_ORIGIN = re.compile(r"[a-z0-9_]+")
_EXCERPT = 16384  # characters, by the schema
_UNITS = {"instructions": "instructions", "seconds": "s"}


def kcidb(evidence: Evidence, patches: Sequence[str], origin: str) -> str:
    """Return the submission as JSON text, checked with kcidb-io.

    ``patches`` are the SHA-256 of the candidate's patch files in order; ``origin`` is the name that
    KCIDB gave the CI system. Raises UsageError for an impossible origin.
    """
    if not _ORIGIN.fullmatch(origin):
        raise UsageError(f"--origin {origin}: KCIDB allows a-z, 0-9 and _ only")
    report = _Report(evidence, patches, origin)
    data = {
        "version": {"major": V5_3.major, "minor": V5_3.minor},
        "checkouts": report.checkouts(),
        "builds": report.builds(),
        "tests": report.tests(),
    }
    if not V5_3.is_valid(data):
        raise InfrastructureError("what was made for KCIDB is not of its schema 5.3: report this")
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


class _Report:
    """The objects of one run; an id is made of what the object is, so it never changes."""

    def __init__(self, evidence: Evidence, patches: Sequence[str], origin: str) -> None:
        self.evidence = evidence
        self.patches = list(patches)
        self.origin = origin
        # Two runs of the same kernels are two test runs.
        self.run = evidence.manifest.model_dump(mode="json")
        known = [s for s in SIDES if s in evidence.sources or s in evidence.builds]
        self.sides: list[Side] = known or ["base"]

    def _id(self, *identity: Any) -> str:
        return f"{self.origin}:{json_sha256(identity)[:40]}"

    def _checkout_id(self, side: Side) -> str:
        source, build = self.evidence.sources.get(side), self.evidence.builds.get(side)
        if source:
            patch = self.patches or source.patch_sha256
            return self._id("checkout", source.git_tree, source.tree_sha256, source.commit, patch)
        return self._id("checkout", build.sha256 if build else side)

    def _build_id(self, side: Side) -> str:
        build = self.evidence.builds.get(side)
        made = (build.sha256, build.config_sha256) if build else None
        return self._id("build", self._checkout_id(side), side, made)

    def _failed(self, side: Side, *steps: str) -> FailureRecord | None:
        """What broke the candidate at one of these steps; nothing breaks the base."""
        failure = self.evidence.failure
        if failure is None or failure.outcome is not Outcome.BROKEN or side == "base":
            return None
        return failure if failure.step in steps else None

    def checkouts(self) -> list[dict[str, Any]]:
        """The source of each side."""
        found = []
        for side in self.sides:
            source = self.evidence.sources.get(side)
            failure = self._failed(side, "apply")
            checkout: dict[str, Any] = {
                "id": self._checkout_id(side),
                "origin": self.origin,
                "valid": failure is None,
                "start_time": self._started(),
            }
            if failure:
                checkout["log_excerpt"] = _excerpt(failure)
            if source:
                checkout["git_commit_name"] = _plain(f"Linux {source.version}")
                checkout["patchset_hash"] = self._patchset(side)
                if source.commit and re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", source.commit):
                    checkout["git_commit_hash"] = source.commit
                if source.patch_subjects:
                    checkout["comment"] = _plain(source.patch_subjects[0])
            found.append(checkout)
        return found

    def _patchset(self, side: Side) -> str:
        """KCIDB's own digest of a patch set: over the digests' lines."""
        if side == "base" or not self.patches:
            return ""
        return hashlib.sha256("".join(f"{p}\n" for p in self.patches).encode()).hexdigest()

    def builds(self) -> list[dict[str, Any]]:
        """The kernel of each side, also one that did not build."""
        found = []
        for side in self.sides:
            record = self.evidence.builds.get(side)
            failure = self._failed(side, "build", "config")
            if record is None and failure is None and not self._needs_build(side):
                continue
            build: dict[str, Any] = {
                "id": self._build_id(side),
                "checkout_id": self._checkout_id(side),
                "origin": self.origin,
                "status": "FAIL" if failure else "PASS" if record else "MISS",
            }
            if failure:
                build["log_excerpt"] = _excerpt(failure)
            if record:
                build |= {
                    "architecture": record.arch,
                    "compiler": _plain(record.toolchain),
                    "duration": record.seconds,
                    "config_name": _plain(" ".join(record.fragments)),
                    "misc": {
                        "image_sha256": record.image_sha256,
                        "config_sha256": record.config_sha256,
                    },
                }
            found.append(build)
        return found

    def _needs_build(self, side: Side) -> bool:
        """Whether a test must refer to it: the run's own verdict does, to the candidate's."""
        return side == self._judged_side()

    def _judged_side(self) -> Side:
        return "candidate" if "candidate" in self.sides else "base"

    def tests(self) -> list[dict[str, Any]]:
        """Every number as DONE, then every judgement."""
        unit = _UNITS["instructions" if self.evidence.clock.value == "instructions" else "seconds"]
        found = [self._number(figure, unit) for figure in all_figures(self.evidence)]
        if self.evidence.manifest.kind == "gate":
            found += [self._judgement(check) for check in checks(self.evidence)]
        return found

    def _number(self, figure: Figure, unit: str) -> dict[str, Any]:
        path = _path("iotoll", figure.cell, figure.section.value, figure.statistic)
        test = self._test(figure.side, path)
        number = {"value": figure.value, "unit": unit, "prefix": "metric"}
        return {**test, "status": "DONE", "number": number}

    def _judgement(self, check: Check) -> dict[str, Any]:
        path = _path("iotoll", *(part for part in (check.cell, check.part) if part), "gate")
        test = self._test(self._judged_side(), path)
        test |= {"status": _STATUS[check.status], "comment": _plain(check.reason)}
        failure = self.evidence.failure
        if failure and not check.cell and failure.log_tail:
            test["log_excerpt"] = _excerpt(failure)
        return test

    def _test(self, side: Side, path: str) -> dict[str, Any]:
        return {
            "id": self._id("test", self.run, side, path),
            "build_id": self._build_id(side),
            "origin": self.origin,
            "path": path,
            "start_time": self._started(),
            "environment": self._environment(self.evidence.sides.get(side)),
        }

    def _environment(self, result: SideResult | None) -> dict[str, Any]:
        """The board; of a virtual one with the words that keep it from reading as a real one."""
        manifest = self.evidence.manifest
        evidence = self.evidence
        note = clock_note(evidence.clock, evidence.virtual, evidence.native)
        tools = result.boots[0].tools if result and result.boots else {}
        misc = {
            "board": _plain(manifest.board),
            "clock": manifest.clock.value,
            "virtual": self.evidence.virtual,
            "boots": len(result.boots) if result else 0,
            "tools": {_plain(k): _plain(v) for k, v in sorted(tools.items())},
        }
        return {"comment": _plain(f"{manifest.board}: {note}"), "misc": misc}

    def _started(self) -> str:
        return self.evidence.manifest.created.replace("Z", "+00:00")


def _path(*parts: str) -> str:
    """A path of words that KCIDB allows; a name that had to change keeps apart from others."""
    words = []
    for part in parts:
        word = re.sub(r"[^a-zA-Z0-9_-]", "_", part)
        words.append(word if word == part else f"{word}_{json_sha256(part)[:8]}")
    return ".".join(words)


def _plain(text: str) -> str:
    return clean(text).encode("utf-8", "replace").decode()


def _excerpt(failure: FailureRecord) -> str:
    return _plain(f"{failure.message}\n{failure.log_tail}")[:_EXCERPT]
