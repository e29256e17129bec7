"""Small git trees whose commits cost what their text says, and a meter that reads it.

Building and booting are the tests' own here; git, the log, the records on the disk and the gate's
comparison are the real ones. `iotoll experiment ranges` searches with real kernels.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import Meter
from iotoll.bisect.setting import Setting
from iotoll.core.errors import BrokenError
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import CellRecord, Section, WorkRecord
from iotoll.records.models.analysis import ElementRecord
from tests.unit.runs import EXAMPLES, in_order

QUIET = Progress(quiet=True)
CELL = "ufs-4k-randread-t1-direct"
OTHER = "nvme-4k-randread-t1-direct"
DRIVER = "drivers/ufs/core/ufshcd.c"


class Tree:
    """A git tree; each commit has a driver and a document."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        names = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        return subprocess.run(
            ["git", *names, *words], cwd=self.root, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, subject: str, text: str = "", path: str = DRIVER) -> str:
        """Append a line to a file (text ``-`` takes the last one away) and commit it."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text().splitlines() if file.is_file() else []
        lines = lines[:-1] if text == "-" else [*lines, text or f"nothing {len(lines)} {subject}"]
        file.write_text("".join(f"{line}\n" for line in lines))
        self.git("add", ".")
        self.git("commit", "-q", "-m", subject)
        return self.git("rev-parse", "HEAD")


class TextMeter(Meter):
    """Builds and boots by reading the driver.

    ``cost N`` and ``outside N`` add N, ``every K N`` to every Kth I/O, ``reads N`` register reads;
    ``SYNTAX`` and ``PANIC`` break. A timer meets another I/O in each kernel, which costs 790.
    """

    sources_of_all = (DRIVER,)

    def _text(self, commit: str) -> str:
        words = ["git", "show", f"{commit}:{DRIVER}"]
        return subprocess.run(
            words, cwd=self.setting.tree, check=True, capture_output=True, text=True
        ).stdout

    def _build(self, commit: str, cells: Sequence[str]):  # type: ignore[no-untyped-def]
        text = self._text(commit)
        if "SYNTAX" in text:
            raise BrokenError("build", "ufshcd.c:1: error: expected ;")
        results.write_text(
            self.root / "sources" / commit, "".join(f"{p}\n" for p in self.sources_of_all)
        )
        image = hashlib.sha256(text.encode()).hexdigest()
        if self.image(commit) is None:
            self.log.add("built", commit=commit, image=image, cached=False, seconds=1.0)
        return None, image

    def _boot(self, run, commit: str, image: str, cells: Sequence[str], folder: Path) -> None:  # type: ignore[no-untyped-def]
        text = self._text(commit)
        if "PANIC" in text:
            raise BrokenError("boot", "Kernel panic")
        record = results.read(EXAMPLES / "cell.json", CellRecord)
        for cell in cells:
            device = cell.partition("-")[0]
            cost = sum(int(n) for n in re.findall(r"^cost (-?\d+)$", text, re.M))
            late = sum(int(n) for n in re.findall(rf"^{device} (-?\d+)$", text, re.M))
            if "both" in text and "pair" in text:
                cost += 7  # only together
            counts = {
                Section.SUBMISSION: _submission(text, cost, int(image[2:4], 16)),
                Section.COMPLETION: [500 + late] * IOS,
            }
            changes = {"cell": cell, "in_order": in_order(counts), "invalid": None}
            changes["vector"] = _vector(text)
            changes["work"] = _work(text, cost + late, int(image[:2], 16))
            results.write(folder / f"{cell}.json", record.model_copy(update=changes))
        named = re.findall(r"^code (\w+)", text, re.M)
        lines = re.findall(r"^(?:cost|every|ufs|both|pair)\b.*$", text, re.M)
        named += [f"{line.replace(' ', '_')}_{n}" for n, line in enumerate(lines)]
        results.write_text(folder / "changed.json", json.dumps(named) + "\n")
        results.write_text(folder / "done", "")
        self.log.add(
            "booted", commit=commit, image=image, cells=len(cells), stored=False, seconds=1.0
        )


IOS = 256


def _vector(text: str) -> dict[str, ElementRecord]:
    """``reads N`` adds N register reads to every I/O."""
    reads = sum(int(n) for n in re.findall(r"^reads (-?\d+)$", text, re.M))
    if not reads:
        return {}
    runs = [(reads, IOS)]
    sections = {Section.SUBMISSION: runs, Section.COMPLETION: [(0, IOS)]}
    return {"register_reads.ufs": ElementRecord(sections=sections, whole=runs, functions={})}


def _submission(text: str, cost: int, timer: int) -> list[int]:
    counts = [1000 + cost + i % 3 + (790 if i == timer else 0) for i in range(IOS)]
    for nth, more in re.findall(r"^every (\d+) (-?\d+)$", text, re.M):
        counts = [c + (int(more) if i % int(nth) == 0 else 0) for i, c in enumerate(counts)]
    return counts


def _work(text: str, inside: int, noise: int) -> WorkRecord:
    """What ``outside N`` costs in a worker, and ``code NAME N`` in a function that is changed.

    The scheduler costs up to 255 instructions more or less with each kernel, as it does on boards.
    """
    ios, counts = 64, {"__schedule": 2000 + noise, "driver": 1500 + inside}
    counts["worker"] = sum(int(n) for n in re.findall(r"^outside (-?\d+)$", text, re.M))
    for name, n in re.findall(r"^code (\w+) (\d+)$", text, re.M):
        counts[name] = counts.get(name, 0) + int(n)
    functions = {name: n * ios for name, n in counts.items() if n}
    total = sum(functions.values())
    return WorkRecord(ios=ios, kernel=total, recorder=0, user=0, idle=0, functions=functions)


def meter(tree: Tree, root: Path, first: str, **asked: object) -> TextMeter:
    """A meter whose log is in ``root``."""
    setting = Setting(str(tree.root), "virt-arm64", "default", "instructions")
    return TextMeter(root, setting, first, Log(root / NAME, {"asked": first, **asked}), QUIET)
