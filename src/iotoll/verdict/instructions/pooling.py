"""A cost too rare for one cell: the paired I/Os of several cells of a device, tested together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotoll.boards.cells import parse_cell
from iotoll.records.models import CellVerdict, PoolRecord, Section
from iotoll.records.text import DEVICES
from iotoll.verdict.instructions.decide import Asked, find
from iotoll.verdict.instructions.pairing import PairedIos, joined
from iotoll.verdict.instructions.record import distribution
from iotoll.verdict.policy import CountRule, Policy
from iotoll.verdict.words import WHOLE

Paired = Mapping[Section | None, PairedIos]


def pools(
    paired: Mapping[str, Paired], verdicts: Sequence[CellVerdict], policy: Policy
) -> list[PoolRecord]:
    """What moved over a device's cells together, or those of one number of threads: by the rule.

    A section that moved in a cell by itself is left out of its pools: it is known already. So is
    one for which the policy has an exception in that cell.
    """
    known: set[tuple[str, Section | None]] = {
        (v.cell, part.section)
        for v in verdicts
        for part in v.sections
        if part.moved != "same" or not part.gated
    }
    known |= {
        (v.cell, None)
        for v in verdicts
        if v.whole and (v.whole.moved != "same" or not v.whole.gated)
    }
    found = []
    cells = {name: parse_cell(name) for name in paired}
    devices = sorted({cell.device for cell in cells.values()})
    for device in devices:
        threads = sorted({c.threads for c in cells.values() if c.device == device})
        for part in (*policy.sections, None):
            # All cells first: what they show together needs no second line.
            for count in (None, *(threads if len(threads) > 1 else ())):
                names = [
                    name
                    for name, cell in cells.items()
                    if cell.device == device
                    and count in (None, cell.threads)
                    and (name, part) not in known
                    and policy.rule(name, part) == _usual(policy, part)
                    and len(paired[name][part].differences)
                ]
                rule = _largest(_usual(policy, part), verdicts, names)
                record = _pool(
                    device, count, part, {n: paired[n][part] for n in names}, rule, policy
                )
                if record:
                    found.append(record)
                    break
    return found


def _usual(policy: Policy, part: Section | None) -> CountRule:
    return policy.whole if part is None else policy.sections[part]


def _largest(count: CountRule, verdicts: Sequence[CellVerdict], names: Sequence[str]) -> CountRule:
    """The count with the largest threshold of these cells: of whole I/Os it is one per request."""
    found = [v.whole.threshold for v in verdicts if v.whole is not None and v.cell in names]
    most = max(found, default=0) if count.per_request else 0
    return count.model_copy(update={"threshold": max(count.threshold, int(most))})


def _without_largest(parts: Sequence[PairedIos]) -> PairedIos:
    """All cells together but for the one that differs most.

    Noise that one cell's boots have in common passed for a cost of nine cells otherwise.
    """
    sums = [abs(int(part.differences.sum())) for part in parts]
    largest = sums.index(max(sums))
    return joined([part for n, part in enumerate(parts) if n != largest])


def _pool(
    device: str,
    threads: int | None,
    part: Section | None,
    cells: Mapping[str, PairedIos],
    count: CountRule,
    policy: Policy,
) -> PoolRecord | None:
    if len(cells) < 2:
        return None
    parts = list(cells.values())
    together = joined(parts)
    asked = Asked(policy.moved, count, policy.moved.pool_share)
    moved = find(_without_largest(parts), asked)
    if moved is None:
        return None
    record = distribution(together, moved, asked)
    cost = f"{record.mean:+.0f} instructions on average"
    name = part.value if part else WHOLE
    which = f"{len(cells)} cells" + (f" with {threads} threads" if threads is not None else "")
    return PoolRecord(
        device=device,
        threads=threads,
        section=part,
        cells=len(cells),
        moved="grew" if moved.grew else "shrank",
        paired=record,
        sentence=(
            f"{DEVICES.get(device, device)} {name} {'grew' if moved.grew else 'shrank'}"
            f" by more than {moved.size} in "
            f"{moved.share:.1%} of the I/Os of {which} together ({cost})"
        ),
    )
