"""The step *boot*: which boots a run needs, what each runs, and who runs them.

Boots of both sides run side by side, one per host CPU at most: on the instructions clock a busy
host slows a board down and changes no count.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

from iotoll.boards.board import Board, HostBoard, VirtualBoard
from iotoll.boards.matrix import Matrix
from iotoll.boards.plugin import plugin_name
from iotoll.boards.ramdisk import Image, scripts_sha256
from iotoll.boots import base_boots, sandboxed_boot
from iotoll.boots.job import (
    CALIBRATION_IOS,
    TIMED_IOS,
    Batch,
    is_calibration,
    make_batches,
    render_job,
)
from iotoll.boots.local import BootPlan, boot_again
from iotoll.core.digest import json_sha256
from iotoll.core.errors import (
    BrokenError,
    BrokenStep,
    HangError,
    InfrastructureError,
    ResultError,
)
from iotoll.core.progress import Progress, Step
from iotoll.kernels.tracing import tells_tracing
from iotoll.records import results, sealed
from iotoll.records.failure import failure_of
from iotoll.records.models import BootRecord, Clock, FailureRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir

PARALLEL = 2  # boots at a time: the two sides of a pair
PARTS = 2
"""Boots that divide the cells of a gate on an exact board among them, whatever this machine has."""
LEAST_DIVIDED = 12
"""Cells from which on that pays: each boot starts a kernel and makes file systems."""
_CELL, _BEGIN = 3, 5
"""What a cell and a batch (a trace-cmd and a fio) take beside what each thread of a cell takes."""
_BLAMED = 2
"""Tries of a boot in which a kernel must crash before it is blamed, unless the board is exact."""


class Runner(Protocol):
    """Boots boards that are not this machine's, such as a lab's."""

    def boots(self, plans: Sequence[BootPlan], step: Step) -> None:
        """Run the boots to their ends and mark each that ended well as done; resumable.

        Raises BrokenError or InfrastructureError as a boot on this machine would.
        """


Connect = Callable[[], Runner]
"""Reaches a runner; called only when there is something to boot."""


@dataclass(frozen=True)
class Bench:
    """What all boots of a run share: board, matrix, cells and how they are measured.

    ``send_times`` is how often a board in a lab sends its records over the serial line; None on a
    board of this machine, which hands files over. ``cool_down`` is how many seconds a board in a
    lab rests before its workload. ``fresh`` boots are never taken from the store. On the clock
    `time` the probes are calibrated with ``calibrate_times`` alone. ``in_sandbox`` are the sides
    that this machine boots in the sandbox. With ``keeps`` a board, which no cable of this machine's
    ends in, keeps what it measured until it is fetched. ``caches`` is the model in which boots that
    count tracing also count lines of cache; None: they do not. The boots with the lowest numbers,
    ``parts`` of them, divide the cells among them (`of`).
    """

    board: Board
    matrix: Matrix
    image: Image
    cells: Sequence[str]
    clock: Clock
    accelerator: str
    calibrate: bool = True
    calibrate_times: bool = False
    send_times: int | None = None
    cool_down: int = 0
    fresh: bool = False
    in_sandbox: Sequence[Side] = ()
    keeps: bool = False
    caches: str | None = None
    parts: int = 1

    def of(self, number: int) -> Bench:
        """The bench of a boot by its number: with its part of the cells, or with all of them."""
        if self.parts == 1 or number > self.parts:
            return self
        return replace(self, cells=divide(self.matrix, self.cells, self.parts)[number - 1])

    @property
    def counts_tracing(self) -> bool:
        """Whether the boots count what recording the trace executes: no value has it.

        That is, where the kernel tells where its tracing begins and ends (`tells_tracing`).
        """
        board = self.board
        return (
            self.clock is Clock.INSTRUCTIONS
            and self.send_times is None
            and isinstance(board, VirtualBoard)
            and board.has_recorder
            and bool(plugin_name())
        )

    @property
    def settings(self) -> dict[str, str]:
        """What the DUT's scripts must know of how the boots are run."""
        own = self.board.job_settings
        if isinstance(self.board, HostBoard):
            return own
        if self.cool_down:
            own = {"COOL_DOWN": str(self.cool_down), **own}
        if self.keeps:
            return {"HANDOVER": "../desk/keep", **own}
        if self.send_times is None:
            return {}
        return {
            "HANDOVER": "serial",
            "UNIT": self.clock.unit.value,
            "SEND_REPEAT": str(self.send_times),
            **own,
        }


def run_boots(
    run: RunDir,
    bench: Bench,
    wanted: Iterable[tuple[Side, int]],
    progress: Progress,
    abreast: int = PARALLEL,
    connect: Connect | None = None,
) -> None:
    """Boot each (side, number) that is not done yet; raises what the first failing boot raises.

    ``abreast`` boots run at a time on this machine; one by one, in the order of ``wanted``. With
    ``connect`` the runner that it returns boots them instead.
    """
    run_plans(run, open_plans(run, bench, wanted), progress, abreast, connect)


def open_plans(run: RunDir, bench: Bench, wanted: Iterable[tuple[Side, int]]) -> list[BootPlan]:
    """The plans of those boots that are not done yet."""
    plans = [plan_boot(run, bench.of(number), side, number) for side, number in wanted]
    return [plan for plan in plans if not _is_done(run, plan)]


def divide(matrix: Matrix, cells: Sequence[str], parts: int) -> list[list[str]]:
    """Cells in the order of a boot, cut where the parts take about as long."""
    batches = make_batches(matrix, list(cells), calibrate=False)
    costs = {run.name: _CELL + run.cell.threads for batch in batches for run in batch.runs}
    for batch in batches:
        costs[batch.runs[0].name] += _BEGIN
    ends = list(accumulate(costs.values()))
    found: list[list[str]] = [[] for _ in range(parts)]
    for (cell, cost), end in zip(costs.items(), ends, strict=True):
        # Where its middle is.
        found[(2 * end - cost) * parts // (2 * ends[-1])].append(cell)
    return found


def drop_stale(run: RunDir, bench: Bench, wanted: Collection[tuple[Side, int]]) -> list[str]:
    """Remove further boots that are of another board, job or kernel than this bench makes now.

    ``wanted`` are booted again anyway. A verdict asks for the others once more where it needs them.
    A boot of the candidate also goes where the base's of its number is another one. Returns names.
    """
    listed = [(side, number) for side in SIDES for number in run.boot_numbers(side)]
    dropped = []
    bases: dict[int, str] = {}
    for side, number in sorted(listed):  # the base first
        if (side, number) in wanted:
            continue
        record = _record_of(run, bench, side, number)
        if record is None or (side == "candidate" and bases.get(number) != record.board_sha256):
            shutil.rmtree(run.boot(side, number))
            dropped.append(f"{side}/{number}")
        elif side == "base":
            bases[number] = record.board_sha256
    return dropped


def _record_of(run: RunDir, bench: Bench, side: Side, number: int) -> BootRecord | None:
    """The record of a boot that is done, with the cells that it ran; None where it is not."""
    try:
        record = results.read(run.boot(side, number) / "boot.json", BootRecord)
    except ResultError:
        return None
    plan = plan_boot(run, replace(bench, cells=record.cells), side, number)
    return record if _is_done(run, plan) else None


def run_plans(
    run: RunDir,
    plans: Sequence[BootPlan],
    progress: Progress,
    abreast: int = PARALLEL,
    connect: Connect | None = None,
) -> None:
    """As `run_boots`, for boots that need not be of one bench."""
    for plan in plans:
        if _is_done(run, plan, sealed_too=False) and not _is_done(run, plan):
            progress.say(f"{plan.folder}: a record is not what the board handed over: boots again")
    todo = [p for p in plans if not _is_done(run, p)]
    if not todo:
        return
    titles = ", ".join(f"{p.side} {p.number}" for p in todo[:4]) + (" …" if len(todo) > 4 else "")
    board = todo[0].board.name
    with progress.step(f"boot {board} ({titles})", sum(p.runs for p in todo)) as step:
        if connect is None:
            _run_all(run, todo, step, abreast, progress.say)
        else:
            connect().boots(todo, step)


def _run_all(
    run: RunDir, todo: list[BootPlan], step: Step, abreast: int, tell: Callable[[str], None]
) -> None:
    begun = dict.fromkeys(range(len(todo)), 0)
    cancelled = threading.Event()
    total = sum(p.runs for p in todo)

    def one(index: int, plan: BootPlan) -> None:
        def on_cell(count: int) -> None:
            begun[index] = count
            done = sum(begun.values())
            step.update(done, total, f"fio run {done} of {total}")

        if base_boots.take(plan):
            on_cell(plan.runs)
        else:
            boot_until_sure(run, plan, lambda which: start(which, on_cell, cancelled, tell), tell)
            base_boots.keep(plan)
        mark_done(run, plan)

    def start(plan: BootPlan, *more: Any) -> None:
        (sandboxed_boot.boot if plan.in_sandbox else boot_again)(plan, *more)

    pool = ThreadPoolExecutor(max(1, min(abreast, os.cpu_count() or 1)))
    futures: list[Future[None]] = [pool.submit(one, i, p) for i, p in enumerate(todo)]
    try:
        for plan, future in zip(todo, futures, strict=True):
            # The base is waited for first: what fails there is not the candidate's fault.
            try:
                future.result()
            except BrokenError as error:
                if plan.side == "base":
                    raise InfrastructureError(
                        f"the base kernel fails: {error}",
                        error.log_tail,
                    ) from error
                raise
    except BaseException:
        # Ctrl-C, or a boot that failed: the other boards need not go on.
        cancelled.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def boot_until_sure(
    run: RunDir, plan: BootPlan, start: Callable[[BootPlan], None], tell: Callable[[str], None]
) -> None:
    """Boot a board; on one that is not exact, a crash is blamed on its kernel only if it repeats.

    An exact board does the same again. Elsewhere a boot that crashed is repeated once, after one of
    the base where it was the candidate's: what the base does as well is the board's. How tries of
    this boot ended is kept beside its folder, so that no command tries it a third time.
    """
    if plan.board.is_exact and plan.clock is Clock.INSTRUCTIONS:
        start(plan)
        return
    died = _died(plan)
    while len(died) < _BLAMED:
        if died and plan.side == "candidate":
            _boot_base_beside(run, plan, start)
        try:
            start(plan)
        except HangError:
            raise  # it was repeated already (`boot_again`)
        except BrokenError as error:
            died = [*died, failure_of(error, error.step)]
            _note_died(plan, died)
            if len(died) < _BLAMED:
                tell(f"{plan.name}: {error}: tried once more; only what repeats counts")
            continue
        if died:
            path = plan.folder / "boot.json"
            record = results.read(path, BootRecord)
            words = [one.message for one in died]
            results.write(path, record.model_copy(update={"died": words}))
        return
    last = died[-1]
    step: BrokenStep = "boot" if last.step == "boot" else "workload"
    tries = f"{last.message}, in {len(died)} of {len(died)} tries"
    beside = ", and the base did not, beside it" if plan.side == "candidate" else ""
    raise BrokenError(step, f"{tries}{beside}", last.log_tail)


def _boot_base_beside(run: RunDir, plan: BootPlan, start: Callable[[BootPlan], None]) -> None:
    folder = run.root / "beside" / str(plan.number)
    kernel = run.build("base") / plan.kernel.name
    try:
        start(replace(plan, side="base", kernel=kernel, folder=folder, in_sandbox=False))
    except BrokenError as error:
        raise InfrastructureError(
            f"the base kernel fails as well, beside the candidate's second try: {error}",
            error.log_tail,
        ) from error


def _died_file(plan: BootPlan) -> Path:
    return plan.folder.with_name(f"{plan.folder.name}.died.json")


def _died(plan: BootPlan) -> list[FailureRecord]:
    """How earlier tries of this boot ended, of the same board and kernel."""
    path = _died_file(plan)
    try:
        data = json.loads(path.read_text()) if path.is_file() else {}
        if data.get("inputs") != _inputs(plan):
            return []
        return [FailureRecord.model_validate(row) for row in data["died"]]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ResultError(f"{path}: is damaged ({error!r}): remove it") from error


def _note_died(plan: BootPlan, died: Sequence[FailureRecord]) -> None:
    rows = [row.model_dump(mode="json") for row in died]
    text = json.dumps({"inputs": _inputs(plan), "died": rows}, indent=1, sort_keys=True)
    results.write_text(_died_file(plan), text + "\n")


def plan_boot(run: RunDir, bench: Bench, side: Side, number: int) -> BootPlan:
    """Render the job of one boot and say how it is run."""
    # Base and candidate run the same job, so that the workload before each cell is the same.
    batches = _batches(bench, number, not counts_recorder(bench, run.build("base") / "Image"))
    job = run.root / "jobs" / f"boot-{number}"
    late = max(number - bench.parts, 0)
    digest = render_job(bench.board, bench.matrix, batches, job, bench.settings, late)
    # The base's calibration is applied to both sides (`iotoll.measure.collect`).
    cells_only = bench.board.is_exact and side == "candidate" and bench.settings == {}
    runs = [run for batch in batches for run in batch.runs]
    return BootPlan(
        side=side,
        number=number,
        board=bench.board,
        clock=bench.clock,
        accelerator=bench.accelerator,
        kernel=run.build(side) / "Image",
        image=bench.image,
        job=job,
        job_sha256=json_sha256([digest, scripts_sha256()]),
        cells=list(bench.cells),
        runs=len([run for run in runs if not (cells_only and is_calibration(run.name))]),
        folder=run.boot(side, number),
        fresh=bench.fresh,
        in_sandbox=side in bench.in_sandbox,
        cells_only=cells_only,
        caches=bench.caches if bench.counts_tracing else None,
    )


def counts_recorder(bench: Bench, base: Path) -> bool:
    """Whether nothing is to be calibrated: the board counts the recorder of such a kernel."""
    return bench.counts_tracing and (not base.is_file() or tells_tracing(base))


def _batches(bench: Bench, number: int, calibrate: bool) -> list[Batch]:
    """What one boot runs, in order."""
    timed = bench.clock is Clock.TIME
    calibrate = bench.calibrate and number == 1 and calibrate
    calibrate = calibrate and (bench.calibrate_times if timed else bench.matrix.calibrate)
    ios = TIMED_IOS if timed else CALIBRATION_IOS
    return make_batches(bench.matrix, list(bench.cells), calibrate, ios)


def step_after(bench: Bench, number: int, cells: Collection[str]) -> str:
    """The step of a boot that follows the last of these cells; empty if there is none.

    A boot that is read for these cells alone may end there (`BootPlan.until`).
    """
    batches = _batches(bench, number, not bench.counts_tracing)
    last = [n for n, batch in enumerate(batches) if any(r.name in cells for r in batch.runs)][-1:]
    return "".join(f"batch {batch.name}" for n in last for batch in batches[n + 1 : n + 2])


def health_plan(run: RunDir, bench: Bench) -> BootPlan:
    """A boot of the base that shows whether a board is well: the first cell, with its own job."""
    own = RunDir(run.root / "lava/health")
    plan = plan_boot(own, replace(bench, cells=bench.cells[:1], calibrate=False), "base", 1)
    return replace(plan, kernel=run.build("base") / "Image")


def _step(plan: BootPlan) -> str:
    return f"boot/{plan.name}"


def _inputs(plan: BootPlan) -> dict[str, str]:
    return {"board": plan.identity(), "kernel": plan.kernel_sha256}


def mark_done(run: RunDir, plan: BootPlan) -> None:
    """Stamp a boot as done with its board and kernel."""
    run.mark_done(_step(plan), _inputs(plan))


def _is_done(run: RunDir, plan: BootPlan, sealed_too: bool = True) -> bool:
    path = plan.folder / "boot.json"
    if not run.is_done(_step(plan), _inputs(plan)) or not path.is_file():
        return False
    try:
        if sealed_too:
            sealed.check(plan.folder, results.read(path, BootRecord).digests)
    except ResultError:
        return False
    return True


def with_cmdline(bench: Bench, words: str) -> Bench:
    """The same bench with words appended to the kernel's command line (experiments)."""
    assert isinstance(bench.board, VirtualBoard)
    board = bench.board.model_copy(update={"cmdline": f"{bench.board.cmdline} {words}".strip()})
    return replace(bench, board=board)
