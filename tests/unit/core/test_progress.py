"""What is shown while work goes on: lines off a terminal, bars on one, nothing when quiet."""

from __future__ import annotations

import io
import sys
import threading
import time

import pytest
from rich.console import Console

from iotoll.core.progress import Progress


def shown(terminal: bool, quiet: bool = False, seconds: float = 0, fail: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80, color_system=None)
    progress = Progress(quiet, console)
    try:
        with progress.step("build [b]base[/b]", 10) as step:
            step.update(3, note="o [3]")
            with progress.step("inner"):
                time.sleep(seconds)
            if fail:
                raise ValueError
    except ValueError:
        pass
    progress.say("at the end [x]")
    return stream.getvalue()


def test_off_a_terminal_a_line_at_the_start() -> None:
    assert shown(False).splitlines() == ["build [b]base[/b] ...", "inner ...", "at the end [x]"]


def test_slow_steps_say_how_long() -> None:
    assert "inner: done in 1." in shown(False, seconds=1.05)


def test_failed_steps_say_so() -> None:
    assert "build [b]base[/b]: failed after 0.0 s" in shown(False, fail=True)


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_is_silent(terminal: bool) -> None:
    assert shown(terminal, quiet=True, fail=True) == ""


def test_on_a_terminal_bars_show_title_and_note_as_they_are() -> None:
    text = shown(True, seconds=0.3)
    assert "o [3]" in text
    assert "at the end [x]" in text
    assert "build [b]base[/b]" in text


def test_steps_of_several_threads_share_one_display() -> None:
    """Two displays at once left standard output to the one that was gone: an answer was lost."""
    progress = Progress(console=Console(file=io.StringIO(), force_terminal=True, width=80))
    before, interval = sys.stdout, sys.getswitchinterval()

    def steps() -> None:
        for _ in range(20):
            with progress.step("boot"):
                pass

    threads = [threading.Thread(target=steps) for _ in range(8)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sys.stdout is before and progress._bars is None
    finally:
        sys.setswitchinterval(interval)
        sys.stdout = before
