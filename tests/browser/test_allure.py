"""Allure's report in a browser: made by its real program from real runs."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import node_tool
from iotoll.records.rundir import RunDir
from iotoll.reports.publish import Source
from iotoll.reports.publish.allure import HISTORY, allure_report, without_analytics
from iotoll.reports.publish.links import Link
from tests.browser.conftest import LIMIT, Open
from tests.golden.runs import hostile, real

LINK = Link("the report", "https://ci.example/report.html")
SLOW = "ufs-4k-randread-t1-direct: submission"


def make(run: RunDir, out: Path, history: Path | None = None) -> Path:
    try:
        node_tool("allure")
    except UsageError as error:
        pytest.skip(str(error))
    return allure_report(Source(run, [LINK], history=history), out)


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a regression, after that of a pass, with one history."""
    out = tmp_path_factory.mktemp("allure")
    make(real("pass"), out)
    return make(real("regression"), out)


def test_it_is_one_file_without_analytics(second: Path) -> None:
    text = second.read_text()
    assert "googletagmanager" not in text and "gtag(" not in text
    assert sorted(p.name for p in second.parent.iterdir()) == [HISTORY, "allure.html"]
    assert len((second.parent / HISTORY).read_text().splitlines()) == 2
    assert second.stat().st_size < 6_000_000
    # Nothing of the machine that made it.
    assert str(Path.home()) not in text and "/site-packages/" not in text


def test_verdict_cells_and_sections_are_seen(second: Path, opened: Open) -> None:
    page = opened(second)
    page.shows("▲ Regression: iotoll on virt-arm64")
    for text in ("UFS", "NVMe", "ufs-4k-randread-t1-direct", SLOW):
        page.shows(text)
    body = page.page.inner_text("body")
    for words in ("Failed\n3", "Passed\n12", "Skipped\n2"):
        assert words in body
    page.quiet()


def test_one_test_has_reason_facts_link_history_and_pictures(second: Path, opened: Open) -> None:
    page = opened(second)
    page.page.get_by_text(SLOW).first.click()
    page.shows("+327 to +329 instructions per UFS request (+14")
    for text in ("Linux 6.12.117", "virt-arm64", "Check transfer requests"):
        page.shows(text)
    assert page.page.locator(f"a[href='{LINK.url}']").inner_text() == LINK.label
    page.page.get_by_text("Candidate minus base, with thresholds").first.click()
    picture = page.page.locator("img, iframe, object, embed, [class*=attachment] svg").first
    picture.wait_for(timeout=LIMIT)
    box = picture.bounding_box()
    assert box and box["width"] > 200 and box["height"] > 40
    page.quiet()


def test_history_is_not_cut_by_another_patch(second: Path, opened: Open) -> None:
    page = opened(second)
    page.page.get_by_text(SLOW).first.click()
    page.shows("+327 to +329 instructions per UFS request (+14")
    tab = page.page.get_by_role("button", name="History").or_(page.page.get_by_text("History"))
    assert "1" in tab.first.locator("..").inner_text()
    tab.first.click()
    before = json.loads((second.parent / HISTORY).read_text().splitlines()[0])
    day = time.strftime("%-m/%-d/%Y", time.localtime(before["timestamp"] / 1000))
    page.shows(f"{day} at")
    (old,) = [t for t in before["testResults"].values() if t["name"] == SLOW]
    assert old["status"] == "passed"
    page.quiet()


def test_metrics_have_a_trend(second: Path, opened: Open) -> None:
    page = opened(second, fragment="#metrics")
    page.shows("Metric summary")
    row = page.page.locator("tr", has_text=SLOW).first
    text = row.inner_text(timeout=LIMIT)
    assert "5558 instr." in text and "+329 instr." in text
    page.quiet()


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Reports of an infrastructure failure and of a hostile run, their history kept elsewhere."""
    folder = tmp_path_factory.mktemp("others")
    history = folder / "kept/history.jsonl"
    make(real("infrastructure"), folder / "infrastructure", history)
    make(hostile(folder / "run"), folder / "hostile", history)
    return folder


def test_infrastructure_is_no_failure_of_the_candidate(others: Path, opened: Open) -> None:
    page = opened(others / "infrastructure/allure.html")
    page.shows("! Infrastructure: iotoll on virt-arm64")
    body = page.page.inner_text("body")
    assert "Broken\n1" in body and "Passed" not in body.partition("Search")[0]
    page.page.get_by_text("verdict", exact=True).first.click()
    page.shows("QEMU ended with status -9")
    page.quiet()


def test_hostile_texts_are_read_and_not_obeyed(others: Path, opened: Open) -> None:
    page = opened(others / "hostile/allure.html")
    page.shows("▲ Regression")
    page.page.get_by_text(SLOW).first.click()
    page.shows("</script><script>document.title='owned'</script>")
    assert page.page.title().strip() != "owned"
    assert page.page.locator("a[href*='evil.example'], img[src=x]").count() == 0
    page.quiet()


def test_a_run_that_is_published_again_counts_once(second: Path, tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    shutil.copy(second.parent / HISTORY, history)
    make(real("regression"), tmp_path / "again", history)
    lines = [json.loads(x) for x in history.read_text().splitlines()]
    assert [x["name"].partition(":")[0] for x in lines] == ["✓ Pass", "▲ Regression"]


def test_history_can_be_kept_elsewhere(others: Path) -> None:
    lines = [json.loads(x) for x in (others / "kept/history.jsonl").read_text().splitlines()]
    assert [x["name"].partition(":")[0] for x in lines] == ["! Infrastructure", "▲ Regression"]
    key = "ufs-4k-randread-t1-direct/submission"
    assert lines[1]["metrics"][key] == pytest.approx(5558)
    assert not (others / "hostile" / HISTORY).exists()


def test_an_allure_with_other_analytics_is_refused() -> None:
    page = '<script src="https://www.googletagmanager.com/x.js"></script><p>x</p>'
    with pytest.raises(InfrastructureError, match="analytics"):
        without_analytics(page)
    with pytest.raises(InfrastructureError):
        without_analytics("<p>nothing</p>")
