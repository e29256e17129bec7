"""iotoll-start (lava-jobs/image/start.c), compiled for this machine."""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from iotoll.core.paths import data_dir

pytestmark = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="it is for x86-64 and arm64 alone"
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("start") / "iotoll-start"
    words = ["gcc", "-O2", "-nostdlib", "-ffreestanding", "-static", "-fno-pie", "-no-pie"]
    words += ["-fno-tree-loop-distribute-patterns"]
    words += ["-Wall", "-Wextra", "-Werror", "-fno-stack-protector", "-o", str(target)]
    subprocess.run([*words, str(data_dir("lava-jobs") / "image/start.c")], check=True)
    return target


def switches(pid: int) -> int:
    """How often a process has waited."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def test_threads_wait_for_the_plan_and_do_not_look_for_it(program: Path, tmp_path: Path) -> None:
    begin = tmp_path / "cell.begin"
    late = [0, 20_000, 40_000]
    threads = [
        subprocess.Popen([program, "at", str(begin), str(us), "a-cell"], stdout=subprocess.DEVNULL)
        for us in late
    ]
    time.sleep(0.6)
    assert all(thread.poll() is None for thread in threads)
    assert all(switches(thread.pid) < 5 for thread in threads), "each waits once"
    margin = ["200000", "100000", "0", "10000"]
    subprocess.run([program, "plan", str(begin), *margin], check=True, timeout=10)
    planned = int.from_bytes(begin.read_bytes()[:8], sys.byteorder) / 1e6
    assert planned > time.monotonic() - 5
    for thread, us in zip(threads, late, strict=True):
        assert thread.wait(10) == 0
        assert time.monotonic() > planned + us / 1e6
    # Who comes later finds it told.
    subprocess.run([program, "at", str(begin), "60000", "a-cell"], check=True, timeout=10)
    assert time.monotonic() > planned + 0.060


def test_a_cell_rests_for_whole_rounds(program: Path, tmp_path: Path) -> None:
    begin = tmp_path / "cell.begin"
    subprocess.run([program, "plan", str(begin), "1000", "50000", "0", "0"], check=True, timeout=10)
    begun = time.monotonic()
    subprocess.run([program, "rest", str(begin), "60000", "50000"], check=True, timeout=10)
    assert 0.095 < time.monotonic() - begun < 5


@pytest.mark.parametrize("pages", [1, 33, 257])
def test_a_spread_file_has_all_its_pages(program: Path, tmp_path: Path, pages: int) -> None:
    path = tmp_path / "pages"
    subprocess.run([program, "spread", str(path), str(pages)], check=True, timeout=10)
    page = b"x" + bytes(4095)
    assert path.read_bytes() == page * pages
    subprocess.run([program, "scatter", str(path)], check=True, timeout=10)
    assert path.read_bytes() == page * pages


@pytest.mark.parametrize(
    "words", [[], ["at"], ["plan", "f", "1", "0", "0", "0"], ["spread", "f", "x"]]
)
def test_wrong_words_end_it(program: Path, tmp_path: Path, words: list[str]) -> None:
    assert subprocess.run([program, *words], cwd=tmp_path, timeout=10, check=False).returncode == 2
