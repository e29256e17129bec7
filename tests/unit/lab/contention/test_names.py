"""Data has the name of its symbol, or of its kind of memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iotoll_lab.contention.names import HEAP, STACK, STRUCT_PAGE, USER, DataNames

from iotoll.core.errors import InfrastructureError

MAP = """\
0000000000000040 a absolute
ffff800080000000 T _text
ffff800080010000 T _stext
ffff800080550000 D _etext
ffff800080690000 T __inittext_begin
ffff8000806c8e5c T __exittext_end
ffff800080900000 D jiffies_lock
ffff800080900040 d iotoll_counts
ffff800080a00000 D __per_cpu_start
ffff800080a00100 D runqueues
ffff800080a01000 D __per_cpu_end
ffff800080b00000 D __per_cpu_offset
ffff800080c00000 B _end
"""


@pytest.fixture
def names(tmp_path: Path) -> DataNames:
    path = tmp_path / "System.map"
    path.write_text(MAP)
    return DataNames.read(path)


def test_data_of_the_image_has_its_symbols_name(names: DataNames) -> None:
    assert names.name(0xFFFF800080900000) == "jiffies_lock"
    assert names.name(0xFFFF800080900058) == "iotoll_counts"
    assert names.distances_at() == 0xFFFF800080B00000
    assert names.code[0] == (0xFFFF800080010000, 0xFFFF800080550000)


def test_each_cpus_own_data_has_the_name_that_it_was_linked_with(names: DataNames) -> None:
    distance = (0xFFFF00003F000000 - 0xFFFF800080A00000) % (1 << 64)
    assert names.name(0xFFFF00003F000108) == HEAP
    known = replace(names, distances=(0, distance))
    assert known.name(0xFFFF00003F000108) == "per-CPU runqueues"
    assert known.name(0xFFFF00003F001000) == HEAP, "behind it"


def test_other_data_has_the_name_of_its_kind(names: DataNames) -> None:
    assert names.name(0x7FFFF000) == USER
    assert names.name(0xFFFF000001707018) == HEAP
    assert names.name(0xFFFF800083ABC000) == STACK
    assert names.name(0xFFFFFDFFC0012340) == STRUCT_PAGE


def test_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "System.map").write_text("hello\n")
    with pytest.raises(InfrastructureError, match=r"is not a System\.map"):
        DataNames.read(tmp_path / "System.map")
