"""Several candidates by one ``iotoll gate``: each in a separate process and run directory.

Half as many at a time as there are CPUs, since each boots its two kernels side by side. What one of
them meets (a patch that does not apply, a board that fails) is its own result, and no other's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from iotoll.core.cli_support import Output
from iotoll.core.errors import UsageError
from iotoll.core.plain import plain
from iotoll.core.proc import end_group
from iotoll.core.scratch import scratch
from iotoll.records.models import Outcome
from iotoll.run.opening import label_of

OWN = ("named", "out", "quiet", "as_json")
"""Parameters of the command that are not handed on as they are."""
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Gated:
    """One candidate's end: its exit code, and its verdict or why it has none."""

    candidate: str
    code: int
    verdict: dict[str, Any]

    @property
    def outcome(self) -> str:
        """The verdict's outcome; ``error`` or ``stopped`` where there is none."""
        return str(self.verdict.get("outcome") or ("error" if self.code else "stopped"))


def gate_several(
    context: click.Context, candidates: Sequence[str], out: Path | None, output: Output
) -> int:
    """Gate each of ``candidates`` with the command's other options; returns the exit code.

    With ``out`` each run's directory is in that folder, by the candidate's name. The exit code is
    1 where any is a regression, else the largest. Raises UsageError for two of one name.
    """
    # Without a folder of theirs, runs differ by what is in them, and not by a name.
    names = [_label(one) if out else one for one in candidates]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        why = f"--candidate: two are named {plain(double)}"
        raise UsageError(f"{why}: leave one out, or gate it in another --out")
    shared = _given(context)
    places = [[f"--out={out / name}"] if out else [] for name in names]
    words = [
        [f"--candidate={one}", *shared, *place, "--json"]
        for one, place in zip(candidates, places, strict=True)
    ]
    abreast = max(1, (os.cpu_count() or 1) // 2)
    with output.progress.step(f"gate {len(candidates)} candidates, {abreast} at a time") as step:

        def tell(found: Gated, left: int) -> None:
            step.update(note=f"{left} to go")
            output.progress.say(f"{plain(found.candidate)}: {found.outcome}")

        rows = _run_all(candidates, words, abreast, tell)
    _print(rows, output)
    codes = {row.code for row in rows}
    return 1 if 1 in codes else max(codes)


def _label(candidate: str) -> str:
    stem = Path(candidate).name.removesuffix(".patch").removesuffix(".mbox")
    return label_of(stem, 60).strip(".") or "run"


def _given(context: click.Context) -> list[str]:
    """The command's options as the user gave them, but for `OWN`."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        if name in OWN or context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
            continue
        is_flag = getattr(option, "is_flag", False)
        words.append(option.opts[0] if is_flag else f"{option.opts[0]}={context.params[name]}")
    return words


def _run_all(
    candidates: Sequence[str],
    words: Sequence[Sequence[str]],
    abreast: int,
    tell: Callable[[Gated, int], None],
) -> list[Gated]:
    """Run ``iotoll gate`` for each, ``abreast`` at a time; results in the order given.

    ``tell`` is called with each result and how many are left.
    """
    todo, found = list(range(len(candidates))), dict[int, Gated]()
    running: dict[int, subprocess.Popen[bytes]] = {}
    with scratch() as folder:
        try:
            while todo or running:
                while todo and len(running) < abreast:
                    number = todo.pop(0)
                    running[number] = _start(words[number], folder / str(number))
                time.sleep(POLL_SECONDS)
                for number in [n for n, process in running.items() if process.poll() is not None]:
                    code = running.pop(number).returncode
                    found[number] = _end_of(candidates[number], code, folder / str(number))
                    tell(found[number], len(todo) + len(running))
        finally:
            # Ctrl-C: each keeps what it has, and the same command goes on.
            for process in running.values():
                end_group(process)
    return [found[number] for number in range(len(candidates))]


def _start(words: Sequence[str], place: Path) -> subprocess.Popen[bytes]:
    with place.with_suffix(".out").open("wb") as out, place.with_suffix(".err").open("wb") as err:
        return subprocess.Popen(
            [sys.executable, "-m", "iotoll", "gate", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )


def _end_of(candidate: str, status: int, place: Path) -> Gated:
    text = place.with_suffix(".out").read_text(errors="replace")
    said = place.with_suffix(".err").read_text(errors="replace").strip().splitlines()
    if status < 0:  # killed from outside, with a verdict or not: nothing of it counts
        why = f"its process was ended by signal {-status}: the same command resumes"
        return Gated(candidate, Outcome.INFRASTRUCTURE.exit_code, {"sentence": why})
    if text.strip():
        return Gated(candidate, status, json.loads(text))
    why = said[-1].removeprefix("iotoll: ") if said and status else ""
    return Gated(candidate, status, {"sentence": why})


def _print(rows: Sequence[Gated], output: Output) -> None:
    if output.as_json:
        data = [{"candidate": r.candidate, "exit_code": r.code, **r.verdict} for r in rows]
        click.echo(json.dumps(data, indent=1, sort_keys=True))
        return
    for row in rows:
        said = plain(row.verdict.get("sentence", ""))
        click.echo(f"{plain(row.candidate)}: {row.outcome}{f': {said}' if said else ''}")
        if "run" in row.verdict and not output.quiet:
            click.echo(f"    run: {row.verdict['run']}")
