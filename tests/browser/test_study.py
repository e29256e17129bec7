"""A study's page in a browser: a phone shows each claim and check with its verdict, unscrolled."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.records import results
from iotoll.records.models import StudyRecord
from iotoll.studies.page import write_pages
from tests.browser.conftest import Open

RECORDS = Path(__file__).parents[2] / "docs/reference/studies"
NAMES = sorted(path.stem for path in RECORDS.glob("*.json"))


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_shows_every_verdict(name: str, tmp_path: Path, opened: Open) -> None:
    record = results.read(RECORDS / f"{name}.json", StudyRecord)
    found = opened(write_pages(record, tmp_path), width=390)
    assert found.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert record.claims or record.tables, "a study says something"
    assert found.page.locator("table.claims .tag").count() == len(record.claims)
    assert found.page.locator("table.checks .tag").count() == len(record.checks)
    tags = found.page.locator(".tag")
    ends = tags.evaluate_all("tags => tags.map(tag => tag.getBoundingClientRect().right)")
    assert max(ends, default=0) <= 390
    ours = found.page.locator("table.claims td[data-name=ours]")
    assert not record.claims or ours.first.is_visible()
    found.quiet()
