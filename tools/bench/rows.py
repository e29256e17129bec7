"""What is timed: the analyser, its reader, and the peers on the same trace."""

from __future__ import annotations

from inputs import LONGER, RELEASE, Inputs
from measure import PROGRAMS, Command, Row

#: The rows that others are compared with: the analysis of a trace, and of blktrace's files.
ANALYSIS, BLKTRACE = "analysis", "blktrace"


def _record() -> Command:
    """The command that analyses a file."""
    dut = RELEASE / "iotoll-dut"
    return [dut, "record"] if dut.is_file() else [RELEASE / "examples/record"]


def all_rows(inputs: Inputs) -> list[Row]:
    """Return every row, the analyser's first."""
    return [*_ours(inputs), *_blktrace(inputs), *_peers(inputs)]


def _ours(inputs: Inputs) -> list[Row]:
    record, read = _record(), RELEASE / "read-trace"
    events, long_events = inputs.events, inputs.events * LONGER

    def row(key: str, title: str, command: Command, count: int = events) -> Row:
        return Row(key, f"iotoll: {title}", [command], count)

    return [
        row(ANALYSIS, "every section of every I/O", [*record, inputs.plain]),
        row("analysis-zstd", "the same, zstd", [*record, inputs.zstd]),
        row("long", f"{LONGER}x longer", [*record, inputs.long_plain], long_events),
        row("long-zstd", f"{LONGER}x longer, zstd", [*record, inputs.long_zstd], long_events),
        row("fields", "reader, in order, with 4 fields", [read, "fields", inputs.plain]),
        row("merged", "reader, in order of time", [read, "merged", inputs.plain]),
        row("merged-zstd", "the same, zstd", [read, "merged", inputs.zstd]),
        row("cpus", "reader, CPU after CPU", [read, "cpus", inputs.plain]),
    ]


def _blktrace(inputs: Inputs) -> list[Row]:
    command: Command = [RELEASE / "examples/blktrace", inputs.blktrace]
    count = inputs.block_events
    return [
        Row(BLKTRACE, "iotoll: every bio's sections, blktrace files", [command], count),
        Row("translate", "iotoll: events alone, blktrace files", [[*command, "events"]], count),
    ]


def _peers(inputs: Inputs) -> list[Row]:
    library = PROGRAMS / "libtracecmd_reader"
    report: Command = ["trace-cmd", "report", "-i", inputs.plain]
    binary = inputs.folder / "btt.bin"
    parse: Command = ["blkparse", "-q", "-O", "-i", inputs.blktrace, "-d", binary]
    btt: Command = ["btt", "-i", binary, "-o", inputs.folder / "btt"]
    headroom: Command = [PROGRAMS / "headroom", inputs.plain, *inputs.headroom]

    def row(key: str, title: str, commands: list[Command]) -> Row:
        count = inputs.block_events if key == "btt" else inputs.events
        return Row(key, title, commands, count, against=ANALYSIS)

    return [
        row("headroom", "headroom probe: fixed offsets, no checks", [headroom]),
        row("iterate", "libtracecmd, events only", [[library, "iterate", inputs.plain]]),
        row("libtracecmd", "libtracecmd, with 4 fields", [[library, "fields", inputs.plain]]),
        row("libtracecmd-zstd", "the same, zstd", [[library, "fields", inputs.zstd]]),
        row("report", "trace-cmd report", [report]),
        row("report-raw", "trace-cmd report -R", [[*report, "-R"]]),
        row("btt", "blkparse -d, then btt (block events only)", [parse, btt]),
    ]
