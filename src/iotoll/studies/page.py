"""A study's pages: HTML in one file, Markdown with pictures beside it, and the terminal's lines."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from iotoll.records import results
from iotoll.records.models.study import (
    StudyClaim,
    StudyRecord,
    StudyTable,
    StudyValue,
    StudyVariant,
)
from iotoll.records.text import fixed
from iotoll.reports.kit.page import Table, page_template
from iotoll.reports.kit.svg import Picture, standalone
from iotoll.studies.pictures import curve_picture, table_picture

TONES = {
    "agrees": "pass",
    "shape holds": "pass",
    "differs": "regression",
    "shape differs": "regression",
    "needs a board": "inconclusive",
    "not measured": "inconclusive",
    "as asked": "pass",
    "note": "inconclusive",
}
"""Colour of each verdict, as page.css names it."""

PUBLISHED = "published"
"""Title of the column with what was published, beside ours."""
REASONS = 3
"""How many reasons for absent values a table prints."""


@dataclass(frozen=True)
class Grid:
    """A table or curve as cells of text, with its picture."""

    name: str
    title: str
    note: str
    source: str
    table: Table
    reasons: list[str]
    picture: Picture | None


def published(values: Sequence[float]) -> str:
    """A published value or range with the digits that its source gives; empty without one."""
    return " to ".join(fixed(value, _digits(value)) for value in values)


def _digits(value: float) -> int:
    """Digits behind the point of a value that was typed with so many; none of a whole number."""
    return len(f"{value}".removesuffix(".0").partition(".")[2])


def grids(record: StudyRecord) -> Iterator[Grid]:
    """The tables and curves of a study, in the order of its file."""
    for table in record.tables:
        yield _table_grid(table)
    for curve in record.curves:
        rows = []
        for line in curve.lines:
            ends = [line.points[0], line.points[-1]] if line.points else []
            texts = [
                ", ".join(f"{fixed(x, 1)}: {fixed(y, 1)}" for x, y in points)
                for points in (ends, line.executed, line.published)
            ]
            rows.append([line.label, *texts])
        unit = f"[{curve.x_unit}: {curve.unit}]"
        head = ["", f"ends of the line {unit}", f"executed {unit}", f"published {unit}"]
        note = f"{curve.note} Formula: {curve.formula}.".strip()
        yield Grid(curve.name, curve.title, note, "", Table(head, rows), [], curve_picture(curve))


def _table_grid(table: StudyTable) -> Grid:
    has = [any(row.values[i].published for row in table.rows) for i in range(len(table.columns))]
    head = [""]
    for column, seed in zip(table.columns, has, strict=True):
        head += [f"{column.title} [{column.unit}]"]
        head += [f"{PUBLISHED} [{column.unit}]"] if seed else []
    rows = []
    for row in table.rows:
        texts = [row.label]
        for column, seed, value in zip(table.columns, has, row.values, strict=True):
            texts.append(fixed(value.ours, column.digits))
            texts += [published(value.published)] if seed else []
        rows.append(texts)
    values: list[StudyValue] = [value for row in table.rows for value in row.values]
    reasons = _some(list(dict.fromkeys(value.why for value in values if value.why)))
    formulas = "; ".join(f"{c.title} = {c.formula}" for c in table.columns)
    note = f"{table.note} Formulas: {formulas}.".strip()
    picture = table_picture(table)
    return Grid(table.name, table.title, note, table.source, Table(head, rows), reasons, picture)


def _some(reasons: list[str]) -> list[str]:
    """The first reasons, and how many more there are."""
    more = len(reasons) - REASONS
    return reasons if more <= 1 else [*reasons[:REASONS], f"{more} more, for reasons such as these"]


def claim_row(claim: StudyClaim) -> list[str]:
    """Text, published, ours and verdict of a claim; ours with the published value's digits.

    Ours of a shape are both sides of its comparisons.
    """
    digits = max([1, *map(_digits, claim.published)])
    ours = fixed(claim.ours, digits) if claim.kind == "value" else compared(claim)
    unit = f" {claim.unit}" if claim.unit else ""
    return [
        claim.text,
        f"{published(claim.published)}{unit}" if claim.published else "a shape",
        f"{ours}{unit}" if ours else "",
        claim.verdict,
    ]


def said_values(claim: StudyClaim, published: str, ours: str) -> str:
    """Both values in words; a shape has ours alone."""
    return f"ours {ours}" if claim.kind == "shape" else f"published {published}, ours {ours}"


def compared(claim: StudyClaim) -> str:
    """A shape's comparisons with our values: ``174.0 > 9.8, 9.8 > 6.2``."""
    parts = []
    for left, sign, right in claim.compared:
        # So many digits that both sides differ as they are shown, where they differ at all.
        digits = next((n for n in range(1, 5) if fixed(left, n) != fixed(right, n)), 1)
        parts.append(f"{fixed(left, digits)} {sign} {fixed(right, digits)}")
    return ", ".join(parts)


def summary(record: StudyRecord) -> str:
    """How many claims came to which verdict, in one line."""
    counts: Counter[str] = Counter(claim.verdict for claim in record.claims)
    parts = [f"{name}: {counts[name]}" for name in TONES if counts.get(name)]
    checks: Counter[str] = Counter(check.verdict for check in record.checks)
    parts += [f"{name} (fio): {checks[name]}" for name in TONES if checks.get(name)]
    return ", ".join(parts) or "no claims"


def reasons(record: StudyRecord) -> list[str]:
    """Why claims were not judged, each reason once."""
    return list(dict.fromkeys(claim.why for claim in record.claims if claim.why))


def command(record: StudyRecord) -> str:
    """What repeats the study."""
    return shlex.join(record.command)


def study_html(record: StudyRecord) -> str:
    """The whole page as text; no script, no network."""
    return (
        page_template("iotoll.studies", "study.html.j2").render(
            record=record,
            summary=summary(record),
            claims=[(claim_row(claim), claim) for claim in record.claims],
            reasons=reasons(record),
            grids=list(grids(record)),
            tones=TONES,
            models=models,
            safe=Markup,
            command=command(record),
        )
        + "\n"
    )


def study_markdown(record: StudyRecord, pictures: str = "") -> str:
    """The study as Markdown; ``pictures`` is the folder of its SVG files, as a link has it."""
    lines = [f"# {record.title}", "", record.question, "", f"Result: {summary(record)}.", ""]
    lines += ["Repeat with:", "", f"    {command(record)}", ""]
    lines += _md_list("Sources", record.sources)
    lines += _md_list("Assumed", record.assumed)
    lines += _md_list("Cannot be shown here", record.not_shown)
    if record.claims:
        head = ["claim", "published", "ours", "verdict"]
        lines += ["## Claims", "", *_md_table(head, [claim_row(c) for c in record.claims])]
        lines += [f"Not judged: {why}." for why in reasons(record)] + [""]
    if record.checks:
        rows = [[c.run, c.what, c.verdict, c.asked, c.ran] for c in record.checks]
        head = ["run", "what", "verdict", "asked", "ran"]
        lines += ["## Asked and ran", "", *_md_table(head, rows)]
    for grid in grids(record):
        lines += [f"## {grid.title}", ""]
        if grid.picture:
            lines += [f"![{grid.title}]({pictures}{record.name}-{grid.name}.svg)", ""]
        lines += [*_md_table(grid.table.head, grid.table.rows), grid.note, ""]
        lines += [f"Published values: {grid.source}.", ""] if grid.source else []
        lines += [f"No value: {why}." for why in grid.reasons] + ([""] if grid.reasons else [])
    lines += ["## Boots", "", *_md_table(["variant", "board", "what", "devices"], _boots(record))]
    return "\n".join(lines).rstrip() + "\n"


def _boots(record: StudyRecord) -> list[list[str]]:
    return [
        [
            v.name,
            v.board,
            v.missing or f"{v.why}; {len(v.cells)} cells; {v.kernel}",
            "; ".join(f"{device}: {model}" for device, model in models(v)),
        ]
        for v in record.variants
    ]


def models(variant: StudyVariant) -> list[tuple[str, str]]:
    """Device and model of the disks that the variant's cells use; raw cells have a second one."""
    used = {cell.partition("-")[0] for cell in variant.cells}
    return [(name, model) for name, model in variant.models.items() if name.rstrip("2") in used]


def _md_list(title: str, items: Sequence[str]) -> list[str]:
    return [f"**{title}**", "", *(f"- {item}" for item in items), ""] if items else []


def _md_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(" ".join(c.replace("|", r"\|").split()) for c in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *(line(row) for row in rows), ""]


def terminal_lines(record: StudyRecord, quiet: bool) -> list[str]:
    """What a terminal shows: the summary, then each claim and check unless ``quiet``."""
    lines = [f"{record.name}: {summary(record)}"]
    if quiet:
        return lines
    width = max((len(claim.verdict) for claim in record.claims), default=0)
    for claim in record.claims:
        text, seed, ours, verdict = claim_row(claim)
        values = f" ({said_values(claim, seed, ours)})" if ours else ""
        lines.append(f"  {verdict.ljust(width)}  {text}{values}")
    for check in record.checks:
        said = f"{check.run}, {check.what}: asked {check.asked}, ran {check.ran}"
        lines.append(f"  {check.verdict}: {said}")
    return lines


def write_pages(record: StudyRecord, folder: Path) -> Path:
    """Write index.html, NAME.md and the pictures; returns the HTML page's path."""
    page = folder / "index.html"
    results.write_text(page, study_html(record))
    results.write_text(folder / f"{record.name}.md", study_markdown(record))
    for grid in grids(record):
        if grid.picture:
            path = folder / f"{record.name}-{grid.name}.svg"
            results.write_text(path, standalone(grid.picture))
    return page
