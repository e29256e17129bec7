"""Comparison of two kernels, function by function, and which code a patch changed."""

from __future__ import annotations

import numpy as np

from iotoll.explain.attribute import CellParts, SectionParts
from iotoll.explain.compare import change_of, compare_cell
from iotoll.explain.coverage import UNCHANGED, Executed
from iotoll.explain.walk import Tree
from iotoll.kernels.changed import changed_functions, changed_places, normal
from iotoll.kernels.symbols import Symbols
from iotoll.records.models import CoverageRecord, FunctionCoverage, Section
from iotoll.reports.page.coverage import coverage_sentence
from tests.unit.explain.kernels import BASE, NOP, RET, call, record, symbols


def parts(ios: list[int], functions: dict[str, list[int]], missing: int = 0) -> CellParts:
    """A cell with one section; instructions of each function by I/O, one call each."""
    tree = Tree()
    top = tree.child(0, "caller")
    for name in functions:
        tree.child(top, name)
    names = tuple(sorted(functions))
    counts = np.array([functions[name] for name in names], np.int64).T
    entries = np.array([0, 0] + [len(ios)] * len(functions), np.int64)
    section = SectionParts(
        Section.SUBMISSION,
        names,
        np.array(ios, np.int64),
        counts,
        np.ones_like(counts),
        entries,
        entries,
        missing,
    )
    return CellParts("cell", len(ios) + missing, tree, {}, {Section.SUBMISSION: section})


def test_the_largest_common_difference_comes_first() -> None:
    base = parts([0, 1, 2, 3], {"same": [9, 9, 9, 9], "grew": [10, 10, 10, 50]})
    candidate = parts([0, 1, 2, 3], {"same": [9, 9, 9, 409], "grew": [51, 51, 51, 50]})
    (change,) = compare_cell(base, candidate)
    assert [f.name for f in change.functions] == ["grew", "same"]
    first = change.functions[0]
    assert (first.change.common, first.change.share, first.callers) == (41, 0.75, ("caller",))
    assert change.explained == 41 and change.change.common == 41
    assert change.functions[1].change.mean == 100, "rare, but not passed over in silence"


def test_only_ios_of_both_sides_are_paired() -> None:
    base = parts([0, 2, 3], {"f": [10, 10, 10]}, missing=1)
    candidate = parts([1, 2, 3], {"f": [99, 11, 11], "new": [5, 5, 5]}, missing=1)
    (change,) = compare_cell(base, candidate)
    assert change.paired == 2 and change.missing == (1, 1)
    assert {f.name: f.change.common for f in change.functions} == {"f": 1, "new": 5}


def test_of_equally_common_differences_the_smaller_one_counts() -> None:
    assert change_of(np.array([41, 41, 0, 0])).common == 0
    assert change_of(np.array([], np.int64)).share == 0
    change = change_of(np.array([8] * 7 + [60]))
    assert (change.common, change.second) == (8, (60, 0.125)), "a cost in every eighth I/O"
    assert change_of(np.array([8, 8])).second is None


def test_code_that_moved_is_not_changed() -> None:
    callee = [NOP, NOP, RET]
    for gap in (0, 16):
        here = BASE + 4 * (gap + 3)
        other = symbols(
            {"callee": callee, "caller": [0x90000000 | gap << 5, call(here + 4, BASE), RET]}, gap
        )
        if gap == 0:
            base = other
    assert base.code("caller") != other.code("caller")
    assert changed_functions(base, other) == ()


def test_changed_and_new_functions() -> None:
    base = symbols({"kept": [NOP, RET], "changed": [NOP, RET], "gone": [RET]})
    candidate = symbols({"kept": [NOP, RET], "changed": [0x91000400, RET], "new": [RET]})
    assert changed_functions(base, candidate) == ("changed", "new")


def test_code_that_moved_is_told_from_code_that_changed() -> None:
    """Most functions of a patched kernel moved: what calls, addresses and jumps say of it."""

    def kernel(gap: int, jump: int, page: int, callee: str) -> Symbols:
        first = {
            "moves": BASE + 4 * gap,
            "jumps": BASE + 4 * gap + 12,
            "calls": BASE + 4 * gap + 24,
        }
        functions = {
            # adrp, a call of what did not move, ret
            "moves": [0x90000001 | page << 5, call(first["moves"] + 4, BASE - 4096), RET],
            "jumps": [0x14000000 | jump, 0x91000400, RET],
            "calls": [0x91000400, call(first["calls"] + 4, first[callee]), RET],
        }
        return symbols(functions, gap)

    base = kernel(0, 1, 1, "moves")
    assert changed_functions(base, kernel(5, 1, 2, "moves")) == ()
    assert changed_functions(base, kernel(5, 2, 2, "moves")) == ("jumps",)
    assert changed_functions(base, kernel(5, 1, 2, "jumps")) == (), "whom it calls is not told"


def test_branches_within_a_function_count() -> None:
    assert normal([code(0x14000002, ADD, RET)]) != normal([code(0x14000001, ADD, RET)])


def code(*words: int) -> bytes:
    return np.array(words, "<u4").tobytes()


ADD = 0x91000400  # add x0, x0, #1


def test_an_address_that_was_on_the_stack_is_still_one() -> None:
    """__pi___parse_cmdline kept the page of a table in the frame, and was said to be changed."""

    def spilled(low: int, store: int = 0xF90043E2, load: int = 0xF94043E2) -> bytes:
        # adrp x2; str x2, [sp, #128]; ldr x2, [sp, #128]; add x2, x2, #low
        return code(0x90000002, store, load, 0x91000042 | low << 10, RET)

    assert normal([spilled(0x400)]) == normal([spilled(0x420)])
    elsewhere = 0xF94047E2  # ldr x2, [sp, #136]: what was stored there is no address of adrp
    kept = spilled(0x400, load=elsewhere), spilled(0x420, load=elsewhere)
    # The register itself had an address before, so x3 shows it.
    assert normal([kept[0]]) == normal([kept[1]])
    third = [
        code(0x90000002, 0xF90043E2, 0xF94047E3, 0x91000063 | n << 10, RET) for n in (0x400, 0x420)
    ]
    assert normal([third[0]]) != normal([third[1]])
    pairs = [  # stp x29, x2, [sp, #-16]; ldp x4, x3, [sp, #-16]; add x3, x3, #low
        code(0x90000002, 0xA93F0BFD, 0xA97F0FE4, 0x91000063 | n << 10, RET) for n in (0x400, 0x420)
    ]
    assert normal([pairs[0]]) == normal([pairs[1]])


def test_functions_side_by_side_are_as_each_alone() -> None:
    """A jump ends in its own function, and each has registers and a frame of its own."""
    page = code(0x90000002, 0xF90043E2, RET)  # adrp x2; str x2, [sp, #128]
    constant = code(0xF94043E2, 0x91000042 | 0x400 << 10, RET)  # the load of it, and an addition
    leaves = code(0x14000002, NOP)  # b to what follows
    back = code(ADD, NOP, 0x17FFFFFD, 0)  # b to what precedes
    functions = [leaves, page, constant, back, b"", code(NOP, 0), page, leaves]
    assert normal(functions) == [normal([one])[0] for one in functions]
    assert normal([page, constant])[1] == constant and normal([]) == []


def test_padding_of_loops_is_no_change() -> None:
    """ufshcd_verify_dev_init had a nop before a loop in one of two images, for its alignment."""
    loop = [ADD, 0xB5FFFFE0]  # add; cbnz x0, the add
    out = 0xB4000080  # cbz x0, 4 instructions ahead
    padded = code(out, NOP, *loop, RET)
    plain = code(0xB4000060, *loop, RET)
    assert normal([padded]) == normal([plain])
    assert normal([code(0xB4000040, *loop, RET)]) != normal([plain]), "another target"
    outside = code(0x54000000 | 0x7FFFF << 5, RET), code(0x54000000 | 0x40 << 5, RET)
    assert normal([outside[0]]) == normal([outside[1]]), "b.eq to another function"
    assert normal([code(0x36000040, ADD, RET)]) != normal([code(0x36000020, ADD, RET)]), "tbz"


def places(before: bytes, after: bytes) -> list[int]:
    """`changed_places` of a function with this code."""
    kernels = (
        symbols({"f": np.frombuffer(one, "<u4").tolist()}) if one else None
        for one in (before, after)
    )
    base, candidate = kernels
    assert candidate is not None
    found: list[int] = changed_places(base, candidate, "f").tolist()
    return found


def test_g1_4_only_what_the_base_has_not_is_changed_code() -> None:
    before = code(ADD, RET)
    assert places(before, code(ADD, RET)) == []
    assert places(before, code(ADD, ADD, RET)) == [1]
    assert places(b"", code(NOP, ADD, RET)) == [1, 2], "padding is none"
    loop = code(ADD, 0xB5FFFFE0, RET)
    assert places(before, loop) == [1]
    # A jump over more than before is the same jump; one that goes elsewhere is not.
    skips, longer = code(0xB4000040, ADD, RET), code(0xB4000060, ADD, RET, RET)
    assert places(skips, longer) == [3]
    assert places(skips, code(0xB4000020, ADD, RET)) == [0]
    # What is gone is stood for by what is behind it.
    assert places(code(ADD, RET, ADD), code(ADD, ADD)) == [1]
    long = [0x91000000 | n << 10 for n in range(1, 2500)]
    assert len(places(code(*long), code(*reversed(long)))) == len(long)


def test_instructions_that_ran_count_once() -> None:
    found = symbols({"one": [NOP] * 4, "two": [NOP] * 4})
    executed = Executed(found, ["one", "two"])
    executed.add(record([(BASE, 4), (BASE + 8, 4)], [(0, 2), (0, 2), (1, 4)], []))
    assert executed.counts() == {"one": 4, "two": 2}
    executed.add(record([(BASE + 16, 4)], [(0, 3)], []))
    assert executed.counts() == {"one": 4, "two": 3}, "another boot, with other blocks"


def test_code_that_never_ran_is_said() -> None:
    """F1.4: +60 in a function that no cell enters was a pass, and nothing said so."""

    def function(name: str, executed: int) -> FunctionCoverage:
        return FunctionCoverage(name=name, new=False, instructions=9, executed=executed, calls={})

    def said(*functions: FunctionCoverage) -> str:
        cells = ["ufs-4k-randread-t1-direct"]
        found = CoverageRecord(cells=cells, functions=[*functions], gone=[], sentence=UNCHANGED)
        return coverage_sentence(found)

    assert said(function("idle", 0)).startswith("None of the changed code ran")
    assert "not idle" in said(function("ran", 1), function("idle", 0))
    assert said(function("ran", 1)).startswith("The changed function ran")
    assert said().startswith("No function's machine code")
