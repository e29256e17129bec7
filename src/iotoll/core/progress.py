"""What the user sees while work goes on: one line a step, a live bar, or nothing (``--quiet``).

Steps take a `Progress` and never print by themselves. All of it goes to standard error, so that
``--json`` output on standard output stays clean.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from iotoll.core.plain import plain


class Step:
    """A running step: ``update`` sets how far it is and what it does now."""

    def __init__(self, bars: RichProgress | None, task: TaskID | None) -> None:
        self._bars = bars
        self._task = task
        self.note = ""

    def update(
        self, completed: float | None = None, total: float | None = None, note: str = ""
    ) -> None:
        """Set absolute progress (any unit) and a short note of what is being done."""
        self.note = note or self.note
        if self._bars is not None and self._task is not None:
            self._bars.update(self._task, completed=completed, total=total, note=note or self.note)


class Progress:
    """Shows steps on standard error; on a terminal with live bars, else a line at start and end."""

    def __init__(self, quiet: bool = False, console: Console | None = None) -> None:
        self.quiet = quiet
        self.console = console or Console(stderr=True)
        self._bars: RichProgress | None = None
        self._depth = 0
        self._turn = threading.Lock()  # steps may be other threads'

    def say(self, text: str) -> None:
        """Print one line (rich markup is not interpreted)."""
        if not self.quiet:
            self.console.print(plain(text), markup=False, highlight=False)

    @contextmanager
    def step(self, title: str, total: float | None = None) -> Iterator[Step]:
        """Show a step while the body runs; prints its duration when it took over a second."""
        if self.quiet:
            yield Step(None, None)
            return
        live = self.console.is_terminal
        if not live:
            self.say(f"{title} ...")
        started = time.monotonic()
        bars = self._enter() if live else None
        task = bars.add_task(title, total=total, note="") if bars else None
        failed = True
        try:
            yield Step(bars, task)
            failed = False
        finally:
            if bars and task is not None:
                bars.remove_task(task)
            if live:
                self._leave()
            seconds = time.monotonic() - started
            mark = "failed after" if failed else "done in"
            if seconds >= 1 or failed:
                self.say(f"{title}: {mark} {seconds:.1f} s")

    def _enter(self) -> RichProgress:
        with self._turn:
            if self._bars is None:
                self._bars = RichProgress(
                    SpinnerColumn(),
                    TextColumn("{task.description}", markup=False),
                    BarColumn(bar_width=24),
                    TextColumn("{task.fields[note]}", markup=False),
                    TimeElapsedColumn(),
                    console=self.console,
                    transient=True,
                )
                self._bars.start()
            self._depth += 1
            return self._bars

    def _leave(self) -> None:
        with self._turn:
            self._depth -= 1
            if self._depth == 0 and self._bars is not None:
                self._bars.stop()
                self._bars = None
