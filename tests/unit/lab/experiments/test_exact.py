"""What `iotoll experiment exact` compares, keeps and drops; tests/vm boots boards with it."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from iotoll_lab.experiments import exact
from iotoll_lab.experiments.exact import (
    Boot,
    busy,
    check_same,
    exact_command,
    hashes,
    jumping,
    print_table,
)
from rich.console import Console

from iotoll.boards.ramdisk import Image
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.records import results
from iotoll.records.models import Clock, RunManifest
from iotoll.records.rundir import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    manifest = RunManifest(
        command=["iotoll"],
        created="",
        kind="measure",
        board="virt-arm64",
        clock=Clock.INSTRUCTIONS,
        matrix="default",
        policy="instructions",
        candidate_kind="none",
    )
    results.write(tmp_path / "run.json", manifest)
    return RunDir.open(tmp_path)


def boot(run: RunDir, number: int, **traces: bytes) -> Boot:
    """A boot as the experiment leaves it, with these traces."""
    folder = run.boot("base", number)
    for name, data in traces.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "trace.dat").write_bytes(data)
    found = hashes(folder)
    (folder / "traces.json").write_text(json.dumps(found))
    return Boot(number, False, 0.5, 20.0, 21.5, len(found), str(sorted(found.items())))


def traces(run: RunDir, number: int) -> list[str]:
    return sorted(p.parent.name for p in run.boot("base", number).glob("*/trace.dat"))


def test_traces_that_are_the_same_are_kept_once(run: RunDir) -> None:
    rows = [boot(run, n, ufs=b"one", nvme=b"two") for n in (1, 2)]
    check_same(run, rows[:1])
    check_same(run, rows)
    assert traces(run, 1) == ["nvme", "ufs"]
    assert traces(run, 2) == []


def test_boots_that_differ_are_a_bug_of_the_board_and_both_kept(run: RunDir) -> None:
    rows = [boot(run, 1, ufs=b"one", nvme=b"two"), boot(run, 2, ufs=b"one", nvme=b"too")]
    with pytest.raises(InfrastructureError, match=r"boots 1 and 2 .* differ in nvme: .*virt-arm64"):
        check_same(run, rows)
    assert traces(run, 1) == traces(run, 2) == ["nvme", "ufs"]


def test_trace_that_one_boot_lacks_is_a_difference(run: RunDir) -> None:
    rows = [boot(run, 1, ufs=b"one", nvme=b"two"), boot(run, 2, ufs=b"one")]
    with pytest.raises(InfrastructureError, match="differ in nvme"):
        check_same(run, rows)


def test_boot_without_a_trace_is_no_boot_to_compare(run: RunDir) -> None:
    with pytest.raises(InfrastructureError, match="has no trace"):
        boot(run, 1)


def test_load_works_while_it_is_wanted_and_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "load"
    before = children()  # an earlier test's, of this process
    with busy(folder):
        pids = children() - before
        assert len(pids) == (os.cpu_count() or 1) + 1
        while not (folder / "file").exists():
            pass
    assert not children() & pids
    assert not folder.exists()


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_load_that_ends_early_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iotoll_lab.experiments.exact.SPIN", "raise SystemExit(1)")
    with pytest.raises(InfrastructureError, match="the load ended"), busy(tmp_path / "load"):
        # Whichever ends first: the disk's load never does.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)


def test_table_has_a_line_for_each_boot() -> None:
    out = io.StringIO()
    rows = [
        Boot(1, False, 0.4, 21.0, 22.5, 6, "ab" * 32),
        Boot(2, True, 9.8, 60.0, 0.0, 6, "ab" * 32, 60),
    ]
    print_table(rows, Console(file=out, width=120))
    lines = out.getvalue().splitlines()
    assert len(lines) == 3
    assert lines[1].split() == ["1", "no", "no", "0.4", "21.0", "22.5", "6", "ab" * 8]
    assert lines[2].split() == ["2", "yes", "60", "s", "9.8", "60.0", "-", "6", "ab" * 8]


def test_stock_board_is_refused(tmp_path: Path) -> None:
    words = ["--board", "virt-arm64-stock", "--out", str(tmp_path / "out")]
    with pytest.raises(UsageError, match="virt-arm64-stock leaves its disks to the host"):
        CliRunner().invoke(exact_command, words, catch_exceptions=False, standalone_mode=False)


def test_every_boot_of_the_experiment_and_of_a_reproduction_is_fresh(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = Image(run.root / "ramdisk", "0" * 64, {})
    for module in ("iotoll_lab.experiments.exact", "iotoll.run.setup"):
        monkeypatch.setattr(f"{module}.get_image", lambda *_: image)
    monkeypatch.setattr("iotoll_lab.experiments.exact.prepare", lambda *_: None)
    monkeypatch.setattr(Flow, "cells", ["ufs-4k-randread-t1-direct"])
    progress = Progress(quiet=True)
    assert exact.make_bench(run, progress, None).fresh
    assert Flow(run, progress, fresh=True).bench.fresh
    assert not Flow(run, progress).bench.fresh


def test_the_hosts_clock_jumps_and_is_where_it_would_be_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shift, seen = 0.0, []

    def settime(clock: int, seconds: float) -> None:
        nonlocal shift
        assert clock == time.CLOCK_REALTIME
        shift = seconds - time.monotonic()
        seen.append(shift)

    monkeypatch.setattr(time, "time", lambda: time.monotonic() + shift)
    monkeypatch.setattr(time, "clock_settime", settime)
    with jumping(3600):
        time.sleep(2.5)
    assert len(seen) >= 2 and seen[0] == pytest.approx(3600, abs=1)
    assert seen[-1] == pytest.approx(0, abs=1) and shift == seen[-1]


def test_who_may_not_set_the_clock_is_told_before_anything_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(clock: int, seconds: float) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(time, "clock_settime", refuse)
    words = ["--clock-step", "60", "--out", str(tmp_path / "exact")]
    result = CliRunner().invoke(exact_command, words)
    assert isinstance(result.exception, UsageError) and "as root" in str(result.exception)
    assert not (tmp_path / "exact").exists()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_clock_that_stopped_jumping_is_no_boot_beside_a_jumping_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_once = iter([None])

    def settime(clock: int, seconds: float) -> None:
        if threading.current_thread() is not threading.main_thread() and next(set_once, 1):
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(time, "clock_settime", settime)
    with pytest.raises(InfrastructureError, match="stopped jumping"), jumping(60):
        time.sleep(2.5)
