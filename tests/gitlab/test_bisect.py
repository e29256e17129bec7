"""The pipeline of a search: who holds a token, what a comment may ask, whom a culprit is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from iotoll.bisect.command import bisect_command
from iotoll.ci import repository
from iotoll.ci.bisect import asked, note, read
from iotoll.ci.command import ci_command
from iotoll.ci.gitlab import Teller
from iotoll.ci.repository import MergeChange
from iotoll.core.errors import ResultError, UsageError
from tests.gitlab.pipeline import ROOT
from tests.gitlab.stub import BOT, PROJECT, SOMEBODY, TOKEN, Fault, State, serving
from tests.gitlab.test_yaml import check
from tests.unit.bisect.commits import Tree

PIPELINE = ROOT / "pipelines/bisect.yml"
SHA = "ab" * 20
COMMIT = {"sha": SHA, "subject": "ufs: /merge @all", "author": "A", "email": "a@b", "date": "d"}
ANSWER: dict[str, Any] = {
    "outcome": "found",
    "cell": "ufs-4k-randread-t1-direct",
    "section": "submission",
    "good": COMMIT,
    "bad": COMMIT,
    "commits": [COMMIT],
    "why": "",
    "confirmed": {
        "sentence": "submission grew",
        "functions": [{"name": "f", "delta": 40.0, "changed": True}],
    },
}
NOTHING = {"good": None, "bad": None, "cell": None, "section": None, "comment": None}


def jobs() -> dict[str, Any]:
    loaded = yaml.safe_load(PIPELINE.read_text())
    return {name: job for name, job in loaded.items() if name.startswith("iotoll-")}


@pytest.fixture
def server() -> Iterator[tuple[str, State]]:
    with serving() as (url, state):
        yield url, state
        assert state.wrongs == []


# ------------------------------------------------------------ the file


def test_the_pipeline_is_valid() -> None:
    done = check(PIPELINE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_runs_commits_holds_no_token_and_what_holds_one_has_no_clone() -> None:
    holders = {
        name: job["environment"]["name"] for name, job in jobs().items() if "environment" in job
    }
    assert holders == {"iotoll-bisect-lava": "iotoll/lab", "iotoll-bisect-post": "iotoll/gitlab"}
    assert jobs()["iotoll-bisect-post"]["variables"] == {"GIT_STRATEGY": "empty"}
    for name in ("iotoll-bisect", "iotoll-bisect-lava"):
        assert jobs()[name]["variables"]["GIT_CHECKOUT"] == "false"


def test_a_lab_searches_the_default_branch_alone() -> None:
    job = jobs()["iotoll-bisect-lava"]
    assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in job["rules"][1]["if"]
    assert '--trusted "origin/$CI_DEFAULT_BRANCH"' in job["script"][0]


def test_no_merge_request_starts_it_and_each_script_is_one_quoted_command() -> None:
    for name, job in jobs().items():
        assert all("merge_request_event" not in rule["if"] for rule in job["rules"])
        (line,) = job["script"]
        assert line.startswith("iotoll ci bisect"), name
        assert all(f'"{word}"' in line for word in line.split('"') if word.startswith("$"))
        # A real board has no matrix that is the default one.
        assert name == "iotoll-bisect-post" or '--matrix "$IOTOLL_BISECT_MATRIX"' in line


# ------------------------------------------------------------ what is asked


def test_a_comment_is_read_by_its_first_such_line() -> None:
    comment = "Slower?\n/iotoll-bisect v6.12.1..v6.12.2 ufs-4k-randread-t1-direct submission\n"
    assert asked({**NOTHING, "comment": comment}) == {
        "good": "v6.12.1",
        "bad": "v6.12.2",
        "cell": "ufs-4k-randread-t1-direct",
        "section": "submission",
    }
    assert asked({**NOTHING, "comment": "/iotoll-bisect a1~2..b2"})["cell"] == ""


@pytest.mark.parametrize(
    "comment",
    [
        "hello",
        "/iotoll-bisect",
        "/iotoll-bisect --upload-pack=x..b",
        "/iotoll-bisect a..b; rm -rf /",
        "/iotoll-bisect a..b cell --out=/etc",
        "/iotoll-bisect a..b $(id)",
        "/iotoll-bisect a...b..c",
    ],
)
def test_a_comment_that_is_anything_else_is_refused(comment: str) -> None:
    with pytest.raises(UsageError):
        asked({**NOTHING, "comment": comment})


@pytest.mark.parametrize("word", ["", "-x", "a b", "a..b", "$(id)", "x" * 200])
def test_variables_are_checked_as_well(word: str) -> None:
    with pytest.raises(UsageError, match="--bad"):
        asked({**NOTHING, "good": "a", "bad": word})
    with pytest.raises(UsageError, match="--cell"):
        asked({**NOTHING, "good": "a", "bad": "b", "cell": word or "-"})


def test_the_search_runs_in_the_sandbox_on_commits_that_the_cache_keeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    tree = Tree(tmp_path / "linux")
    good, bad = tree.commit("base"), tree.commit("slow")
    seen: list[list[str]] = []

    def searched(words: list[str], **_: Any) -> None:
        seen.append(words)
        out = Path(words[words.index("--out") + 1])
        out.mkdir(parents=True, exist_ok=True)
        (out / "bisect.json").write_text(json.dumps(ANSWER))
        raise SystemExit(0)

    monkeypatch.setattr(bisect_command, "main", searched)
    words = ["bisect", "--clone", str(tree.root), "--project", "kernel/linux", "--good", good]
    root = tmp_path / "out"
    done = CliRunner().invoke(ci_command, [*words, "--bad", bad, "--root", str(root)])
    assert done.exit_code == 0, done.output
    assert "--sandbox" in seen[0] and "--runner" not in seen[0]
    assert seen[0][1] == str(repository.place("kernel/linux"))
    assert "submission grew" in (root / "note.md").read_text()
    lab = ["--runner", "lava", "--trusted", "main", "--board", "hikey960", "--matrix", "hikey960"]
    done = CliRunner().invoke(ci_command, [*words, "--bad", bad, "--root", str(root), *lab])
    assert done.exit_code == 0, done.output
    given = dict(zip(seen[1][::2], seen[1][1::2], strict=True))
    assert (given["--runner"], given["--board"], given["--matrix"]) == ("lava", *2 * ["hikey960"])


def test_ranges_and_branches_are_checked(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "linux")
    good, bad = tree.commit("base"), tree.commit("slow")
    tree.git("checkout", "-qb", "mine")
    strange = tree.commit("of a stranger")
    with pytest.raises(UsageError, match="holds 0 commits"):
        repository.check_range(MergeChange(tree.root, bad, good), 9)
    with pytest.raises(UsageError, match="1 to 1"):
        repository.check_range(MergeChange(tree.root, good, strange), 1)
    repository.check_on_branch(MergeChange(tree.root, good, bad), "main")
    with pytest.raises(UsageError, match="is not on main"):
        repository.check_on_branch(MergeChange(tree.root, good, strange), "main")
    with pytest.raises(UsageError, match="--trusted"):
        repository.check_on_branch(MergeChange(tree.root, good, bad), None)


# ------------------------------------------------------------ what is told


def test_a_note_has_no_markup_of_the_commits() -> None:
    text = note(ANSWER, "https://gitlab.example.org/p/1")
    assert "@all" not in text and "\n/" not in text
    assert SHA[:12] in text and "[All results](https://gitlab.example.org/p/1)" in text


@pytest.mark.parametrize(
    "wrong", ["", "[]", '{"commits": [{"sha": "x"}]}', '{"commits": 1}', "nul"]
)
def test_an_answer_that_is_none_is_refused(tmp_path: Path, wrong: str) -> None:
    (tmp_path / "bisect.json").write_text(wrong)
    with pytest.raises(ResultError, match="is not what 'iotoll ci bisect' writes"):
        read(tmp_path)


def test_the_request_that_brought_it_gets_one_note(server: tuple[str, State]) -> None:
    url, state = server
    state.brought[SHA] = [{"iid": 7, "state": "merged"}, {"iid": 8, "state": "closed"}]
    state.add_note(f"<!-- iotoll-bisect:{SHA} -->\nnot ours", SOMEBODY)
    teller = Teller(url, PROJECT, TOKEN, timeout=1, retry_seconds=20)
    assert teller.tell(SHA, "first") == "note in !7"
    assert teller.tell(SHA, "second") == "note in !7"
    ours = [n["body"] for n in state.notes if n["author"]["id"] == BOT]
    assert ours == [f"<!-- iotoll-bisect:{SHA} -->\nsecond"] and state.issues == []


def test_without_a_request_one_issue_is_opened(server: tuple[str, State]) -> None:
    url, state = server
    state.faults.append(Fault("POST", "/issues", 502, done=True))
    teller = Teller(url, PROJECT, TOKEN, timeout=1, retry_seconds=20)
    assert teller.tell(SHA, "text", issue=False) == "no merge request has it"
    assert teller.tell(SHA, "text") == "issue #1"
    assert teller.tell(SHA, "text") == "issue #1 is open already"
    assert [i["title"] for i in state.issues] == [f"iotoll: {SHA[:12]} changed the cost of an I/O"]


def test_only_what_was_found_is_told(tmp_path: Path) -> None:
    (tmp_path / "bisect.json").write_text(json.dumps({**ANSWER, "outcome": "unconfirmed"}))
    done = CliRunner().invoke(ci_command, ["bisect-post", "--root", str(tmp_path)])
    assert done.exit_code == 0 and "nobody is told" in done.output
