#!/usr/bin/env python3
"""Finds phrases that plain technical English has a better one for (tools/lint/words.toml).

    tools/lint/words.py [--count] [FILE ...]

Reads documents and templates whole (without code), and of Python, shell and TOML the comments and,
in Python, every string: docstrings, messages and the command line's help. Ends with 1 when it
finds one.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = Path(__file__).with_name("words.toml")
PLACES = (
    "*.md",
    "docs/**/*.md",
    "examples/**/*.md",
    "src/iotoll/**/*.py",
    "src/iotoll/**/*.j2",
    "lab/src/**/*.py",
    "lab/*.md",
    "lava-jobs/**/*.toml",
    "lava-jobs/dut/*",
    "lava-jobs/profile/*",
    "pipelines/**/*.toml",
    "pipelines/*.yml",
    "tools/*.sh",
    "tools/lint/*.py",
    "tests/**/*.py",
    "Makefile",
)
STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
BEFORE_DOCSTRING = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}


@dataclass(frozen=True)
class Rule:
    """A pattern, and what to write in its place."""

    match: re.Pattern[str]
    use: str
    shown: bool = False
    exempt: tuple[str, ...] = ()
    term: bool = False
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of prose; ``shown``: users read it, so it is no comment and no docstring."""

    number: int
    text: str
    shown: bool = True


def load_rules(path: Path = RULES) -> list[Rule]:
    """The rules of a file such as words.toml."""
    data = tomllib.loads(path.read_text())
    return [
        Rule(
            re.compile(r["match"], re.IGNORECASE),
            r["use"],
            r.get("shown", False),
            tuple(r.get("except", ())),
            r.get("term", False),
            tuple(r.get("only", ())),
        )
        for r in data["rule"]
    ]


def files() -> list[Path]:
    """Every file that is checked, once."""
    found = {path for place in PLACES for path in ROOT.glob(place)}
    return sorted(p for p in found if p.is_file() and "_data" not in p.parts)


def prose(path: Path) -> Iterator[Line]:
    """Lines of a file with everything that is not prose left out."""
    text = path.read_text(errors="replace")
    if path.suffix == ".py":
        yield from _python(text)
    elif path.suffix in (".md", ".j2"):
        yield from _document(text)
    else:
        for number, line in enumerate(text.splitlines(), 1):
            if "#" in line:
                yield Line(number, line.partition("#")[2], shown=False)


def _document(text: str) -> Iterator[Line]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield Line(number, re.sub(r"`[^`]*`|\]\([^)]*\)|\{[{%].*?[%}]\}|<[^>]*>", "`", line))


def _python(text: str) -> Iterator[Line]:
    previous = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        words = token.string
        docstring = token.type == tokenize.STRING and previous in BEFORE_DOCSTRING
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            previous = token.type
        # A string without a space is a name or a key, which other rules are about.
        if token.type == tokenize.COMMENT or (token.type in STRINGS and " " in words):
            shown = token.type != tokenize.COMMENT and not docstring
            for offset, line in enumerate(words.splitlines()):
                yield Line(token.start[0] + offset, re.sub(r"`[^`]*`|\{[^{}]*\}", "`", line), shown)


def found_in(path: Path, rules: list[Rule]) -> Iterator[tuple[int, str, Rule]]:
    """Line number, matched words and rule of everything refused in a file.

    A phrase that a line break divides is found also: it counts for the line where it begins.
    """
    lines = list(prose(path))
    name = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
    rules = [rule for rule in rules if _is_for(rule, name, path.suffix)]
    for index, line in enumerate(lines):
        follows = index + 1 < len(lines) and lines[index + 1].number == line.number + 1
        after = re.sub(r"^[\s#>*-]+", "", lines[index + 1].text) if follows else ""
        both = f"{line.text.rstrip()} {after}"
        for rule in rules:
            if rule.shown and not line.shown:
                continue
            for match in rule.match.finditer(both):
                if match.start() < len(line.text.rstrip()):
                    yield line.number, match[0], rule


def _is_for(rule: Rule, name: str, suffix: str) -> bool:
    """Tests are read by developers alone: of the rules only the terms are for them."""
    if name in rule.exempt or (rule.only and suffix not in rule.only):
        return False
    return rule.term or not name.startswith("tests/")


def main() -> int:
    """Print every phrase that is refused; 1 when there is one."""
    parser = argparse.ArgumentParser(description="Refuses phrases of tools/lint/words.toml.")
    parser.add_argument("--count", action="store_true", help="only how often each rule is broken")
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    options = parser.parse_args()
    rules, counts = load_rules(), Counter[str]()
    for path in options.files or files():
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for number, words, rule in found_in(path, rules):
            counts[f"{words.lower()} -> {rule.use}"] += 1
            if not options.count:
                print(f"{name}:{number}: {words!r}: write {rule.use!r}")
    if options.count:
        for line, count in counts.most_common():
            print(f"{count:5} {line}")
    return 1 if counts else 0


if __name__ == "__main__":
    sys.exit(main())
