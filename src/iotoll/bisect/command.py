"""The commands ``iotoll bisect`` and ``iotoll bisect-step``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click

from iotoll.bisect.boards_command import search_boards
from iotoll.bisect.culprit import Confirmed, confirm
from iotoll.bisect.fields import BISECT
from iotoll.bisect.find import Asked, Finder, Found, crossed
from iotoll.bisect.history import History
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import Meter, usage
from iotoll.bisect.rest import Whole, as_json, parts_json, search_on
from iotoll.bisect.setting import WHOLE, WORK, Setting, locked
from iotoll.bisect.terminal import bisect_lines, bisect_text, effort
from iotoll.boards.board import HostBoard, load_board
from iotoll.core.cli_support import FiniteRange, Output, output_options, told
from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError
from iotoll.core.nearest import meant, near_path
from iotoll.core.paths import cache_dir
from iotoll.core.progress import Progress
from iotoll.records import results

F = TypeVar("F", bound=Callable[..., Any])
SKIP, BAD, STOP = 125, 1, 128
"""Exit codes that ``git bisect run`` knows: cannot be tested, bad, and an end of the search."""


def board_options(command: F) -> F:
    """Options that name the board and what runs on it."""
    for option in reversed(
        [
            click.option(
                "--board", default="virt-arm64", show_default=True, help="Exact board, or host-uml."
            ),
            click.option("--matrix", default="default", show_default=True, help="Matrix or file."),
            click.option("--policy", help="Policy. Default: that of the board's clock."),
        ]
    ):
        command = option(command)
    return command


def range_options(command: F) -> F:
    """Options that a search has as git does."""
    for option in reversed(
        [
            click.option("--first-parent", is_flag=True, help="Follow first parents of merges."),
            click.option(
                "--path", "paths", multiple=True, help="Only commits that change this path."
            ),
            click.option(
                "--term-old",
                "--term-good",
                default="good",
                help="Name of the old state, as in git bisect.",
            ),
            click.option("--term-new", "--term-bad", default="bad", help="Name of the new state."),
        ]
    ):
        command = option(command)
    return command


@click.command("bisect")
@click.option("--tree", required=True, type=click.Path(path_type=Path), help="Kernel git tree.")
@click.option("--good", "--old", "good", required=True, metavar="A", help="Revision before.")
@click.option("--bad", "--new", "bad", default="HEAD", show_default=True, metavar="B")
@click.option("--cell", "cells", multiple=True,
    help="Search what moved in this cell; repeatable. Default: by the range's paths.")  # fmt: skip
@click.option("--section", 
    help="Search this section, 'whole' (the whole I/O) or 'work' (outside I/Os).")  # fmt: skip
@range_options
@board_options
@click.option(
    "--sandbox", is_flag=True, help="Build and boot where commits see no secret (docs/bisect.md)."
)
@click.option("--runner", type=click.Choice(["local", "lava"]), default="local", show_default=True)
@click.option("--lab", default="local", show_default=True, help="LAVA lab, with --runner lava.")
@click.option("--boards", default=2, show_default=True, type=click.IntRange(1, 16),
    help="Commits that a lab measures at once.")  # fmt: skip
@click.option("--max-pairs", default=400, show_default=True, type=click.IntRange(4),
    help="Pairs of boots after which a search in a lab gives up.")  # fmt: skip
@click.option("--noise", type=FiniteRange(0, 1, min_open=True, max_open=True),
    help="Noise of one pair as a share. Default: the board's A/A history.")  # fmt: skip
@click.option("--cheaper", is_flag=True, help="In a lab: search for a decrease.")
@click.option("--explain/--no-explain", default=True, help="Name the function (two more boots).")
@click.option("--out", type=click.Path(path_type=Path), help="Default: runs/bisect-NAME.")
@output_options
def bisect_command(
    tree: Path, good: str, bad: str, out: Path | None, quiet: bool, as_json: bool, **options: Any
) -> None:
    """Name the commits between A and B that changed the instructions of an I/O.

    Re-running the command resumes. Exit code 0: all are named and confirmed;
    3: skipped commits hide one, or nothing moved.
    """
    output = Output(quiet, as_json)
    started = time.monotonic()
    history = History(_repository(tree))
    asked = _asked(history, good, bad, options)
    setting = setting_of(tree, options)
    if setting.lab is not None or is_native(setting.board):
        raise SystemExit(search_boards(history, asked, setting, out, output, options))
    identity = {"asked": asdict(asked), "setting": asdict(setting)}
    root = out or Path("runs") / f"bisect-{asked.bad[:12]}-{json_sha256(identity)[:8]}"
    with locked(root):
        meter = Meter(root, setting, asked.good, Log(root / NAME, identity), output.progress)
        # Everything named on the command line is read before anything long begins.
        _ = meter.board, meter.matrix, meter.policy
        _check_section(asked.section, meter)
        found = Finder(meter, history, asked, output.progress).find()
        whole = search_on(meter, history, asked, found, output.progress)
        confirmed = _confirmed(root, meter, found, whole, options["explain"], output.progress)
        result = _result(asked, history, meter, (found, whole), confirmed)
        result["spent"]["seconds"] = round(time.monotonic() - started, 1)
        results.write_text(root / "bisect.json", json.dumps(result, indent=1) + "\n")
        results.write_text(root / "bisect.txt", bisect_text(result))
    _show(result, root, output)
    raise SystemExit(0 if result["outcome"] == "found" else 3)


def setting_of(tree: Path, options: dict[str, Any]) -> Setting:
    """What the options name; raises UsageError where they do not fit together."""
    lab = options["lab"] if options.get("runner") == "lava" else None
    sandbox = bool(options.get("sandbox"))
    if lab and sandbox:
        raise UsageError(
            "--sandbox: a search in a lab builds on this machine without one: search on an exact"
            " board, or leave --sandbox out for commits that you trust"
        )
    native = is_native(options["board"])
    if native and sandbox:
        raise UsageError(f"--sandbox: board {options['board']} boots both kernels in one anyway")
    if sandbox and not tree.resolve().is_relative_to(cache_dir().resolve()):
        raise UsageError(
            f"--sandbox: it sees no tree outside of the cache, such as {tree}: run 'iotoll ci"
            " bisect --clone TREE --good A --bad B', which copies the commits into it"
        )
    policy = options["policy"] or ("time" if lab or native else "instructions")
    matrix = options["matrix"]
    if native and matrix == "default":
        matrix = load_board(options["board"]).matrix
    return Setting(str(tree.resolve()), options["board"], matrix, policy, lab, sandbox)


def is_native(board: str) -> bool:
    """Whether this machine's CPU is the board's: its clock is `time`, without a lab."""
    return isinstance(load_board(board), HostBoard)


def _repository(tree: Path) -> Path:
    if not tree.is_dir():
        near = near_path(tree) or ": name a kernel git tree"
        raise UsageError(f"--tree {tree}: no such folder{near}")
    return tree


def _asked(history: History, good: str, bad: str, options: dict[str, Any]) -> Asked:
    return Asked(
        history.commit(good, "--good"),
        history.commit(bad, "--bad"),
        options["cells"],
        options["section"],
        options["first_parent"],
        tuple(options["paths"]),
        (options["term_old"], options["term_new"]),
    )


def _check_section(section: str | None, meter: Meter) -> None:
    """Raise UsageError for a section that no policy knows, before anything is built."""
    known = [*(s.value for s in meter.policy.sections), WHOLE, WORK]
    # Behind a colon: an element, such as register_reads.ufs:submission.
    if section is not None and section not in known and ":" not in section:
        near = meant(section, known) or ":"
        raise UsageError(f"--section {section}: there is none{near} choose from {', '.join(known)}")


def _confirmed(
    root: Path, meter: Meter, found: Found, whole: Whole, explain: bool, progress: Progress
) -> dict[str, Confirmed]:
    """Each single commit against its parent, by its name; the first one in what was searched."""
    made = {}
    history = History(Path(meter.setting.tree))
    for culprit in whole.culprits:
        commit, parents = culprit.commits[0], history.parents(culprit.commits[0])
        if len(culprit.commits) > 1 or not parents:
            continue
        target = culprit.worst
        if found.commits == [commit] and found.target in culprit.step.deltas:
            target = found.target or target
        folder = root / f"culprit-{commit[:12]}"
        made[commit] = confirm(folder, meter.setting, parents[0], commit, target, progress, explain)
    return made


def _result(
    asked: Asked,
    history: History,
    meter: Meter,
    found: tuple[Found, Whole],
    confirmed: dict[str, Confirmed],
) -> dict[str, Any]:
    first, whole = found
    commits = [asdict(history.known(c)) for c in first.commits]
    own = confirmed.get(first.commits[0]) if len(commits) == 1 else None
    culprits = []
    for culprit in whole.culprits:
        sure = confirmed.get(culprit.commits[0])
        moved = sure is not None and sure.moved
        culprits.append(
            {
                **as_json(history, culprit),
                "confirmed": moved,
                "functions": [asdict(f) for f in sure.functions] if sure else [],
            }
        )
    return {
        "schema_version": BISECT,
        "outcome": outcome_of(first, own, culprits),
        "good": asdict(history.known(asked.good)),
        "bad": asdict(history.known(asked.bad)),
        "terms": asked.terms,
        "why": first.why,
        "cell": first.target[0] if first.target else None,
        "section": first.target[1] if first.target else None,
        "full": round(first.full, 1),
        "commits": commits,
        "skipped": {c["sha"]: meter.why(c["sha"]) for c in commits if meter.why(c["sha"])},
        "confirmed": asdict(own) if own else None,
        "culprits": culprits,
        "total": parts_json(whole.total),
        "left": parts_json(whole.left),
        "moved": [
            {"cell": part[0], "section": part[1], "delta": round(value.delta, 1)}
            for part, value in sorted(first.moved.items())
        ],
        "range": first.range_size,
        "candidates": first.candidates,
        "tested": [
            {"commit": sha, "is": word, "delta": delta} for sha, word, delta in first.tested
        ],
        "spent": asdict(meter.spent),
        "disk": usage(meter.root),
    }


def outcome_of(found: Found, own: Confirmed | None, culprits: list[dict[str, Any]]) -> str:
    """``found``: the searched commit and all others are single, and confirmed."""
    if not found.commits:
        return "nothing"
    if len(found.commits) > 1 or any(len(one["commits"]) > 1 for one in culprits):
        return "range"
    sure = own is not None and own.moved and crossed_way(own, found)
    return "found" if sure and all(one["confirmed"] for one in culprits) else "unconfirmed"


def crossed_way(confirmed: Confirmed, found: Found) -> bool:
    """Whether the commit changed the value the same way as the whole range did."""
    return confirmed.delta * found.full > 0


def _show(result: dict[str, Any], root: Path, output: Output) -> None:
    if output.as_json:
        click.echo(json.dumps(result, indent=1, sort_keys=True))
        return
    lines = bisect_lines(result)
    if output.quiet:
        click.echo(lines[0])
        return
    output.progress.say(effort(result))
    output.show(lines)
    click.echo(f"written: {root / 'bisect.json'}")


class _Step(click.Command):
    """A command whose every failure ends ``git bisect run``, which takes 1 to 124 as bad."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.ClickException as error:
            error.show()
            raise SystemExit(STOP) from error


@click.command("bisect-step", cls=_Step)
@click.option("--tree", default=".", type=click.Path(path_type=Path), show_default=True)
@click.option("--good", "--old", "good", required=True, metavar="A", help="Revision before.")
@click.option("--bad", "--new", "bad", metavar="B", help="Revision that has all of the change.")
@click.option("--commit", default="HEAD", show_default=True, help="The revision that is judged.")
@click.option("--cell", required=True, help="The cell that is measured.")
@click.option("--section", required=True, 
    help="Its section, 'whole' (the whole I/O) or 'work' (outside I/Os).")  # fmt: skip
@click.option(
    "--at-least",
    type=FiniteRange(0, min_open=True),
    help="Without B: bad from this many instructions on.",
)
@board_options
@click.option(
    "--out",
    default=None,
    type=click.Path(path_type=Path),
    help="Folder for what earlier steps measured.",
)
@click.option("--quiet", is_flag=True, help="No progress.")
def step_command(
    tree: Path, good: str, bad: str | None, commit: str, quiet: bool, **options: Any
) -> None:
    """Judge one revision for `git bisect run`: exit code 0 good, 1 bad, 125 cannot be tested.

    It is bad when it has at least half of what B has over A; without B, when the section moved at
    all. A failure of this machine ends the search with 128.
    """
    try:
        code = _step(tree, good, bad, commit, Progress(quiet), options)
    except Exception as error:
        # Whatever it is: another exit code would tell git that the commit is bad.
        click.echo(f"iotoll: {told(error)[0]}", err=True)
        raise SystemExit(STOP) from error
    raise SystemExit(code)


def _step(
    tree: Path, good: str, bad: str | None, commit: str, progress: Progress, options: dict[str, Any]
) -> int:
    history = History(_repository(tree))
    first, tested = history.commit(good, "--good"), history.commit(commit, "--commit")
    setting = setting_of(tree, options)
    folder = history.ask("rev-parse", "--path-format=absolute", "--git-path", "iotoll-bisect")
    identity = {"step": [first, options["cell"]], "setting": asdict(setting)}
    # Below .git, where `git bisect` also keeps its state: nothing untracked appears in the tree.
    root = options["out"] or Path(folder) / json_sha256(identity)[:12]
    with locked(root):
        meter = Meter(root, setting, first, Log(root / NAME, identity), progress)
        full = None
        if bad is not None:
            full = _value(meter, history.commit(bad, "--bad"), options)
            if full is None or full[1] not in ("grew", "shrank"):
                raise UsageError(f"--bad {bad}: {options['cell']}: {options['section']} is as in A")
        found = _value(meter, tested, options)
        if found is None:
            return SKIP
        delta, moved = found
        if full is not None:
            is_bad = crossed(delta, full[0])
        elif options["at_least"] is not None:
            is_bad = delta >= options["at_least"]
        else:
            is_bad = moved in ("grew", "shrank")
    click.echo(f"{history.known(tested).line}: {delta:+g}: {'bad' if is_bad else 'good'}")
    return BAD if is_bad else 0


def _value(meter: Meter, commit: str, options: dict[str, Any]) -> tuple[float, str] | None:
    cell, section = options["cell"], options["section"]
    if cell not in meter.matrix.cells:
        raise UsageError(
            f"--cell {cell}: not in the matrix: choose from {meter.matrix.cells[0]}, …"
        )
    values = meter.values(commit, [cell])
    if values is None:
        return None
    if (cell, section) not in values:
        raise UsageError(
            f"--section {section}: {cell} has {', '.join(sorted(s for _, s in values))}"
        )
    value = values[cell, section]
    return None if value.moved == "unknown" else (value.delta, value.moved)
