"""What the tests on a real LAVA share: one lab for all of them, made as `make lab` makes it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotoll.lab.local import LocalLab
from iotoll.lab.plan import LabState
from iotoll.lab.root import get_root
from iotoll.lava.config import load_lab
from iotoll.progress import Progress


def needs_lab() -> None:
    """Skip, saying why, where no lab can be brought up."""
    if os.geteuid() != 0:
        pytest.skip("a lab needs root, for its namespaces and mounts")
    for tool in ("mmdebstrap", "unshare", "setpriv"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")


@pytest.fixture(scope="session")
def lab_root() -> Path:
    """The lab's root file system, with LAVA's own Python modules."""
    needs_lab()
    return get_root(Progress())


@pytest.fixture(scope="session")
def lab(lab_root: Path) -> Iterator[LocalLab]:
    """A running lab of the tests' own."""
    folder = Path(tempfile.mkdtemp(prefix="iotoll-lab-"))
    local = LocalLab(folder / "lab")
    try:
        local.up(load_lab("local"), Progress())
        yield local
    finally:
        local.down()
        shutil.rmtree(folder)


@pytest.fixture
def state(lab: LocalLab) -> LabState:
    """How to reach the running lab."""
    found = lab.state
    assert found is not None, "the lab is down: an earlier test ended it"
    return found
