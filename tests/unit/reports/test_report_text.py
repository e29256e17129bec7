"""Numbers, names and tables of the report."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from iotoll.records import results, text
from iotoll.records.models import CellRecord, Clock, Section, SideResult
from iotoll.reports.page import view
from iotoll.reports.page.single import side_table
from iotoll.reports.trace.table import print_cell

CASES = Path(__file__).parents[2] / "golden" / "data" / "report"


def side(case: str) -> SideResult:
    return results.read(CASES / case / "sides" / "base" / "result.json", SideResult)


def shown(console_width: int = 80) -> tuple[io.StringIO, Console]:
    stream = io.StringIO()
    return stream, Console(file=stream, width=console_width, color_system=None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5704, "5,704"), (5704.4, "5,704"), (12.25, "12.2"), (12.0, "12"), (-300, "\u2212300"),
     (None, "\u2013"), (0, "0")],
)  # fmt: skip
def test_number(value: float | None, expected: str) -> None:
    assert text.number(value) == expected


@pytest.mark.parametrize(
    ("delta", "relative", "expected"),
    [(300, 0.0526, "+300 (+5.3 %)"), (-120, -0.065, "\u2212120 (\u22126.5 %)"), (0, 0.0, "0"),
     (2, 0.0004, "+2 (+0.04 %)")],
)  # fmt: skip
def test_change(delta: float, relative: float, expected: str) -> None:
    assert text.change(delta, relative).replace(text.NBSP, " ") == expected


def test_cell_names_sort_as_a_reader_expects() -> None:
    names = ["nvme-4k-randread-t1-sync", "ufs-128k-seqread-t1-direct", "ufs-4k-randread-t8-direct",
             "other", "ufs-4k-randread-t1-direct"]  # fmt: skip
    assert [n.full for n in sorted(map(text.cell_name, names))] == [
        "ufs-4k-randread-t1-direct",
        "ufs-4k-randread-t8-direct",
        "ufs-128k-seqread-t1-direct",
        "nvme-4k-randread-t1-sync",
        "other",
    ]


def test_cell_name_parts() -> None:
    name = text.cell_name("nvme-128k-seqwrite-t8-sync")
    assert (name.group, name.workload, name.peers) == (
        "NVMe, sync",
        "128k seqwrite t8",
        ("128k seqwrite t8", "sync"),
    )
    assert text.cell_name("boot").group == ""


def test_control_characters_are_dropped() -> None:
    assert text.clean("\x1b[1;31mred\x1b[0m\r\n\x07tab\t") == "red\ntab\t"


def test_clock_notes() -> None:
    assert "not time" in text.clock_note(Clock.INSTRUCTIONS, True)
    assert "smoke test" in text.clock_note(Clock.TIME, True)
    assert text.clock_note(Clock.TIME, False) == "Nanoseconds on a real board."


def test_invalid_boots_do_not_count() -> None:
    record = side("measured").cells["ufs-4k-randread-t1-direct"][0]
    bad = record.model_copy(update={"invalid": "lost events"})
    found = view.figures([record, bad], Section.SUBMISSION)
    assert (found.raw, found.ios, found.clean) == (5710, 1024, 1022)
    assert view.figures([bad], Section.SUBMISSION) == view.SectionFigures()


def test_figures_are_the_median_of_boots() -> None:
    record = side("infrastructure").cells["ufs-4k-randread-t1-direct"][0]
    other = side("infrastructure").cells["ufs-4k-randwrite-t1-direct"][0]
    found = view.figures([record, other, other], Section.SUBMISSION)
    assert (found.raw, found.corrected, found.ios) == (5715, 4891, 3072)


@pytest.mark.parametrize("case", ["measured", "inconclusive"])
def test_side_table_fits_80_columns(case: str) -> None:
    stream, console = shown()
    side_table(side(case), console)
    output = stream.getvalue()
    assert "…" not in output and max(map(len, output.splitlines())) <= 80
    assert ("not time" in output) == (case == "measured")


def test_side_table_names_invalid_cells() -> None:
    stream, console = shown()
    side_table(side("inconclusive"), console)
    assert "nvme-4k-randwrite-t1-direct: invalid: 40,210" in stream.getvalue()


def test_cell_table_shows_sections_marks_and_loss() -> None:
    stream, console = shown()
    print_cell(side("measured").cells["ufs-4k-randread-t1-direct"][0], console)
    assert "corrected" not in stream.getvalue(), "the board counted the recorder"
    stream, console = shown()
    record = side("infrastructure").cells["ufs-4k-randread-t1-direct"][0]
    print_cell(record, console)
    output = stream.getvalue()
    assert "…" not in output and "3 hardware" not in output
    assert "4,886" in output and "irq_handler_entry 1,024" in output
    stream, console = shown()
    lost = side("inconclusive").cells["nvme-4k-randwrite-t1-direct"][0]
    print_cell(lost, console)
    assert "40,210 trace events lost, 1,024 I/Os left out" in stream.getvalue().replace("\xa0", " ")


def test_markup_in_a_record_is_not_obeyed() -> None:
    record = side("measured").cells["ufs-4k-randread-t1-direct"][0]
    hostile = CellRecord.model_validate(
        {**record.model_dump(), "device": {"name": "[red]x[/red]"}, "invalid": "[/] \x1b[31m"}
    )
    stream, console = shown()
    print_cell(hostile, console)
    assert "[red]x[/red]" in stream.getvalue() and "\x1b" not in stream.getvalue()
