"""The first job of a pipeline: what is compared, on which boards, in which cells."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from iotoll.boards.board import HostBoard, load_board
from iotoll.boards.equip import families
from iotoll.boards.matrix import load_matrix
from iotoll.ci import repository
from iotoll.ci.repository import MergeChange
from iotoll.core.errors import ResultError, UsageError
from iotoll.core.paths import cache_dir
from iotoll.core.progress import Progress
from iotoll.kernels.source import open_tree, prepare
from iotoll.labs.lava.config import load_lab
from iotoll.patch.candidate import CandidateChoice
from iotoll.records import results
from iotoll.records.models import PlanRecord, RunManifest, SelectionRecord
from iotoll.records.models.ci import BOARD
from iotoll.records.results import write_text
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import Runner, RunRequest, new_manifest

PLAN = "plan.json"
SERIES = re.compile(r"[^A-Za-z0-9._/!-]+")


@dataclass(frozen=True)
class PipelineRequest:
    """What a pipeline is asked to do: its inputs, and GitLab's numbers.

    Without a policy each board has that of its clock.
    """

    project: str
    boards: tuple[str, ...]
    lava_boards: tuple[str, ...] = ()
    lab: str | None = None
    matrix: str = "default"
    policy: str | None = None
    lava_matrix: str = "default"
    lava_policy: str | None = None
    cells: tuple[str, ...] | None = None
    merge_request: int | None = None
    pipeline: int | None = None
    approved_by: str | None = None
    command: tuple[str, ...] = ("iotoll",)


def run_folder(root: Path, board: str, runner: str) -> Path:
    """Where a board's run directory is in a pipeline's folder."""
    return root / ("lava" if runner == "lava" else "virtual") / board


def allure_history(plan: PlanRecord, run: str) -> Path:
    """Where the trends of one board's runs of a merge request are kept on this machine."""
    name = repository.own_name(f"{plan.project}!{plan.merge_request or ''}/{run}")
    return cache_dir() / "allure" / f"{name}.jsonl"


def make_plan(
    request: PipelineRequest, change: MergeChange, root: Path, progress: Progress
) -> PlanRecord:
    """Prepare a run directory per board and write ``plan.json``; builds and boots nothing.

    A change that is refused for what it carries gets a plan that says so, and no run.
    """
    request = _checked(request)
    # Everything that is named is read here, before anything long begins.
    manifests = [_manifest(request, change, name, "local") for name in request.boards]
    manifests += [_manifest(request, change, name, "lava") for name in request.lava_boards]
    plan = PlanRecord(
        project=request.project,
        base=change.base,
        candidate=change.candidate,
        merge_request=request.merge_request,
        pipeline=request.pipeline,
        boards=list(request.boards),
        lava_boards=list(request.lava_boards),
    )
    with progress.step("keep the two commits"):
        kept = repository.keep(change, request.project)
    try:
        _refuse(kept, change, progress)
    except UsageError as error:
        plan = plan.model_copy(update={"refused": str(error)})
    else:
        chosen = [_prepare(root, manifest, progress) for manifest in manifests]
        plan = plan.model_copy(update={"nothing": not any(chosen)})
    results.write(root / PLAN, plan)
    return plan


def read_plan(root: Path) -> PlanRecord:
    """The plan of a pipeline's folder; raises UsageError when it is none."""
    if not (root / PLAN).is_file():
        raise UsageError(
            f"{root} is not a pipeline's folder: it has no {PLAN}; run 'iotoll ci select'"
        )
    return results.read(root / PLAN, PlanRecord)


def _refuse(kept: Path, change: MergeChange, progress: Progress) -> None:
    tree = open_tree(str(kept), progress)
    tree.check_change(tree.tree_of(change.base), tree.tree_of(change.candidate))


def _prepare(root: Path, manifest: RunManifest, progress: Progress) -> bool:
    """Make one run directory; returns whether any cell was selected."""
    run = RunDir(run_folder(root, manifest.board, manifest.runner))
    results.write(run.root / "run.json", manifest)
    matrix = load_matrix(manifest.matrix)
    prepare(run, progress, matrix.cells, families(load_board(manifest.board), matrix))
    selection = results.read(run.selection, SelectionRecord)
    progress.say(f"{manifest.board}: {selection.why}")
    return bool(selection.cells)


def _checked(request: PipelineRequest) -> PipelineRequest:
    """The request with each board once; raises UsageError for a board that no pipeline can take."""
    for name in (*request.boards, *request.lava_boards):
        if not re.fullmatch(BOARD, name):
            raise UsageError(f"board {name!r}: a pipeline takes names of boards, no files")
    if not request.boards and not request.lava_boards:
        raise UsageError("no board is named: give --board or --lava-board")
    if request.lava_boards:
        lab = load_lab(request.lab or "local")
        for name in request.lava_boards:
            lab.board(name)
    return replace(
        request,
        boards=_once(request.boards, "--board"),
        lava_boards=_once(request.lava_boards, "--lava-board"),
    )


def _once(names: Sequence[str], option: str) -> tuple[str, ...]:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{option} {name}: is named twice: name it once")
    return tuple(names)


def _manifest(
    request: PipelineRequest, change: MergeChange, name: str, runner: Runner
) -> RunManifest:
    lava = runner == "lava"
    matrix = request.lava_matrix if lava else request.matrix
    policy = request.lava_policy if lava else request.policy
    if isinstance(board := load_board(name), HostBoard):
        # Those of the input are of instructions: a native board has its own workloads and clock.
        matrix, policy = board.matrix, None
    tree = str(repository.place(request.project))
    return new_manifest(
        RunRequest(
            command=request.command,
            kind="gate",
            choice=CandidateChoice("revision", tree, change.base, change.candidate),
            board=name,
            matrix=matrix,
            policy=policy,
            runner=runner,
            lab=request.lab or "local",
            cells=None if isinstance(board, HostBoard) else request.cells or None,
            series=_series(request, name) if lava else None,
            approved_by=request.approved_by,
        )
    )


def _series(request: PipelineRequest, board: str) -> str:
    """Names the merge request and the board: boards of one pipeline do not supersede each other."""
    number = f"!{request.merge_request}" if request.merge_request else ""
    return SERIES.sub("-", f"{request.project}{number}/{board}")[-60:]


def split_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Names between commas or white space; also in the brackets of an input of type array."""
    return tuple(name for text in texts for name in re.split(r"[\[\]\",\s]+", text) if name)


def ci_variable(name: str) -> str | None:
    """What GitLab tells its jobs under a name; None where it tells nothing."""
    return os.environ.get(name, "").strip() or None


def ci_number(name: str) -> int | None:
    """The same as a number; None where it is none."""
    value = ci_variable(name)
    return int(value) if value and value.isdigit() else None


_NAME = re.compile(r"[\w.-]{1,255}")
LARGEST = 4096  # bytes


def write(path: Path, name: str, commit: str) -> None:
    """Note that ``name`` accepts what the trailers of ``commit`` name."""
    write_text(path, json.dumps({"approved_by": name, "commit": commit}) + "\n")


def read(path: Path | None, commit: str) -> str | None:
    """Who accepts it; None where there is no file. Raises ResultError for another commit's."""
    if path is None or not path.exists():
        return None
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            raise ValueError("it is a link, or too large")
        data = json.loads(path.read_text())
        name, of = str(data["approved_by"]), str(data["commit"])
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a user's name")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ResultError(f"{path}: is not what 'iotoll ci accept' writes: {error}") from error
    if of != commit:
        raise ResultError(f"{path}: is of commit {of[:12]}, not of {commit[:12]}")
    return name
