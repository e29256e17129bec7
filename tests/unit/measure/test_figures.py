"""Analyses of boots that are kept for other runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.measure import figures
from iotoll.records.models import BootRecord, Section, SideResult
from tests.unit.runs import side_result

CELL = "ufs-4k-randread-t1-direct"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path))
    return tmp_path / "figures"


@pytest.fixture
def side() -> SideResult:
    return side_result("base", {CELL: {Section.SUBMISSION: [7, 8, 9]}})


@pytest.fixture
def boot(side: SideResult) -> BootRecord:
    return side.boots[0]


@pytest.fixture
def found(side: SideResult) -> figures.Figures:
    return {CELL: side.cells[CELL][0]}, {"kprobe": 1570.5}


def test_the_same_boot_finds_what_was_kept(boot: BootRecord, found: figures.Figures) -> None:
    assert figures.find(boot, ()) is None
    figures.keep(boot, (), found)
    assert figures.find(boot, ()) == found
    assert figures.find(boot, {"ext4_file_read_iter"}) is None, "it was not counted separately"
    other = boot.model_copy(update={"digests": {"windows.bin": "0" * 64}})
    assert figures.find(other, ()) is None


def test_another_iotoll_finds_nothing(
    boot: BootRecord, found: figures.Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures.keep(boot, (), found)
    monkeypatch.setattr(figures, "_code", lambda: "another")
    assert figures.find(boot, ()) is None


@pytest.mark.parametrize("size", [0, 1, 100])
def test_what_is_damaged_is_not_taken(
    boot: BootRecord, found: figures.Figures, cache: Path, size: int
) -> None:
    figures.keep(boot, (), found)
    (path,) = cache.iterdir()
    path.write_bytes(path.read_bytes()[:size])
    assert figures.find(boot, ()) is None


def test_without_room_nothing_is_kept_and_nothing_is_lost(
    boot: BootRecord, found: figures.Figures, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.write_text("a file where the folder should be")
    figures.keep(boot, (), found)
    assert figures.find(boot, ()) is None
    cache.unlink()
    monkeypatch.setattr(figures, "LIMIT", 1)
    figures.keep(boot, (), found)
    assert list(cache.iterdir()) == []
