"""The end of a job: what it was, and what it left for the run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import yaml

from iotoll.boots import proof
from iotoll.boots.console import read_console
from iotoll.boots.local import BootPlan
from iotoll.core.errors import BrokenError, HangError, InfrastructureError, IotollError
from iotoll.core.proc import tail
from iotoll.labs.lava.classify import classify, evidence
from iotoll.labs.lava.files import STATISTICS
from iotoll.labs.lava.issues import Issue
from iotoll.labs.lava.job_log import JobLog, read_log, read_time
from iotoll.labs.lava.journal import DEATHS
from iotoll.labs.lava.server import FileStore, JobState, LavaServer
from iotoll.measure import board_records, serial
from iotoll.measure.board_records import Documents
from iotoll.records import results, sealed
from iotoll.records.models import BootRecord, LavaAttempt, LavaRecord, TraceFile
from iotoll.records.results import write_text

ERROR_LIMIT = 2000  # characters of LAVA's error message
Outcome = Literal["done", "infrastructure", "hang", "broken"]


@dataclass(frozen=True)
class Ended:
    """A finished job with its log and what LAVA says of its end.

    ``lacking`` are the test cases that LAVA expected and did not get.
    """

    state: JobState
    log: JobLog
    error_type: str
    error: str
    lacking: tuple[str, ...] = ()


def fetch(server: LavaServer, state: JobState, folder: Path) -> Ended:
    """Fetch what a finished job left, and keep its log in ``folder``."""
    data = server.log(state.id)
    folder.mkdir(parents=True, exist_ok=True)
    log = read_log(data)
    write_text(folder / "console.log", log.console)
    write_text(folder / "lava.log", "".join(f"{line}\n" for line in log.lava))
    tests = server.tests(state.id)
    kind, error = _job_error(tests)
    return Ended(state, log, kind, error, _lacking(tests))


def _lacking(tests: list[dict[str, Any]]) -> tuple[str, ...]:
    figures = (t for t in tests if str(t.get("name")).rpartition(".")[2] in STATISTICS)
    return tuple(sorted(str(t["name"]) for t in figures if t.get("result") != "pass"))


def _job_error(tests: list[dict[str, Any]]) -> tuple[str, str]:
    """LAVA's own verdict of a job: type and message of its error, both empty when it has none."""
    for test in tests:
        if test.get("name") != "job":
            continue
        try:
            data = yaml.load(str(test.get("metadata") or ""), Loader=yaml.CBaseLoader)
        except yaml.YAMLError:
            continue
        if isinstance(data, dict):
            words = [data.get("error_type"), data.get("error_msg")]
            kind, text = (word if isinstance(word, str) else "" for word in words)
            return kind, text[:ERROR_LIMIT]
    return "", ""


def judge(
    ended: Ended, plan: BootPlan, issues: Sequence[Issue], key: str | None = None
) -> Documents:
    """The documents that the board sent; raises what the job's end means.

    ``key`` is the job's own, which the board must name.

    BrokenError when the kernel or the workload failed, InfrastructureError when the lab did.
    """
    console = read_console(ended.log.console)
    if console.failed_at or ended.state.health != "Complete" or not console.done:
        found = evidence(ended.state.health, ended.error_type, ended.error, ended.log)
        raise classify(found, issues)
    documents = _documents(ended, plan, console.log_tail)
    said = documents.facts.before
    proof.check(plan.name, plan.kernel, plan.board.name, said, key)
    return documents


def _documents(ended: Ended, plan: BootPlan, log_tail: str) -> Documents:
    found = serial.receive(ended.log.console.encode())
    lost = [one for one in found if one.text is None]
    if lost:
        name = lost[0].cell or lost[0].record
        raise InfrastructureError(
            f"the serial line lost a part of {name}: {lost[0].problem}", tail(ended.log.console)
        )
    texts = [one.text for one in found if one.text is not None]
    documents = board_records.sort(texts, f"job {ended.state.id}")
    lacking = [c for c in plan.cells if c not in documents.cells or c not in documents.fio]
    if lacking:
        raise InfrastructureError(f"the board sent no record of {lacking[0]}", log_tail)
    return documents


@dataclass(frozen=True)
class Where:
    """The server that ran a job, its version, and the type of board."""

    server: str
    version: str
    device_type: str


def store(
    ended: Ended,
    plan: BootPlan,
    documents: Documents,
    where: Where,
    attempts: list[LavaAttempt],
    traces: list[TraceFile],
) -> BootRecord:
    """Write ``received.jsonl`` and ``boot.json``."""
    write_text(plan.folder / board_records.NAME, "".join(f"{text}\n" for text in documents.texts))
    state = ended.state
    phases = _phases(state, ended.log)
    tools = {f"board {name}": version for name, version in documents.tools.items()}
    record = BootRecord(
        side=plan.side,
        boot=plan.number,
        board=plan.board.name,
        clock=plan.clock,
        accelerator=plan.accelerator,
        tools={
            "LAVA": where.version,
            **{f"image {k}": v for k, v in plan.image.packages.items()},
            **tools,
        },
        board_sha256=plan.identity(),
        models=plan.board.models,
        command=["LAVA", f"job {state.id}", str(state.device)],
        seconds=round(sum(phases.values()), 1),
        cells=plan.cells,
        died=[a.why for a in attempts if a.outcome in DEATHS],
        measured="board",
        facts=documents.facts,
        digests=sealed.digests(plan.folder, [plan.folder / board_records.NAME]),
        lava=LavaRecord(
            server=where.server,
            job=state.id,
            device=str(state.device),
            device_type=where.device_type,
            submitted=str(state.submitted),
            started=str(state.started),
            ended=str(state.ended),
            phases=phases,
            attempts=attempts,
            traces=traces,
            lost_figures=list(ended.lacking),
        ),
    )
    results.write(plan.folder / "boot.json", record)
    return record


def traces(documents: Documents, files: FileStore) -> list[TraceFile]:
    """The raw traces that a board says it sent; the server must have each, at its size.

    The server took none whose SHA-256 is another one than that under which it keeps it.
    """
    found = []
    for batch, sent in sorted(documents.traces.items()):
        url, size = files.trace(sent.sha256)
        problem = sent.problem or None
        if problem is None and size != sent.size:
            has = "no such file" if size is None else f"{size} bytes"
            problem = f"the file server has {has}, the board sent {sent.size} bytes"
        found.append(
            TraceFile(batch=batch, url=url, size=sent.size, sha256=sent.sha256, problem=problem)
        )
    return found


def _phases(state: JobState, log: JobLog) -> dict[str, float]:
    """Seconds from each phase's start to the next one's, from submission to the job's end."""
    moments = [("queue", read_time(state.submitted)), ("start", read_time(state.started))]
    moments += list(log.phases.items())
    moments.append(("", read_time(state.ended)))
    known = [(name, at) for name, at in moments if at is not None]
    pairs = pairwise(known)
    return {name: round((end - at).total_seconds(), 2) for (name, at), (_, end) in pairs}


def outcome_of(error: IotollError) -> Outcome:
    """How the journal calls an attempt that ended so."""
    if isinstance(error, HangError):
        return "hang"
    return "broken" if isinstance(error, BrokenError) else "infrastructure"
