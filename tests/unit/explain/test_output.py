"""Pictures and tables of explain."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable

import numpy as np
from rich.console import Console

from iotoll.core.paths import data_dir
from iotoll.explain.frames import Frame, add
from iotoll.explain.terminal import print_caches, print_explained, print_tree, print_untraced
from iotoll.explain.viewers import firefox, flame_svg, perfetto, speedscope
from iotoll.explain.walk import Tree
from iotoll.records import results
from iotoll.records.models import (
    CacheModel,
    CacheRecord,
    CacheSection,
    Difference,
    ExplainRecord,
    Section,
    UntracedCell,
    UntracedRecord,
    UntracedSection,
)
from iotoll.records.text import number, signed
from iotoll.reports.page.coverage import coverage_sentence


def frames() -> Frame:
    """Both sides call ``same``; the candidate's ``grew<>`` has 41 instructions more."""
    root = Frame("cell")
    for side, cost in enumerate((100, 141)):
        tree = Tree()
        top = tree.child(0, "outer")
        nodes = [tree.child(top, name) for name in ("same", "grew<>")]
        counts = np.zeros(len(tree.parent), np.int64)
        counts[[top, *nodes]] = [20, 14, 2 * cost]
        add(root.child("submission"), side, tree, counts, 2)
    return root


def test_totals_hold_what_is_called() -> None:
    root = frames()
    assert list(root.total) == [117, 158]
    outer = root.children["submission"].children["outer"]
    assert outer.own == [10, 10] and outer.differs
    assert not outer.children["same"].differs


def test_flame_graph_is_valid_and_coloured_by_difference() -> None:
    drawn = ET.fromstring(flame_svg(frames()))
    space = {"s": "http://www.w3.org/2000/svg"}
    found = {}
    for group in drawn.iterfind("s:g", space):
        title, box = group.find("s:title", space), group.find("s:rect", space)
        assert title is not None and box is not None and title.text
        found[title.text.partition(":")[0]] = box.attrib
    assert found["same"]["fill"] == "#dddddd"
    assert found["grew<>"]["fill"].startswith("#ff")
    assert found["grew<>"]["fill"] == "#ff4646", "a quarter and more has the strongest colour"
    assert "prefers-color-scheme:dark" in flame_svg(frames())
    assert float(found["cell"]["width"]) == 1200
    assert float(found["grew<>"]["width"]) > float(found["same"]["width"])


def test_g2_3_the_totals_of_a_flame_graph_are_those_of_the_table() -> None:
    """+331.9 of 17,206.9, a mean over all I/Os, stood beside +330 of 16,573."""
    record = results.read(data_dir("results-schema") / "valid/explain.json", ExplainRecord)
    (cell,) = record.cells
    (part,) = [one for one in cell.sections if one.section is Section.SUBMISSION]
    drawn = flame_svg(frames(), cell)
    said = f"submission {signed(part.judged)} on {number(part.base)}"
    assert f">cell: instructions per I/O; {said}" in drawn
    assert f"<title>submission: {said.removeprefix('submission ')} per I/O; mean +41.0</title>" in (
        drawn
    )
    text = io.StringIO()
    print_explained(record, Console(file=text, width=160))
    assert f"{part.judged:+.0f}" in text.getvalue()
    assert "<title>grew&lt;&gt;: +41.0 per I/O (base 100.0, 141.0)</title>" in drawn


def test_speedscope_has_both_sides() -> None:
    found = speedscope(frames())
    assert [p["name"] for p in found["profiles"]] == ["base", "candidate"]
    assert [p["endValue"] for p in found["profiles"]] == [117, 158]
    names = [f["name"] for f in found["shared"]["frames"]]
    paths = [[names[i] for i in sample] for sample in found["profiles"][1]["samples"]]
    assert ["cell", "submission", "outer", "grew<>"] in paths
    json.dumps(found)


def test_a_tree_shows_what_differs_and_sums_up_the_rest() -> None:
    text = io.StringIO()
    print_tree(frames(), 17, Console(file=text, width=120))
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert ["100", "141", "+41", "grew<>"] in lines
    assert ["7", "7", "same"] in lines


def test_the_table_names_function_gate_and_coverage() -> None:
    record = results.read(data_dir("results-schema") / "valid/explain.json", ExplainRecord)
    text = io.StringIO()
    print_explained(record, Console(file=text, width=160))
    shown = text.getvalue()
    assert coverage_sentence(record.coverage) in " ".join(shown.split())
    for word in (
        "+329",
        "ufshcd_queuecommand (changed), drivers/ufs/core/ufshcd.c:2964",
        "called by scsi_queue_rq",
        "of it ufshcd_check_command (inlined), drivers/ufs/core/ufshcd.c:2948",
        "drivers/ufs/core/ufshcd.c:2953: never ran",
        "drivers/ufs/core/ufshcd.c:2948: ran 40 times per I/O in 1 cell",
        "gate +331",
    ):
        assert word in shown
    assert "not explained of the gate's +2" in shown


def test_firefox_profile_has_both_sides_as_threads() -> None:
    found = firefox(frames())
    assert [t["name"] for t in found["threads"]] == ["base", "candidate"]
    for thread, total in zip(found["threads"], (117, 158), strict=True):
        stacks, samples = thread["stackTable"], thread["samples"]
        assert sum(samples["weight"]) == total and samples["length"] == len(samples["stack"])
        names = {thread["stringArray"][n] for n in thread["funcTable"]["name"]}
        assert names == {"cell", "submission", "outer", "same", "grew<>"}
        for table in ("stackTable", "frameTable", "funcTable", "samples"):
            columns = [c for c in thread[table].values() if isinstance(c, list)]
            assert {len(c) for c in columns} == {thread[table]["length"]}, table
        deepest = samples["stack"][thread["samples"]["weight"].index(total - 17)]
        path = []
        place: int | None = deepest
        while place is not None:
            frame = stacks["frame"][place]
            path.append(thread["stringArray"][thread["funcTable"]["name"][frame]])
            above = stacks["prefix"][place]
            assert above is None or above < place, "callers come first"
            place = above
        assert path == ["grew<>", "outer", "submission", "cell"]


def test_perfetto_slices_lie_within_their_callers() -> None:
    events = perfetto(frames())["traceEvents"]
    for side, total in ((1, 117), (2, 158)):
        slices = {e["name"]: e for e in events if e["ph"] == "X" and e["pid"] == side}
        assert slices["cell"]["dur"] == total
        outer, grew, same = (slices[name] for name in ("outer", "grew<>", "same"))
        for inner in (grew, same):
            assert outer["ts"] <= inner["ts"]
            assert inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"]
        assert grew["ts"] >= same["ts"] + same["dur"], "one after the other"
        assert grew["args"]["candidate minus base"] == 41


def test_slices_of_parts_of_instructions_stay_within_their_callers() -> None:
    root = Frame("cell")
    for at in range(40):
        middle = root.child(f"f{at}")
        middle.child("below").own[:] = [0.3 + at / 7, 0.4]
        middle.own[:] = [0.21, 0.2]
    slices = [e for e in perfetto(root)["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    assert all(e["dur"] > 0 for e in slices)
    stack: list[tuple[int, int]] = []
    for one in slices:
        begin, end = one["ts"], one["ts"] + one["dur"]
        while stack and begin >= stack[-1][1]:
            stack.pop()
        assert not stack or (stack[-1][0] <= begin and end <= stack[-1][1])
        stack.append((begin, end))


def printed(show: Callable[[Console], None]) -> str:
    out = io.StringIO()
    show(Console(file=out, width=200, color_system=None))
    return out.getvalue()


def difference(base: float, delta: int, share: float = 1.0) -> Difference:
    return Difference(base=base, candidate=base + delta, delta=delta, share=share, mean=delta)


def test_caches_are_printed_as_a_model_s() -> None:
    level = {"size_kib": 64, "ways": 4}
    model = CacheModel.model_validate(
        {
            "name": "small",
            "description": "d",
            "source": "s",
            "line": 64,
            **{name: level for name in ("l1i", "l1d", "l2")},
        }
    )
    same = {name: difference(7, 0) for name in ("code_lines", "l1d_misses", "l1i_misses")}
    section = CacheSection(
        cell="cell",
        section=Section.SUBMISSION,
        paired=9,
        functions=[],
        data_lines=difference(50, 2),
        l2_misses=difference(0, 0),
        **same,
    )
    other = section.model_copy(update={"data_lines": difference(50, 0), "cell": "quiet"})
    record = CacheRecord(model=model, sections=[section, other])
    text = printed(lambda console: print_caches(record, console))
    assert "L1I 64 KiB 4-way" in text and "A model's values per I/O, not a board's" in text
    assert "cell submission: 9 I/Os" in text
    columns = next(line for line in text.splitlines() if "whole section" in line).split()
    assert columns[:5] == ["50+2", "7", "7", "7", "0"]
    rare = section.model_copy(update={"l2_misses": difference(3, 1, share=0.2)})
    sometimes = record.model_copy(update={"sections": [rare]})
    assert "3~+1.0" in printed(lambda console: print_caches(sometimes, console))
    assert "quiet" not in text and "1 sections touch the same" in text
    assert "quiet" in printed(lambda c: print_caches(record, c, everything=True))


def test_untraced_values_stand_beside_the_counted_ones() -> None:
    sections = [
        UntracedSection(section=Section.VFS_FS, ios=9, counted=2353, untraced=2353),
        UntracedSection(section=Section.SUBMISSION, ios=9, counted=48, untraced=45),
    ]
    whole = UntracedCell(cell="one", side="base", sections=sections)
    half = [sections[0].model_copy(update={"counted": None})]
    cells = [whole]
    cells.append(UntracedCell(cell="two", side="base", sections=half))
    cells.append(UntracedCell(cell="three", side="base", sections=[]))
    record = UntracedRecord(board="virt-arm64", cells=cells, images=[])
    lines = [line.split() for line in printed(lambda c: print_untraced(record, c)).splitlines()]
    assert ["one", "base", "vfs_fs", "9", "2,353", "2,353", "0"] in lines
    assert ["one", "base", "submission", "9", "48", "45", "+3"] in lines
    assert ["two", "base", "vfs_fs", "9", "-", "2,353", "-"] in lines
    assert lines[-1] == ["!", "three,", "base:", "no", "I/O", "was", "cut"]
