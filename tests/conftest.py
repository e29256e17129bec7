"""Golden files: compared by default, written anew with ``pytest --update-goldens``."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from iotoll.core.progress import Progress
from iotoll.labs.local.root import get_root

Check = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens", action="store_true", help="write golden files instead of comparing"
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Check:
    """Compare text with a golden file, named relative to ``tests/golden/data``."""
    update = bool(request.config.getoption("--update-goldens", default=False))

    def check(name: str, text: str) -> None:
        path = Path(__file__).parent / "golden" / "data" / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.is_file(), f"{path} is missing: pytest --update-goldens"
        assert text == path.read_text(), f"differs from {path}; see --update-goldens"

    return check


@pytest.fixture(scope="session", autouse=True)
def heed_interrupts() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def lab_root() -> Path:
    """The lab's root file system, with LAVA's own Python modules; made if need be.

    Skips, saying why, where no lab can be.
    """
    if os.geteuid() != 0:
        pytest.skip("a lab needs root, for its namespaces and mounts")
    for tool in ("mmdebstrap", "unshare", "setpriv", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    return get_root(Progress())
