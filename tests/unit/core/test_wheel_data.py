"""A wheel carries the data folders: src/iotoll/_data links to each, and pyproject.toml takes it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from iotoll.core import paths
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


def test_g2_13_a_wheel_has_the_commands_for_boards_and_they_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tools/dist.sh puts them there while it builds; pyproject.toml takes them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    taken = [entry["path"] for entry in settings["tool"]["maturin"]["include"]]
    assert "src/iotoll/_data/dut/*/*" in taken
    assert "src/iotoll/_data/dut" in (ROOT / "tools/dist.sh").read_text()
    package = tmp_path / "site-packages/iotoll"
    path = package / "_data/dut/arm64/iotoll-dut"
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.delenv("IOTOLL_DUT", raising=False)
    monkeypatch.setattr(paths, "__file__", str(package / "core/paths.py"))
    assert paths.dut_command("arm64") == path
