"""Costs of a stated size in one section of every I/O: the patches, and what a verdict says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from iotoll_lab.experiments import gates, sized
from iotoll_lab.experiments.sized import COUNT, ENTRIES, SIZES, found_in

from iotoll.core.errors import UsageError
from iotoll.records import results
from iotoll.records.models import (
    CellVerdict,
    Outcome,
    Section,
    SectionComparison,
    VerdictRecord,
)
from tests.unit.runs import EXAMPLES, make_run

VERDICT = results.read(EXAMPLES / "verdict.json", VerdictRecord)


def read(path: str) -> str:
    """A kernel source that has the functions of `ENTRIES`, and an earlier caller of one of them."""
    bodies = "".join(
        f"ssize_t {function}(struct file *file)\n{{\n\tint x = 1;\n\n"
        f"{sized.ENDS.get(function, '')}\treturn x;\n}}\n\n"
        for places in ENTRIES.values()
        for known, function in places
        if known == path
    )
    return f"#include <linux/fs.h>\n\n/* calls vfs_read() */\n\tinc_syscr(current);\n{bodies}"


def part(section: str, moved: str, delta: float, *, gated: bool = True) -> SectionComparison:
    return SectionComparison(
        section=Section(section),
        base=1000,
        candidate=1000 + delta,
        delta=delta,
        relative=delta / 1000,
        threshold=4,
        gated=gated,
        moved=moved,
        confidence="",
    )


def verdict(*cells: tuple[str, list[SectionComparison]]) -> VerdictRecord:
    made = [CellVerdict(cell=c, outcome=Outcome.REGRESSION, sections=s) for c, s in cells]
    return VERDICT.model_copy(update={"cells": made, "pools": []})


@pytest.mark.parametrize("number", range(1, COUNT + 1))
def test_each_patch_has_its_size_in_each_function_of_its_section(number: int) -> None:
    made = sized.sized(1, number, read)
    section = list(ENTRIES)[(number - 1) // len(SIZES)]
    cost, every = SIZES[(number - 1) % len(SIZES)]
    assert made.what.startswith(f"{section}: {cost} instructions in ")
    assert made.text.count(f"iotoll_planted({every}, {cost});") == len(ENTRIES[section])
    files = {path for path, _ in ENTRIES[section]}
    assert made.text.count("int iotoll_planted(unsigned") == len(files), "one loop for each file"


def test_cost_of_return_stands_behind_everything_else_of_its_own_function() -> None:
    made = sized.sized(1, 19, read)
    for name in ("inc_syscr", "inc_syscw"):
        assert made.text.count(f"iotoll_planted(1, 5);\n+\t}}\n \t{name}(current);\n") == 1
    assert " \tint x = 1;\n" in made.text, "it is not at the entry"


def test_more_patches_than_there_are_and_another_kernel_are_one_line() -> None:
    with pytest.raises(UsageError, match="has 24 patches, no 25: lower --patches"):
        sized.sized(1, 25, read)
    with pytest.raises(UsageError, match="choose another tree"):
        sized.sized(1, 19, lambda path: read(path).replace("inc_sysc", "count"))


def test_cells_that_miss_it_and_sections_that_must_not_show_it_are_named() -> None:
    found = found_in(
        verdict(
            ("ufs-4k-randread-t1-direct", [part("submission", "grew", 6)]),
            (
                "ufs-4k-randread-t8-direct",
                [part("submission", "same", 0), part("return", "grew", 9)],
            ),
            ("nvme-4k-randread-t8-direct", [part("submission", "unknown", 0)]),
            ("emmc-4k-randread-t8-direct", [part("submission", "grew", 8, gated=False)]),
        ),
        "submission",
        5,
        1,
    )
    assert (found.found, found.judged, found.found_t1, found.judged_t1) == (1, 2, 1, 1)
    assert found.delta == 6
    assert found.missed == ["ufs-4k-randread-t8-direct"]
    assert found.elsewhere == ["ufs-4k-randread-t8-direct return +9"]


def test_table_is_made_of_stored_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "reader", lambda *_: read)
    monkeypatch.setattr(gates, "_alarms", lambda *_: 0)
    run = make_run(tmp_path / "sized-1")
    stored = verdict(("ufs-4k-randread-t1-direct", [part("vfs_fs", "grew", 6)]))
    results.write(run.verdict, stored)
    command = ["--out", str(tmp_path), "--patches", "1"]
    done = CliRunner().invoke(sized.sized_command, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    (row,) = json.loads((tmp_path / "found.json").read_text())
    assert (row["section"], row["cost"], row["found"], row["judged"]) == ("vfs_fs", 5, 1, 1)
    assert "1 of 1" in done.output
