"""Releases (tools/release.py), and what an environment gets: dependencies, no test tools."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("release", ROOT / "tools/release.py")
assert _SPEC is not None and _SPEC.loader is not None
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
CHANGES = "# Changelog\n\n## 0.3.0 (2027-01-02)\n\n- More.\n\n## 0.2.0 (2026-11-26)\n\n- Less.\n"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The files that state the version, in a repository with one commit."""
    for name in (*release.places(ROOT), "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    git(tmp_path, "init", "-q")
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    release.set_version("0.3.0", tmp_path)
    for cpu in release.WHEELS:
        wheel = tmp_path / f"dist/iotoll-0.3.0-cp311-abi3-manylinux_2_34_{cpu}.whl"
        wheel.parent.mkdir(exist_ok=True)
        wheel.touch()
    (tmp_path / ".gitignore").write_text("dist/\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode()


def test_this_version_is_stated_everywhere_and_has_its_changes() -> None:
    assert release.check(ROOT) == []


def test_a_version_is_written_to_every_file(copy: Path) -> None:
    assert release.check(copy) == []
    assert set(release.versions(copy)) == {
        "src/iotoll/__init__.py",
        "pyproject.toml",
        "lab/pyproject.toml",
        "Cargo.toml",
        "Cargo.lock",
        "uv.lock",
        "templates/github.yml",
    }
    assert all(stated == {"0.3.0"} for stated in release.versions(copy).values())


@pytest.mark.parametrize("name", [name for name in release.places(ROOT) if "init" not in name])
def test_another_version_in_one_file_is_named(copy: Path, name: str) -> None:
    text = (copy / name).read_text()
    where = re.search(release.places(copy)[name][-1], text)
    assert where is not None
    (copy / name).write_text(text[: where.start(1)] + "0.2.9" + text[where.end(1) :])
    (problem,) = release.check(copy)
    assert problem.startswith(f"{name}: states 0.2.9") and "0.3.0" in problem


def test_no_changes_no_release(copy: Path) -> None:
    (copy / "CHANGELOG.md").write_text("## Unreleased\n\n- More.\n")
    assert release.check(copy) == ["CHANGELOG.md: no section '## 0.3.0 (YYYY-MM-DD)' with text"]
    (copy / "CHANGELOG.md").write_text("## 0.3.0 (2027-01-02)\n\n## 0.2.0 (2026-11-26)\n\n- A\n")
    assert len(release.check(copy)) == 1, "an empty section is none"


def test_a_commit_that_may_be_tagged(copy: Path) -> None:
    assert release.untaggable("0.3.0", copy) == []
    assert release.section(CHANGES, "0.3.0") == "- More."


def test_what_keeps_a_commit_from_its_tag(copy: Path) -> None:
    assert "the files state 0.3.0" in release.untaggable("0.4.0", copy)[0]
    (copy / "more").touch()
    assert release.untaggable("0.3.0", copy) == ["the work tree has changes: commit them"]
    (copy / "more").unlink()
    next((copy / "dist").glob("*aarch64*")).unlink()
    (problem,) = release.untaggable("0.3.0", copy)
    assert "for aarch64" in problem
    git(copy, "tag", "v0.3.0")
    assert any("there is a tag" in one for one in release.untaggable("0.3.0", copy))


def test_unknown_words_are_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["set", "1.0"], ["tag"], ["push"]):
        with pytest.raises(SystemExit) as ended:
            release.main(words)
        assert ended.value.code == 2
        assert "tools/release.py set" in capsys.readouterr().err


def _names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~; ]", line, maxsplit=1)[0].lower() for line in requirements}


def _with_all_they_need(names: set[str]) -> set[str]:
    """Names of packages with all that they depend on, by uv.lock."""
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    needs = {p["name"]: {d["name"] for d in p.get("dependencies", [])} for p in lock["package"]}
    found: set[str] = set()
    while names:
        found |= names
        names = {need for name in names for need in needs[name]} - found
    return found


def test_g2_13_make_run_installs_no_test_tools() -> None:
    installed = _with_all_they_need(_names(PROJECT["project"]["dependencies"]))
    assert {"numpy", "pyparsing"} <= installed, "what dependencies depend on is counted"
    groups = PROJECT["dependency-groups"]
    tools = _names([line for lines in groups.values() for line in lines])
    assert {"moto", "mypy", "pytest"} <= tools
    assert not tools & installed
    assert not {"cfn-lint", "boto3", "duckdb", "pyspark", "iotoll-lab"} & installed
    # uv takes the group `dev` unless it is told not to, and tools/setup.sh tells it.
    setup = (ROOT / "tools/setup.sh").read_text()
    assert "sync=(sync --frozen --inexact --no-default-groups)" in setup


def test_g2_13_dependencies_have_a_lower_bound_and_are_not_pinned() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    for line in [*PROJECT["project"]["dependencies"], *(one for extra in extras for one in extra)]:
        assert re.search(r">=\d", line) and "==" not in line, line


def test_g2_13_each_dependency_says_why_it_is_there() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    block = text[text.index("\ndependencies = [") : text.index("[project.scripts]")]
    lines = [line for line in block.splitlines() if line.startswith('    "')]
    assert len(lines) > 20
    assert [line for line in lines if "# " not in line] == []
