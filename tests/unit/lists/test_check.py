"""What `iotoll check` says to b4: its lines, its JSON, and b4 itself with it."""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.lists import check
from iotoll.lists.check import Asked, Checked, Finding
from iotoll.records import results
from iotoll.records.models import FailureRecord, Outcome, SourceRecord, VerdictRecord
from iotoll.records.rundir import RunDir
from tests.repository import commit, git, kernel_tree, put
from tests.unit.kernels.archives import FILES, LINES
from tests.unit.lists.archives import finished, mail

pytestmark = pytest.mark.usefixtures("cache")
ROOT = Path(__file__).parents[3]
B4 = [sys.executable, "-c", "from b4.command import cmd; cmd()", "--no-stdin", "--offline-mode"]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    return kernel_tree(tmp_path / "linux", FILES)


def asked(tree: Path) -> Asked:
    return Asked(str(tree), None, None, "default", None, None)


def verdict_of(run: RunDir) -> VerdictRecord:
    return results.read(run.verdict, VerdictRecord)


def failed(run: RunDir, outcome: Outcome, step: str) -> VerdictRecord:
    failure = FailureRecord(outcome=outcome, step=step, message="It is so.")
    changes = {"outcome": outcome, "failure": failure, "sentence": "It is so.", "warnings": []}
    return verdict_of(run).model_copy(update=changes)


def guess(run: RunDir) -> None:
    path = run.side("base") / "source.json"
    record = results.read(path, SourceRecord)
    changes = {"base_by": "guess", "base_why": "HEAD has 1 of 2 files"}
    results.write(path, record.model_copy(update=changes))


def test_a_pass_without_a_warning_is_silent(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    verdict = verdict_of(run).model_copy(update={"warnings": []})
    assert not check.conclude(run, verdict, later=False).findings


def test_growth_is_an_error_a_line_each(tmp_path: Path) -> None:
    run = finished(tmp_path / "run", "regression")
    found = check.conclude(run, verdict_of(run), later=False).findings
    assert found[0].line.startswith("ERROR: ")
    assert "submission" in found[0].line
    assert str(run.report) in found[0].line
    assert all("\n" not in one.line for one in found)


def test_what_was_not_measured_is_a_warning_and_never_silence(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    for outcome in (Outcome.INFRASTRUCTURE, Outcome.INCONCLUSIVE):
        found = check.conclude(run, failed(run, outcome, "boot"), later=False).findings
        assert [one.status for one in found] == ["warn"]


def test_a_patch_that_does_not_apply_fails_only_on_a_base_that_is_known(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    broken = failed(run, Outcome.BROKEN, "apply")
    assert [one.status for one in check.conclude(run, broken, later=False).findings] == ["fail"]
    assert [one.status for one in check.conclude(run, broken, later=True).findings] == ["warn"]
    guess(run)
    assert [one.status for one in check.conclude(run, broken, later=False).findings] == ["warn"]


def test_a_guessed_base_is_said(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    guess(run)
    found = check.conclude(run, verdict_of(run), later=False).findings
    assert any("the base is a guess: HEAD has 1 of 2 files" in one.text for one in found)


def test_no_text_of_a_patch_makes_a_warning_a_failure() -> None:
    one = Finding("warn", "ERROR: from a log\nERROR: again\x1b[2J")
    assert "ERROR:" not in one.line
    assert one.line.isprintable()


def test_b4s_json() -> None:
    found = Checked((Finding("warn", "odd"), Finding("fail", "grew")), "It grew.")
    (entry,) = json.loads(check.b4_text(found))
    assert (entry["tool"], entry["status"], entry["summary"]) == ("iotoll", "fail", "It grew.")
    assert json.loads(entry["details"])[1] == {"status": "fail", "description": "grew"}
    (entry,) = json.loads(check.b4_text(Checked((), "Nothing to measure.")))
    assert entry["status"] == "pass"


def test_documentation_neither_builds_nor_boots(
    linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("it was built")

    monkeypatch.setattr("iotoll.gate.flow.Flow.build", never)
    put(linux, "Documentation/x.rst", "other words\n")
    commit(linux, "docs: other words")
    found = check.check(
        git(linux, "format-patch", "--stdout", "-1").encode() + b"\n", asked(linux), "it"
    )
    assert not found.findings
    assert found.sentence.startswith("nothing to run")


def test_a_lab_that_fails_is_a_warning(linux: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise InfrastructureError("no disk")

    monkeypatch.setattr(check, "_judge", fails)
    found = check.check(mail("[PATCH] ufs: x", "a"), asked(linux), "it")
    assert [one.line for one in found.findings] == ["WARNING: not measured: no disk"]


def test_a_cover_letter_alone_is_not_measured(
    linux: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("B4_TRACKING_FILE", raising=False)
    cover = mail("[PATCH 0/2] ufs", "c", body="")
    assert "cover letter" in check.check(cover, asked(linux), "it").findings[0].text
    tracking = tmp_path / "t.json"
    monkeypatch.setenv("B4_TRACKING_FILE", str(tracking))
    for text in ("", "[]", '{"series": {"first-patch-commit": "--x", "change-id": "a"}}'):
        tracking.write_text(text)
        assert "names none" in check.check(cover, asked(linux), "it").findings[0].text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"just words\n", "standard input: holds no change"),
        (mail("[PATCH] ufs: x", "a", body="the mail ends here\n"), 'input: the patch "ufs: x" has'),
        (mail("[PATCH 2/2] ufs: x", "a", body=""), 'input: the patch "ufs: x" has no diff'),
        (b"\0", "standard input: is a binary file"),
        (mail("[PATCH] x", "a", "diff --git a/../x b/../x\n"), "standard input: "),
    ],
)
def test_what_is_no_patch_is_refused_and_named(
    data: bytes, words: str, linux: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(linux)
    done = CliRunner().invoke(check.check_command, ["-"], input=data)
    assert isinstance(done.exception, UsageError)
    assert words in str(done.exception)
    assert str(linux.parent) not in str(done.exception)


def test_a_review_hands_over_its_branch(
    linux: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[object] = []

    def judge(folder: Path, choice: object, *_: object, **__: object) -> Checked:
        given.append(choice)
        return Checked((), "fine")

    monkeypatch.setattr(check, "_judge", judge)
    git(linux, "checkout", "-q", "-b", "b4/review/20260105-x")
    put(linux, "drivers/ufs/core/ufshcd.c", LINES.replace("line 2\n", "LINE 2\n"))
    first = commit(linux, "ufs: one")
    git(linux, "commit", "-q", "--allow-empty", "-m", "tracking")
    tracking = tmp_path / "t.json"
    series = {"first-patch-commit": first, "change-id": "20260105-x"}
    tracking.write_text(json.dumps({"series": series}))
    monkeypatch.setenv("B4_TRACKING_FILE", str(tracking))
    check.check(mail("[PATCH 0/1] ufs", "c", body=""), asked(linux), "it")
    (choice,) = given
    assert getattr(choice, "candidate", "") == f"{first}^..b4/review/20260105-x~1"


def environment(tmp_path: Path) -> dict[str, str]:
    """b4 without the user's settings, and with this iotoll."""
    return {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "xdg"),
        "XDG_DATA_HOME": str(tmp_path / "xdg"),
        "GIT_CONFIG_GLOBAL": str(tmp_path / "gitconfig"),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
    }


def b4(linux: Path, env: dict[str, str], *words: str) -> str:
    """Run the real b4 in a tree; what it said."""
    pytest.importorskip("b4", reason="b4 is not installed: uv sync")
    done = subprocess.run(
        [*B4, *words], cwd=linux, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def configure(linux: Path, tmp_path: Path) -> dict[str, str]:
    """The lines of docs/how.md, in a tree."""
    (tmp_path / "gitconfig").write_text("[user]\nname = T\nemail = t@example.com\n")
    command = f"{sys.executable} -m iotoll check -"
    (linux / ".b4-config").write_text(f"[b4]\n  prep-perpatch-check-cmd = {command}\n")
    git(linux, "config", "b4.am-perpatch-check-cmd", command)
    commit(linux, "b4: settings")
    return environment(tmp_path)


def test_b4_prep_shows_each_patch_of_a_branch(linux: Path, tmp_path: Path) -> None:
    env = configure(linux, tmp_path)
    b4(linux, env, "prep", "-n", "words", "-f", "main")
    put(linux, "Documentation/x.rst", "other words\n")
    commit(linux, "docs: other words")
    (linux / "Documentation/link").symlink_to("x.rst")
    commit(linux, "docs: a link")
    told = b4(linux, env, "prep", "--check")
    assert "Success: 1, Warning: 0, Error: 1" in told
    assert "symbolic link" in told


def test_b4_am_shows_the_findings_of_a_mailbox(linux: Path, tmp_path: Path) -> None:
    env = configure(linux, tmp_path)
    put(linux, "Documentation/x.rst", "other words\n")
    commit(linux, "docs: other words")
    mbox = tmp_path / "s.mbox"
    mbox.write_text(git(linux, "format-patch", "--stdout", "--thread", "-1") + "\n")
    git(linux, "reset", "-q", "--hard", "HEAD~1")
    told = b4(linux, env, "am", "-k", "-m", str(mbox), "-o", str(tmp_path / "out"))
    assert "docs: other words" in told
    assert "passed all checks" in told


def test_b4_review_reads_the_json(linux: Path, tmp_path: Path) -> None:
    checks = pytest.importorskip("b4.review.checks", reason="b4 is not installed: uv sync")
    put(linux, "Documentation/x.rst", "other words\n")
    commit(linux, "docs: other words")
    raw = git(linux, "format-patch", "--stdout", "-1") + "\n"
    message = email.message_from_string(raw.partition("\n")[2])
    command = f"{sys.executable} -m iotoll check --b4-json --tree {linux} -"
    found = checks.run_perpatch_checks(
        [("a", message)], [command], str(linux), extra_env=environment(tmp_path)
    )
    (entry,) = found["a"]
    assert (entry["tool"], entry["status"]) == ("iotoll", "pass")
