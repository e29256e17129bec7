"""Two pictures of a cell as SVG files: how long each section takes, and when each I/O ran."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from iotoll.measure.iotable import Ints, IoTable
from iotoll.records import results
from iotoll.records.models import CellRecord, Clock, Section, Unit
from iotoll.records.text import clean, plural
from iotoll.reports.kit.svg import METADATA, STYLE, palette
from iotoll.reports.page.view import section_label, shown_sections
from iotoll.reports.trace.blocks import cells, layers, whole
from iotoll.reports.trace.reader import TraceCell
from iotoll.reports.trace.spans import lanes, spans

IOS_SHOWN, IOS_PER_THREAD = 12, 5
"""I/Os that a timeline shows: so many, and so many more for each thread."""

_CUT_FROM = 0.5
"""The share of the time shown that must be the device's alone for it to be cut out."""

SLOW_SHOWN = 12

POINTS = 600
"""Most corners of one curve: more would not be seen."""

_DASHES: dict[Section, tuple[float, ...]] = {
    Section.VFS_FS: (),
    Section.SUBMISSION: (5, 1.5),
    Section.HARDWARE: (1, 1.2),
    Section.COMPLETION: (5, 1.5, 1, 1.5),
    Section.RETURN: (8, 2.5),
}
_LINES = {Section.HARDWARE: palette()["muted"]}
"""A line needs more contrast than an area."""
_SCALES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))


def write_figures(cell: TraceCell, folder: Path) -> list[Path]:
    """Write ``CELL-cdf.svg``, ``-timeline.svg`` and ``-layers.svg``; none of what there is not."""
    figures = []
    if len(cell.table) and cell.table.sections:
        figures += [("cdf", cdf(cell)), ("timeline", timeline(cell))]
    if cell.slow is not None and len(cell.slow["kind"]):
        figures.append(("layers", layer_figure(cell)))
    name = "".join(c if c.isalnum() or c in "-._" else "-" for c in cell.record.cell)
    made = []
    for kind, figure in figures:
        path = folder / f"{name}-{kind}.svg"
        results.write_text(path, svg_text(figure))
        made.append(path)
    return made


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG file: the same text for the same data."""
    with mpl.rc_context(STYLE):
        FigureCanvasSVG(figure)
        stream = io.StringIO()
        figure.savefig(stream, format="svg", metadata=METADATA)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _unit(cell: TraceCell, longest: float) -> tuple[float, str]:
    """Divisor and name of the unit of an axis."""
    if cell.record.clock is Clock.INSTRUCTIONS:
        return next(
            (
                (d, n)
                for d, n in ((1e6, "million instructions"), (1e3, "thousand instructions"))
                if longest >= 10 * d
            ),
            (1.0, "instructions"),
        )
    if cell.record.unit is Unit.TICKS:
        return 1.0, "ticks"
    return next(((d, n) for d, n in _SCALES if longest >= d), (1.0, "ns"))


def new_axes(width: float, height: float, title: str, note: str) -> tuple[Figure, Axes]:
    """Return an empty picture of a size in inches, with a title and a note below it."""
    colours = palette()
    with mpl.rc_context(STYLE):
        layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
        figure = Figure(figsize=(width, height), dpi=72, layout=layout)
        axes = figure.subplots()
    figure.patch.set_facecolor(colours["page"])
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=colours["ink"], pad=22)
    axes.text(
        0,
        1,
        note,
        transform=axes.transAxes,
        fontsize=9.5,
        color=colours["muted"],
        va="bottom",
        parse_math=False,
    ).set_y(1.015)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(colours["muted"])
    axes.tick_params(colors=colours["ink"], labelsize=10)
    axes.xaxis.label.set_color(colours["ink"])
    axes.yaxis.label.set_color(colours["ink"])
    axes.set_axisbelow(True)
    axes.grid(True, axis="x", color=colours["rule"], linewidth=0.7)
    return figure, axes


def _note(cell: TraceCell, shown: str) -> str:
    filters = " ".join(f"{k} {v}" for k, v in cell.record.filters.items())
    virtual = cell.record.clock is Clock.INSTRUCTIONS
    parts = [shown, "instructions on a virtual board, not time" if virtual else "", clean(filters)]
    return "; ".join(part for part in parts if part)


def _short(value: float) -> str:
    """Return ``500``, ``20 k`` or ``1 M``."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g} {letter}"
    return f"{value:g}"


def _some(cell: TraceCell, table: IoTable) -> str:
    """How many I/Os are drawn, and of how many, chosen evenly."""
    drawn = plural(len(table), "I/O")
    return drawn if cell.ios < 0 else f"{drawn} of {cell.ios:,}, evenly chosen"


def _curve(values: Ints) -> tuple[np.ndarray, np.ndarray]:
    """Corners of the distribution: value, and share of I/Os that do not exceed it."""
    ordered = np.sort(values)
    places = np.unique(np.linspace(0, len(ordered) - 1, POINTS).astype(np.int64))
    shares = (places + 1) / len(ordered)
    return np.r_[ordered[:1], ordered[places]].astype(float), np.r_[0.0, shares]


def cdf(cell: TraceCell) -> Figure:
    """Draw, per section, the share of I/Os that took at most so long (elapsed; log axis)."""
    table, colours = cell.sample or cell.table, palette()
    sections = [s for s in shown_sections(cell.record.clock) if s in table.sections]
    figure, axes = new_axes(
        8.2,
        4.6,
        f"{clean(cell.record.cell)}: latency sections",
        _note(cell, _some(cell, table) + ", elapsed"),
    )
    label = cell.record.unit.value
    drawn: list[Section] = []
    curves = {s: found for s in sections if (found := table.elapsed(s)).any()}
    first, last = _ends(list(curves.values()))
    for section, values in curves.items():
        x, y = _curve(np.maximum(values, first))
        axes.step(
            x,
            y,
            where="post",
            color=_LINES.get(section) or colours[section.value],
            linewidth=2,
            dashes=_DASHES[section] or (None, None),
            label=section_label(cell.record, section),
        )
        drawn.append(section)
    axes.set_xscale("log")
    axes.set_xlim(first, last)
    # Ticks that fit beside each other: three a decade on a short axis, one on a long one.
    decades = np.log10(last / first)
    subs = (1, 2, 5) if decades <= 2.5 else (1, 3) if decades <= 4 else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: _short(v)))
    axes.set_xlabel(f"elapsed in the section ({label}, logarithmic)")
    axes.set_ylabel("share of I/Os at or below")
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v * 100:.0f} %"))
    axes.grid(True, axis="y", color=colours["rule"], linewidth=0.7)
    if drawn:
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1.01, 0.5),
            frameon=False,
            handlelength=3.2,
            labelcolor=colours["ink"],
        )
    return figure


_LAYERS = {
    "layers above": "vfs_fs",
    "block layer": "submission",
    "driver": "return",
    "device": "hardware",
    "driver and device": "hardware",
    "device and completion": "hardware",
    "completion": "completion",
}


def layer_figure(cell: TraceCell) -> Figure:
    """Draw the slowest requests and bios as stacked bars, by layer."""
    colours = palette()
    rows = list(cells(cell.slow or {}))[:SLOW_SHOWN]
    longest = max(whole(row) for row in rows)
    divisor, unit = _unit(cell, float(longest))
    figure, axes = new_axes(
        13,
        1.9 + 0.34 * max(len(rows), 3),
        f"{clean(cell.record.cell)}: the slowest requests by layer",
        _note(cell, f"{plural(len(rows), 'request')} or bios, slowest first"),
    )
    used: dict[str, str] = {}
    for place, row in enumerate(rows):
        parts = layers(row)
        for name, begin, end in parts:
            kind = name.partition(": ")[2].partition(" ")[0] or name
            colour = _LAYERS.get(name) or {"before": "vfs_fs", "after": "return"}.get(kind)
            label = name if name in _LAYERS else f"device above: {kind}"
            if name.startswith("below"):
                colour, label = "hardware", "devices below"
            used.setdefault(label, colours[colour or "hardware"])
            left, width = (begin - parts[0][1]) / divisor, (end - begin) / divisor
            axes.barh(place, width, left=left, height=0.7, color=used[label], linewidth=0)
        axes.text(
            whole(row) / divisor + 0.008 * longest / divisor,
            place,
            _thin_layers(cell, row),
            va="center",
            fontsize=8,
            color=colours["muted"],
        )
    labels = [f"{row['dev']} {row['rwbs']} {clean(cell.task(row['pid']))}" for row in rows]
    axes.set_yticks(range(len(rows)), labels)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    # Room for the words beside the longest bar.
    axes.set_xlim(0, 1.9 * longest / divisor)
    axes.set_xlabel(f"{unit} after the first mark; beside each bar: its other layers")
    axes.legend(
        handles=[Patch(color=colour, label=label) for label, colour in used.items()],
        loc="upper left",
        bbox_to_anchor=(1.005, 1),
        frameon=False,
        labelcolor=colours["ink"],
    )
    return figure


def _thin_layers(cell: TraceCell, row: Mapping[str, Any]) -> str:
    """The layers of a row but the longest one, which hides them in a picture, with their times."""
    parts = sorted(layers(row), key=lambda part: part[1] - part[2])[1:]
    words = []
    for name, begin, end in sorted(parts, key=lambda part: part[1]):
        divisor, unit = _unit(cell, float(end - begin))
        words.append(f"{name.partition(': ')[2] or name} {(end - begin) / divisor:.3g} {unit}")
    return ", ".join(words)


def _ends(sections: Sequence[Ints]) -> tuple[float, float]:
    """Ends of the axis: where the curves rise; what lies before stands at the left end.

    A section that one I/O in a thousand skips would else leave half of the axis empty.
    """
    low = min((float(np.quantile(v[v > 0], 0.005)) for v in sections), default=1.0)
    high = max((float(v.max()) for v in sections), default=10.0)
    return max(low, 1.0) / 1.15, max(high, low + 1, 10.0) * 1.15


def _rows(cell: TraceCell, table: IoTable) -> tuple[list[str], list[int]]:
    """Label of each row of the timeline from the top, and the row of each I/O."""
    labels: list[str] = []
    place = [0] * len(table)
    pids = table["pid"]
    for pid in dict.fromkeys(pids.tolist()):
        mine = np.nonzero(pids == pid)[0]
        chosen = lanes(table["start"][mine].tolist(), table.end[mine].tolist())
        first = len(labels)
        labels += [f"{clean(cell.task(pid))} {pid}"] + [""] * max(chosen, default=0)
        for row, lane in zip(mine.tolist(), chosen, strict=True):
            place[row] = first + lane
    return labels, place


def _typical(table: IoTable) -> tuple[int, int]:
    """First row and number of consecutive I/Os that take neither shorter nor longer than usual."""
    threads = len(set(table["pid"].tolist()))
    count = min(len(table), IOS_SHOWN + IOS_PER_THREAD * threads)
    last = len(table) - count + 1
    took = table.end[count - 1 :] - table["start"][:last]
    return int(np.argsort(took, kind="stable")[last // 2]), count


def timeline(cell: TraceCell) -> Figure:
    """Draw some I/Os as bars by thread, coloured by section; all of them when they are few."""
    skipped, count = _typical(cell.table)
    table = cell.table.take(np.arange(skipped, skipped + count))
    labels, place = _rows(cell, table)
    colours = palette()
    origin = int(table["start"][0])
    cuts = _cuts(table)
    shrunk = _Shrunk(cuts, origin)
    divisor, unit = _unit(cell, float(shrunk(table.end).max()))
    some = count < len(cell.table)
    some |= cell.ios > 0
    shown = f"I/O {skipped + 1:,} to {skipped + count:,} of" if some else "all"
    sums = "" if spans(table).exact.all() else "; with several requests: sums, in order"
    figure, axes = new_axes(
        11,
        1.9 + 0.27 * max(len(labels), 3),
        f"{clean(cell.record.cell)}: I/Os by thread",
        _note(cell, f"{shown} {plural(max(cell.ios, len(cell.table)), 'I/O')}{sums}"),
    )
    used = _bars(axes, table, place, shrunk, divisor)
    for begin, _ in cuts:
        at = float(shrunk(np.array([begin]))[0]) / divisor
        axes.axvline(at, color=colours["muted"], linewidth=0.7, linestyle=(0, (2, 2)), zorder=0)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(8))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.6g}"))
    cut = "; dotted: cut out, every I/O shown is at the device" if cuts else ""
    axes.set_xlabel(f"{unit} after {origin / 1e9:,.6f} s of the trace clock{cut}")
    _section_legend(axes, used, cell.record)
    return figure


def _cuts(table: IoTable) -> list[tuple[int, int]]:
    """Stretches in which no I/O is in software, where they are most of the time shown.

    A device takes many times as long as software does: uncut, all else would be too thin to see.
    """
    layout = spans(table)
    busy = sorted(
        (begin, end)
        for row in range(len(table))
        for section, begin, end in layout.of(row)
        if section is not Section.HARDWARE and end > begin
    )
    cuts: list[tuple[int, int]] = []
    until = int(table["start"].min())
    for begin, end in busy:
        if begin > until:
            cuts.append((until, begin))
        until = max(until, end)
    whole = int(table.end.max()) - int(table["start"].min())
    return cuts if sum(end - begin for begin, end in cuts) > _CUT_FROM * whole else []


class _Shrunk:
    """Times after ``origin`` with the cuts taken out; a time inside of a cut is its beginning."""

    def __init__(self, cuts: Sequence[tuple[int, int]], origin: int) -> None:
        self.cuts, self.origin = cuts, origin

    def __call__(self, times: Ints) -> Ints:
        out = times - self.origin
        for begin, end in self.cuts:
            out = out - np.clip(times - begin, 0, end - begin)
        return out


def _bars(
    axes: Axes, table: IoTable, place: list[int], shrunk: _Shrunk, divisor: float
) -> set[Section]:
    """Draw the sections of each I/O in its row; return those that were drawn."""
    colours = palette()
    bars: dict[tuple[int, Section], list[tuple[float, float]]] = {}
    layout = spans(table)
    for which, row in enumerate(place):
        for section, begin, end in layout.of(which):
            left, right = (shrunk(np.array([begin, end])) / divisor).tolist()
            bars.setdefault((row, section), []).append((left, right - left))
    for (row, section), parts in sorted(bars.items()):
        # What the device does is thinner, as the figure is about software.
        height = 0.24 if section is Section.HARDWARE else 0.72
        box = (row - height / 2, height)
        axes.broken_barh(parts, box, facecolors=colours[section.value], linewidth=0)
    starts = (shrunk(table["start"]) / divisor).tolist()
    for row, begin in zip(place, starts, strict=True):
        # A thin line begins each I/O: neighbours of one thread would run into each other.
        axes.plot([begin, begin], [row - 0.5, row - 0.36], color=colours["ink"], linewidth=0.6)
    return {section for _, section in bars}


def _section_legend(axes: Axes, used: set[Section], record: CellRecord) -> None:
    colours = palette()
    meaningless = {} if record.clock is Clock.TIME else {Section.HARDWARE: " (no meaning)"}
    handles = [
        Patch(color=colours[s.value], label=section_label(record, s) + meaningless.get(s, ""))
        for s in Section
        if s in used
    ]
    axes.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(1.005, 1),
        frameon=False,
        labelcolor=colours["ink"],
    )
