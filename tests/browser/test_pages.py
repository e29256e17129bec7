"""Every kind of page, as `make screenshots` makes it: phone, wide, dark, paper and keyboard."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.browser.conftest import Open

TOOL = Path(__file__).parents[2] / "tools/docs/screenshots.py"


MAKERS: Mapping[str, Callable[[Path], Path]] = runpy.run_path(str(TOOL))["PAGES"]
"""What makes a page of each kind in a folder."""
SCROLLED = """() => [...document.querySelectorAll('*')].filter((e) => e.offsetParent
  && !e.classList.contains('unseen') && e.tagName !== 'PRE' && e.scrollWidth > e.clientWidth + 1
  && getComputedStyle(e).overflowX !== 'visible').map((e) => e.className || e.tagName)"""
RIGHT = """() => [...document.querySelectorAll('table, figure, dl, p, h1, h2, code')]
  .filter((e) => e.offsetParent && e.getBoundingClientRect().right > innerWidth + 1)
  .map((e) => e.outerHTML.slice(0, 90))"""


@pytest.fixture(scope="module", params=sorted(MAKERS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return MAKERS[request.param](tmp_path_factory.mktemp(request.param))


@pytest.mark.parametrize("width", [390, 1100])
def test_g2_11_nothing_is_cut_or_scrolls_sideways(made: Path, width: int, opened: Open) -> None:
    found = opened(made, width=width)
    page = found.page
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(RIGHT) == []
    if width == 390:
        assert page.evaluate(SCROLLED) == []
    found.quiet()


def test_a_dark_page_is_dark_and_paper_is_white(made: Path, opened: Open) -> None:
    page = opened(made).page
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="dark")
    assert page.evaluate(ground) == "rgb(20, 23, 27)"
    page.emulate_media(color_scheme="dark", media="print")
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert over <= 0


def test_keys_reach_all_that_can_be_used(made: Path, opened: Open) -> None:
    page = opened(made).page
    wanted = """[...document.querySelectorAll('a[href], button, input, select, summary')]
      .filter((e) => e.offsetParent).length"""
    count = min(page.evaluate(wanted), 12)
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
    assert len({one for one in reached if not one.startswith("<body")}) >= count
