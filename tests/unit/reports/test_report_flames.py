"""Flame graphs of the explained cells: in the page as images, and as pictures of their tests."""

from __future__ import annotations

import shutil
from base64 import b64decode
from pathlib import Path

import pytest

from iotoll.core.paths import data_dir
from iotoll.records import results
from iotoll.records.models import BuildRecord, ExplainRecord
from iotoll.records.rundir import SIDES, RunDir
from iotoll.reports.page import render_report
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.view import cells
from iotoll.reports.publish.judged import pictures

CASES = Path(__file__).parents[2] / "golden" / "data" / "report"
EXAMPLE = data_dir("results-schema") / "valid/explain.json"
FLAME = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><g/></svg>\n'


def explained(folder: Path, cell: str | None = None) -> RunDir:
    """A run of the goldens with an explanation of its first cell, or of one of that name."""
    run = RunDir(folder / "run")
    shutil.copytree(CASES / "regression", run.root)
    builds = [gather(run).builds[side] for side in SIDES]
    assert all(isinstance(build, BuildRecord) for build in builds)
    example = results.read(EXAMPLE, ExplainRecord)
    name = cell or cells(gather(run))[0].name.full
    part = example.cells[0].model_copy(update={"cell": name})
    images = [build.image_sha256 for build in builds]
    results.write(run.explained, example.model_copy(update={"cells": [part], "images": images}))
    return run


def put(run: RunDir, name: str, text: str = FLAME) -> None:
    results.write_text(run.root / "explain" / f"{name}.svg", text)


def test_a_flame_graph_is_part_of_the_page_and_of_its_test(tmp_path: Path) -> None:
    run = explained(tmp_path)
    view = cells(gather(run))[0]
    assert "Differential flame graph" not in render_report(run).read_text()
    put(run, view.name.full)
    page = render_report(run).read_text()
    _, _, rest = page.partition('<img class="flame" src="data:image/svg+xml;base64,')
    assert b64decode(rest.partition('"')[0]).decode() == FLAME
    made = pictures(gather(run), view)
    assert FLAME in made.values() and len(made) > 1
    other = cells(gather(run))[1]
    assert FLAME not in pictures(gather(run), other).values()


def test_an_explanation_of_other_kernels_has_no_picture(tmp_path: Path) -> None:
    run = explained(tmp_path)
    put(run, cells(gather(run))[0].name.full)
    record = results.read(run.explained, ExplainRecord)
    results.write(run.explained, record.model_copy(update={"images": ["0" * 64] * 2}))
    assert gather(run).flames == {}


@pytest.mark.parametrize("name", ["../outside", "sub/cell", "/outside"])
def test_only_files_of_the_run_are_read(tmp_path: Path, name: str) -> None:
    run = explained(tmp_path, name)
    for path in (run.root / "outside.svg", run.root / "explain/sub/cell.svg"):
        results.write_text(path, FLAME)
    assert gather(run).flames == {}


def test_links_and_huge_files_are_left_out(tmp_path: Path) -> None:
    run = explained(tmp_path, "linked")
    (run.root / "explain").mkdir()
    (tmp_path / "secret").write_text("secret")
    (run.root / "explain/linked.svg").symlink_to(tmp_path / "secret")
    assert gather(run).flames == {}
    (run.root / "explain/linked.svg").unlink()
    put(run, "linked", "x" * (1 << 20))
    assert set(gather(run).flames) == {"linked"}
    put(run, "linked", "x" * ((1 << 20) + 1))
    assert gather(run).flames == {}
