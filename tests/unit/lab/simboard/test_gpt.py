"""Partition tables: what is built is parsed again, and read by util-linux; damage is found."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from iotoll_lab.simboard import gpt, profile

DISK = 64 << 20
PARTS = [gpt.Partition("boot", 1 << 20, 8 << 20), gpt.Partition("system", 9 << 20, 32 << 20)]


def disk(block: int, parts: list[gpt.Partition] = PARTS) -> bytearray:
    begin, end = gpt.build(parts, DISK, block)
    return bytearray(begin + bytes(DISK - len(begin) - len(end)) + end)


def parsed(data: bytes | bytearray, block: int) -> list[gpt.Partition]:
    return gpt.parse(lambda at, size: bytes(data[at : at + size]), DISK, block)


@pytest.mark.parametrize("block", [512, 4096])
def test_what_is_built_is_parsed(block: int) -> None:
    assert parsed(disk(block), block) == PARTS


def test_same_table_same_bytes() -> None:
    assert disk(4096) == disk(4096)


def test_util_linux_finds_nothing_wrong(tmp_path: Path) -> None:
    if shutil.which("sfdisk") is None:
        pytest.skip("sfdisk is not installed (apt-get install fdisk)")
    path = tmp_path / "disk"
    path.write_bytes(disk(512))
    words = ["sfdisk", "--json", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    table = json.loads(done.stdout)["partitiontable"]
    found = [(p["name"], p["start"] * 512, p["size"] * 512) for p in table["partitions"]]
    assert found == [(p.name, p.start, p.size) for p in PARTS]
    verified = subprocess.run(
        ["sfdisk", "--verify", str(path)], capture_output=True, text=True, check=True
    )
    assert "No errors detected" in verified.stdout


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (4096, "no GPT"),
        (4096 + 40, "header is corrupt"),
        (8192 + 60, "entries are corrupt"),
    ],
)
def test_damage_is_found(at: int, words: str) -> None:
    data = disk(4096)
    data[at] ^= 1
    with pytest.raises(gpt.TableError, match=words):
        parsed(data, 4096)


def test_empty_disk_has_no_table() -> None:
    with pytest.raises(gpt.TableError, match="no GPT"):
        parsed(bytes(DISK), 4096)


@pytest.mark.parametrize(
    "bad",
    [
        gpt.Partition("first", 4096, 1 << 20),
        gpt.Partition("odd", (1 << 20) + 1, 1 << 20),
        gpt.Partition("long", 1 << 20, DISK),
    ],
)
def test_partition_that_does_not_fit_is_refused(bad: gpt.Partition) -> None:
    with pytest.raises(gpt.TableError, match=bad.name):
        gpt.build([bad], DISK, 4096)


def test_table_of_the_simulated_hikey960_is_the_real_one() -> None:
    kind = profile.load("hikey960")
    begin, _ = gpt.build(kind.partitions, kind.disk("lu3").size, kind.block)
    found = gpt.parse(lambda at, size: begin[at : at + size], kind.disk("lu3").size, kind.block)
    sizes = {p.name: p.size >> 20 for p in found}
    assert sizes["boot"] == 64
    assert sizes["system"] == 4688
    assert [p.name for p in found].index("system") + 1 == 10, "/dev/sdd10 on the real board"
    assert [p.name for p in found].index("userdata") + 1 == 13
