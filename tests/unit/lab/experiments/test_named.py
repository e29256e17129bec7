"""What the experiment says of a planted function that explain names, or does not."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from iotoll_lab.experiments.explained import CELLS, PLACES, shaped
from iotoll_lab.experiments.named import Named, explain_gated, named, named_markdown, print_named
from iotoll_lab.experiments.variants import PLACES as PLANTED
from iotoll_lab.experiments.variants import Plant, planted
from rich.console import Console

from iotoll.bisect.culprit import functions_of
from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.explain.explainer import Explainer
from iotoll.records import results
from iotoll.records.models import (
    CellDelta,
    CellVerdict,
    ExplainRecord,
    FunctionDelta,
    InlinedDelta,
    Outcome,
    PartDelta,
    SectionDelta,
    VerdictRecord,
)
from iotoll.records.rundir import RunDir
from tests.unit.runs import EXAMPLES, agreeing, make_run

EXAMPLE = results.read(data_dir("results-schema") / "valid/explain.json", ExplainRecord)
VERDICT = results.read(EXAMPLES / "verdict.json", VerdictRecord)
CELL = EXAMPLE.cells[0].cell
SECTION = EXAMPLE.cells[0].sections[0]


def function(
    name: str, delta: int, mean: float, *, changed: bool = True, calls: float = 1
) -> FunctionDelta:
    return FunctionDelta(
        name=name,
        base=10,
        candidate=10 + delta,
        delta=delta,
        share=0.9,
        mean=mean,
        calls_base=1,
        calls_candidate=calls,
        callers=[],
        changed=changed,
    )


def explained(*functions: FunctionDelta, whole: PartDelta | None = None) -> ExplainRecord:
    section = SectionDelta(**{**dict(SECTION), "functions": list(functions)})
    made: CellDelta = EXAMPLE.cells[0].model_copy(update={"sections": [section], "whole": whole})
    return EXAMPLE.model_copy(update={"cells": [made]})


def grown(moved: str = "grew", **changes: Any) -> VerdictRecord:
    """A verdict in which the example's section moved like this."""
    fields = {"gated": True, "moved": moved, "section": SECTION.section}
    part = VERDICT.cells[0].sections[0].model_copy(update=fields)
    outcome = Outcome.REGRESSION if moved == "grew" else Outcome.PASS
    cell = CellVerdict(cell=CELL, outcome=outcome, sections=[part])
    return agreeing(VERDICT.model_copy(update={"cells": [cell]})).model_copy(update=changes)


@pytest.mark.parametrize(
    ("plant", "cell", "size"),
    [
        (Plant("f", 5, 1), CELL, 6),
        (Plant("f", 20, 1), CELL, 20),
        (Plant("f", 400, 8), CELL, 400),
        (Plant("f", 400, 1, "write"), "ufs-4k-randread-t1-direct", 0),
        (Plant("f", 400, 1, "write"), "ufs-4k-randwrite-t1-direct", 400),
        (Plant("f", 400, 1, "large"), "ufs-4k-randread-t1-direct", 0),
        (Plant("f", 400, 1, "large"), "ufs-128k-seqread-t1-direct", 400),
        (Plant("f", 20, 1, "pages"), "ufs-4k-randread-t1-direct", 20),
        (Plant("f", 20, 1, "pages"), "ufs-128k-seqread-t1-direct", 640),
    ],
)
def test_the_loop_counts_two_a_turn_where_it_runs(plant: Plant, cell: str, size: float) -> None:
    assert plant.size(cell) == size


def test_a_function_that_is_first_with_its_size() -> None:
    record = explained(function("driver", 403, 403.0), function("other", 1, 1.0, changed=False))
    row = named(Plant("driver", 400, 1), record, grown())
    assert (row.function, row.cell, row.part) == ("driver", CELL, SECTION.section.value)
    assert (row.size, row.planted, row.unexplained) == (403, 400, SECTION.unexplained)
    assert (row.first, row.grew, row.exact, row.runs) == (1, 1, 1, 1)


def test_another_first_function_or_size_is_no_hit() -> None:
    record = explained(function("other", 900, 900.0), function("driver", 403, 403.0))
    row = named(Plant("driver", 400, 1), record, grown())
    assert (row.first, row.grew) == (0, 1)
    row = named(Plant("driver", 50, 1), record, grown())
    assert (row.exact, row.runs) == (0, 1)


@pytest.mark.parametrize(("beyond", "runs"), [(None, 0), (58, 1), (90, 1)])
def test_a_rare_cost_that_met_no_io_has_no_size_there(beyond: int | None, runs: int) -> None:
    """Every eighth read may be one that sends no request: all others have the counter alone."""
    driver = function("driver", 8, 8.0).model_copy(update={"next_delta": beyond})
    row = named(Plant("driver", 50, 8), explained(driver), grown())
    assert (row.runs, row.exact) == (runs, int(beyond == 58))


def test_changed_code_is_before_what_differs_more_with_the_same_code() -> None:
    """__rmqueue_pcplist() differed more than the planted function in cells of 128 KiB."""
    same, planted = function("other", 900, 900.0, changed=False), function("driver", 403, 403.0)
    rare = function("rare", 0, 0.7)
    found = explained(same, rare, planted)
    (section,) = found.cells[0].sections
    assert [f.name for f in section.functions] == ["driver", "rare", "other"]
    row = named(Plant("driver", 400, 1), found, grown())
    assert (row.first, row.grew) == (1, 1)
    whole = PartDelta(**{**section.model_dump(exclude={"section"}), "functions": [same, rare]})
    assert [f.name for f in whole.functions] == ["rare", "other"]
    part = (CELL, SECTION.section.value)
    assert [f.name for f in functions_of(found, part)] == ["driver", "other"]


def test_a_record_of_before_is_read_in_this_order(tmp_path: Path) -> None:
    found = explained(function("driver", 3, 3.0), function("other", 9, 9.0, changed=False))
    document = json.loads(found.model_dump_json())
    document["cells"][0]["sections"][0]["functions"].reverse()
    (tmp_path / "explain.json").write_text(json.dumps(document))
    assert results.read(tmp_path / "explain.json", ExplainRecord) == found


def test_a_part_that_did_not_grow_has_no_first_function() -> None:
    row = named(Plant("driver", 5, 1), explained(function("driver", 6, 6.0)), grown("same"))
    assert (row.first, row.grew, row.exact, row.runs) == (0, 0, 1, 1)


def test_where_the_condition_does_not_hold_only_its_test_is_exact() -> None:
    plant = Plant("driver", 400, 1, "write")  # the example's cell reads
    row = named(plant, explained(function("driver", 2, 2.0)), grown("same"))
    assert (row.size, row.planted, row.exact, row.runs) == (2, 0, 1, 1)
    row = named(plant, explained(function("driver", 402, 402.0)), grown("same"))
    assert (row.exact, row.runs) == (0, 1)


def test_a_function_that_usually_does_not_run_has_no_size_there() -> None:
    row = named(Plant("driver", 5, 1), explained(function("driver", 0, 0.7, calls=0)), grown())
    assert (row.exact, row.runs) == (0, 0)


def test_a_cost_in_some_calls_is_what_these_ios_have_beyond_the_others() -> None:
    one = function("driver", 6, 6 + 402 / 8).model_copy(
        update={"next_delta": 408, "next_share": 0.125}
    )
    row = named(Plant("driver", 400, 8), explained(one), grown())
    assert (row.size, row.planted, row.exact) == (402, 400, 1)
    none = function("driver", 6, 6.0)
    assert named(Plant("driver", 400, 8), explained(none), grown()).exact == 0


def test_an_inlined_function_is_found_in_its_caller() -> None:
    inlined = InlinedDelta(
        name="helper",
        into=["static_one", "driver"],
        file="a.c",
        line=3,
        base=0,
        candidate=22,
        delta=22,
        share=1.0,
        mean=22.0,
    )
    into = function("driver", 22, 22.0).model_copy(update={"inlined": [inlined]})
    row = named(Plant("static_one", 20, 1), explained(into), grown())
    assert (row.function, row.first, row.exact) == ("driver", 1, 1)


def test_a_cost_in_another_task_is_found_in_the_whole_io() -> None:
    whole = PartDelta(**{**SECTION.model_dump(exclude={"section"}), "unexplained": 0.0})
    whole = whole.model_copy(update={"functions": [function("commit", 5003, 5003.0)]})
    verdict = grown("same")
    part = verdict.cells[0].sections[0].model_copy(update={"moved": "grew"})
    cell = verdict.cells[0].model_copy(update={"whole": part})
    verdict = verdict.model_copy(update={"cells": [cell]})
    row = named(Plant("commit", 5000, 1), explained(whole=whole), verdict)
    assert (row.part, row.first, row.grew, row.exact) == ("whole", 1, 1, 1)


def test_code_that_never_ran_is_no_miss_and_no_hit() -> None:
    row = named(Plant("absent", 5, 1), explained(), grown("same"))
    assert row.function == "" and row.why == EXAMPLE.coverage.sentence
    out = io.StringIO()
    hit = Named("driver", CELL, "vfs_fs", 6.0, 6.0, 1, 1, 1, 1)
    rows = [("planted-1", "w", row), ("planted-2", "w", hit)]
    print_named(rows, Console(file=out, width=200))
    text = named_markdown(rows)
    assert f"| planted-2 | w | driver | {CELL} vfs_fs | +6 of 6 | 1 of 1 | 1 of 1 | - |" in text
    assert text.endswith("its size in all parts where it runs: 1 of 1 patches.\n")
    assert "first in all explained parts that grew: 1 of 1 patches" in out.getvalue()
    assert "its size in all parts where it runs: 1 of 1 patches" in out.getvalue()


def test_a_run_is_explained_once_and_why_not_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, board="virt-arm64")
    results.write(run.verdict, grown(outcome=Outcome.REGRESSION))
    asked: list[list[str]] = []

    def explain(self: Explainer, cells: list[str], left_out: int = 0) -> None:
        asked.append(cells)
        raise InfrastructureError("no plugin")

    monkeypatch.setattr(Explainer, "explain", explain)
    plant, progress = Plant("driver", 5, 1), Progress(quiet=True)
    assert explain_gated(run, plant, progress, boots=False).why == "not explained" and not asked
    assert explain_gated(run, plant, progress).why == "not explained: no plugin"
    assert asked == [[CELL]]


@pytest.mark.parametrize(
    ("planted_in", "cells"),
    [("nvme_prep_rq", [CELL.replace("ufs", "nvme")]), ("submit_bio_noacct", [CELL])],
)
def test_a_pass_is_explained_in_cells_of_the_functions_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planted_in: str, cells: list[str]
) -> None:
    run = make_run(tmp_path, board="virt-arm64")
    verdict = grown("same", outcome=Outcome.PASS)
    names = [CELL, CELL.replace("ufs", "nvme"), "a", "b", "c"]
    known = [verdict.cells[0].model_copy(update={"cell": name}) for name in names]
    results.write(run.verdict, verdict.model_copy(update={"cells": known}))
    asked: list[list[str]] = []

    def explain(self: Explainer, cells: list[str], left_out: int = 0) -> None:
        asked.append(cells)
        raise InfrastructureError("no plugin")

    monkeypatch.setattr(Explainer, "explain", explain)
    explain_gated(run, Plant(planted_in, 5, 1), Progress(quiet=True))
    assert asked == [cells]


def test_a_stored_explanation_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path, board="virt-arm64")
    results.write(run.verdict, grown())
    monkeypatch.setattr("iotoll_lab.experiments.named.is_current", lambda run: True)
    results.write(run.explained, explained(function("driver", 403, 403.0)))
    (run.root / "explain-seconds.json").write_text("12.5\n")
    row = explain_gated(RunDir.open(run.root), Plant("driver", 400, 1), Progress(quiet=True))
    assert (row.function, row.first, row.explain_seconds) == ("driver", 1, 12.5)


def test_a_copy_of_the_compilers_is_the_planted_function() -> None:
    copy = function("apart.constprop.0.isra.0", 401, 401.0)
    row = named(Plant("apart", 400, 1), explained(copy, function("caller", 5, 5.0)), grown())
    assert (row.function, row.first, row.exact) == ("apart.constprop.0.isra.0", 1, 1)


TEXT = "#include <a.h>\n\nint {name}(void)\n{{\n\treturn 0;\n}}\n"


def test_a_planted_patch_knows_its_plant() -> None:
    def read(path: str) -> str:
        return "".join(TEXT.format(name=name) for file, name in PLANTED if file == path)

    made = planted(1, 1, read)
    assert made.plant is not None and made.plant.function in made.what
    assert f"iotoll_planted({made.plant.every}, {made.plant.cost})" in made.text


def test_ten_shaped_patches_have_every_shape_and_condition() -> None:
    def read(path: str) -> str:
        return "".join(TEXT.format(name=p.function) for p in PLACES if p.path == path)

    made = [shaped(1, number, read) for number in range(1, 11)]
    plants = [one.plant for one in made if one.plant]
    assert {(p.condition, p.every) for p in plants} == {
        ("write", 1),
        ("large", 1),
        ("pages", 1),
        ("", 8),
    }
    for word in ("an inlined function", "an inlined one", "a new function"):
        assert sum(word in one.what for one in made) >= 3
    assert [one.plant.function for one in made[2::3] if one.plant] == ["iotoll_apart"] * 3
    for one in made:
        assert one.plant and one.text.count("+\tint planted __maybe_unused = ") == 1
        sizes = {one.plant.size(cell) for cell in CELLS.split(",")}
        assert max(sizes) > 0, "each costs something in one of the cells"
