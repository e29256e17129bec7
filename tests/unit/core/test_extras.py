"""The command that installs an extra, in each kind of environment."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from iotoll.core import extras

CHECKOUT = Path(__file__).parents[3]


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that is not the checkout's, without pip."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(extras, "_is_installed", lambda name: False)
    return tmp_path


def test_requirements_are_those_of_the_package() -> None:
    for extra in extras.EXTRAS:
        assert extras.requirements(extra), extra
    assert any(line.startswith("duckdb") for line in extras.requirements("history"))
    assert not any("polars" in line for line in extras.requirements("history"))
    assert extras.requirements("nosuch") == []


def test_g3_9_in_a_checkout_it_is_uv_of_the_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(CHECKOUT / ".venv"))
    command = extras.install_command("history")
    assert command.startswith(f"cd {CHECKOUT} && ") and command.endswith("--extra history")
    assert "--no-default-groups" in command and "pip" not in command


def test_g3_9_without_pip_it_is_uv(prefix: Path) -> None:
    words = shlex.split(extras.install_command("history"))
    assert words[:5] == ["uv", "pip", "install", "--python", sys.executable]
    assert words[5:] == extras.requirements("history")


def test_g3_9_uv_tool_has_no_pip_of_its_own(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda name: True)
    (prefix / "uv-receipt.toml").touch()
    assert extras.install_command("history").startswith("uv pip install --python ")


def test_g3_9_in_pipx_it_is_inject(prefix: Path) -> None:
    (prefix / "pipx_metadata.json").touch()
    words = shlex.split(extras.install_command("allure"))
    assert words == ["pipx", "inject", "iotoll", *extras.requirements("allure")]


def test_g3_9_where_there_is_pip_it_is_pip(prefix: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "_is_installed", lambda name: name == "pip")
    words = shlex.split(extras.install_command("history"))
    assert words[:4] == [sys.executable, "-m", "pip", "install"]
    assert {"duckdb", "pyarrow"} <= set(extras.missing("history"))
