"""The trend page in a browser: what the first screen answers, charts, keys, and 1,000 nights."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from iotoll.nightly.history.store import Store
from iotoll.nightly.trend import view
from iotoll.nightly.trend.page import write_page
from tests.browser.conftest import Open, Opened
from tests.unit.nights import history

CELLS = [
    f"{device}-{shape}-direct"
    for device in ("ufs", "nvme")
    for shape in ("4k-randread-t1", "4k-randwrite-t1", "128k-seqread-t8")
]
NIGHTS = 1000
HOSTILE = "</script><script>document.title='owned'</script>"


def lines(clock: str) -> dict[tuple[str, str], list[float]]:
    """Three releases, a growth of 41 on night 940 of the UFS cells, and one that was fixed."""
    rng = np.random.default_rng(19)
    at = np.arange(NIGHTS)
    made = {}
    for number, cell in enumerate(CELLS):
        for section in ("submission", "completion", "overhead")[2 * (clock == "time") :]:
            line = 4000.0 + 500 * number + 12 * (at >= 300) - 30 * (at >= 650)
            if cell.startswith("ufs") and section != "completion":
                line = line + 41 * (at >= 940) + 90 * ((at >= 800) & (at < 812))
            if clock == "time":
                line = line * np.exp(rng.normal(0, 0.004, NIGHTS))
            made[cell, section] = line.tolist()
    return made


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trend")
    releases = {100: "v6.12", 500: "v6.13", 900: "v6.14"}
    gaps = {n: HOSTILE if n == 930 else "no power" for n in (200, 201, 202, 930)}
    for branch in ("mainline", "next"):
        history(place / "h", lines("instructions"), branch, releases=releases, failed=gaps)
    history(place / "h", lines("time"), "mainline", "hikey960", releases=releases, clock="time")
    trend = view.load(Store(str(place / "h")), None, {"instructions": 40.0, "ns": 100.0})
    return write_page(trend, place / "public")


def drawn(found: Opened, key: str = "") -> None:
    selector = f"#charts[data-drawn='{key}']" if key else "#charts[data-drawn]"
    found.page.wait_for_selector(selector)


def detail(found: Opened) -> str:
    return found.page.inner_text("#detail")


def test_a_phone_shows_each_changes_culprit_or_range(page: Path, opened: Open) -> None:
    found = opened(page, width=390)
    drawn(found)
    assert found.page.evaluate("document.documentElement.scrollWidth") <= 390
    box = found.page.locator("#changes td[data-name='Culprit or range']").first.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390


def test_first_screen_answers(page: Path, opened: Open) -> None:
    found = opened(page)
    drawn(found)
    answers = found.page.locator(".question").all_inner_texts()
    assert [text.splitlines()[0] for text in answers] == [
        "Worse than last night?",
        "Worse than a week ago?",
        "Worse than the last release?",
        "Worse than the release before?",
    ]
    assert "no: none of" in answers[0]
    assert "yes:" in answers[2]
    box = found.page.locator("#changes").bounding_box()
    assert box is not None
    assert box["y"] < 900
    assert "+41 instructions" in found.page.inner_text("#changes")
    assert "+41" in found.page.inner_text("#matrix")
    assert found.page.title() != "owned"
    found.quiet()


def test_charts_show_both_clocks_with_marks(page: Path, opened: Open) -> None:
    found = opened(page)
    drawn(found)
    charts = found.page.locator(".chart svg")
    assert charts.count() == 2
    labels = [chart.get_attribute("aria-label") or "" for chart in charts.all()]
    assert any("µs" in text for text in labels)
    assert any("instructions" in text for text in labels)
    assert found.page.locator("#charts text.release", has_text="v6.14").count() == 2
    assert found.page.locator("#charts .gap").count() >= 2
    assert found.page.locator("#charts line.grew").count() >= 1
    found.quiet()


def test_keys_walk_nights_changes_and_cells(page: Path, opened: Open) -> None:
    found = opened(page)
    drawn(found)
    key = found.page.keyboard
    before = found.page.input_value("#cell")
    key.press("j")
    drawn(found)
    assert found.page.input_value("#cell") != before
    found.page.select_option("#cell", "ufs-4k-randread-t1-direct")
    drawn(found, "ufs-4k-randread-t1-direct/" + found.page.input_value("#section"))
    # The keys walk the changes of the first chart, a board's time: a step lies between two nights
    # there, and its change is at the later one. The one before is on the same night on both.
    key.press("p")
    assert "2028-08-01, hikey960" in detail(found), detail(found)
    key.press("p")
    assert "2028-03-23" in detail(found), detail(found)
    assert "iotoll bisect" in detail(found)
    key.press("ArrowLeft")
    assert "2028-03-22" in detail(found)
    found.quiet()


def test_zoom_by_drag_keys_and_button(page: Path, opened: Open) -> None:
    found = opened(page)
    drawn(found)
    dates = found.page.locator(".chart svg").first.locator("text")
    whole = dates.all_text_contents()
    found.page.locator(".chart .touch").first.scroll_into_view_if_needed()
    box = found.page.locator(".chart .touch").first.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    found.page.mouse.move(box["x"] + box["width"] * 0.9, middle)
    found.page.mouse.down()
    found.page.mouse.move(box["x"] + box["width"] * 0.99, middle, steps=4)
    found.page.mouse.up()
    near = dates.all_text_contents()
    assert near != whole
    assert found.page.locator(".chart .point").count() > 20
    found.page.keyboard.press("+")
    assert dates.all_text_contents() != near
    found.page.click("#reset")
    assert dates.all_text_contents() == whole
    found.quiet()


def test_thousand_nights_are_quick(page: Path, opened: Open) -> None:
    found = opened(page)
    drawn(found)
    started = time.monotonic()
    spent = found.page.evaluate(
        """() => { const t = performance.now();
        const press = (key) => document.dispatchEvent(new KeyboardEvent('keydown', {key}));
        for (let i = 0; i < 20; i++) press(i < 3 ? '+' : '-');
        return (performance.now() - t) / 20 }"""
    )
    # A redraw of both charts; 100 ms would be felt.
    assert spent < 100, f"{spent:.0f} ms"
    assert time.monotonic() - started < 30
    found.quiet()


def test_themes_and_a_narrow_window(page: Path, opened: Open) -> None:
    found = opened(page, width=390)
    drawn(found)
    width = found.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    colour = "getComputedStyle(document.body).backgroundColor"
    before = found.page.evaluate(colour)
    found.page.click("#theme")
    assert found.page.evaluate(colour) != before
    found.page.keyboard.press("t")
    assert found.page.evaluate(colour) == before
    found.quiet()


def test_a_link_opens_its_series(page: Path, opened: Open) -> None:
    fragment = "#branch=next&cell=nvme-4k-randread-t1-direct&section=submission"
    found = opened(page, fragment=fragment)
    drawn(found, "nvme-4k-randread-t1-direct/submission")
    assert found.page.input_value("#branch") == "next"
    found.page.locator("#changes button.go").first.click()
    found.page.wait_for_function("document.getElementById('cell').value.startsWith('ufs')")
    found.quiet()
