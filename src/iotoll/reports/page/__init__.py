"""The report: a pure function of the result files in a run directory.

`render_report` writes ``RUN/report/index.html`` (one file, no network), the same as plain text, and
``RUN/findings.json``; `terminal_report` prints the first screen, or all of it.

Both import the page's parts when they run: `iotoll analyze` uses small modules of this package,
and has a limit of memory.
"""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from iotoll.records import results
from iotoll.records.rundir import RunDir

TEXT_WIDTH = 80

__all__ = ["render_report", "terminal_report"]


def render_report(run: RunDir) -> Path:
    """Write ``report/index.html`` and ``report/report.txt``; return the path of the page."""
    # Whoever only analyses a trace does without what pages are made with.
    from iotoll.reports.page.evidence import gather
    from iotoll.reports.page.findings import record_of
    from iotoll.reports.page.html import page_html
    from iotoll.reports.page.terminal import print_report

    evidence = gather(run)
    stream = io.StringIO()
    console = Console(file=stream, width=TEXT_WIDTH, color_system=None, force_terminal=False)
    print_report(evidence, console)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    results.write_text(run.report / "report.txt", "\n".join(lines) + "\n")
    if evidence.verdict is not None:
        results.write(run.findings, record_of(evidence))
    page = run.report / "index.html"
    results.write_text(page, page_html(evidence))
    return page


def terminal_report(run: RunDir, console: Console, full: bool = False) -> None:
    """Print a run's first screen, or with ``full`` the whole report; made for 80 columns."""
    # As above: what pages are made with is imported where one is made.
    from iotoll.reports.page.evidence import gather
    from iotoll.reports.page.terminal import print_report, print_screen

    show = print_report if full else print_screen
    show(gather(run), console)
