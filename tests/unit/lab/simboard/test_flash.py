"""Writing partitions: what fits is written and nothing else, what does not fit is refused whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from iotoll_lab.simboard import gpt
from iotoll_lab.simboard.disks import Flash, FlashError

from iotoll.boards import sparse
from tests.unit.lab.simboard.test_sparse import BLOCK, image


def test_factory_table_is_on_the_disk(flash: Flash) -> None:
    assert [p.name for p in flash.partitions()] == ["boot", "system", "userdata"]


def test_raw_image_changes_its_partition_only(flash: Flash, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"\x5a" * (1 << 20))
    before = flash.read("system"), flash.read("userdata")
    assert flash.write("boot", path) == 1 << 20
    assert flash.read("boot") == path.read_bytes()
    assert (flash.read("system"), flash.read("userdata")) == before


def test_sparse_image_leaves_gaps_alone(flash: Flash, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"\x11" * 4 * BLOCK)
    flash.write("system", path)
    path.write_bytes(
        image((sparse.SKIP, 2, b""), (sparse.FILL, 1, bytes(4)), (sparse.RAW, 1, b"z" * BLOCK))
    )
    flash.write("system", path)
    assert flash.read("system")[: 4 * BLOCK] == b"\x11" * 2 * BLOCK + bytes(BLOCK) + b"z" * BLOCK


@pytest.mark.parametrize("packed", [False, True])
def test_too_large_image_changes_nothing(flash: Flash, tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "image"
    blocks = (1 << 20) // BLOCK + 1
    whole = b"x" * blocks * BLOCK
    path.write_bytes(image((sparse.RAW, blocks, whole), blocks=blocks) if packed else whole)
    before = flash.read("boot")
    with pytest.raises(FlashError, match="larger than the partition"):
        flash.write("boot", path)
    assert flash.read("boot") == before


def test_erased_partition_is_zero(flash: Flash, tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"x" * BLOCK)
    flash.write("boot", path)
    flash.erase("boot")
    assert not any(flash.read("boot"))
    assert flash.partitions()


def test_unknown_partition(flash: Flash, tmp_path: Path) -> None:
    with pytest.raises(FlashError, match="No such partition"):
        flash.write("vendor_boot", tmp_path / "image")


def test_new_partition_table(flash: Flash, tmp_path: Path) -> None:
    begin, _ = gpt.build([gpt.Partition("only", 1 << 20, 4 << 20)], 16 << 20, 4096)
    path = tmp_path / "ptable"
    path.write_bytes(begin)
    flash.write("ptable", path)
    assert [p.name for p in flash.partitions()] == ["only"]
    path.write_bytes(b"rubbish" * 4000)
    flash.write("ptable", path)
    assert flash.partitions() == [], "as on the board: no table, no partitions"
    flash.create()
    assert flash.partitions() == [], "what was flashed stays over a restart"


def test_disks_of_another_size_are_made_anew(flash: Flash) -> None:
    path = flash.folder / "lu3.img"
    path.write_bytes(b"")
    flash.create()
    assert len(flash.partitions()) == 3
