"""The report of every kind of run, as text: what the page says, and what the terminal shows."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser

import pytest
from rich.console import Console

from iotoll.records.rundir import RunDir
from iotoll.reports.page import render_report, terminal_report
from tests.golden.report_builder import FOLDER
from tests.golden.report_cases import CASES

NAMES = sorted(path.name for path in FOLDER.iterdir())


class _Reader(HTMLParser):
    """What a reader meets, in order: block elements on lines of their own, style left out."""

    BLOCKS = frozenset(("p", "h1", "h2", "h3", "tr", "div", "li", "summary", "pre", "figcaption"))

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "style":
            self.silent += 1
        if tag in ("h1", "h2", "h3"):
            self.parts.append("\n" + "#" * int(tag[1]) + " ")
        elif tag == "svg":
            self.parts.append("\n[figure] ")
        elif tag in self.BLOCKS:
            self.parts.append("\n")
        elif tag in ("td", "th", "dd", "text", "desc"):
            self.parts.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self.silent -= 1

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.parts.append(data)

    def text(self) -> str:
        lines = "".join(self.parts).replace("\xa0", " ").splitlines()
        shown = (re.sub(r"\s+", " ", line).strip(" |") for line in lines)
        return "\n".join(line for line in shown if line) + "\n"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[RunDir, str]]:
    """The run of a case and its page, which is drawn once for both tests."""

    @cache
    def draw(case: str) -> tuple[RunDir, str]:
        folder = tmp_path_factory.mktemp(case) / "run"
        run = RunDir.open(shutil.copytree(FOLDER / case, folder))
        return run, render_report(run).read_text()

    return draw


Drawn = Callable[[str], tuple[RunDir, str]]


def test_every_case_has_its_files() -> None:
    assert len(NAMES) == len(CASES)


@pytest.mark.parametrize("case", NAMES)
def test_page(case: str, drawn: Drawn, golden: Callable[[str, str], None]) -> None:
    reader = _Reader()
    reader.feed(drawn(case)[1])
    golden(f"report-expected/{case}.page.txt", reader.text())


def shown(run: RunDir, full: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=80, color_system=None, force_terminal=False)
    terminal_report(run, console, full)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("case", NAMES)
def test_terminal(case: str, drawn: Drawn, golden: Callable[[str, str], None]) -> None:
    run, _ = drawn(case)
    text = shown(run, full=True)
    # Commands stand whole on one line.
    assert all(len(line) <= 80 for line in text.splitlines() if not line.startswith("    "))
    golden(f"report-expected/{case}.terminal.txt", text)
    assert (run.report / "report.txt").read_text() == text


@pytest.mark.parametrize("case", NAMES)
def test_first_screen(case: str, drawn: Drawn, golden: Callable[[str, str], None]) -> None:
    text = shown(drawn(case)[0], full=False)
    assert text.count("\n") <= 24
    golden(f"report-expected/{case}.screen.txt", text)
