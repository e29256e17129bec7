"""Reports opened in headless Chromium, as a reader opens them: from a file, with no network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

LIMIT = 120_000  # ms for one step; far above what it takes on two idle cores


@dataclass
class Opened:
    """A page in the browser, with what it asked for from outside and what went wrong in it."""

    page: Page
    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def shows(self, text: str) -> None:
        """Wait until the text is visible somewhere; fails when it does not get there.

        A page that does not show it is loaded once more: on machines with all CPUs busy Chromium
        did not show one of Allure's within two minutes (twice in CI, 28 November 2026; not again
        in 25 loads beside six busy loops), and did at once thereafter.
        """
        from playwright.sync_api import TimeoutError as TimedOut

        place = self.page.get_by_text(text).filter(visible=True).first
        try:
            place.wait_for(timeout=LIMIT / 2)
        except TimedOut:
            self.page.reload()
            place.wait_for(timeout=LIMIT)

    def quiet(self) -> None:
        """Nothing came from outside of the page's folder, and no script failed."""
        assert self.outside == []
        assert self.errors == []


Open = Callable[..., Opened]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("no Chromium: apt-get install chromium")
    # Its sandbox cannot be had as root, nor in most containers.
    words = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=words, timeout=LIMIT)
        yield found
        found.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Open]:
    """Open a file, at a ``fragment`` of it; ``width`` is the window's in CSS pixels."""
    contexts = []

    def open_page(path: Path, width: int = 1280, fragment: str = "") -> Opened:
        context = browser.new_context(viewport={"width": width, "height": 900})
        contexts.append(context)
        context.set_default_timeout(LIMIT)
        found = Opened(context.new_page())

        def only_the_file(route: Route) -> None:
            url = route.request.url.removesuffix(fragment)
            own = path.resolve().as_uri()
            beside = own.rpartition("/")[0] + "/data/"
            if url == own or url.startswith(("data:", "blob:", beside)):
                route.continue_()
            else:
                found.outside.append(url)
                route.abort()

        context.route("**/*", only_the_file)
        found.page.on("pageerror", lambda error: found.errors.append(str(error)))
        found.page.on(
            "console",
            lambda message: found.errors.append(message.text) if message.type == "error" else None,
        )
        found.page.on("dialog", lambda dialog: found.errors.append(f"dialog: {dialog.message}"))
        found.page.goto(path.resolve().as_uri() + fragment)
        return found

    yield open_page
    for context in contexts:
        context.close()
