"""The analyser's table as numpy columns, as it is and with every column it may have."""

from __future__ import annotations

import numpy as np

from iotoll.measure.iotable import COLUMNS, from_native, present
from iotoll.records.models import Section
from tests.unit.tables import full, full_table, raw


def test_columns_keep_their_values() -> None:
    native = full()
    table = from_native(native)
    known = {c.name: c for c in COLUMNS}
    assert set(native) <= set(known)
    for name, values in native.items():
        if name in ("reaped", "at_sched_in"):
            assert not table.has(name), "a column without any value is absent"
            continue
        column = table[name]
        if known[name].optional:
            shown = [v if ok else None for v, ok in zip(column, present(column), strict=True)]
            assert shown == values
        else:
            assert column.tolist() == values


def test_sections_add_up_to_the_end() -> None:
    table = full_table()
    assert (table["end"] == table.end).all()
    assert (table.duration == sum(table.elapsed(s) for s in Section)).all()
    assert table.own(Section.VFS_FS).dtype == np.int64


def test_absent_columns_are_told() -> None:
    table = from_native(raw())
    for name in set(full()) - set(raw()):
        assert not table.has(name)
        assert table.get(name) is None


def test_rows_are_taken_by_mask_and_by_index() -> None:
    table = full_table()
    picked = table.take(table["pid"] == table["pid"][0])
    assert 0 < len(picked) < len(table)
    assert set(picked["pid"]) == {table["pid"][0]}
    assert table.take(np.array([3, 1]))["start"].tolist() == table["start"][[3, 1]].tolist()


def test_numbers_beyond_signed_ones_fit_sectors() -> None:
    native = full()
    native["sector"] = [2**64 - 1, *native["sector"][1:]]
    assert int(from_native(native)["sector"][0]) == 2**64 - 1


def test_a_table_without_ios() -> None:
    empty = from_native({name: [] for name in full()})
    assert len(empty) == 0 and empty.duration.tolist() == []
