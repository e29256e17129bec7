"""Shared by the tests of the native module."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.trace.thin import convert

DATA = Path(__file__).with_name("data")
FIXTURES = sorted(path.stem for path in DATA.glob("*.dat"))


def as_version_6(trace: Path, folder: Path) -> Path:
    """A copy of a trace in ``folder``, not compressed; needs trace-cmd."""
    convert(trace, folder / "plain.dat", "--file-version", "6")
    return folder / "plain.dat"


@pytest.fixture(params=FIXTURES)
def trace(request: pytest.FixtureRequest) -> str:
    """Path of each fixture in turn."""
    return str(DATA / f"{request.param}.dat")


@pytest.fixture(scope="session")
def trace_cmd() -> str:
    """Path of trace-cmd, the oracle."""
    found = shutil.which("trace-cmd")
    if found is None:
        pytest.skip("trace-cmd is not installed, so there is no oracle (apt install trace-cmd)")
    return found
