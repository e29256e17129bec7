"""Two processes on one cache: neither disturbs the other, and what is kept stays bounded."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotoll.bisect.log import NAME
from iotoll.kernels import cache
from tests.unit.bisect.commits import CELL, Tree

SEARCH = """
import sys
from pathlib import Path
from iotoll.bisect.find import Asked, Finder
from iotoll.bisect.history import History
from iotoll.bisect.setting import locked
from tests.unit.bisect.commits import QUIET, Tree, meter
tree, root, good, bad, cell = sys.argv[1:]
class Known(Tree):
    def __init__(self, root): self.root = root
known = Known(Path(tree))
with locked(Path(root)):
    asked = Asked(good, bad, (cell,))
    found = Finder(meter(known, Path(root), good), History(known.root), asked, QUIET)
    print(" ".join(found.find().commits))
"""

ENTRY = """
import sys, time
from pathlib import Path
from iotoll.kernels import cache
folder = Path(sys.argv[1])
for number in range(int(sys.argv[2])):
    with cache.new_entry(folder / f"{number:064x}") as entry:
        for name in ("Image", "config"):
            (entry / name).write_bytes(bytes([number]) * 100_000)
"""


def start(text: str, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", text, *words]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)


def test_two_searches_side_by_side_find_the_same(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "linux")
    commits = [tree.commit(f"c{n}", "cost 40" if n == 5 else "") for n in range(10)]
    ends = (commits[0], commits[-1], CELL)
    both = [start(SEARCH, str(tree.root), str(tmp_path / name), *ends) for name in ("a", "b")]
    said = [one.communicate(timeout=120)[0].strip() for one in both]
    assert said == [commits[5]] * 2 and all(one.returncode == 0 for one in both)


def test_a_search_that_was_killed_with_sigkill_goes_on(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "linux")
    commits = [tree.commit(f"c{n}", "cost 40" if n == 21 else "") for n in range(33)]
    words = (str(tree.root), str(tmp_path / "k"), commits[0], commits[-1], CELL)
    log = tmp_path / "k" / NAME
    for lines in (3, 6, 9):
        one = start(SEARCH, *words)
        deadline = time.monotonic() + 60
        while one.poll() is None and time.monotonic() < deadline:
            if log.is_file() and log.read_bytes().count(b"\n") >= lines:
                one.kill()
            time.sleep(0.001)
        one.communicate()
    last = start(SEARCH, *words)
    assert last.communicate(timeout=120)[0].strip() == commits[21]
    built = [line for line in log.read_text().splitlines() if '"event": "built"' in line]
    assert len(built) == len(set(built)), "no kernel twice"


def test_an_image_appears_whole_or_not_at_all_for_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    both = [start(ENTRY, str(folder), "12") for _ in range(2)]
    while any(one.poll() is None for one in both):
        time.sleep(0.01)
    assert all(one.returncode == 0 for one in both)
    assert len([p for p in folder.glob("0*") if cache.is_whole(p)]) == 12


def test_the_caches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "KEPT", 3)
    for number in range(6):
        with cache.new_entry(tmp_path / f"{number:064x}") as entry:
            (entry / "Image").write_bytes(b"x")
            (entry / "config").write_bytes(b"y")
    assert len(list(tmp_path.glob("0*"))) == 3
