"""Documents, messages and the program agree: options that exist, folders that are there."""

from __future__ import annotations

import ast
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from iotoll.cli import all_commands, cli
from iotoll.records.models import Outcome, Section

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/iotoll"
LAB = ROOT / "lab/src/iotoll_lab"
OPTION = re.compile(r"(?<![\w/`-])--([a-z][a-z0-9]+(?:-[a-z0-9]+)*)\b")
OTHERS = {
    "build-base": "nbdkit's and others' builds",
    "builtin-schema": "check-jsonschema",
    "data-transform": "check-jsonschema",
    "date": "trace-cmd",
    "font": "a CSS variable",
    "git": "a diff's first line",
    "output-format": "fio",
    "unshallow": "git",
    "update-goldens": "tests/conftest.py",
    "version": "every tool",
}
"""Options in documents that are of other tools: name → whose."""


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    """Names of all options of a command and of those below it, without the dashes."""
    for parameter in command.params:
        yield from (o[2:] for o in [*parameter.opts, *parameter.secondary_opts] if o[:2] == "--")
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from options(below, click.Context(below, parent=context))


@cache
def known() -> set[str]:
    """Options of iotoll, its pytest plugin, its scripts and static commands."""
    found = {"help", *OTHERS, *options(cli, click.Context(cli))}
    for path in [SOURCE / "pytest_plugin.py", *LAB.glob("experiments/*.py")]:
        found |= set(re.findall(r"\"--([a-z][a-z-]+)\"", path.read_text()))
    for path in ROOT.glob("tools/**/*.py"):
        found |= set(re.findall(r"\"--([a-z][a-z0-9-]+)[=\"]", path.read_text()))
    for path in ROOT.glob("crates/*/src/main.rs"):
        found |= set(OPTION.findall(path.read_text()))
    return found


def commands_of_iotoll(text: str) -> Iterator[tuple[str, str]]:
    """Each ``iotoll COMMAND ...`` in a document up to the end of its code: command and the rest."""
    for match in re.finditer(r"(?<![\w/.-])iotoll ([a-z]+)\b([^`#|\n]*)", text):
        if match[1] in all_commands():
            yield match[1], match[2]


@pytest.mark.parametrize(
    "path",
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))],
    ids=lambda path: path.name,
)
def test_commands_in_documents_have_the_options_that_are_named(path: Path) -> None:
    for name, rest in commands_of_iotoll(path.read_text()):
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        there = {"help", *options(command, click.Context(command))}
        unknown = [option for option in OPTION.findall(rest) if option not in there]
        assert not unknown, f"{path.name}: iotoll {name}{rest}: no option {unknown}"


def messages(path: Path) -> Iterator[tuple[int, str]]:
    """Strings of a module that people may read: line and text."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise | ast.Call):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def test_messages_name_options_that_exist() -> None:
    wrong = []
    for path in sorted([*SOURCE.rglob("*.py"), *LAB.rglob("*.py")]):
        if "_data" in path.parts:
            continue
        for line, text in messages(path):
            # A word alone is an argument for a tool; a sentence is for a reader.
            if "iotoll" not in text and not re.search(r"\w+ .*--|--[a-z-]+[:,] ", text):
                continue
            wrong += [
                f"{path.relative_to(ROOT)}:{line}: --{name}"
                for name in OPTION.findall(text)
                if name not in known()
            ]
    assert not wrong, wrong


def test_the_readme_lists_the_packages_that_there_are() -> None:
    text = (ROOT / "README.md").read_text()
    listed = re.findall(r"^    src/iotoll/([a-z]+)/ ", text, flags=re.M)
    there = {p.parent.name for p in SOURCE.glob("*/__init__.py")}
    assert set(listed) == there
    sys.path.insert(0, str(ROOT / "tools/lint"))
    try:
        import packages
    finally:
        sys.path.pop(0)
    assert tuple(listed) == packages.PACKAGES
    picture = (ROOT / "docs/architecture.md").read_text()
    assert re.findall(r"^\| `([a-z]+)` \|", picture, flags=re.M) == listed


# make lint runs tools/lint/packages.py itself.
@pytest.mark.parametrize("tool", ["tools/docs/reference.py", "tools/docs/packages_picture.py"])
def test_what_is_generated_is_current(tool: str) -> None:
    is_current(tool)


def test_the_pages_of_the_studies_are_current() -> None:
    is_current("tools/docs/studies.py")


def is_current(tool: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / tool, "--check"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'lab/src'}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_checker_of_words_finds_phrases_where_they_are_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "This makes it dearer.\n\n    dearer in code\n\nIt goes on where\nit stopped.\nA twin.\n"
    )
    module = tmp_path / "module.py"
    module.write_text(
        '"""Of its own."""\n\nX = "a board of its own"\nY = "mend it"  # dearer twin\n'
    )
    done = subprocess.run(
        [sys.executable, ROOT / "tools/lint/words.py", page, module],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    found = [
        line.removeprefix(f"{tmp_path}/").split(": write")[0] for line in done.stdout.splitlines()
    ]
    assert found == [
        "page.md:1: 'dearer'",
        "page.md:5: 'goes on where it stopped'",
        "page.md:7: 'twin'",
        "module.py:3: 'of its own'",
        "module.py:4: 'mend'",
        "module.py:4: 'dearer'",
        "module.py:4: 'twin'",
    ]


def test_g2_12_the_glossary_has_the_words_of_a_verdict() -> None:
    page = (ROOT / "docs/glossary.md").read_text()
    defined = {term.strip("`") for term in re.findall(r"\*\*([^*]+)\*\*", page)}
    words = {"paired I/Os", "round", "noise", "net", "pooled", "workload", "cell", "threshold"}
    words |= {"gated", "not comparable", "whole I/O", "work outside I/Os", "limits", "coverage"}
    words |= {"accepted", "seen once", "whole path", "clean build", "corrected", "usage error"}
    words |= {outcome.value for outcome in Outcome} | {section.value for section in Section}
    assert not words - defined
    assert len(defined) == len(re.findall(r"\*\*[^*]+\*\*", page)) - 2, "pair and noise: two clocks"


def test_g2_12_pages_are_few_and_short(tmp_path: Path) -> None:
    (tmp_path / "docs/decisions").mkdir(parents=True)
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        (tmp_path / name).write_text("x\n")
    (tmp_path / "docs/long.md").write_text("word " * 2501 + "\n")
    (tmp_path / "docs/decisions/001-x.md").write_text("x" * 121 + "\n")
    pages = runpy.run_path(str(ROOT / "tools/lint/pages.py"))["problems"]
    assert pages(tmp_path) == [
        "docs/long.md: 2501 words: at most 2500",
        "docs/decisions/001-x.md:1: 121 characters: at most 120",
        "docs/long.md:1: 12505 characters: at most 120",
    ]
    for number in range(24):
        (tmp_path / f"docs/page-{number}.md").write_text("x\n")
    assert pages(tmp_path)[0] == "27 pages: at most 25"
    assert not pages(ROOT)
