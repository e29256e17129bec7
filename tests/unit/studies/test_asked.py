"""Asked against ran: published fio commands, and what fio's JSON says that they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.studies.asked import Check, Ran, checks, parse_command, read_fio, size_of

COMMAND = (
    "fio -direct=1 -iodepth 32 -thread -rw=read -ioengine=psync -bs=1024k -size=1G"
    " -numjobs=8 -runtime=180 -group_reporting"
)


def report(path: Path, way: str = "read", **options: str) -> Path:
    """fio's JSON as the article's run would have written it: 754 IOPS, 10.57 ms."""
    side: dict[str, Any] = {
        "total_ios": 8192,
        "io_bytes": 8192 << 20,
        "runtime": 10_865,
        "lat_ns": {"mean": 10_570_000.0},
        "clat_ns": {"mean": 10_570_000.0, "percentile": {"99.000000": 13_040_000}},
    }
    job = {
        "jobname": "cell",
        way: side,
        "job options": {"rw": way, "bs": "1024k", "size": "1g", "iodepth": "32", **options},
    }
    shared = {"ioengine": "psync", "direct": "1", "numjobs": "8"}
    data = {"timestamp_ms": 1_000, "global options": shared, "jobs": [job]}
    path.write_text("fio: a note\n" + json.dumps(data, indent=1))
    return path


def found(ran: Ran, command: str = COMMAND, requests: float | None = 7.83) -> dict[str, Check]:
    return {check.what: check for check in checks(parse_command(command), ran, requests)}


def test_the_articles_run_is_read(tmp_path: Path) -> None:
    ran = read_fio(report(tmp_path / "fio.json"))["cell"]
    told = found(ran)
    assert told["rw"].verdict == told["bs"].verdict == told["size"].verdict == "as asked"
    assert told["direction"].verdict == "as asked"
    assert (told["iodepth"].asked, told["iodepth"].verdict) == ("32", "differs")
    assert told["iodepth"].ran == "1: psync has one I/O in flight per job"
    assert told["I/Os in flight"].ran.startswith("7.97") and told["I/Os in flight"].asked == "8"
    assert told["I/Os in flight"].verdict == "as asked"
    assert told["area"].ran == "8.00 GiB of traffic over the same 1.00 GiB"
    assert told["area"].verdict == "differs"
    assert told["requests per I/O"].ran == "7.83, about 131 KiB each"
    assert told["end"].ran == "by size, after 10.9 s"
    assert told["bandwidth of the read"].ran == "754.0 MiB/s = 790.6 MB/s, 754 IOPS"
    assert told["the board's date"].ran == "before 2000: not used"


def test_a_log_of_the_other_direction_is_found(tmp_path: Path) -> None:
    ran = read_fio(report(tmp_path / "fio.json", "write"))["cell"]
    told = found(ran)
    assert (told["rw"].verdict, told["rw"].ran) == ("differs", "write")
    assert (told["direction"].asked, told["direction"].ran) == ("read", "write")
    assert told["direction"].verdict == "differs"
    assert "bandwidth of the write" in told


def test_little_and_the_end_by_time_are_judged(tmp_path: Path) -> None:
    ran = read_fio(report(tmp_path / "fio.json", ioengine="libaio"))["cell"]
    told = found(ran, COMMAND.replace("psync", "libaio").replace("=180", "=10"))
    assert told["iodepth"].verdict == "as asked"
    assert (told["I/Os in flight"].asked, told["I/Os in flight"].verdict) == ("256", "differs")
    assert (told["end"].ran, told["end"].verdict) == ("by run time, after 10.9 s", "as asked")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (COMMAND.replace("-rw=read ", "-rw=read-bs=1024k "), "bs= is merged into it"),
        (COMMAND + " -frobnicate=1", "'-frobnicate=1' is unknown"),
        (COMMAND + " -bs=4k", "'bs' is given twice"),
        (COMMAND.replace("1024k", "large"), "bs='large' has no valid value"),
        ("dd if=/dev/zero", "is not a fio command"),
        (COMMAND + " stray", "no valid value"),
    ],
)
def test_unknown_and_merged_words_are_refused(command: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_command(command)
    assert said in str(caught.value)


def test_sizes_are_fios() -> None:
    assert [size_of(text) for text in ("512", "4k", "1M", "2g")] == [512, 4096, 1 << 20, 2 << 30]


DEEP = '{\n"jobs": ' + "[" * 300_000
ENDLESS = '{\n"timestamp_ms": 1e400, "jobs": []}'


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{\n"jobs": [{}]}', '{\n"jobs": 5}', DEEP, ENDLESS]
)
def test_what_is_not_fios_json_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "fio.json"
    path.write_text(text)
    with pytest.raises(InfrastructureError, match="not fio's JSON"):
        read_fio(path)
