"""What moved as findings, each in one sentence: the one maker of sentences that have sizes.

A verdict has the findings as its figures alone tell them. Reports add what they know besides, such
as functions with their places and what the recorder costs, and ask for the sentence again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from statistics import median

from iotoll.measure.elements import load_elements
from iotoll.records.models import (
    CellVerdict,
    Finding,
    FoundFunction,
    OtherClock,
    Outcome,
    PoolRecord,
    Section,
    TimeShare,
    Unit,
)
from iotoll.records.models.base import REQUEST_SECTIONS
from iotoll.records.models.finding import Kind
from iotoll.records.models.verdict import ElementComparison
from iotoll.records.text import (
    DEVICES,
    MINUS,
    NBSP,
    WHOLE_PERCENT,
    clean,
    number,
    plural,
    signed,
    signed_percent,
)
from iotoll.verdict.amount import rounded
from iotoll.verdict.elements import how_counted
from iotoll.verdict.growth import is_of_most, rare, weight
from iotoll.verdict.moved import KINDS, Movement, MovementGroup, kind_of, movements

NOTHING = 0.05
"""Smaller sizes would be written as zero."""
_NARROW = 0.1
"""Sizes of all cells within so much of the middle one are told as a range."""
_ENOUGH = 0.9
"""Functions are named until they have so much of a finding."""
_NAMED = 3
_SHOWN = 3
"""Costs that are shown only, of which the verdict's sentence names so many."""
_LEAST = 0.05
"""Functions that have a smaller share of a finding are not named in its sentence."""
_COUNTS = tuple(unit.value for unit in Unit)
_NAMES = {"whole": "the whole I/O", "work": "all that ran"}
_TIMED = {"whole": "overhead"}
"""What a native board has of a part, where it is not the section itself."""
_Cost = tuple[str, ElementComparison]


def of_cells(
    cells: Sequence[CellVerdict], unit: str = Unit.INSTRUCTIONS.value, can_gate: bool = True
) -> list[Finding]:
    """What the figures of these cells show: other costs, then ``unit`` by size, `in_order`."""
    found = of_elements(cells, can_gate)
    return in_order([*found, *(of_group(group, unit) for group in movements(cells, can_gate))])


def in_order(found: Sequence[Finding]) -> list[Finding]:
    """By kind: first what has no size, such as limits; causes stand before their consequences.

    What less than half as many cells have as another finding of the kind on this device stands
    behind the rest: requests that take longer are completed together, or are not. Other costs come
    before counts, and of these what a changed function has or calls comes before what is elsewhere.
    """
    widest: dict[tuple[Kind, str], int] = {}
    for one in found:
        key = (one.kind, one.device)
        widest[key] = max(widest.get(key, 0), len(one.cells))

    def place(one: Finding) -> tuple[int, bool, bool, int]:
        is_of_few = 0 < 2 * len(one.cells) < widest[one.kind, one.device]
        is_changed = any(function.changed for function in one.functions)
        rank = 2 if is_count(one) else 1 - is_changed
        return KINDS.index(one.kind), one.size is not None, is_of_few, rank

    return sorted(found, key=place)


def lines_of(cells: Sequence[CellVerdict], pools: Iterable[PoolRecord] = ()) -> list[str]:
    """The sentences of all that the gate acts on, in plain characters; what grew comes first."""
    found = [one for one in of_cells(cells) if one.kind != "ungated"]
    found += [of_pool(pool, 0) for pool in pools]
    found.sort(key=lambda one: KINDS.index(one.kind))
    return [one.sentence.replace(MINUS, "-") for one in found]


def sentence_of(outcome: Outcome, cells: Sequence[CellVerdict], pools: Sequence[PoolRecord]) -> str:
    """The verdict in one sentence: of a regression all that grew."""
    if outcome is Outcome.REGRESSION:
        grown = [one for one in of_cells(cells) if one.kind == "regression"]
        grown += [of_pool(pool, 0) for pool in pools if pool.moved == "grew"]
        words = "; ".join(one.sentence.replace(MINUS, "-") for one in grown)
        return f"The candidate is more expensive: {words}.{also(cells)}"
    if outcome is Outcome.INFRASTRUCTURE:
        return no_figures(cells)
    if outcome is Outcome.INCONCLUSIVE:
        bad = next(v for v in cells if v.outcome is outcome)
        return f"{bad.cell} cannot be judged: {bad.why}."
    grew = f"No section of {plural(len(cells), 'cell')} grew past its threshold."
    return f"{grew.replace(NBSP, ' ')}{also(cells)}"


def also(cells: Sequence[CellVerdict]) -> str:
    """What grew besides instructions and blocks nothing, as a sentence of its own; or nothing."""
    found = [one for one in of_elements(cells) if one.kind == "ungated" and (one.size or 0) > 0]
    order = list(load_elements().elements)
    found.sort(key=lambda one: (one.part == "whole", -len(one.cells), _place(order, one.element)))
    named = "; ".join(one.sentence.replace(MINUS, "-") for one in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f" Also {named}{more}." if found else ""


def _place(order: Sequence[str], element: str) -> int:
    """Where an element is in a list of their names; behind all where it is of an older run."""
    name = element.partition(".")[0]
    return order.index(name) if name in order else len(order)


def no_figures(verdicts: Sequence[CellVerdict]) -> str:
    """The sentence of a verdict that is infrastructure: which cell, and why."""
    bad = next(v for v in verdicts if v.outcome is Outcome.INFRASTRUCTURE)
    return f"{bad.cell} has no usable values: {bad.why}."


def of_group(group: MovementGroup, unit: str) -> Finding:
    """What one section of a device moved by, or its whole I/Os, or its work outside of these."""
    each = [weight(move.comparison) for move in group.moves]
    ends = sorted(each, key=abs)
    return told(
        Finding(
            kind=group.kind,
            element=unit,
            device=group.device,
            part=group.name,
            size=round(median(each), 1),
            least=round(ends[0], 1),
            most=round(ends[-1], 1),
            per=per(group.device, group.section),
            some=_some(group.moves),
            cells=[move.name.full for move in group.moves],
            judged=group.cells_of_device,
            sentence="",
        )
    )


def of_elements(cells: Sequence[CellVerdict], can_gate: bool = True) -> list[Finding]:
    """Other costs than instructions that moved, by device, part and element.

    Of a whole I/O only what no section of it shows, of its kind: it has as much of it as it has
    requests. What blocks is told, also where a section has less than blocks.
    """
    groups: dict[tuple[str, Section | None, str, str, Kind], list[_Cost]] = {}
    totals: dict[str, int] = {}
    for cell in cells:
        device = cell.cell.partition("-")[0]
        totals[device] = totals.get(device, 0) + 1
        kinds = [(one, kind_of(cell, one, can_gate)) for one in cell.elements]
        known = {(one.element, kind) for one, kind in kinds if one.section is not None}
        for one, kind in kinds:
            if one.section is not None or (one.element, kind) not in known:
                key = (device, one.section, one.element, one.moved, kind)
                groups.setdefault(key, []).append((cell.cell, one))
    made = [_element(key, costs, totals[key[0]]) for key, costs in groups.items()]
    # What a patch adds to each request is in a section; whole I/Os have as many as requests.
    return sorted(made, key=lambda one: (one.part == "whole", -len(one.cells)))


def of_pool(pool: PoolRecord, judged: int) -> Finding:
    """What several cells show together, and none alone; ``judged`` cells are of its device."""
    device = DEVICES.get(pool.device, pool.device)
    return Finding(
        kind="regression" if pool.moved == "grew" else "improvement",
        element=Unit.INSTRUCTIONS.value,
        device=device,
        part=pool.section.value if pool.section else "whole",
        size=pool.paired.mean,
        least=pool.paired.mean,
        most=pool.paired.mean,
        per=per(device, pool.section),
        cells=[],
        judged=judged,
        sentence=clean(pool.sentence).rstrip("."),
    )


def per(device: str, section: Section | None) -> str:
    """What a cost is of: ``UFS request`` or ``UFS I/O``."""
    return f"{device} {'request' if section in REQUEST_SECTIONS else 'I/O'}"


def with_time(found: Finding, other: OtherClock | None) -> Finding:
    """A finding of instructions with what its part takes more on the native board, if known."""
    share = _time_of(found.part, other)
    if share is None or found.element != Unit.INSTRUCTIONS.value:
        return found
    more = found.kind in ("regression", "accepted", "undecided")
    named = "instructions grew, time did not" if more and share.moved in ("same", "shrank") else ""
    return found.model_copy(update={"time": share, "named": named})


def of_native(cells: Sequence[CellVerdict], other: OtherClock | None) -> list[Finding]:
    """What took longer on the native board where no count of instructions grew.

    That it grew is what the native board's own rule is sure of, not the interval alone.
    """
    if other is None:
        return []
    grown = {_TIMED.get(g.name, g.name) for g in movements(cells) if g.grew}
    made = []
    for share in other.times:
        cell = next((text for text in other.regressions if f": {share.part} " in text), None)
        if cell is None or grown.intersection((share.part, "overhead")) or share.moved != "grew":
            continue
        named = "time grew, instructions did not"
        made.append(
            Finding(
                kind="ungated",
                element=Unit.NANOSECONDS.value,
                device=other.board,
                part=share.part,
                share=share.growth,
                time=share,
                named=named,
                cells=[],
                judged=0,
                sentence=clean(f"{named}: {_time_words(share)}, shown only"),
            )
        )
    return made


def of_times(cells: Sequence[CellVerdict], other: OtherClock) -> str:
    """What a native board says of a verdict, in one sentence."""
    if not other.times:
        lacks = f": its kernel has nothing of {', '.join(other.missing)}" if other.missing else ""
        return f"How much time it is was not measured on {other.board}{lacks}."
    pairs = max(share.pairs for share in other.times)
    grown = dict.fromkeys(_TIMED.get(g.name, g.name) for g in movements(cells) if g.grew)
    native = (one for name in grown if (one := _time_of(name, other)) is not None)
    told = list(native) or [share for share in other.times if share.moved == "grew"]
    if told:
        words = "; ".join(_time_words(share, "") for share in told)
    elif unknown := [share.part for share in other.times if share.moved == "unknown"]:
        words = f"the noise hides whether {', '.join(unknown)} moved"
    else:
        words = "no section takes longer"
    where = (
        f" (changed, and not in its kernel: {', '.join(other.missing)})" if other.missing else ""
    )
    return f"On {other.board}, {pairs} pairs of boots on this machine's CPU: {words}{where}."


def _time_of(part: str, other: OtherClock | None) -> TimeShare | None:
    name = _TIMED.get(part, part)
    return next((share for share in other.times if share.part == name), None) if other else None


def _time_words(share: TimeShare, where: str = " on this CPU") -> str:
    """``+1.4 % (0.9 to 1.9 %) of submission on this CPU``."""
    digits = 0 if abs(share.growth) >= WHOLE_PERCENT else 1
    ends = f"{100 * share.low:.{digits}f} to {100 * share.high:.{digits}f} %".replace("-", MINUS)
    amount = f"{signed_percent(share.growth)} ({ends}) of {share.part}{where}"
    if share.moved == "same":
        return f"no time that shows: {amount}"
    return f"too noisy to tell: {amount}" if share.moved == "unknown" else amount


def is_count(found: Finding) -> bool:
    """Whether it is of instructions or nanoseconds; else of another cost, which is whole."""
    return found.element in _COUNTS


def _element(
    key: tuple[str, Section | None, str, str, Kind], costs: list[_Cost], judged: int
) -> Finding:
    name, section, element, moved, kind = key
    device, how = DEVICES.get(name, name), how_counted(element)
    ordered = sorted((one.delta for _, one in costs), key=abs)
    # One cell's size: a middle of two would be half a register read.
    size = ordered[(len(ordered) - 1) // 2]
    return told(
        Finding(
            kind=kind,
            element=element,
            device=device,
            part=section.value if section else "whole",
            size=rounded(size, 2),
            least=rounded(ordered[0], 2),
            most=rounded(ordered[-1], 2),
            per=per(device, section),
            functions=_functions(costs, moved == "grew"),
            counted=how if costs[0][1].confidence.startswith(how) else "",
            cells=[cell for cell, _ in costs],
            judged=judged,
            sentence="",
        )
    )


def _functions(costs: Sequence[_Cost], grew: bool) -> list[FoundFunction]:
    sizes: dict[str, list[float]] = {}
    for _, one in costs:
        for function in one.functions:
            sizes.setdefault(function.name, []).append(function.candidate - function.base)
    changed = {f.name for _, one in costs for f in one.functions if f.changed}
    functions = [
        FoundFunction(name=name, delta=round(median(several), 2), changed=name in changed)
        for name, several in sizes.items()
        if median(several) * (1 if grew else -1) >= NOTHING
    ]
    return sorted(functions, key=lambda one: (not one.changed, -abs(one.delta), one.name))


def _some(moves: Sequence[Movement]) -> str:
    """Which I/Os pay it, where these are not nearly all: with what most of them have."""
    beside = [(move.comparison.delta, some) for move in moves if (some := rare(move.comparison))]
    if 2 * len(beside) > len(moves):
        most, some = sorted(beside, key=lambda one: one[1].delta)[(len(beside) - 1) // 2]
        return f"{signed(most)} in most I/Os, {signed(some.delta)} in {some.share:.0%} of them"
    more = [c.delta for c in (m.comparison for m in moves) if weight(c) > c.delta + c.threshold]
    if 2 * len(more) > len(moves):
        return f"{signed(median(more))} in most I/Os"
    few = [move.comparison for move in moves if not is_of_most(move.comparison)]
    if 2 * len(few) <= len(moves):
        return ""
    return f"{median(one.share for one in few):.0%} of the I/Os moved"


def told(found: Finding) -> Finding:
    """The finding with its sentence.

    ``+330 instructions per UFS request (+14 % of submission), 327 of them in f (a.c:9), ...``, and
    at its end what a native board says: ``+1.4 % (0.9 to 1.9 %) of submission on this CPU``.
    """
    if is_count(found):
        amount, functions = _counted(found), _named(found)
    else:
        cost = load_elements().text(found.element, found.size or 0)
        amount = f"{cost} per {found.per}{_inside(found)}"
        functions = [f"in {one.name}{_at(one)}" for one in found.functions[:1]]
    parts = [amount, *functions, _where(found)]
    if found.counted:
        parts.append(found.counted)
    if found.kind == "ungated":
        parts.append("shown only")
    if found.time is not None:
        named = f"{found.named}: " if found.named else ""
        parts.append(f"{named}{_time_words(found.time)}")
    # Plain spaces: the sentence is looked for, and copied.
    return found.model_copy(update={"sentence": clean(", ".join(parts)).replace(NBSP, " ")})


def _counted(found: Finding) -> str:
    amount, spread = _amount(found)
    notes = [_share(found), found.some, spread, _told_requests(found)]
    notes = [note for note in notes if note]
    of_work = " of work outside I/Os" if found.part == "work" else ""
    average = " on average" if found.some else ""
    inside = "" if found.share is not None or of_work else _inside(found)
    words = f"{amount} {found.element}{of_work} per {found.per}{average}{inside}"
    return f"{words} ({'; '.join(notes)})" if notes else words


def _inside(found: Finding) -> str:
    return f" in {_NAMES.get(found.part, found.part)}"


def _amount(found: Finding) -> tuple[str, str]:
    """The size, and between which sizes of the cells it is, where these are far apart."""
    assert found.size is not None and found.least is not None and found.most is not None
    ends = [signed(found.least), signed(found.most)]
    if ends[0] == ends[1]:
        return ends[0], ""
    if abs(found.most - found.least) <= _NARROW * abs(found.size):
        return " to ".join(ends), ""
    return signed(found.size), f"{' to '.join(ends)} by workload"


def _share(found: Finding) -> str:
    if found.share is None:
        return ""
    traced = "" if found.is_net else ", recorder included"
    return f"{signed_percent(found.share)} of {_NAMES.get(found.part, found.part)}{traced}"


def _told_requests(found: Finding) -> str:
    if not found.requests:
        return ""
    if found.each is not None:
        return f"{plural(found.requests[0], 'request')} of {signed(found.each)} each"
    least, most = found.requests[0], found.requests[-1]
    return f"{plural(most, 'request')} per I/O" if least == most else f"{least} to {most} requests"


def _named(found: Finding) -> list[str]:
    """The functions that have nearly all of it, three at most."""
    assert found.size is not None
    once = _once(found.functions)
    shown = [one for one in once if abs(one.delta) >= _LEAST * abs(found.size)][:_NAMED]
    mixed = any(one.delta * found.size < 0 for one in shown)
    mixed |= any(abs(one.delta) > 1.02 * abs(found.most or 0) for one in shown)
    named: list[str] = []
    done = 0.0
    for one in shown:
        if not mixed and done >= _ENOUGH * abs(found.size):
            break
        size = signed(one.delta) if mixed else number(abs(one.delta))
        of = "" if mixed or named else " of them"
        named.append(f"{size}{of} in {one.name}{_at(one)}")
        done += abs(one.delta)
    return named


def _once(functions: Sequence[FoundFunction]) -> list[FoundFunction]:
    """A function that was inlined into several is one, with the sum of its sizes."""
    found: dict[tuple[str, str | None, int | None], FoundFunction] = {}
    for one in functions:
        key = (one.name, one.file, one.line)
        total = one.delta + (found[key].delta if key in found else 0)
        found[key] = found.get(key, one).model_copy(update={"delta": total})
    return list(found.values())


def _at(one: FoundFunction) -> str:
    return f" ({PurePosixPath(one.file).name}:{one.line})" if one.file else ""


def _where(found: Finding) -> str:
    count = len(found.cells)
    if found.judged == 1:
        return f"in {found.cells[0]}"
    if count == found.judged:
        return "in both workloads" if count == 2 else f"in all {plural(count, 'workload')}"
    one = f" ({found.cells[0]})" if count == 1 else ""
    return f"in {count} of {plural(found.judged, 'workload')}{one}"
