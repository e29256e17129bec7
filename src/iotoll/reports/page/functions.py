"""Which functions a verdict's changes are in, and what ran of the patch: of ``explain.json``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from iotoll.patch.diff import Hunk
from iotoll.records.models import ExplainRecord, FunctionDelta, Outcome, PartDelta
from iotoll.records.text import cell_name, plural, signed
from iotoll.reports.page.blame import function_of
from iotoll.reports.page.moved import MovementGroup
from iotoll.verdict.words import WHOLE

_NAMED = 5
"""Changed functions that a pass names."""

_MOST = 0.5
"""Share of a function's difference from which an inlined function is named beside it."""


def in_functions(record: ExplainRecord, groups: Sequence[MovementGroup], unit: str) -> list[str]:
    """One line for each group of changes that was dissected: its first function."""
    if record.failure is not None:
        return [f"not explained: {record.failure}"]
    lines = [line for group in groups if (line := _line(record, group, unit))]
    devices = dict.fromkeys(cell_name(cell.cell).device_label for cell in record.cells)
    return lines + [line for device in devices if (line := _whole(record, device, unit))]


def _whole(record: ExplainRecord, device: str, unit: str) -> str | None:
    """The line of a device's whole I/Os, where the sections do not account for their growth."""
    mine = [c for c in record.cells if cell_name(c.cell).device_label == device]
    found = [cell.whole for cell in mine if cell.whole is not None and cell.whole.functions]
    if not found:
        return None
    text = _mostly(found, f"{device} {WHOLE}", unit)
    return f"{text} ({plural(len(found), 'workload')} dissected, other tasks included)"


def _line(record: ExplainRecord, group: MovementGroup, unit: str) -> str | None:
    moved = {move.name.full for move in group.moves}
    sections = [
        section
        for cell in record.cells
        if cell.cell in moved
        for section in cell.sections
        if section.section is group.section and section.functions
    ]
    if not sections:
        return None
    text = _mostly(sections, f"{group.device} {group.title}", unit)
    return f"{text} ({plural(len(sections), 'workload')} of {len(group.moves)} dissected)"


def _mostly(sections: Sequence[PartDelta], where: str, unit: str) -> str:
    """The function that most often comes first, the next one, and what is not explained."""
    first = Counter(section.functions[0].name for section in sections).most_common(1)[0][0]
    found = [s.functions[0] for s in sections if s.functions[0].name == first]
    name = f"mostly {first}" if _is_largest(sections, first) else f"{first} (changed)"
    text = f"{where}: {name}, {_size(found, unit)}{_place(found[0])}"
    others = list(_others(sections, first, unit))
    text += f"; then {others[0]}" if others else ""
    left = [s.unexplained for s in sections if s.unexplained is not None]
    return f"{text}; {signed(median(left))} not explained" if left else text


def _is_largest(sections: Sequence[PartDelta], first: str) -> bool:
    """Whether no other function differs more in most of the workloads: changed ones come first."""
    largest = [max(s.functions, key=lambda f: (abs(f.effect), f.name == first)) for s in sections]
    return 2 * sum(function.name == first for function in largest) > len(sections)


def _others(sections: Sequence[PartDelta], first: str, unit: str) -> Iterator[str]:
    """The next functions, those that most of the workloads have: changed ones, then by size."""
    seen: dict[str, list[FunctionDelta]] = {}
    for section in sections:
        for function in section.functions:
            if function.name != first and (function.changed or abs(function.effect) >= 1):
                seen.setdefault(function.name, []).append(function)
    common = [found for found in seen.values() if 2 * len(found) > len(sections)]
    for found in sorted(common, key=lambda f: (not f[0].changed, -abs(_effect(f)))):
        yield f"{found[0].name}, {_size(found, unit)}{_place(found[0])}"


def _effect(found: Sequence[FunctionDelta]) -> float:
    return median(function.effect for function in found)


def _size(found: Sequence[FunctionDelta], unit: str) -> str:
    """One function's size in several workloads; the mean where most I/Os have no difference."""
    if effect := _effect(found):
        return f"{signed(effect)} {unit}"
    return f"{signed(median(function.mean for function in found))} {unit} on average"


def _place(function: FunctionDelta) -> str:
    """Where a function begins, and the inlined function that has most of its difference."""
    text = f", {function.file}:{function.line}" if function.file else ""
    for inlined in function.inlined:
        if function.effect and inlined.effect / function.effect >= _MOST:
            place = f"{inlined.file}:{inlined.line}"
            return f"{text} (of it {inlined.name}, inlined: {signed(inlined.effect)}, {place})"
    return text


def coverage_of(
    record: ExplainRecord, outcome: Outcome | None, outside: Mapping[str, float] | None = None
) -> list[str]:
    """What ran of the changed code; a pass on code that never ran is said to be none.

    ``outside`` are changed functions that ran outside I/Os alone: instructions per I/O, at most.
    """
    coverage = record.coverage
    if record.failure is not None or not coverage.sentence:
        return []
    lines = [coverage.sentence]
    if outside:
        named = sorted(outside, key=lambda name: (-outside[name], name))
        words = [f"{name} ({signed(outside[name])} instructions per I/O)" for name in named]
        lines.append(f"Outside I/Os alone ran {', '.join(words)}.")
    idle = coverage.functions and not any(f.executed for f in coverage.functions)
    if idle and not outside and outcome is Outcome.PASS:
        lines.insert(0, "This pass says nothing about the patch: its code never ran.")
    return lines


def not_looked_at(hunks: Sequence[Hunk]) -> list[str]:
    """What a pass that nobody explained says of the change: where it is, not that it ran."""
    named = dict.fromkeys((function_of(hunk.heading), hunk.path) for hunk in hunks)
    files: dict[str, list[str]] = {}
    for name, path in list(named)[:_NAMED]:
        files.setdefault(path, []).extend([f"{name}()"] if name else [])
    words = [f"{', '.join(names)} in {path}" if names else path for path, names in files.items()]
    if not words:
        return []
    more = f" and {plural(len(named) - _NAMED, 'more place')}" if len(named) > _NAMED else ""
    return [f"not looked at: whether these cells run {'; '.join(words)}{more}"]
