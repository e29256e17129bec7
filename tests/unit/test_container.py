"""The container image's file copies what it needs, and nothing that was built on this machine.

That it is built and runs is tried by tests/vm/test_container.py.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
from pathlib import Path

import pytest

from iotoll.core.paths import DATA_FOLDERS

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tools/image/Containerfile"
LINES = [
    line
    for line in (ROOT / ".containerignore").read_text().splitlines()
    if line and not line.startswith("#")
]


def copied(name: str) -> bool:
    """Whether a file comes into the image: the last line that fits decides."""
    found = True
    for line in LINES:
        pattern = line.removeprefix("!").removeprefix("**/")
        above = [name, *map(str, Path(name).parents)][:-1]
        last = [Path(part).name for part in above] if "**/" in line else above
        if pattern == "*" or any(fnmatch.fnmatch(part, pattern) for part in last):
            found = line.startswith("!")
    return found


@pytest.mark.parametrize(
    "name",
    [
        *(f"{folder}/x" for folder in DATA_FOLDERS),
        "src/iotoll/cli.py",
        "crates/iotoll-py/src/lib.rs",
        "Cargo.toml",
        "Cargo.lock",
        "pyproject.toml",
        "uv.lock",
        "LICENSE",
        "README.md",
        "tools/setup.sh",
        "tools/packages.txt",
    ],
)
def test_what_the_set_up_reads_is_copied(name: str) -> None:
    assert copied(name)


@pytest.mark.parametrize(
    "name",
    [
        ".git/config",
        ".venv/bin/python",
        ".cache/bin/node",
        "target/release/x",
        "runs/x/run.json",
        "src/iotoll/_native.abi3.so",
        "src/iotoll/run/__pycache__/flow.cpython-311.pyc",
        "tools/qemu/built/0/bin/x",
    ],
)
def test_what_was_built_here_is_not_copied(name: str) -> None:
    assert not copied(name)


def test_every_folder_of_the_repository_is_decided_on() -> None:
    done = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("no git work tree")
    top = {name.partition("/")[0] for name in done.stdout.splitlines()}
    without = {"docs", "fuzz", "templates", "tests", "Makefile", "mkdocs.yml", "rustfmt.toml"}
    without |= {"action.yml", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    left = {name for name in top if not name.startswith(".")} - without
    assert left == {
        name for name in left if copied(f"{name}/x" if (ROOT / name).is_dir() else name)
    }


def test_it_names_no_registry_and_keeps_no_secret() -> None:
    text = FILE.read_text()
    assert re.findall(r"^(?:ARG BASE=|FROM )(\S+)$", text, re.M) == ["debian:bookworm", "${BASE}"]
    # Build arguments are in an image's history: one names the base, and none a network's files.
    assert re.findall(r"^ARG (.+)$", text, re.M)[1:] == []
    assert not re.search(r"^(?:ADD|ENV .*TOKEN|COPY .*\.ssh)", text, re.M)
