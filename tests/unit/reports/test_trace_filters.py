"""Filters: words in, the same I/Os for every output, and errors in one line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll.core.errors import UsageError
from iotoll.records.models import Clock
from iotoll.reports.trace.filters import (
    DIRECTIONS,
    FOREVER,
    Filters,
    device_names,
    parse_size,
    resolve_device,
)
from iotoll.reports.trace.reader import load
from tests.unit.runs import BOOTS
from tests.unit.tables import SPLIT, SYNC8

UFS = BOOTS / "base/ufs/trace.dat"


def test_rows_are_chosen() -> None:
    table = only(comm="fio").table
    pid = int(table["pid"][0])
    some = only(comm="fio", pids=(pid,), directions=("write",)).table
    assert 0 < len(some) < len(table)
    assert set(some["pid"]) == {pid} and set(some["direction"]) == {"write"}
    assert len(only(comm="fio", pids=tuple(set(table["pid"].tolist()))).table) == len(table)
    assert len(only(comm="fio", min_size=4097).table) == 0
    assert len(only(comm="fio", min_size=4096, max_size=4096).table) == len(table)


@pytest.mark.parametrize("path", [SPLIT, SYNC8])
def test_directions_part_the_ios(path: Path) -> None:
    whole = Counter(only(path).table["direction"].tolist())
    assert len(whole) > 1
    for direction in DIRECTIONS:
        cell = only(path, directions=(direction,))
        assert cell.record.ios["selected"] == len(cell.table) == whole[direction]
        assert set(cell.table["direction"]) <= {direction}
    assert len(only(path, directions=DIRECTIONS).table) == whole.total()


@pytest.mark.parametrize(
    ("window", "span"),
    [
        (("1", "2.5"), (1_000_000_000, 2_500_000_000)),
        (("+0", "+0.000001"), (7, 1_007)),
        (("0", "+1"), (0, 1_000_000_007)),
        (("12.000000001", "13"), (12_000_000_001, 13_000_000_000)),
    ],
)
def test_windows(window: tuple[str, str], span: tuple[int, int]) -> None:
    assert Filters(window=window).span(7) == span
    assert Filters().span(7) == (0, FOREVER)


@pytest.mark.parametrize(
    "window", [("a", "2"), ("-1", "2"), ("1", "nan"), ("1", "inf"), ("2", "2")]
)
def test_wrong_windows(window: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="--window"):
        Filters(window=window).span(0)


def test_sizes() -> None:
    found = [parse_size("--min-size", t) for t in ("0", "4k", "4KiB", "1M", "2g", None)]
    assert found == [0, 4096, 4096, 1 << 20, 2 << 30, None]
    for text in ("", "4x", "-1", "1.5k"):
        with pytest.raises(UsageError, match="--max-size"):
            parse_size("--max-size", text)


def test_devices_have_the_names_that_the_board_gave() -> None:
    assert {resolve_device(n, UFS) for n in ("ufs", "sda", "/dev/sda", "8:0")} == {"8:0"}
    assert resolve_device(None, UFS) is None
    assert device_names(SPLIT) == {}
    with pytest.raises(UsageError, match=r"--device sdb: is not a device.*known here: .*sda"):
        resolve_device("sdb", UFS)
    with pytest.raises(UsageError, match=r"--device nosuch: is not a device[^;]*$"):
        resolve_device("nosuch", SPLIT)
    assert resolve_device("sdb1", SPLIT) == "8:17"


def test_described_as_typed() -> None:
    filters = Filters("8:0", "fio", (1, 2), ("+1", "+2"), ("read",), 0, 4096)
    assert filters.described() == {
        "--device": "8:0",
        "--comm": "fio",
        "--pid": "1,2",
        "--window": "+1 +2",
        "--direction": "read",
        "--min-size": "0",
        "--max-size": "4096",
    }
    assert Filters().described() == {}


def only(path: Path = SYNC8, **filters: Any) -> Any:
    (cell,) = load(path, Clock.TIME, Filters(**filters))
    return cell


def test_record_and_table_hold_the_same_ios() -> None:
    whole = only()
    pid = int(whole.table["pid"][0])
    cell = only(pids=(pid,))
    assert cell.record.ios["selected"] == len(cell.table) == 128
    assert cell.record.ios["seen"] == whole.record.ios["seen"]
    assert cell.record.total.elapsed.count == 128
    assert cell.record.total.elapsed.max == cell.table.duration.max()
    assert cell.record.filters == {"--pid": str(pid)}


def test_a_window_is_cut_before_the_analysis() -> None:
    whole = only()
    start = whole.table["start"]
    middle = int(np.median(start))
    seconds = (f"{middle / 1e9:.9f}", "1e9")
    cell = only(window=seconds)
    assert 0 < len(cell.table) < len(whole.table)
    assert cell.table["start"].min() >= middle


def test_a_window_outside_leaves_nothing() -> None:
    cell = only(window=("0", "0.5"))
    assert len(cell.table) == 0 and cell.record.total.elapsed.count == 0


def test_cells_follow_the_markers() -> None:
    names = [c.record.cell for c in load(UFS, Clock.INSTRUCTIONS, Filters(comm="fio"))]
    assert names[:2] == ["ufs-4k-randread-t1-direct", "ufs-4k-randread-t1-sync"]
    assert load(BOOTS / "base/calibration-ufs/trace.dat", Clock.INSTRUCTIONS, Filters()) == []


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        only(tmp_path / "absent.dat")
    (tmp_path / "text.dat").write_text("hello")
    with pytest.raises(UsageError, match=r"text\.dat"):
        only(tmp_path / "text.dat")


def others(fio: Path, folder: Path) -> Path:
    """The same result with other names of jobs."""
    made = folder / "others.json"
    made.write_text(fio.read_text().replace('"jobname": "', '"jobname": "other-'))
    return made


def test_fio_of_other_jobs_does_not_agree(tmp_path: Path) -> None:
    fio = BOOTS / "base/ufs/fio.json"
    other = tmp_path / "other.json"
    other.write_text(fio.read_text().replace("ufs-4k", "nvme-4k"))
    with pytest.raises(UsageError, match="none of its jobs is called like a cell: ufs-4k-randread"):
        load(UFS, Clock.INSTRUCTIONS, Filters(), other)
    (one,) = load(SYNC8, Clock.TIME, Filters(), fio)  # one cell: whatever its jobs are called
    assert one.record.fio_check and not one.record.fio_check.agrees
    cells = load(UFS, Clock.INSTRUCTIONS, Filters(comm="fio"), fio)
    assert all(c.record.fio_check and c.record.fio_check.agrees for c in cells[:2])
    with pytest.raises(UsageError, match="none of its jobs is called like a cell: ufs"):
        load(UFS, Clock.INSTRUCTIONS, Filters(), others(fio, tmp_path))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UsageError, match=r"bad\.json: not fio's JSON"):
        load(UFS, Clock.INSTRUCTIONS, Filters(), tmp_path / "bad.json")
