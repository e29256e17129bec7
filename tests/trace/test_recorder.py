"""Values without what recorded the trace, of a real trace whose recorder is made up."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from iotoll.boards.plugin import TRACING
from iotoll.core.errors import InfrastructureError
from iotoll.measure import boot_trace
from iotoll.measure.iotable import IoTable
from iotoll.measure.same_work import unlike
from iotoll.records import results
from iotoll.records.models import BootRecord, CellRecord, Clock, Section
from tests.trace import independent
from tests.unit.runs import BOOTS, CELLS

Ints = npt.NDArray[np.int64]
COST = 50
"""Instructions that each of the made-up recorder's readings of the clock stands for."""

CUTS = {
    Section.VFS_FS: ("start", "at_bio_queue"),
    Section.SUBMISSION: ("at_bio_queue", "at_device"),
    Section.COMPLETION: ("at_irq", "at_rq_complete"),
    Section.RETURN: ("at_rq_complete", "end"),
}


def number(value: int) -> bytes:
    """LEB128 with the sign in the lowest bit, as tools/plugin/tracing.h says."""
    left, data = value << 1 ^ value >> 63, []
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*data, left])


def write(path: Path, times: Ints) -> None:
    steps = np.diff(times, prepend=0).tolist()
    path.write_bytes(b"IOTOLLT1" + b"".join(number(step) + number(COST) for step in steps))


@pytest.fixture(scope="module")
def times() -> Ints:
    """Each time at which the board recorded an event."""
    return np.unique([event.ts for event in independent.report(BOOTS / "candidate/ufs/trace.dat")])


@pytest.fixture
def folder(tmp_path: Path, times: Ints) -> Path:
    folder = Path(shutil.copytree(BOOTS / "candidate", tmp_path / "boot"))
    write(folder / TRACING, times)
    return folder


def records(folder: Path) -> dict[str, CellRecord]:
    return boot_trace.analyze_boot(folder, results.read(folder / "boot.json", BootRecord))[0]


def tables(folder: Path, tracing: Path | None) -> list[IoTable]:
    file = boot_trace.BootTraceFile(folder / "ufs/trace.dat")
    windows = [window for window in file.windows if window.name in CELLS]
    found = boot_trace.measure(
        file, windows, Clock.INSTRUCTIONS, device="8:0", comm="fio", tracing=tracing
    )
    return [measured.table for measured in found]


def test_g2_1_each_section_is_without_the_readings_inside_it(folder: Path, times: Ints) -> None:
    both = zip(tables(folder, None), tables(folder, folder / TRACING), strict=True)
    for gross, net in both:
        one = np.flatnonzero(gross["requests"] == 1)
        assert len(one) > 200
        for section, cut in CUTS.items():
            first, last = (np.searchsorted(times, gross[name][one], "right") for name in cut)
            column = f"elapsed_{section.value}"
            expected = gross[column][one] - COST * (last - first)
            np.testing.assert_array_equal(net[column][one], expected)
        # The device works on while the trace is recorded.
        np.testing.assert_array_equal(net["elapsed_hardware"], gross["elapsed_hardware"])


def test_records_hold_nothing_of_the_recorder_but_its_sum(folder: Path) -> None:
    net = records(folder)
    (folder / TRACING).unlink()
    gross = records(folder)
    for cell in CELLS:
        before, after = gross[cell], net[cell]
        assert before.tracing is None and before.in_order and after.in_order
        less = sum(before.in_order.whole) - sum(after.in_order.whole)
        assert after.tracing == less > 0 and less % COST == 0
        for section, values in after.in_order.sections.items():
            pairs = zip(values, before.in_order.sections[section], strict=True)
            assert all(new < old for new, old in pairs if new and old)
            part = after.sections[section]
            assert part.corrected_median == part.own.median
        steps = {step.step: step.median for step in after.steps}
        old = {step.step: step.median for step in before.steps}
        assert steps["device -> irq"] == old["device -> irq"]
        assert all(steps[name] < old[name] for name in steps if name != "device -> irq")
        # Costs that another boot calibrated are not taken off once more.
        assert boot_trace.corrected(after, {"block_bio_queue": 300.0}) == after


def test_a_side_with_the_recorder_is_not_compared_with_one_without(folder: Path) -> None:
    net = records(folder)[CELLS[0]]
    gross = net.model_copy(update={"tracing": None})
    assert unlike(net, net) is None
    assert "only the base's counts are without" in (unlike(net, gross) or "")
    assert "only the candidate's counts are without" in (unlike(gross, net) or "")


def test_another_trace_s_counts_are_refused(folder: Path, times: Ints) -> None:
    write(folder / TRACING, times[times != times[len(times) // 2]])
    with pytest.raises(InfrastructureError, match="nothing was counted at its event of"):
        records(folder)
