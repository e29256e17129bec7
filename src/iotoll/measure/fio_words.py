"""Whether fio and the trace agree, in words."""

from __future__ import annotations

from iotoll.records.models import CellRecord
from iotoll.records.models.io_checks import FigureCheck
from iotoll.records.text import number, plural, signed


def _figure(found: FigureCheck) -> str:
    over = f"{signed(found.difference)} over the trace"
    return f"{found.figure} {number(found.fio)}, {over}"


def fio_lines(record: CellRecord) -> list[tuple[bool, str]]:
    """Return what the reconciliation with fio says: whether it agrees, and a sentence."""
    check = record.fio_check
    if check is None:
        return []
    lines = []
    ios = record.fio.get("ios")
    if not isinstance(ios, int):
        lines.append((False, "disagrees: fio's own number of I/Os is not known"))
    elif check.ios_agree:
        size = {True: " and all bytes", False: "", None: ""}[check.bytes_agree]
        lines.append((True, f"agrees: {plural(ios, 'I/O')}{size}"))
    else:
        text = f"disagrees: fio did {plural(ios, 'I/O')}, the trace has {check.ios_in_trace:,}"
        lines.append((False, text))
    if check.bytes_agree is False:
        lines.append((False, "disagrees: the numbers of bytes differ"))
    good = [f for f in check.figures if f.agrees]
    if good:
        lines.append((True, "agrees: " + "; ".join(_figure(f) for f in good)))
    lines += [
        (False, f"disagrees: {_figure(f)} (allowed {number(f.low)} to {signed(f.high)})")
        for f in check.figures
        if not f.agrees
    ]
    lines += [(True, f"not compared: {why}") for why in check.not_compared]
    return lines


def fio_warnings(record: CellRecord) -> list[str]:
    """Return one sentence per figure in which fio and the trace disagree."""
    return [f"fio {text}" for agrees, text in fio_lines(record) if not agrees]
