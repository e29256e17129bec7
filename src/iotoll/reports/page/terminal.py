"""The report and single tables in the terminal, laid out for 80 columns.

Everything that others wrote goes through `rich.text.Text`, so that no markup in it has an effect.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.records.models import Comparison, Finding, Section
from iotoll.records.text import (
    NO_VALUE,
    clean,
    clock_note,
    number,
    percent,
    plural,
    signed,
    unit_label,
)
from iotoll.reports.page import diagrams
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.findings import blocking, findings, groups_of, lines_of, of_cell
from iotoll.reports.page.growth import growth_view
from iotoll.reports.page.headline import (
    GLYPHS,
    KIND_LABELS,
    Headline,
    headline,
    provenance,
    remarks,
    summary,
)
from iotoll.reports.page.modelled import TITLE, latency_note, latency_table, model_facts
from iotoll.reports.page.short import by_device, in_short, telling
from iotoll.reports.page.summary import Fact, first_screen, full_command
from iotoll.reports.page.sure import in_words
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
from iotoll.verdict.moved import MovementGroup
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


SCREEN = 24
"""Lines of the first screen; the path of the page follows them."""
_LOG = 8  # lines of a failure's log
_TRAILERS = 3
_WIDTH = 80
_FACT_LINES = 6
_FACT_LEAST = 2  # lines that findings leave to a fact, before they are told in short
_LABEL = 12
_FACTS = (
    "Where",
    "Largest",
    "What ran",
    "Not covered",
    "Seen once",
    "Mind",
    "Accepted",
    "How sure",
)
"""What the first screen has, in its order; the page and ``--full`` have more."""


def print_screen(evidence: Evidence, console: Console) -> None:
    """Print the first screen: outcome, findings, where, what ran, how sure, what to do.

    At most `SCREEN` lines of 80 columns, but for findings: none is left out. Many are told without
    their functions and workloads, and more by device. Commands stand whole on one line, however
    long.
    """
    views = cells(evidence)
    found = findings(evidence, views)
    head = headline(evidence, found)
    facts = {fact.label: fact for fact in first_screen(evidence, views, found)}
    todo = _commands(facts, evidence)
    room = SCREEN - 1 - len(todo) - (1 if todo else 0)
    told = [label for label in _FACTS if label in facts]
    below: list[str] = []
    if failure := evidence.failure:
        below += [_plain(line) for line in telling(failure.log_tail, _LOG)]
    whole = {label: _fact(label, facts[label].lines, console.width) for label in told}
    least = sum(min(len(lines), _FACT_LEAST) for lines in whole.values())
    lines = _fitted(head, blocking(found), console.width, room - len(below) - least)
    room -= len(lines) + len(below)
    for left, label in zip(range(len(told), 0, -1), told, strict=True):
        fact = _cut(whole[label], max(room // left, 1), console.width)
        room -= len(fact)
        below += fact
    _print_title(head, console)
    for line in lines:
        console.print(Text(line, "bold"), soft_wrap=True)
    for line in below:
        console.print(Text(line), soft_wrap=True)
    if todo:
        console.print(Text("What to do", "bold"))
    for line in todo:
        console.print(Text(line, "" if line.endswith(":") else "cyan"), soft_wrap=True)


def _commands(facts: Mapping[str, Fact], evidence: Evidence) -> list[str]:
    """What to do: words, and below them each command whole; what goes together has words once."""
    lines: list[str] = []
    commands = facts["What to do"].commands if "What to do" in facts else ()
    for at, (words, what) in enumerate(commands):
        if words == "and" and at + 1 - _accepts(commands) > _TRAILERS:
            left = plural(len(commands) - at, "more line")
            return [*lines, f"  {left}: {full_command(evidence)}"]
        line = f"  {words}: {clean(what)}"
        if words == "and" or what.startswith("Iotoll-Accept") or len(line) > _WIDTH:
            lines += [] if words == "and" else [f"  {words}:"]
            line = f"    {clean(what)}"
        lines.append(line)
    return lines


def _accepts(commands: Sequence[tuple[str, str]]) -> int:
    """The place of the first trailer."""
    return next(at for at, (_, what) in enumerate(commands) if what.startswith("Iotoll-Accept"))


def _fitted(head: Headline, found: Sequence[Finding], width: int, room: int) -> list[str]:
    """All findings, as whole as there is room for; those that have none by device and cost."""
    sentences = [head.sentence, *head.more]
    hang = "" if len(sentences) == 1 else "  "
    whole = [line for one in sentences for line in _wrapped(one, width, hang)]
    if len(whole) <= room:
        return whole
    # The verdict's own sentence, where it comes before the findings, is one more.
    of = {line: one for one in found for line in [lines_of([one])[0]]}
    first = [line for one in sentences if one not in of for line in _wrapped(one, width, hang)]
    left = [one for sentence in sentences if (one := of.get(sentence))]
    short = [line for one in left for line in _wrapped(in_short(one), width, hang)]
    if left and not first:
        first = _wrapped(lines_of(left[:1])[0], width, hang)
        left = left[1:]
        short = [line for one in left for line in _wrapped(in_short(one), width, hang)]
    if len(first) + len(short) > room:
        short = [line for one in by_device(left) for line in _wrapped(one, width, hang)]
    return [*first, *short]


def _wrapped(text: str, width: int, hang: str) -> list[str]:
    # A non-breaking space is kept: a number stays with its unit.
    return textwrap.wrap(
        clean(text), width, subsequent_indent=hang, break_long_words=False, break_on_hyphens=False
    )


def _fact(label: str, said: Sequence[str], width: int) -> list[str]:
    """A fact's lines behind its label."""
    indent = " " * _LABEL
    lines = [f"{indent}{line}" for text in said for line in _wrapped(text, width - _LABEL, "")]
    return [label.ljust(_LABEL) + lines[0].removeprefix(indent), *lines[1:]] if lines else []


def _cut(lines: list[str], most: int, width: int) -> list[str]:
    """At most so many lines of a fact; dots behind the last word say that it goes on."""
    if len(lines) <= (most := min(most, _FACT_LINES)):
        return lines
    last = lines[most - 1]
    while len(last) > width - 4:
        last = last[: last.rindex(" ")]
    return [*lines[: most - 1], f"{last.rstrip(' ,;')} ..."]


def _plain(line: str) -> str:
    return f"| {clean(line).expandtabs()}"[:78]


def print_report(evidence: Evidence, console: Console) -> None:
    """Print all of it: findings, cells that moved, sections, devices, provenance."""
    views = cells(evidence)
    found = findings(evidence, views)
    _print_headline(headline(evidence, found), console)
    _print_first_screen(first_screen(evidence, views, found), console)
    _print_failure(evidence, console)
    for group in groups_of(evidence.verdict):
        _print_group(group, found, {view.name.full: view for view in views}, console)
    _print_growth(evidence, console)
    _heading("The run", console)
    _print_facts(summary(evidence), console)
    if evidence.selection and not evidence.selection.cells:
        _say(f"No cell was selected: {evidence.selection.why}", console)
    care = remarks(views)
    if care:
        _heading("Cells to read with care", console)
        for cell, why in care:
            _say(f"{cell}: {why}", console, hang=2)
    if any(view.has_values for view in views):
        _print_figures(evidence, views, console)
    _print_modelled(evidence, views, console)
    _heading("Provenance (hashes cut short; whole in the HTML report)", console)
    for title, facts in provenance(evidence):
        _say(title, console, "bold")
        _print_facts([(label, _short(value)) for label, value in facts], console)


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


def _print_title(head: Headline, console: Console) -> None:
    tone = _TONES.get(head.kind, "bold yellow")
    title = Text(f"{head.glyph} {head.word.upper()}", tone)
    if head.exit_code is not None:
        code = f"exit code {head.exit_code}"
        title.append(code.rjust(max(console.width - len(title), len(code) + 2)), "dim")
    console.print(title)


def _print_headline(head: Headline, console: Console) -> None:
    _print_title(head, console)
    for line in (head.sentence, *head.more):
        _say(line, console, "bold", hang=2 if head.more else 0)
    for note in head.notes:
        _say(note, console, "dim")


def _print_first_screen(facts: Sequence[Fact], console: Console) -> None:
    if not facts:
        return
    console.print()
    for fact in facts:
        for line in _whole_fact(fact, console.width):
            console.print(Text(line), soft_wrap=True)
        if fact.commands:
            console.print(Text(fact.label, "bold"))
        for words, command in fact.commands:
            console.print(Text(f"  {words}:"), soft_wrap=True)
            console.print(Text(f"    {clean(command)}", "cyan"), soft_wrap=True)


def _whole_fact(fact: Fact, width: int) -> list[str]:
    lines: list[str] = []
    for text in fact.lines:
        label = "" if lines else fact.label
        own = _wrapped(f"{label.ljust(_LABEL)} {clean(text)}", width, " " * (_LABEL + 1))
        lines += own
    return lines


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


def _print_group(
    group: MovementGroup,
    told: Sequence[Finding],
    by_name: Mapping[str, CellView],
    console: Console,
) -> None:
    style = {"regression": "bold red", "improvement": "bold green", "accepted": "bold"}.get(
        group.kind, "bold"
    )
    name = group.moves[0].name.full
    one = of_cell(told, name, group.name)
    _heading(f"{KIND_LABELS[group.kind]}: {group.device} {group.title}", console)
    _say(one.sentence if one else "", console, style)
    if group.kind == "ungated":
        return
    table = _grid("cell", "base", "candidate", "change", "threshold")
    for move in group.moves[:_MOVES_SHOWN]:
        found = move.comparison
        table.add_row(
            Text(move.name.full),
            number(found.base),
            number(found.candidate),
            Text(by_name[move.name.full].change(found.delta, found.base), style),
            number(found.threshold),
        )
    console.print(table)
    left = len(group.moves) - _MOVES_SHOWN
    if left > 0:
        _say(f"... and {left} more, below", console, "dim")
    _say(in_words(group.moves[0].comparison), console, "dim", hang=2)


def _print_figures(evidence: Evidence, views: list[CellView], console: Console) -> None:
    note = clock_note(evidence.clock, evidence.virtual, evidence.native)
    unit = unit_label(unit_of(evidence), evidence.clock)
    sections = shown_sections(evidence.clock)
    if any(r.comparison for v in views for r in v.rows):
        _heading(f"Base against candidate: {unit}", console)
        told = (
            "▲▼ left the threshold; ◆ accepted; △ in one of two pairs of boots; ? not known;"
            " (n) not gated."
        )
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
