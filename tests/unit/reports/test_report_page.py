"""Properties of the page that hold for every kind of run."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from iotoll.records.models import Outcome
from iotoll.records.rundir import RunDir
from iotoll.reports.kit.svg import palette
from iotoll.reports.page import render_report
from iotoll.reports.page.evidence import gather
from iotoll.verdict.moved import movements
from tests.golden.runs import real

CASES = Path(__file__).parents[2] / "golden" / "data" / "report"
NAMES = sorted(path.name for path in CASES.iterdir())


def page(case: str, folder: Path) -> str:
    shutil.copytree(CASES / case, folder / "run", dirs_exist_ok=True)
    return render_report(RunDir.open(folder / "run")).read_text()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The page of a case, which is drawn once for all tests."""
    return cache(lambda case: page(case, tmp_path_factory.mktemp(case)))


class _Tags(HTMLParser):
    VOID = frozenset(("meta", "br", "path", "use"))

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.named: set[str] = set()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for key, value in attrs:
            if key == "id":
                self.ids[value or ""] += 1
            if key == "aria-labelledby":
                self.named.update((value or "").split())
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def parse(text: str) -> _Tags:
    tags = _Tags()
    tags.feed(text)
    return tags


@pytest.mark.parametrize("case", NAMES)
def test_needs_no_network_and_has_one_script_of_ours(
    case: str, drawn: Callable[[str], str]
) -> None:
    text = drawn(case)
    assert not re.search(r"https?://|//[a-z]+\.[a-z]|@import|@font-face|url\((?!#)", text)
    tags = parse(text)
    assert tags.tags["script"] <= 1
    assert "<script" not in text.partition("<script>\n// Filters and sorts")[2]
    for forbidden in ("link", "img", "iframe", "object", "embed", "form", "base"):
        assert forbidden not in tags.tags


@pytest.mark.parametrize("case", NAMES)
def test_is_well_formed_and_every_figure_has_a_name(case: str, drawn: Callable[[str], str]) -> None:
    text = drawn(case)
    tags = parse(text)
    assert tags.open == []
    assert [name for name, count in tags.ids.items() if count > 1] == []
    assert tags.named <= set(tags.ids)
    assert tags.tags["h1"] == 1 and '<html lang="en">' in text
    assert text.count("<title id=") == tags.tags["svg"] == text.count("<desc id=")


@pytest.mark.parametrize("case", ["regression", "inconclusive"])
def test_same_files_give_the_same_bytes(
    case: str, drawn: Callable[[str], str], tmp_path: Path
) -> None:
    assert page(case, tmp_path) == drawn(case)


def test_what_others_wrote_is_only_text(tmp_path: Path) -> None:
    text = page("broken", tmp_path)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; [bold]$x$[/bold] red" in text
    assert "\x1b" not in text
    plain = (tmp_path / "run" / "report" / "report.txt").read_text()
    assert "[bold]$x$[/bold]" in plain and "\x1b" not in plain


def test_compiler_output_is_in_the_report(drawn: Callable[[str], str]) -> None:
    text = drawn("broken")
    assert "What failed: build" in text
    assert "error: implicit declaration" in text[text.index("<pre") : text.index("</pre>")]


@pytest.mark.parametrize("case", ["regression", "pass", "measured", "infrastructure"])
def test_instructions_are_never_given_as_time(case: str, drawn: Callable[[str], str]) -> None:
    text = drawn(case)
    assert "Instructions executed on a virtual board; not time." in text
    assert "3\xa0hardware" not in text
    assert not re.search(r"\d (ns|us|ms|µs)\b", text)


def test_a_smoke_test_is_no_verdict(drawn: Callable[[str], str]) -> None:
    text = drawn("smoke")
    assert "Cannot gate" in text and "not a board&#39;s latency" in text
    assert '<span class="tag pass">' not in text and "stayed within its threshold" not in text


def test_undecided_cells_are_not_called_regressions(drawn: Callable[[str], str]) -> None:
    text = drawn("inconclusive")
    assert "6 more boots would settle it" in text.replace("\xa0", " ")
    assert "▲ regression" not in text
    verdict = gather(real("regression")).verdict
    assert verdict is not None
    grown = [c.model_copy(update={"outcome": Outcome.INCONCLUSIVE}) for c in verdict.cells]
    assert {group.kind for group in movements(grown) if group.gated} == {"undecided"}
    assert "40,210 trace events lost" in text.replace("\xa0", " ")


def test_devices_are_compared_on_corrected_figures_only(drawn: Callable[[str], str]) -> None:
    assert "NVMe against UFS" in drawn("measured")
    assert "NVMe against UFS" not in drawn("inconclusive")


def test_a_run_without_a_verdict_says_so(tmp_path: Path) -> None:
    shutil.copytree(CASES / "regression", tmp_path / "run")
    (tmp_path / "run" / "verdict.json").unlink()
    assert "Unfinished" in render_report(RunDir.open(tmp_path / "run")).read_text()


def test_cells_of_any_name_can_be_drawn(tmp_path: Path) -> None:
    for path in sorted((CASES / "pass").rglob("*.json")):
        target = tmp_path / "run" / path.relative_to(CASES / "pass")
        target.parent.mkdir(parents=True, exist_ok=True)
        text = path.read_text().replace("ufs-4k-randread-t1-direct", "boot<b>$it$")
        target.write_text(text)
    text = render_report(RunDir.open(tmp_path / "run")).read_text()
    assert "boot&lt;b&gt;$it$" in text and "<b>$it$" not in text


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_contrast_in_light_and_dark() -> None:
    for dark in (False, True):
        colours = palette(dark)
        page_light = _luminance(colours["page"])
        for name in ("ink", "muted", "grew", "shrank", "bad", "good", "warn", "plain"):
            low, high = sorted((page_light, _luminance(colours[name])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, name
