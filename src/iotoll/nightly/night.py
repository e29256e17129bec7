"""One night: every branch on every board, each by itself, so that one failure takes no other down.

What a night measures is a run directory of its own, which a repeated command resumes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from iotoll.boards.board import load_board
from iotoll.boards.equip import families
from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.core.errors import BrokenError, InfrastructureError, IotollError, UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.gate.conclude import failed
from iotoll.gate.flow import Flow, execute_alone
from iotoll.nightly.config import Board, Branch, Config
from iotoll.nightly.history.store import Store
from iotoll.nightly.history.tables import Point, gap, measurements, of_run
from iotoll.nightly.tips import Tip, fetch, tip
from iotoll.patch.candidate import CandidateChoice
from iotoll.records import results
from iotoll.records.models import Clock, RunManifest, Section, SideResult
from iotoll.records.rundir import RunDir
from iotoll.reports.publish import FORMATS, Source, write
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import keep_run
from iotoll.verdict.amount import mean_of
from iotoll.verdict.instructions.rule import judge_cells
from iotoll.verdict.policy import Policy, load_policy

STATISTIC = "step"
"""What a measured tip moved against the one before it, by the gate's rule: a mean over all I/Os."""
OVERHEAD = (Section.VFS_FS, Section.SUBMISSION, Section.COMPLETION)
"""Sections that make an I/O's overhead."""
Row = tuple[str, str, str, str, float]
Measure = Callable[[RunManifest, Path, Progress], RunDir]


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold the nightly's folder; raises UsageError while another nightly holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    why = f"{folder}: another nightly is at work there: wait for it"
    with alone(folder / ".lock", UsageError(why)):
        yield


def measure(manifest: RunManifest, folder: Path, progress: Progress) -> RunDir:
    """Build, boot and analyse in ``folder``; a run that is there is resumed.

    Raises BrokenError or InfrastructureError.
    """
    run = keep_run(folder, manifest)
    # With a reference the sides' values are wanted, and no verdict on them.
    until = "collect" if manifest.kind == "gate" else "report"
    flow = Flow(run, progress)
    try:
        verdict = execute_alone(flow, until)
    except (BrokenError, InfrastructureError) as error:
        # Of one kernel alone there is no verdict, and the night has a report all the same.
        if not run.verdict.is_file():
            step = error.step if isinstance(error, BrokenError) else "boot"
            results.write(run.verdict, failed(flow, step, error))
        raise
    if verdict is not None and verdict.failure is not None:
        failure = verdict.failure
        raise InfrastructureError(f"{failure.step}: {failure.message}")
    return run


def published_failure(folder: Path, page: Path, progress: Progress) -> str:
    """The same of a night that failed, where its run got as far as a verdict on that."""
    if not (folder / "verdict.json").is_file():
        return ""
    try:
        run = RunDir.open(folder)
    except IotollError:
        return ""
    return published(run, page, f"{folder.parent.name}/{folder.name}", progress)


def published(run: RunDir, page: Path, name: str, progress: Progress) -> str:
    """Put a night's report and KCIDB submission beside the trend page; returns the report's link.

    A night is not lost because its report is: then the link is empty.
    """
    target = page / "nights" / name
    try:
        write(Source(run), target, ["report", "kcidb"])
    except IotollError as error:
        progress.say(f"no report of {name}: {error}")
        return ""
    return "/".join(["nights", *map(quote, name.split("/")), FORMATS["report"].file])


def run_night(
    config: Config, store: Store, today: str, progress: Progress, work: Measure = measure
) -> list[Point]:
    """Measure every branch and board for ``today``, and the nights before it that were missed."""
    made = []
    for branch in config.branch:
        problem = ""
        try:
            fetch(branch)
        except InfrastructureError as error:
            problem = str(error)
        for board in config.board:
            for night in missing(config, store, branch, board, today):
                if problem:
                    point = gap(branch.name, board.name, night, problem)
                else:
                    point = _one(config, store, (branch, board), night, today, progress, work)
                store.add(point)
                made.append(point)
                words = point.run["reason"] or f"{len(point.measurements)} values"
                progress.say(
                    f"{night} {branch.name} on {board.name}: {point.run['status']}: {words}"
                )
    _clear(Path(config.runs), config.keep)
    _clear(Path(config.page) / "nights", config.keep)
    return made


def missing(config: Config, store: Store, branch: Branch, board: Board, today: str) -> list[str]:
    """The nights to measure, oldest first: today's, and missed ones since the last in the history.

    A night that failed is tried again on its own day only.
    """
    # A machine whose clock was wrong for a day must not end the series.
    rows = [row for row in _rows(store, branch, board) if row["night"] <= today]
    done = {row["night"] for row in rows if row["status"] != "failed" or row["night"] < today}
    if not rows:
        return [today]
    last = date.fromisoformat(max(row["night"] for row in rows))
    end = date.fromisoformat(today)
    first = max(last, end - timedelta(days=config.catch_up))
    days = [str(first + timedelta(days=n)) for n in range((end - first).days + 1)]
    return [day for day in days if day not in done]


def _one(
    config: Config,
    store: Store,
    track: tuple[Branch, Board],
    night: str,
    today: str,
    progress: Progress,
    work: Measure,
) -> Point:
    branch, board = track
    folder = Path(config.runs) / night / quote(f"{branch.name}@{board.name}", safe="@")
    found = None
    try:
        found = tip(branch, night if night < today else None)
        known = _unmoved(store, track, night, found)
        if known is not None:
            return known
        run = work(new_manifest(request(branch, board, found.commit)), folder, progress)
        url = published(run, Path(config.page), f"{folder.parent.name}/{folder.name}", progress)
        point = of_run(run, branch.name, night, found.release, url, found.subject)
        return _stepped(config, run, point, folder.name)
    except (IotollError, OSError) as error:
        step = f"{error.step}: " if isinstance(error, BrokenError) else ""
        url = published_failure(folder, Path(config.page), progress)
        more = {"commit": found.commit, "subject": found.subject} if found else {}
        by = f"; commit by {found.author}" if found and found.author else ""
        reason = f"{step}{error}"[: 500 - len(by)] + by
        return gap(branch.name, board.name, night, reason, url=url, **more)


def _stepped(config: Config, run: RunDir, point: Point, name: str) -> Point:
    """The night with what moved since the last measured tip, whose result is kept for that."""
    if point.run["status"] != "measured":
        return point
    side = run.side("candidate" if run.manifest.kind == "gate" else "base") / "result.json"
    return with_steps(point, run.manifest, side, Path(config.runs) / "last" / f"{name}.json")


def _unmoved(store: Store, track: tuple[Branch, Board], night: str, found: Tip) -> Point | None:
    """A night whose tip is that of the last one on an exact board: its values are the same."""
    branch, board = track
    rows = [r for r in _rows(store, branch, board) if r["night"] < night]
    measured = [r for r in rows if r["status"] != "failed"]
    if not measured or rows[-1]["status"] == "failed":
        return None
    last = measured[-1]
    if last["clock"] != Clock.INSTRUCTIONS.value or last["commit"] != found.commit:
        return None
    more = {
        name: last[name]
        for name in ("clock", "unit", "commit", "subject", "version", "image_sha256")
    }
    more |= {"board_sha256": last["board_sha256"], "release": found.release}
    more |= {"status": "unmoved"}
    return gap(branch.name, board.name, night, "the tip did not move", **more)


def _rows(store: Store, branch: Branch, board: Board) -> list[dict[str, Any]]:
    rows = store.rows(branch.name, board.name)
    return sorted(rows, key=lambda r: (r["night"], r["created"], r["status"] != "failed"))


def request(branch: Branch, board: Board, commit: str) -> RunRequest:
    """What a night asks a run to do for the tip ``commit``; raises UsageError."""
    matrix = load_matrix(board.matrix)
    listed = ",".join(board.cells)
    cells = chosen_cells(listed, matrix.cells, families(load_board(board.name), matrix))
    pinned = board.reference is not None
    tree = str(Path(branch.tree).resolve())
    return RunRequest(
        command=("iotoll", "nightly"),
        kind="gate" if pinned else "measure",
        choice=CandidateChoice(
            kind="revision" if pinned else "none",
            tree=tree,
            base=board.reference if pinned else commit,
            candidate=commit if pinned else None,
        ),
        board=board.name,
        matrix=board.matrix,
        policy=board.policy,
        runner=board.runner,
        lab=board.lab,
        # Every night the same workloads, whatever the commits changed.
        cells=tuple(cells or ()),
        boots=board.boots,
    )


def check(config: Config) -> None:
    """Raise UsageError for a board, matrix or cell that there is not, before anything runs."""
    for branch in config.branch:
        for board in config.board:
            new_manifest(request(branch, board, "HEAD"))


def _clear(folder: Path, keep: int) -> None:
    """Remove what is kept of all but the newest nights; their values are in the history."""
    if not folder.is_dir():
        return
    nights = sorted(p for p in folder.iterdir() if p.is_dir() and len(p.name) == 10)
    for old in nights[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def summary(points: list[Point]) -> str:
    """What a night added, as JSON."""
    names = ("branch", "board", "night", "status", "reason", "commit", "run")
    return json.dumps([{n: p.run[n] for n in names} for p in points], indent=1)


def with_steps(point: Point, manifest: RunManifest, now: Path, last: Path) -> Point:
    """The night with its steps since the tip whose result is ``last``, which becomes ``now``.

    Where ``last`` is not there, or of another board, the night has none.
    """
    result = results.read(now, SideResult)
    rows: list[Row] = []
    if manifest.clock is Clock.INSTRUCTIONS and last.is_file():
        policy = load_policy(manifest.policy)
        rows = list(steps(results.read(last, SideResult), result, policy))
    results.write(last, result)
    table = pa.concat_tables([point.measurements, measurements(point.run, rows)])
    return Point(point.run, table.unify_dictionaries(), point.board)


def steps(before: SideResult, now: SideResult, policy: Policy) -> Iterator[Row]:
    """Rows of the table ``measurements``: 0 where the rule sees nothing, none where it cannot."""
    boards = [[boot.board_sha256 for boot in side.boots] for side in (before, now)]
    if boards[0][: len(boards[1])] != boards[1]:
        return
    cells = [cell for cell in now.cells if before.cells.get(cell)]
    for verdict in judge_cells(before, now, policy, cells).cells:
        found = {
            part.section: mean_of(part)[0] if part.has_moved else 0.0
            for part in verdict.sections
            if part.gated and part.moved != "unknown"
        }
        for section, delta in found.items():
            yield "tip", verdict.cell, section.value, STATISTIC, delta
        if found:
            whole = round(sum(found.get(section, 0.0) for section in OVERHEAD), 1)
            yield "tip", verdict.cell, "overhead", STATISTIC, whole
