"""``iotoll judge``: what the rule says of a run's stored counts, and why, line by line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from iotoll.core.errors import UsageError
from iotoll.gate.conclude import trailers
from iotoll.records import results
from iotoll.records.models import Section, SideResult
from iotoll.records.rundir import SIDES, RunDir
from iotoll.run.opening import open_result
from iotoll.verdict.instructions.lines import SIZES, Lines, ten_lines
from iotoll.verdict.instructions.rule import judge
from iotoll.verdict.policy import Policy, load_any_policy
from iotoll.verdict.words import all_parts

WHOLE = "whole"
_NEAR = 3


@click.command("judge")
@click.argument("result", metavar="RUN", type=click.Path(path_type=Path))
@click.option(
    "--explain",
    "asked",
    nargs=2,
    metavar="CELL PART",
    help="Print the rule's ten lines with the numbers of this cell's section, `whole`, or an"
    " element that is counted beside instructions (ELEMENT:SECTION).",
)
@click.option("--policy", "named", help="Policy or file. Default: the run's own.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def judge_command(
    result: Path, asked: tuple[str, str] | None, named: str | None, as_json: bool
) -> None:
    """Judge the stored counts of RUN (a run directory or file in it) by the rule, and show why.

    Nothing boots and nothing is written; RUN keeps its verdict. Without --explain there is one line
    for each section of each cell. The rule is stated in docs/method.md; limits, throughput and work
    outside I/Os have separate rules. Exit code 0, whatever it finds.
    """
    run = open_result(result)
    policy = load_any_policy(named or run.manifest.policy)
    if not isinstance(policy, Policy):
        raise UsageError(f"{run.root}: its clock is 'time': this rule is that of 'instructions'")
    base, candidate = _sides(run)
    if asked is not None:
        cell = _cell(asked[0], list(candidate.cells))
        element, _, section = asked[1].rpartition(":")
        found = ten_lines(base, candidate, policy, cell, _section(section, policy), element)
        click.echo(json.dumps(_json(found), indent=1)) if as_json else _print(found, Console())
        return
    judged = judge(base, candidate, policy, list(candidate.cells), by_evidence=not trailers(run))
    rows = [
        [cell.cell, name, part.moved, f"{part.delta:+g}", part.why or part.confidence]
        for cell in judged.cells
        for name, part in all_parts(cell)
    ]
    if as_json:
        click.echo(json.dumps([dict(zip(_HEADS, row, strict=True)) for row in rows], indent=1))
        return
    for row in rows:
        click.echo(f"{row[0]}: {row[1]} {row[2]} {row[3]}: {row[4]}")


_HEADS = ("cell", "section", "moved", "delta", "how_sure")


def _sides(run: RunDir) -> tuple[SideResult, SideResult]:
    paths = [run.side(side) / "result.json" for side in SIDES]
    if missing := next((path for path in paths if not path.is_file()), None):
        raise UsageError(f"{missing}: is not there: the run has no values of both kernels to judge")
    base, candidate = (results.read(path, SideResult) for path in paths)
    return base, candidate


def _cell(asked: str, known: Sequence[str]) -> str:
    if asked in known:
        return asked
    raise UsageError(f"--explain {asked}: the run has no such cell{_near(asked, known)}")


def _section(asked: str, policy: Policy) -> Section | None:
    """The section of that name; None is the whole I/O."""
    known = [*(section.value for section in policy.sections), WHOLE]
    if asked == "work":
        raise UsageError("--explain work: work outside I/Os has a separate rule (docs/method.md)")
    if asked not in known:
        raise UsageError(f"--explain {asked}: is not a section{_near(asked, known)}")
    return None if asked == WHOLE else Section(asked)


def _near(asked: str, known: Sequence[str]) -> str:
    near = get_close_matches(asked, known, _NEAR, cutoff=0.4)
    if near:
        return f": did you mean {' or '.join(near)}?"
    return f": it has {', '.join(known[:_NEAR])}" + (" ..." if len(known) > _NEAR else "")


def _json(found: Lines) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if value is not None}


def _print(found: Lines, console: Console) -> None:
    console.print(Text(found.title, "bold"))
    for number, line in enumerate(found.lines, 1):
        click.echo(f"{number:2}. {line}")
    _print_sizes(found, console)
    if found.affected is not None:
        console.print()
        _print(found.affected, console)


def _print_sizes(found: Lines, console: Console) -> None:
    if not found.sizes:
        return
    table = Table(*SIZES, box=None, pad_edge=False, header_style="dim")
    for row in found.sizes:
        table.add_row(*row)
    console.print()
    console.print(table)
