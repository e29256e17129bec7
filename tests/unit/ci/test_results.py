"""Verdicts of a pipeline from its runs, its note, and what comes back of a lab's boards."""

from __future__ import annotations

import re
import stat
import zipfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from iotoll.ci import children, jobs
from iotoll.ci import summary as pipeline_note
from iotoll.ci.summary import summarize, worst
from iotoll.core.errors import ResultError, UsageError
from iotoll.core.paths import data_dir
from iotoll.records import results
from iotoll.records.models import (
    Clock,
    FailureRecord,
    Outcome,
    PipelineRun,
    SummaryRecord,
    VerdictRecord,
)
from iotoll.reports.publish.markdown import harmless
from iotoll.run import sandboxed
from tests.unit.ci.plans import PLAN
from tests.unit.runs import agreeing, make_run

VERDICT = data_dir("results-schema") / "valid/verdict.json"
BOARD = "virt-arm64"


def put(
    root: Path,
    runner: str,
    outcome: Outcome | None,
    clock: Clock = Clock.INSTRUCTIONS,
    policy: str | None = None,
) -> None:
    """A run with this outcome."""
    folder = root / runner / BOARD
    make_run(
        folder,
        board=BOARD,
        candidate_kind="revision",
        base="1" * 40,
        clock=clock,
        policy=policy or clock.value,
    )
    if outcome is not None:
        verdict = results.read(VERDICT, VerdictRecord)
        changes = {"sentence": "It is so.", "clock": clock}
        results.write(
            folder / "verdict.json", agreeing(verdict, outcome).model_copy(update=changes)
        )


@pytest.mark.parametrize(
    ("gate", "lab", "whole"),
    [
        (Outcome.PASS, Outcome.PASS, Outcome.PASS),
        (Outcome.PASS, Outcome.REGRESSION, Outcome.REGRESSION),
        (Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.INCONCLUSIVE),
        (Outcome.PASS, None, Outcome.INFRASTRUCTURE),
        (Outcome.INCONCLUSIVE, Outcome.PASS, Outcome.INCONCLUSIVE),
        (Outcome.REGRESSION, None, Outcome.REGRESSION),
        (Outcome.BROKEN, None, Outcome.BROKEN),
        (None, None, Outcome.INFRASTRUCTURE),
    ],
)
def test_the_worst_run_decides_and_what_is_missing_never_passes(
    tmp_path: Path, gate: Outcome | None, lab: Outcome | None, whole: Outcome
) -> None:
    put(tmp_path, "virtual", gate)
    put(tmp_path, "lava", lab)
    made = summarize(tmp_path, PLAN)
    assert made.outcome is whole
    assert made.exit_code == whole.exit_code
    assert results.read(tmp_path / "summary.json", SummaryRecord) == made


def test_a_board_after_a_failed_gate_is_not_run_and_not_blamed(tmp_path: Path) -> None:
    put(tmp_path, "virtual", Outcome.REGRESSION)
    made = summarize(tmp_path, PLAN)
    assert made.runs[1].sentence == "Not run: the deterministic gate failed."


@pytest.mark.parametrize(
    ("side", "said", "whole"),
    [
        ("candidate", "broken", Outcome.BROKEN),
        ("candidate", "infrastructure", Outcome.INFRASTRUCTURE),
        ("candidate", "pass", Outcome.INFRASTRUCTURE),
        ("base", "broken", Outcome.INFRASTRUCTURE),
    ],
)
def test_a_failed_build_is_a_verdict_with_its_report(
    tmp_path: Path, side: str, said: str, whole: Outcome
) -> None:
    put(tmp_path, "virtual", None)
    failure = FailureRecord(
        outcome=Outcome(said), step="build", message="no type sise_t", log_tail="Error 1"
    )
    results.write(tmp_path / f"virtual/{BOARD}/sides/{side}/build/failure.json", failure)
    made = summarize(tmp_path, PLAN.model_copy(update={"lava_boards": []}))
    assert made.outcome is whole
    assert "no type sise_t" in made.sentence
    assert (tmp_path / f"virtual/{BOARD}/report/index.html").is_file()


def test_hostile_result_files_are_infrastructure(tmp_path: Path) -> None:
    put(tmp_path, "virtual", None)
    (tmp_path / f"virtual/{BOARD}/verdict.json").write_text('{"outcome": "pass"}')
    made = summarize(tmp_path, PLAN.model_copy(update={"lava_boards": []}))
    assert made.outcome is Outcome.INFRASTRUCTURE


def test_a_refused_change_is_broken(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"refused": "the patch makes x a symbolic link: refused"})
    made = summarize(tmp_path, plan)
    assert made.outcome is Outcome.BROKEN and "symbolic link" in made.sentence


def test_an_image_that_is_not_what_was_built_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    image = run.build("candidate") / "Image"
    with pytest.raises(ResultError, match="holds no image"):
        sandboxed.check_build(run, "candidate")
    image.write_bytes(b"another")
    with pytest.raises(ResultError, match=r"is not what build\.json says"):
        sandboxed.check_build(run, "candidate")
    image.unlink()
    image.symlink_to("/etc/passwd")
    with pytest.raises(ResultError, match="holds no image"):
        sandboxed.check_build(run, "candidate")


def archive(path: Path, name: str, mode: int = stat.S_IFREG | 0o644, data: bytes = b"x") -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        packed.writestr(member, data)
    return path


def test_a_boards_artifacts_are_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.zip", f"iotoll/lava/{BOARD}/verdict.json")
    children.unpack(path, tmp_path / "root", BOARD)
    assert (tmp_path / f"root/lava/{BOARD}/verdict.json").read_bytes() == b"x"


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        (f"iotoll/lava/{BOARD}/../../../../evil", stat.S_IFREG),
        (f"iotoll/lava/{BOARD}/link", stat.S_IFLNK | 0o777),
        (f"iotoll/lava/{BOARD}/fifo", stat.S_IFIFO),
    ],
)
def test_hostile_artifacts_are_refused(tmp_path: Path, name: str, mode: int) -> None:
    path = archive(tmp_path / "a.zip", name, mode)
    with pytest.raises(ResultError, match="is refused"):
        children.unpack(path, tmp_path / "root", BOARD)
    assert not (tmp_path / "root").exists()


@pytest.mark.parametrize(
    "name",
    ["/etc/evil", "iotoll/virtual/x/verdict.json", "iotoll/plan.json", "iotoll/lava/other/x"],
)
def test_artifacts_outside_of_their_boards_run_are_not_taken(tmp_path: Path, name: str) -> None:
    children.unpack(archive(tmp_path / "a.zip", name), tmp_path / "root", BOARD)
    assert not (tmp_path / "root").exists()


def test_artifacts_that_blow_up_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "LARGEST", 1000)
    path = archive(tmp_path / "a.zip", f"iotoll/lava/{BOARD}/x", data=b"0" * 1001)
    with pytest.raises(ResultError, match="larger than"):
        children.unpack(path, tmp_path / "root", BOARD)
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with pytest.raises(ResultError, match="not an archive"):
        children.unpack(tmp_path / "a.zip", tmp_path / "root", BOARD)


def test_only_a_pipelines_own_folder_is_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(UsageError, match="not a pipeline's folder"):
        jobs.fresh(tmp_path)
    assert (tmp_path / "thesis.txt").is_file()


PIECES = [*"/@!#$%~&:;<>[](){}|`*_\\\"'\n\r\t -+.x7\u202e\0", "merge", "&#64;", "&commat;"]
HOSTILE = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@given(HOSTILE)
def test_a_note_gives_no_order_and_calls_nobody(text: str) -> None:
    done = harmless(f"intro\n{text}\nend")
    assert not re.search(r"^[ \t>*+-]*/[A-Za-z]", done, re.M)
    assert not re.search(r"(?<![A-Za-z0-9&])[@!#$%~&][A-Za-z0-9_\"]", done)
    assert "\0" not in done and "\u202e" not in done and "\r" not in done


@given(HOSTILE)
@example("<b>x</b> @all [y](https://evil.example) /merge")
def test_what_a_run_says_is_no_markup_in_the_pipelines_note(hostile: str) -> None:
    run = PipelineRun(
        run="virtual/x", board="x", runner="local", outcome=Outcome.PASS, sentence=hostile
    )
    summary = SummaryRecord(
        outcome=Outcome.PASS, exit_code=0, sentence=hostile, plan=PLAN, runs=[run, run]
    )
    shown = (
        MarkdownIt("commonmark")
        .enable("table")
        .render(pipeline_note.pipeline_note(summary, [], None))
    )
    tags = set(re.findall(r"<(\w+)", shown))
    assert tags <= {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "code"}
    assert shown.count("<tr>") == 3, "a line stays one line"
    assert not re.search(r"@\w", shown)


def test_two_clocks_are_read_together(tmp_path: Path) -> None:
    put(tmp_path, "virtual", Outcome.PASS)
    put(tmp_path, "lava", Outcome.REGRESSION, Clock.TIME)
    made = summarize(tmp_path, PLAN)
    assert made.outcome is Outcome.REGRESSION
    assert made.reading.startswith("Slower without more instructions")
    assert "Slower without more instructions" in pipeline_note.pipeline_note(made, [], None)


def test_a_clock_that_the_policy_shows_only_does_not_block(tmp_path: Path) -> None:
    policy = tmp_path / "shown.toml"
    text = (data_dir("pipelines") / "policies/time.toml").read_text()
    policy.write_text(
        text.replace('blocks = ["instructions", "time"]', 'blocks = ["instructions"]')
    )
    put(tmp_path, "lava", Outcome.REGRESSION, Clock.TIME, str(policy))
    alone = summarize(tmp_path, PLAN.model_copy(update={"boards": []}))
    assert alone.outcome is Outcome.REGRESSION, "nothing else could block"
    put(tmp_path, "virtual", Outcome.PASS)
    made = summarize(tmp_path, PLAN)
    assert made.outcome is Outcome.PASS
    assert "does not block by it" in made.runs[1].sentence


def test_addresses_of_a_note_stay_as_they_are() -> None:
    line = "[report](<https://ci.example/x/-/jobs/1/artifacts/a%20b/index.html?a=1&b=2#cell-7>)"
    assert harmless(line) == line
    assert harmless("https://x.example/@all @all") == "https://x.example/@\u200ball @\u200ball"


def test_a_note_says_the_verdict_first_and_what_inconclusive_is() -> None:
    plan = PLAN.model_copy(update={"lava_boards": []})
    summary = SummaryRecord(
        outcome=Outcome.INCONCLUSIVE, exit_code=3, sentence="x", plan=plan, runs=[]
    )
    first = pipeline_note.pipeline_note(summary, [], None).splitlines()[0]
    assert first.startswith("### iotoll: INCONCLUSIVE") and "not a pass" in first


def test_a_board_that_informs_decides_nothing_where_another_judges() -> None:
    def run(outcome: Outcome, clock: Clock | None) -> PipelineRun:
        words = {"board": "b", "runner": "local", "run": "r", "sentence": "s"}
        return PipelineRun.model_validate({**words, "outcome": outcome, "clock": clock})

    judged = run(Outcome.PASS, Clock.INSTRUCTIONS)
    for outcome in (Outcome.REGRESSION, Outcome.INCONCLUSIVE):
        assert worst([judged, run(outcome, None)]) is Outcome.PASS
        assert worst([run(outcome, None)]) is outcome
    assert worst([judged, run(Outcome.INFRASTRUCTURE, None)]) is Outcome.INFRASTRUCTURE
