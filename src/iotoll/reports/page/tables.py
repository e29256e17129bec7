"""The report's tables as plain text, before HTML or the terminal dresses them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iotoll.records.models import Comparison, Finding, Section
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.records.models.run import Side
from iotoll.records.text import NO_VALUE, clean, number, percent, section_title, signed
from iotoll.reports.kit.page import Table
from iotoll.reports.page.diagrams import SIGNS, Measure, movement, stack
from iotoll.reports.page.sure import in_words
from iotoll.reports.page.view import CellView, DeviceRatio, SectionFigures, SectionRow
from iotoll.verdict.words import WHOLE, WORK, rare_cost

_SIDES: tuple[Side, ...] = ("base", "candidate")


def judgement(found: Comparison | None) -> str:
    """Return what the gate says about one section: moved or not, gated or why not, how sure."""
    if found is None:
        return "not judged"
    words = {"grew": "▲ grew", "shrank": "▼ shrank", "unknown": "? unknown"}
    moved = words.get(found.moved, found.moved)
    gated = "" if found.gated else "not gated"
    accepted = "" if found.accepted is None else f"◆ accepted: {clean(found.accepted)}"
    parts = [moved, rare_cost([found]), accepted, gated, clean(found.why), in_words(found)]
    return "; ".join(part for part in parts if part)


def overview(
    views: Sequence[CellView], sections: Sequence[Section], found: Sequence[Finding]
) -> Table | None:
    """Return what changed in every cell that was judged: one row each, those that grew first.

    ``▲`` grew, ``▼`` shrank, ``◆`` may grow, ``△`` once; in brackets: not gated.
    """
    judged = [view for view in views if any(row.comparison for row in view.rows)]
    order = list(dict.fromkeys(cell for one in found for cell in one.cells))
    place = {cell: at for at, cell in enumerate(order)}
    judged.sort(key=lambda view: place.get(view.name.full, len(place)))
    rows = []
    for view in judged:
        by_section = {row.section: row.comparison for row in view.rows}
        parts = [*(by_section.get(section) for section in sections), view.whole, view.work]
        outcome = view.outcome.value if view.outcome else NO_VALUE
        rows.append([view.name.full, outcome, *map(_signed_part, parts)])
    head = ["Cell", "Outcome", *(s.value for s in sections), WHOLE, WORK]
    return Table(head, rows, words=2) if rows else None


def _signed_part(found: Comparison | None) -> str:
    if found is None:
        return ""
    text = f"{signed(found.delta)} {SIGNS[movement(found)]}".rstrip()
    return text if found.gated else f"({text})"


def cell_figures(view: CellView) -> Table:
    """Return all figures of one cell: what the gate compares, medians, and what they rest on.

    Cells of the columns that both sides have read ``base → candidate``, or once when equal.
    """
    judged = any(row.comparison for row in view.rows)
    head = ["Section"]
    head += ["Base", "Candidate", "Change", "Threshold"] if judged else []
    columns = _columns(view)
    head += [title for title, _ in columns]
    rows = [_section_line(view, row, judged, columns) for row in view.rows]
    if judged and view.whole:
        whole = WHOLE[0].upper() + WHOLE[1:]
        rows.append([whole, *_compared(view, view.whole), *[""] * len(columns)])
    if judged and view.work:
        rows.append([WORK[0].upper() + WORK[1:], *_compared(view, view.work), *[""] * len(columns)])
    rows += [_sum_line(view, label, sections, judged) for label, sections in _SUMS]
    return Table(head, rows)


def cell_steps(view: CellView) -> Table:
    """Return where in the sections the time went, elapsed; sides as in `cell_figures`."""
    rows = []
    for row in view.steps:
        found = [row.sides[side] for side in _SIDES if side in row.sides]
        rows.append(
            (
                row.section.value,
                row.step,
                _pair([number(f.ios) for f in found]),
                _pair([number(f.median) for f in found]),
                _pair([number(f.p99) for f in found]),
                row.meaning,
            )
        )
    return Table(("Section", "Step", "I/Os", "Median", "p99", "What happens"), rows, 2, True)


def cell_judgements(view: CellView) -> list[tuple[str, str]]:
    """Return what the gate says of a cell's sections, as (sections, judgement)."""
    said: dict[str, list[str]] = {}
    for row in view.rows:
        if row.comparison:
            said.setdefault(judgement(row.comparison), []).append(row.section.value)
    if view.whole:
        said.setdefault(judgement(view.whole), []).append(WHOLE)
    if view.work:
        said.setdefault(judgement(view.work), []).append(WORK)
    return [(", ".join(sections), text) for text, sections in said.items()]


_Columns = Sequence[tuple[str, Callable[[SectionFigures], str]]]
_RAW: _Columns = (
    ("Raw median", lambda f: number(f.raw)),
    ("Corrected median", lambda f: number(f.corrected)),
)
_COUNTED: _Columns = (("Median", lambda f: number(f.raw)),)
"""Where the board counted the recorder: nothing is to be corrected."""
_MORE: _Columns = (
    ("p99", lambda f: number(f.p99)),
    ("I/Os", lambda f: number(f.ios)),
    ("Clean", lambda f: percent(f.clean_share)),
)
_SUMS: tuple[tuple[str, tuple[Section, ...]], ...] = (
    ("Overhead, 1+2+4", SOFTWARE_SECTIONS),
    ("Overhead + return", (*SOFTWARE_SECTIONS, Section.RETURN)),
)


def _columns(view: CellView) -> _Columns:
    return (*(_COUNTED if view.recorder_counted else _RAW), *_MORE)


def _pair(texts: Sequence[str]) -> str:
    return " → ".join(dict.fromkeys(texts))


def _sides(row: SectionRow) -> list[Side]:
    return [side for side in _SIDES if side in row.sides]


def _section_line(view: CellView, row: SectionRow, judged: bool, columns: _Columns) -> list[str]:
    line = [section_title(row.section)]
    found = row.comparison
    if judged and found:
        line += _compared(view, found)
    elif judged:
        line += [NO_VALUE] * 4
    return line + [_pair([pick(row.sides[s]) for s in _sides(row)]) for _, pick in columns]


def _compared(view: CellView, found: Comparison) -> list[str]:
    change = view.change(found.delta, found.base)
    line = [number(found.base), number(found.candidate), change]
    return [*line, number(found.threshold) if found.gated else "not gated"]


def _sum_line(view: CellView, label: str, sections: Sequence[Section], judged: bool) -> list[str]:
    line = [label]
    if judged:
        found = [r.comparison for r in view.rows if r.section in sections and r.comparison]
        if len(found) == len(sections):
            base, cand = sum(c.base for c in found), sum(c.candidate for c in found)
            delta = cand - base
            line += [number(base), number(cand), view.change(delta, base), ""]
        else:
            line += [NO_VALUE] * 3 + [""]
    for corrected in (False,) if view.recorder_counted else (False, True):
        sides = _sides(view.rows[0])
        line.append(_pair([number(view.total(s, sections, corrected)) for s in sides]))
    return [*line, "", "", ""]


def stack_table(views: Sequence[CellView], sections: Sequence[Section], measure: Measure) -> Table:
    """Return the data of the stacked bars: one row a cell and side, with each section's share."""
    rows = []
    for view in views:
        for side in _SIDES:
            parts = dict(stack(view, side, measure))
            if not parts:
                continue
            total = sum(parts.values())
            line = [view.name.full, side]
            for section in sections:
                value = parts[section]
                share = value / total if total else None
                shown = (
                    percent(value) if measure.share else f"{number(value)} ({percent(share, 0)})"
                )
                line.append(shown)
            rows.append([*line, measure.text(total)])
    return Table(["Cell", "Side", *(s.value for s in sections), "Sum"], rows, words=2)


def change_table(views: Sequence[CellView], sections: Sequence[Section]) -> Table:
    """Return the data of the strips: change and threshold of each section, one cell a row."""
    rows = []
    for view in views:
        by_section = {row.section: row.comparison for row in view.rows}
        line = [view.name.full]
        for section in sections:
            found = by_section.get(section)
            if found is None:
                line.append(NO_VALUE)
            elif found.gated:
                line.append(f"{signed(found.delta)} of {number(found.threshold)}")
            else:
                line.append(f"({signed(found.delta)})")
        rows.append(line)
    return Table(["Cell", *(s.value for s in sections)], rows)


def ratio_table(ratios: Sequence[DeviceRatio]) -> Table:
    """Return the data of the device comparison: overheads without the recorder, and their ratio."""
    rows = [
        (
            f"{ratio.name.workload} {ratio.name.mode}".strip(),
            ratio.name.device_label,
            side,
            number(ratio.ufs[side]),
            number(ratio.other[side]),
            percent(share),
        )
        for ratio in ratios
        for side in _SIDES
        if (share := ratio.share(side)) is not None
    ]
    head = ("Workload", "Device", "Side", "UFS overhead", "Its overhead", "Share of UFS")
    return Table(head, rows, words=3)
