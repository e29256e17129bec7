"""The report and single tables in the terminal, laid out for 80 columns.

Everything that others wrote goes through `rich.text.Text`, so that no markup in it has an effect.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models import Comparison, Section
from iotoll.records.text import (
    NO_VALUE,
    change,
    clean,
    clock_note,
    number,
    percent,
    signed,
    unit_label,
)
from iotoll.reports.page import diagrams
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.growth import growth_view
from iotoll.reports.page.headline import (
    GLYPHS,
    KIND_LABELS,
    group_sentence,
    headline,
    provenance,
    remarks,
    summary,
)
from iotoll.reports.page.modelled import TITLE, latency_note, latency_table, model_facts
from iotoll.reports.page.moved import MovementGroup, movements
from iotoll.reports.page.summary import first_screen
from iotoll.reports.page.view import (
    CellView,
    by_group,
    cells,
    device_ratios,
    is_corrected,
    shown_sections,
    unit_of,
    values_of,
)
from iotoll.verdict.words import WHOLE

_TONES = {
    "pass": "bold green",
    "regression": "bold red",
    "broken": "bold red",
    "measured": "bold",
}
SECTION_STYLES = {
    Section.VFS_FS: ("█", "blue"),
    Section.SUBMISSION: ("▓", "yellow"),
    Section.HARDWARE: ("·", "bright_black"),
    Section.COMPLETION: ("▒", "green"),
    Section.RETURN: ("░", "magenta"),
}
"""Fill and colour of each latency section; the fill alone tells them apart."""

_BAR = 34
_MOVES_SHOWN = 6


def print_report(evidence: Evidence, console: Console) -> None:
    """Print verdict, provenance summary, what moved, sections and device comparison."""
    views = cells(evidence)
    _print_headline(evidence, console)
    _print_first_screen(evidence, views, console)
    _print_failure(evidence, console)
    unit = unit_of(evidence).value
    for group in movements(views):
        _print_group(group, unit, console)
    _print_growth(evidence, console)
    _heading("The run", console)
    _print_facts(summary(evidence), console)
    if evidence.selection and not evidence.selection.cells:
        _say(f"No cell was selected: {evidence.selection.why}", console)
    found = remarks(views)
    if found:
        _heading("Cells to read with care", console)
        for cell, why in found:
            _say(f"{cell}: {why}", console, hang=2)
    if any(view.has_values for view in views):
        _print_figures(evidence, views, console)
    _print_modelled(evidence, views, console)
    _heading("Provenance (hashes cut short; whole in the HTML report)", console)
    for title, facts in provenance(evidence):
        _say(title, console, "bold")
        _print_facts([(label, _short(value)) for label, value in facts], console)
    # A terminal shows the end first.
    console.print()
    _print_headline(evidence, console, brief=True)


def _short(text: str) -> str:
    return re.sub(r"\b([0-9a-f]{16})[0-9a-f]{24,}\b", r"\1", text)


def _heading(title: str, console: Console) -> None:
    console.print()
    console.rule(Text(title, "bold"), align="left", style="dim", characters="─")


def _say(text: str, console: Console, style: str = "", hang: int = 0) -> None:
    """Print a paragraph; lines after the first are indented by ``hang``."""
    room = console.width - hang
    lines = Text(clean(text), style).wrap(console, room)
    for index, line in enumerate(lines):
        line.rstrip()
        console.print(Text(" " * (hang if index else 0)).append_text(line))


def _print_headline(evidence: Evidence, console: Console, brief: bool = False) -> None:
    head = headline(evidence)
    tone = _TONES.get(head.kind, "bold yellow")
    title = Text(f"{head.glyph} {head.word.upper()}", tone)
    if head.exit_code is not None:
        code = f"exit code {head.exit_code}"
        title.append(code.rjust(max(console.width - len(title), len(code) + 2)), "dim")
    console.print(title)
    _say(head.sentence, console, "bold")
    for note in () if brief else head.notes:
        _say(note, console, "dim")


def _print_first_screen(evidence: Evidence, views: list[CellView], console: Console) -> None:
    facts = first_screen(evidence, views)
    if not facts:
        return
    console.print()
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", max_width=12)
    table.add_column(overflow="fold")
    for fact in facts:
        lines = [Text(line) for line in fact.lines]
        for words, command in fact.commands:
            lines += [Text(f"{words}:"), Text(f"  {clean(command)}", "cyan")]
        table.add_row(Text(fact.label), Text("\n").join(lines))
    console.print(table)


def _print_failure(evidence: Evidence, console: Console) -> None:
    failure = evidence.failure
    if failure is None:
        return
    _heading(f"What failed: {failure.step}", console)
    _say(failure.message, console)
    for line in clean(failure.log_tail).expandtabs().splitlines():
        console.print(Text(f"| {line}", "dim"), overflow="fold", soft_wrap=False)


def _print_facts(facts: Sequence[tuple[str, str]], console: Console) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", max_width=18)
    table.add_column(overflow="fold")
    for label, value in facts:
        table.add_row(Text(label), Text(value))
    console.print(table)


def _grid(*heads: str, words: int = 1) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    for index, head in enumerate(heads):
        table.add_column(head, justify="left" if index < words else "right", no_wrap=True)
    return table


def _print_group(group: MovementGroup, unit: str, console: Console) -> None:
    style = {"regression": "bold red", "improvement": "bold green", "accepted": "bold"}.get(
        group.kind, "bold"
    )
    _heading(f"What moved: {KIND_LABELS[group.kind]}", console)
    _say(group_sentence(group, unit), console, style)
    if group.kind == "ungated":
        return
    table = _grid("cell", "base", "candidate", "change", "threshold")
    for move in group.moves[:_MOVES_SHOWN]:
        found = move.comparison
        table.add_row(
            Text(move.name.full),
            number(found.base),
            number(found.candidate),
            Text(change(found.delta, found.relative), style),
            number(found.threshold),
        )
    console.print(table)
    left = len(group.moves) - _MOVES_SHOWN
    if left > 0:
        _say(f"... and {left} more, below", console, "dim")
    for text in dict.fromkeys(m.comparison.confidence for m in group.moves[:1]):
        _say(f"Confidence: {text}", console, "dim", hang=2)


def _print_figures(evidence: Evidence, views: list[CellView], console: Console) -> None:
    note = clock_note(evidence.clock, evidence.virtual)
    unit = unit_label(unit_of(evidence), evidence.clock)
    sections = shown_sections(evidence.clock)
    if any(r.comparison for v in views for r in v.rows):
        _heading(f"Base against candidate: {unit}", console)
        told = "▲▼ left the threshold; ◆ accepted; △ in one of two pairs of boots; (n) not gated."
        _say(f"{note} Candidate minus base; {told}", console, "dim")
        for title, group in by_group(views).items():
            _print_changes(title, group, sections, console)
    share = evidence.clock.value == "time"
    corrected = not share and is_corrected(views)
    kind = "mean share of the whole I/O" if share else f"{unit}, median"
    _heading(f"Latency sections of one I/O: {kind}", console)
    _say(f"{note} {values_of(views)}", console, "dim")
    console.print(_legend(sections))
    for title, group in by_group(views).items():
        draft = diagrams.Measure(corrected, share, 1.0)
        _print_stacks(title, group, draft, console)
    ratios = device_ratios(views)
    if ratios:
        _heading("Software overhead against UFS (without the recorder, 1+2+4)", console)
        for title, rows in ratios.items():
            console.print()
            table = _grid(title, "base", "candidate", "UFS = 100 %", words=1)
            for ratio in rows:
                base, candidate = ratio.share("base"), ratio.share("candidate")
                bar = "━" * round((base or 0) * 30)
                table.add_row(ratio.name.workload, percent(base), percent(candidate), Text(bar))
            table.columns[3].justify = "left"
            console.print(table)


def _print_modelled(evidence: Evidence, views: list[CellView], console: Console) -> None:
    found = latency_table(evidence, views)
    if found is None:
        return
    _heading(f"{TITLE}: latency and IOPS are the model's", console)
    _print_facts(model_facts(evidence), console)
    _say(latency_note(views), console, "dim")
    # Pairs of both sides are wider than a terminal: the page has them, here is the candidate's.
    table = _grid("cell", *found.head[1:])
    for row in found.rows:
        table.add_row(*(Text(word.split(" → ")[-1]) for word in row))
    console.print(table)


def _print_growth(evidence: Evidence, console: Console) -> None:
    found = growth_view(evidence)
    if found is None:
        return
    _heading("Pairs of boots", console)
    _print_facts(found.facts, console)
    table = _grid("cell", "figure", "growth", "interval", words=2)
    for cell, figure, growth, interval, *_, state in found.table.rows:
        tone = "bold red" if state.startswith("▲") else ""
        table.add_row(Text(cell), Text(figure), Text(growth, tone), Text(interval, tone))
    console.print(table)


def _legend(sections: Sequence[Section]) -> Text:
    text = Text()
    for section in sections:
        fill, style = SECTION_STYLES[section]
        text.append(fill * 2, style).append(f" {section.value}  ")
    return text


def _print_changes(
    title: str, views: Sequence[CellView], sections: Sequence[Section], console: Console
) -> None:
    wholes = any(view.moved_alone for view in views)
    heads = [s.value for s in sections] + ([WHOLE] if wholes else [])
    # Five columns leave no room for the word beside them.
    words = len(heads) < 5
    table = _grid(title, *heads, "outcome" if words else "")
    table.columns[0].min_width = 18
    for column in table.columns[1:]:
        column.min_width = 10 if words else None
    console.print()
    for view in views:
        shown: list[Comparison | None] = [row.comparison for row in view.rows]
        line = [_moved_text(found) for found in (*shown, *([view.whole] if wholes else ()))]
        outcome = view.outcome.value if view.outcome else NO_VALUE
        table.add_row(
            Text(view.name.workload),
            *line,
            Text(outcome if words else GLYPHS.get(outcome, outcome)),
        )
    console.print(table)


def _moved_text(found: Comparison | None) -> Text:
    if found is None:
        return Text(NO_VALUE, "dim")
    moved = diagrams.movement(found)
    sign = diagrams.SIGNS[moved] or " "
    tone = {"grew": "red", "shrank": "green", "unknown": "yellow"}.get(moved, "dim")
    text = signed(found.delta)
    return Text(f"{text}{sign}" if found.gated else f"({text}){sign}", tone)


def _print_stacks(
    title: str, views: Sequence[CellView], measure: diagrams.Measure, console: Console
) -> None:
    stacks = []
    for view in views:
        bars: dict[str, list[tuple[Section, float]]] = {
            side: diagrams.stack(view, side, measure) for side in view.rows[0].sides
        }
        if len(bars) == 2 and bars["base"] == bars["candidate"]:
            bars = {"both": bars["base"]}
        stacks += [(view, side, parts) for side, parts in bars.items()]
    full = max((sum(v for _, v in parts) for _, _, parts in stacks), default=0) or 1
    table = _grid(title, "", "software" if measure.share else "sum", "", words=2)
    table.columns[0].min_width = 18
    table.columns[3].justify = "left"
    console.print()
    for view, side, parts in stacks:
        first = view.name.workload if side in ("base", "both") else ""
        bar = Text()
        done = drawn = 0.0
        for section, value in parts:
            # Ends are rounded, not lengths, so that rounding never adds up.
            done += value
            fill, style = SECTION_STYLES[section]
            cells_wide = round(done / full * _BAR) - round(drawn)
            bar.append(fill * cells_wide, style)
            drawn += cells_wide
        total = measure.end_text(parts) if parts else "not usable"
        table.add_row(first, Text(side, "dim"), total, bar)
    console.print(table)
