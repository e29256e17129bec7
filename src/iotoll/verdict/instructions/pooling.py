"""A cost too rare for one cell: the paired I/Os of several cells of a device, tested together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotoll.boards.cells import parse_cell
from iotoll.records.models import CellVerdict, PoolRecord, Section
from iotoll.verdict.instructions import pairing
from iotoll.verdict.instructions.pairing import Moved, PairedIos
from iotoll.verdict.policy import Policy, SectionRule
from iotoll.verdict.words import WHOLE

Paired = Mapping[Section | None, PairedIos]


def pools(
    paired: Mapping[str, Paired], verdicts: Sequence[CellVerdict], policy: Policy
) -> list[PoolRecord]:
    """What moved over a device's cells together, or those of one number of threads.

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
                record = _pool(device, count, part, names, paired, policy)
                if record:
                    found.append(record)
                    break
    return found


def _usual(policy: Policy, part: Section | None) -> SectionRule:
    return policy.whole if part is None else policy.sections[part]


def _is_of_one(parts: Sequence[PairedIos], moved: Moved, z: float) -> bool:
    """Whether one cell shows it alone, whose own test did not find it.

    Without the cell that shows most, the others must show it half as clearly. Noise that one cell's
    boots have in common passed for a cost of nine cells otherwise.
    """
    sign = 1 if moved.grew else -1
    nets = [sign * pairing.net(part.differences, moved.size) for part in parts]
    most = nets.index(max(nets))
    rest = pairing.joined([part for n, part in enumerate(parts) if n != most])
    return sign * pairing.clearness(rest, moved.size) < z / 2


def _pool(
    device: str,
    threads: int | None,
    part: Section | None,
    names: Sequence[str],
    paired: Mapping[str, Paired],
    policy: Policy,
) -> PoolRecord | None:
    if len(names) < 2:
        return None
    together = pairing.joined([paired[name][part] for name in names])
    rule = _usual(policy, part)
    sign = policy.sign
    boots = min(paired[name][part].boots for name in names)
    z, noise = policy.z(boots), policy.noise(boots)
    moved = pairing.find(together, policy.sizes(rule), z, sign.pool_share, sign.mean, noise)
    if moved is None or _is_of_one([paired[name][part] for name in names], moved, z):
        return None
    record = pairing.record(together, moved, rule.threshold)
    cost = f"{record.mean:+.0f} instructions on average"
    name = part.value if part else WHOLE
    which = (
        f"{len(names)} cells" if threads is None else f"{len(names)} cells with {threads} threads"
    )
    return PoolRecord(
        device=device,
        threads=threads,
        section=part,
        cells=len(names),
        moved="grew" if moved.grew else "shrank",
        twins=record,
        sentence=(
            f"{device}: {name} {'grew' if moved.grew else 'shrank'} by more than {moved.size} in "
            f"{moved.share:.1%} of the I/Os of {which} together ({cost})"
        ),
    )
