"""A cache of the test's own, and a source archive."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.kernels.archives import make_archive


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("IOTOLL_CACHE", str(folder))
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path)
