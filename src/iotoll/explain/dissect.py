"""The recorded I/Os of both sides dissected: the base in a process beside the candidate's."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.explain.attribute import dissect
from iotoll.explain.compared import SideParts
from iotoll.explain.coverage import executed_instructions
from iotoll.explain.pieces import PieceCounter, Pieces
from iotoll.explain.record import read_record
from iotoll.explain.stored import stored_record
from iotoll.explain.tables import io_tables
from iotoll.explain.walk import Walker
from iotoll.kernels.symbols import Symbols
from iotoll.measure.iotable import IoTable
from iotoll.records.models.run import Side

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Task:
    """What one side is dissected from; a process can be given it.

    ``folders`` are those of the recorded boot and of the gate's; ``record`` is the beginning of
    the record's files, None where the gate's own boot kept what it executed. ``changed`` functions
    are looked for in all that was recorded; ``single`` is the number of the I/O of each cell that
    is also dissected alone. Of the cells ``wholes`` the whole I/Os are dissected as well, from
    call to return.
    """

    side: Side
    record: Path | None
    folders: tuple[Path, Path]
    symbols: Symbols
    pieces: Pieces
    cells: tuple[str, ...]
    changed: tuple[str, ...]
    single: int | None
    wholes: frozenset[str] = frozenset()


def dissect_sides(tasks: tuple[Task, ...], progress: Progress) -> dict[Side, SideParts]:
    """Dissect base and candidate, side by side where this machine has more than one CPU."""
    first, second = tasks
    with progress.step(f"dissect I/Os ({first.side}, {second.side})", len(second.cells)) as step:

        def on_cell(number: int) -> None:
            step.update(number, len(second.cells), second.cells[number])

        if (os.cpu_count() or 1) == 1:
            return {task.side: dissect_side(task, on_cell) for task in tasks}
        with _beside(first) as result:
            mine = dissect_side(second, on_cell)
            return {first.side: result(), second.side: mine}


@contextmanager
def _beside(task: Task) -> Iterator[Callable[[], SideParts]]:
    """Dissect a side in another process, which does not outlive the block."""
    # Not a fork: this process may have threads, such as that of a live progress bar.
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(os.getpid(), theirs), daemon=True)
    process.start()
    theirs.close()
    # The other process reads it once it has imported all it needs: nobody waits for that.
    giver = threading.Thread(target=_give, args=(ours, task), daemon=True)
    giver.start()

    def result() -> SideParts:
        try:
            found: SideParts | Exception = ours.recv()
        except (EOFError, ConnectionError) as error:
            process.join()
            raise InfrastructureError(
                f"the process that dissects the {task.side}'s I/Os ended with"
                f" {process.exitcode}: is there enough memory?"
            ) from error
        if isinstance(found, Exception):
            raise found
        return found

    try:
        yield result
    finally:
        process.kill()
        process.join()
        giver.join()
        ours.close()


def _give(connection: Connection, task: Task) -> None:
    with suppress(OSError):  # the process has ended: `result` says so
        connection.send(task)


def _work(parent: int, connection: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the first process's to handle
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return
    try:
        connection.send(dissect_side(connection.recv()))
    except Exception as error:
        connection.send(error)


def dissect_side(task: Task, on_cell: Callable[[int], None] = lambda _: None) -> SideParts:
    """Attribute the I/Os of one side's cells; ``on_cell`` is told which cell begins.

    Raises InfrastructureError when the recorded boot is not the gate's, or has no trace of a cell.
    """
    folder, gate = task.folders
    tables = io_tables(folder, task.cells, without_tracing=task.record is None)
    before = io_tables(gate, task.cells) if task.record else tables
    record = read_record(task.record) if task.record else stored_record(gate, tables.values())
    if not len(record.clock):
        raise InfrastructureError(
            f"{folder}: the recorded boot is not the gate's: it has no I/O at the same times;"
            " board, image or job have changed since"
        )
    parts, same = {}, set()
    walker = Walker(record, task.symbols)
    counter = PieceCounter(record, task.pieces, task.symbols)
    for number, cell in enumerate(task.cells):
        on_cell(number)
        if cell not in tables:
            raise InfrastructureError(f"{folder}: the board handed over no trace of {cell}")
        parts[cell] = dissect(
            cell,
            record,
            walker,
            tables[cell],
            task.single,
            counter,
            with_whole=cell in task.wholes,
        )
        if cell in before and _equal(before[cell], tables[cell]):
            same.add(cell)
    executed = executed_instructions(record, task.symbols, task.changed)
    return SideParts(task.symbols, parts, frozenset(same), executed, task.pieces)


def _equal(one: IoTable, other: IoTable) -> bool:
    """Whether two boots had the same I/Os, to the instruction."""
    return len(one) == len(other) and all(
        np.array_equal(one[name], other[name]) for name in ("start", *_own(one)) if other.has(name)
    )


def _own(table: IoTable) -> list[str]:
    return [name for name in table.columns if name.startswith(("elapsed_", "own_"))]
