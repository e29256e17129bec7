"""The nightly's pipeline, run by gitlab-ci-local as a schedule starts it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.gitlab.pipeline import ROOT, Ran, command_script, run_pipeline, runner
from tests.repository import git

CONFIG = """
history = "{folder}/history"
runs = "{folder}/runs"
[[branch]]
name = "mainline"
tree = "{folder}/linux"
ref = "main"
[[board]]
name = "virt-arm64"
cells = ["ufs-4k-randread-t1-direct"]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the nightly's file; its kernel tree holds no kernel."""
    runner()
    folder = tmp_path_factory.mktemp("nightly")
    iotoll = command_script(folder)
    for name in ("linux", "project"):
        (folder / name).mkdir()
        git(folder / name, "init", "-q", "-b", "main")
    (folder / "linux/README").write_text("not a kernel\n")
    git(folder / "linux", "add", "README")
    git(folder / "linux", "commit", "-q", "-m", "Start")
    project = folder / "project"
    (project / "ci-config").mkdir()
    shutil.copy(ROOT / "pipelines/nightly.yml", project / "ci-config")
    inputs = {"config": "nightly.toml", "iotoll": str(iotoll)}
    include = {"local": "ci-config/nightly.yml", "inputs": inputs}
    (project / "ci-config/ci.yml").write_text(json.dumps({"include": [include]}))
    (project / "nightly.toml").write_text(CONFIG.format(folder=folder))
    (project / ".git/info/exclude").write_text("/.gitlab-ci-local*\n")
    git(project, "add", "--all")
    git(project, "commit", "-q", "-m", "Nightly")
    git(project, "remote", "add", "origin", "https://gitlab.example.com/iotoll-tests/nightly.git")
    return project


def run(project: Path, source: str) -> Ran:
    return run_pipeline(project, {"CI_PIPELINE_SOURCE": source})


def test_a_schedule_publishes_the_page_also_of_a_night_that_failed(project: Path) -> None:
    ran = run(project, "schedule")
    assert ran.jobs == {"iotoll-nightly": "PASS"}, ran.output
    page = ran.artifact("iotoll-nightly", "public/index.html").read_text()
    assert "Nights without values" in page
    assert "mainline on virt-arm64" in page
    assert ran.artifact("iotoll-nightly", "public/atom.xml").is_file()


def test_other_pipelines_do_not_start_it(project: Path) -> None:
    assert "iotoll-nightly" not in run(project, "push").jobs
