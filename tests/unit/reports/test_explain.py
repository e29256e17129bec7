"""Pictures and tables of explain."""

from __future__ import annotations

import io
import json
import xml.etree.ElementTree as ET

import numpy as np
from rich.console import Console

from iotoll.core.paths import data_dir
from iotoll.measure.explain.frames import Frame, add
from iotoll.measure.explain.walk import Tree
from iotoll.records import results
from iotoll.records.models import ExplainRecord
from iotoll.reports.explain.flame import flame_svg
from iotoll.reports.explain.speedscope import speedscope
from iotoll.reports.explain.terminal import print_explained, print_tree


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
    assert float(found["cell"]["width"]) == 1200
    assert float(found["grew<>"]["width"]) > float(found["same"]["width"])


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
    assert record.coverage.sentence in shown
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
