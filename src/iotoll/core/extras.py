"""The extras of pyproject.toml: which libraries are missing, and what installs them *here*.

A checkout's environment has no pip, and those of pipx and uv have commands of their own.
"""

from __future__ import annotations

import re
import shlex
import sys
from importlib import metadata
from pathlib import Path

EXTRAS = {
    "history": "iotoll history, trend and nightly",
    "spark": "--engine spark of the history; with Java 17 or later",
    "allure": "iotoll publish --only allure; with Node",
}
"""What each extra is for."""

_CHECKOUT = Path(__file__).resolve().parents[3]


def requirements(extra: str) -> list[str]:
    """The requirements of an extra, as the installed package states them: ``duckdb<2,>=1.4.4``."""
    found = []
    for line in metadata.requires("iotoll") or []:
        requirement, _, marker = line.partition(";")
        if re.search(rf"extra\s*==\s*['\"]{extra}['\"]", marker):
            found.append(requirement.strip())
    return found


def missing(extra: str) -> list[str]:
    """Names of the packages of an extra that are not installed."""
    names = [re.split(r"[\[<>=!~ ]", line, maxsplit=1)[0] for line in requirements(extra)]
    return [name for name in names if not _is_installed(name)]


def install_command(extra: str) -> str:
    """The command that adds an extra to the environment that runs this."""
    prefix = Path(sys.prefix)
    if prefix == _CHECKOUT / ".venv":
        return f"cd {shlex.quote(str(_CHECKOUT))} && {_uv()} {_SYNC} --extra {extra}"
    words = shlex.join(requirements(extra))
    if (prefix / "pipx_metadata.json").is_file():
        return f"pipx inject iotoll {words}"
    if _is_installed("pip") and not (prefix / "uv-receipt.toml").is_file():
        return f"{shlex.quote(sys.executable)} -m pip install {words}"
    return f"uv pip install --python {shlex.quote(sys.executable)} {words}"


_SYNC = "sync --frozen --inexact --no-default-groups"
"""As tools/setup.sh: what else is installed stays."""


def _uv() -> str:
    """The uv of tools/setup.sh, from the checkout's folder."""
    found = sorted(_CHECKOUT.glob(".cache/uv-*/bin/uv"))
    return str(found[-1].relative_to(_CHECKOUT)) if found else "uv"


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
