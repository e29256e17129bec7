"""Bisecting small git trees: the commit is named, as git would, and no kernel is built twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from iotoll.bisect import log as logs
from iotoll.bisect.account import Accountant
from iotoll.bisect.command import _result, _show, bisect_command, step_command
from iotoll.bisect.culprit import Function, outside
from iotoll.bisect.culprit import _of as confirmed_of
from iotoll.bisect.fields import FILES
from iotoll.bisect.find import Asked, Finder, Found
from iotoll.bisect.history import History
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import Meter
from iotoll.bisect.rest import search_on
from iotoll.bisect.setting import locked
from iotoll.bisect.terminal import bisect_text
from iotoll.core.cli_support import Output
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.records import results
from iotoll.records.models import VerdictRecord, WorkComparison, WorkFunction
from iotoll.records.rundir import RunDir
from tests.unit.bisect.commits import CELL, OTHER, QUIET, TextMeter, Tree, meter
from tests.unit.runs import EXAMPLES


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "linux")


def search(tree: Tree, root: Path, good: str, bad: str, **asked: Any) -> tuple[Found, TextMeter]:
    measured = meter(tree, root, good)
    cells = (asked.pop("cell"),) if "cell" in asked else ()
    finder = Finder(measured, History(tree.root), Asked(good, bad, cells, **asked), QUIET)
    return finder.find(), measured


def row(tree: Tree, count: int, **special: str) -> list[str]:
    """Commits 0..count; ``cN`` is the text of commit N."""
    return [tree.commit(f"change {n}", special.get(f"c{n}", "")) for n in range(count + 1)]


@pytest.mark.parametrize("at", [1, 2, 31, 33, 63, 64])
def test_one_culprit_of_64_takes_six_steps(tree: Tree, tmp_path: Path, at: int) -> None:
    commits = row(tree, 64, **{f"c{at}": "cost 50"})
    found, measured = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    assert found.commits == [commits[at]]
    assert found.target == (CELL, "submission") and found.full == 50
    assert measured.spent.builds - 2 <= 6, "A and B are built besides"


def test_an_improvement_is_found_too(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 9, c4="cost -120")
    found, _ = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    assert (found.commits, found.full) == ([commits[4]], -120)


def test_without_a_cell_what_moved_is_taken(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 8, c5="ufs 30")
    found, measured = search(tree, tmp_path / "b", commits[0], commits[-1])
    assert found.commits == [commits[5]]
    assert found.target is not None and found.target[1] == "completion"
    assert found.target[0].startswith("ufs-")
    rows = measured.log.of("booted")
    assert {r["cells"] for r in rows[:2]} != {1}, "all selected cells first"
    assert {r["cells"] for r in rows[2:]} == {1}, "then the one in question"


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("outside 21000", 21000),
        ("outside 21000 beside\ncost 4", 21000),
        ("code fold_samples 60", 60),
    ],
)
def test_g1_2_a_cost_outside_ios_is_found_as_any_other(
    tree: Tree, tmp_path: Path, text: str, full: int
) -> None:
    """A delayed work pays it: no section moves, and what kernels differ by is no part of it."""
    text = text.replace(" beside", "")
    commits = row(tree, 32, c21=text)
    found, measured = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    assert found.commits == [commits[21]]
    assert found.target == (CELL, "work") and abs(found.full - full) < 300
    assert measured.spent.builds - 2 <= 5
    wanted = search(tree, tmp_path / "s", commits[0], commits[-1], cell=CELL, section="work")[0]
    assert wanted.commits == [commits[21]]


def test_g1_2_the_gates_own_counts_name_the_function_outside_ios(tmp_path: Path) -> None:
    verdict = results.read(EXAMPLES / "verdict.json", VerdictRecord)
    grown = WorkFunction(name="fold_samples", base=0.0, candidate=21000.0, changed=True)
    work = WorkComparison(
        **{"base": 2500.0, "candidate": 23531.0, "delta": 21031.0, "relative": 8.4},
        **{"threshold": 500.0, "gated": True, "moved": "grew", "confidence": "+21,031.0"},
        **{"total": 23531.0, "inside": 0.0, "functions": [grown]},
    )
    cells = [cell.model_copy(update={"work": work}) for cell in verdict.cells]
    verdict = verdict.model_copy(update={"cells": cells})
    cell = cells[0].cell
    found = confirmed_of(verdict, (cell, "work"), RunDir(tmp_path))
    assert (found.delta, found.moved) == (21031.0, True)
    assert outside(verdict, cell) == [Function("fold_samples", 21000.0, True)]


def test_g1_2_noise_outside_ios_is_no_movement(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 9, c2="code queue 12", c4="outside 200")
    found, _ = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    assert found.commits == [] and "nothing moved" in found.why


def test_nothing_moved_is_said(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 4)
    found, _ = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    assert found.commits == [] and "nothing moved" in found.why


def test_commits_that_do_not_build_or_boot_are_skipped(tree: Tree, tmp_path: Path) -> None:
    special = {"c7": "SYNTAX", "c8": "-", "c12": "PANIC", "c13": "-", "c10": "cost 20"}
    commits = row(tree, 20, **special)
    found, measured = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    assert found.commits == [commits[10]]
    assert set(measured.skipped) <= {commits[7], commits[12]}


def test_skips_that_hide_the_culprit_yield_the_range(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 12, c5="SYNTAX", c6="also broken", c7="-", c8="-", c9="cost 40")
    hidden = [tree.commit("base 2")]
    hidden.append(tree.commit("costs", "cost 80"))
    hidden.append(tree.commit("breaks", "PANIC"))
    hidden.append(tree.commit("repairs", "-"))
    found, _ = search(tree, tmp_path / "a", commits[-1], hidden[-1], cell=CELL)
    assert found.commits == [hidden[1]]
    late = [tree.commit("breaks again", "SYNTAX"), tree.commit("costs", "cost 80")]
    late.append(tree.commit("repairs", "x"))
    text = (tree.root / "drivers/ufs/core/ufshcd.c").read_text().replace("SYNTAX\n", "")
    (tree.root / "drivers/ufs/core/ufshcd.c").write_text(text)
    tree.git("commit", "-aqm", "really repairs")
    late.append(tree.git("rev-parse", "HEAD"))
    found, measured = search(tree, tmp_path / "b", hidden[-1], late[-1], cell=CELL)
    assert found.commits == late[::-1], "newest first, as git lists them"
    assert all("does not build" in measured.why(c) for c in late[:3])


def test_commits_outside_of_the_kernel_are_never_built(tree: Tree, tmp_path: Path) -> None:
    first = tree.commit("base", "start")
    for n in range(30):
        tree.commit(f"words {n}", path="Documentation/x.rst")
    culprit = tree.commit("costs", "cost 33")
    for n in range(30):
        tip = tree.commit(f"more words {n}", path="Documentation/x.rst")
    found, measured = search(tree, tmp_path / "b", first, tip, cell=CELL)
    assert found.commits == [culprit] and found.candidates == 1
    assert measured.spent.builds == 2, "A and B"


def merged(tree: Tree) -> tuple[str, str, str]:
    """A merge whose branch has the culprit; returns A, the culprit and the merge."""
    first = tree.commit("base", "start")
    tree.git("checkout", "-qb", "side")
    tree.commit("side words", path="other.c")
    culprit = tree.commit("side costs", "cost 64")
    tree.commit("side words 2", path="other.c")
    tree.git("checkout", "-q", "main")
    for n in range(4):
        tree.commit(f"main {n}", path="main.c")
    tree.git("merge", "-q", "--no-ff", "-m", "merge side", "side")
    merge = tree.git("rev-parse", "HEAD")
    tree.commit("after", path="main.c")
    return first, culprit, merge


def test_merges_are_followed_as_git_does(tree: Tree, tmp_path: Path) -> None:
    first, culprit, merge = merged(tree)
    tip = tree.git("rev-parse", "HEAD")
    found, _ = search(tree, tmp_path / "a", first, tip, cell=CELL)
    assert found.commits == [culprit]
    found, _ = search(tree, tmp_path / "b", first, tip, cell=CELL, first_parent=True)
    assert found.commits == [merge]


def test_paths_limit_the_range(tree: Tree, tmp_path: Path) -> None:
    first, culprit, _ = merged(tree)
    tip = tree.git("rev-parse", "HEAD")
    driver = ("drivers/ufs/core/ufshcd.c",)
    found, _ = search(tree, tmp_path / "a", first, tip, cell=CELL, paths=driver)
    assert found.commits == [culprit] and found.range_size == 1
    with pytest.raises(UsageError, match="changes these paths"):
        search(tree, tmp_path / "b", first, tip, cell=CELL, paths=("nowhere.c",))


def test_a_good_revision_beside_the_range_needs_its_merge_base(tree: Tree, tmp_path: Path) -> None:
    tree.commit("base", "start")
    tree.commit("costs", "cost 40")
    tree.git("checkout", "-qb", "fixed")
    fixed = tree.commit("takes it back", "-")
    tree.git("checkout", "-q", "main")
    tip = tree.commit("words")
    found, _ = search(tree, tmp_path / "b", fixed, tip, cell=CELL)
    assert found.commits == [] and "merge base" in found.why


def test_g3_2_every_culprit_is_found_and_they_are_the_whole(tree: Tree, tmp_path: Path) -> None:
    """Three costs, one of them in the completion alone, and an improvement between them."""
    special = {"c5": "cost 40", "c11": "ufs 30", "c20": "cost -15", "c27": "every 16 305"}
    commits = row(tree, 32, **special)
    found, measured = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    asked = Asked(commits[0], commits[-1], (CELL,))
    whole = search_on(measured, History(tree.root), asked, found, QUIET)
    named = {commits.index(c.commits[0]): (c.worst, c.step.deltas[c.worst]) for c in whole.culprits}
    submission, completion = (CELL, "submission"), (CELL, "completion")
    assert named == {
        5: (submission, 400),
        11: (completion, 300),
        20: (submission, -150),
        27: (submission, 191),
    }
    assert [c.grew for c in whole.culprits] == [True, True, False, True] and not whole.left
    assert whole.total == {submission: 441, completion: 300}


def test_g3_2_a_register_read_is_found_beside_instructions(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 16, c5="cost 40", c11="reads 1")
    found, measured = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    asked = Asked(commits[0], commits[-1], (CELL,))
    whole = search_on(measured, History(tree.root), asked, found, QUIET)
    named = {commits.index(c.commits[0]): dict(c.step.deltas) for c in whole.culprits}
    reads = (CELL, "register_reads.ufs:submission")
    assert named == {5: {(CELL, "submission"): 400}, 11: {reads: 10}} and not whole.left


def test_g3_2_one_culprit_needs_no_further_builds(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 16, c5="cost 40")
    found, measured = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    builds = measured.spent.builds
    asked = Asked(commits[0], commits[-1], (CELL,))
    whole = search_on(measured, History(tree.root), asked, found, QUIET)
    assert [c.commits for c in whole.culprits] == [(commits[5],)] and not whole.left
    assert measured.spent.builds == builds
    answer = _result(asked, History(tree.root), measured, (found, whole), {})
    assert set(answer) == {"schema_version", *FILES["bisect"].fields}


def told(**more: Any) -> str:
    """A search's text for one culprit of -20, with other values."""
    return bisect_text(searched(**more))


def searched(**more: Any) -> dict[str, Any]:
    """Its result."""
    commit = {"sha": "1" * 40, "subject": "a", "author": "A", "email": "a@b", "date": "2026-01-01"}
    confirmed = {"delta": -20.0, "boots": 3, "functions": [], "unexplained": "", "sentence": "s"}
    parts = [{"cell": CELL, "section": "submission", "delta": -20.0, "some": ""}]
    one = {"commits": [commit], "grew": False, "parts": parts, "functions": [], "confirmed": True}
    spent = {"builds": 1, "build_seconds": 1, "cached": 0, "boots": 1, "boot_seconds": 1}
    result = {
        "outcome": "found",
        "cell": CELL,
        "section": "submission",
        "terms": ("good", "bad"),
        "commits": [commit],
        "confirmed": confirmed,
        "culprits": [one],
        "full": -20.0,
        "left": [],
        "range": 4,
        "candidates": 4,
        "spent": {**spent, "skipped": 0},
        "disk": {"folder": 1},
    }
    return {**result, **more}


def test_g2_7_what_a_search_took_is_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _show(searched(), tmp_path, Output(quiet=False, as_json=False))
    shown = capsys.readouterr()
    assert "kernels built: 1 (1 s)" in shown.err.replace("\n", " ")
    assert "built" not in shown.out and " s)" not in shown.out
    assert "kernels built" in told(), "the file has it"


def test_g3_7_an_improvement_is_called_so() -> None:
    text = told()
    assert text.startswith('111111111111 ("a") is an improvement') and "bad" not in text
    assert "%" not in text.splitlines()[1] + text.splitlines()[2]


def test_g3_7_opposing_culprits_are_all_named() -> None:
    commit = {"sha": "2" * 40, "subject": "b"}
    parts = [{"cell": CELL, "section": "submission", "delta": 7.0, "some": ""}]
    more = {"commits": [commit], "grew": True, "parts": parts, "functions": [], "confirmed": True}
    first = json.loads(json.dumps(more))
    first |= {"commits": [{"sha": "1" * 40, "subject": "a"}], "grew": False}
    text = told(culprits=[first, more], full=-13.0)
    assert "2 commits changed what moved" in text.splitlines()[0]
    assert "-13 instructions per I/O from A to B (an improvement)" in text
    assert '111111111111 ("a"), an improvement' in text and '222222222222 ("b")\n' in text


def test_g3_11_a_net_of_zero_names_the_ledger_and_its_builds(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 16, c5="cost 40", c9="cost -40")
    found, _ = search(tree, tmp_path / "b", commits[0], commits[-1], cell=CELL)
    assert found.candidates == 16 and "(16 builds)" in found.why
    assert f"iotoll ledger {commits[0][:12]}..{commits[-1][:12]} --every" in found.why


def test_g3_11_swapped_ends_are_told_in_the_same_words(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 3, c2="cost 9")
    said = []
    for act in (
        lambda: search(tree, tmp_path / "a", commits[-1], commits[0], cell=CELL),
        lambda: Accountant(
            meter(tree, tmp_path / "l", commits[-1]), History(tree.root), QUIET, None
        ).account(commits[-1], commits[0], [CELL]),
    ):
        with pytest.raises(UsageError, match="B is behind A: swap the two") as error:
            act()
        said.append(str(error.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["bisect", "--good", "HEAD~1", "--section", "foo"], "--section foo: there is none"),
        (["bisect-step", "--good", "HEAD~1", "--cell", CELL, "--section", "submission",
          "--at-least", "-3"], "--at-least"),
    ],
)  # fmt: skip
def test_g3_11_wrong_options_are_refused_before_any_build(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], why: str
) -> None:
    row(tree, 2)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Meter, "records", lambda *_: pytest.fail("it built"))
    command = bisect_command if words[0] == "bisect" else step_command
    done = CliRunner().invoke(command, [*words[1:], "--tree", str(tree.root)])
    assert why in done.output + str(done.exception) and done.exit_code != 0


class Killed(BaseException):
    """Stands for kill -9: nothing after it runs."""


@pytest.mark.parametrize("when", ["before", "torn", "after"])
def test_killed_at_any_line_of_the_log_it_goes_on(
    tree: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    commits = row(tree, 12, c5="cost 20", c7="PANIC", c8="-")
    whole, reference = search(tree, tmp_path / "whole", commits[0], commits[-1], cell=CELL)
    add = Log.add

    def dies(self: Log, event: str, **values: Any) -> dict[str, Any]:
        if when == "torn":
            with self.path.open("ab") as stream:
                stream.write(b'{"event": "boo')
        found = add(self, event, **values) if when == "after" else {}
        raise Killed(found)

    left = [0]

    def one_line(self: Log, event: str, **values: Any) -> dict[str, Any]:
        left[0] -= 1
        return add(self, event, **values) if left[0] >= 0 else dies(self, event, **values)

    attempts = 0
    while True:
        attempts += 1
        left[0] = 0 if when == "after" else 1
        try:
            with monkeypatch.context() as patch:
                patch.setattr(logs.Log, "add", one_line)
                found, measured = search(tree, tmp_path / "k", commits[0], commits[-1], cell=CELL)
            break
        except Killed:
            assert attempts < 60
    assert attempts > 4 and found.commits == whole.commits == [commits[5]]
    built = [r["commit"] for r in measured.log.of("built")]
    assert sorted(built) == sorted(r["commit"] for r in reference.log.of("built"))
    assert len(built) == len(set(built)), "no kernel twice"


def test_another_search_in_the_same_folder_is_refused(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 3, c2="cost 9")
    meter(tree, tmp_path / "b", commits[0])
    with pytest.raises(UsageError, match="holds another search"):
        meter(tree, tmp_path / "b", commits[1])


def test_two_at_once_in_one_folder_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    with locked(folder), pytest.raises(UsageError, match="another iotoll works"), locked(folder):
        pass


def test_a_log_that_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("hello\n")
    with pytest.raises(UsageError, match="line 1 is not JSON"):
        Log(tmp_path / NAME, {})
    (tmp_path / NAME).write_text(json.dumps(["x"]) + "\n")
    with pytest.raises(UsageError, match="line 1 has no event"):
        Log(tmp_path / NAME, {})


def test_wrong_words_are_usage_errors(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 3, c2="cost 9")
    for asked, why in (
        ({"cell": "no-such-cell"}, "--cell no-such-cell"),
        ({"cell": CELL, "section": "nonsense"}, "--section nonsense"),
    ):
        with pytest.raises(UsageError, match=why):
            search(tree, tmp_path / str(asked), commits[0], commits[-1], **asked)
    with pytest.raises(UsageError, match="B is behind A"):
        search(tree, tmp_path / "swapped", commits[-1], commits[0], cell=CELL)


def test_an_end_that_does_not_build_is_named(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 3, c3="SYNTAX")
    with pytest.raises(UsageError, match=r"--bad .* does not build"):
        search(tree, tmp_path / "a", commits[0], commits[3], cell=CELL)
    tip = tree.commit("repairs", "-")
    with pytest.raises(InfrastructureError, match="name another --good"):
        search(tree, tmp_path / "b", commits[3], tip, cell=CELL)


def test_cells_of_other_devices_stay_out_of_it(tree: Tree, tmp_path: Path) -> None:
    commits = row(tree, 4, c2="ufs 40")
    found, _ = search(tree, tmp_path / "b", commits[0], commits[-1], cell=OTHER)
    assert found.commits == [] and "nothing moved" in found.why
