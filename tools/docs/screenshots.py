#!/usr/bin/env python3
"""Makes the pictures of docs/ again, from a run of the golden tests: headless Chromium.

    tools/docs/screenshots.py [--run RUN] [--out FOLDER]

Without --run it is the invented run that tests/golden calls "regression", so that the picture
shows every part of a report; with --run a real one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/data/report/regression"
SHOTS = {"report": (1100, 1250, "light"), "report-phone": (390, 844, "dark")}
"""Picture: width and height of the window in CSS pixels, and its ground."""


def shoot(page: Path, folder: Path) -> None:
    """Open a page from its file and write its first screen as PNG, once for each window."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("screenshots: no Chromium: apt-get install chromium")
    # Its sandbox cannot be had as root.
    words = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=words)
        for name, (width, height, ground) in SHOTS.items():
            size = {"width": width, "height": height}
            tab = browser.new_page(viewport=size, color_scheme=ground)
            tab.goto(page.resolve().as_uri())
            tab.wait_for_load_state("networkidle")
            tab.screenshot(path=str(folder / f"{name}.png"))
            print(folder / f"{name}.png")
        browser.close()


def golden_report(folder: Path) -> Path:
    """The report of the stored case of the golden tests."""
    from iotoll.records.rundir import RunDir
    from iotoll.reports.page import render_report

    shutil.copytree(GOLDEN, folder / "run")
    return render_report(RunDir.open(folder / "run"))


def main() -> None:
    """Write the pictures into docs, or FOLDER."""
    parser = argparse.ArgumentParser(description="Makes the pictures of docs/ again.")
    parser.add_argument("--run", type=Path, metavar="RUN", help="run directory with a report")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", metavar="FOLDER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iotoll-") as name:
        page = options.run / "report/index.html" if options.run else golden_report(Path(name))
        if not page.is_file():
            parser.error(f"{page} is missing: iotoll report {options.run}")
        shoot(page, options.out)


if __name__ == "__main__":
    main()
