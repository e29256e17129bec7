"""The quantities of a cell that a study's formulas may name, from the cell's record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal

from iotoll.boards.cells import Cell, parse_cell
from iotoll.core.errors import InfrastructureError
from iotoll.records.models import CellRecord, Section
from iotoll.records.models.base import SOFTWARE_SECTIONS
from iotoll.records.models.run import DeviceModel
from iotoll.studies.asked import Ran
from iotoll.studies.formula import NoValue

NAME = "hpb"
"""The file's name in a batch's folder."""
HIT, MISS, MAPS = "hit_cnt", "miss_cnt", "map_req_cnt"
"""Reads sent with an entry of the map, reads without, and parts of the map that were loaded."""

Counts = Mapping[str, int]


def read_counts(path: Path) -> dict[str, Counts]:
    """What each cell added to each counter, over all disks; raises InfrastructureError.

    A cell is absent where no disk has HPB.
    """
    before: dict[str, dict[str, Counts]] = {}
    try:
        for line in path.read_text().splitlines():
            cell, disk, *words = line.split()
            pairs = zip(words[::2], words[1::2], strict=True)
            before.setdefault(cell, {})[disk] = {name: int(value) for name, value in pairs}
    except (OSError, ValueError) as error:
        raise InfrastructureError(f"{path}: not ufshpb's counters: {error}") from error
    return {cell: _added(before[cell], before[following]) for cell, following in pairwise(before)}


def counts_of(paths: Iterable[Path]) -> dict[str, Counts]:
    """The same of several batches."""
    return {cell: counts for path in paths for cell, counts in read_counts(path).items()}


def _added(first: Mapping[str, Counts], last: Mapping[str, Counts]) -> Counts:
    names = dict.fromkeys(name for counts in first.values() for name in counts)
    return {
        name: sum(last.get(disk, {}).get(name, 0) - first[disk].get(name, 0) for disk in first)
        for name in names
    }


@dataclass(frozen=True)
class Known:
    """What a quantity is made of: the cell's record, its name, its device's model, fio's report.

    ``ran`` is there for cells of a study that has its own fio command for them, ``hpb`` where the
    disk has HPB.
    """

    record: CellRecord
    cell: Cell
    model: DeviceModel | None
    ran: Ran | None = None
    hpb: Counts | None = None

    @classmethod
    def make(
        cls,
        record: CellRecord,
        models: Mapping[str, DeviceModel],
        ran: Ran | None = None,
        hpb: Counts | None = None,
    ) -> Known:
        """As the record's name says."""
        cell = parse_cell(record.cell)
        return cls(record, cell, models.get(cell.device), ran, hpb)


def _section(section: Section) -> Callable[[Known], float | None]:
    return lambda k: _us(k.record.sections[section].corrected_median)


def _us(value: float | None) -> float | None:
    return None if value is None else value / 1000


def _sum(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _software(k: Known) -> float | None:
    return _us(_sum([k.record.sections[s].corrected_median for s in SOFTWARE_SECTIONS]))


def _mean_software(k: Known) -> float | None:
    """Means instead of medians: they tell apart cells whose I/Os fall into two groups of a size."""
    return _us(_sum([_mean(k, s) for s in SOFTWARE_SECTIONS]))


def _mean(k: Known, section: Section) -> float | None:
    """A section's mean of own, less what the probes cost its median."""
    found = k.record.sections[section]
    mean, median, corrected = found.own.mean, found.own.median, found.corrected_median
    if mean is None or median is None or corrected is None:
        return None
    return mean - (median - corrected)


def _probed(k: Known) -> float | None:
    """Where the board counted the recorder, its mean over the whole I/O is added again."""
    measured = k.record.ios.get("measured", 0)
    recorder = k.record.tracing / measured if k.record.tracing and measured else 0.0
    parts = [k.record.sections[s].own.median for s in SOFTWARE_SECTIONS]
    return _us(_sum([*parts, recorder]))


def _return(k: Known) -> float | None:
    return _us(k.record.sections[Section.RETURN].own.median)


def _hardware(k: Known) -> float | None:
    return _us(k.record.sections[Section.HARDWARE].elapsed.median)


def _whole(k: Known) -> float | None:
    return _us(k.record.total.elapsed.mean)


def _modelled(k: Known) -> float | None:
    """What the device's model says for one command of the cell's size; none for a mixed cell."""
    if k.model is None or k.cell.op not in ("read", "write"):
        return None
    way: Literal["read", "write"] = "read" if k.cell.op == "read" else "write"
    return k.model.latency_ns(way, k.cell.block_kb) / 1000


def _iops(k: Known) -> float | None:
    """Little's law: so many I/Os are in flight all the time, each takes fio's mean latency."""
    mean = k.record.fio.get("lat_mean_ns")
    return k.cell.threads * k.cell.depth * 1e9 / mean if mean else None


def _bandwidth(k: Known) -> float | None:
    iops = _iops(k)
    return None if iops is None else iops * k.cell.block_kb * 1024 / 1e6


def _tag_wait(k: Known) -> float | None:
    return next((s.mean / 1000 for s in k.record.steps if s.step == "bio_queue -> getrq"), None)


def _requests(k: Known) -> float | None:
    """Own requests and those of helpers, such as the journal's thread, per I/O that fio did."""
    done, ios = k.record.requests, k.record.fio.get("ios")
    return (done.get("attributed", 0) + done.get("helper", 0)) / ios if ios else None


def _reported(find: Callable[[Ran], float]) -> Callable[[Known], float | None]:
    return lambda k: find(k.ran) if k.ran else None


def _counted(name: str) -> Callable[[Known], float | None]:
    return lambda k: k.hpb.get(name) if k.hpb else None


QUANTITIES: Mapping[str, tuple[str, Callable[[Known], float | None]]] = {
    "sw": ("us: sections 1 + 2 + 4, medians of own, less the probe's cost", _software),
    "swmean": ("us: the same, means instead of medians", _mean_software),
    "probed": ("us: the same with what records the trace", _probed),
    "vfs": ("us: section 1, less the probe's cost", _section(Section.VFS_FS)),
    "submission": ("us: section 2, less the probe's cost", _section(Section.SUBMISSION)),
    "completion": ("us: section 4, less the probe's cost", _section(Section.COMPLETION)),
    "back": ("us: section 5, wake-up and return; with the probe's cost, if not counted", _return),
    "hw": ("us: section 3, elapsed, median", _hardware),
    "whole": ("us: the whole I/O, elapsed, mean", _whole),
    "model": ("us: one command of this size by the device's model", _modelled),
    "iops": ("1/s: I/Os in flight / fio's mean latency", _iops),
    "mbs": ("MB/s: iops x size", _bandwidth),
    "tagwait": ("us: bio to request, mean: split, merge, wait for a tag", _tag_wait),
    "requests": ("requests per I/O", _requests),
    "fioiops": ("1/s: fio's I/Os / its run time", _reported(lambda r: r.iops)),
    "mibs": ("MiB/s: fio's bytes / its run time", _reported(lambda r: r.bytes_per_second / 2**20)),
    "clat": ("us: fio's mean clat", _reported(lambda r: r.clat_mean_ns / 1000)),
    "p99": ("us: fio's clat, 99th percentile", _reported(lambda r: r.clat_p99_ns / 1000)),
    "inflight": ("I/Os: fioiops x fio's lat", _reported(lambda r: r.iops * r.lat_mean_ns / 1e9)),
    "seconds": ("s: fio's run time", _reported(lambda r: r.runtime_ms / 1000)),
    "hpbhits": ("reads that HPB sent with their map entry", _counted(HIT)),
    "hpbmisses": ("reads for which HPB had no map entry", _counted(MISS)),
    "hpbmaps": ("parts of the map that HPB loaded", _counted(MAPS)),
}
"""Every quantity by its name: what it is, and how it is found; 1 us is 1,000 clock units."""


def quantity(known: Known, name: str) -> float:
    """A quantity of a cell; raises NoValue where the record does not have it."""
    meaning, find = QUANTITIES[name]
    value = find(known)
    if value is None:
        raise NoValue(f"{known.record.cell} has no {name} ({meaning}){_because(known.record)}")
    return value


def _because(record: CellRecord) -> str:
    """What explains that a cell has no completion, or no value without the probes' cost."""
    detached, measured = record.ios.get("detached", 0), record.ios.get("measured", 0)
    if 2 * detached > measured:  # read-ahead, which no I/O waits for
        return f": {detached} of its {measured} I/Os return before their request has ended"
    parts = record.sections.values()
    if all(part.corrected_median is None for part in parts):
        return ": no cost of a probe is known from this boot"
    for section in SOFTWARE_SECTIONS:
        found = record.sections[section]
        if found.own.median is not None and found.corrected_median is None:
            return f": the probes of its mean I/O cost more than the median ({section.value})"
    return ""
