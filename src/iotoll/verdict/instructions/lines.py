"""The rule's ten lines with the numbers of one part of a cell filled in (docs/method.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from iotoll.boards.cells import parse_cell
from iotoll.core.errors import UsageError
from iotoll.records.models import CellRecord, PairedIosRecord, Section, SideResult
from iotoll.records.models.verdict import WorkFunction
from iotoll.verdict.elements import differing, in_place, why_shown
from iotoll.verdict.instructions import pairing
from iotoll.verdict.instructions.decide import Asked, Trial, find, nearest, trials
from iotoll.verdict.instructions.evidence import Evidence, share_of
from iotoll.verdict.instructions.pairing import PairedIos
from iotoll.verdict.instructions.record import distribution, size_of, way_of
from iotoll.verdict.instructions.rule import (
    affected,
    affected_count,
    asked,
    fitting,
    incomparable,
    per_io,
)
from iotoll.verdict.policy import CountRule, Policy


@dataclass(frozen=True)
class Lines:
    """What the rule says of one part of a cell: a title, ten lines, and every size it asked.

    ``affected`` is the same of functions that the candidate affects, where these have another
    threshold.
    """

    title: str
    lines: list[str]
    sizes: list[list[str]]
    affected: Lines | None = None


SIZES = ("Of", "Above", "Grew", "Shrank", "Share", "Own", "Chance", "Mean", "Lacks")
"""The heads of `Lines.sizes`."""

_NUMBERS = {"share": 4, "own": 5, "chance": 6, "mean": 7, "boots": 8}
"""The line of the rule that says this."""


def ten_lines(
    base: SideResult,
    candidate: SideResult,
    policy: Policy,
    cell: str,
    section: Section | None,
    element: str = "",
) -> Lines:
    """The ten lines of a section of a cell, or of the whole I/O (None), from both sides' figures.

    They are of instructions, or of an element (`iotoll.verdict.elements`) by its key. Raises
    UsageError where a side has no values of the cell, or neither has the section or the element.
    """
    policy = fitting(base, candidate, policy)
    sides = base.cells.get(cell, []), candidate.cells.get(cell, [])
    bad = next((one.invalid for side in sides for one in side if one.invalid), None)
    if bad or not all(sides):
        raise UsageError(f"{cell}: there is nothing to compare: {bad or 'no values of one side'}")
    depth = parse_cell(cell).depth
    if element:
        _check_element(element, cell, sides)
        sides = tuple([in_place(one, element, section) for one in side] for side in sides)  # type: ignore[assignment]
    paired = pairing.pair(*sides, [section], depth, policy.moved)[section]
    name = section.value if section else "whole I/O"
    if not paired.ios:
        raise UsageError(f"{cell}: no I/O of either kernel has the section {name}")
    rule = policy.element(element) if element else policy.rule(cell, section)
    count = per_io(rule, sides[0])
    at_once = None
    if element and depth > 1:
        records = base.cells[cell], candidate.cells[cell]
        at_once = differing(element, *records, candidate.changed or ())
    evidence = _Told(Evidence.of(base, candidate, policy.perturb, cell), section, element, at_once)
    found = _lines(paired, sides, count, policy, f"{cell}: {name}", evidence)
    of_some = {} if element else affected(cell, *sides, {section: count}, policy)
    for one in of_some.values():
        title = f"{cell}: {name}, of functions that the candidate affects"
        more = _lines(one, sides, affected_count(count), policy, title, evidence)
        found = replace(found, affected=more)
    return found


def _lines(
    paired: PairedIos,
    sides: tuple[Sequence[CellRecord], Sequence[CellRecord]],
    count: CountRule,
    policy: Policy,
    title: str,
    evidence: _Told,
) -> Lines:
    wanted = asked(policy, count, paired.boots)
    moved = find(paired, wanted)
    shown = nearest(paired, wanted)
    first = _pairs(paired, sides, policy)
    why = incomparable(paired, policy)
    if why or shown is None or paired.ios < policy.min_ios * max(paired.boots, 1):
        rest = _undecided(why, paired, policy)
    else:
        rest = [
            *_decided(paired, wanted, shown),
            _so(paired, wanted, moved),
            _last(paired, wanted, moved, policy, evidence),
        ]
    return Lines(
        f"{title}, in {count.unit} an I/O; {_boots(paired.boots)} of each kernel",
        [*first, *rest],
        [_size(one, wanted) for one in trials(paired, wanted)],
    )


def _check_element(
    element: str, cell: str, sides: tuple[Sequence[CellRecord], Sequence[CellRecord]]
) -> None:
    records = [record for side in sides for record in side]
    if any(record.vector is None for record in records):
        raise UsageError(f"{cell}: a boot counted instructions alone: gate again on an exact board")
    known = sorted({key for record in records for key in record.vector or ()})
    if element not in known:
        raise UsageError(f"{cell}: no I/O has {element}: it has {', '.join(known) or 'none'}")


def _boots(count: int) -> str:
    return f"{count} boot{'' if count == 1 else 's'}"


def _pairs(
    paired: PairedIos, sides: tuple[Sequence[CellRecord], Sequence[CellRecord]], policy: Policy
) -> list[str]:
    own = policy.moved.own
    return [
        f"Pairs: {len(paired.differences)} of {paired.ios} I/Os are compared with theirs of the"
        f" base; the base has {_boots(len(sides[0]))}.",
        f"Comparable: {paired.unpaired} without a pair, at most"
        f" {_most(paired.ios, policy.unpaired, own * paired.own_unpaired)};"
        f" {paired.foreign} that end at another event, at most"
        f" {_most(paired.ios, policy.marks, own * paired.own_foreign)}.",
    ]


def _most(ios: int, allowed: float, own: float) -> str:
    return f"{int(max(allowed, own) * ios + 1)} ({max(allowed, own):.1%} and one)"


def _undecided(why: str, paired: PairedIos, policy: Policy) -> list[str]:
    """The other lines where nothing can be compared, or nothing differs past the threshold."""
    if why:
        return [f"So it is not decided: {why}."]
    if paired.ios < policy.min_ios * max(paired.boots, 1):
        return [f"So it is not decided: fewer than {policy.min_ios} I/Os a boot."]
    return ["Size: as many I/Os grew as shrank by more than each size, or none: it did not move."]


def _decided(paired: PairedIos, wanted: Asked, shown: Trial) -> list[str]:
    """Lines 3 to 8."""
    rule, count = wanted.rule, wanted.count
    units = "rounds, by the means of their I/Os," if shown.rounds else "I/Os"
    way = "grew" if shown.grew else "shrank"
    lacks = wanted.lacks(shown)
    least_mean = wanted.least(shown)
    holds = _holds(lacks)
    return [
        f"Size: {shown.above} of {shown.total} {units} grew by more than {shown.size} and"
        f" {shown.below} shrank by more.",
        f"Share: net {shown.share:.2%} {way}; at least {wanted.share:.2%}: {holds('share')}.",
        f"Own noise: two boots of the base differ so in net {shown.own:.2%}, {rule.own:g} times"
        f" that is {rule.own * shown.own:.2%}: {holds('own')}."
        if paired.own
        else f"Own noise: the base has one boot, which shows none: {holds('own')}.",
        f"Chance: {shown.agree} of {shown.moved} rounds that moved did so together; a fair coin"
        f" does with {shown.chance:.2g}, at most {rule.chance:g}{_every(shown, wanted)}:"
        f" {holds('chance')}.",
        f"Mean: {shown.share:.2%} times {shown.typical:,.1f} (the median of what {way}) is"
        f" {shown.cost:,.2f} {count.unit}; at least {least_mean:,g}: {holds('mean')}.",
        f"Boots: {', '.join(f'{share:.2%}' for share in shown.boots)}; each at least"
        f" {rule.boot:g} times the share, {rule.boot * shown.share:.2%}: {holds('boots')}.",
    ]


def _every(shown: Trial, wanted: Asked) -> str:
    """What is enough where there are fewer boots than asked for."""
    return f", or all {shown.possible} rounds of so few boots" if wanted.few else ""


def _holds(lacks: str) -> Callable[[str], str]:
    """Says of a line that it holds, that it does not, or that nothing depends on it any more."""

    def word(line: str) -> str:
        if not lacks or _NUMBERS[line] < _NUMBERS[lacks]:
            return "yes"
        return "no" if line == lacks else "not asked any more"

    return word


def _so(paired: PairedIos, wanted: Asked, moved: Trial | None) -> str:
    if moved is None:
        return "So it did not move: at each size one line does not hold, above the nearest one."
    base, delta = size_of(paired, moved, wanted.count)
    most = 2 * max(moved.above, moved.below) > moved.total and not moved.rounds
    how = "the median of all I/Os, most of which moved" if most else "its mean"
    way = "grew" if moved.grew else "shrank"
    size = f"{delta:+,.1f}" if abs(delta) >= 0.1 else f"{delta:+g}"
    return f"So it {way}: {size} {wanted.count.unit} on {base:,.1f}, {how}."


def _last(
    paired: PairedIos, wanted: Asked, moved: Trial | None, policy: Policy, evidence: _Told
) -> str:
    if moved is None:
        return "It blocks nothing."
    why = evidence.why_shown(moved.grew) if wanted.count.gated else wanted.count.why
    if why or not wanted.count.gated:
        return f"The policy does not gate it: {why}."
    so = "Growth of it is a regression" if moved.grew else "What shrank is a pass"
    if paired.boots >= policy.perturb.boots:
        return f"{so}."
    is_evident, said = evidence.tell(distribution(paired, moved, wanted), way_of(moved))
    if is_evident:
        return f"{so} by the first boot: {said}."
    return (
        f"It asks for further boots, {policy.perturb.boots} of each kernel in all, which must"
        f" show it as well: {said}."
    )


@dataclass(frozen=True)
class _Told:
    """Function evidence of one part of a cell.

    ``at_once``: the functions that differ in the element, where I/Os are in flight at once.
    """

    evidence: Evidence
    section: Section | None
    element: str
    at_once: Sequence[WorkFunction] | None = None

    def why_shown(self, grew: bool) -> str:
        """Why what moved so blocks nothing; empty where it may."""
        return "" if self.at_once is None else why_shown(self.at_once, self.section, grew)

    def tell(self, paired: PairedIosRecord, way: int) -> tuple[bool, str]:
        """Whether it is enough, and its numbers."""
        rule, theirs = self.evidence.rule, self.evidence.growth(self.element)
        moved = self.evidence.moved(paired, self.section)
        said = (
            f"net {share_of(paired, way):.0%} of the I/Os, at least {rule.ios:.0%}, and changed"
            f" functions have {theirs:+,} of {moved:+,.0f} in the cell of a boot, at least"
            f" {rule.changed:.0%}"
        )
        return self.evidence.has(paired, way, self.section, self.element), said


def _size(one: Trial, wanted: Asked) -> list[str]:
    """One row of the table of all sizes."""
    lacks = wanted.lacks(one)
    return [
        "rounds" if one.rounds else "I/Os",
        str(one.size),
        str(one.above),
        str(one.below),
        f"{one.share:.2%}",
        f"{one.own:.2%}",
        f"{one.chance:.2g}",
        f"{one.cost:,.2f}",
        f"line {_NUMBERS[lacks]}" if lacks else "nothing",
    ]
