"""Our own report in a browser: what a reader sees of each kind of run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from iotoll.records.rundir import RunDir
from iotoll.reports.page import render_report
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.view import cells
from iotoll.reports.publish.judged import pictures
from tests.browser.conftest import Open
from tests.golden.runs import REAL, hostile

WORDS = {
    "regression": "Regression",
    "pass": "Pass",
    "broken": "Broken",
    "broken-build": "Broken",
    "infrastructure": "Infrastructure",
    "smoke": "Cannot gate",
}


def report(case: Path, folder: Path) -> Path:
    return render_report(RunDir.open(Path(shutil.copytree(case, folder / "run"))))


@pytest.mark.parametrize("case", REAL, ids=[p.name for p in REAL])
def test_verdict_and_cells_are_seen(case: Path, tmp_path: Path, opened: Open) -> None:
    run = RunDir.open(case)
    page = opened(report(case, tmp_path))
    heading = page.page.locator("h1").inner_text()
    assert WORDS[case.name].lower() in page.page.inner_text("body")[:600].lower(), heading
    figures = page.page.locator("svg").all()
    if case.name in ("regression", "pass"):
        for cell in run.manifest.cells or []:
            page.shows(cell.partition("-")[2].rsplit("-", 1)[0].replace("-", " "))
        assert len(figures) >= 4
    for figure in figures:
        box = figure.bounding_box()
        assert box is None or (box["width"] > 100 and box["height"] > 20)
    assert sum(figure.is_visible() for figure in figures) == len(figures)
    page.quiet()


def test_regression_names_section_size_and_cell(tmp_path: Path, opened: Open) -> None:
    case = next(p for p in REAL if p.name == "regression")
    page = opened(report(case, tmp_path))
    text = page.page.inner_text("body").replace("\xa0", " ")
    assert "+327 to +329 instructions per UFS request (+14 % of submission)" in text
    row = page.page.locator("tr", has_text="ufs-4k-randread-t1-direct").first
    assert "+329 ▲" in row.inner_text().replace("\xa0", " ")
    drawn = page.page.locator("svg text", has_text="+329").first
    assert drawn.is_visible()
    # The mark of a growth has the colour of one, not that of the text around it.
    colours = page.page.evaluate(
        """() => { const s = getComputedStyle(document.documentElement);
        return [s.getPropertyValue('--grew'), s.getPropertyValue('--ink')] }"""
    )
    assert colours[0] and colours[0] != colours[1]
    page.quiet()


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["regression", "broken"])
def test_hostile_texts_are_read_and_not_obeyed(
    name: str, width: int, tmp_path: Path, opened: Open
) -> None:
    run = hostile(tmp_path / "run", name)
    page = opened(render_report(run), width)
    page.shows("</script><script>document.title='owned'</script>")
    assert "owned" not in page.page.title() or "document.title" in page.page.title()
    assert page.page.locator("img, iframe, a[href^=http]").count() == 0
    assert page.page.locator("script").count() <= 1
    page.quiet()
    over = page.page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert over <= 0, "nothing runs out of the window"


def test_pictures_of_cells_can_be_opened_alone(tmp_path: Path, opened: Open) -> None:
    evidence = gather(hostile(tmp_path / "run"))
    view = cells(evidence)[0]
    for number, svg in enumerate(pictures(evidence, view).values()):
        path = tmp_path / f"{number}.svg"
        path.write_text(svg)
        page = opened(path)
        box = page.page.locator("svg").bounding_box()
        assert box and box["width"] == 720
        fills = page.page.evaluate(
            "[...document.querySelectorAll('path')].map(p => getComputedStyle(p).fill)"
        )
        assert any(fill.startswith("rgb(") and fill != "rgb(0, 0, 0)" for fill in fills)
        page.quiet()


@pytest.mark.parametrize("dark", [False, True])
def test_g2_11_no_column_is_cut_on_a_phone(dark: bool, tmp_path: Path, opened: Open) -> None:
    case = next(p for p in REAL if p.name == "regression")
    page = opened(report(case, tmp_path), 390).page
    page.emulate_media(color_scheme="dark" if dark else "light")
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    over = page.evaluate(
        """() => [...document.querySelectorAll('table, .scroll, .panels, dl')]
        .filter((e) => e.offsetParent && e.getBoundingClientRect().right > innerWidth + 1).length"""
    )
    assert over == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("table.cells td", has_text="+329").first
    assert box.is_visible()


def test_cells_are_filtered_sorted_and_found_by_their_address(tmp_path: Path, opened: Open) -> None:
    case = next(p for p in REAL if p.name == "regression")
    path = report(case, tmp_path)
    name = "nvme-4k-randread-t1-direct"
    page = opened(path, fragment=f"#cell-{name}").page
    assert page.locator(f"details[id='cell-{name}']").get_attribute("open") is not None
    rows = page.locator("table.cells tbody tr")
    every = rows.count()
    page.get_by_label("Show the cells that have these words").fill("ufs regression")
    shown = [row.inner_text() for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) < every and all(text.startswith("ufs-") for text in shown)
    page.get_by_label("Show the cells that have these words").fill("")
    head = page.locator("table.cells thead button", has_text="submission")
    head.focus()
    page.keyboard.press("Enter")
    assert "+329" in rows.first.inner_text(), "the largest first"
    page.keyboard.press("Enter")
    assert "+329" not in rows.first.inner_text()
