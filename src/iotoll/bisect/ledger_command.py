"""The command ``iotoll ledger``."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from iotoll.bisect.account import Accountant, Accounted, Entry
from iotoll.bisect.command import board_options, setting_of
from iotoll.bisect.history import History
from iotoll.bisect.ledger import Values
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import Meter, usage
from iotoll.bisect.page import (
    WHY,
    Family,
    Ledger,
    LedgerRow,
    families,
    ledger_data,
    ledger_effort,
    ledger_lines,
    ledger_page,
    ledger_text,
)
from iotoll.bisect.setting import locked
from iotoll.boards.matrix import chosen_cells
from iotoll.core.cli_support import Output, output_options
from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError
from iotoll.core.nearest import near_path
from iotoll.records import results


@click.command("ledger")
@click.argument("range_", metavar="A..B")
@click.option("--tree", required=True, type=click.Path(path_type=Path), help="Kernel git tree.")
@click.option("--cells", help="Only these cells, comma-separated; * is allowed.", metavar="LIST")
@click.option("--max-builds", type=click.IntRange(1), help="Build no more kernels than this.")
@click.option(
    "--every", is_flag=True, help="Measure every commit: shows those that cancel each other."
)
@board_options
@click.option("--sandbox", is_flag=True, help="Build and boot where commits see no secret.")
@click.option("--out", type=click.Path(path_type=Path), help="Default: runs/ledger-NAME.")
@output_options
def ledger_command(
    range_: str,
    tree: Path,
    cells: str | None,
    max_builds: int | None,
    every: bool,
    out: Path | None,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Account for every instruction between A and B, commit by commit.

    Re-running the command resumes, also with a larger --max-builds. Exit code 0, or
    3 when the limit on builds left commits together.
    """
    output = Output(quiet, as_json)
    if not tree.is_dir():
        near = near_path(tree) or ": name a kernel git tree"
        raise UsageError(f"--tree {tree}: no such folder{near}")
    first, dots, last = range_.partition("..")
    if not dots or not first or last.startswith("."):
        raise UsageError(f"{range_}: write a range as A..B")
    history = History(tree)
    good, bad = history.commit(first, "A"), history.commit(last or "HEAD", "B")
    setting = setting_of(tree, options)
    identity = {"ledger": [good, bad, cells], "setting": asdict(setting)}
    root = out or Path("runs") / f"ledger-{bad[:12]}-{json_sha256(identity)[:8]}"
    with locked(root):
        meter = Meter(root, setting, good, Log(root / NAME, identity), output.progress)
        _ = meter.board, meter.policy
        accountant = Accountant(meter, history, output.progress, max_builds, every)
        started = time.monotonic()
        chosen = chosen_cells(cells, meter.matrix.cells)
        found = accountant.account(good, bad, chosen)
        ledger = shown(found, history, meter, (good, bad), time.monotonic() - started)
        results.write_text(root / "ledger.json", json.dumps(ledger_data(ledger), indent=1) + "\n")
        results.write_text(root / "ledger.txt", ledger_text(ledger))
        results.write_text(root / "ledger.html", ledger_page(ledger))
    if as_json:
        click.echo(json.dumps(ledger_data(ledger), indent=1, sort_keys=True))
    else:
        output.progress.say(ledger_effort(ledger))
        output.show(ledger_lines(ledger))
        if not quiet:
            click.echo(f"written: {root / 'ledger.html'}")
    raise SystemExit(3 if found.partial else 0)


def shown(
    found: Accounted, history: History, meter: Meter, ends: tuple[str, str], seconds: float
) -> Ledger:
    """The ledger as it is shown: rows named, cells that behave alike together."""
    columns: list[Values] = [found.total, found.left]
    for entry in found.entries:
        columns += _columns(entry)
    groups = families(columns)
    rows = [row for entry in found.entries for row in _rows(entry, history, groups, 0)]
    kept = [e.row for e in found.entries if not e.row.deltas]
    return Ledger(
        good=asdict(history.known(ends[0])),
        bad=asdict(history.known(ends[1])),
        board=meter.board.name,
        families=groups,
        rows=rows,
        left=_of(groups, found.left),
        totals=_of(groups, found.total),
        unchanged=sum(len(row.commits) for row in kept),
        open=found.open,
        every=found.every,
        commits=found.commits,
        cells=len({cell for cell, _ in found.total}),
        partial=found.partial,
        spent={**asdict(meter.spent), "seconds": round(seconds, 1)},
        disk=usage(meter.root),
        skipped=found.skipped,
    )


def _of(groups: Sequence[Family], values: Values) -> tuple[int, ...]:
    return tuple(values.get(group.part, 0) for group in groups)


def _rows(
    entry: Entry, history: History, groups: Sequence[Family], depth: int
) -> Iterator[LedgerRow]:
    """A row and what a merge holds; none where nothing moved."""
    if not entry.row.deltas:
        return
    yield _row(entry, history, groups, depth)
    for inner in entry.inside:
        yield from _rows(inner, history, groups, depth + 1)
    if entry.inside and entry.interaction:
        title = "interaction of the merged commits with the line that they are merged into"
        values = _of(groups, entry.interaction)
        yield LedgerRow(title, "", "", values, depth + 1, "interaction")


def _columns(entry: Entry) -> list[Values]:
    inner = [column for one in entry.inside for column in _columns(one)]
    return [entry.row.deltas, entry.interaction, *inner]


def _row(entry: Entry, history: History, groups: Sequence[Family], depth: int) -> LedgerRow:
    commits = [history.known(sha) for sha in entry.row.commits]
    step = entry.row.step
    title, author = f"{commits[0].line} to {commits[-1].line}: {len(commits)} commits", ""
    if len(commits) == 1:
        title, author = commits[0].line, commits[0].author
    return LedgerRow(
        title,
        author,
        WHY[entry.row.why],
        _of(groups, step.deltas),
        depth,
        entry.row.why,
        tuple(group.part in step.moved for group in groups),
        tuple(step.some.get(group.part, "") for group in groups),
        step.functions,
    )
