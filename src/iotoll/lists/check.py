"""``iotoll check``: one mailed patch in, one line for each finding out, as b4 reads it.

b4 takes each line on standard output for a finding, a failure where it has ``ERROR:`` in it, and
whatever is on standard error for a failure: so nothing is said there but a usage error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from iotoll.boards.board import load_board
from iotoll.boards.equip import families
from iotoll.boards.matrix import load_matrix
from iotoll.core.digest import json_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import cache_dir
from iotoll.core.plain import plain
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow, execute_alone
from iotoll.kernels import source
from iotoll.patch import candidate, mail, selection
from iotoll.records import results
from iotoll.records.models import Outcome, SelectionRecord, SourceRecord, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import asked_for
from iotoll.run.opening import open_run

CHECKS = "checks"
"""Folder of the cache with the runs of checks."""
KEPT = 20
"""Runs of checks that are kept, the newest: each has two kernel images."""
_MOST = 64 << 20  # bytes of a mail, as of any candidate
_LONGEST = 400  # characters of a line
_STATUS = {"fail": "ERROR", "warn": "WARNING"}


@dataclass(frozen=True)
class Finding:
    """One line about a patch."""

    status: Literal["fail", "warn"]
    text: str

    @property
    def line(self) -> str:
        """The line that b4 reads: no text but a failure's has ``ERROR:`` in it."""
        return f"{_STATUS[self.status]}: {self.plain}"

    @property
    def plain(self) -> str:
        """The text as one line without control characters, and without b4's word."""
        return " ".join(plain(self.text).split()).replace("ERROR:", "ERROR")[:_LONGEST]


@dataclass(frozen=True)
class Asked:
    """What a check compares, as its command line has it; ``tree`` is a path or ``debian``."""

    tree: str
    base: str | None
    board: str | None
    matrix: str
    policy: str | None
    cells: str | None


@dataclass(frozen=True)
class Checked:
    """What was found, and one sentence about all of it."""

    findings: Sequence[Finding]
    sentence: str


@click.command("check")
@click.argument("patch", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--tree", help="Kernel git tree or archive. Default: the tree that this is run in, or Debian's."
)
@click.option("--base", help="Git revision of the base. Default: by the mail, or by its blobs.")
@click.option("--board", help="Board or file. Default: the rules', else virt-arm64.")
@click.option("--matrix", default="default", show_default=True, help="Matrix or file.")
@click.option("--policy", help="Policy or file.")
@click.option("--cells", metavar="LIST", help="Only these cells, comma-separated; * is allowed.")
@click.option("--b4-json", is_flag=True, help="Print b4's JSON, for review-*-check-cmd.")
def check_command(patch: Path, tree: str | None, b4_json: bool, **asked: Any) -> None:
    """Check one PATCH (- for standard input) for b4: a line for each finding, none for a pass.

    A line with "ERROR:" is a failure, any other one a warning. Exit code 1 with a failure, else 0.
    Nothing is booted, or even built, where the selection says that nothing can move.
    """
    is_stdin = str(patch) == "-"
    name = "standard input" if is_stdin else str(patch)
    try:
        with sys.stdin.buffer if is_stdin else patch.open("rb") as stream:
            data = stream.read(_MOST + 1)
    except OSError as error:
        raise UsageError(f"{name}: cannot be read ({error.strerror}): give a patch") from error
    if len(data) > _MOST:
        raise UsageError(f"{name}: larger than {_MOST >> 20} MiB, so no patch: check it")
    request = Asked(tree or _default_tree(), **asked)
    found = check(data, request, name)
    if b4_json:
        click.echo(b4_text(found))
    else:
        for one in found.findings:
            click.echo(one.line)
    raise SystemExit(any(one.status == "fail" for one in found.findings))


def _default_tree() -> str:
    """The kernel tree of the current folder, where b4 runs checks; else Debian's source."""
    makefile = Path("Makefile")
    is_kernel = makefile.is_file() and re.search(
        r"^PATCHLEVEL = \d", makefile.read_text(errors="replace")[:2000], re.M
    )
    return "." if is_kernel and Path(".git").exists() else "debian"


def b4_text(found: Checked) -> str:
    """What b4's review-perpatch-check-cmd and review-series-check-cmd read."""
    status = min((one.status for one in found.findings), default="pass")
    details = [{"status": one.status, "description": one.plain} for one in found.findings]
    entry = {"tool": "iotoll", "status": status, "summary": found.sentence[:_LONGEST], "url": ""}
    return json.dumps([{**entry, "details": json.dumps(details)}])


def check(data: bytes, asked: Asked, name: str) -> Checked:
    """Judge one patch; a cover letter that b4 hands over in a review stands for its series.

    ``name`` is what messages call it. Raises UsageError for what cannot be judged through a fault
    of the user's.
    """
    mails = mail.mails(data) if mail.looks_like_mail(data) else []
    try:
        if len(mails) == 1 and mails[0].number == 0 and not mails[0].is_patch:
            return _check_cover(asked)
        candidate.series_of(data, name)
        folder = _folder(data, asked)
        results.write_bytes(folder / "patch.mbox", data)
        choice = candidate.classify(str(folder / "patch.mbox"), tree=asked.tree, base=asked.base)
        return _judge(folder, choice, asked, later=any((m.number or 1) > 1 for m in mails))
    except InfrastructureError as error:
        return _only("warn", f"not measured: {error}")


def _check_cover(asked: Asked) -> Checked:
    """The series whose branch b4 names in the file B4_TRACKING_FILE; without one, that it lacks."""
    named = os.environ.get("B4_TRACKING_FILE")
    why = "not measured: a cover letter alone holds no patch"
    if named is None:
        return _only("warn", why)
    try:
        series = json.loads(Path(named).read_text())["series"]
        first, change = str(series["first-patch-commit"]), str(series["change-id"])
    except (OSError, ValueError, KeyError, TypeError):
        return _only("warn", f"{why}, and {named} names none")
    if not re.fullmatch(r"[0-9a-f]{7,64}", first) or not re.fullmatch(r"[\w.+-]+", change):
        return _only("warn", f"{why}, and {named} names none")
    # The branch's tip is b4's own commit of what it tracks.
    words = f"{first}^..b4/review/{change}~1"
    choice = candidate.classify(words, tree=asked.tree)
    key = f"{words} {source.identity(choice.tree or '', f'b4/review/{change}')}"
    return _judge(_folder(key.encode(), asked), choice, asked, later=False)


def _folder(data: bytes, asked: Asked) -> Path:
    """The folder of this check, which the same one finds again; old ones are removed."""
    parent = cache_dir() / CHECKS
    tree = asked.tree if candidate.is_debian(asked.tree) else str(Path(asked.tree).resolve())
    state = source.identity(tree, asked.base)
    whole = [data.decode("latin-1"), tree, state, *vars(asked).values()]
    folder = parent / json_sha256(whole)[:16]
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder)
    known = sorted((p for p in parent.iterdir() if p.is_dir()), key=lambda p: p.stat().st_mtime)
    for old in known[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def _judge(folder: Path, choice: candidate.CandidateChoice, asked: Asked, later: bool) -> Checked:
    """Gate it; ``later`` says that it is not the first of its series, which was not given."""
    manifest = asked_for(
        "gate",
        choice,
        board=asked.board,
        matrix=asked.matrix,
        policy=asked.policy,
        cells=asked.cells,
    )
    run = open_run(folder / "run", manifest)
    flow = Flow(run, Progress(quiet=True))
    verdict = execute_alone(flow, "source")
    if verdict is None:
        paths = results.read(run.selection, SelectionRecord).changed_paths
        # Here no build confirms what the rules say of a path, as the gate's does: it takes minutes.
        matrix = load_matrix(manifest.matrix)
        usable = families(load_board(manifest.board), matrix)
        own = selection.select(paths, matrix.cells, families=usable)
        if not own.cells:
            return Checked((), own.why)
        verdict = execute_alone(flow)
    assert verdict is not None  # a gate that runs to its end has one
    return conclude(run, verdict, later)


def conclude(run: RunDir, verdict: VerdictRecord, later: bool) -> Checked:
    """What a verdict means to b4; ``later`` as in `_judge`."""
    path = run.side("base") / "source.json"
    base = results.read(path, SourceRecord) if path.is_file() else None
    failure = verdict.failure
    found: list[Finding] = []
    if verdict.outcome is Outcome.REGRESSION:
        found += _grown(run, verdict)
    elif failure is not None and verdict.outcome is Outcome.BROKEN:
        is_unknown = base is not None and base.base_by == "guess"
        if failure.step == "apply" and (later or is_unknown):
            needs = "the patches before it" if later else "another base (--base)"
            found.append(Finding("warn", f"not measured: it needs {needs}: {verdict.sentence}"))
        else:
            found.append(Finding("fail", verdict.sentence))
    elif verdict.outcome is not Outcome.PASS:
        found.append(Finding("warn", f"not measured: {verdict.sentence}"))
    if base is not None and base.base_by == "guess" and verdict.outcome is not Outcome.BROKEN:
        found.append(Finding("warn", f"the base is a guess: {base.base_why}"))
    found += [Finding("warn", text) for text in dict.fromkeys(verdict.warnings)]
    return Checked(found, verdict.sentence)


def _grown(run: RunDir, verdict: VerdictRecord) -> list[Finding]:
    """What grew: a line for each section of a device, and for each limit that differs."""
    # The report's modules take a tenth of a second to import: a pass does without.
    from iotoll.reports.page.evidence import gather
    from iotoll.reports.page.findings import findings

    found = [
        Finding("fail" if one.kind == "regression" else "warn", one.sentence)
        for one in findings(gather(run))
        if one.kind in ("regression", "accepted", "undecided")
        and (one.size is None or one.size > 0)
    ]
    if not any(one.status == "fail" for one in found):
        found.insert(0, Finding("fail", verdict.sentence))
    found.sort(key=lambda one: one.status)
    first = found[0]
    return [Finding(first.status, f"{first.text}; report: {run.report}/index.html"), *found[1:]]


def _only(status: Literal["fail", "warn"], text: str) -> Checked:
    finding = Finding(status, text)
    return Checked((finding,), finding.plain)
