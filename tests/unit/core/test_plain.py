"""F6.7 and point 9: hostile text on a terminal, and what a bug of ours leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from iotoll.core.cli_support import guarded
from iotoll.core.errors import ResultError, UsageError
from iotoll.core.plain import is_plain_json, plain, plain_data, plain_log
from iotoll.records import results
from iotoll.records.models import FailureRecord, Outcome
from iotoll.run.opening import locked
from tests.unit.runs import make_run

HOSTILE = "a\x1b[2J\u202eb\x9b\u2066c\rd\x00"


def test_f6_7_control_and_bidirectional_characters_go() -> None:
    shown = plain(HOSTILE + "\n\tend")
    assert all(c in "\n\t\ufffd" or c.isprintable() for c in shown)
    assert shown.endswith("\n\tend")
    assert plain("Grüße, 日本語, עברית\r\n") == "Grüße, 日本語, עברית\n"
    assert "section_start:" not in plain_log("\x1b[0Ksection_start:1:a\r\x1b[0K")


def test_f6_7_no_document_of_ours_carries_them(tmp_path: Path) -> None:
    failure = FailureRecord(outcome=Outcome.BROKEN, step="b", message=HOSTILE, log_tail=HOSTILE)
    results.write(tmp_path / "failure.json", failure)
    found = results.read(tmp_path / "failure.json", FailureRecord)
    assert found.message == found.log_tail == plain(HOSTILE)


def test_f6_6_json_without_end_is_one_line(tmp_path: Path) -> None:
    for text in ("[" * 300_000, '{"a":' * 300_000, "9" * 5000):
        (tmp_path / "x.json").write_text(text)
        with pytest.raises(ResultError, match=r"x\.json") as caught:
            results.read(tmp_path / "x.json", FailureRecord)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


def test_p9_a_bug_leaves_a_report_and_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def buggy() -> None:
        raise ZeroDivisionError("of\nours \x1b[2J")

    argv, sys.argv = sys.argv, ["iotoll"]
    try:
        with pytest.raises(SystemExit) as caught:
            guarded(buggy)
    finally:
        sys.argv = argv
    assert caught.value.code == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert "Traceback" not in line and "\x1b" not in line
    assert line.startswith("iotoll: a bug of iotoll's: ZeroDivisionError: of ours")
    report = Path(line.rpartition(" ")[2])
    assert "Traceback" in report.read_text()
    report.unlink()


def test_f3_1_two_runs_of_one_folder_do_not_meet(tmp_path: Path) -> None:
    """F3.1: the first ended with exit 4, or wrote its failure into the other's."""
    run = make_run(tmp_path / "run")
    text = (
        "import sys, pathlib; from iotoll.records.rundir import RunDir;"
        " from iotoll.run.opening import locked; held = locked(RunDir(pathlib.Path(sys.argv[1])));"
        " held.__enter__(); print('held', flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", text, str(run.root)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdin is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(UsageError, match="another iotoll works on this run"), locked(run):
            pass
        other.kill()  # however it ends
        other.wait()
    with locked(run):
        pass


@pytest.mark.parametrize("char", [chr(n) for n in (*range(9), *range(11, 32), 127, 128, 0x202E)])
def test_json_that_plain_would_change_is_found_without_reading_it(char: str) -> None:
    for data in ({"a": [1, f"b{char}"]}, {f"a{char}": 1}):
        for is_ascii in (True, False):
            assert not is_plain_json(json.dumps(data, ensure_ascii=is_ascii))


def test_json_of_plain_text_is_plain() -> None:
    data = {"a": [1, 2.5, None, True], "b": 'a line\n\tof "text" / with signs: ~!@[]{}'}
    assert is_plain_json(json.dumps(data, indent=1)) and plain_data(data) == data
