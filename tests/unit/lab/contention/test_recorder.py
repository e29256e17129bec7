"""What the plugin leaves is read whole, or refused; and it compiles."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from iotoll_lab.contention.recorder import RECORD, STORE, plugin, read_accesses

from iotoll.boards import patched
from iotoll.core.errors import InfrastructureError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One access, as struct record of accesses.c has it."""
    (tmp_path / "boot.accesses").write_bytes(
        (0x40001008).to_bytes(8, "little")
        + (0xFFFF000000001008).to_bytes(8, "little")
        + bytes([2, 0, 0, 0, 3, 8, STORE, 0])
    )
    np.array([1, 2, 3, 4, 5, 6], np.uint64).tofile(tmp_path / "boot.sites")
    np.array([7, 8], np.uint64).tofile(tmp_path / "boot.percpu")
    (tmp_path / "boot.json").write_text(json.dumps({"accesses": 1, "sites": 3}))
    return tmp_path


def test_records_are_read_as_they_were_written(folder: Path) -> None:
    found = read_accesses(folder)
    assert RECORD.itemsize == 24
    row = found.records[0]
    assert (row["physical"], row["address"]) == (0x40001008, 0xFFFF000000001008)
    assert (row["site"], row["cpu"], row["bytes"], row["kind"]) == (2, 3, 8, STORE)
    assert found.sites["word"].tolist() == [2, 4, 6]
    assert found.distances.tolist() == [7, 8]


def test_a_record_without_its_last_file_is_refused(folder: Path) -> None:
    (folder / "boot.json").unlink()
    with pytest.raises(InfrastructureError, match="left no whole record"):
        read_accesses(folder)


def test_a_record_that_was_cut_off_is_refused(folder: Path) -> None:
    (folder / "boot.json").write_text(json.dumps({"accesses": 2, "sites": 3}))
    with pytest.raises(InfrastructureError, match="is cut off"):
        read_accesses(folder)


def test_the_plugin_compiles_without_a_warning() -> None:
    if not (patched.folder() / "include/qemu-plugin.h").is_file():
        pytest.skip("the patched QEMU is not built: tools/qemu/build.sh")
    assert plugin().is_file()
