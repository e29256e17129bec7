"""``iotoll judge --explain``: the ten lines, each number of which can be worked out by hand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner

from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.measure.elements import runs_of
from iotoll.records import results
from iotoll.records.models import Section, SideResult
from iotoll.records.models.analysis import ElementRecord
from iotoll.verdict.instructions.lines import Lines, ten_lines
from iotoll.verdict.instructions.rule import judge_cells
from iotoll.verdict.policy import Policy, load_policy
from tests.unit.runs import make_run, side_result
from tests.unit.verdict.gates import UFS, S, boots, changed, counts


@pytest.fixture(scope="module")
def policy() -> Policy:
    return load_policy("instructions")


def sides(
    cost: int, every: int = 1, flips: int = 3, noise: int = 77
) -> tuple[SideResult, SideResult]:
    """Three boots of each kernel: the cost in some I/Os, and noise in a few of the base's."""
    base = counts(1)
    slow = changed(base, S, lambda i: cost * (i % every == 0) - 99 * (i % 100 == 99))
    other = changed(base, S, lambda i: noise * (i < flips))
    sides = [side_result("base", one) for one in ({UFS: base}, {UFS: other}, {UFS: base})]
    return boots(*sides), boots(*[side_result("candidate", {UFS: slow})] * 3)


def lines(policy: Policy, cost: int, every: int = 1, section: Section | None = S) -> Lines:
    return ten_lines(*sides(cost, every), policy, UFS, section)


def numbers(line: str) -> list[float]:
    found = re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:e-\d+)?%?", line)
    return [float(n.rstrip("%").replace(",", "")) / (100 if n[-1] == "%" else 1) for n in found]


def test_the_ten_lines_are_worked_out_by_hand(policy: Policy) -> None:
    """+305 in every 16th of 256 I/Os, -99 in numbers 99 and 199.

    The second boot of the base has +77 in the first three I/Os: there these are +228, -77 and -77.
    """
    found = lines(policy, 305, 16)
    assert len(found.lines) == 10
    assert found.title == f"{UFS}: submission, in instructions an I/O; 3 boots of each kernel"
    pairs, comparable, size, share, own, chance, mean, each, so, last = found.lines
    assert numbers(pairs)[:2] == [768, 768]
    assert comparable.count("0 ") >= 2
    assert numbers(comparable)[1] == int(0.05 * 768 + 1)
    above, total, limit, below = 3 * 16, 768, 4, 3 * 2 + 2
    assert numbers(size) == [above, total, limit, below]
    net = (above - below) / total
    assert numbers(share) == [pytest.approx(net, abs=1e-4), 0.02]
    assert numbers(own) == pytest.approx([3 / 256, 2, 6 / 256], abs=1e-4)
    # Rounds of 8 I/Os: 16 of 32 have a cost, two of these also a -99, so that their net is 0; in
    # the second boot the first round has one up and two down.
    agree, moved = 14 + 13 + 14, 14 + 14 + 14
    assert numbers(chance)[:2] == [agree, moved]
    fair = scipy.stats.binomtest(agree, moved).pvalue
    assert numbers(chance)[2] == pytest.approx(fair, rel=0.05)
    assert numbers(mean) == pytest.approx([net, 305, net * 305, 1], abs=1e-2)
    assert numbers(each)[:3] == pytest.approx([14 / 256, 12 / 256, 14 / 256], abs=1e-4)
    assert numbers(each)[4] == pytest.approx(net / 4, abs=1e-4)
    assert so.startswith(f"So it grew: +{net * 305:.1f} instructions on ")
    assert last == "Growth of it is a regression."
    assert all(line.endswith("yes.") for line in (share, own, chance, mean, each))
    assert found.sizes[0][:4] == ["I/Os", "4", str(above), str(below)]
    assert found.sizes[0][-1] == "nothing"


def test_the_lines_say_what_the_verdict_says(policy: Policy) -> None:
    for cost, every in ((3, 1), (5, 1), (9, 8), (305, 3), (-60, 1)):
        base, other = sides(cost, every)
        judged = judge_cells(base, other, policy, [UFS]).cells[0]
        parts = {part.section: part for part in judged.sections}
        for section, part in parts.items():
            said = ten_lines(base, other, policy, UFS, section).lines
            word = {"grew": "So it grew", "shrank": "So it shrank"}.get(part.moved, "it did not")
            assert any(word in line for line in said), (cost, section, said)


def test_why_it_did_not_grow(policy: Policy) -> None:
    rare = lines(policy, 305, 90)
    assert [line for line in rare.lines if line.endswith(": no.")] != []
    assert rare.lines[8].startswith("So it did not move")
    assert "nothing" not in [row[-1] for row in rare.sizes], "each size lacks a line"
    base, other = sides(305, 16)
    noisy = sides(305, 16, flips=100, noise=400)[0]
    assert ten_lines(noisy, other, policy, UFS, S).lines[4].endswith("no.")
    once = SideResult.model_copy(other, update={"cells": {UFS: other.cells[UFS][:1]}})
    assert "further boots, 3 of each" in ten_lines(base, once, policy, UFS, S).lines[9]


def test_what_cannot_be_compared_says_so(policy: Policy) -> None:
    base, other = side_result("base", {UFS: counts(1)}), side_result("candidate", {UFS: counts(1)})
    short = side_result("candidate", {UFS: {s: v[:200] for s, v in counts(1).items()}})
    assert "56 of 256 I/Os have no pair" in ten_lines(base, short, policy, UFS, S).lines[2]
    few = [side_result(s, {UFS: counts(1, n=20)}) for s in ("base", "candidate")]
    assert "fewer than 24" in ten_lines(few[0], few[1], policy, UFS, S).lines[2]
    with pytest.raises(UsageError, match="has the section hardware"):
        ten_lines(base, other, policy, UFS, Section.HARDWARE)
    invalid = side_result("candidate", {UFS: counts(1)}, invalid={UFS: "events were lost"})
    with pytest.raises(UsageError, match="events were lost"):
        ten_lines(base, invalid, policy, UFS, S)


def with_element(side: SideResult, counts: Sequence[int]) -> SideResult:
    """The side with so many barriers in the submission of each I/O."""
    runs = runs_of(list(counts))
    element = ElementRecord(sections={S: runs}, whole=runs, functions={"queue": 1})
    cells = [record.model_copy(update={"vector": {"dmb": element}}) for record in side.cells[UFS]]
    return side.model_copy(update={"cells": {UFS: cells}})


def test_an_element_has_the_ten_lines_too(tmp_path: Path, policy: Policy) -> None:
    base, other = sides(0)
    base, other = with_element(base, [2] * 256), with_element(other, [3] * 256)
    found = ten_lines(base, other, policy, UFS, S, "dmb")
    assert found.title.startswith(f"{UFS}: submission, in dmb an I/O")
    assert numbers(found.lines[2])[:2] == [768, 768]
    assert found.lines[9] == "Growth of it is a regression."
    with pytest.raises(UsageError, match="no I/O has tlb: it has dmb"):
        ten_lines(base, other, policy, UFS, S, "tlb")
    with pytest.raises(UsageError, match="counted instructions alone"):
        ten_lines(*sides(0), policy, UFS, S, "dmb")
    run = make_run(tmp_path / "run")
    for side in (base, other):
        results.write(run.side(side.side) / "result.json", side)
    assert f"{UFS}: dmb:submission grew +1" in judge(run.root)[1]
    assert "So it grew: +1.0 dmb" in judge(run.root, "--explain", UFS, "dmb:submission")[1]
    assert "10. Growth of it" in judge(run.root, "--explain", UFS, "dmb:whole")[1]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    run = make_run(tmp_path / "run")
    for side in sides(305, 16):
        results.write(run.side(side.side) / "result.json", side)
    return run.root


def judge(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["judge", *map(str, words)])
    return done.exit_code, done.output if done.exception is None else str(done.exception)


def test_the_command_reads_stored_files_and_writes_nothing(stored: Path) -> None:
    before = {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}
    code, text = judge(stored, "--explain", UFS, "submission")
    assert code == 0
    assert re.search(r"^ 6\. Chance: 41 of 42 rounds", text, re.M)
    assert re.search(r"^10\. Growth of it is a regression\.$", text, re.M)
    code, text = judge(stored, "--explain", UFS, "submission", "--json")
    assert len(json.loads(text)["lines"]) == 10
    code, text = judge(stored)
    assert code == 0
    assert f"{UFS}: submission grew +" in text
    assert f"{UFS}: whole grew +" in text
    code, text = judge(stored, "--json")
    assert {row["section"] for row in json.loads(text)} >= {"vfs_fs", "submission", "whole"}
    assert before == {path: path.read_bytes() for path in stored.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((UFS[:-1], "submission"), f"did you mean {UFS}?"),
        (("nvme", "submission"), "the run has no such cell"),
        ((UFS, "submision"), "did you mean submission"),
        ((UFS, "hole"), "did you mean whole or"),
        ((UFS, "work"), "has a separate rule"),
    ],
)
def test_a_wrong_name_gets_the_nearest_ones(
    stored: Path, words: tuple[str, str], told: str
) -> None:
    code, text = judge(stored, "--explain", *words)
    assert code != 0
    assert told in text
    assert "\n" not in text.strip()


def test_what_has_no_values_or_another_clock_is_refused(tmp_path: Path, stored: Path) -> None:
    empty = make_run(tmp_path / "empty")
    assert "has no values of both kernels" in judge(empty.root)[1]
    timed = make_run(tmp_path / "timed", policy="time", clock="time")
    assert "its clock is 'time'" in judge(timed.root)[1]
    assert "is not a run directory" in judge(tmp_path)[1]


def test_rounds_are_named_where_they_decide(policy: Policy) -> None:
    random = np.random.default_rng(4)
    base = counts(1)
    noise = random.normal(0, 9000, (32, 8)).astype(int)
    noise[:, -1] -= noise.sum(axis=1)
    flat = noise.reshape(-1)
    slow = changed(base, S, lambda i: 500 + int(flat[i]))
    before = boots(*[side_result("base", {UFS: base})] * 3)
    after = boots(*[side_result("candidate", {UFS: slow})] * 3)
    found = ten_lines(before, after, policy, UFS, S)
    assert "96 of 96 rounds, by the means of their I/Os, grew" in found.lines[2]
    assert "its mean" in found.lines[8] or "median" in found.lines[8]
