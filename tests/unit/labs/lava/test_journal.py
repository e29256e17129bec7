"""The journal: whatever was killed wherever, the next process knows what was meant and done."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError, ResultError
from iotoll.labs.lava.journal import NAME, open_journal, read_journal


def filled(folder: Path) -> str:
    """A journal with a boot that failed once, is with LAVA again, and one not submitted."""
    with open_journal(folder) as journal:
        first = journal.intend("base/1", journal.next_key("base/1"), "in")
        journal.submitted(first, 7)
        journal.ended(first, "infrastructure", "worker lost")
        second = journal.intend("base/1", journal.next_key("base/1"), "in")
        journal.submitted(second, 8)
        journal.intend("candidate/1", journal.next_key("candidate/1"), "in")
        return journal.run


def test_what_was_noted_is_read(tmp_path: Path) -> None:
    run = filled(tmp_path)
    with open_journal(tmp_path) as journal:
        assert journal.run == run
        assert [(a.key, a.number, a.outcome) for a in journal.attempts] == [
            (f"{run}-base-1-1", 7, "infrastructure"),
            (f"{run}-base-1-2", 8, None),
            (f"{run}-candidate-1-1", None, None),
        ]
        assert journal.of("base/1")[0].why == "worker lost"
        assert journal.next_key("base/1") == f"{run}-base-1-3"


def test_runs_have_keys_of_their_own(tmp_path: Path) -> None:
    assert filled(tmp_path / "a") != filled(tmp_path / "b")


def test_every_length_that_a_kill_can_leave(tmp_path: Path) -> None:
    filled(tmp_path / "whole")
    data = (tmp_path / "whole" / NAME).read_bytes()
    for size in range(len(data) + 1):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / NAME).write_bytes(data[:size])
        with open_journal(folder) as journal:
            whole = data[:size].count(b"\n")
            noted = max(whole - 1, 0)  # the first line names the run
            assert len(journal.attempts) == [0, 1, 1, 1, 2, 2, 3][noted]
            attempt = journal.intend("base/2", journal.next_key("base/2"), "in")
        assert read_journal(folder / NAME).attempts[-1] == attempt


@pytest.mark.parametrize(
    "text",
    [
        '{"event":"intend","key":"k","boot":"b","inputs":"i"}\n',
        '{"event":"run","run":"r"}\n{"event":"submitted"}\n',
        '{"event":"run","run":"r"}\n{"event":"strange","key":"k"}\n',
        '{"event":"run","run":"r"}\nnonsense\n',
        '{"event":"run","run":"r"}\n[]\n',
        '{"event":"run","run":"r"}\n{"event":"submitted","key":"unknown","number":1}\n',
    ],
)
def test_damaged_journal_is_not_guessed_at(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ResultError, match="the journal is damaged"), open_journal(tmp_path):
        pass


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff\xfe\n")
    with pytest.raises(ResultError, match="damaged"), open_journal(tmp_path):
        pass


def test_two_processes_do_not_share_it(tmp_path: Path) -> None:
    with (
        open_journal(tmp_path / "run/lava"),
        pytest.raises(InfrastructureError, match=r"another iotoll works on .*run: wait"),
        open_journal(tmp_path / "run/lava"),
    ):
        pass
    with open_journal(tmp_path / "run/lava"):
        pass
