"""Our pipelines against GitLab's own schema, and what the schema cannot know."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from iotoll import __version__
from iotoll.ci import children
from iotoll.records.models import Outcome
from tests.gitlab.pipeline import ROOT
from tests.unit.ci import plans

WITH_INPUTS = [ROOT / "pipelines/nightly.yml", ROOT / "templates/gate.yml"]
PIPELINES = sorted({*(ROOT / "pipelines").glob("*.yml")} - {*WITH_INPUTS})
TEMPLATE = ROOT / "templates/gate.yml"
HOLDS_TOKEN = {"iotoll-accept", "iotoll-collect", "iotoll-post"}
PLAN = plans.PLAN.model_copy(update={"lava_boards": ["hikey960", "virt-arm64"]})
SETTINGS = {"iotoll": "iotoll", "tags": ["iotoll"], "image": "debian:trixie"}


def template(path: Path = TEMPLATE) -> dict[str, Any]:
    """A template's jobs, by default the merge request's, with inputs as they stand."""
    text = path.read_text().split("\n---\n", 1)[1]
    loaded = yaml.safe_load(re.sub(r"\$\[\[ inputs\.(\w+) \]\]", r"input-\1", text))
    assert isinstance(loaded, dict)
    return loaded


def jobs() -> dict[str, dict[str, Any]]:
    return {name: job for name, job in template().items() if name.startswith("iotoll-")}


def check(*paths: Path) -> subprocess.CompletedProcess[str]:
    words = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]
    command = [sys.executable, "-m", "check_jsonschema", *words, *map(str, paths)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_our_pipelines_are_valid(tmp_path: Path) -> None:
    # The schema knows one document: a template's head is another.
    bodies = [tmp_path / f"body-{path.name}" for path in WITH_INPUTS]
    for body, path in zip(bodies, WITH_INPUTS, strict=True):
        body.write_text(yaml.safe_dump(template(path)))
    child = tmp_path / "child.yml"
    child.write_text(children.to_yaml(children.child_pipeline(PLAN, ["--base", "1"], SETTINGS)))
    nothing = tmp_path / "nothing.yml"
    empty = PLAN.model_copy(update={"nothing": True})
    nothing.write_text(children.to_yaml(children.child_pipeline(empty, [], SETTINGS)))
    done = check(ROOT / ".gitlab-ci.yml", *PIPELINES, *bodies, child, nothing)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_refuses_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.yml"
    wrong.write_text("job: {script: [x], retry: {max: 9}}\n")
    assert check(wrong).returncode != 0


def test_top_file_has_stages_and_includes_only() -> None:
    assert set(yaml.safe_load((ROOT / ".gitlab-ci.yml").read_text())) == {"stages", "include"}


@pytest.mark.parametrize("path", WITH_INPUTS, ids=lambda path: path.stem)
def test_every_input_is_used_and_described(path: Path) -> None:
    head, body = path.read_text().split("\n---\n", 1)
    inputs = yaml.safe_load(head)["spec"]["inputs"]
    assert set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", body)) == set(inputs)
    assert all(given["description"] for given in inputs.values())


def test_scripts_are_one_command_each() -> None:
    for name, job in jobs().items():
        for line in job.get("script", []):
            assert line.startswith("input-iotoll ci "), name


def test_tokens_belong_to_jobs_without_a_clone() -> None:
    every = template()
    for name, job in jobs().items():
        holds = "environment" in job
        assert holds == (name in HOLDS_TOKEN), name
        if holds:
            assert every[job["extends"]]["variables"]["GIT_STRATEGY"] == "empty"
            assert job["environment"] == {"name": "iotoll/gitlab", "action": "access"}
    child = children.child_pipeline(PLAN, [], SETTINGS)
    holders = {name for name, job in child.items() if "environment" in job}
    assert holders == {"lava hikey960", "lava virt-arm64"}
    assert all(child[name]["variables"]["GIT_STRATEGY"] == "empty" for name in holders)


def test_no_job_reads_a_file_of_the_candidates() -> None:
    for name in (".iotoll", ".iotoll-results"):
        job = template()[name]
        variables = job["variables"]
        assert variables.get("GIT_CHECKOUT") == "false" or variables["GIT_STRATEGY"] == "empty"


def test_only_infrastructure_is_tried_again() -> None:
    expected = [Outcome.INFRASTRUCTURE.exit_code]
    assert template()[".iotoll"]["retry"] == children.RETRY
    assert children.RETRY["exit_codes"] == expected
    assert not any("retry" in job for job in jobs().values())


def test_inconclusive_is_a_warning_and_nothing_else_is() -> None:
    allowed = {"exit_codes": [Outcome.INCONCLUSIVE.exit_code]}
    found = {name: job["allow_failure"] for name, job in jobs().items() if "allow_failure" in job}
    assert found == {"iotoll-gate": allowed, "iotoll-judge": allowed}


def test_f4_8_the_component_sets_no_global_key_and_owns_its_names() -> None:
    """F4.8: its `stages` and `workflow` collided with those of the file that includes it."""
    assert all(name.startswith(("iotoll-", ".iotoll")) for name in template()), list(template())
    every = template()
    for name, job in jobs().items():
        stage = job.get("stage") or every[".iotoll"]["stage"]
        assert stage == "input-stage", name
        assert "needs" in job or name == "iotoll-accept", f"{name}: only needs order the jobs"


def test_f4_8_pipelines_of_the_branch_and_of_tags_are_asked_for() -> None:
    """F4.8: only merge requests; now also what reaches the default branch, and tags."""
    inputs = yaml.safe_load(TEMPLATE.read_text().split("\n---\n", 1)[0])["spec"]["inputs"]
    assert {inputs[name]["default"] for name in ("branches", "tags")} == {False}
    for name in (".iotoll", "iotoll-judge", "iotoll-report"):
        rules = [rule["if"] for rule in template()[name]["rules"]]
        assert len(rules) == 3, name
        assert '"input-branches" == "true"' in rules[1] and '"push"' in rules[1]
        assert '"input-tags" == "true"' in rules[2] and "$CI_COMMIT_TAG" in rules[2]
    for name in ("iotoll-accept", "iotoll-post"):
        (rule,) = template()[name]["rules"]
        assert "merge_request_event" in rule["if"], "a note and a label are a merge request's"


def test_f4_8_who_accepts_is_asked_before_anything_of_the_candidates_runs() -> None:
    assert "needs" not in jobs()["iotoll-accept"]
    assert jobs()["iotoll-select"]["needs"] == [{"job": "iotoll-accept", "optional": True}]
    assert "--approval iotoll-approval.json" in jobs()["iotoll-select"]["script"][0]


def test_superseded_pipelines_are_cancelled() -> None:
    assert template()[".iotoll"]["interruptible"] is True
    child = children.child_pipeline(PLAN, [], SETTINGS)
    assert all(job["interruptible"] for name, job in child.items() if name != "stages")


def test_a_build_can_leave_nothing_but_its_own_kernel() -> None:
    assert jobs()["iotoll-build"]["artifacts"]["paths"] == [
        "iotoll/virtual/$BOARD/sides/$SIDE/build/",
        "iotoll/virtual/$BOARD/.steps/build.$SIDE.json",
    ]


@pytest.mark.parametrize("word", ["a b", "$TOKEN", "x'; curl evil; '", "a\nb", "*"])
def test_words_of_a_child_pipeline_are_quoted(word: str) -> None:
    line = children.child_pipeline(PLAN, ["--cells", word], SETTINGS)["build hikey960"]["script"][0]
    done = subprocess.run(
        ["sh", "-c", f"iotoll() {{ printf '%s|' \"$@\"; }}; {line}"],
        capture_output=True,
        text=True,
        check=True,
    )
    plain = word.replace("'", "").replace("$", "")
    assert done.stdout.split("|")[3] == plain


def test_the_page_has_the_inputs_of_this_version() -> None:
    head = yaml.safe_load(TEMPLATE.read_text().split("\n---\n", 1)[0])
    _, found, rest = (ROOT / "docs/gitlab.md").read_text().partition(f"| {__version__} |")
    assert found, "docs/gitlab.md has no row for this version of the component"
    row = rest.partition("\n\n")[0]
    assert re.findall(r"`(\w+)`", row) == list(head["spec"]["inputs"])
