"""I/Os of a boot without events, cut where the events would be."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.paths import data_dir
from iotoll.explain import untraced
from iotoll.records import results
from iotoll.records.models import CellRecord, OrderedIos, Section, SideResult
from tests.unit.explain.kernels import NOP, RET, TracedImage, record

ADD = 0x91000400
SITE = [ADD, ADD, NOP, ADD, RET, NOP, RET]
"""A tracepoint's branch behind two instructions; its block is the last two."""

IMAGE = TracedImage(
    {
        "invoke_syscall.constprop.0": [ADD, ADD, RET],
        "submit_bio": SITE,
        "queue_rq": [ADD, ADD, RET],
        "handle_irq": SITE,
        "update_request": SITE,
        "leave_irq": [*SITE[:-1], NOP, NOP, RET],
        "schedule": SITE,
        "trace_clock_local": [RET],
        "vectors": [NOP],
        "cpu_switch_to": [NOP, RET],
        "__traceiter_block_bio_queue": [RET],
        "__traceiter_irq_handler_entry": [RET],
        "__traceiter_block_rq_complete": [RET],
        "__traceiter_irq_handler_exit": [RET],
        "__traceiter_sched_switch": [RET],
        "filler": [NOP] * 32,
        "last": [RET],
    }
)
CALL, SUBMIT, QUEUE, IRQ, UPDATE, OUT, SWITCH = [*IMAGE.starts.values()][:7]
SITES = {SUBMIT: "block_bio_queue", IRQ: "irq_handler_entry", UPDATE: "block_rq_complete"}
SITES |= {OUT: "irq_handler_exit", SWITCH: "sched_switch"}
KERNEL = IMAGE.symbols([(place + 8, place + 20, event) for place, event in SITES.items()])

WAY = [
    (CALL, 2, 2),
    (SUBMIT, 5, 5),
    (QUEUE, 3, 3),
    (IRQ, 5, 5),
    (UPDATE, 5, 5),
    (CALL + 8, 1, 1),
]
"""One I/O: blocks (address, instructions), and how many of these were executed."""

Way = list[tuple[int, int, int]]


def cut(monkeypatch: pytest.MonkeyPatch, ways: list[Way]) -> dict[Section, list[int]]:
    runs = [run for way in ways for run in way]
    blocks = sorted({(address, size) for address, size, _ in runs})
    found = record(blocks, [(blocks.index((a, size)), count) for a, size, count in runs], [])
    monkeypatch.setattr(untraced, "_windows", lambda *_: {"cell": (0, len(runs))})
    return untraced.cut(Path(), found, KERNEL, {"queue_rq"})["cell"]


def test_sections_are_cut_behind_the_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut(monkeypatch, [WAY, WAY]) == {
        Section.VFS_FS: [2 + 3] * 2,
        Section.SUBMISSION: [2 + 3] * 2,
        Section.COMPLETION: [2 + 3] * 2,
    }


def test_more_instructions_show_in_their_section(monkeypatch: pytest.MonkeyPatch) -> None:
    costly = [*WAY[:2], (CALL + 4, 1, 1), *WAY[2:]]
    found = cut(monkeypatch, [WAY, costly])
    assert found[Section.SUBMISSION] == [5, 6]
    assert found[Section.COMPLETION] == [5, 5]


def test_a_block_that_an_exception_ends_early_reaches_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    early = [*WAY[:1], (SUBMIT, 5, 2), (SUBMIT + 8, 3, 3), *WAY[2:]]
    assert cut(monkeypatch, [early])[Section.VFS_FS] == [2 + 3]


def test_only_the_interrupt_that_completes_the_request_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = [WAY[0], WAY[3], *WAY[1:3], WAY[3], *WAY[3:]]
    found = cut(monkeypatch, [before])
    assert found[Section.COMPLETION] == [2 + 3]
    assert found[Section.VFS_FS] == [5 + 5]


def test_what_runs_between_interrupt_and_worker_is_nobody_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, switch = (OUT, 5, 5), (SWITCH, 5, 5)
    asleep = [*WAY[:3], switch, WAY[3], out, (CALL + 4, 1, 1), switch, switch, *WAY[4:]]
    # Of the interrupt 2 and the first 3 of its end, of the worker's task what follows the switch.
    assert cut(monkeypatch, [asleep])[Section.COMPLETION] == [2 + 3 + 2 + 3]
    softirq = [*WAY[:4], out, *WAY[4:]]
    assert cut(monkeypatch, [softirq])[Section.COMPLETION] == [2 + 5 + 3]


def test_an_event_that_is_on_nevertheless_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """trace-cmd notes the names of tasks: the branch leads to its block, which ends at once."""
    noted = [*WAY[:2], (OUT, 3, 3), (OUT + 20, 4, 4), *WAY[2:]]
    # The block's last two stand for those of the function: the compiler has copied them.
    assert cut(monkeypatch, [noted])[Section.SUBMISSION] == [2 + 3 + 3 + 2]


def test_a_call_without_a_bio_is_no_io(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cut(monkeypatch, [[WAY[0], WAY[3], WAY[-1]]]) == {s: [] for s in untraced.CUT}


def known(tracing: int | None) -> CellRecord:
    example = results.read(data_dir("results-schema") / "valid/result.json", SideResult)
    row = next(iter(example.cells.values()))[0]
    values = {section: [None, 900, 901, 902] for section in untraced.CUT}
    ordered = OrderedIos(thread=[0] * 4, sections=values, whole=[])
    return row.model_copy(update={"in_order": ordered, "tracing": tracing})


def test_medians_stand_beside_the_gate_s_counts() -> None:
    cuts = {Section.VFS_FS: [510, 900, 520], Section.COMPLETION: []}
    (section,) = untraced.compare("base", "cell", cuts, [known(7)]).sections
    assert (section.section, section.ios) == (Section.VFS_FS, 3)
    assert (section.counted, section.untraced) == (901, 520)


@pytest.mark.parametrize("records", [[], [known(None)]])
def test_counts_with_the_recorder_stand_beside_nothing(records: list[CellRecord]) -> None:
    (section,) = untraced.compare("base", "cell", {Section.VFS_FS: [5]}, records).sections
    assert section.counted is None
