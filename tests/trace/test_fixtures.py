"""What the native module says of real traces, against stored expectations and its own rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iotoll import _native
from tests.trace.native import analysed, in_windows, record_of, table_of

DATA = Path(__file__).with_name("data")
SECTIONS = ("vfs_fs", "submission", "hardware", "completion", "return")


def brief(path: str) -> dict[str, Any]:
    """The record without its long lists."""
    record = record_of(path, comm="fio", unit="instructions")
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
    record = record_of(trace, device_mark=device_mark)
    ios, requests = record["ios"], record["requests"]
    parts = ("measured", "no_request", "waited", "dropped_lost", "incomplete", "ambiguous")
    assert ios["seen"] == sum(ios[part] for part in parts)
    kinds = ("attributed", "helper", "unattributed", "in_flight")
    assert requests["seen"] == sum(requests[kind] for kind in kinds)
    marked = requests["attributed"] + requests["helper"]
    assert sum(record["marks"]["device"].values()) == marked
    assert sum(record["marks"]["interrupt"].values()) == marked
    assert sum(path["ios"] for path in record["paths"]) == ios["measured"]
    for section in [*record["sections"].values(), record["overhead"], record["total"]]:
        assert section["elapsed"]["count"] == ios["measured"]
        assert section["own"]["count"] == (ios["measured"] if "clean" in ios else 0)
        assert section["own_clean"]["count"] == ios.get("clean", 0)
        for stats in section.values():
            for low, high, count in stats.get("histogram", []):
                assert low < high and count > 0
    assert record["unit"] == "ns"


def test_table_agrees_with_the_record(trace: str) -> None:
    record, table = analysed(trace, comm="fio")
    measured = record["ios"]["measured"]
    assert {len(column) for column in table.values()} == {measured}
    assert table["start"] == sorted(table["start"])
    known = "own_unknown" not in record
    if known:
        assert sum(table["clean"]) == record["ios"]["clean"]
        assert all(type(flag) is bool for flag in table["clean"])
    for section in SECTIONS:
        for kind in ("elapsed", "own") if known else ("elapsed",):
            column, stats = table[f"{kind}_{section}"], record["sections"][section][kind]
            assert (min(column), max(column)) == (stats["min"], stats["max"])
            assert sorted(column)[-(-measured // 2) - 1] == stats["median"]
            assert sum(column) / measured == pytest.approx(stats["mean"])
            assert column.count(stats["mode"]) == stats["mode_count"]
            assert sum(row[2] for row in stats["histogram"]) == measured


def test_software_sections_of_clean_ios_are_all_own(trace: str) -> None:
    table = table_of(trace)
    for row, clean in enumerate(table.get("clean", [])):
        if clean and table["requests"][row] == 1:
            for section in ("vfs_fs", "submission", "completion", "return"):
                assert table[f"own_{section}"][row] == table[f"elapsed_{section}"][row]


def test_f2_7_without_sched_switch_own_times_are_not_known() -> None:
    record, table = analysed(DATA / "virtio-split-flush.dat")
    assert "sched_switch" not in record["trace"]["events"]
    assert record["own_unknown"] == "the trace has no sched_switch"
    assert record["ios"]["measured"] > 0 and "clean" not in record["ios"]
    parts = [*record["sections"].values(), record["overhead"], record["total"]]
    parts += [part for path in record["paths"] for part in path["sections"].values()]
    assert all(part["own"] == part["own_clean"] == {"count": 0} for part in parts)
    assert not any(name.startswith(("own_", "first_", "clean")) for name in table)


def test_f2_7_own_times_add_up_to_less_than_the_duration(trace: str) -> None:
    record, table = analysed(trace)
    own = [column for name, column in table.items() if name.startswith("own_")]
    assert bool(own) == ("own_unknown" not in record)
    # On one CPU, one thing runs at a time.
    if record["trace"]["cpus"] == 1:
        for row, start in enumerate(table["start"]):
            assert sum(column[row] for column in own) <= table["end"][row] - start


def test_comm_selects() -> None:
    record = record_of(DATA / "ufs-probed.dat", comm="nobody")
    assert record["ios"]["seen"] == 0
    assert record["sections"]["hardware"]["own"] == {"count": 0}


def test_device_selects() -> None:
    path = DATA / "ufs-probed.dat"
    assert analysed(path, device="8:0") == analysed(path)
    other = record_of(path, device="259:0")
    assert other["device"] == {"dev": "259:0", "driver": "nvme"}
    assert other["ios"]["measured"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "us"}, "use ns or instructions"),
        ({"device": "sda"}, "use major:minor"),
        ({"device_mark": "doorbell"}, "use auto or last_before"),
        ({"directions": ["up"]}, "use read, write, flush, discard or other"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(_native.TraceError, match=message):
        _native.analyze(str(DATA / "ufs-read.dat"), **options)


def test_errors_name_the_file(tmp_path: Path) -> None:
    cut = tmp_path / "cut.dat"
    cut.write_bytes((DATA / "ufs-read.dat").read_bytes()[:30000])
    for path in (cut, tmp_path / "missing.dat", Path(__file__)):
        for call in (_native.analyze, _native.trace_info):
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
    cell = record_of(path, comm="fio", windows=[(times[0][0], times[1][0])])
    assert {path["path"] for path in cell["paths"]} <= {"WS128", "RA16", "R4"}


def test_windows_together_are_what_each_is_alone(trace: str) -> None:
    table = table_of(trace)
    first, last = min(table["start"]), max(table["end"])
    step = (last - first) // 5
    # Some follow each other at once, one is empty, the last is behind the end.
    windows = [(first + n * step, first + (n + 1) * step) for n in (0, 1, 3, 4)]
    windows = [(0, first), *windows, (windows[-1][1], windows[-1][1]), (2 * last, 2**63)]
    together = in_windows(trace, windows)
    assert together == [part for window in windows for part in in_windows(trace, [window])]
    for (start, end), (_, part) in zip(windows, together, strict=True):
        assert all(start <= time < end for time in (*part["start"], *part["end"]))
    assert sum(record["ios"]["seen"] for record, _ in together) > 0
    assert in_windows(trace, []) == []
    with pytest.raises(_native.TraceError, match="stretches that follow each other in time"):
        in_windows(trace, [(first, last), (first, last)])


if __name__ == "__main__":
    text = json.dumps(everything(), indent=1, sort_keys=True)
    (DATA / "expected.json").write_text(text + "\n")
