"""Reader and analyser of trace.dat files, written in Rust (crates/iotoll-py)."""

from typing import Literal, TypedDict

class TraceError(ValueError):
    """A trace that cannot be analysed: one line that names the file, what is wrong and the mend."""

class IoTable(TypedDict):
    """One list per column, one entry per measured I/O, in the order of their entries.

    ``start`` and all ``elapsed_*`` and ``own_*`` columns are in clock units of the trace:
    nanoseconds, or instructions on a virtual board with one nanosecond per instruction.
    """

    start: list[int]
    """Time of the system call's entry."""
    pid: list[int]
    """Thread number of the task."""
    op: list[str]
    """Name of the system call, such as ``pread64``."""
    bytes: list[int]
    """Return value of the system call: bytes, or a negative error number."""
    path: list[str]
    """Requests in the order of issue, such as ``WS4+2xhWSM1+hFF``: letters of rwbs and KiB,
    ``h`` before a request that another task submitted, ``d`` after one that outlived the call."""
    clean: list[bool]
    """Nothing foreign ran in the software sections, and no completion interrupt was shared."""
    elapsed_vfs_fs: list[int]
    elapsed_submission: list[int]
    elapsed_hardware: list[int]
    elapsed_completion: list[int]
    elapsed_return: list[int]
    own_vfs_fs: list[int]
    own_submission: list[int]
    own_hardware: list[int]
    own_completion: list[int]
    own_return: list[int]
    first_vfs_fs: list[int | None]
    """Own time of the I/O's first request alone, up to its bio; ``None`` without such a request."""
    first_submission: list[int | None]
    first_completion: list[int | None]
    """``None`` also when the request outlived the system call."""
    requests: list[int]
    """Requests that carried part of the I/O."""
    bios: list[int]
    """Bios that were submitted for it."""

def analyze(
    path: str,
    *,
    comm: str | None = None,
    device: str | None = None,
    device_mark: Literal["auto", "last_before"] = "auto",
    unit: Literal["ns", "instructions"] = "ns",
    window: tuple[int, int] | None = None,
) -> str:
    """Measure the I/Os of a trace.

    ``comm`` selects the I/Os of tasks with exactly this name, all if ``None``. ``device`` is
    ``major:minor``, the device with most bios if ``None``; a partition stands for its disk.
    ``device_mark`` is the event that counts as the hand-over to the device: ``auto`` takes the
    return of the driver's queue function where it was probed, ``last_before`` never.
    ``unit`` is only written into the record. ``window`` limits the trace to the events from its
    first time (clock units of the trace) to before its second.

    Returns the record as JSON text. Raises `TraceError`.
    """

def io_table(
    path: str,
    *,
    comm: str | None = None,
    device: str | None = None,
    device_mark: Literal["auto", "last_before"] = "auto",
    unit: Literal["ns", "instructions"] = "ns",
    window: tuple[int, int] | None = None,
) -> IoTable:
    """Measure the I/Os of a trace, with the options of `analyze`.

    Returns one list per column, all of the same length. Raises `TraceError`.
    """

def trace_info(path: str) -> str:
    """Describe a trace.

    Returns JSON text: version, compression, endian, long_size and page_size (bytes), cpus, clock,
    events (name to count), lost_events, lost_ranges. Raises `TraceError`.
    """

def markers(path: str) -> list[tuple[int, str]]:
    """Texts that user space wrote into the trace, in order: clock units of the trace, and text.

    Raises `TraceError`.
    """

def outline(path: str) -> tuple[int | None, dict[int, str]]:
    """Time of a trace's first event (clock units; None without events), and its tasks' names.

    Raises `TraceError`.
    """

def calls(path: str, window: tuple[int, int]) -> list[tuple[int, int, int, int]]:
    """List the read and write system calls that lie in a window (clock units, half-open).

    Returns thread number, start, end and return value of each, whether it reached a device or not.
    Raises `TraceError`.
    """

def summarise(values: list[int]) -> str:
    """Summarise durations as in a record (`iotoll.models.Stats`); returns JSON text."""

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
