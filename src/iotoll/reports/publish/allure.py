"""Allure 3's report of a run: one file, with history and trends, without its analytics.

The gate suite (tests/gate) judges the run under allure-pytest; what that writes, with the figures
as metrics, becomes one HTML page. Both programs run without this process's environment: no token
of a CI job is in their reach.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import iotoll
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.extras import install_command
from iotoll.core.paths import data_dir, node_tool
from iotoll.core.proc import run_logged
from iotoll.kernels.tree import clean_env
from iotoll.records import results
from iotoll.records.models import Unit
from iotoll.records.models.run import Side
from iotoll.records.text import cell_name, clean
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.headline import headline
from iotoll.reports.publish import Source
from iotoll.reports.publish.markdown import unlinked
from iotoll.reports.publish.samples import Figure, all_figures

PAGE = "allure.html"
HISTORY = "allure-history.jsonl"
"""Default history, in the folder of the report: one line per report."""

WORK = ".allure"
FILES = (PAGE, HISTORY, WORK)
"""What is written into the folder of the report."""

HISTORY_LIMIT = 60
_LIMIT = 600.0  # seconds for each program; a run of 48 cells takes about 20 on two cores
_PYTEST_GOOD = (0, 1)  # all passed, or tests failed: what a regression does
_ANALYTICS = re.compile(
    r"<script[^>]*\bsrc=\"https?://www\.googletagmanager\.com/[^>]*>\s*</script>\s*"
    r"<script>(?:(?!</script>).)*\bgtag\((?:(?!</script>).)*</script>",
    re.S,
)
_MACHINE = ("host", "thread", "framework", "language", "package")


def require_programs() -> list[str]:
    """Return Allure's command; raises UsageError when it or allure-pytest is not installed."""
    if importlib.util.find_spec("allure_pytest") is None:
        raise UsageError(f"allure-pytest is missing: {install_command('allure')}")
    return node_tool("allure")


def missing() -> str | None:
    """Which of Allure's programs is not installed, and what installs it; None when all are."""
    try:
        require_programs()
    except UsageError as error:
        return str(error)
    return None


def allure_report(source: Source, out: Path) -> Path:
    """Write ``allure.html`` into ``out``; returns its path.

    Raises UsageError when a program is not installed, InfrastructureError when one fails.
    """
    tool = require_programs()
    work = out / WORK
    shutil.rmtree(work, ignore_errors=True)
    (work / "results").mkdir(parents=True)
    history = (source.history or out / HISTORY).resolve()
    history.parent.mkdir(parents=True, exist_ok=True)
    try:
        _judge(source, work)
        _tidy(work / "results")
        metrics, meaning = _metrics(source.evidence)
        _write_json(work / "results/iotoll-perf.json", metrics)
        # Allure takes relative paths from where it was started, whatever its --cwd says.
        paths = {"output": str(work.resolve() / "report"), "historyPath": str(history)}
        config = {**paths, **_config(source.evidence, meaning)}
        _write_json(work / "allurerc.json", config)
        words = ["generate", "--config", "allurerc.json", "--cwd", str(work), "results"]
        search = f"{Path(tool[0]).parent}:{os.defpath}"
        _run([*tool, *words], work, {"PATH": search, "HOME": str(work)})
        _count_once(history, _identity(source))
        page = work / "report/index.html"
        results.write_text(out / PAGE, without_analytics(page.read_text()))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return out / PAGE


def _identity(source: Source) -> str:
    """A run by its manifest and verdict, in the form that Allure gives its reports' names."""
    run = source.run
    parts = [path.read_bytes() for path in (run.root / "run.json", run.verdict) if path.is_file()]
    return str(uuid.UUID(bytes=hashlib.sha256(b"\n".join(parts)).digest()[:16], version=4))


def _count_once(history: Path, identity: str) -> None:
    """Name the last line of a history after its run; an older line of the same run goes."""
    try:
        *before, last = [json.loads(line) for line in history.read_text().splitlines()]
    except ValueError as error:
        raise UsageError(f"{history}: is not a history of Allure's ({error}): remove it") from error
    kept = [entry for entry in before if entry.get("uuid") != identity]
    lines = [json.dumps(entry) + "\n" for entry in (*kept, {**last, "uuid": identity})]
    results.write_text(history, "".join(lines))


def without_analytics(page: str) -> str:
    """Take Allure's analytics out of its page; raises InfrastructureError when it looks new."""
    text, count = _ANALYTICS.subn("", page)
    if count != 1 or "googletagmanager" in text:
        raise InfrastructureError("Allure's page has other analytics than 3.18's: see its version")
    return text


def _judge(source: Source, work: Path) -> None:
    suite = data_dir("tests/gate").resolve()
    links = [
        word for link in source.links for word in ("--iotoll-link", f"{link.label}={link.url}")
    ]
    command = [
        *(sys.executable, "-m", "pytest", str(suite), "--rootdir", str(suite), "-c", os.devnull),
        *("--import-mode", "importlib", "-q", "-p", "no:cacheprovider"),
        *("-p", "allure_pytest.plugin", "-p", "iotoll.pytest_plugin"),
        *("--iotoll-run", str(source.run.root), "--alluredir", str(work / "results")),
        *links,
    ]
    package = str(Path(iotoll.__file__).parents[1])
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    _run(command, work, {"PYTHONPATH": package, **alone}, _PYTEST_GOOD)


def _run(command: list[str], work: Path, env: dict[str, str], good: tuple[int, ...] = (0,)) -> None:
    run_logged(command, work / "log", _LIMIT, {**clean_env(), **env}, only_env=True, good=good)


def _tidy(folder: Path) -> None:
    """Take out of allure-pytest's results what tells of this machine and not of the run."""
    for path in folder.glob("*-result.json"):
        data = json.loads(path.read_text())
        data["labels"] = [x for x in data.get("labels", []) if x["name"] not in _MACHINE]
        details = data.get("statusDetails", {})
        details.pop("trace", None)
        if "message" in details:
            # Allure makes a link of every address in a message.
            details["message"] = unlinked(re.sub(r"^[\w.]+: ", "", details["message"]))
        for parameter in data.get("parameters", []):
            value = parameter["value"].removeprefix("'").removesuffix("'")
            parameter["value"] = unlinked(value)
        _write_json(path, data)
    # Fixtures' own timings; each names paths of this machine when it fails.
    for path in folder.glob("*-container.json"):
        path.unlink()


def _metrics(evidence: Evidence) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Allure's samples, and what their keys mean: the judged side's median of each section."""
    # Six columns of the page carry the unit: the group's title has room for the whole word.
    nanoseconds = evidence.clock.unit is Unit.NANOSECONDS
    unit, scale, word = ("ns", 1e9, "ns") if nanoseconds else ("instr.", 1.0, "instructions")
    samples, meaning = [], {}
    for figure in _judged(evidence):
        key = f"{clean(figure.cell)}/{figure.section.value}"
        value = round(figure.value * scale, 1)
        samples.append({"id": key, "key": key, "value": value, "start": 0, "stop": 0})
        device = clean(cell_name(figure.cell).device_label)
        meaning[key] = {
            "title": key.replace("/", ": "),
            "unit": unit,
            "better": "lower",
            "group": f"{device}: median of each section of an I/O, in {word}",
        }
    return samples, meaning


def _judged(evidence: Evidence) -> Iterator[Figure]:
    side: Side = "candidate" if "candidate" in evidence.sides else "base"
    for figure in all_figures(evidence):
        if figure.side == side and figure.statistic == "median":
            yield figure


def _config(evidence: Evidence, meaning: dict[str, Any]) -> dict[str, Any]:
    head = headline(evidence)
    name = clean(f"{head.glyph} {head.word}: iotoll on {evidence.manifest.board}")
    groups = {m["group"]: {"title": m["group"]} for m in meaning.values()}
    return {
        # The verdict first: the page's own success rate counts sections, and no verdict.
        "name": name,
        "historyLimit": HISTORY_LIMIT,
        "performance": {"groups": groups, "metrics": meaning},
        "categories": [
            {"name": "Regression or broken candidate", "matchers": [{"statuses": ["failed"]}]},
            {"name": "Infrastructure", "matchers": [{"statuses": ["broken"]}]},
            {"name": "Not judged", "matchers": [{"statuses": ["skipped"]}]},
        ],
        "plugins": {
            "awesome": {
                "options": {
                    "singleFile": True,
                    "reportName": name,
                    "reportLanguage": "en",
                    "groupBy": ["parentSuite", "suite"],
                }
            }
        },
    }


def _write_json(path: Path, data: Any) -> None:
    results.write_text(path, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
