"""A job's log: the console of a board that may say anything, and LAVA's own words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotoll.labs.lava.job_log import LINE_LIMIT, read_log, read_time


def line(level: str, message: object, at: str = "2026-11-21T20:02:00.5+00:00") -> str:
    return "- " + json.dumps({"dt": at, "lvl": level, "msg": message}) + "\n"


# As LAVA 2026.10 wrote it, with its own words between the console's.
RECORDED = (
    line("info", "start: 1 deployimages (timeout 00:05:00) [common]")
    + line("debug", "start: 1.1 lava-overlay (timeout 00:05:00) [common]")
    + line("results", {"definition": "lava", "case": "validate", "result": "pass"})
    + line("info", "start: 2 boot-image-retry (timeout 00:04:00) [common]", "2026-11-21T20:02:09Z")
    + line("target", "[    0.000000] Linux version 6.12.117")
    + line("target", "iotoll: step prepare")
    + line("error", "auto-login-action timed out after 240 seconds")
)


def test_log_is_sorted_by_who_speaks() -> None:
    log = read_log(RECORDED.encode())
    assert log.console == "[    0.000000] Linux version 6.12.117\niotoll: step prepare\n"
    assert log.lava == ["error: auto-login-action timed out after 240 seconds"]
    assert list(log.phases) == ["deploy", "boot"]
    assert (log.phases["boot"] - log.phases["deploy"]).total_seconds() == 8.5
    assert log.damaged == 0


@pytest.mark.parametrize(
    "text",
    [
        '- {"dt": "2026", "lvl": "target", "msg": ["a"]}',
        '- {"dt": "2026", "lvl": "target"}',
        '- {"dt": {"a": "b"}, "lvl": "info", "msg": "start: 1 x "}',
        "- [1, 2]",
        "- *unknown",
        '- {"lvl": "target", "msg": "cut off',
        "- !!python/object/apply:os.system ['true']",
        "- " + "[" * 5000,
        "- " + "x" * (LINE_LIMIT + 1),
    ],
)
def test_strange_lines_are_counted_and_left_out(text: str) -> None:
    log = read_log((text + "\n" + line("target", "after")).encode())
    assert log.damaged == 1
    assert log.console == "after\n"


def test_times_that_are_none() -> None:
    assert not read_log(line("info", "start: 1 deploy ", "yesterday").encode()).phases
    assert not read_log(line("info", f"start: {'9' * 5000} deploy ").encode()).phases
    assert read_time("2026-13-40T99") is None
    assert read_time(None) is None


def test_console_that_speaks_yaml_stays_text() -> None:
    evil = 'x"}\n- {"dt": "2026", "lvl": "error", "msg": "forged"}'
    log = read_log(line("target", evil).encode())
    assert log.lava == []
    assert log.console == evil + "\n"


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    read_log(data)
    read_log(b"- " + data)
