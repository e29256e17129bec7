"""The results as text for the terminal and as Markdown for docs/speed.md."""

from __future__ import annotations

from measure import Row
from rows import ANALYSIS, BLKTRACE

HEAD = [
    "",
    "events",
    "wall s",
    "CPU s",
    "M events/s of CPU",
    "of wall",
    "peak RSS MiB",
    "iotoll is faster by",
]


def cells(rows: list[Row]) -> list[list[str]]:
    """Return the cells of the table, its head first.

    Ratios are taken from CPU time, which another job on the machine disturbs least: all of these
    programs run on one core, but for the analyser's second thread, which unpacks.
    """
    by_key = {row.key: row for row in rows}
    table = [HEAD]
    for row in rows:
        best = row.best
        table.append(
            [
                row.title,
                f"{row.events:,}",
                f"{best.wall:.3f}",
                f"{best.cpu:.3f}",
                f"{row.events / best.cpu / 1e6:.2f}",
                f"{row.events / best.wall / 1e6:.2f}",
                f"{best.rss / 1024:.0f}",
                _ratio(row, by_key),
            ]
        )
    return table


def _ratio(row: Row, by_key: dict[str, Row]) -> str:
    """How many times the peer's CPU time per event is the analyser's."""
    if row.against is None:
        return ""
    own = by_key[row.against]
    ratio = (row.best.cpu / row.events) / (own.best.cpu / own.events)
    same = by_key.get(BLKTRACE)
    if row.key == "btt" and same:
        return f"{ratio:.2f} ({row.best.cpu / same.best.cpu:.2f} on the same files)"
    return f"{ratio:.2f}"


def text(rows: list[Row]) -> str:
    """Return the table with aligned columns."""
    table = cells(rows)
    widths = [max(len(line[at]) for line in table) for at in range(len(HEAD))]
    lines = []
    for line in table:
        first = line[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True))
        lines.append("  ".join([first, *rest]).rstrip())
    return "\n".join(lines)


def markdown(rows: list[Row]) -> str:
    """Return the table for the documentation."""
    head, *body = cells(rows)
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def memory(rows: list[Row]) -> str:
    """Say how the analyser's memory grows with the length of the trace."""
    by_key = {row.key: row.best.rss / 1024 for row in rows}
    plain = f"{by_key[ANALYSIS]:.0f} to {by_key['long']:.0f} MiB"
    packed = f"{by_key['analysis-zstd']:.0f} to {by_key['long-zstd']:.0f} MiB"
    return f"Memory from the trace to the longer one: {plain}; zstd {packed}."
