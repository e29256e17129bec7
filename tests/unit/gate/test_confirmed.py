"""What rules call no part of a kernel is confirmed by what the builds made their objects of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from iotoll.boards.matrix import load_matrix
from iotoll.ci import jobs
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.kernels.compiled import HOST_SOURCES, SOURCES, Notes, read_by_builds
from iotoll.patch import selection
from iotoll.records import results
from iotoll.records.models import Outcome, SelectionRecord, VerdictRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run import building, sandboxed
from tests.unit.runs import make_run

BASE = ["drivers/ufs/core/ufshcd.c", "include/linux/blkdev.h"]


def chosen(tmp_path: Path, paths: Sequence[str]) -> RunDir:
    run = make_run(tmp_path / "run", candidate_kind="patch", candidate="x.patch")
    cells = load_matrix(run.manifest.matrix).cells
    results.write(run.selection, selection.choose(paths, cells, None, {}))
    return run


def built(
    monkeypatch: pytest.MonkeyPatch, base: Sequence[str], candidate: Sequence[str] = ()
) -> list[Side]:
    """Builds that leave these lists; returns the sides that were built, in order."""
    made: list[Side] = []
    lists = {"base": [*BASE, *base], "candidate": [*BASE, *base, *candidate]}

    def build_side(run: RunDir, side: Side, *_: Any, **__: Any) -> None:
        made.append(side)
        results.write_text(run.build(side) / SOURCES, "".join(f"{n}\n" for n in lists[side]))

    monkeypatch.setattr(building, "build_side", build_side)
    monkeypatch.setattr(Flow, "_in_sandbox", lambda _: False)
    return made


def cells_of(run: RunDir) -> list[str]:
    return [c.cell for c in results.read(run.selection, SelectionRecord).cells]


@pytest.mark.parametrize(
    ("path", "devices"),
    [
        ("drivers/ufs/core/NOTES.md", {"ufs"}),
        ("drivers/nvme/host/README", {"nvme"}),
        ("samples/hidden.h", {"ufs", "nvme", "emmc"}),
        ("tools/hidden.c", {"ufs", "nvme", "emmc"}),
        ("Documentation/scsi/table.rst", {"ufs", "nvme", "emmc"}),
    ],
)
def test_g1_8_what_the_base_was_compiled_of_selects_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, devices: set[str]
) -> None:
    run = chosen(tmp_path, [path])
    assert cells_of(run) == []
    made = built(monkeypatch, [path])
    Flow(run, Progress(quiet=True)).build()
    assert {cell.partition("-")[0] for cell in cells_of(run)} == devices
    assert made == ["base", "base", "candidate"]


def test_g1_8_what_the_candidate_newly_includes_selects_cells_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = chosen(tmp_path, ["drivers/nvme/host/pci.c", "samples/hidden.h"])
    assert {cell.partition("-")[0] for cell in cells_of(run)} == {"nvme"}
    built(monkeypatch, [], ["samples/hidden.h"])
    Flow(run, Progress(quiet=True)).build()
    assert {cell.partition("-")[0] for cell in cells_of(run)} == {"ufs", "nvme", "emmc"}


def test_g1_8_a_header_that_may_be_found_in_anothers_place(tmp_path: Path) -> None:
    (tmp_path / SOURCES).write_text("include/linux/blkdev.h\nfs/main.c\n")
    (tmp_path / HOST_SOURCES).write_text("tools/objtool/check.c\n")
    asked = ["samples/new/blkdev.h", "samples/main.c", "tools/objtool/check.c", "samples/a.h"]
    assert read_by_builds(asked, [tmp_path]) == {"samples/new/blkdev.h", "tools/objtool/check.c"}


def test_g1_8_documentation_is_confirmed_and_then_passes_without_a_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = chosen(tmp_path, ["Documentation/scsi/ufs.rst"])
    made = built(monkeypatch, [])
    flow = Flow(run, Progress(quiet=True))
    flow.build()
    assert made == ["base"] and cells_of(run) == []
    flow.judge()
    verdict = results.read(run.verdict, VerdictRecord)
    assert verdict.outcome is Outcome.PASS
    assert "no object of the board's kernel is made of it" in verdict.sentence


@pytest.mark.parametrize("name", ["README.h", "README.c", "READMEs/x.c", "README.S", "README.inc"])
def test_g1_8_a_name_alone_makes_no_documentation(name: str) -> None:
    cells = load_matrix("default").cells
    found = selection.choose([f"drivers/ufs/core/{name}"], cells, None, {})
    assert {c.cell.partition("-")[0] for c in found.cells} == {"ufs"}


def test_g1_8_lists_hold_files_with_any_ending(tmp_path: Path) -> None:
    source, out = tmp_path / "src", tmp_path / "out"
    (source / "drivers").mkdir(parents=True)
    out.mkdir()
    note = (
        f"deps_x.o := \\\n  {source}/drivers/x.c \\\n  {source}/drivers/NOTES.md \\\n  -I{source}\n"
    )
    (out / ".x.o.cmd").write_text(note)
    Notes(out).write_sources(source, out)
    assert (out / SOURCES).read_text() == "drivers/NOTES.md\ndrivers/x.c\n"


def test_g1_8_a_pipelines_build_job_confirms_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = chosen(tmp_path, ["samples/hidden.h"])
    cached = tmp_path / "cached"

    def warm(*_: Any) -> int:
        results.write_text(cached / SOURCES, "samples/hidden.h\n")
        return 0

    class Job:
        is_done = True

    Job.cached = cached  # type: ignore[attr-defined]
    asked: list[Side] = []

    def build(_: RunDir, side: Side, *__: Any) -> Outcome:
        asked.append(side)
        return Outcome.PASS

    monkeypatch.setattr(sandboxed, "warm", warm)
    monkeypatch.setattr(sandboxed, "job_of", lambda *_: Job)
    monkeypatch.setattr(sandboxed, "build", build)
    monkeypatch.setattr(sandboxed, "hidden_from_candidates", lambda _: ())
    assert jobs.build(run, "candidate", Progress(quiet=True)) is Outcome.PASS
    assert asked == ["candidate"] and cells_of(run)
