"""``iotoll list``: the boards, cells, matrices, policies and studies that can be named."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path

import click

from iotoll.cli import all_commands
from iotoll.core.paths import data_dir

Rows = list[dict[str, str]]


def boards() -> Rows:
    """Name, kind and description of every board file."""
    # Each list imports only what it reads: the shell completes names by these.
    from iotoll.boards.board import HostBoard, RealBoard, load_board

    found = []
    for name in _names(data_dir("lava-jobs") / "boards"):
        board = load_board(name)
        kind = "lab" if isinstance(board, RealBoard) else "virtual"
        kind = "native" if isinstance(board, HostBoard) else kind
        found.append({"name": name, "kind": kind, "description": board.description})
    return found


def cells(matrix: str) -> Rows:
    """Every cell of a matrix and its families, with its I/Os; raises UsageError."""
    from iotoll.boards.cells import parse_cell
    from iotoll.boards.matrix import load_matrix

    loaded = load_matrix(matrix)
    named = [("", c) for c in loaded.cells]
    named += [(name, c) for name, cells in loaded.family_cells.items() for c in cells]
    return [
        {"name": c, "ios": str(loaded.ios(parse_cell(c))), "family": family} for family, c in named
    ]


def matrices() -> Rows:
    """Name, devices and number of cells of every matrix."""
    from iotoll.boards.matrix import load_matrix

    found = []
    for name in _names(data_dir("lava-jobs") / "matrices"):
        matrix = load_matrix(name)
        count = str(len(matrix.cells))
        found.append({"name": name, "cells": count, "devices": ", ".join(matrix.devices)})
    return found


def policies() -> Rows:
    """Name and clock of every gate policy."""
    from iotoll.verdict.policy import load_any_policy

    names = _names(data_dir("pipelines") / "policies")
    return [{"name": name, "clock": load_any_policy(name).clock.value} for name in names]


def studies() -> Rows:
    """Every study and experiment that can be started, how, and what it answers."""
    from iotoll.studies.data import load_study, studies_folder

    found = [
        {"name": name, "start": f"iotoll study {name}", "description": load_study(name).title}
        for name in _names(studies_folder())
    ]
    if experiments := all_commands().get("experiment"):  # of iotoll-lab
        found += importlib.import_module(experiments.target.partition(":")[0]).listed()
    return found


KINDS: dict[str, Callable[[], Rows]] = {
    "boards": boards,
    "matrices": matrices,
    "policies": policies,
    "studies": studies,
}


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.toml"))


@click.command("list")
@click.argument("kind", type=click.Choice(["boards", "cells", "matrices", "policies", "studies"]))
@click.option(
    "--matrix", default="default", show_default=True, help="Matrix of the cells: name or file."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
def list_command(kind: str, matrix: str, as_json: bool) -> None:
    """List the available boards, cells, matrices, policies or studies."""
    rows = cells(matrix) if kind == "cells" else KINDS[kind]()
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    widths = {key: max(len(row[key]) for row in rows) for key in rows[0]} if rows else {}
    for row in rows:
        click.echo("  ".join(row[key].ljust(width) for key, width in widths.items()).rstrip())
