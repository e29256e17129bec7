#!/usr/bin/env python3
"""Makes the pictures of docs/ again: every kind of page, in headless Chromium.

    tools/docs/screenshots.py [--run RUN] [--out FOLDER]

Each page is one that tests make: the report of a gate that tests/golden stores (with --run of
another one), invented nights, commits and series, and a stored study.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # the tests' invented data

Window = tuple[int, int, Literal["light", "dark"]]
WIDE: Window = (1100, 1250, "light")
PHONE: Window = (390, 844, "dark")
"""Width and height of a window in CSS pixels, and its ground."""
ON_PHONES = ("report",)
"""Pages whose picture on a phone is stored as well; tests/browser looks at all of them there."""


def shoot(pages: Mapping[str, Path], folder: Path) -> None:
    """Open each page from its file and write its first screen as PNG."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("screenshots: no Chromium: apt-get install chromium")
    # Its sandbox cannot be had as root.
    words = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=words)
        for name, page in pages.items():
            windows = {"": WIDE} | ({"-phone": PHONE} if name in ON_PHONES else {})
            for suffix, (width, height, ground) in windows.items():
                view = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme=ground
                )
                view.goto(page.resolve().as_uri())
                view.wait_for_load_state("networkidle")
                view.screenshot(path=str(folder / f"{name}{suffix}.png"))
                view.close()
                print(folder / f"{name}{suffix}.png")
        browser.close()


def report(folder: Path) -> Path:
    """The report of a stored gate: a checksum over each UFS request, in two workloads."""
    from iotoll.records.rundir import RunDir
    from iotoll.reports.page import render_report

    run = folder / "checksum"
    with tarfile.open(ROOT / "tests/golden/data/screens/checksum-two-cells.tar.gz") as tar:
        tar.extractall(run, filter="data")
    return render_report(RunDir.open(run))


def trend(folder: Path) -> Path:
    """400 invented nights of two devices, with a step at the 340th."""
    from iotoll.nightly.history.store import Store
    from iotoll.nightly.trend import view
    from iotoll.nightly.trend.page import write_page
    from tests.unit.nights import history

    nights = range(400)
    lines = {
        (f"{device}-{shape}-direct", section): [
            4000.0 + 500 * at + 12 * (n >= 150) + 41 * (n >= 340 and device == "ufs")
            for n in nights
        ]
        for device in ("ufs", "nvme")
        for shape in ("4k-randread-t1", "128k-seqread-t8")
        for at, section in enumerate(("submission", "completion", "overhead"))
    }
    history(folder / "h", lines, "mainline", releases={100: "v6.12", 300: "v6.13"})
    loaded = view.load(Store(str(folder / "h")), None, {"instructions": 40.0, "ns": 100.0})
    return write_page(loaded, folder / "public")


def ledger(folder: Path) -> Path:
    """Twelve invented commits between two revisions."""
    from iotoll.bisect.page import Family, Ledger, LedgerRow, ledger_page

    families = [
        Family("ufs-4k-* (8 cells)", "submission", ("ufs-4k-randread-t1-direct",)),
        Family("nvme-4k-* (8 cells)", "completion", ("nvme-4k-randread-t1-direct",)),
    ]
    sizes = [(410, 0), (-80, 0), (0, 220), (120, 0), (-200, -40), (30, 0), (0, 60), (250, 10)]
    rows = [
        LedgerRow(
            f"{0x9A3F00C1 + 7919 * n:08x} subsystem: an invented change, number {n + 1}",
            "A. Developer <a.developer@example.com>",
            "",
            values,
            moved=tuple(abs(value) > 40 for value in values),
            some=("", ""),
            functions=("ufshcd_queuecommand",) if values[0] else ("nvme_complete_rq",),
        )
        for n, values in enumerate(sizes)
    ]
    totals = (sum(first for first, _ in sizes), sum(second for _, second in sizes))
    made = Ledger(
        good={"sha": "6c1f0e2d9a3b", "subject": "Linux 6.12.50"},
        bad={"sha": "41d7c9b0aa52", "subject": "Linux 6.12.60"},
        board="virt-arm64",
        families=families,
        rows=rows,
        left=(0, 0),
        totals=totals,
        unchanged=113,
        open=126,
        every=False,
        commits=2140,
        cells=16,
        partial=False,
        spent={"builds": 31, "cached": 4, "boots": 35, "skipped": 0},
        disk={"folder": 59e6},
    )
    page = folder / "ledger.html"
    page.write_text(ledger_page(made))
    return page


def study(folder: Path) -> Path:
    """A stored study of docs/reference."""
    from iotoll.records import results
    from iotoll.records.models import StudyRecord
    from iotoll.studies.page import write_pages

    stored = min((ROOT / "docs/reference/studies").glob("*.json"))
    return write_pages(results.read(stored, StudyRecord), folder / "study")


def watch(folder: Path) -> Path:
    """Invented series of a mailing list, of each outcome."""
    from iotoll.lists.config import Config
    from iotoll.lists.store import Series
    from iotoll.lists.watch import write_page

    outcomes = ("regression", "pass", "inconclusive", "broken", "pass", "unappliable")
    series = [
        Series(
            number=n,
            key=f"{n:020x}",
            author="A. Developer",
            version=1 + n % 3,
            total=1 + n,
            subject=f"scsi: ufs: core: an invented change, number {n + 1}",
            date=f"2026-11-{10 + n}",
            title=f"[PATCH v{1 + n % 3}] scsi: ufs: core: an invented change, number {n + 1}",
            state="gated",
            why="its first patch does not apply" if outcome == "unappliable" else "",
            outcome=outcome,
            base="v6.12.117",
            seconds=140.0 + 10 * n,
            tries=1,
            sent="",
            archive="linux-scsi",
            turn=n + 1,
        )
        for n, outcome in enumerate(outcomes)
    ]
    return write_page(Config(archives=["linux-scsi"], tree="debian"), series, folder / "watch")


PAGES: dict[str, Callable[[Path], Path]] = {
    "report": report,
    "trend": trend,
    "ledger": ledger,
    "study": study,
    "watch": watch,
}
"""Picture: what makes its page in a folder."""


def main() -> None:
    """Write the pictures into docs, or FOLDER."""
    parser = argparse.ArgumentParser(description="Makes the pictures of docs/ again.")
    parser.add_argument("--run", type=Path, metavar="RUN", help="run directory with a report")
    parser.add_argument("--out", type=Path, default=ROOT / "docs", metavar="FOLDER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="iotoll-") as name:
        pages = {}
        for picture, make in PAGES.items():
            folder = Path(name) / picture
            folder.mkdir()
            pages[picture] = make(folder)
        if options.run:
            pages["report"] = options.run / "report/index.html"
        if not pages["report"].is_file():
            parser.error(f"{pages['report']} is missing: iotoll report {options.run}")
        shoot(pages, options.out)


if __name__ == "__main__":
    main()
