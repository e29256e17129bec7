"""The recorded I/Os of both sides dissected: the base in a process beside the candidate's."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.explain.attribute import CellParts, dissect
from iotoll.explain.compared import SideParts
from iotoll.explain.coverage import Executed
from iotoll.explain.pieces import PieceCounter, Pieces
from iotoll.explain.record import Record, read_record
from iotoll.explain.stored import stored_record
from iotoll.explain.tables import io_tables
from iotoll.explain.walk import Walker
from iotoll.kernels.symbols import Symbols
from iotoll.measure.iotable import IoTable
from iotoll.records.models.run import Side

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Boot:
    """A boot that has some of the cells: its folder, and that of the gate's boot of these cells.

    ``record`` is the beginning of the record's files, None where the gate's own boot kept what it
    executed.
    """

    record: Path | None
    folder: Path
    gate: Path
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """What one side is dissected from; a process can be given it.

    ``changed`` functions are looked for in all that was recorded; ``single`` is the number of the
    I/O of each cell that is also dissected alone. Of the cells ``wholes`` the whole I/Os are
    dissected as well, from call to return.
    """

    side: Side
    boots: tuple[Boot, ...]
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
    parts: dict[str, CellParts] = {}
    same: set[str] = set()
    executed = Executed(task.symbols, task.changed)
    for boot in task.boots:
        tables = io_tables(boot.folder, boot.cells, without_tracing=boot.record is None)
        before = io_tables(boot.gate, boot.cells) if boot.record else tables
        if lacking := [cell for cell in boot.cells if cell not in tables]:
            raise InfrastructureError(f"{boot.folder}: has no trace of {lacking[0]}")
        record = _record(boot, tables)
        executed.add(record)
        walker = Walker(record, task.symbols)
        counter = PieceCounter(record, task.pieces, task.symbols)
        for cell in boot.cells:
            on_cell(len(parts))
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
    ordered = {cell: parts[cell] for cell in task.cells}
    return SideParts(task.symbols, ordered, frozenset(same), executed.counts(), task.pieces)


def _record(boot: Boot, tables: Mapping[str, IoTable]) -> Record:
    found = read_record(boot.record) if boot.record else stored_record(boot.gate, tables.values())
    if not len(found.clock):
        raise InfrastructureError(
            f"{boot.folder}: the recorded boot is not the gate's: it has no I/O at the same times;"
            " board, image or job have changed since"
        )
    return found


def _equal(one: IoTable, other: IoTable) -> bool:
    """Whether two boots had the same I/Os, to the instruction."""
    return len(one) == len(other) and all(
        np.array_equal(one[name], other[name]) for name in ("start", *_own(one)) if other.has(name)
    )


def _own(table: IoTable) -> list[str]:
    return [name for name in table.columns if name.startswith(("elapsed_", "own_"))]
