"""What a report says of a modelled device: its data, and what the cells' I/Os took with it.

An exact board's disks are answered by a stated model on the board's clock. So `hardware` has a
value there, and an I/O has a latency; both are the model's and no real device's, and say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from iotoll.records.models import CellRecord, Section
from iotoll.records.models.run import DeviceModel
from iotoll.records.text import NO_VALUE, number
from iotoll.reports.kit.page import Table
from iotoll.reports.page.evidence import Evidence
from iotoll.reports.page.view import CellView, all_counted

TITLE = "Modelled device"
_NOTE = (
    "Nanoseconds of the board's clock, one for each executed instruction, medians of the first "
    "boot. The device is a model with the data above, so these are the model's latencies and "
    "no real device's; {recorder}. IOPS: what one thread reaches "
    "that begins its next I/O when one has ended (1 / mean latency); the cells are paced."
)


def latency_note(views: Sequence[CellView]) -> str:
    """Return what the latencies are, in words."""
    recorder = "the cost of recording the trace is in the I/O's"
    if all_counted(views):
        recorder = "what records the trace while no device works is left out of the I/O's"
    return _NOTE.format(recorder=recorder)


def models_of(evidence: Evidence) -> dict[str, DeviceModel]:
    """The models of the devices that the run's boots had, by device."""
    boots = [boot for side in evidence.sides.values() for boot in side.boots]
    return {name: model for boot in boots for name, model in boot.models.items()}


def model_facts(evidence: Evidence) -> list[tuple[str, str]]:
    """Each modelled device with the data of its model: latency per direction and size."""
    return [(name, model_sentence(model)) for name, model in models_of(evidence).items()]


def model_sentence(model: DeviceModel) -> str:
    """The model's data in one line, in microseconds."""
    parts = [
        f"{way} {model.latency_ns(way, 4) / 1000:.1f} us for 4 KiB and "
        f"{model.latency_ns(way, 128) / 1000:.1f} us for 128 KiB"
        for way in ("read", "write")
    ]
    parts += [f"flush {model.flush_ns / 1000:.1f} us", f"discard {model.discard_ns / 1000:.1f} us"]
    units = "1 command" if model.units == 1 else f"{model.units} commands"
    return f"{TITLE.lower()}: {'; '.join(parts)}; {units} at a time; source: {model.source}"


def latency_table(evidence: Evidence, views: Sequence[CellView]) -> Table | None:
    """Latency and IOPS of each cell on its modelled device; None without any."""
    known = models_of(evidence)
    rows = []
    for view in views:
        if view.name.device not in known:
            continue
        found = [
            records[0]
            for side in evidence.sides.values()
            if (records := side.cells.get(view.name.full)) and records[0].invalid is None
        ]
        if found:
            columns = [[column(record) for record in found] for column in _COLUMNS.values()]
            rows.append((view.name.full, *(_pair(texts) for texts in columns)))
    return Table(("Cell", *_COLUMNS), rows) if rows else None


def _hardware(record: CellRecord) -> str:
    return number(record.sections[Section.HARDWARE].elapsed.median)


def _iops(record: CellRecord) -> str:
    mean = record.total.elapsed.mean
    return number(1e9 / mean) if mean else NO_VALUE


_COLUMNS = {
    "hardware, modelled": _hardware,
    "I/O, median": lambda record: number(record.total.elapsed.median),
    "I/O, p99": lambda record: number(record.total.elapsed.p99),
    "IOPS of the model": _iops,
}


def _pair(texts: Sequence[str]) -> str:
    return " → ".join(dict.fromkeys(texts))
