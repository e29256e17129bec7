"""``iotoll reproduce``: derive a verdict again, and say bit for bit what differs.

*From what is stored*: figures, comparisons and verdict are made anew from the run's traces (or the
records of boards that cut their own I/Os), without a board, a compiler or a network. *Again*: both
kernels of the run boot once more on the virtual board, with the same images, cells and job; that
is another measurement, so its verdict is compared, and each count that came out otherwise is told.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from iotoll.core.digest import file_sha256
from iotoll.core.errors import IotollError, ResultError, UsageError
from iotoll.core.progress import Progress
from iotoll.core.scratch import scratch
from iotoll.gate.flow import Flow, execute
from iotoll.records import results
from iotoll.records.models import BootRecord, BuildRecord, SideResult, VerdictRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import SIDES, RunDir
from iotoll.run import opening
from iotoll.verdict.policy import load_any_policy
from iotoll.verdict.time.clocks import CONFIRMED

_SHOWN = 20
_SAME_PINS = ("board", "matrix", "policy", "policy_sha256", "clock", "unit")


@dataclass
class Reproduction:
    """What came of it: ``differences`` decide, ``notes`` are what a reader must know."""

    how: str
    before: VerdictRecord
    after: VerdictRecord | None = None
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool:
        """Whether the verdict was reproduced."""
        return self.after is not None and not self.differences

    def as_json(self) -> dict[str, Any]:
        """What `iotoll reproduce --json` prints."""
        return {
            "how": self.how,
            "before": self.before.outcome.value,
            "after": self.after.outcome.value if self.after else None,
            "differences": self.differences,
            "notes": self.notes,
        }

    def lines(self, quiet: bool) -> list[str]:
        """What a terminal shows."""
        word = "the same verdict" if self.same else "NOT the same"
        first = f"{self.how}: {word}: {self.before.outcome.value}"
        rows = [f"  differs: {text}" for text in self.differences]
        return [first, *rows, *(f"  {text}" for text in self.notes if not quiet)]


def from_stored(run: RunDir, progress: Progress) -> Reproduction:
    """Derive a run's figures and verdict again from what it stored; the run is not changed."""
    before = _verdict(run)
    found = Reproduction("from what is stored", before)
    if before.failure is not None:
        found.differences.append(
            f"there is nothing to derive: the run ended at its step {before.failure.step}"
        )
        return found
    _check_pins(run, before, found)
    with _copy(run) as copy:
        flow = Flow(copy, progress, stored=True)
        flow.collect()
        flow.judge()
        found.after = _verdict(copy)
        for old in _derived(run):
            new = copy.root / old.relative_to(run.root)
            name = str(old.relative_to(run.root))
            if not new.is_file():
                found.differences.append(f"{name}: was not made again")
            elif old.read_bytes() != new.read_bytes():
                found.differences += _differences(old, new, name)
    return found


def boot_again(run: RunDir, progress: Progress) -> Reproduction:
    """Boot a run's kernels again on the virtual board, and compare the verdicts."""
    before = _verdict(run)
    found = Reproduction("by running again", before)
    manifest = run.manifest
    if manifest.runner != "local":
        raise UsageError(f"{run.root}: a lab booted it: only what is stored can be judged")
    for side in SIDES:
        if not (run.build(side) / "Image").is_file():
            raise UsageError(f"{run.root}: has no image of the {side}: nothing can boot again")
        record = results.read(run.build(side) / "build.json", BuildRecord)
        if file_sha256(run.build(side) / "Image") != record.image_sha256:
            raise ResultError(f"{run.root}: the {side}'s Image is not the one that was built")
    _check_pins(run, before, found)
    with _copy(run, boots=False) as copy:
        found.after = execute(Flow(copy, progress, fresh=True), since="boot")
        assert found.after is not None
        _compare_boots(run, copy, found)
        _compare_verdicts(before, found.after, found)
    return found


def _verdict(run: RunDir) -> VerdictRecord:
    if not run.verdict.is_file():
        raise UsageError(f"{run.root}: has no verdict to reproduce")
    return results.read(run.verdict, VerdictRecord)


def _check_pins(run: RunDir, verdict: VerdictRecord, found: Reproduction) -> None:
    now = load_any_policy(run.manifest.policy).sha256
    if now != verdict.policy_sha256:
        found.differences.append(
            f"policy {verdict.policy}: its file has changed since"
            f" ({verdict.policy_sha256[:12]}, now {now[:12]})"
        )


@contextmanager
def _copy(run: RunDir, boots: bool = True) -> Iterator[RunDir]:
    """A copy of a run without what is derived from its boots (and without them)."""
    left_out = {"report", "verdict.json", "result.json", *(() if boots else ("boots",))}

    def ignore(folder: str, names: list[str]) -> set[str]:
        if CONFIRMED in Path(folder).relative_to(run.root).parts:
            return set()  # what a native board said is another run's, and no boot of this one's
        stamps = not boots and Path(folder).name == ".steps"
        return left_out & set(names) | {n for n in names if stamps and n.startswith("boot.")}

    with scratch() as folder:
        root = folder / "run"
        shutil.copytree(run.root, root, ignore=ignore, symlinks=True)
        try:
            yield RunDir.open(root)
        except IotollError as error:
            if boots:  # else the file that it names is a fresh boot's, and not the run's
                error.args = (str(error).replace(str(root), str(run.root)),)
            raise


def _derived(run: RunDir) -> list[Path]:
    paths = [run.verdict, *(run.side(side) / "result.json" for side in SIDES)]
    return [path for path in paths if path.is_file()]


def _differences(old: Path, new: Path, name: str) -> list[str]:
    """The fields in which two JSON files differ, the first few of them."""
    rows = list(_walk(json.loads(old.read_text()), json.loads(new.read_text()), name))
    more = [f"{name}: and {len(rows) - _SHOWN} more fields"] if len(rows) > _SHOWN else []
    return rows[:_SHOWN] + more or [f"{name}: the same fields, other bytes"]


def _walk(old: Any, new: Any, where: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _walk(old.get(key), new.get(key), f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _walk(one, other, f"{where}/{index}")
    elif old != new:
        yield f"{where}: {_short(old)}, now {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:60] + "…"


def _compare_boots(run: RunDir, copy: RunDir, found: Reproduction) -> None:
    """What was pinned, and the counts of the first boots."""
    for side, number in [(one, n) for one in SIDES for n in run.first_boots(one)]:
        old, new = _boot(run, side, number), _boot(copy, side, number)
        if old is None or new is None:
            continue
        if old.board_sha256 != new.board_sha256:
            found.differences.append(f"{side}: board, job or board image are not the same now")
        for name in sorted({*old.tools, *new.tools}):
            if old.tools.get(name) != new.tools.get(name):
                then, now = old.tools.get(name, "absent"), new.tools.get(name, "absent")
                found.notes.append(f"{side}: {name} was {then}, now {now}")
    counted = [0, 0]
    for side in SIDES:
        before, after = (_result(r, side) for r in (run, copy))
        if before is None or after is None:
            continue
        for cell, records in before.cells.items():
            for section, counts in records[0].gate.items() if records else ():
                other = after.cells.get(cell) or []
                counted[0] += 1
                counted[1] += bool(other) and other[0].gate.get(section) == counts
    found.notes.append(f"{counted[1]} of {counted[0]} sections have the same counts, I/O by I/O")


def _boot(run: RunDir, side: Side, number: int) -> BootRecord | None:
    path = run.boot(side, number) / "boot.json"
    return results.read(path, BootRecord) if path.is_file() else None


def _result(run: RunDir, side: Side) -> SideResult | None:
    path = run.side(side) / "result.json"
    return results.read(path, SideResult) if path.is_file() else None


def _compare_verdicts(before: VerdictRecord, after: VerdictRecord, found: Reproduction) -> None:
    for name in ("outcome", *_SAME_PINS):
        if getattr(before, name) != getattr(after, name):
            found.differences.append(f"{name}: {getattr(before, name)}, now {getattr(after, name)}")
    moved = [
        {(c.cell, s.section): s for c in verdict.cells for s in c.sections if s.gated}
        for verdict in (before, after)
    ]
    for key in sorted({*moved[0], *moved[1]}):
        old, new = moved[0].get(key), moved[1].get(key)
        if (old and old.moved) != (new and new.moved):
            words = [f"{s.moved} by {s.delta:+.0f}" if s else "not judged" for s in (old, new)]
            found.differences.append(f"{key[0]} {key[1].value}: {words[0]}, now {words[1]}")
        elif old and new and old.delta != new.delta:
            found.notes.append(f"{key[0]} {key[1].value}: {old.delta:+.0f}, now {new.delta:+.0f}")


@click.command("reproduce")
@click.argument("result", type=click.Path(path_type=Path))
@click.option(
    "--again", is_flag=True, help="Boot both kernels again, on the virtual board, and compare."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON on stdout.")
@click.option("--quiet", is_flag=True, help="Print only the verdict and what differs.")
def reproduce_command(result: Path, again: bool, as_json: bool, quiet: bool) -> None:
    """Derive the verdict of RESULT (a run directory or a file in it) again.

    Without --again from what is stored, bit for bit, with no board. Exit code 0: the same verdict;
    1: another one, and what differs.
    """
    run = opening.open_result(result)
    work = boot_again if again else from_stored
    found = work(run, Progress(quiet or as_json))
    if as_json:
        said = {"run": str(run.root), "reproduced": found.same, **found.as_json()}
        click.echo(json.dumps(said, indent=1, sort_keys=True))
    else:
        for line in found.lines(quiet):
            click.echo(line)
    raise SystemExit(0 if found.same else 1)
