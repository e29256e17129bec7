#!/usr/bin/env python3
"""Writes docs/reference/: the help of every command, and the list of result files.

    tools/docs/reference.py [--check]

`--check` writes nothing and ends with 1 where a page is not what would be written.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click

from iotoll.bisect.fields import FILES
from iotoll.cli import GROUPS, all_commands, cli
from iotoll.records.results import DOCUMENTS, schema_text

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs/reference"


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Path and help of a command and of all below it."""
    yield context.command_path, command.get_help(context).rstrip()
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None:
                yield from commands(below, new_context(below, name, context))


def new_context(command: click.Command, name: str, parent: click.Context | None) -> click.Context:
    """A context that wraps at the same width on every terminal."""
    return click.Context(
        command, info_name=name, parent=parent, terminal_width=80, max_content_width=80
    )


def cli_page() -> str:
    """docs/reference/cli.md."""
    lines = ["# Commands", "", "Generated from the commands by `tools/docs/reference.py`.", ""]
    top = new_context(cli, "iotoll", None)
    for group in GROUPS:
        lines += [f"## {group}", ""]
        for name in (n for n, entry in all_commands().items() if entry.group == group):
            command = cli.get_command(top, name)
            assert command is not None
            for path, text in commands(command, new_context(command, name, top)):
                lines += [f"### {path}", "", "```text", text, "```", ""]
    return "\n".join(lines)


def schemas_page() -> str:
    """docs/reference/schemas.md."""
    lines = [
        "# Result files",
        "",
        "Generated from the models by `tools/docs/reference.py`. Each file of a run directory has",
        "a JSON Schema in `results-schema/`, with examples in `valid/` and `invalid/`. Unknown",
        "fields are errors.",
        "",
    ]
    for name in sorted(DOCUMENTS):
        schema = json.loads(schema_text(name))
        version = schema["properties"].get("schema_version", {}).get("default", "none")
        summary = schema.get("description", "").split("\n")[0]
        fields = ", ".join(f"`{field}`" for field in schema.get("required", []))
        item = f"- `{name}` (`{version}`): {summary} Required: {fields}."
        lines += textwrap.wrap(item, 118, subsequent_indent="  ", break_on_hyphens=False)
    lines += ["", "Searches write these, without a schema; a reader takes what it knows:", ""]
    for name, file in FILES.items():
        item = f"- `{name}` (`{file.version}`): {file.summary}"
        lines += textwrap.wrap(item, 118, subsequent_indent="  ", break_on_hyphens=False)
        for key, text in file.fields.items():
            field = f"  - `{key}`: {text}"
            lines += textwrap.wrap(field, 118, subsequent_indent="    ", break_on_hyphens=False)
    lines += [
        "",
        "## When a schema changes",
        "",
        "`schema_version` is `iotoll.NAME/N`. `tests/golden/data/released-schemas.json` holds the",
        "fields of each schema at the last release. A test fails when a change would make an old",
        "file unreadable under the same N:",
        "",
        "- A new optional field, or a wider type: same N.",
        "- A field that is removed, renamed, newly required, narrower, or of another meaning:",
        "  N + 1 in the model.",
        "",
        "Then, and after each release, `pytest --update-goldens tests/unit/records` stores the",
        "fields again.",
        "",
    ]
    return "\n".join(lines)


def main() -> int:
    """Write the pages, or compare them; 1 where one differs."""
    wrong = 0
    for name, text in (("cli.md", cli_page()), ("schemas.md", schemas_page())):
        path = FOLDER / name
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)} is out of date: tools/docs/reference.py")
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
