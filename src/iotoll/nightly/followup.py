"""What a night does about its changes: a paired comparison confirms them, a search explains them.

A step on a noisy clock is told to nobody before the two kernels around it were booted in pairs. A
change whose range is one commit needs no search.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from iotoll.boards.board import load_board
from iotoll.core.errors import IotollError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, execute_alone
from iotoll.nightly.changes.find import Change
from iotoll.nightly.changes.notes import Cause, Effected, note
from iotoll.nightly.config import Board, Branch, Config
from iotoll.nightly.history.store import Store
from iotoll.nightly.tips import commits, listed, reverts
from iotoll.patch.candidate import CandidateChoice
from iotoll.records.models import Outcome, RunManifest, VerdictRecord
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import keep_run

Judge = Callable[[RunManifest, Path, Progress], VerdictRecord | None]
Search = Callable[[Sequence[str], Path], int]
TRIES = 3
"""Paired comparisons of one change that may end without a decision."""
ALIKE = 4.0
"""Instructions per I/O by which one cause may differ between two branches: the gate's threshold."""
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
    known = {change.id: change for change in found if change.causes}
    for change in (c for c in found if c.is_open and not c.culprit):
        branch = next((b for b in config.branch if b.name == change.branch), None)
        board = next((b for b in config.board if b.name == change.worst.board), None)
        if branch is None or board is None:
            continue
        if change.state == "new":
            made += _confirm(config, store, change, (branch, board), progress, work)
        elif _alone(branch, change):
            cause = _only(branch, change)
            _explain(store, change, [cause], cause.subject)
            known[change.id] = replace(change, causes=(cause,))
            made += 1
        elif (other := _as_elsewhere(branch, change, known.values())) is not None:
            _explain(store, change, _own(branch, change, other), f"as change {other.id}", other.id)
            made += 1
        elif searched < config.bisects and change.state in ("confirmed", "reappeared"):
            searched += 1
            causes, notes = _search(config, store, change, (branch, board), progress, seek)
            made += notes
            if causes:
                known[change.id] = replace(change, causes=tuple(causes))
    return made + _taken_back(config, store, found)


def _only(branch: Branch, change: Change) -> Cause:
    """The one commit of a range, with all that the change measured."""
    first, last = change.ends
    author, words = listed(branch, first, last)[last]
    parts = [
        Effected(cell=e.cell, section=e.section, delta=round(e.delta, 1)) for e in change.effects
    ]
    return Cause(commit=last, subject=words, author=author, parts=parts)


def _as_elsewhere(branch: Branch, change: Change, known: Iterable[Change]) -> Change | None:
    """A change of another branch whose culprits are in this range too, and which did the same.

    A commit that was picked has another name there, but the same author and subject.
    """
    wanted = {effect.key: effect.delta for effect in change.effects}
    for other in known:
        did = {effect.key: effect.delta for effect in other.effects}
        if other.branch == change.branch or set(did) != set(wanted):
            continue
        if any(abs(did[key] - delta) > ALIKE for key, delta in wanted.items()):
            continue
        if len(_own(branch, change, other)) == len(other.causes):
            return other
    return None


def _own(branch: Branch, change: Change, other: Change) -> list[Cause]:
    """The other change's culprits under their names in this range; those that are there."""
    try:
        here = listed(branch, *change.ends)
    except IotollError:
        return []
    found = []
    for cause in other.causes:
        names = [sha for sha, said in here.items() if said == (cause.author, cause.subject)]
        sha = cause.commit if cause.commit in here else names[0] if len(names) == 1 else ""
        found += [cause.model_copy(update={"commit": sha})] if sha else []
    return found


def _taken_back(config: Config, store: Store, found: Sequence[Change]) -> int:
    """Close what a later commit says to revert, once a night measured the drop; link the two."""
    made = 0
    asked: dict[str, dict[str, str]] = {}
    for change in (c for c in found if c.is_open and c.causes and not c.undone):
        branch = next((b for b in config.branch if b.name == change.branch), None)
        if branch is None:
            continue
        keys = {(e.cell, e.section) for e in change.effects if e.delta > 0}
        later = [c for c in found if c.branch == change.branch and c.night > change.night]
        said: dict[str, str] = {}
        for other in later:
            fell = {(e.cell, e.section) for e in other.effects if e.delta < 0}
            if keys & fell:
                if other.id not in asked:
                    asked[other.id] = _said(branch, other)
                said |= asked[other.id]
        by = [next((b for a, b in said.items() if _is(one.commit, a)), "") for one in change.causes]
        if all(by):
            note(store.files, change.id, state="fixed", undone=by[-1], words="reverted", by=_BY)
            made += 1
    return made


def _said(branch: Branch, change: Change) -> dict[str, str]:
    try:
        return reverts(branch, change.from_commit, change.to_commit)
    except IotollError:
        return {}


def _is(commit: str, named: str) -> bool:
    return commit.startswith(named)


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
            choice=CandidateChoice("revision", str(Path(branch.tree).resolve()), *change.ends),
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
        return commits(branch, *change.ends, 2) == [change.ends[1]]
    except IotollError:
        return False


def _explain(
    store: Store, change: Change, causes: Sequence[Cause], words: str, same: str = ""
) -> None:
    """Note all culprits; the one that moved most is the change's own."""
    first = max(causes, key=lambda one: one.worst.delta if one.worst else 0.0)
    note(
        store.files,
        change.id,
        state="explained",
        commit=first.commit,
        causes=[one.model_dump() for one in causes],
        same=same,
        words=words[:2000],
        by=_BY,
    )


def _search(
    config: Config,
    store: Store,
    change: Change,
    track: tuple[Branch, Board],
    progress: Progress,
    seek: Search,
) -> tuple[list[Cause], int]:
    """Search the whole range; the culprits, where they are the whole, and how many notes."""
    branch, board = track
    if change.clock != "instructions" or not _is_exact(board):
        return [], 0
    # Each return has its own range, so its own search.
    number = f"-{len(change.returns) + 1}" if change.returns else ""
    out = Path(config.runs) / "changes" / f"{change.id}-bisect{number}"
    words = ["bisect", "--tree", branch.tree, "--good", change.ends[0]]
    words += ["--bad", change.ends[1], "--out", str(out)]
    words += ["--board", board.name, "--matrix", board.matrix, "--quiet"]
    words += [
        word for cell in sorted({e.cell for e in change.effects}) for word in ("--cell", cell)
    ]
    note(store.files, change.id, state="bisecting", by=_BY)
    progress.say(f"change {change.id}: search for the commit ({out})")
    try:
        status = seek(words, out.with_suffix(".log"))
        answer = json.loads((out / "bisect.json").read_text()) if status in (0, 3) else {}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        answer, status = {}, 4
        progress.say(f"change {change.id}: {error}")
    causes = [cause for one in answer.get("culprits", []) for cause in _causes(one)]
    if answer.get("outcome") == "found" and causes:
        _explain(store, change, causes, "; ".join(cause.subject for cause in causes))
        return causes, 2
    why = answer.get("why") or answer.get("outcome") or f"exit code {status}"
    found = ", ".join(cause.line for cause in causes)
    why = f"{why}: {found}" if found else why
    note(store.files, change.id, state="confirmed", words=f"search: {why}"[:500], by=_BY)
    return [], 2


def _causes(one: dict[str, Any]) -> list[Cause]:
    """A culprit of ``bisect.json``; commits that cannot be tested separately share its parts."""
    parts = [Effected.model_validate(part) for part in one["parts"]]
    named = [function["name"] for function in one["functions"]] or one["changed"]
    return [
        Cause(
            commit=commit["sha"],
            subject=commit["subject"],
            author=commit["author"],
            functions=named[:8],
            parts=parts,
        )
        for commit in one["commits"]
    ]


def _is_exact(board: Board) -> bool:
    try:
        return load_board(board.name).is_exact
    except UsageError:
        return False
