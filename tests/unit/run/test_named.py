"""What the experiment says of a planted function that explain names, or does not."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from iotoll.core.paths import data_dir
from iotoll.records import results
from iotoll.records.models import CellDelta, ExplainRecord, FunctionDelta, InlinedDelta
from iotoll.run.studies.named import Named, loop_size, named, print_named
from iotoll.run.studies.variants import PLACES, Plant, planted

EXAMPLE = results.read(data_dir("results-schema") / "valid/explain.json", ExplainRecord)


def function(name: str, delta: int, mean: float, *, changed: bool = True) -> FunctionDelta:
    return FunctionDelta(
        name=name,
        base=10,
        candidate=10 + delta,
        delta=delta,
        share=0.9,
        mean=mean,
        calls_base=1,
        calls_candidate=1,
        callers=[],
        changed=changed,
    )


def explained(*functions: FunctionDelta) -> ExplainRecord:
    cell = EXAMPLE.cells[0]
    section = cell.sections[0].model_copy(update={"functions": list(functions)})
    made: CellDelta = cell.model_copy(update={"sections": [section]})
    return EXAMPLE.model_copy(update={"cells": [made]})


@pytest.mark.parametrize(("cost", "size"), [(5, 6), (20, 20), (400, 400)])
def test_the_loop_counts_two_a_turn(cost: int, size: int) -> None:
    assert loop_size(cost) == size


def test_a_function_that_is_first_with_its_size() -> None:
    record = explained(function("driver", 403, 403.0), function("other", 1, 1.0, changed=False))
    row = named("planted-1", "what", Plant("driver", 400, 1), record)
    assert (row.function, row.size, row.planted, row.first, row.exact) == (
        "driver",
        403,
        400,
        True,
        True,
    )


def test_another_first_function_or_size_is_no_hit() -> None:
    record = explained(function("other", 900, 900.0), function("driver", 403, 403.0))
    assert not named("planted-1", "what", Plant("driver", 400, 1), record).first
    row = named("planted-1", "what", Plant("driver", 50, 1), record)
    assert row.first is False and row.exact is False


def test_a_conditional_cost_is_a_mean() -> None:
    record = explained(function("driver", 6, 6 + 400 / 8))
    row = named("planted-2", "what", Plant("driver", 400, 8), record)
    assert (row.size, row.planted, row.exact) == (56, 50, True)


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
    row = named("planted-3", "what", Plant("static_one", 20, 1), explained(into))
    assert row.function == "driver" and row.first and row.exact


def test_code_that_never_ran_is_no_miss_and_no_hit() -> None:
    row = named("planted-4", "what", Plant("absent", 5, 1), explained())
    assert row.function == "" and row.why == EXAMPLE.coverage.sentence
    out = io.StringIO()
    hit = Named("planted-1", "what", "pass", "driver", "cell", "vfs_fs", 6.0, 6.0, True, True)
    print_named([row, hit], Console(file=out, width=200))
    assert "named first with its size: 1 of 1 whose code ran" in out.getvalue()


def test_a_planted_patch_knows_its_plant() -> None:
    text = "#include <a.h>\n\nint {name}(void)\n{{\n\treturn 0;\n}}\n"

    def read(path: str) -> str:
        return "".join(text.format(name=name) for file, name in PLACES if file == path)

    made = planted(1, 1, read)
    assert made.plant is not None and made.plant.function in made.what
    assert f"iotoll_planted({made.plant.every}, {made.plant.cost})" in made.text
