"""Are boots of one kernel the same, byte for byte? ``iotoll experiment exact`` boots and compares.

Every boot runs the same job on the same kernel image. Of each, the traces are hashed; all of them
must be those of the first boot. With ``--load`` every second boot runs beside programs that keep
all CPUs and the disk busy; with ``--clock-step`` the host's clock jumps during every third one. Two
boots that differ end the experiment with both kept: that is a bug of the board, never a result.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from iotoll.boards.board import VirtualBoard, load_virtual_board
from iotoll.boards.equip import check_cells, equipped, fragments
from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.boards.plugin import TRACING, WINDOWS
from iotoll.boards.ramdisk import get_image
from iotoll.boots.counts import COUNTED
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import Bench, plan_boot, run_plans
from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.proc import require_tool, stop
from iotoll.core.progress import Progress
from iotoll.kernels.build import KernelSpec, build_side
from iotoll.kernels.source import prepare
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import BootRecord, Clock, RunManifest
from iotoll.records.rundir import RunDir

SPIN = "while True: pass"
WRITE = """
import os, sys
block = os.urandom(1 << 20)
while True:
    with open(sys.argv[1], "wb") as out:
        for _ in range(64):
            out.write(block)
        os.fsync(out.fileno())
"""
"""Programs of the load: one for each CPU, and one for the disk."""


@dataclass(frozen=True)
class Boot:
    """One boot of the experiment, as its table shows it; ``cpu_seconds`` are QEMU's."""

    number: int
    load: bool
    host_load: float
    seconds: float
    cpu_seconds: float
    traces: int
    sha256: str
    clock_step: int = 0


@dataclass(frozen=True)
class Host:
    """What the host does beside one boot."""

    load: bool
    clock_step: int


@click.command("exact")
@click.option("--boots", default=10, show_default=True, type=click.IntRange(2))
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--matrix", default="default", show_default=True)
@click.option("--cells", help="Only these cells, comma-separated; * is allowed.", metavar="LIST")
@click.option("--image", type=click.Path(path_type=Path), help="Ready-made kernel image.")
@click.option("--load", is_flag=True, help="Every second boot beside a busy CPU and disk.")
@click.option(
    "--clock-step",
    default=0,
    metavar="SECONDS",
    type=click.IntRange(0, 86400),
    help="Beside every third boot the host's clock jumps by so much and back, each second. As root;"
    " all programs of the host see it.",
)
@click.option("--out", default="runs/exact", show_default=True, type=click.Path(path_type=Path))
def exact_command(
    boots: int,
    board: str,
    matrix: str,
    cells: str | None,
    image: Path | None,
    load: bool,
    clock_step: int,
    out: Path,
) -> None:
    """Boot one kernel again and again: all traces must be the same, byte for byte."""
    progress = Progress()
    if clock_step:
        set_clock(time.time())
    run = open_run(out, board, matrix, image, "exact")
    bench = make_bench(run, progress, cells)
    spec = KernelSpec(bench.board.arch, fragments(bench.board, bench.cells))
    build_side(run, "base", spec, progress)
    rows: list[Boot] = []
    for number in range(1, boots + 1):
        host = Host(load and number % 2 == 0, clock_step if number % 3 == 0 else 0)
        rows.append(_boot(run, bench, number, host, progress))
        _store(run, bench, rows)
        check_same(run, rows)
    print_table(rows, Console())
    click.echo(f"{boots} boots of {len(bench.cells)} cells on {board}: all traces are the same")
    click.echo(f"written: {out / 'exact.json'}")


def open_run(out: Path, board: str, matrix: str, image: Path | None, name: str) -> RunDir:
    """The folder of an experiment on one kernel; raises UsageError if it holds another one."""
    choice = candidate.classify(None, base_image=image)
    manifest = RunManifest(
        command=["iotoll", "experiment", name],
        created="",
        kind="measure",
        board=board,
        clock=Clock.INSTRUCTIONS,
        matrix=matrix,
        policy="instructions",
        tree=choice.tree,
        base=choice.base,
        candidate=choice.candidate,
        candidate_kind=choice.kind,
    )
    path = out / "run.json"
    if not path.is_file():
        results.write(path, manifest)
    elif results.read(path, RunManifest) != manifest:
        raise UsageError(f"{out} holds another run: choose another --out, or remove it")
    return RunDir.open(out)


def make_bench(run: RunDir, progress: Progress, pattern: str | None) -> Bench:
    """An exact board with the cells of a pattern; UsageError if the board is none."""
    board, matrix = load_virtual_board(run.manifest.board), load_matrix(run.manifest.matrix)
    if not board.qemu.patched:
        raise UsageError(f"board {board.name} leaves its disks to the host: its boots differ")
    cells = chosen_cells(pattern, matrix.cells, matrix.family_cells) or matrix.cells
    check_cells(board, cells)
    prepare(run, progress, cells)
    image = get_image(board.arch, progress)
    board = equipped(board, cells)
    return Bench(board, matrix, image, cells, Clock.INSTRUCTIONS, "tcg", fresh=True)


def _boot(run: RunDir, bench: Bench, number: int, host: Host, progress: Progress) -> Boot:
    """Boot once, or read what an earlier command left of that boot."""
    # Boot 1's plan has the calibration runs; here each boot has them.
    first = plan_boot(run, bench, "base", 1)
    plan = replace(first, number=number, folder=run.boot("base", number))
    known = run.root / "boots" / f"{number}.json"
    step, inputs = f"exact/{number}", {"plan": plan.identity(), "load": str(host.load)}
    if host.clock_step:
        inputs["clock step"] = str(host.clock_step)
    if run.is_done(step, inputs) and known.is_file():
        return Boot(**json.loads(known.read_text()))
    row = _fresh(run, plan, host, progress)
    results.write_text(known, json.dumps(asdict(row)) + "\n")
    run.mark_done(step, inputs)
    return row


def _fresh(run: RunDir, plan: BootPlan, host: Host, progress: Progress) -> Boot:
    shutil.rmtree(plan.folder, ignore_errors=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with contextlib.ExitStack() as beside:
        if host.load:
            beside.enter_context(busy(run.root / "load"))
        if host.clock_step:
            beside.enter_context(jumping(host.clock_step))
        run_plans(run, [plan], progress, abreast=1)
        load = os.getloadavg()[0]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # The load's own programs end after the boot's; they are not the boot's CPU time.
    cpu = 0.0 if host.load else _cpu(after) - _cpu(before)
    traces = hashes(plan.folder)
    record = results.read(plan.folder / "boot.json", BootRecord)
    digest = json_sha256(traces)
    row = Boot(
        plan.number,
        host.load,
        load,
        record.seconds,
        round(cpu, 1),
        len(traces),
        digest,
        host.clock_step,
    )
    results.write_text(plan.folder / "traces.json", json.dumps(traces, indent=1) + "\n")
    return row


def hashes(folder: Path) -> dict[str, str]:
    """sha256 of each trace of a boot, by its batch, and of what the plugin kept beside them.

    Raises InfrastructureError without any trace.
    """
    found = {p.parent.name: file_sha256(p) for p in sorted(folder.glob("*/trace.dat"))}
    if not found:
        raise InfrastructureError(f"{folder} has no trace: there is nothing to compare")
    kept = (folder / name for name in (TRACING, WINDOWS, COUNTED))
    return found | {path.name: file_sha256(path) for path in kept if path.is_file()}


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def busy(folder: Path) -> Iterator[None]:
    """Keep every CPU and the disk below ``folder`` busy; the programs end with this process."""
    folder.mkdir(parents=True, exist_ok=True)
    python = [require_tool("setpriv", "util-linux"), "--pdeathsig", "KILL", "--", sys.executable]
    commands = [[*python, "-c", SPIN]] * (os.cpu_count() or 1)
    commands.append([*python, "-c", WRITE, str(folder / "file")])
    running = [subprocess.Popen(command, start_new_session=True) for command in commands]
    try:
        yield
        if any(process.poll() is not None for process in running):
            raise InfrastructureError("the load ended before the boot did: is the disk full?")
    finally:
        for process in running:
            stop(process)
        shutil.rmtree(folder, ignore_errors=True)


def set_clock(seconds: float) -> None:
    """Set the host's clock (seconds since 1970); raises UsageError for a user who may not."""
    try:
        time.clock_settime(time.CLOCK_REALTIME, seconds)
    except PermissionError as error:
        raise UsageError("--clock-step sets the host's clock: start it as root") from error


@contextlib.contextmanager
def jumping(seconds: int) -> Iterator[None]:
    """Set the host's clock ahead and back, each second; afterwards it is where it would be."""
    offset = time.time() - time.monotonic()
    ended = threading.Event()

    def jump() -> None:
        ahead = 0
        while not ended.wait(1):
            ahead = seconds - ahead
            set_clock(offset + ahead + time.monotonic())

    thread = threading.Thread(target=jump)
    thread.start()
    try:
        yield
        if not thread.is_alive():
            raise InfrastructureError("the host's clock stopped jumping before the boot ended")
    finally:
        ended.set()
        thread.join()
        set_clock(offset + time.monotonic())


def check_same(run: RunDir, rows: list[Boot]) -> None:
    """Compare the last boot with the first, and drop the traces that are the same.

    Raises InfrastructureError, with both boots kept, when they differ.
    """
    first, last = rows[0], rows[-1]
    if last is first:
        return
    ours, theirs = run.boot("base", first.number), run.boot("base", last.number)
    if last.sha256 == first.sha256:
        for trace in theirs.glob("*/trace.dat"):
            trace.unlink()
        return
    one, other = (json.loads((f / "traces.json").read_text()) for f in (ours, theirs))
    names = sorted(n for n in {*one, *other} if one.get(n) != other.get(n))
    raise InfrastructureError(
        f"boots {first.number} and {last.number} of one kernel differ in {', '.join(names)}:"
        f" a bug of the board {run.manifest.board}; both are kept: {ours}, {theirs}"
    )


def _store(run: RunDir, bench: Bench, rows: list[Boot]) -> None:
    assert isinstance(bench.board, VirtualBoard)
    data: dict[str, Any] = {
        "board": bench.board.name,
        "cpus": bench.board.qemu.cpus,
        "matrix": bench.matrix.name,
        "cells": len(bench.cells),
        "boots": len(rows),
        "same": len({row.sha256 for row in rows}) == 1,
        "rows": [asdict(row) for row in rows],
    }
    results.write_text(run.root / "exact.json", json.dumps(data, indent=1) + "\n")


def print_table(rows: list[Boot], console: Console) -> None:
    """One line for each boot."""
    table = Table(box=None, pad_edge=False)
    for title in (
        "boot",
        "load",
        "clock jumps",
        "host load",
        "seconds",
        "CPU s",
        "traces",
        "sha256 of all",
    ):
        table.add_column(title, justify="left" if title.startswith("sha") else "right")
    for row in rows:
        cpu = f"{row.cpu_seconds:.1f}" if row.cpu_seconds else "-"
        jumps = f"{row.clock_step} s" if row.clock_step else "no"
        words = [str(row.number), "yes" if row.load else "no", jumps, f"{row.host_load:.1f}"]
        words += [f"{row.seconds:.1f}", cpu, str(row.traces), row.sha256[:16]]
        table.add_row(*words)
    console.print(table)
