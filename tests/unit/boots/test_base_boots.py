"""Boots of the base that earlier runs made: taken whole and unchanged, or not at all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iotoll.boards import patched
from iotoll.boards.board import load_board
from iotoll.boots import base_boots
from iotoll.boots.local import BootPlan
from tests.unit.runs import boot_plan


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BootPlan:
    """A boot of the base on the exact board, which has just ended."""
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(patched, "digest", lambda: "qemu-1")
    kernel = tmp_path / "Image"
    kernel.write_bytes(b"kernel")
    folder = tmp_path / "run/boots/1"
    (folder / "ufs").mkdir(parents=True)
    (folder / "ufs/trace.dat").write_bytes(b"trace")
    (folder / "boot.json").write_text("{}")
    return boot_plan(kernel, folder)


def test_boot_is_taken_as_it_was(plan: BootPlan, tmp_path: Path) -> None:
    assert not base_boots.take(plan), "nothing is stored yet"
    plan.folder.mkdir(parents=True, exist_ok=True)
    (plan.folder / "boot.json").write_text("{}")
    (plan.folder / "ufs").mkdir(exist_ok=True)
    (plan.folder / "ufs/trace.dat").write_bytes(b"trace")
    base_boots.keep(plan)
    other = replace(plan, folder=tmp_path / "other/1")
    assert base_boots.take(other)
    found = {str(p.relative_to(other.folder)) for p in other.folder.rglob("*") if p.is_file()}
    assert found == {"boot.json", "ufs/trace.dat"}
    assert (other.folder / "ufs/trace.dat").read_bytes() == b"trace"


def test_fresh_boot_neither_takes_nor_gives(plan: BootPlan, tmp_path: Path) -> None:
    """What is compared with an earlier boot must really boot."""
    base_boots.keep(replace(plan, fresh=True))
    assert not base_boots.take(replace(plan, folder=tmp_path / "first"))
    base_boots.keep(plan)
    assert not base_boots.take(replace(plan, folder=tmp_path / "second", fresh=True))
    assert base_boots.take(replace(plan, folder=tmp_path / "second"))


def test_entry_that_was_changed_is_dropped(plan: BootPlan, tmp_path: Path) -> None:
    base_boots.keep(plan)
    (trace,) = (tmp_path / "cache/boots").glob("*/ufs/trace.dat")
    trace.write_bytes(b"other")
    other = replace(plan, folder=tmp_path / "other/1")
    assert not base_boots.take(other)
    assert not other.folder.exists()
    assert not trace.exists()


def test_other_kernel_job_qemu_or_boot_is_another_entry(
    plan: BootPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_boots.keep(plan)
    other = replace(plan, folder=tmp_path / "other/1")
    assert not base_boots.take(replace(other, job_sha256="2" * 64))
    assert not base_boots.take(replace(other, number=2))
    changed = tmp_path / "changed"
    changed.write_bytes(b"another kernel")
    assert not base_boots.take(replace(other, kernel=changed))
    monkeypatch.setattr(patched, "digest", lambda: "qemu-2")
    assert not base_boots.take(other)


def test_candidates_and_boards_that_are_not_exact_are_not_stored(
    plan: BootPlan, tmp_path: Path
) -> None:
    base_boots.keep(replace(plan, side="candidate"))
    base_boots.keep(replace(plan, board=load_board("virt-arm64-stock")))
    assert not list((tmp_path / "cache").glob("boots/*"))


def test_store_is_bounded(plan: BootPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base_boots, "LIMIT", 1000)
    for number in range(1, 20):
        base_boots.keep(replace(plan, number=number))
    sizes = [p.stat().st_size for p in (tmp_path / "cache/boots").rglob("*") if p.is_file()]
    assert 0 < sum(sizes) <= 1000
