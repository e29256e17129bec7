"""Two kernel releases by function: which functions are the same, and sums that add up."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.progress import Progress
from iotoll.explain.by_function import CellFunctions, _Counter
from iotoll.explain.matching import Calls, Kernel, direct_calls, owners, renamed, stem
from iotoll.explain.releases import compare_cell, compare_releases
from iotoll.explain.releases_terminal import per_io, print_cells, print_overview
from iotoll.kernels.symbols import X86_64, Symbols
from iotoll.measure import windows as stored
from iotoll.measure.boot_trace import Window
from iotoll.measure.iotable import IoTable
from iotoll.records.models import Section
from iotoll.records.models.releases import ReleaseFunction, ReleasePart, ReleasesRecord
from tests.unit.explain.kernels import BASE, NOP, RET, call, symbols
from tests.unit.explain.test_stored import boot
from tests.unit.reports.test_compare import change, finished
from tests.unit.runs import make_run

VFS = Section.VFS_FS


def cell(
    counts: dict[str, int], callers: dict[str, dict[str, int]] | None = None, more: int = 0
) -> CellFunctions:
    """A cell of 4 I/Os with these functions in ``vfs_fs``; the analyser counts ``more``."""
    total = sum(counts.values()) + more
    sections = (VFS, Section.SUBMISSION, Section.COMPLETION, Section.RETURN)
    totals = dict.fromkeys(sections, 0) | {VFS: total}
    return CellFunctions(
        "ufs-4k-randwrite-t1-sync",
        4,
        totals,
        {key: {} for key in sections} | {VFS: counts},
        callers or {},
    )


def part_of(
    first: CellFunctions,
    second: CellFunctions,
    names: dict[str, str] | None = None,
    direct: tuple[Calls, Calls] = ({}, {}),
) -> ReleasePart:
    (part,) = compare_cell((first, second), names or {}, direct).parts
    return part


def code(seed: int, length: int = 40) -> list[int]:
    """Words that are no jumps: additions of registers and constants."""
    chosen = random.Random(seed)
    kinds = (0x8B000000, 0xCB000000, 0xAA000000, 0x8A000000, 0x9B000000, 0xD3400000)
    return [chosen.choice(kinds) | chosen.randrange(1 << 16) for _ in range(length)] + [RET]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("blk_mq_submit_bio", "blk_mq_submit_bio"),
        ("nvme_prep_rq.part.0", "nvme_prep_rq"),
        ("ext4_map.constprop.0.isra.0", "ext4_map"),
        ("crc32_body.cold", "crc32_body"),
        ("__ll_sc_atomic.particular", "__ll_sc_atomic.particular"),
    ],
)
def test_parts_that_the_compiler_splits_off_belong_to_their_function(
    name: str, wanted: str
) -> None:
    assert stem(name) == wanted


def test_functions_with_another_name_are_found_by_their_code_alone() -> None:
    first = Kernel.of(symbols({"same": code(1), "old_name": code(2), "gone": code(3)}))
    changed = [*code(2)[:-1], NOP, *code(9, 4)]
    second = Kernel.of(symbols({"same": code(1), "new_name": changed, "fresh": code(4)}))
    ran = {"same": 9, "old_name": 9, "gone": 9}, {"same": 9, "new_name": 90, "fresh": 9}
    (found,) = renamed((first, second), ran, ({}, {}))
    assert (found.first, found.second) == ("old_name", "new_name") and 0.8 < found.likeness < 1


def test_less_like_code_needs_the_same_caller() -> None:
    first = Kernel.of(symbols({"old_name": code(2)}))
    second = Kernel.of(symbols({"new_name": [*code(2, 30)[:-1], *code(5, 14)]}))
    ran = {"old_name": 100}, {"new_name": 120}
    assert renamed((first, second), ran, ({}, {})) == []
    calls = {"old_name": {"caller": 3}}, {"new_name": {"caller": 3}}
    assert [r.second for r in renamed((first, second), ran, calls)] == ["new_name"]
    other = {"old_name": {"caller": 3}}, {"new_name": {"another": 3}}
    assert renamed((first, second), ran, other) == []
    rare = {"old_name": 100}, {"new_name": 900}
    assert renamed((first, second), rare, calls) == [], "it does something else"


def test_functions_of_x86_64_are_matched_by_what_their_instructions_do() -> None:
    def kernel(name: str, register: int, nop: str) -> Symbols:
        body = "55" + f"83c0{register:02x}" * 5 + nop + "ffc1" * 3 + "7402" + "31d2" + "5dc3"
        code = bytes.fromhex(body).ljust(64, b"\xcc")
        jumps = b"\xe8" + struct.pack("<i", -64 - 5) + b"\xe9" + struct.pack("<i", -64 - 10)
        return Symbols(
            np.array([BASE, BASE + 64], np.uint64), (name, "top"), code + jumps, BASE, X86_64
        )

    first, second = kernel("old_name", 1, "90"), kernel("new_name", 7, "")
    ran = {"old_name": 9}, {"new_name": 9}
    (found,) = renamed((Kernel.of(first), Kernel.of(second)), ran, ({}, {}))
    assert (found.first, found.second, found.likeness) == ("old_name", "new_name", 1)
    assert direct_calls(first, ["top"]) == {"old_name": {"top": 2}}


def test_a_function_that_the_other_image_still_has_was_not_renamed() -> None:
    first = Kernel.of(symbols({"old_name": code(2)}))
    second = Kernel.of(symbols({"new_name": code(2), "old_name": code(7)}))
    assert renamed((first, second), ({"old_name": 9}, {"new_name": 9}), ({}, {})) == []


def test_very_short_functions_are_not_matched_by_code() -> None:
    first, second = (Kernel.of(symbols({name: [NOP, NOP, RET]})) for name in ("one", "two"))
    assert renamed((first, second), ({"one": 9}, {"two": 9}), ({}, {})) == []


def test_what_one_kernel_alone_runs_counts_with_the_caller_that_both_run() -> None:
    calls = {"leaf": {"middle": 4}, "middle": {"top": 4}}, {"helper": {"top": 3, "rare": 1}}
    ran = {"top", "middle", "leaf"}, {"top", "helper"}
    assert owners(ran, calls) == {"middle": "top", "leaf": "top", "helper": "top"}


def test_callers_are_read_in_the_code_where_no_call_was_seen() -> None:
    top, helper = BASE, BASE + 16
    found = symbols({"top": [NOP, call(top + 4, helper), NOP, RET], "helper": [NOP, RET]})
    direct = direct_calls(found, ["top", "helper"])
    assert direct == {"helper": {"top": 1}}
    part = part_of(cell({"top": 40, "helper": 8}), cell({"top": 60}), direct=(direct, {}))
    assert [(row.name, row.change) for row in part.functions] == [("top", 12)]


def test_a_function_of_many_callers_answers_for_itself() -> None:
    calls = {"memset_new": {"a": 2, "b": 2, "c": 2}}
    assert owners(({"a", "b", "c", "memset_new"}, {"a", "b", "c"}), (calls, {})) == {}
    loop = {"one": {"two": 1}, "two": {"one": 1}}
    assert owners(({"one", "two"}, set()), (loop, {})) == {}


def test_inlined_code_shows_as_what_it_costs_more() -> None:
    first = cell({"top": 400, "helper": 100, "other": 20}, {"helper": {"top": 4}})
    part = part_of(first, cell({"top": 520, "other": 20}))
    (row,) = part.functions
    assert (row.name, row.first, row.second) == ("top", 500, 520)
    assert [(p.name, p.change) for p in row.parts] == [("top", 120), ("helper", -100)]
    assert part.unchanged == 20 and part.rest == (0, 0)


def test_split_and_renamed_functions_are_one_row() -> None:
    first = cell({"prep.isra.0": 40, "old_name": 60})
    second = cell({"prep": 44, "prep.cold": 4, "new_name": 61})
    part = part_of(first, second, {"old_name": "new_name"})
    rows = {row.name: (row.was, row.first, row.second) for row in part.functions}
    assert rows == {"prep": (None, 40, 48), "new_name": ("old_name", 60, 61)}


def test_what_no_function_has_is_said() -> None:
    part = part_of(cell({"a": 40}, more=3), cell({"a": 44}, more=1))
    assert part.rest == (3, 1) and (part.first, part.second) == (43, 45)


def test_sums_that_do_not_add_up_are_refused() -> None:
    row = ReleaseFunction(name="a", first=4, second=8)
    with pytest.raises(ValueError, match="functions have 4 and 8"):
        ReleasePart(section=VFS, first=4, second=9, functions=[row], unchanged=0, rest=(0, 0))
    with pytest.raises(ValueError, match="its parts have"):
        ReleaseFunction(name="a", first=4, second=8, parts=[row, row])


def test_shown_numbers_add_up_whatever_the_fractions() -> None:
    chosen = random.Random(1)
    for _ in range(200):
        ios = chosen.randrange(1, 300)
        values = [chosen.randrange(-5000, 50000) for _ in range(chosen.randrange(1, 40))]
        shown = per_io(values, ios)
        assert sum(shown) == per_io([sum(values)], ios)[0]
        assert all(abs(s - v / ios) < 1 for s, v in zip(shown, values, strict=True))
    assert per_io([0, 3, 0], 4) == [0, 1, 0]


def test_screens_name_functions_and_their_sums() -> None:
    first = cell({"top": 4000, "helper": 400, "other": 20}, {"helper": {"top": 4}})
    second = cell({"top": 5200, "other": 24, "new_one": 40}, {"new_one": {"other": 4}})
    record = ReleasesRecord(
        board="virt-arm64",
        kernels=("6.12", "7.2"),
        renamed=[],
        cells=[compare_cell((first, second), {})],
        remarks=["limit ufs.queue.read_ahead_kb: 128 -> 2048"],
        left_out={"ufs-4k-randread-t1-sync": "old did not run it"},
    )
    console = Console(width=100, record=True, quiet=False)
    with console.capture() as overview:
        print_overview(record, console)
    assert "top +200, other +11" in overview.get() and "old did not run it" in overview.get()
    assert "read_ahead_kb: 128 -> 2048" in overview.get()
    with console.capture() as table:
        print_cells(record, console)
    for words in ("+211", "top", "gone from here", "+10 new_one, new here", "the section"):
        assert words in table.get()


def test_functions_are_counted_between_readings_of_the_clock() -> None:
    found = boot([[0, 1], [2]], [(0, stored.CLOCK, 5), (1, stored.CLOCK, 0)] * 2)
    counter = _Counter(found)
    assert [counter._name(group) for group in range(2)] == ["outer", "inner"]
    part = counter._part(Window("cell", 150, 2**63))
    assert part.times.tolist() == [100, 200, 300, 400]
    assert counter._until(0, part).tolist() == [0, 2, 4, 6]
    assert counter._until(1, part).tolist() == [0, 0, 4, 4]
    assert part.until(found.marks["user"]).tolist() == [0, 0, 5, 5]
    table = IoTable({"start": np.array([100]), "end": np.array([400])}, 1)
    often = counter._ran(table)
    assert often.tolist() == [1, 2], "what precedes the first reading is not the cell's"
    assert counter._callers(often) == {"inner": {"outer": 1}}


def test_runs_that_do_not_compare_are_refused(tmp_path: Path) -> None:
    one, other = finished(tmp_path / "one", 2000), finished(tmp_path / "two", 2300)

    def refused(words: str, cells: list[str]) -> None:
        with pytest.raises(UsageError, match=words):
            compare_releases(one.root, other.root, cells, Progress(quiet=True))

    refused("the run has no such cell", ["ufs-4k-randread-t9-direct"])
    refused("cannot be read", [])
    change(other, board="my/virt-arm64.toml")
    refused("cannot be read", [])
    change(other, board="virt-x86_64")
    refused("different boards, virt-arm64 and virt-x86_64", [])


def test_other_ways_are_refused_beside_since(tmp_path: Path) -> None:
    run = str(make_run(tmp_path).root)
    made = CliRunner().invoke(cli, ["explain", run, "--since", run, "--again"])
    assert isinstance(made.exception, UsageError)
    assert "--since: give nothing but" in str(made.exception)
