"""First screens of gates, read as their authors would; numbers are left out.

`list-*` are series of public mailing lists, on Linux 6.12.117; the others are planted costs.
"""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from iotoll.records.rundir import RunDir
from iotoll.reports.page import terminal_report

SCREENS = sorted((Path(__file__).parent / "data" / "screens").glob("*.tar.gz"))


@pytest.mark.parametrize("path", SCREENS, ids=[p.name.removesuffix(".tar.gz") for p in SCREENS])
def test_first_screen(path: Path, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    with tarfile.open(path) as tar:
        tar.extractall(tmp_path / "run", filter="data")
    stream = io.StringIO()
    terminal_report(RunDir.open(tmp_path / "run"), Console(file=stream, width=80))
    text = stream.getvalue()
    assert text.count("\n") <= 24
    assert re.search(r"\d", text)
    words = re.sub(r"(?<![\w-])[+\u2212]?\d(?:[\d,]*\d)?(?:\.\d+)?(?![\w-])", "N", text)
    golden(f"screens/{path.name.removesuffix('.tar.gz')}.txt", words)
