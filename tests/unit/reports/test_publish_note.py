"""The merge-request note, rendered by a CommonMark parser that is not ours."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from iotoll.records.rundir import RunDir
from iotoll.reports.page.evidence import gather
from iotoll.reports.publish.links import Link
from iotoll.reports.publish.markdown import block, code, link, text
from iotoll.reports.publish.note import MARKER, note
from tests.golden.runs import CASES, IDS, hostile, real

OURS = {"h3", "strong", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "pre", "a", "br"}
OURS |= {"details", "summary", "ul", "li"}
LINKS = [Link("report", "https://ci.example/report.html")]
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")
ATTACKS = [
    "/merge",
    "@all",
    "<script>alert(1)</script>",
    "<!-- x --><img src=x onerror=y>",
    "[x](https://evil.example)",
    "https://evil.example www.evil.example",
    "`x` ``y`` `",
    "a | b || c",
    "line\n/close\n\n# title\n- item\n```\nx",
    "\\`x\\` \\| \\\\",
    "![x](y) &lt;b&gt; &amp; :smile: $`a`$ [[wiki]] {+x+} ~~x~~ *x* __x__",
]


class _Shown(HTMLParser):
    """Tags with their targets, and the text that a reader sees before anything is unfolded."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.targets: list[str] = []
        self.first: list[str] = []
        self.folded = 0
        self.plain: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.targets += [value or "" for name, value in attrs if name in ("href", "src")]
        self.folded += tag == "details"

    def handle_endtag(self, tag: str) -> None:
        self.folded -= tag == "details"

    def handle_data(self, data: str) -> None:
        self.plain.append(data)
        if not self.folded:
            self.first.append(data)


def shown(markdown: str) -> _Shown:
    return _Shown(MARKDOWN.render(markdown))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_note_says_the_verdict_first_and_is_short(case: Path) -> None:
    run = RunDir.open(case)
    body = note(gather(run), LINKS)
    assert body.startswith(f"{MARKER}\n") and body.count(MARKER) == 1
    page = shown(body)
    assert page.tags <= OURS
    assert page.targets == [LINKS[0].url]
    words = " ".join(page.first).split()
    # Who reads 250 words a minute reads 42 in ten seconds: the verdict, and what it found.
    lead = "\n".join(page.first).partition("\nreport\n")[0]
    # Where, and that a pass is not all, is read after it.
    first = re.split("Where:|Largest:|Outside|What ran:|Not covered:", lead)[0].split()
    assert len(first) <= 42 and len(words) <= 200, words
    assert len(body) < 20_000


def test_note_of_a_regression() -> None:
    page = shown(note(gather(real("regression")), LINKS))
    first = " ".join("".join(page.first).split())
    assert first.startswith("▲ iotoll: regression +327 to +329 instructions per UFS request")
    assert "Check transfer requests before they are sent" in first
    assert "5,229" not in first and "5,229" in "".join(page.plain)


@pytest.mark.parametrize("name", ["smoke", "infrastructure"])
def test_note_of_what_is_no_verdict_says_so(name: str) -> None:
    first = " ".join(shown(note(gather(real(name)), [])).first)
    assert "not a pass" in first


@pytest.mark.parametrize("name", ["regression", "broken"])
def test_hostile_run_has_no_effect(name: str, tmp_path: Path) -> None:
    body = note(gather(hostile(tmp_path / "run", name)), LINKS)
    page = shown(body)
    assert page.tags <= OURS
    assert page.targets == [LINKS[0].url]
    harmless(body)
    assert "document.title" in "".join(page.plain), "it is shown, as text"


def harmless(body: str) -> None:
    """Nothing that GitLab acts on outside of code: orders, mentions, references, addresses."""
    assert not re.search(r"^[ \t>]*/\w", outside_code(body), re.M)
    assert not re.search(r"^/\w", body, re.M), "not even inside a block"
    plain = "".join(shown(outside_code(body)).plain)
    assert not re.search(r"(?<!\w)[@#!~]\w", plain)
    assert not re.search(r"(?i)https?://evil|www\.evil", plain)


def outside_code(body: str) -> str:
    fenced = re.compile(r"^(`{3,})text\n.*?^\1$", re.S | re.M)
    return re.sub(r"(?<![`\\])(`+)(?!`).+?(?<!`)\1(?!`)", "", fenced.sub("", body))


@pytest.mark.parametrize("attack", ATTACKS)
def test_text_and_code_are_only_text(attack: str) -> None:
    for made in (text(attack), code(attack), link(attack, "https://ours.example/")):
        page = _Shown(MARKDOWN.render(f"| a |\n|---|\n| x {made} |\n"))
        assert page.tags <= {"table", "thead", "tbody", "tr", "th", "td", "code", "a"}
        assert set(page.targets) <= {"https://ours.example/"}
        assert "\n" not in made
        harmless(f"x {made}")


@given(st.text(max_size=60))
def test_any_text_comes_out_as_it_is(words: str) -> None:
    for made in (text(words), code(words)):
        page = _Shown(MARKDOWN.render(f"x {made} y"))
        assert page.tags <= {"p", "code"}
        assert "\n" not in made


@given(st.text(alphabet=st.sampled_from("`~/ \n\tab<"), max_size=60))
def test_any_log_stays_in_its_block(words: str) -> None:
    page = _Shown(MARKDOWN.render(f"before\n\n{block(words)}\n\nafter"))
    assert page.tags <= {"p", "pre", "code"}
    assert page.plain[-1].strip() == "" and "after" in page.plain[-2]
    assert not re.search(r"^/", block(words), re.M)
