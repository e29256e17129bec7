"""Runs a study: one boot for each of its variants, then its record and its pages.

A study's folder holds ``study.json``, the pages, and ``variants/NAME``: run directories as
`iotoll measure` makes them, so `iotoll report` and `iotoll lava` take each of them too.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from iotoll.boards.board import Board, RealBoard, VirtualBoard, load_board
from iotoll.boards.cells import parse_cell
from iotoll.boards.matrix import Matrix, load_matrix
from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError, os_fix
from iotoll.core.lock import alone
from iotoll.core.paths import check_tree
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, execute_alone
from iotoll.records import results
from iotoll.records.models import Clock, RunManifest, SideResult
from iotoll.records.models.study import StudyRecord, StudyVariant
from iotoll.records.rundir import STUDY, RunDir
from iotoll.reports.page.modelled import model_sentence
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import LOCK, open_run
from iotoll.studies.asked import Ran, parse_command, read_fio
from iotoll.studies.data import Study, Variant
from iotoll.studies.evaluate import Evaluator, Measured
from iotoll.studies.quantities import NAME as HPB
from iotoll.studies.quantities import counts_of

FRESH = ".fresh"
"""Beside the variants while a study boots again: its command, given once more, resumes."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks of every variant; ``request`` has no board of its own yet."""

    study: Study
    request: RunRequest
    board: str | None
    out: Path
    progress: Progress
    until: str = "report"
    fresh: bool = False

    @property
    def variants(self) -> Path:
        """The folder of the variants' own folders."""
        return self.out / "variants"


def run_study(asked: Asked) -> StudyRecord | None:
    """Boot every variant that the board can be and write ``study.json``.

    None where ``until`` stops it before that. Raises what a failing boot raises: a study has no
    partial result. Re-running the command resumes; UsageError while another one works in the same
    folder. All variants are read before the first boots.
    """
    if asked.fresh and asked.request.runner == "lava":
        raise UsageError(
            "--fresh: a lab takes no boot from an earlier run: choose another --out to boot again"
        )
    check_tree(asked.out)
    _check_board(asked)
    _check_folder(asked)
    why = f"{asked.out}: another iotoll works on this study: wait for it, or choose another --out"
    with alone(asked.variants / LOCK, UsageError(why)):
        return _run_variants(asked)


def _run_variants(asked: Asked) -> StudyRecord | None:
    study = asked.study
    runs = _runs(asked)
    _forget_boots(asked, runs)
    measured: dict[str, Measured] = {}
    shown: list[StudyVariant] = []
    virtual = isinstance(load_board(asked.board or study.board), VirtualBoard)
    for number, (name, variant) in enumerate(study.variants.items(), 1):
        board = load_board(_board_of(asked, variant))
        missing = _missing(asked, variant, board)
        place = f"variant {name} ({number} of {len(study.variants)})"
        if missing:
            asked.progress.say(f"{place}: left out: {missing}")
            measured[name] = Measured({}, {}, missing)
            shown.append(_absent(name, variant, board, missing))
            continue
        asked.progress.say(f"{place}: {variant.why}")
        run = runs[name]
        flow = Flow(run, asked.progress, fresh=asked.fresh)
        execute_alone(flow, "collect" if asked.until == "report" else asked.until)
        if asked.until not in ("collect", "report"):
            continue
        result = results.read(run.side("base") / "result.json", SideResult)
        measured[name] = Measured(
            {cell: records[0] for cell, records in result.cells.items() if records},
            result.boots[0].models,
            ran=_ran(study, run),
            hpb=counts_of(sorted(run.boot("base", 1).glob(f"*/{HPB}"))),
        )
        # In a lab QEMU may be behind a real board's name.
        virtual = virtual or result.boots[0].virtual
        shown.append(_shown(name, variant, board, result))
    if asked.until not in ("collect", "report"):
        return None
    record = make_record(asked, measured, shown, virtual)
    results.write(asked.out / STUDY, record)
    (asked.variants / FRESH).unlink(missing_ok=True)
    return record


def _forget_boots(asked: Asked, runs: Mapping[str, RunDir]) -> None:
    """With ``--fresh``, remove what earlier commands booted here; not what this one has begun."""
    if not asked.fresh or (asked.variants / FRESH).exists():
        return
    (asked.out / STUDY).unlink(missing_ok=True)
    for run in runs.values():
        shutil.rmtree(run.side("base") / "boots", ignore_errors=True)
    (asked.variants / FRESH).touch()


def resume_command(folder: Path) -> str | None:
    """What resumes the study whose variants are in ``folder``; None for another folder."""
    begun = [] if (folder / "run.json").exists() else sorted(folder.glob("variants/*/run/run.json"))
    if not begun:
        return None
    words = results.read(begun[0], RunManifest).command
    if words[:2] != ["iotoll", "study"] or len(words) < 3:
        return None
    if folder.resolve() != default_folder(Path(words[2]).stem).resolve():
        words = [*words, "--out", str(folder)]
    return shlex.join(words)


def default_folder(study: str) -> Path:
    """Where a study of this name goes without ``--out``."""
    return Path("runs") / f"study-{study}"


def make_record(
    asked: Asked, measured: Mapping[str, Measured], shown: list[StudyVariant], virtual: bool
) -> StudyRecord:
    """The study's record from what its variants measured, on a ``virtual`` board or a real one."""
    study = asked.study
    board = load_board(asked.board or study.board)
    clock = Clock.TIME if isinstance(board, RealBoard) else Clock.INSTRUCTIONS
    evaluator = Evaluator(study, measured, clock, virtual)
    return StudyRecord(
        name=study.name,
        title=study.title,
        question=study.question,
        sources=[f"{s.title}{'; ' if s.setup else ''}{s.setup}" for s in study.sources.values()],
        clock=clock,
        virtual=virtual,
        command=list(asked.request.command),
        assumed=study.assumed,
        not_shown=study.not_shown,
        variants=shown,
        claims=[evaluator.claim(claim) for claim in study.claims],
        tables=[evaluator.table(table) for table in study.tables],
        curves=[evaluator.curve(curve) for curve in study.curves],
        checks=evaluator.checks(),
    )


def _ran(study: Study, run: RunDir) -> dict[str, Ran]:
    """What fio reports of the cells that have a command of the study's."""
    if not study.fio:
        return {}
    reports = sorted(run.boot("base", 1).glob("*/fio.json"))
    return {
        name: ran for path in reports for name, ran in read_fio(path).items() if name in study.fio
    }


def _board_of(asked: Asked, variant: Variant) -> str:
    """The board's name: what the user asks for replaces the study's own, not a variant's."""
    return variant.board or asked.board or asked.study.board


def _check_board(asked: Asked) -> None:
    """Raise UsageError for a board on which nothing of the study runs, or that it ignores.

    So too for an image in place of the kernels that a study builds to compare them.
    """
    variants = asked.study.variants
    built = [name for name, variant in variants.items() if "fragments" in variant.changes]
    if built and asked.request.choice.tree is None:  # the kernel is an image
        raise UsageError(
            f"study {asked.study.name}: variant {built[0]} has another kernel: leave --image out"
        )
    own = {v.board for v in variants.values() if v.board}
    if asked.board and own and isinstance(load_board(asked.board), VirtualBoard):
        raise UsageError(
            f"study {asked.study.name} compares boards ({', '.join(sorted(own))}):"
            " leave --board out"
        )
    why = {
        _missing(asked, variant, load_board(_board_of(asked, variant)))
        for variant in variants.values()
    }
    if "" not in why:
        raise UsageError(f"study {asked.study.name}: nothing of it runs: {min(why)}")


def _missing(asked: Asked, variant: Variant, board: Board) -> str:
    """Why a variant cannot run with this board; empty if it can."""
    asked_for = load_board(asked.board) if asked.board else None
    own = bool(variant.devices or variant.changes or variant.board)
    if isinstance(asked_for, RealBoard) and own:
        return f"board {asked_for.name} is real: its devices are not modelled"
    if isinstance(board, VirtualBoard) and variant.needs_board:
        return variant.needs_board
    # There QEMU's command is in LAVA's device dictionary, which no job changes.
    if asked.request.runner == "lava" and (variant.devices or variant.changes):
        return f"board {board.name} of a lab has its own devices: no job changes their models"
    if not _cells(variant, board):
        return f"board {board.name} has none of its devices"
    return ""


def _cells(variant: Variant, board: Board) -> list[str]:
    """The variant's cells on devices that the board has."""
    if isinstance(board, VirtualBoard):
        known = set(board.devices)
    else:
        assert isinstance(board, RealBoard)
        known = set(board.hardware.devices)
    return [cell for cell in variant.cells if parse_cell(cell).device in known]


def _check_folder(asked: Asked) -> None:
    """Make the study's folder; raises UsageError where something else is in it."""
    variants = asked.variants
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        there = [path.name for path in asked.out.iterdir()]
        if there and not variants.is_dir():
            raise UsageError(
                f"{asked.out} is not empty, nor a study's folder: choose another --out"
            )
        variants.mkdir(exist_ok=True)
        names = {path.name for path in variants.iterdir()}
    except OSError as error:
        raise UsageError(f"--out {asked.out}: {error.strerror}: {os_fix(error)}") from error
    if other := names - asked.study.variants.keys() - {LOCK, FRESH}:
        raise UsageError(
            f"{asked.out} holds another study, with a variant {min(other)}: choose another --out"
        )


def _runs(asked: Asked) -> dict[str, RunDir]:
    """The run directory of each variant that the board can be, nothing of it done."""
    found = {}
    for name, variant in asked.study.variants.items():
        board = load_board(_board_of(asked, variant))
        if not _missing(asked, variant, board):
            found[name] = _open_variant(asked, name, variant, board)
    return found


def _open_variant(asked: Asked, name: str, variant: Variant, board: Board) -> RunDir:
    """The run directory of one variant, with its board file and matrix beside it."""
    folder = asked.variants / name
    data = folder / "data"
    named = _board_of(asked, variant)
    if variant.devices or variant.changes:
        # The file has the board's own name, which is part of what its workload sees.
        changes = {"extends": named, **variant.changes, "devices": variant.devices}
        named = _write_toml(data / f"{board.name}.toml", changes)
    matrix = asked.study.boards.get(board.name)
    matrix_name = (
        matrix.matrix
        if matrix
        else _write_toml(data / f"{asked.study.name}.toml", _matrix(asked.study))
    )
    cells = _cells(variant, board)
    _check_devices(load_matrix(matrix_name), cells, asked.study.name)
    request = replace(asked.request, board=named, matrix=matrix_name, cells=tuple(cells))
    return open_run(folder / "run", new_manifest(request))


def _matrix(study: Study) -> dict[str, Any]:
    """The study's matrix, with the options of its fio commands."""
    cells = {}
    for cell, command in study.fio.items():
        options = parse_command(command)
        if study.scaled_size:
            options["size"] = study.scaled_size
        # Each job reads or writes so much of the disk: what a file's cell says by its I/Os.
        size = {"io_size": options["size"]} if "size" in options else {}
        kept = {k: v for k, v in options.items() if k not in ("thread", "group_reporting")}
        cells[cell] = {**kept, **size}
    return {**study.matrix, "fio_cells": cells} if cells else study.matrix


def _check_devices(matrix: Matrix, cells: list[str], study: str) -> None:
    for cell in cells:
        if parse_cell(cell).device not in matrix.devices:
            raise UsageError(
                f"study {study}: matrix {matrix.name} does not measure the device of {cell}"
            )


def _absent(name: str, variant: Variant, board: Board, missing: str) -> StudyVariant:
    return StudyVariant(
        name=name, why=variant.why, board=board.name, cells=variant.cells, missing=missing
    )


def _shown(name: str, variant: Variant, board: Board, result: SideResult) -> StudyVariant:
    boot = result.boots[0]
    return StudyVariant(
        name=name,
        why=variant.why,
        board=board.name,
        cells=list(result.cells),
        models={device: model_sentence(model) for device, model in boot.models.items()},
        kernel=f"Linux {boot.tools.get('board kernel', 'of unknown version')}, image"
        f" {result.build.image_sha256[:12]}",
        boot_sha256=json_sha256(boot.digests),
    )


def _write_toml(path: Path, data: Mapping[str, Any]) -> str:
    """Write a data file of tables of plain values; returns its path as a name."""
    results.write_text(path, "\n".join(_toml_lines(data, "")) + "\n")
    return str(path.resolve())


def _toml_lines(data: Mapping[str, Any], where: str) -> list[str]:
    # A JSON text, number, truth value or list of these is TOML's as well.
    own = [f"{k} = {json.dumps(v)}" for k, v in data.items() if not isinstance(v, dict)]
    below = []
    for key, value in data.items():
        if isinstance(value, dict):
            below += [f"[{where}{key}]", *_toml_lines(value, f"{where}{key}.")]
    return own + below
