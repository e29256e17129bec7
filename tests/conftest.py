"""Golden files: compared by default, written anew with ``pytest --update-goldens``."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

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
