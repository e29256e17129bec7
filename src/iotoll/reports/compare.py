"""``iotoll compare``: the latency sections of two finished runs side by side, per cell.

It judges nothing: no threshold and no repetition decide here, which the output states.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from iotoll.core.cli_support import Output, output_options
from iotoll.core.errors import UsageError
from iotoll.records import results
from iotoll.records.models import CellRecord, Clock, Section, SideResult
from iotoll.records.rundir import RunDir
from iotoll.records.text import clean, number, signed, signed_percent
from iotoll.reports.page.view import recorder_counted
from iotoll.verdict.limits import changed, limit_line
from iotoll.verdict.policy import LimitsRule


@dataclass(frozen=True)
class RunValues:
    """One side of one run: what it is called in the output, and its results."""

    run: RunDir
    side: str
    result: SideResult

    @property
    def label(self) -> str:
        """``NAME (candidate)``; NAME is the run directory's."""
        return f"{self.run.root.name} ({self.side})"


@dataclass(frozen=True)
class CompareRow:
    """One section of one cell; values in the clock's unit, None where a run has none."""

    cell: str
    section: Section
    first: float | None
    second: float | None
    why: str = ""

    @property
    def delta(self) -> float | None:
        """Second run less first run."""
        if self.first is None or self.second is None:
            return None
        return self.second - self.first

    @property
    def relative(self) -> float | None:
        """Change as a ratio of the first run's value."""
        return self.delta / self.first if self.delta is not None and self.first else None


def open_side(root: Path, side: str | None) -> RunValues:
    """A finished run's results; raises UsageError when it has none of that side.

    Without ``side`` it is the candidate of a gate run and the only kernel of a measured one.
    """
    run = RunDir.open(root)
    default = "candidate" if run.manifest.kind == "gate" else "base"
    name = side or default
    path = run.root / "sides" / name / "result.json"
    if not path.is_file():
        raise UsageError(f"{root} has no results of its {name}: the run is not finished")
    return RunValues(run, name, results.read(path, SideResult))


def rows(first: RunValues, second: RunValues) -> list[CompareRow]:
    """Every section of every cell of both runs; raises UsageError when they do not compare."""
    _check_comparable(first, second)
    clock = first.result.clock
    sections = [s for s in Section if clock is Clock.TIME or s is not Section.HARDWARE]
    cells = list(dict.fromkeys([*first.result.cells, *second.result.cells]))
    return [_row(first, second, cell, section) for cell in cells for section in sections]


def _check_comparable(first: RunValues, second: RunValues) -> None:
    for what, one, other in (
        ("clocks", first.result.clock.value, second.result.clock.value),
        ("boards", first.run.manifest.board, second.run.manifest.board),
        ("accelerators", first.run.manifest.accelerator, second.run.manifest.accelerator),
    ):
        if one != other:
            raise UsageError(
                f"{first.run.root.name} and {second.run.root.name} have different {what}:"
                f" {one} and {other}; compare runs of one board and one clock"
            )


def _row(first: RunValues, second: RunValues, cell: str, section: Section) -> CompareRow:
    values: list[float | None] = []
    reasons = []
    counted = []
    for side in (first, second):
        records = side.result.cells.get(cell, [])
        usable = [r for r in records if r.invalid is None]
        found = [v for r in usable if (v := _value(r, section)) is not None]
        values.append(median(found) if found else None)
        counted += [recorder_counted(usable)] if usable else []
        if not records:
            reasons.append(f"{side.label} did not run it")
        elif not usable:
            reasons.append(f"{side.label}: {records[0].invalid}")
    if len(set(counted)) == 2:
        without = (first if counted[0] else second).label
        why = f"only the values of {without} are without the recorder: run the other again"
        return CompareRow(cell, section, None, None, why)
    return CompareRow(cell, section, values[0], values[1], "; ".join(reasons))


def _value(record: CellRecord, section: Section) -> float | None:
    """The section's median over the I/Os of one boot: own instructions, or elapsed time."""
    found = record.sections.get(section)
    if found is None:
        return None
    return (found.own if record.clock is Clock.INSTRUCTIONS else found.elapsed).median


def remarks(first: RunValues, second: RunValues) -> list[str]:
    """What else differs between the runs and may have changed the values."""
    notes = []
    if first.run.manifest.matrix != second.run.manifest.matrix:
        notes.append(
            f"matrices differ: {first.run.manifest.matrix} and {second.run.manifest.matrix}"
        )
    digests = [{boot.board_sha256 for boot in side.result.boots} for side in (first, second)]
    if digests[0] != digests[1]:
        notes.append("the board's data, image or scripts differ between the runs")
    notes += [limit_line(one) for one in changed(first.result, second.result, LimitsRule())]
    if first.result.build.sha256 == second.result.build.sha256:
        notes.append("both ran the same kernel image")
    return notes


@click.command("compare")
@click.argument("first", metavar="RUN", type=click.Path(path_type=Path))
@click.argument("second", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--side",
    type=click.Choice(["base", "candidate"]),
    help="Kernel of both runs. Default: a gate's candidate, a measured run's only kernel.",
)
@output_options
def compare_command(
    first: Path, second: Path, side: str | None, quiet: bool, as_json: bool
) -> None:
    """Show the sections of two finished runs side by side, per cell.

    Values are medians over I/Os and boots. Nothing is judged: use `iotoll gate` for a verdict.
    """
    one, other = open_side(first, side), open_side(second, side)
    found = rows(one, other)
    if as_json:
        click.echo(json.dumps(_as_json(one, other, found), indent=1))
    else:
        _print(one, other, found, Output(quiet, as_json))


def _as_json(one: RunValues, other: RunValues, found: list[CompareRow]) -> dict[str, object]:
    return {
        "runs": [str(one.run.root), str(other.run.root)],
        "sides": [one.side, other.side],
        "clock": one.result.clock.value,
        "unit": one.result.unit.value,
        "judged": False,
        "remarks": remarks(one, other),
        "rows": [
            {
                "cell": row.cell,
                "section": row.section.value,
                "first": row.first,
                "second": row.second,
                "delta": row.delta,
                "relative": row.relative,
                "why": row.why,
            }
            for row in found
        ],
    }


def _largest_first(found: list[CompareRow]) -> list[CompareRow]:
    """The rows, cell by cell: those cells first in which a section differs most."""
    most: dict[str, float] = {}
    for row in found:
        most[row.cell] = max(most.get(row.cell, 0.0), abs(row.delta or 0.0))
    return sorted(found, key=lambda row: -most[row.cell])


def _print(one: RunValues, other: RunValues, found: list[CompareRow], output: Output) -> None:
    # rich takes a tenth of a second to import, which --json does without.
    from rich.table import Table
    from rich.text import Text

    console = output.console
    table = Table(box=None, pad_edge=False)
    for title in ("cell", "section"):
        table.add_column(title)
    for title in ("first", "second", "change", ""):
        table.add_column(title, justify="right")
    reasons: dict[str, str] = {}
    previous = ""
    for row in _largest_first(found):
        if row.why:
            reasons[row.cell] = row.why
        relative = "" if row.relative is None else signed_percent(row.relative)
        cell = row.cell if row.cell != previous else ""
        previous = row.cell
        values = (number(row.first), number(row.second), signed(row.delta), relative)
        table.add_row(Text(clean(cell)), row.section.value, *values)
    lines = [f"first:  {one.label}", f"second: {other.label}"]
    unit = one.result.unit.value
    notes = [f"{cell}: {why}" for cell, why in reasons.items()]
    notes += [f"Note: {text}." for text in remarks(one, other)]
    notes.append(f"Medians over I/Os and boots, in {unit}. Not judged: no threshold was applied.")
    with console.capture() as made:
        console.print(table)
    told = [] if output.quiet else [clean(line) for line in notes]
    # Remarks qualify every value: they stand where a screen's end does not hide them.
    output.show([*map(clean, lines), *told, *made.get().splitlines()])
