"""The product against the second analyser (``independent.py``): each I/O of every trace."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.trace.independent_drivers import analysed
from tests.trace.native import table_of

DATA = Path(__file__).with_name("data")
TRACES = {path.stem: path for path in sorted(DATA.rglob("*.dat"))}
SECTIONS = ("vfs_fs", "submission", "hardware", "completion", "return")
FLUSH = "several bios wait for one flush: their ends (no sectors) do not say which of them it was"
WORKER = "a worker thread of io_uring submits the bio: the second analyser does not follow those"
KNOWN: dict[str, tuple[int, str]] = {
    "5.10-x86_64-nvme-uring": (6, WORKER),
    "6.1-x86_64-nvme-uring": (1, WORKER),
    "6.1-x86_64-nvme-uring_fsync": (2, WORKER),
    "6.12-arm64-nvme-uring": (1, WORKER),
    "7.3-arm64-virtio-blk-uring": (12, WORKER),
    "7.3-x86_64-nvme-uring": (7, WORKER),
    "7.3-x86_64-ufs-uring": (4, WORKER),
    "nvme-write-sync-8": (4, FLUSH),
}
"""Traces with I/Os that the two tell differently: how many, and why."""


def differences(path: Path) -> list[str]:
    """I/Os that only one of them finds, or that have other ends or sections."""
    table = table_of(path)
    keys = list(zip(table["pid"], table["start"], table["op"], strict=True))
    columns = [table[f"elapsed_{section}"] for section in SECTIONS]
    product = dict(zip(keys, zip(table["end"], *columns, strict=True), strict=True))
    second = {(io.pid, io.start, io.op): (io.end, *io.lengths) for io in analysed(path)}
    both = product.keys() | second.keys()
    return [
        f"{key}: product {product.get(key)}, second analyser {second.get(key)}"
        for key in sorted(both)
        if product.get(key) != second.get(key)
    ]


@pytest.mark.skipif(not shutil.which("trace-cmd"), reason="needs trace-cmd to print the traces")
@pytest.mark.parametrize("name", TRACES)
def test_both_agree_on_every_io(name: str) -> None:
    found = differences(TRACES[name])
    allowed, reason = KNOWN.get(name, (0, ""))
    assert len(found) == allowed, "\n".join([reason, *found[:5]])
