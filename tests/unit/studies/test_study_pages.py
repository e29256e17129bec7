"""Pages, pictures and words of a study."""

from __future__ import annotations

import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from iotoll.records import results
from iotoll.records.models import Section
from iotoll.records.models.study import StudyCheck, StudyRecord, StudyValue, StudyVariant
from iotoll.studies.evaluate import Measured
from iotoll.studies.page import grids, models, published, study_markdown, write_pages
from iotoll.studies.pictures import scale, table_picture
from iotoll.studies.plain_text import commit_text, cover_text
from tests.unit.studies.studies import CELL, MODEL, PUBLISHED, evaluated, record, small

ROOT = Path(__file__).parents[3]


def test_pages_are_the_same_bytes_and_hold_both_numbers(tmp_path: Path) -> None:
    found = evaluated(small(tmp_path), Measured({CELL: record()}, {"ufs": MODEL}))
    for name in ("one", "two"):
        write_pages(found, tmp_path / name)
    ones = sorted((tmp_path / "one").iterdir())
    assert [p.name for p in ones] == [
        "index.html",
        "small-gain.svg",
        "small-share.svg",
        "small.md",
    ]
    for path in ones:
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    page = (tmp_path / "one/index.html").read_text()
    assert "20 to 40" in page and "30.0" in page and "<script" not in page
    assert "http://www.w3.org" not in page.replace("http://www.w3.org/1999/xlink", "")
    for svg in (tmp_path / "one").glob("*.svg"):
        root = ET.fromstring(svg.read_text())
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert "var(" not in svg.read_text()


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.0, 42.1], (0, 60)),
        ([-0.3, 12.0], (-4, 12)),
        ([0.8, 0.9], (0, 1)),
        ([0.0, 0.0], (0, 4)),
        ([-7.0, -1.0], (-8, 0)),
        ([3.0, 2500.0], (0, 3000)),
    ],
)
def test_an_axis_has_round_quarters_and_holds_all_values(
    values: list[float], ends: tuple[float, float]
) -> None:
    assert scale(values) == pytest.approx(ends)


def test_a_published_value_beyond_all_of_ours_is_drawn(tmp_path: Path) -> None:
    study = small(tmp_path, ('form = "shares"', 'form = "bars"'), ("high = 40", "high = 400"))
    table = evaluated(study, Measured({CELL: record()}, {"ufs": MODEL})).tables[0]
    without = small(tmp_path, ('form = "shares"', 'form = "bars"'), (PUBLISHED, ""))
    bare = evaluated(without, Measured({CELL: record()}, {"ufs": MODEL})).tables[0]
    drawn, plain = table_picture(table), table_picture(bare)
    assert drawn is not None and plain is not None
    assert drawn.svg.count("<path") > plain.svg.count("<path")
    assert len(drawn.legend) == len(plain.legend) + 1


def test_published_values_have_a_column_only_where_there_are_some(tmp_path: Path) -> None:
    found = evaluated(small(tmp_path), Measured({CELL: record()}, {"ufs": MODEL}))
    grid = next(iter(grids(found)))
    assert grid.table.head == [
        "",
        "software [%]",
        "published [%]",
        "hardware [%]",
        "off the model [us]",
    ]
    assert grid.table.rows == [["4K read", "30.0", "20 to 40", "70.0", "56.0"]]


@pytest.mark.parametrize(
    ("values", "said"),
    [([179.35], "179.35"), ([-2.0], "\u22122"), ([60, 75], "60 to 75"), ([1000.5], "1,000.5")],
)
def test_a_published_value_has_the_digits_of_its_source(values: list[float], said: str) -> None:
    assert published(values) == said


def test_reasons_for_absent_values_are_counted_where_they_are_many(tmp_path: Path) -> None:
    found = evaluated(small(tmp_path), Measured({}, {}))
    table = found.tables[0]
    for count, shown in ((1, 1), (4, 4), (5, 4)):
        rows = [
            row.model_copy(update={"values": [StudyValue(why=f"no cell {n}") for _ in row.values]})
            for n in range(count)
            for row in table.rows
        ]
        many = found.model_copy(update={"tables": [table.model_copy(update={"rows": rows})]})
        assert len(next(iter(grids(many))).reasons) == shown
    assert "No value: 2 more, for reasons such as these." in study_markdown(many)


def test_a_study_in_words_is_ascii_of_75_columns_with_units(tmp_path: Path) -> None:
    study = small(tmp_path, ("tolerance = 10", 'tolerance = 10\nneeds_board = "its CPU \u2026"'))
    found = evaluated(study, Measured({CELL: record()}, {"ufs": MODEL}))
    for text in (commit_text(found), cover_text(found)):
        assert text.isascii()
        assert max(map(len, text.splitlines())) <= 75
        assert "Repeat with:\n  iotoll study small" in text
        assert "shape holds: Hardware takes longer" in text
        assert "Ours 70.0 > 30.0 us." in text
    assert "1 more, whose values --cover prints (its CPU ...)" in commit_text(found)
    assert "Published 20 to 40 %, ours 30.0 %." in " ".join(cover_text(found).split())
    assert "[%]  20.0" not in cover_text(found) and "[us]" in cover_text(found)


@pytest.mark.parametrize(
    "name", sorted(p.stem for p in (ROOT / "docs/reference/studies").glob("*.json"))
)
def test_every_studys_words_fit_into_a_mail(name: str) -> None:
    stored = results.read(ROOT / f"docs/reference/studies/{name}.json", StudyRecord)
    assert any(claim.unit for claim in stored.claims) or not stored.claims
    for text in (commit_text(stored), cover_text(stored)):
        assert text.isascii() and max(map(len, text.splitlines())) <= 75
        assert text.rstrip().endswith(f"Repeat with:\n  {shlex.join(stored.command)}")
        parts = {"Claims:": stored.claims, "Published values from:": stored.sources}
        parts |= {"Assumed:": stored.assumed, "Not measured:": stored.not_shown}
        for title, lines in parts.items():
            assert (title in text.splitlines()) == bool(lines), title


def test_a_published_value_stays_beside_ours_in_a_mail(tmp_path: Path) -> None:
    # The label leaves room for three of the four columns.
    label = "4K reads of one thread and no more"[:33]
    moved = (PUBLISHED, ", published = { off = { value = 55.5 } }")
    study = small(tmp_path, ('"4K read"', f'"{label}"'), moved)
    text = cover_text(evaluated(study, Measured({CELL: record()}, {"ufs": MODEL})))
    rows = [line.removeprefix(f"  {label}").split() for line in text.splitlines() if label in line]
    assert rows[:2] == [["30.0", "70.0"], ["56.0", "55.5"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--base", "my-branch"], "Kernel: revision my-branch."),
        (["--tree", "linux", "--base", "v6.12"], "Kernel: revision v6.12, source linux."),
        (["--image", "Image-of-mine"], "Kernel: image Image-of-mine."),
    ],
)
def test_a_kernel_that_was_named_is_named(words: list[str], said: str, tmp_path: Path) -> None:
    found = evaluated(small(tmp_path), Measured({CELL: record()}, {"ufs": MODEL}))
    assert "Kernel: " not in cover_text(found)
    named = found.model_copy(update={"command": [*found.command, *words]})
    assert said in cover_text(named).splitlines()


def test_a_commit_message_leaves_out_what_ran_as_asked(tmp_path: Path) -> None:
    found = evaluated(small(tmp_path), Measured({CELL: record()}, {"ufs": MODEL}))
    checks = [
        StudyCheck(run="read", what="bs", asked="4k", ran="4k", verdict="as asked"),
        StudyCheck(run="read", what="rw", asked="read", ran="write", verdict="differs"),
    ]
    found = found.model_copy(update={"checks": checks})
    assert "read, rw: asked read, ran write (differs)" in commit_text(found)
    assert "read, bs" not in commit_text(found) and "as asked: 1 more" in commit_text(found)
    assert "read, bs: asked 4k, ran 4k (as asked)" in cover_text(found)


def test_only_models_of_disks_that_cells_use_are_shown() -> None:
    known = {"emmc": "none", "ufs": "80 us", "ufs2": "80 us", "nvme": "16 us"}
    variant = StudyVariant(name="base", why="", board="b", cells=[CELL], models=known)
    assert models(variant) == [("ufs", "80 us"), ("ufs2", "80 us")]


def test_a_cell_whose_ios_do_not_wait_says_why_it_has_no_value(tmp_path: Path) -> None:
    cell = record()
    parts = {s: p.model_copy(update={"corrected_median": None}) for s, p in cell.sections.items()}
    ios = {**cell.ios, "measured": 65, "detached": 64}
    early = cell.model_copy(update={"sections": parts, "ios": ios})
    found = evaluated(small(tmp_path), Measured({CELL: early}, {"ufs": MODEL}))
    assert "64 of its 65 I/Os return before their request has ended" in study_markdown(found)


@pytest.mark.parametrize(
    ("absent", "said"),
    [
        ([Section.COMPLETION], "the probes of its mean I/O cost more than the median (completion)"),
        (list(Section), "no cost of a probe is known from this boot"),
    ],
)
def test_a_cell_without_a_corrected_value_says_why(
    absent: list[Section], said: str, tmp_path: Path
) -> None:
    cell = record()
    parts = dict(cell.sections)
    for section in absent:
        parts[section] = parts[section].model_copy(update={"corrected_median": None})
    plain = cell.model_copy(update={"sections": parts, "ios": {**cell.ios, "detached": 0}})
    found = evaluated(small(tmp_path), Measured({CELL: plain}, {"ufs": MODEL}))
    assert said in study_markdown(found)


def test_a_label_and_a_title_that_are_too_long_take_several_lines(tmp_path: Path) -> None:
    long = "a workload whose name is far longer than any column of a mail can be, with words"
    title = "a quantity that needs quite a few words to be told"
    study = small(tmp_path, ("4K read", long), ("software", title))
    text = cover_text(evaluated(study, Measured({CELL: record()}, {"ufs": MODEL})))
    assert max(map(len, text.splitlines())) <= 75
    assert long in " ".join(text.split()).replace("  ", " ") or "with words" in text
