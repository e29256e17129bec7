"""What is fetched before the steps that need it: in time, and never in the way."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iotoll.boards.ramdisk import Image
from iotoll.boots import base_boots
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import open_plans
from iotoll.core.errors import ResultError, UsageError
from iotoll.core.progress import Progress
from iotoll.gate import prefetch
from iotoll.gate.flow import Flow
from iotoll.measure import collect as collecting
from iotoll.measure.boot_trace import analyze_boot
from iotoll.measure.collect import collect
from iotoll.records import results, sealed
from iotoll.records.models import BootRecord, Clock, SideResult
from iotoll.run import setup as run_setup
from tests.unit.runs import BOOTS, CELLS, add_boots, make_run


def seal(folder: Path) -> None:
    boot = results.read(folder / "boot.json", BootRecord)
    sums = {"digests": sealed.digests(folder)}
    results.write(folder / "boot.json", boot.model_copy(update=sums))


def test_pieces_are_done_one_after_another_and_a_failing_one_is_no_harm() -> None:
    done: list[str] = []
    all_done = threading.Event()
    work: list[Callable[[], object]] = [
        lambda: done.append("one"),
        lambda: 1 / 0,
        lambda: done.append("two"),
        all_done.set,
    ]
    with prefetch.meanwhile(iter(work), 0):
        assert all_done.wait(30)
    assert done == ["one", "two"]


def test_what_has_not_begun_at_the_end_is_left_to_the_next_step() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def long() -> None:
        begun.set()
        assert go_on.wait(30)

    work: prefetch.Work = itertools.chain([long], iter([lambda: done.append(1), go_on.clear]))
    with prefetch.meanwhile(work, 0):
        assert begun.wait(30)
        threading.Timer(0.05, go_on.set).start()
    assert done == [] and go_on.is_set(), "the piece that had begun was waited for"
    with prefetch.meanwhile(work, 0):
        while go_on.is_set():
            time.sleep(0.001)
    assert done == [1]


def test_an_interrupted_step_does_not_wait_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefetch, "LONGEST", 0.05)
    begun, never = threading.Event(), threading.Event()
    work: list[Callable[[], object]] = [begun.set, lambda: never.wait(60)]
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), prefetch.meanwhile(iter(work), 0):
        assert begun.wait(30)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 30
    never.set()


def test_every_piece_of_a_gate_can_be_done(tmp_path: Path) -> None:
    flow = Flow(make_run(tmp_path / "run"), Progress(quiet=True), explains=True)
    *first, functions = flow.later
    for piece in first:
        piece()
    with pytest.raises(UsageError, match="cannot be read"):
        functions()  # this run has no image


def test_a_stored_base_is_read_while_make_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    (run.build("candidate") / "build.json").unlink()
    flow = Flow(run, Progress(quiet=True), explains=True)
    image = Image(tmp_path / "rootfs.cpio", "c" * 64, {})
    monkeypatch.setattr(run_setup, "get_image", lambda *_: image)
    monkeypatch.setattr(run_setup, "counts_recorder", lambda *_: True)
    asked: list[str] = []

    def take(plan: BootPlan) -> bool:
        asked.append(plan.name)
        if is_stored:
            shutil.copytree(BOOTS / "base", plan.folder)
            seal(plan.folder)
        return is_stored

    monkeypatch.setattr(base_boots, "take", take)
    is_stored = False
    for piece in flow.stored_base.pieces():
        piece()
    assert asked == ["base/1"] and not run.boot("base", 1).exists()
    is_stored = True
    for piece in flow.stored_base.pieces():
        piece()
    written = (run.side("base") / "result.json").stat().st_mtime_ns
    assert open_plans(run, flow.bench, [("base", 1)]) == []
    found = collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1])
    assert (run.side("base") / "result.json").stat().st_mtime_ns == written
    assert found == results.read(run.side("base") / "result.json", SideResult)
    with (run.boot("base", 1) / "ufs/fio.json").open("a") as file:
        file.write(" ")
    with pytest.raises(ResultError, match=r"fio\.json: is not what the board handed over"):
        collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1])


def test_nothing_of_the_base_is_fetched_once_boots_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job was rendered again while the candidate's boot read it: the board had none."""
    flow = Flow(make_run(tmp_path / "run"), Progress(quiet=True), explains=True)
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    asked: list[int] = []

    def plans(_: object) -> list[object]:
        asked.append(1)
        begun.set()
        assert go_on.wait(30)
        return []

    monkeypatch.setattr(prefetch.StoredBase, "_plans", plans)
    _, boots, values = flow.stored_base.pieces()
    threading.Thread(target=boots, daemon=True).start()
    assert begun.wait(30)

    def end() -> None:
        flow.stored_base.end()
        ended.set()

    threading.Thread(target=end, daemon=True).start()
    assert not ended.wait(0.1), "what has begun is waited for"
    go_on.set()
    assert ended.wait(30)
    values()
    assert asked == [1]


def test_only_a_gate_on_this_machine_prefetches(tmp_path: Path) -> None:
    for flow in (
        Flow(make_run(tmp_path / "step"), Progress(quiet=True)),
        Flow(
            make_run(tmp_path / "lab", runner="lava", lab="local"),
            Progress(quiet=True),
            explains=True,
        ),
    ):
        assert list(flow.later) == []


def test_the_bases_boot_is_analysed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    run = make_run(tmp_path / "run")
    add_boots(run)
    folder = run.boot("base", 1)
    seal(folder)
    plain = collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1])
    asked: list[Path] = []

    def counting(folder: Path, boot: BootRecord, functions: frozenset[str]) -> object:
        asked.append(folder)
        return analyze_boot(folder, boot, functions)

    monkeypatch.setattr(collecting, "analyze_boot", counting)
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "another cache"))
    # Images that were never made have no functions.
    monkeypatch.setattr(prefetch, "_changed_code", lambda _: None)
    collecting._known.cache_clear()
    flow = Flow(run, Progress(quiet=True))
    for piece in prefetch.while_it_boots(flow, flow.later):
        piece()
    assert collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1]) == plain
    assert asked == [folder]
    collecting._known.cache_clear()
    assert collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1]) == plain, "another run finds it"
    assert asked == [folder]
    assert collect(run, CELLS, Clock.INSTRUCTIONS, "base", [1], anew=True) == plain
    assert asked == [folder, folder], "iotoll reproduce derives it from the trace"
