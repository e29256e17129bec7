"""Costs planted in code that one family of cells runs: found there with their size, there alone.

What each patch must show was written down before it was first run (families.toml). The cells are
those that the patch selects; docs/validation.md has what was measured.
"""

from __future__ import annotations

import json
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from iotoll.boards.board import load_virtual_board
from iotoll.boards.equip import families
from iotoll.boards.matrix import load_matrix
from tests.vm.conftest import (
    FAULTS,
    UNCALIBRATED,
    needs_board,
    run_gate,
    unexplained,
)

pytestmark = [pytest.mark.vm, pytest.mark.timeout(7200)]
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("families.toml").read_text()
)
DEFAULT = "virt-arm64"


def grown(verdict: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of each cell in which something gated grew: the parts, and by how many instructions."""
    found: dict[str, dict[str, float]] = {}
    for cell in verdict["cells"]:
        parts = [*cell["sections"], {**(cell["whole"] or {"moved": ""}), "section": "whole"}]
        for part in parts:
            if part["moved"] == "grew" and part["gated"]:
                found.setdefault(cell["cell"], {})[part["section"]] = part["delta"]
    return found


def wrong(expected: dict[str, Any], verdict: dict[str, Any]) -> list[str]:
    """What of a verdict is not as it must be; empty where all is."""
    found, faults = grown(verdict), []
    known = [cell["cell"] for cell in verdict["cells"]]
    patterns = [row["cells"] for row in expected["grows"]] + expected["may"]
    for row in expected["grows"]:
        cells = [cell for cell in known if fnmatch(cell, row["cells"])]
        if not cells:
            faults.append(f"{row['cells']}: no such cell was selected")
        for cell in cells:
            size = found.get(cell, {}).get(row["part"])
            if size is None:
                faults.append(f"{cell}: {row['part']} did not grow: {found.get(cell)}")
            elif not row["least"] <= size <= row["most"]:
                faults.append(f"{cell}: {row['part']} grew by {size}")
    for cell, parts in found.items():
        if not any(fnmatch(cell, pattern) for pattern in patterns):
            faults.append(f"{cell}: grew without the cost: {parts}")
    return faults


@pytest.mark.long
@pytest.mark.parametrize("name", EXPECTED)
def test_a_cost_is_found_in_its_family_and_nowhere_else(name: str, tmp_path: Path) -> None:
    expected = EXPECTED[name]
    board = expected.get("board", DEFAULT)
    needs_board(board)
    words = ("--board", board, "--matrix", UNCALIBRATED, "--policy", unexplained(tmp_path))
    patch = FAULTS / f"families/{name}.patch"
    # A first kernel with the fragment of a scheduler, and further boots of up to 75 cells.
    done = run_gate(tmp_path / "run", "--candidate", patch, *words, limit=7000)
    assert done.code == 1, done.stderr
    assert done.verdict["outcome"] == "regression"
    selection = json.loads((done.run / "selection.json").read_text())
    assert selection["changed_paths"] == [expected["path"]]
    chosen = {choice["cell"] for choice in selection["cells"]}
    assert chosen == {cell["cell"] for cell in done.verdict["cells"]}
    known = families(load_virtual_board(board), load_matrix("default"))
    assert chosen >= {cell for family in expected["families"] for cell in known[family]}
    assert wrong(expected, done.verdict) == []
