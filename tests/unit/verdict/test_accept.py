"""Accepting a regression: exactly what a trailer names, and only with the right to do so."""

from __future__ import annotations

import pytest

from iotoll.records.models import (
    CellVerdict,
    Clock,
    GrowthRecord,
    Outcome,
    Section,
    SectionComparison,
    Unit,
    VerdictRecord,
)
from iotoll.records.models.verdict import Comparison, PairedIosRecord
from iotoll.verdict.accept import apply, parse, proposed
from iotoll.verdict.policy import AcceptRule, Policy, load_policy

TRAILER = "ufs-* submission +350 checks each tag"


def policy(who: str = "approver", at_most: float = 0.5) -> Policy:
    rule = AcceptRule.model_validate({"who": who, "at_most": at_most})
    return load_policy("instructions").model_copy(update={"accept": rule})


def section(name: Section, delta: float, gated: bool = True) -> SectionComparison:
    return SectionComparison(
        section=name,
        base=5000,
        candidate=5000 + delta,
        delta=delta,
        relative=delta / 5000,
        threshold=12,
        gated=gated,
        moved="grew" if delta > 12 else "same",
        confidence="",
    )


def verdict(**deltas: dict[Section, float]) -> VerdictRecord:
    cells = []
    for name, moves in deltas.items():
        found = [section(s, d) for s, d in moves.items()]
        worse = any(s.moved == "grew" for s in found)
        outcome = Outcome.REGRESSION if worse else Outcome.PASS
        cells.append(CellVerdict(cell=name.replace("_", "-"), outcome=outcome, sections=found))
    worse = any(c.outcome is Outcome.REGRESSION for c in cells)
    outcome = Outcome.REGRESSION if worse else Outcome.PASS
    return VerdictRecord(
        outcome=outcome,
        exit_code=outcome.exit_code,
        sentence="It grew.",
        clock=Clock.INSTRUCTIONS,
        unit=Unit.INSTRUCTIONS,
        board="virt-arm64",
        matrix="default",
        policy="instructions",
        policy_sha256="0" * 64,
        can_gate=True,
        cells=cells,
        regressions=[
            f"{c.cell}: {s.section.value} {s.delta:+.0f} instructions"
            for c in cells
            for s in c.sections
            if s.moved == "grew"
        ],
    )


def test_exactly_what_is_named_turns_green() -> None:
    grown = verdict(ufs_a={Section.SUBMISSION: 329}, ufs_b={Section.SUBMISSION: 327})
    found = apply(grown, [TRAILER], policy(), "Maintainer")
    assert (found.outcome, found.exit_code) == (Outcome.PASS, 0)
    assert found.accepted is not None
    assert found.accepted[0].moves == ["ufs-a: submission", "ufs-b: submission"]
    assert found.accepted[0].by == "Maintainer"
    assert "accepted by Maintainer: checks each tag" in found.sentence
    assert found.regressions == []
    # What was measured stays in the record.
    assert found.cells[0].sections[0].moved == "grew"
    assert found.cells[0].sections[0].accepted == "checks each tag"


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ({"nvme_a": {Section.SUBMISSION: 329.0}}, "another cell"),
        ({"ufs_b": {Section.COMPLETION: 20.0}}, "another section"),
        ({"ufs_b": {Section.SUBMISSION: 351.0}}, "a larger growth"),
    ],
)
def test_anything_else_still_blocks(other: dict[str, dict[Section, float]], why: str) -> None:
    grown = verdict(ufs_a={Section.SUBMISSION: 329}, **other)
    found = apply(grown, [TRAILER], policy(), "Maintainer")
    assert (found.outcome, found.exit_code) == (Outcome.REGRESSION, 1), why
    assert found.cells[0].outcome is Outcome.PASS
    assert len(found.regressions) == 1


def test_a_cell_that_also_grew_elsewhere_still_blocks() -> None:
    grown = verdict(ufs_a={Section.SUBMISSION: 329, Section.RETURN: 90})
    found = apply(grown, [TRAILER], policy(), "Maintainer")
    assert found.cells[0].outcome is Outcome.REGRESSION
    assert found.outcome is Outcome.REGRESSION


@pytest.mark.parametrize(
    ("who", "by", "outcome"),
    [
        ("nobody", "Maintainer", Outcome.REGRESSION),
        ("approver", None, Outcome.REGRESSION),
        ("approver", "", Outcome.REGRESSION),
        ("approver", "Maintainer", Outcome.PASS),
        ("author", None, Outcome.PASS),
    ],
)
def test_whose_word_it_takes_is_the_policys_to_say(
    who: str, by: str | None, outcome: Outcome
) -> None:
    found = apply(verdict(ufs_a={Section.SUBMISSION: 329}), [TRAILER], policy(who), by)
    assert found.outcome is outcome
    assert found.accepted is not None
    assert bool(found.accepted[0].why) == (outcome is Outcome.REGRESSION)


def test_the_policys_own_limit_holds() -> None:
    wide = "ufs-* submission +100000 anything"
    found = apply(verdict(ufs_a={Section.SUBMISSION: 3000}), [wide], policy(), "Maintainer")
    assert found.outcome is Outcome.REGRESSION
    assert found.accepted is not None
    assert "the policy allows 50.0%" in found.accepted[0].why


@pytest.mark.parametrize(
    "text",
    ["", "ufs-*", "ufs-* submission checks", "ufs-* submission +350", "ufs-* submision +350 x"],
)
def test_a_trailer_that_is_not_understood_accepts_nothing_and_says_so(text: str) -> None:
    found = apply(verdict(ufs_a={Section.SUBMISSION: 329}), [text], policy(), "Maintainer")
    assert found.outcome is Outcome.REGRESSION
    assert found.accepted is not None and found.accepted[0].why


def test_percent() -> None:
    wish = parse("ufs-* submission +6.5% checks")
    assert (wish.size, wish.share) == (0.065, True)
    grown = verdict(ufs_a={Section.SUBMISSION: 329})
    assert apply(grown, ["ufs-* submission +7% x"], policy(), "M").outcome is Outcome.PASS
    assert apply(grown, ["ufs-* submission +6% x"], policy(), "M").outcome is Outcome.REGRESSION


@pytest.mark.parametrize(
    "outcome", [Outcome.INFRASTRUCTURE, Outcome.BROKEN, Outcome.INCONCLUSIVE, Outcome.PASS]
)
def test_only_a_regression_can_be_accepted(outcome: Outcome) -> None:
    other = verdict().model_copy(update={"outcome": outcome, "exit_code": outcome.exit_code})
    assert apply(other, [TRAILER], policy(), "Maintainer").outcome is outcome


def test_partial_results_never_pass() -> None:
    grown = verdict(ufs_a={Section.SUBMISSION: 329})
    lost = CellVerdict(cell="ufs-b", outcome=Outcome.INFRASTRUCTURE, sections=[], why="no figures")
    grown = grown.model_copy(update={"cells": [*grown.cells, lost]})
    found = apply(grown, [TRAILER], policy(), "Maintainer")
    assert (found.outcome, found.exit_code) == (Outcome.INFRASTRUCTURE, 4)


def growth(figure: str, state: str, share: float) -> GrowthRecord:
    return GrowthRecord.model_validate(
        {
            "figure": figure,
            "growth": share,
            "low": share / 2,
            "high": share * 2,
            "tolerated": 0.0025,
            "unacceptable": 0.02,
            "state": state,
            "pairs": 3,
            "noise": 0.01,
            "freedom": 2,
            "ratios": [share],
        }
    )


@pytest.mark.parametrize(("other", "outcome"), [("within", "pass"), ("open", "inconclusive")])
def test_times_are_accepted_in_percent_and_what_is_open_stays_open(
    other: str, outcome: str
) -> None:
    cell = CellVerdict(
        cell="ufs-a",
        outcome=Outcome.REGRESSION,
        sections=[],
        growth=[growth("overhead", "grew", 0.03), growth("submission", other, 0.01)],
    )
    grown = verdict(ufs_a={Section.SUBMISSION: 329}).model_copy(update={"cells": [cell]})
    found = apply(grown, ["ufs-* overhead +4% checks"], policy(), "Maintainer")
    assert found.outcome == outcome
    blunt = apply(grown, ["ufs-* overhead +400 checks"], policy(), "Maintainer")
    assert blunt.outcome is Outcome.REGRESSION


def test_without_a_trailer_nothing_changes() -> None:
    grown = verdict(ufs_a={Section.SUBMISSION: 329})
    assert apply(grown, [], policy(), "Maintainer") is grown


def whole_io(delta: float) -> Comparison:
    found = section(Section.SUBMISSION, delta).model_dump(exclude={"section"})
    return Comparison.model_validate(found)


@pytest.mark.parametrize(
    ("delta", "trailers", "outcome"),
    [
        (329, [TRAILER], Outcome.PASS),
        (600, [TRAILER], Outcome.REGRESSION),
        (600, [TRAILER, "ufs-* whole +650 more"], Outcome.PASS),
    ],
)
def test_the_whole_io_may_grow_by_what_is_accepted_and_no_more(
    delta: float, trailers: list[str], outcome: Outcome
) -> None:
    grown = verdict(ufs_a={Section.SUBMISSION: 329})
    cell = grown.cells[0].model_copy(update={"whole": whole_io(delta)})
    grown = grown.model_copy(update={"cells": [cell]})
    assert apply(grown, trailers, policy(), "Maintainer").outcome is outcome


def told(mean: float) -> PairedIosRecord:
    numbers = {"pairs": 256, "exact": 0.0, "commonest": 329, "commonest_share": 0.95}
    return PairedIosRecord.model_validate(
        {**numbers, "mean": mean, "above": 256, "below": 0, "size": 12}
    )


def with_mean(whole: float | None = None, **means: float) -> VerdictRecord:
    """One cell: +329 in most I/Os, and these mean differences (the whole I/O's +329 too)."""
    grown = verdict(ufs_a={Section.SUBMISSION: 329})
    cell = grown.cells[0]
    parts = [
        s.model_copy(update={"paired": told(means.get(s.section.value, s.delta))})
        for s in cell.sections
    ]
    update: dict[str, object] = {"sections": parts}
    if whole is not None:
        update["whole"] = whole_io(329).model_copy(update={"paired": told(whole)})
    return grown.model_copy(update={"cells": [cell.model_copy(update=update)]})


def test_what_a_few_ios_pay_beside_is_not_accepted_with_what_most_do() -> None:
    """+329 in most I/Os was accepted, and +50,000 in every twentieth went along unnamed."""
    rare = with_mean(submission=329 + 50_000 / 20)
    found = apply(rare, [TRAILER], policy(at_most=2), "Maintainer")
    assert found.outcome is Outcome.REGRESSION
    assert found.accepted is not None
    assert "grew by 2829, not 350 at most" in found.accepted[0].why
    named = "ufs-* submission +2829 the table is filled anew now and then"
    assert apply(rare, [named], policy(at_most=2), "Maintainer").outcome is Outcome.PASS
    # A mean that lies within the threshold of the commonest growth is the same growth.
    near = with_mean(submission=329 + 11)
    exact = "ufs-* submission +329 checks"
    assert apply(near, [exact], policy(), "Maintainer").outcome is Outcome.PASS


def test_nor_where_no_section_shows_it() -> None:
    rare = with_mean(whole=329 + 50_000 / 20)
    assert apply(rare, [TRAILER], policy(), "Maintainer").outcome is Outcome.REGRESSION
    assert apply(with_mean(whole=335), [TRAILER], policy(), "Maintainer").outcome is Outcome.PASS


@pytest.mark.parametrize("size", ["+350", "+5%"])
def test_no_share_of_nothing_is_allowed(size: str) -> None:
    """Of a burst's I/Os `vfs_fs` is 0: its growth was 0 % of it, however large."""
    grown = verdict(ufs_a={Section.VFS_FS: 329})
    parts = [s.model_copy(update={"base": 0.0, "relative": 0.0}) for s in grown.cells[0].sections]
    cell = grown.cells[0].model_copy(update={"sections": parts})
    grown = grown.model_copy(update={"cells": [cell]})
    found = apply(grown, [f"ufs-* vfs_fs {size} checks"], policy(), "Maintainer")
    assert found.outcome is Outcome.REGRESSION
    assert found.accepted is not None and "was nothing in the base" in found.accepted[0].why


@pytest.mark.parametrize("whole", [335, 329 + 50_000 / 20])
def test_what_is_proposed_is_enough_and_no_more_than_that(whole: float) -> None:
    """By its median this whole I/O grew as its section did, and the report left it out."""
    grown = with_mean(whole=whole)
    asked = [f"{line} because" for line in proposed(grown)]
    assert [line.split()[1] for line in asked] == ["submission", "whole"][: 1 + (whole > 335)]
    approved = policy(at_most=9.0), "Maintainer"
    assert apply(grown, asked, *approved).outcome is Outcome.PASS
    assert apply(grown, asked[:-1], *approved).outcome is Outcome.REGRESSION
    assert proposed(apply(grown, asked[:1], *approved)) == proposed(grown)[1:]
