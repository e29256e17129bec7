"""What a night does about its changes: a paired comparison confirms them, a search explains them.

A step on a noisy clock is told to nobody before the two kernels around it were booted in pairs. A
change whose range is one commit needs no search.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from iotoll.boards.board import load_board
from iotoll.core.errors import IotollError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, execute_alone
from iotoll.nightly.changes.find import Change
from iotoll.nightly.changes.notes import note
from iotoll.nightly.config import Board, Branch, Config
from iotoll.nightly.history.store import Store
from iotoll.nightly.tips import commits, subject
from iotoll.patch.candidate import CandidateChoice
from iotoll.records.models import Outcome, RunManifest, VerdictRecord
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import keep_run

Judge = Callable[[RunManifest, Path, Progress], VerdictRecord | None]
Search = Callable[[Sequence[str], Path], int]
TRIES = 3
"""Paired comparisons of one change that may end without a decision."""
_SEARCH_SECONDS = 24 * 3600
_BY = "iotoll nightly"


def judge(manifest: RunManifest, folder: Path, progress: Progress) -> VerdictRecord | None:
    """Run a whole gate in ``folder``; a run that is there is resumed."""
    return execute_alone(Flow(keep_run(folder, manifest), progress))


def search(words: Sequence[str], log: Path) -> int:
    """Run another iotoll command; its output goes to ``log``. Returns its exit code."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as stream:
        done = subprocess.run(
            [sys.executable, "-m", "iotoll", *words],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            timeout=_SEARCH_SECONDS,
            check=False,
        )
    return done.returncode


def follow_up(
    config: Config,
    store: Store,
    found: Sequence[Change],
    progress: Progress,
    work: Judge = judge,
    seek: Search = search,
) -> int:
    """Confirm, explain or search what is open; returns how many notes were written."""
    made = searched = 0
    for change in (c for c in found if c.is_open and not c.culprit):
        branch = next((b for b in config.branch if b.name == change.branch), None)
        board = next((b for b in config.board if b.name == change.worst.board), None)
        if branch is None or board is None:
            continue
        if change.state == "new":
            made += _confirm(config, store, change, (branch, board), progress, work)
        elif _alone(branch, change):
            _explain(store, change, change.to_commit, subject(branch, change.to_commit))
            made += 1
        elif searched < config.bisects and change.state in ("confirmed", "reappeared"):
            searched += 1
            made += _search(config, store, change, (branch, board), progress, seek)
    return made


def _confirm(
    config: Config,
    store: Store,
    change: Change,
    track: tuple[Branch, Board],
    progress: Progress,
    work: Judge,
) -> int:
    tries = sum(entry.words.startswith("paired comparison:") for entry in change.notes)
    if tries >= TRIES:
        return 0
    progress.say(f"change {change.id}: paired comparison of the two kernels")
    folder = Path(config.runs) / "changes" / f"{change.id}-{tries + 1}"
    try:
        verdict = work(_paired(change, *track), folder, progress)
    except (IotollError, OSError) as error:
        note(store.files, change.id, words=f"paired comparison: {error}"[:500], by=_BY)
        return 1
    outcome = verdict.outcome if verdict is not None else None
    state = ""
    if outcome in (Outcome.REGRESSION, Outcome.PASS):
        state = "confirmed" if outcome is Outcome.REGRESSION else "dismissed"
    words = f"paired comparison: {verdict.sentence if verdict else 'no verdict'}"[:500]
    note(store.files, change.id, state=state, words=words, by=_BY)
    return 1


def _paired(change: Change, branch: Branch, board: Board) -> RunManifest:
    grown = [effect for effect in change.effects if effect.delta > 0]
    return new_manifest(
        RunRequest(
            command=("iotoll", "nightly"),
            kind="gate",
            choice=CandidateChoice(
                "revision", str(Path(branch.tree).resolve()), change.from_commit, change.to_commit
            ),
            board=board.name,
            matrix=board.matrix,
            policy=board.policy,
            runner=board.runner,
            lab=board.lab,
            cells=tuple(sorted({effect.cell for effect in grown})),
            boots=board.boots,
        )
    )


def _alone(branch: Branch, change: Change) -> bool:
    try:
        return commits(branch, change.from_commit, change.to_commit, 2) == [change.to_commit]
    except IotollError:
        return False


def _explain(store: Store, change: Change, commit: str, words: str) -> None:
    note(store.files, change.id, state="explained", commit=commit, words=words, by=_BY)


def _search(
    config: Config,
    store: Store,
    change: Change,
    track: tuple[Branch, Board],
    progress: Progress,
    seek: Search,
) -> int:
    branch, board = track
    if change.clock != "instructions" or not _is_exact(board):
        return 0
    worst = change.worst
    out = Path(config.runs) / "changes" / f"{change.id}-bisect"
    words = ["bisect", "--tree", branch.tree, "--good", change.from_commit]
    words += ["--bad", change.to_commit, "--cell", worst.cell, "--out", str(out)]
    words += ["--board", board.name, "--matrix", board.matrix, "--quiet"]
    words += [] if worst.section == "overhead" else ["--section", worst.section]
    note(store.files, change.id, state="bisecting", by=_BY)
    progress.say(f"change {change.id}: search for the commit ({out})")
    try:
        status = seek(words, out.with_suffix(".log"))
        answer = json.loads((out / "bisect.json").read_text()) if status in (0, 3) else {}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        answer, status = {}, 4
        progress.say(f"change {change.id}: {error}")
    if answer.get("outcome") == "found":
        _explain(store, change, answer["commits"][0]["sha"], answer["commits"][0]["subject"])
        return 2
    why = answer.get("why") or f"exit code {status}"
    note(store.files, change.id, state="confirmed", words=f"search: {why}"[:500], by=_BY)
    return 2


def _is_exact(board: Board) -> bool:
    try:
        return load_board(board.name).is_exact
    except UsageError:
        return False
