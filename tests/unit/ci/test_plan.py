"""The first job of a pipeline, on small git repositories with a kernel's Makefile."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from iotoll.ci import children, plan
from iotoll.ci.repository import find_change, keep, place
from iotoll.cli import cli
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import (
    Clock,
    Outcome,
    PlanRecord,
    RunManifest,
    SelectionRecord,
    SummaryRecord,
)
from tests.repository import commit, git, kernel_tree, put
from tests.unit.ci.plans import PLAN
from tests.unit.killed import assert_git_keeps_lock

DRIVER = "drivers/ufs/core/ufshcd.c"
REQUEST = plan.PipelineRequest(project="storage/linux", boards=("virt-arm64",), pipeline=10)
QUIET = Progress(quiet=True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("CI_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A kernel project whose branch ``change`` left ``main`` before its last commit."""
    folder = kernel_tree(tmp_path / "linux", {DRIVER: "int a;\n"})
    git(folder, "branch", "change")
    put(folder, "fs/ext4/inode.c", "int b;\n")
    commit(folder, "main went on")
    git(folder, "checkout", "-q", "change")
    return folder


def made(clone: Path, root: Path, request: plan.PipelineRequest = REQUEST) -> PlanRecord:
    return plan.make_plan(request, find_change(clone, None, "HEAD", "main"), root, QUIET)


def test_the_merge_base_counts_not_the_target_of_today(clone: Path, tmp_path: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    put(clone, DRIVER, "int a, c, d;\n")
    tip = commit(clone, "ufs: two")
    found = made(clone, tmp_path / "p")
    assert found.base == git(clone, "rev-parse", "main~1") and found.candidate == tip
    run = tmp_path / "p/virtual/virt-arm64"
    selection = results.read(run / "selection.json", SelectionRecord)
    assert selection.changed_paths == [DRIVER]
    assert {c.cell.split("-")[0] for c in selection.cells} == {"ufs"}
    manifest = results.read(run / "run.json", RunManifest)
    assert manifest.base == found.base and manifest.candidate == tip
    source = (run / "sides/candidate/source.json").read_text()
    assert "ufs: one" in source and "ufs: two" in source
    assert plan.read_plan(tmp_path / "p") == found


def test_a_shallow_clone_fetches_its_merge_base(clone: Path, tmp_path: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    base = git(clone, "rev-parse", "main~1")
    git(clone, "config", "uploadpack.allowAnySHA1InWant", "true")
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "-q", "--depth=1", "-b", "change", f"file://{clone}", str(shallow))
    change = find_change(shallow, base, "HEAD", None)
    kept = keep(change, "storage/linux")
    assert git(kept, "show", f"{base}:{DRIVER}") == "int a;"
    assert git(kept, "show", f"{change.candidate}:{DRIVER}") == "int a, c;"


def test_commits_are_kept_once(clone: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    change = find_change(clone, None, "HEAD", "main")
    kept = keep(change, "storage/linux")
    before = sorted((kept / "objects").rglob("*"))
    (clone / ".git").rename(clone / "gone")  # a job's clone is gone afterwards
    assert keep(change, "storage/linux") == kept
    assert sorted((kept / "objects").rglob("*")) == before


def test_commits_are_kept_by_one_job_at_a_time(clone: Path) -> None:
    """Two pipelines' first jobs at once: git refused the second one (shallow.lock)."""
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    change = find_change(clone, None, "HEAD", "main")
    with ThreadPoolExecutor(6) as pool:
        kept = set(pool.map(lambda _: keep(change, "storage/linux"), range(6)))
    assert len(kept) == 1


_KEEPER = """
import sys
from pathlib import Path
from iotoll.ci.repository import MergeChange, keep
keep(MergeChange(Path(sys.argv[1]), "a" * 40, "b" * 40), "storage/linux")
"""


def test_a_killed_job_holds_the_commits_until_its_git_ends(clone: Path, tmp_path: Path) -> None:
    """The next job removes what a killed git left, and would remove what this one uses."""
    lock = place("storage/linux").with_suffix(".lock")
    assert_git_keeps_lock(_KEEPER, [clone], lock, tmp_path)


def test_a_job_that_was_killed_while_it_kept_commits_is_no_obstacle(clone: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    change = find_change(clone, None, "HEAD", "main")
    kept = place("storage/linux")
    kept.mkdir(parents=True)
    for name in ("shallow.lock", "config.lock"):
        (kept / name).touch()
    assert keep(change, "storage/linux") == kept
    assert git(kept, "show", f"{change.candidate}:{DRIVER}") == "int a, c;"


def test_what_cannot_be_found_names_the_mend(clone: Path) -> None:
    with pytest.raises(UsageError, match="nowhere: no such commit"):
        find_change(clone, "nowhere", "HEAD", None)
    with pytest.raises(UsageError, match="give --base, or --target"):
        find_change(clone, None, "HEAD", None)
    git(clone, "checkout", "-q", "--orphan", "other")
    git(clone, "commit", "-q", "-m", "unrelated")
    with pytest.raises(UsageError, match="GIT_DEPTH: 0"):
        find_change(clone, None, "HEAD", "main")


def test_a_change_that_selects_nothing_is_planned_as_that(clone: Path, tmp_path: Path) -> None:
    put(clone, "Documentation/x.rst", "words\n")
    commit(clone, "docs")
    found = made(clone, tmp_path / "p")
    assert found.nothing
    settings: dict[str, object] = {"iotoll": "iotoll", "tags": [], "image": ""}
    child = children.child_pipeline(found, [], settings)
    assert list(child) == ["nothing"]


@pytest.mark.parametrize("what", ["symbolic link", "submodule", "binary file"])
def test_what_a_change_may_not_carry_is_refused(clone: Path, tmp_path: Path, what: str) -> None:
    if what == "symbolic link":
        (clone / "drivers/link").symlink_to("/etc/shadow")
        commit(clone, "link")
    elif what == "submodule":
        commit_name = git(clone, "rev-parse", "HEAD")
        git(clone, "update-index", "--add", "--cacheinfo", f"160000,{commit_name},drivers/sub")
        git(clone, "commit", "-q", "-m", "sub")
    else:
        (clone / "drivers/blob.c").write_bytes(b"int a;\0\n")
        put(clone, ".gitattributes", "*.c diff\n")  # it would call the file text
        commit(clone, "blob")
    git(clone, "checkout", "-q", "-f", "change")
    words = ["ci", "select", "--clone", str(clone), "--target", "main", "--board", "virt-arm64"]
    done = CliRunner().invoke(cli, [*words, "--root", str(tmp_path / "p")])
    assert isinstance(done.exception, UsageError) and what in str(done.exception)
    assert what in str(plan.read_plan(tmp_path / "p").refused)
    assert not (tmp_path / "p/virtual").exists()
    done = CliRunner().invoke(cli, ["ci", "judge", "--root", str(tmp_path / "p")])
    assert done.exit_code == Outcome.BROKEN.exit_code


@pytest.mark.parametrize("name", ["../../x", "/etc/x.toml", "a b", "$(id)", "-x", ""])
def test_boards_have_plain_names(clone: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="names of boards, no files"):
        made(clone, tmp_path / "p", plan.PipelineRequest("x", boards=(name,)))


def test_the_child_pipeline_makes_the_same_plan_again(clone: Path, tmp_path: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    tip = commit(clone, "ufs: one")
    words = ["ci", "select", "--clone", str(clone), "--target", "main", "--project", "s/linux"]
    boards = ["--board", "[virt-arm64]", "--lava-board", "virt-arm64", "--cells", "ufs-4k-*-t1-*"]
    done = CliRunner().invoke(cli, [*words, *boards, "--root", str(tmp_path / "p")])
    assert done.exit_code == 0, done.output
    child = yaml.safe_load((tmp_path / "p/boards.yml").read_text())
    assert list(child) == ["stages", "build virt-arm64", "lava virt-arm64"]
    line = child["build virt-arm64"]["script"][0].replace("iotoll ci select", "")
    again = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {line}"], capture_output=True, text=True, check=True
    )
    more = ["--clone", str(clone), "--root", str(tmp_path / "q")]
    done = CliRunner().invoke(cli, ["ci", "select", *again.stdout.splitlines(), *more])
    assert done.exit_code == 0, done.output
    assert plan.read_plan(tmp_path / "q").candidate == tip
    parts = [tmp_path / root / "lava/virt-arm64/selection.json" for root in ("p", "q")]
    assert parts[0].read_bytes() == parts[1].read_bytes()


def test_inputs_that_are_left_empty_mean_their_defaults(clone: Path, tmp_path: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    words = ["ci", "select", "--clone", str(clone), "--target", "main", "--board", '["virt-arm64"]']
    empty = ["--cells", "", "--lava-board", "", "--lab", "", "--job-image", "", "--job-tag", ""]
    done = CliRunner().invoke(cli, [*words, *empty, "--root", str(tmp_path / "p")])
    assert done.exit_code == 0, done.output
    assert plan.read_plan(tmp_path / "p").lava_boards == []
    selection = results.read(tmp_path / "p/virtual/virt-arm64/selection.json", SelectionRecord)
    assert len(selection.cells) == 23


def test_boards_of_one_pipeline_do_not_supersede_each_other(clone: Path, tmp_path: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    request = plan.PipelineRequest(
        "s/linux", boards=(), lava_boards=("virt-arm64", "virt-x86_64"), merge_request=7
    )
    made(clone, tmp_path / "p", request)
    series = [
        results.read(path, RunManifest).series for path in (tmp_path / "p/lava").glob("*/run.json")
    ]
    assert sorted(map(str, series)) == ["s/linux!7/virt-arm64", "s/linux!7/virt-x86_64"]


def test_a_real_board_is_judged_by_its_times(clone: Path, tmp_path: Path) -> None:
    put(clone, DRIVER, "int a, c;\n")
    commit(clone, "ufs: one")
    local = (data_dir("lava-jobs") / "labs/local.toml").read_text()
    (tmp_path / "lab.toml").write_text(local.replace("simulated = true", "simulated = false"))
    request = plan.PipelineRequest(
        "s/linux",
        boards=("virt-arm64",),
        lava_boards=("hikey960",),
        lab=str(tmp_path / "lab.toml"),
        lava_matrix="hikey960",
    )
    made(clone, tmp_path / "p", request)
    run = results.read(tmp_path / "p/lava/hikey960/run.json", RunManifest)
    assert (run.clock, run.policy, run.accelerator) == (Clock.TIME, "time", "none")
    assert run.seed is not None, "the order of its boots is drawn"
    virtual = results.read(tmp_path / "p/virtual/virt-arm64/run.json", RunManifest)
    assert (virtual.clock, virtual.policy) == (Clock.INSTRUCTIONS, "instructions")
    with pytest.raises(UsageError, match="is not of the clock 'time' of board hikey960"):
        made(clone, tmp_path / "q", replace(request, lava_policy="instructions"))


def test_results_of_another_pipeline_are_not_posted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = PLAN.model_copy(update={"lava_boards": [], "refused": "it carries a link"})
    summary = SummaryRecord(
        outcome=Outcome.BROKEN, exit_code=5, sentence="Fine.", plan=found, runs=[]
    )
    results.write(tmp_path / "summary.json", summary)
    (tmp_path / "note.md").write_text("fine")
    monkeypatch.setenv("CI_PIPELINE_ID", "11")
    monkeypatch.setenv("CI_MERGE_REQUEST_IID", "7")
    done = CliRunner().invoke(cli, ["ci", "post", "--root", str(tmp_path)])
    assert "is of another pipeline: CI_PIPELINE_ID is not 10" in str(done.exception)
    monkeypatch.setenv("CI_PIPELINE_ID", "10")
    done = CliRunner().invoke(cli, ["ci", "post", "--root", str(tmp_path)])
    assert "no IOTOLL_GITLAB_TOKEN" in str(done.exception)


def test_a_native_board_has_its_own_matrix_and_clock_in_a_pipeline(
    clone: Path, tmp_path: Path
) -> None:
    """The inputs' matrix, policy and cells are those of boards that count instructions."""
    put(clone, "block/blk-mq.c", "int d;\n")
    commit(clone, "block: more")
    asked = replace(REQUEST, boards=("virt-arm64", "host-uml"), policy="instructions")
    made(clone, tmp_path / "root", asked)
    found = results.read(plan.run_folder(tmp_path / "root", "host-uml", "local") / "run.json",
                         RunManifest)  # fmt: skip
    assert (found.matrix, found.policy, found.clock) == ("host-uml", "time", Clock.TIME)
