"""Reader and analyser of trace.dat files and blktrace runs, written in Rust (crates/iotoll-py).

A ``path`` is a trace.dat's; or the name of a blktrace run (before ``.blktrace.N``), or one of its
files.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack

class TraceError(ValueError):
    """A trace that cannot be analysed: one line that names the file, what is wrong and the mend."""

class Options(TypedDict, total=False):
    """What to measure in a trace, and which of its I/Os; everything may be left out or ``None``."""

    comm: str | None
    """Only I/Os of tasks with exactly this name, and of the threads that io_uring has for them."""
    device: str | None
    """``major:minor``; the device with most bios if left out. A partition stands for its disk."""
    device_mark: Literal["auto", "last_before"] | None
    """The event that counts as the hand-over to the device: ``auto`` takes the return of the
    driver's queue function where it was probed, ``last_before`` never."""
    without_calls: bool | None
    """Whether the I/Os are what iomap, the page cache and io_uring begin and end: the trace is of
    an architecture without events of system calls (User Mode Linux)."""
    keep_ios: bool | None
    """Whether `analyze` gives the I/Os, and not only their record; if left out, it does."""
    unit: Literal["ns", "instructions"] | None
    """Written into the record."""
    count_events: bool | None
    """Whether events in own time are counted; if left out, in instructions only: it takes time."""
    pids: Sequence[int] | None
    """Only I/Os of these tasks, if any is named; so for the directions. These and the sizes choose
    among the I/Os that were found: the counts of the record stay those of all, with ``selected``
    beside them."""
    directions: Sequence[str] | None
    """``read``, ``write``, ``flush``, ``discard`` or ``other``."""
    turns: Path | None
    """Where a board with several CPUs wrote their turns: own times and those of the first request
    count what each CPU executed itself, and nothing that others executed meanwhile."""
    tracing: Path | None
    """Where a board wrote what the recording of the trace executed: no length counts it; times are
    as they were. Of several CPUs it also has what each executed itself. Not with ``turns``."""
    counts: bytes | None
    """Triples of 64-bit numbers in this machine's byte order: a CPU, a time at which it read the
    trace's clock, and what it had counted until then. Own lengths are such counts in place of time.
    Not together with ``turns`` or ``tracing``."""
    min_size: int | None
    max_size: int | None
    """Only I/Os of at least, or at most, so many bytes."""

class IoTable(TypedDict):
    """One list per column, one entry per measured I/O of the device, in the order of their starts.

    All times are in clock units of the trace: nanoseconds, or instructions on a virtual board with
    one nanosecond per instruction.
    """

    start: list[int]
    """Time of the submission: the system call's entry, or the entry's own event."""
    end: list[int]
    """Time of the system call's exit, or of the completion of an asynchronous I/O."""
    pid: list[int]
    """Thread number of the task."""
    op: list[str]
    """Name of the system call, such as ``pread64``; ``io_submit``, ``io_uring`` or ``bio``."""
    kind: list[str]
    """``sync``, ``libaio``, ``io_uring`` or ``bio``."""
    dev: list[str]
    """Device of its first request, ``major:minor``."""
    sector: list[int | None]
    """First sector of its first request; ``None`` for a flush."""
    bytes: list[int]
    """Bytes, or a negative error number: return value of the system call, bytes of the bios of an
    asynchronous I/O."""
    direction: list[str]
    """``read``, ``write``, ``flush``, ``discard`` or ``other``."""
    path: list[str]
    """Requests in the order of issue, such as ``WS4+2xhWSM1+hFF``: letters of rwbs and KiB,
    ``h`` before a request that another task submitted, ``d`` after one that outlived the I/O."""
    clean: list[bool]
    """Nothing foreign ran in the software sections, and no completion interrupt was shared.

    Absent, as all own times, where the trace has no ``sched_switch``."""
    elapsed_vfs_fs: list[int]
    """The sections' lengths; they add up to ``end - start``."""
    elapsed_submission: list[int]
    elapsed_hardware: list[int]
    elapsed_completion: list[int]
    elapsed_return: list[int]
    own_vfs_fs: list[int]
    """Time in which code ran for this I/O."""
    own_submission: list[int]
    own_hardware: list[int]
    own_completion: list[int]
    own_return: list[int]
    first_vfs_fs: list[int | None]
    """Own time of the I/O's first request alone, up to its bio; ``None`` without such a request."""
    first_submission: list[int | None]
    first_completion: list[int | None]
    """``None`` also when the request outlived the I/O."""
    requests: list[int]
    """Requests that carried part of the I/O."""
    detached: list[int]
    """Of these, the ones that outlived it."""
    bios: list[int]
    """Bios that were submitted for it."""
    merges: list[int]
    """Of these, the ones that were merged into a request that was there already."""
    splits: list[int]
    """Splits of its bios."""
    requeues: list[int]
    """Times that one of its requests was issued again."""
    queue: list[int | None]
    """Hardware queue of its first request, if the driver tells."""
    submit_cpu: list[int]
    complete_cpu: list[int]
    start_mark: list[str]
    """Name of the event that set the start; so for the hand-over, the interrupt and the end."""
    device_mark: list[str]
    interrupt_mark: list[str]
    end_mark: list[str]
    reaped: list[int | None]
    """When the task took the completion of an asynchronous I/O by a system call."""
    at_fs_begin: list[int | None]
    """Times inside the sections, of the I/O's first own request: ``iomap_dio_rw_begin``."""
    at_bio_queue: list[int | None]
    at_getrq: list[int | None]
    at_insert: list[int | None]
    at_issue: list[int | None]
    at_device: list[int | None]
    """The hand-over, by ``device_mark``."""
    at_irq: list[int | None]
    at_softirq: list[int | None]
    at_driver_done: list[int | None]
    """The driver's own completion event."""
    at_rq_complete: list[int | None]
    at_io_done: list[int | None]
    at_dio_complete: list[int | None]
    at_uring_complete: list[int | None]
    at_waking: list[int | None]
    """The last ``sched_waking`` of its task, and when it ran after that."""
    at_sched_in: list[int | None]

def analyze(
    path: str, *, windows: Sequence[tuple[int, int]] | None = None, **options: Unpack[Options]
) -> Iterator[tuple[str, IoTable]]:
    """Measure the I/Os of a trace, in one walk over it.

    Yields the record as JSON text and the I/Os: of the whole trace, or of each window. A window
    holds the events from its first time (clock units of the trace) to before the second; windows
    follow each other in time. Raises `TraceError`.
    """

Packed = tuple[Any, ...]
"""A column in this machine's byte order: 64-bit numbers; of an optional one a byte for each, 1
where it is missing; of texts 32-bit numbers of a list; of flags a byte."""

def stream(
    path: str,
    windows: Sequence[tuple[int, int, str | None, bool]],
    take: Callable[[int, dict[str, Packed]], None],
    *,
    columns: set[str] | frozenset[str] | None = None,
    **options: Unpack[Options],
) -> None:
    """Give the I/Os of some windows to ``take`` while the trace is read: memory does not grow.

    A window: from, to, device (all without one), whether own times are known. ``take`` gets the
    window's number and the columns of `IoTable`. Order is that of the starts, but for an I/O that
    ends after 8192 younger ones. With ``columns``: only those, in the order of the ends, which
    takes less memory. Raises `TraceError`, or what ``take`` raised.
    """

def blocks(
    path: str,
    windows: Sequence[tuple[int, int]],
    *,
    keep: int = 0,
    take: Callable[[int, dict[str, Packed]], None] | None = None,
    **options: Unpack[Options],
) -> list[tuple[str, dict[str, Packed]]]:
    """Look at the requests and bios of some windows, from block events alone.

    Returns, of each, the sums by device as JSON text and its ``keep`` slowest rows, slowest first.
    ``take`` gets all rows in the order of their ends. Raises `TraceError`, or what ``take`` raised.
    """

def trace_info(path: str) -> str:
    """Describe a trace.

    Returns JSON text: version, compression, endian, long_size and page_size (bytes), cpus, clock,
    events (name to count), lost_events, lost_ranges. Raises `TraceError`.
    """

class Recording:
    """A recording of another format, as a trace.dat (or raw blktrace file) that lives as long."""

    path: Path
    """Where that can be read, in this process."""
    format: str
    """What it was: ``perf.data``, ``Perfetto``, ``text``, ``systrace``, or a packed original."""
    packing: str | None
    """How it was packed, such as ``gzip``."""
    resolution: int
    """What its times are a multiple of, in ns: 1000 for most texts."""
    notes: list[str]
    """What is missing, or was not understood; one line each."""

def open_recording(path: str) -> Recording | None:
    """Read a recording of another format; ``None`` for a trace.dat and for blktrace's own files.

    Raises TraceError, which says what the file is, where it is none that is read.
    """

def is_blktrace(path: str) -> bool:
    """Whether a path is of blktrace: the files of a run, or what ``blkparse -d`` wrote."""

def ticks(path: str) -> str | None:
    """Name the trace clock of a trace whose times are ticks of unknown length; else ``None``."""

def files(path: str) -> list[Path]:
    """List the files that a trace consists of: itself, or one for each CPU of a blktrace run.

    Raises `TraceError`.
    """

def markers(path: str) -> list[tuple[int, str]]:
    """Texts that user space wrote into the trace, in order: clock units of the trace, and text.

    Raises `TraceError`.
    """

def tracing(path: Path) -> list[tuple[int, int, int]]:
    """What the recording of a trace executed, as the board wrote it.

    Returns times at which the trace's clock was read, the instructions of all CPUs until each, and
    the CPU that read it, as they were written: an interrupt or another CPU may have read it in
    between. Raises `TraceError`.
    """

def outline(path: str) -> tuple[int | None, dict[int, str]]:
    """Time of a trace's first event (clock units; None without events), and its tasks' names.

    Raises `TraceError`.
    """

def calls(path: str) -> list[tuple[str, int, int, int, int]]:
    """List the system calls that read, write or flush and that began and ended in a trace.

    Returns the name (such as ``pread64``), thread number, start, end (clock units) and return value
    of each, whether it reached a device or not. Raises `TraceError`.
    """

def io_events(
    path: str,
    ios: list[tuple[int, int, int, str | None, tuple[int, int] | None, bool]],
    *,
    limit: int,
) -> str:
    """Collect the events that belong to single I/Os, in one pass over the trace.

    An I/O is named by its thread number, start and end (clock units, both included), device
    (``major:minor``), first and last sector of its first request, and whether its task did nothing
    else meanwhile (then all of the task's events are its own). Found are events of the task, block
    events on its sectors, driver events with its queue and tag, the interrupt around each
    completion, and what woke and switched the task.

    Returns JSON text: per I/O ``events``, each ``[time, cpu, pid, event, [[field, value], ...]]``
    in order of time, at most ``limit`` of them, and ``cut``, the number of those beyond. Raises
    `TraceError`.
    """
