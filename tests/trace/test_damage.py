"""A page of a real trace that is damaged, or lost, changes only the I/Os that touch its time."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.trace.conftest import DATA, as_version_6
from tests.trace.native import in_windows, table_of
from tests.trace.plain import parts_of, stamp

NAMES = (
    "virtio-split-flush",
    "kernels/6.12-arm64-nvme-threads",
    "kernels/6.12-arm64-ufs-fsync",
    "kernels/7.3-arm64-sd-libaio",
    "kernels/6.1-x86_64-nvme-libaio",
)
MISSED = 1 << 31
Row = dict[str, Any]


def rows(path: Path) -> dict[tuple[int, int], Row]:
    """The measured I/Os by task and start."""
    table = table_of(path)
    made = (dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
    return {(row["pid"], row["start"]): row for row in made}


def without(data: bytes, page: int, following: int | None) -> bytes:
    """The file with a page that is nonsense; or with one that the kernel overwrote, if the next
    page is named."""
    hurt = bytearray(data)
    if following is None:
        hurt[page + 8 : page + 16] = b"\xff" * 8
        return bytes(hurt)
    hurt[page + 8 : page + 16] = (0).to_bytes(8, "little")
    commit = int.from_bytes(hurt[following + 8 : following + 16], "little") | MISSED
    hurt[following + 8 : following + 16] = commit.to_bytes(8, "little")
    return bytes(hurt)


@pytest.mark.parametrize("kind", ["damaged", "overwritten"])
@pytest.mark.parametrize("name", NAMES)
def test_only_what_touches_the_page_changes(
    trace_cmd: str, name: str, kind: str, tmp_path: Path
) -> None:
    plain = as_version_6(DATA / f"{name}.dat", tmp_path)
    data = plain.read_bytes()
    whole = rows(plain)
    assert whole == rows(DATA / f"{name}.dat")
    hurt = tmp_path / "hurt.dat"
    dropped = 0
    for cpu in parts_of(data).pages:
        spans = list(pairwise([*cpu, None]))
        for number, (page, following) in enumerate(spans[1:-1:3], 1):
            assert page is not None and following is not None
            hurt.write_bytes(without(data, page, following if kind == "overwritten" else None))
            before = spans[(number - 1) * 3][0]
            assert before is not None
            # The gap begins with the last event of the page before.
            gap = (stamp(data, before), stamp(data, following))
            found = rows(hurt)
            outside = {
                key: row
                for key, row in whole.items()
                if (row["reaped"] or row["end"]) < gap[0] or row["start"] > gap[1]
            }
            for key, row in outside.items():
                # Whose turn it is in the ring does not show after a gap: not known, never another.
                later = row["op"] == "io_submit" and row["start"] > gap[1]
                rows_allowed = [row, {**row, "reaped": None}] if later else [row]
                assert found.get(key) in rows_allowed
            for key in (found.keys() & whole.keys()) - outside.keys():
                # The call that took the completion may be what is missing.
                assert {**found[key], "reaped": None} == {**whole[key], "reaped": None}
            dropped += len(whole) - len(found)
    assert dropped > 0


@pytest.mark.parametrize("name", NAMES)
def test_a_gap_counts_in_every_window_that_it_touches(
    trace_cmd: str, name: str, tmp_path: Path
) -> None:
    data = as_version_6(DATA / f"{name}.dat", tmp_path).read_bytes()
    hurt = tmp_path / "hurt.dat"
    for cpu in parts_of(data).pages:
        for page, following in list(pairwise(cpu))[1:-1:4]:
            hurt.write_bytes(without(data, page, None))
            first, last = stamp(data, page), stamp(data, following)
            middle = (first + last) // 2
            windows = [(0, first), (first, middle), (middle, last), (last, 2**63)]
            together = in_windows(hurt, windows)
            assert together == [part for w in windows for part in in_windows(hurt, [w])]
            losses = [record["trace"]["lost_ranges"] for record, _ in together]
            assert losses == [1, 1, 1, 0]
