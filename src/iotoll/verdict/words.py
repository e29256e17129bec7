"""The sentences of a verdict on the clock `instructions`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from iotoll.records.models import CellVerdict, Comparison, Outcome, PoolRecord
from iotoll.records.models.verdict import ElementComparison
from iotoll.records.text import DEVICES
from iotoll.verdict.elements import element_functions, element_text
from iotoll.verdict.growth import is_of_most, moved_alone, rare

WHOLE = "whole I/O"
WORK = "work outside I/Os"
"""What stands where a section's name would."""

_BESIDE = 2
"""Elements that are shown only, of which a sentence names so many."""

_NAMES = {"whole": WHOLE, "work": WORK}


def parts(verdict: CellVerdict) -> Iterator[tuple[str, Comparison]]:
    """A cell's comparisons of instructions with their names: sections, whole I/O, other work."""
    for section in verdict.sections:
        yield section.section.value, section
    if verdict.whole is not None:
        yield "whole", verdict.whole
    if verdict.work is not None:
        yield "work", verdict.work


def moved_lines(
    verdicts: Sequence[CellVerdict], pools: Sequence[PoolRecord], how: str
) -> list[str]:
    """One line for everything gated that grew, or shrank."""
    lines = [
        f"{v.cell}: {name} {c.delta:+.0f} instructions ({_percent(c.relative)}){_share(c)}"
        for v in verdicts
        for name, c in parts(v)
        if c.moved == how and c.gated
    ]
    lines += [
        f"{v.cell}: {e.element.partition('.')[0]} {element_text(e)} for an I/O,"
        f" {e.section.value if e.section else WHOLE}{element_functions(e)}"
        for v in verdicts
        for e in v.elements
        if e.moved == how and e.gated
    ]
    return lines + [pool.sentence for pool in pools if pool.moved == how]


def rarely(moved: Sequence[Comparison]) -> str:
    """What some I/Os pay beside what most of them do: goes on behind what these say."""
    some = rare_cost(moved)
    return f", and {some}" if some else ""


def rare_cost(moved: Sequence[Comparison]) -> str:
    """``+5,008 in 12% of I/Os``, if most of these have such a cost; else nothing."""
    found = [one for one in map(rare, moved) if one]
    if 2 * len(found) <= len(moved):
        return ""
    # A middle of shares and sizes could be of two cells that have nothing in common.
    middle = sorted(found, key=lambda one: one.delta)[(len(found) - 1) // 2]
    return f"{middle.delta:+,} in {middle.share:.0%} of I/Os"


def _percent(relative: float) -> str:
    """``+6.3%``; below 0.1 % with more digits, so that no growth reads as none."""
    digits = 1 if abs(relative) >= 0.001 else 3
    return f"{relative:+.{digits}%}"


def _share(found: Comparison) -> str:
    """Which I/Os moved, where it was not most of them, or by far more than most did."""
    if found.paired is None or is_of_most(found):
        return rarely([found])
    largest = [c for c in found.paired.clusters if (c.delta > 0) == (found.moved == "grew")]
    largest = [c for c in largest if abs(c.delta) > found.paired.size]
    first = f", mostly {largest[0].delta:+d}" if largest else ""
    of = "rounds of I/Os" if found.paired.trial and found.paired.trial.of == "rounds" else "I/Os"
    return f" on average: {found.share:.0%} of {of} moved{first}"


def headline(verdicts: Sequence[CellVerdict]) -> list[str]:
    """What moved, by device and section, by the median over the cells in which it did.

    The largest number of cells first; work outside I/Os before all where it is larger than what
    any section moved by. A whole I/O only where it moved by more than its sections.
    """
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    judged: dict[tuple[str, str], int] = {}
    for verdict in verdicts:
        device = verdict.cell.partition("-")[0]
        for name, found in parts(verdict):
            if not found.gated:
                continue
            judged[device, name] = judged.get((device, name), 0) + 1
            is_told = name != "whole" or moved_alone(found, verdict.sections)
            if found.has_moved and is_told:
                groups.setdefault((device, name, found.moved), []).append(found)
    sizes = {key: abs(median(c.delta for c in moved)) for key, moved in groups.items()}
    largest = max((size for key, size in sizes.items() if key[1] not in _NAMES), default=0.0)
    # The whole I/O last: it holds what its sections hold, and something else.
    ranked = sorted(
        groups.items(),
        key=lambda g: (
            not (g[0][1] == "work" and sizes[g[0]] > largest),
            g[0][1] in _NAMES,
            -len(g[1]),
            g[0],
        ),
    )
    lines = element_lines(verdicts)
    for (device, name, _), moved in ranked:
        size = (
            f"{median(c.delta for c in moved):+.0f} ({_percent(median(c.relative for c in moved))})"
        )
        where = f"in {len(moved)} of {judged[device, name]} workloads{rarely(moved)}"
        where += _beside(verdicts, device, name) if moved[0].moved == "grew" else ""
        lines.append(f"{DEVICES.get(device, device)} {_NAMES.get(name, name)} {size} {where}")
    return lines


def _beside(verdicts: Sequence[CellVerdict], device: str, part: str) -> str:
    """What else grew in a section of a device and blocks nothing: goes on behind its line."""
    known: dict[str, ElementComparison] = {}
    for verdict in verdicts:
        for one in verdict.elements:
            mine = verdict.cell.partition("-")[0] == device and one.moved == "grew"
            if mine and not one.gated and (one.section.value if one.section else "whole") == part:
                known.setdefault(one.element, one)
    named = sorted(known.values(), key=lambda one: abs(one.delta))[:_BESIDE]
    texts = [f"{element_text(one)}{element_functions(one)}" for one in named]
    return f", with {' and '.join(texts)}" if texts else ""


def element_lines(verdicts: Sequence[CellVerdict], gated: bool = True) -> list[str]:
    """What moved besides instructions, by device, section and element; the most cells first."""
    groups: dict[tuple[str, str, str, str], list[ElementComparison]] = {}
    for verdict in verdicts:
        device = verdict.cell.partition("-")[0]
        for one in verdict.elements:
            if one.gated == gated and (gated or one.moved == "grew"):
                part = one.section.value if one.section else WHOLE
                groups.setdefault((device, part, one.element, one.moved), []).append(one)
    # What a patch adds to each request is in a section; whole I/Os have as many as requests.
    ranked = sorted(groups.items(), key=lambda g: (g[0][1] == WHOLE, -len(g[1]), g[0]))
    lines = []
    for (device, part, _, _), moved in ranked:
        cells = [v for v in verdicts if v.cell.partition("-")[0] == device]
        middle = sorted(moved, key=lambda one: one.delta)[(len(moved) - 1) // 2]
        where = f"in {len(moved)} of {len(cells)} workloads"
        text = f"{element_text(middle)} for an I/O{element_functions(middle)} {where}"
        lines.append(f"{DEVICES.get(device, device)} {part} {text}")
    return lines


def no_figures(verdicts: Sequence[CellVerdict]) -> str:
    """The sentence of a verdict that is infrastructure: which cell, and why."""
    bad = next(v for v in verdicts if v.outcome is Outcome.INFRASTRUCTURE)
    return f"{bad.cell} has no usable values: {bad.why}."


def sentence(
    outcome: Outcome,
    verdicts: Sequence[CellVerdict],
    pools: Sequence[PoolRecord],
    heads: Sequence[str],
) -> str:
    """The verdict in one sentence; ``heads`` are what `headline` returns."""
    total = len(verdicts)
    if outcome is Outcome.REGRESSION:
        grown = [line for line in heads if " +" in line]
        grown += [pool.sentence for pool in pools if pool.moved == "grew"]
        more = f" (and {len(grown) - 2} more)" if len(grown) > 2 else ""
        return f"The candidate is more expensive: {'; '.join(grown[:2])}{more}."
    if outcome is Outcome.INFRASTRUCTURE:
        return no_figures(verdicts)
    if outcome is Outcome.INCONCLUSIVE:
        bad = next(v for v in verdicts if v.outcome is outcome)
        return f"{bad.cell} cannot be judged: {bad.why}."
    shrunk = [line for line in heads if " -" in line]
    note = f"; cheaper: {'; '.join(shrunk[:2])}" if shrunk else ""
    shown = element_lines(verdicts, gated=False)
    note += f"; shown only: {'; '.join(shown[:_BESIDE])}" if shown else ""
    return f"No section of {total} cells grew past its threshold{note}."
