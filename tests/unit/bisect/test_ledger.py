"""Ledgers of small git trees: every row's sum, merges, limits, and text and page of them."""

from __future__ import annotations

import html.parser
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from iotoll.bisect.account import Accountant
from iotoll.bisect.fields import FILES
from iotoll.bisect.history import History
from iotoll.bisect.ledger_command import shown
from iotoll.bisect.page import (
    Ledger,
    label,
    ledger_data,
    ledger_page,
    ledger_text,
    number,
    waterfalls,
)
from iotoll.core.errors import UsageError
from tests.unit.bisect.commits import CELL, OTHER, QUIET, TextMeter, Tree, meter


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "linux")


def account(
    tree: Tree,
    root: Path,
    good: str,
    bad: str,
    most: int | None = None,
    cells: Any = (CELL,),
    every: bool = False,
) -> tuple[Ledger, TextMeter]:
    measured = meter(tree, root, good)
    history = History(tree.root)
    found = Accountant(measured, history, QUIET, most, every).account(good, bad, list(cells))
    return shown(found, history, measured, (good, bad), 1.0), measured


def row(tree: Tree, count: int, **special: str) -> list[str]:
    return [tree.commit(f"change {n}", special.get(f"c{n}", "")) for n in range(count + 1)]


def costs(ledger: Ledger) -> dict[str, float]:
    """Per single commit that moved something the sum over families."""
    return {r.title.split('"')[1]: sum(r.values) / 10 for r in ledger.rows if any(r.values)}


def test_plus_and_minus_are_all_found_and_add_up(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 64, c9="cost 20", c30="cost -7", c31="cost 100", c60="cost 3")
    ledger, measured = account(tree, tmp_path / "l", commits[0], commits[-1])
    assert costs(ledger) == {"change 9": 20, "change 30": -7, "change 31": 100, "change 60": 3}
    assert ledger.totals == (1160,) and ledger.adds_up() and not ledger.partial
    assert measured.spent.builds <= 2 + 4 * 6


def test_g1_2_costs_outside_ios_have_their_rows(tree: Tree, tmp_path: Path) -> None:
    """Two commits whose work nobody waits for; noise between them is no commit's."""
    special = {"c9": "outside 21000", "c30": "cost 7", "c50": "outside -9000"}
    commits = row(tree, 64, **special)
    ledger, measured = account(tree, tmp_path / "l", commits[0], commits[-1])
    places = {family.section: n for n, family in enumerate(ledger.families)}
    assert set(places) == {"submission", "work"} and ledger.adds_up()
    named = {r.title.split('"')[1]: r.values for r in ledger.rows if len(r.title.split('"')) > 1}
    large = {t: v[places["work"]] / 10 for t, v in named.items() if abs(v[places["work"]]) > 5000}
    assert large == {
        "change 9": pytest.approx(21000, abs=300),
        "change 50": pytest.approx(-9000, abs=300),
    }
    assert named["change 30"][places["submission"]] == 70
    assert measured.spent.builds <= 2 + 3 * 6, "noise is not divided"
    assert "work outside I/Os" in ledger_text(ledger)


def test_g3_1_rows_are_means_and_a_comment_has_none(tree: Tree, tmp_path: Path) -> None:
    """+4 in all I/Os and +305 in every 16th; timers meet other I/Os in each kernel."""
    special = {"c5": "cost 4\nevery 16 305", "c11": "every 16 40", "c13": "cost 7"}
    commits = row(tree, 16, **special)
    ledger, _ = account(tree, tmp_path / "l", commits[0], commits[-1])
    assert costs(ledger) == {"change 5": 23.1, "change 11": 2.5, "change 13": 7}
    assert ledger.adds_up() and ledger.totals == (326,) and not any(ledger.left)
    text = ledger_text(ledger)
    assert "(+4 in 94%, +309 in 6% of the I/Os)" in text and "change 6" not in text


def test_g3_1_what_the_rule_does_not_count_is_left(tree: Tree, tmp_path: Path) -> None:
    """Ten commits of one instruction each: their sum is seen, and none of them."""
    commits = row(tree, 10, **{f"c{n}": "cost 1" for n in range(1, 11)})
    ledger, _ = account(tree, tmp_path / "l", commits[0], commits[-1])
    assert ledger.totals == (100,) and ledger.adds_up()
    assert ledger.left == (100,) or all(row.kind == "small" for row in ledger.rows)


def test_g3_2_commits_that_cancel_are_found_with_every(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 16, c5="cost 40", c9="cost -40")
    ledger, _ = account(tree, tmp_path / "l", commits[0], commits[-1])
    assert not ledger.rows and "--every measures all 16 that can" in ledger_text(ledger)
    ledger, measured = account(tree, tmp_path / "e", commits[0], commits[-1], every=True)
    assert costs(ledger) == {"change 5": 40, "change 9": -40} and not any(ledger.totals)
    assert measured.spent.builds == 17 and "cancel" not in ledger_text(ledger)


def test_interrupted_it_goes_on_without_building_again(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 32, c9="cost 20", c30="cost -7")
    partial, first = account(tree, tmp_path / "l", commits[0], commits[-1], most=5)
    assert partial.partial and partial.adds_up()
    assert any("limit on builds" in r.note for r in partial.rows)
    assert first.spent.builds <= 5
    ledger, second = account(tree, tmp_path / "l", commits[0], commits[-1])
    assert costs(ledger) == {"change 9": 20, "change 30": -7}
    built = [r["commit"] for r in second.log.of("built")]
    assert len(built) == len(set(built))


def test_commits_that_cannot_be_tested_are_kept_together(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 8, c3="SYNTAX", c4="cost 50", c5="x")
    text = tree.root / "drivers/ufs/core/ufshcd.c"
    text.write_text(text.read_text().replace("SYNTAX\n", ""))
    tree.git("commit", "-aqm", "repairs")
    tip = tree.git("rev-parse", "HEAD")
    ledger, _ = account(tree, tmp_path / "l", commits[0], tip)
    (moved,) = [r for r in ledger.rows if any(r.values)]
    assert moved.values == (500,) and "do not build or boot" in moved.note
    assert ledger.adds_up()


def test_a_merge_shows_its_branch_and_what_only_both_cost(tree: Tree, tmp_path: Path) -> None:
    first = tree.commit("base", "start")
    for n in range(9):
        tree.commit(f"room {n}")
    first = tree.git("rev-parse", "HEAD")
    tree.git("checkout", "-qb", "side")
    text = tree.root / "drivers/ufs/core/ufshcd.c"
    text.write_text("cost 40\npair\n" + text.read_text())
    tree.git("commit", "-aqm", "side costs")
    tree.git("checkout", "-q", "main")
    tree.commit("main has its half", "both")
    tree.git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    tip = tree.git("rev-parse", "HEAD")
    ledger, _ = account(tree, tmp_path / "l", first, tip)
    by_kind = [(r.depth, r.kind, r.values) for r in ledger.rows if any(r.values)]
    assert (0, "commit", (470,)) in by_kind, "the merge"
    assert (1, "commit", (400,)) in by_kind, "its commit alone"
    assert (1, "interaction", (70,)) in by_kind, "only together"
    assert ledger.totals == (470,) and ledger.adds_up()


def test_cells_that_behave_alike_are_one_family(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 6, c2="cost 10", c4="ufs 30")
    cells = (CELL, "ufs-4k-randread-t1-sync", OTHER)
    ledger, _ = account(tree, tmp_path / "l", commits[0], commits[-1], cells=cells)
    names = {(f.label, f.section): t for f, t in zip(ledger.families, ledger.totals, strict=True)}
    assert names == {
        ("ufs-4k-randread-t1-* (2 cells)", "submission"): 100,
        ("ufs-4k-randread-t1-* (2 cells)", "completion"): 300,
        (OTHER, "submission"): 100,
    }


def test_equal_ends_have_an_empty_ledger(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 4)
    ledger, _ = account(tree, tmp_path / "l", commits[0], commits[-1])
    assert ledger.totals == () and "nothing differs" in ledger_text(ledger)
    assert "Nothing differs" in ledger_page(ledger)
    with pytest.raises(UsageError, match="holds no commit"):
        account(tree, tmp_path / "m", commits[-1], commits[0])


class Balanced(html.parser.HTMLParser):
    """Refuses a page whose elements are not closed in order."""

    void = frozenset({"meta", "line", "rect", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.void:
            assert self.open.pop() == tag


def test_page_and_text_show_the_same_values(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 16, c2="cost 10", c4="cost -4", c9="cost 100 <b>&amp;")
    tree.commit("<script>alert(1)</script>", "cost 1000")
    tip = tree.git("rev-parse", "HEAD")
    ledger, _ = account(tree, tmp_path / "l", commits[0], tip)
    page, text = ledger_page(ledger), ledger_text(ledger)
    parser = Balanced()
    parser.feed(page)
    assert "&lt;br" not in page and "column. 1" in " ".join(page.split())
    assert parser.open == [] and "<script>" not in page and "http" not in page
    for shown_value in ("+10", "-4", "+1,000", "+1,006"):
        assert shown_value in page and shown_value in text
    (fall,) = waterfalls(ledger)
    assert [bar.kind for bar in fall.bars] == ["grew", "small", "grew", "total"]
    data = ledger_data(ledger)
    assert data["adds_up"] is True
    assert set(data) == {"schema_version", *FILES["ledger"].fields}


def test_rows_below_the_threshold_are_grey(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 16, c2="cost 10")
    ledger, _ = account(tree, tmp_path / "l", commits[0], commits[-1])
    assert "Grey values" not in ledger_page(ledger)
    small = replace(ledger, rows=[replace(row, moved=(False,)) for row in ledger.rows])
    assert [bar.kind for bar in waterfalls(small)[0].bars] == ["small", "total"]
    assert "Grey values and bars are no more than the gate's threshold" in ledger_page(small)


def test_numbers_keep_their_tenths() -> None:
    assert [number(t) for t in (0, 10, -10, 12345, -5)] == ["0", "+1", "-1", "+1,234.5", "-0.5"]
    assert label(["a-1", "b-2-3"]) == "a-* (2 cells)"
