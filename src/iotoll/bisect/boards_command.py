"""``iotoll bisect`` on boards' time, in a lab or on a native board, and its result."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from iotoll.bisect import boards
from iotoll.bisect.bayes import Search
from iotoll.bisect.culprit import Confirmed, confirm, reverted
from iotoll.bisect.fields import BOARDS
from iotoll.bisect.find import Asked
from iotoll.bisect.history import History
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import usage
from iotoll.bisect.setting import Part, Setting, locked
from iotoll.bisect.terminal import boards_text
from iotoll.core.cli_support import Output
from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError
from iotoll.records import results

VIRTUAL = "the lab's boards are virtual, and their time is QEMU's, which cannot gate"
Sure = tuple[Confirmed | None, Confirmed | str | None]
"""What the gates say of the commit against its parent, and of the tip without it; None: not run."""


def search_boards(
    history: History,
    asked: Asked,
    setting: Setting,
    out: Path | None,
    output: Output,
    options: dict[str, Any],
) -> int:
    """Search, confirm, write and say; returns the exit code."""
    if len(asked.cells) != 1:
        raise UsageError("--cell: on boards' time a search needs one: name the cell that moved")
    if asked.paths:
        raise UsageError("--path: a search on boards' time walks all first parents: leave it out")
    target = (asked.cells[0], asked.section or "overhead")
    boards.check_figure(target[1])
    manifest = boards.shared_manifest(setting, (asked.good, asked.bad), target[0])
    virtual = manifest.accelerator != "none"
    if virtual:
        output.progress.say(f"{VIRTUAL}: the search may name a commit, and no gate confirms it")
    started = time.monotonic()
    points = boards.points_of(history, asked.good, asked.bad)
    noise = options["noise"] or boards.noise_of(setting, target)
    search = Search(
        len(points) - 1,
        noise,
        -1 if options["cheaper"] else 1,
        boards.prior_of(history, points, target[0]),
    )
    identity = {"asked": asdict(asked), "setting": asdict(setting), "cheaper": options["cheaper"]}
    root = out or Path("runs") / f"bisect-{asked.bad[:12]}-{json_sha256(identity)[:8]}"
    with locked(root):
        log = Log(root / NAME, identity)
        if setting.lab is not None and not log.of("begun"):
            boards.check_lab(setting)
        source = boards.PairSource(root, setting, asked.good, target, output.progress)
        # This machine is one board: two kernels at once would disturb each other.
        limits = (options["boards"] if setting.lab else 1, options["max_pairs"])
        found = boards.BoardSearch(points, source, search, log, output.progress, *limits).run()
        sure: Sure = (None, None)
        if not virtual:
            sure = _checked(root, history, asked, setting, target, found, output)
        result = _result(history, asked, setting, target, found, sure, root)
        result["outcome"] = _outcome(found, sure[0], options["cheaper"])
        result |= {"noise": noise, "learned": round(float(search.sigma[0]), 6)}
        result |= {"range": len(points) - 1, "virtual": VIRTUAL if virtual else None}
        result["spent"]["seconds"] = round(time.monotonic() - started, 1)
        _write(root, result)
    _show(result, output)
    return 0 if result["outcome"] == "found" else 3


def _write(root: Path, result: dict[str, Any]) -> None:
    results.write_text(root / "bisect.json", json.dumps(result, indent=1) + "\n")
    results.write_text(root / "bisect.txt", boards_text(result))


def _show(result: dict[str, Any], output: Output) -> None:
    if output.as_json:
        click.echo(json.dumps(result, indent=1, sort_keys=True))
        return
    lines = boards_text(result).rstrip("\n").splitlines()
    output.show(lines[:1] if output.quiet else lines)


def _checked(
    root: Path,
    history: History,
    asked: Asked,
    setting: Setting,
    target: Part,
    found: boards.Located,
    output: Output,
) -> Sure:
    """The commit against its parent, and B against B without it; nothing where none is named."""
    if len(found.commits) != 1 or found.why:
        return None, None
    commit = found.commits[0]
    parent = history.parents(commit)[0]
    folder = root / f"culprit-{commit[:12]}"
    confirmed = confirm(folder, setting, parent, commit, target, output.progress, False)
    if not confirmed.moved:
        return confirmed, None
    if commit == asked.bad:
        return confirmed, "it is the tip itself: its parent is the tip without it"
    ends = (parent, commit, asked.bad)
    back = root / f"revert-{commit[:12]}"
    return confirmed, reverted(back, setting, history, ends, target, output.progress)


def _result(
    history: History,
    asked: Asked,
    setting: Setting,
    target: Part,
    found: boards.Located,
    sure: Sure,
    root: Path,
) -> dict[str, Any]:
    return {
        "schema_version": BOARDS,
        "good": asdict(history.known(asked.good)),
        "bad": asdict(history.known(asked.bad)),
        "board": setting.board,
        "lab": setting.lab,
        "cell": target[0],
        "section": target[1],
        "commits": [asdict(history.known(c)) for c in found.commits],
        "sure": round(found.sure, 4),
        "effect": round(found.effect, 6),
        "why": found.why,
        "confirmed": asdict(sure[0]) if sure[0] else None,
        "reverted": asdict(sure[1]) if isinstance(sure[1], Confirmed) else sure[1],
        "spent": {"pairs": found.pairs, "builds": found.measured, "skipped": found.skipped},
        "disk": usage(root),
    }


def _outcome(found: boards.Located, confirmed: Confirmed | None, cheaper: bool) -> str:
    if found.why or len(found.commits) != 1:
        return "range"
    is_so = confirmed is not None and confirmed.moved and (confirmed.delta < 0) == cheaper
    return "found" if is_so else "unconfirmed"
