"""Did the candidate's boot do the base's work, by the base's clock? Its own words against fio's.

What counts a candidate is the candidate: its trace, and the clock of it. So two things that do not
depend on each other must tell the same of it as of the base, which is trusted:

- fio did as many I/Os and bytes, since both kernels ran one job;
- what tells whose work a CPU does is in both traces: without those events an interrupt thread's or
  a worker's instructions belong to no I/O, and no mark of a section shows that they are missing
  (in none of 1,217 pairs of cells of real runs an event of them was gone);
- fio's mean latency exceeds the trace's by the same. fio reads the board's other clock, in user
  space. Over 1,052 pairs of cells of 185 runs the two sides' excess differed by at most 3.2 % of
  the mean I/O (cells of the page cache with eight threads; others by less than 0.1 %).
"""

from __future__ import annotations

from iotoll.records.models import CellRecord, Clock

FIGURE = "clat mean"
MOST = 0.05
"""Largest difference of the two sides' excess, as a share of the base's mean I/O."""

WITNESSES = (
    "sched_switch",
    "sched_waking",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
)
"""Events that tell for whom a CPU works."""


def unlike(base: CellRecord, candidate: CellRecord) -> str | None:
    """Why a candidate's record is none of the base's work, in words; None where it is."""
    for what in ("ios", "bytes"):
        if what in base.fio and base.fio[what] != candidate.fio.get(what):
            return (
                f"fio did {candidate.fio.get(what)} {what} where it did {base.fio[what]} with the"
                " base, in the same job"
            )
    if lacking := _lacking(base, candidate):
        return (
            f"the candidate's trace has no {lacking}, of which the base's has"
            f" {base.trace['events'][lacking]:,}: work done for an I/O elsewhere would not count"
        )
    if (base.tracing is None) != (candidate.tracing is None):
        side = "base" if candidate.tracing is None else "candidate"
        return (
            f"only the {side}'s counts are without what recorded the trace: the other kernel does"
            " not tell where that begins and ends"
        )
    excess = [_excess(record) for record in (base, candidate)]
    if base.clock is not Clock.INSTRUCTIONS or excess[0] is None or excess[1] is None:
        return None
    (first, mean), (second, _) = excess[0], excess[1]
    if abs(second - first) <= MOST * mean:
        return None
    return (
        f"fio's mean latency exceeds the trace's by {second:,.0f} ns, with the base by"
        f" {first:,.0f} ns: the candidate's trace runs by another clock than fio"
    )


def _lacking(base: CellRecord, candidate: CellRecord) -> str:
    """An event that each I/O of the base has and none of the candidate's, empty where none is."""
    had, has = (record.trace.get("events", {}) for record in (base, candidate))
    often = base.ios.get("seen", 0)
    gone = (name for name in WITNESSES if had.get(name, 0) > often > 0 and not has.get(name))
    return next(gone, "")


def _excess(record: CellRecord) -> tuple[float, float] | None:
    """fio's mean latency less the trace's, and the latter; None where they were not compared."""
    figures = record.fio_check.figures if record.fio_check else []
    found = next((one for one in figures if one.figure == FIGURE), None)
    return (found.difference, found.trace) if found else None
