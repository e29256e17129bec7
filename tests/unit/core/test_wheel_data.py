"""A wheel carries the data folders: src/iotoll/_data links to each, and pyproject.toml takes it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from iotoll.core.paths import DATA_FOLDERS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("folder", DATA_FOLDERS)
def test_each_data_folder_is_in_the_wheel(folder: str) -> None:
    link = ROOT / "src/iotoll/_data" / folder
    assert link.is_symlink(), "restore the link: an installed iotoll finds no data without it"
    assert link.resolve() == ROOT / folder
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    taken = [entry["path"] for entry in settings["tool"]["maturin"]["include"]]
    assert any(path.startswith(f"src/iotoll/_data/{folder}/") for path in taken)
