"""``iotoll experiment ranges``: is the culprit found, and by how many builds fewer than git's?"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from iotoll.bisect.account import Accountant
from iotoll.bisect.find import Asked, Finder
from iotoll.bisect.history import History
from iotoll.bisect.log import NAME, Log
from iotoll.bisect.meter import Meter
from iotoll.bisect.setting import Setting, locked
from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.kernels.tree import clean_env
from iotoll.records import results
from iotoll_lab.experiments.ranges import CELL, COSTLY, Planned, Repository, plant


@dataclass(frozen=True)
class Row:
    """One range: what was planted and found, and what it cost; ``git`` counts are git's own.

    Builds are of commits between A and B. ``git_builds`` is None for ranges of several culprits,
    of which git finds one only.
    """

    name: str
    commits: int
    culprits: list[str]
    found: list[str]
    exact: bool
    builds: int
    boots: int
    skipped: int
    git_builds: int | None
    seconds: float


@click.command("ranges")
@click.option("--ranges", default=40, show_default=True, type=click.IntRange(1))
@click.option("--first", default=1, show_default=True, type=click.IntRange(1), help="First range.")
@click.option("--commits", default=64, show_default=True, type=click.IntRange(16))
@click.option("--culprits", default=5, show_default=True, type=click.IntRange(1, 5), help="Most.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option(
    "--file", "only", type=click.Choice(sorted({path for path, _ in COSTLY})),
    help="All commits change this file and no other one.",
)  # fmt: skip
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--out", default="runs/ranges", show_default=True, type=click.Path(path_type=Path))
def ranges_command(
    ranges: int,
    first: int,
    commits: int,
    culprits: int,
    seed: int,
    only: str | None,
    board: str,
    out: Path,
) -> None:
    """Make git ranges with planted changes, and search them with real builds and boots.

    A range with one culprit is searched by bisect, with several by ledger. Re-running the
    command resumes.
    """
    progress = Progress()
    repository = Repository(out / "linux.git", "debian", progress)
    rows: list[Row] = []
    for number in range(first, first + ranges):
        planned = plant(repository, seed, number, commits, culprits, only)
        rows.append(_row(out.resolve(), repository, planned, board, progress))
        text = json.dumps([asdict(row) for row in rows], indent=1)
        results.write_text(out / "table.json", text + "\n")
        row = rows[-1]
        git = "" if row.git_builds is None else f" (git bisect: {row.git_builds})"
        click.echo(
            f"{row.name}: {'exact' if row.exact else 'NOT exact'}, {len(row.culprits)} culprits,"
            f" {row.builds} builds{git}, {row.boots} boots, {row.seconds:.0f} s"
        )
    click.echo(f"{sum(r.exact for r in rows)} of {len(rows)} ranges exact: {out / 'table.json'}")


def _row(
    out: Path, repository: Repository, planned: Planned, board: str, progress: Progress
) -> Row:
    root = out / planned.name
    known = root / "row.json"
    if known.is_file():
        return Row(**json.loads(known.read_text()))
    history = History(repository.root)
    setting = Setting(str(repository.root), board, "default", "instructions")
    tip, one = planned.commits[-1], len(planned.costs) == 1
    identity = {"range": [planned.base, tip], "setting": asdict(setting)}
    started = time.monotonic()
    with locked(root):
        meter = Meter(root, setting, planned.base, Log(root / NAME, identity), progress)
        if one:
            asked = Asked(planned.base, tip, (CELL,))
            found = Finder(meter, history, asked, progress).find().commits
        else:
            account = Accountant(meter, history, progress, None).account(planned.base, tip, [CELL])
            found = [
                entry.row.commits[0] if len(entry.row.commits) == 1 else "together"
                for entry in account.entries
                if entry.row.deltas and entry.row.why not in ("tiny", "small")
            ]
    spent = meter.spent
    row = Row(
        name=planned.name,
        commits=len(planned.commits),
        culprits=list(planned.costs),
        found=found,
        exact=found == list(planned.costs),
        builds=spent.builds + spent.cached - 2,
        boots=spent.boots,
        skipped=spent.skipped,
        git_builds=git_builds(repository.root, planned) if one else None,
        seconds=round(time.monotonic() - started, 1),
    )
    results.write_text(known, json.dumps(asdict(row)) + "\n")
    return row


_ANSWER = """
import json, subprocess, sys
plan = json.load(open(sys.argv[1]))
head = subprocess.check_output(["git", "rev-parse", "BISECT_HEAD"], text=True).strip()
with open(sys.argv[1] + ".asked", "a") as out:
    out.write(head + "\\n")
sys.exit(125 if head in plan["skips"] else 1 if head in plan["bad"] else 0)
"""


def git_builds(repository: Path, planned: Planned) -> int:
    """How many commits ``git bisect run`` tests in the same range, told what each one is.

    Raises InfrastructureError when git does not find the one culprit.
    """
    (culprit,) = planned.costs
    bad = planned.commits[planned.commits.index(culprit) :]
    with tempfile.TemporaryDirectory(prefix="iotoll-") as name:
        folder = Path(name)
        plan = folder / "plan.json"
        plan.write_text(json.dumps({"skips": sorted(planned.skips), "bad": list(bad)}))
        script = folder / "answer.py"
        script.write_text(_ANSWER)
        own = folder / "bisect.git"
        _git(["git", "clone", "-q", "--bare", "--shared", str(repository), str(own)], folder)
        tip = planned.commits[-1]
        # The ranges' repository has no branch that its HEAD names, and git bisect wants a HEAD.
        _git(["git", "update-ref", "--no-deref", "HEAD", tip], own)
        _git(["git", "bisect", "start", "--no-checkout", tip, planned.base], own)
        said = _git(["git", "bisect", "run", sys.executable, str(script), str(plan)], own)
        if f"{culprit} is the first bad commit" not in said:
            raise InfrastructureError(f"git bisect did not name {culprit[:12]}", said)
        return len((folder / "plan.json.asked").read_text().split())


def _git(command: list[str], cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, env=clean_env(), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise InfrastructureError(f"{' '.join(command[:3])}: {done.stderr.strip()}", done.stdout)
    return done.stdout
