"""A lab's own board file, for a board of which mainline has no device tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.digest import file_sha256
from iotoll.records import results
from iotoll.records.models import BuildRecord
from iotoll.records.rundir import SIDES, RunDir
from tests.unit.boardfiles import fake_dtb, fake_image
from tests.unit.test_cli import Done, Iotoll

CELL = "emmc-4k-randread-t1-direct"


@pytest.fixture
def iotoll(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iotoll:
    return Iotoll(monkeypatch, capsys)


def gate(iotoll: Iotoll, folder: Path, board: str | Path) -> Done:
    """Begin a run of two ready-made kernels, up to the build."""
    for side in SIDES:
        (folder / side).write_bytes(fake_image() + side.encode())
    words: list[str | Path] = [
        "--base-image",
        folder / "base",
        "--candidate-image",
        folder / "candidate",
    ]
    words += ["--runner", "lava", "--lab", "example", "--matrix", "ok3576-c", "--cells", CELL]
    words += ["--board", board, "--out", folder / "run", "--until", "build", "--quiet"]
    return iotoll("gate", *words)


def own_board(folder: Path, name: str = "ok3576-c") -> Path:
    path = folder / f"{name}.toml"
    path.write_text('extends = "ok3576-c"\ndtb = "vendor.dtb"\n')
    return path


def test_both_kernels_get_the_vendor_s_device_tree(iotoll: Iotoll, tmp_path: Path) -> None:
    tree = fake_dtb("rockchip,rk3576")
    (tmp_path / "vendor.dtb").write_bytes(tree)
    done = gate(iotoll, tmp_path, own_board(tmp_path))
    assert done.returncode == 0, done.stderr
    for side in SIDES:
        build = RunDir.open(tmp_path / "run").build(side)
        record = results.read(build / "build.json", BuildRecord)
        assert record.dtbs == {"vendor.dtb": file_sha256(tmp_path / "vendor.dtb")}
        assert (build / "vendor.dtb").read_bytes() == tree


def test_board_itself_has_none(iotoll: Iotoll, tmp_path: Path) -> None:
    done = gate(iotoll, tmp_path, "ok3576-c")
    assert done.returncode == 2
    assert "mainline Linux has no device tree for it" in done.stderr


def test_device_tree_of_another_board(iotoll: Iotoll, tmp_path: Path) -> None:
    (tmp_path / "vendor.dtb").write_bytes(fake_dtb("raspberrypi,4"))
    done = gate(iotoll, tmp_path, own_board(tmp_path))
    assert done.returncode == 2
    assert "its device tree is not for rockchip,rk3576" in done.stderr


def test_lab_must_know_the_board_file_by_its_name(iotoll: Iotoll, tmp_path: Path) -> None:
    (tmp_path / "vendor.dtb").write_bytes(fake_dtb("rockchip,rk3576"))
    done = gate(iotoll, tmp_path, own_board(tmp_path, "other"))
    assert done.returncode == 2
    assert "lab example has no board other; it has: hikey960, " in done.stderr
