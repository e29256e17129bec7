"""I/Os cut by functions, of records of boots without events."""

from __future__ import annotations

import pytest

from iotoll.core.errors import UsageError
from iotoll.explain.untraced import CutIos, cut_cell, untraced_probes
from iotoll.explain.walk import Walker
from iotoll.records.models import Section
from tests.unit.explain.kernels import BASE, ERET, RET, call, record, symbols

ADD = 0x91000400
NAMES = (
    "caller",
    "__arm64_sys_pread64",
    "submit_bio_noacct_nocheck",
    "queue_rq",
    "blk_mq_start_request",
    "vectors",
    "el1h_64_irq",
    "__handle_irq_event_percpu",
    "blk_update_request",
    "__arm64_sys_pwrite64",
    "cpu_switch_to",
    "do_idle",
    "blk_cgroup_bio_start",
    "__submit_bio",
    "nvme_complete_batch_req",
    "blk_mq_end_request_batch",
)
PLACES = [BASE + 32 * n for n in range(len(NAMES))]
CALLER, SYS, SUBMIT, QUEUE, START, VECTORS, EL1H, IRQ, UPDATE, WRITE, SWITCH, IDLE = PLACES[:12]
COUNT, GO, COLLECT, BATCH = PLACES[12:]


def words(place: int, *body: int | None) -> list[int]:
    """A function of eight instructions; each None is a call (to nowhere in particular)."""
    made = [call(place, place + 4096) if word is None else word for word in body]
    return made + [ADD] * (8 - len(made))


FUNCTIONS = {
    NAMES[0]: words(CALLER, None, ADD, RET),
    NAMES[1]: words(SYS, ADD, None, None, RET),
    NAMES[2]: words(SUBMIT, ADD, None, ADD, RET),
    NAMES[3]: words(QUEUE, ADD, None, ADD, ADD, RET),
    NAMES[4]: words(START, ADD, RET),
    NAMES[5]: words(VECTORS, ADD),
    NAMES[6]: words(EL1H, ADD, None, ERET),
    NAMES[7]: words(IRQ, ADD, None, RET),
    NAMES[8]: words(UPDATE, ADD, ADD, ADD, RET),
    NAMES[9]: words(WRITE, RET),
    NAMES[10]: words(SWITCH, ADD, RET),
    NAMES[11]: words(IDLE, ADD, None),
    NAMES[12]: words(COUNT, ADD, ADD, RET),
    NAMES[13]: words(GO, ADD, None, RET),
    NAMES[14]: words(COLLECT, ADD, None, RET),
    NAMES[15]: words(BATCH, ADD, ADD, RET),
}
WAY = [
    (CALLER, 1, 1),
    (SYS, 2, 2),
    (SUBMIT, 2, 2),
    (QUEUE, 2, 2),
    (START, 2, 2),
    (QUEUE + 8, 3, 3),
    (SUBMIT + 8, 2, 2),
    (SYS + 8, 2, 1),  # an interrupt comes
    (VECTORS, 1, 1),
    (EL1H, 2, 2),
    (IRQ, 2, 2),
    (UPDATE, 4, 4),
    (IRQ + 8, 1, 1),
    (EL1H + 8, 1, 1),
    (SYS + 12, 1, 1),
    (CALLER + 4, 2, 2),
]
"""One I/O: blocks (address, instructions) and how many of these were executed."""


def cut(ways: list[list[tuple[int, int, int]]], completed: int = 77) -> CutIos:
    runs = [run for way in ways for run in way]
    blocks = sorted({(address, size) for address, size, _ in runs})
    marks, tasks = [(0, 0, 1000)], [1, 9]
    for number, (address, _, _) in enumerate(runs):
        if address == START:
            marks.append((number, 3, 77))
        if address == UPDATE:
            marks.append((number, 4, completed))
        if address == COLLECT:
            marks.append((number, 5, completed))
        if address == SWITCH:
            marks += [(number, 1, tasks[1]), (number, 2, tasks[0])]
            tasks.reverse()
    found = record(
        blocks, [(blocks.index((address, size)), count) for address, size, count in runs], marks
    )
    known = symbols(FUNCTIONS)
    return cut_cell(found, Walker(found, known), known, (0, len(runs)), ["queue_rq"])


def test_sections_begin_and_end_at_functions() -> None:
    found = cut([WAY, WAY])
    assert found.not_cut == 0
    assert {section: values.tolist() for section, values in found.sections.items()} == {
        Section.VFS_FS: [2, 2],
        Section.SUBMISSION: [2 + 2 + 2 + 3] * 2,
        Section.COMPLETION: [2, 2],
        # From the completion to the interrupt's end, and the rest of the call.
        Section.RETURN: [4 + 1 + 1 + 1] * 2,
    }
    assert found.total.tolist() == [20, 20]


def test_more_instructions_show_in_their_section() -> None:
    way = [*WAY[:5], (QUEUE + 8, 3, 2), (QUEUE, 1, 1), *WAY[5:]]
    found = cut([WAY, way])
    assert found.sections[Section.SUBMISSION].tolist() == [9, 12]


def test_the_switch_from_the_idle_task_is_the_io_s() -> None:
    """Its task slept: what runs until it goes on is the wake-up that the gate counts as well."""
    asleep = [(SYS + 8, 1, 1), (SWITCH, 2, 2), (IDLE, 2, 1)]
    awake = [(IDLE + 4, 1, 1), (SWITCH, 2, 2)]
    slept = [*WAY[:7], *asleep, *WAY[8:14], *awake, *WAY[14:]]
    found = cut([slept, slept])
    # Six of the interrupt, one of the idle task, two of the switch, one of the call.
    assert found.sections[Section.RETURN].tolist() == [6 + 1 + 2 + 1] * 2
    assert found.sections[Section.SUBMISSION].tolist() == [9, 9]


def test_what_a_cgroup_counts_comes_before_the_tracepoint() -> None:
    """Linux with BLK_CGROUP: vfs_fs was 88 instructions short of the traced boot's."""
    way = [
        *WAY[:2],
        (SUBMIT, 2, 2),
        (COUNT, 3, 3),
        (SUBMIT + 8, 1, 1),
        (SUBMIT + 4, 1, 1),  # the second call
        (GO, 2, 2),
        *WAY[3:6],
        (GO + 8, 1, 1),
        *WAY[6:],
    ]
    found = cut([way, way])
    assert found.sections[Section.VFS_FS].tolist() == [2 + 2 + 3] * 2
    assert found.sections[Section.SUBMISSION].tolist() == [2 + 2 + 2 + 2 + 3] * 2


def test_a_batch_completes_where_it_ends() -> None:
    """NVMe's interrupt: none of its I/Os was cut, since blk_update_request never ran."""
    batch = [(COLLECT, 2, 2), (BATCH, 3, 3), (COLLECT + 8, 1, 1)]
    way = [*WAY[:11], *batch, *WAY[12:]]
    found = cut([way, way])
    assert found.not_cut == 0
    assert found.sections[Section.COMPLETION].tolist() == [2 + 2] * 2
    assert found.sections[Section.RETURN].tolist() == [3 + 1 + 1 + 1 + 1] * 2
    assert cut([way, way], completed=78).not_cut == 2


def test_another_request_s_completion_is_not_the_io_s() -> None:
    found = cut([WAY, WAY], completed=78)
    assert found.not_cut == 2 and not len(found.sections[Section.VFS_FS])


def test_a_call_without_a_request_is_no_io() -> None:
    """A read that the page cache answers."""
    cached = [WAY[0], WAY[1], (SYS + 12, 1, 1), WAY[-1]]
    found = cut([cached, WAY])
    assert found.not_cut == 0 and found.total.tolist() == [20]


def test_without_calls_there_is_nothing() -> None:
    found = cut([[WAY[0], WAY[-1]]])
    assert found.not_cut == 0 and not len(found.total)


def test_a_kernel_without_the_functions_is_refused() -> None:
    with pytest.raises(UsageError, match="no function submit_bio_noacct_nocheck"):
        untraced_probes(symbols({"other": [RET]}))
