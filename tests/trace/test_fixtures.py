"""What the native module says of real traces, against stored expectations and its own rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iotoll import _native

DATA = Path(__file__).with_name("data")
SECTIONS = ("vfs_fs", "submission", "hardware", "completion", "return")


def brief(path: str) -> dict[str, Any]:
    """The record without its long lists."""
    record: dict[str, Any] = json.loads(_native.analyze(path, comm="fio", unit="instructions"))
    keep = {k: record[k] for k in ("trace", "device", "ios", "requests", "marks")}
    for name, section in record["sections"].items():
        keep[name] = {
            key: [section[key].get(field) for field in ("count", "min", "median", "p99", "max")]
            for key in ("elapsed", "own", "own_clean")
        }
        keep[name]["probe_events"] = {k: round(v, 6) for k, v in section["probe_events"].items()}
    keep["paths"] = {p["path"]: [p["ios"], p["clean"]] for p in record["paths"]}
    return keep


def everything() -> dict[str, Any]:
    """The brief record of all fixtures."""
    return {path.stem: brief(str(path)) for path in sorted(DATA.glob("*.dat"))}


def test_expected(trace: str) -> None:
    expected = json.loads((DATA / "expected.json").read_text())
    assert brief(trace) == expected[Path(trace).stem]


@pytest.mark.parametrize("device_mark", ["auto", "last_before"])
def test_counts_add_up(trace: str, device_mark: Any) -> None:
    record = json.loads(_native.analyze(trace, device_mark=device_mark))
    ios, requests = record["ios"], record["requests"]
    parts = ("measured", "no_request", "dropped_lost", "incomplete")
    assert ios["seen"] == sum(ios[part] for part in parts)
    parts = ("attributed", "helper", "unattributed", "in_flight")
    assert requests["seen"] == sum(requests[part] for part in parts)
    marked = requests["attributed"] + requests["helper"]
    assert sum(record["marks"]["device"].values()) == marked
    assert sum(record["marks"]["interrupt"].values()) == marked
    assert sum(path["ios"] for path in record["paths"]) == ios["measured"]
    for section in [*record["sections"].values(), record["overhead"], record["total"]]:
        assert section["elapsed"]["count"] == section["own"]["count"] == ios["measured"]
        assert section["own_clean"]["count"] == ios["clean"]
        for stats in section.values():
            for low, high, count in stats.get("histogram", []):
                assert low < high and count > 0
    assert record["unit"] == "ns"


def test_table_agrees_with_the_record(trace: str) -> None:
    record = json.loads(_native.analyze(trace, comm="fio"))
    table: dict[str, list[Any]] = dict(_native.io_table(trace, comm="fio"))  # type: ignore[arg-type]
    measured = record["ios"]["measured"]
    assert {len(column) for column in table.values()} == {measured}
    assert table["start"] == sorted(table["start"])
    assert sum(table["clean"]) == record["ios"]["clean"]
    assert all(type(flag) is bool for flag in table["clean"])
    for section in SECTIONS:
        for kind in ("elapsed", "own"):
            column, stats = table[f"{kind}_{section}"], record["sections"][section][kind]
            assert (min(column), max(column)) == (stats["min"], stats["max"])
            assert sorted(column)[-(-measured // 2) - 1] == stats["median"]
            assert sum(column) / measured == pytest.approx(stats["mean"])
            assert column.count(stats["mode"]) == stats["mode_count"]
            assert sum(row[2] for row in stats["histogram"]) == measured


def test_software_sections_of_clean_ios_are_all_own(trace: str) -> None:
    table: dict[str, list[Any]] = dict(_native.io_table(trace))  # type: ignore[arg-type]
    for row, clean in enumerate(table["clean"]):
        if clean and table["requests"][row] == 1:
            for section in ("vfs_fs", "submission", "completion", "return"):
                assert table[f"own_{section}"][row] == table[f"elapsed_{section}"][row]


def test_comm_selects() -> None:
    path = str(DATA / "ufs-probed.dat")
    assert json.loads(_native.analyze(path, comm="nobody"))["ios"]["seen"] == 0
    assert json.loads(_native.analyze(path, comm="nobody"))["sections"]["hardware"]["own"] == {
        "count": 0
    }


def test_device_selects() -> None:
    path = str(DATA / "ufs-probed.dat")
    by_name = _native.analyze(path, device="8:0")
    assert by_name == _native.analyze(path)
    other = json.loads(_native.analyze(path, device="259:0"))
    assert other["device"] == {"dev": "259:0", "driver": "nvme"}
    assert other["ios"]["measured"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "us"}, "use ns or instructions"),
        ({"device": "sda"}, "use major:minor"),
        ({"device_mark": "doorbell"}, "use auto or last_before"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(_native.TraceError, match=message):
        _native.analyze(str(DATA / "ufs-read.dat"), **options)


def test_errors_name_the_file(tmp_path: Path) -> None:
    cut = tmp_path / "cut.dat"
    cut.write_bytes((DATA / "ufs-read.dat").read_bytes()[:30000])
    for path in (cut, tmp_path / "missing.dat", Path(__file__)):
        for call in (_native.analyze, _native.io_table, _native.trace_info):
            with pytest.raises(_native.TraceError) as caught:
                call(str(path))
            assert str(caught.value).startswith(f"{path}: ")
            assert "\n" not in str(caught.value)
    assert issubclass(_native.TraceError, ValueError)


def test_markers_cut_a_batch_into_cells() -> None:
    path = str(DATA / "ufs-probed.dat")
    times = [(time, text) for time, text in _native.markers(path) if "cell" in text]
    assert [text.split()[-1] for _, text in times] == [
        "ufs-128k-seqwrite-t8-direct",
        "ufs-4k-randwrite-t8-sync",
    ]
    window = (times[0][0], times[1][0])
    cell = json.loads(_native.analyze(path, comm="fio", window=window))
    assert {path["path"] for path in cell["paths"]} <= {"WS128", "RA16", "R4"}


if __name__ == "__main__":
    text = json.dumps(everything(), indent=1, sort_keys=True)
    (DATA / "expected.json").write_text(text + "\n")
