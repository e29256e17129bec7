"""The jobs of ``pipelines/bisect.yml``: a search without any secret, then a word to GitLab.

What is searched for comes as variables, or as the text of a comment; each word of it is checked
here before anything uses it. The search runs as ``iotoll bisect --sandbox`` does.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click

from iotoll.bisect.command import bisect_command as search
from iotoll.ci import repository
from iotoll.core.errors import InfrastructureError, ResultError, UsageError
from iotoll.records.results import write_text
from iotoll.reports.publish.markdown import harmless
from iotoll.reports.publish.markdown import text as words_of

ANSWER, NOTE = "bisect.json", "note.md"
LONGEST = 1000  # commits of a range, whose history the cache gets
LARGEST = 4 << 20  # bytes of an answer
_REVISION = r"[A-Za-z0-9][A-Za-z0-9._/~^-]{0,100}"
_WORD = r"[a-z0-9][a-z0-9_-]{0,80}"
COMMENT = re.compile(
    rf"/iotoll-bisect[ \t]+({_REVISION}?)\.\.({_REVISION})"
    rf"(?:[ \t]+({_WORD})(?:[ \t]+({_WORD}))?)?[ \t]*"
)
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def asked(options: dict[str, Any]) -> dict[str, str]:
    """What is searched for: good, bad, cell and section; of a comment its first such line."""
    found = {name: options[name] or "" for name in ("good", "bad", "cell", "section")}
    if options["comment"]:
        lines = [COMMENT.fullmatch(line.strip()) for line in options["comment"].splitlines()]
        match = next((one for one in lines if one), None)
        if match is None:
            raise UsageError(
                "the comment asks for nothing: write /iotoll-bisect A..B, and a cell and a section"
                " of it if you like"
            )
        found = dict(zip(found, (one or "" for one in match.groups()), strict=True))
    for name in ("good", "bad"):
        if not re.fullmatch(_REVISION, found[name]) or ".." in found[name]:
            raise UsageError(f"--{name} {found[name]!r}: is not a revision")
    for name in ("cell", "section"):
        if found[name] and not re.fullmatch(_WORD, found[name]):
            raise UsageError(f"--{name} {found[name]!r}: is not the name of one")
    return found


@click.command("bisect")
@click.option("--clone", type=click.Path(path_type=Path), default=".", show_default=True)
@click.option("--project", envvar="CI_PROJECT_PATH", help="Name of the kernel project.")
@click.option("--good", help="Revision before.")
@click.option("--bad", help="Revision that has the change.")
@click.option("--comment", help="A comment's text instead: /iotoll-bisect A..B [CELL [SECTION]].")
@click.option("--cell", help="Default: what moved most.")
@click.option("--section", help="Default: what moved most.")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--matrix", default="default", show_default=True, help="The board's, in a lab.")
@click.option("--runner", type=click.Choice(["local", "lava"]), default="local", show_default=True)
@click.option("--lab", default="local", show_default=True, help="LAVA lab, with --runner lava.")
@click.option("--trusted", help="Branch that has all commits of a search in a lab.")
@click.option("--root", type=click.Path(path_type=Path), default="iotoll-bisect", show_default=True)
def bisect_command(clone: Path, project: str | None, root: Path, **options: Any) -> None:
    """Search a range in the sandbox, and write the note; knows no secret, and sends nothing.

    In a lab only commits of the branch --trusted are searched: their builds run in no sandbox.
    """
    wanted = asked(options)
    change = repository.find_change(clone, wanted["good"], wanted["bad"], None)
    repository.check_range(change, LONGEST)
    words = ["--good", change.base, "--bad", change.candidate]
    words += ["--board", options["board"], "--matrix", options["matrix"]]
    for name in ("cell", "section"):
        words += [f"--{name}", wanted[name]] if wanted[name] else []
    if options["runner"] == "lava":
        repository.check_on_branch(change, options["trusted"])
        words += ["--runner", "lava", "--lab", options["lab"]]
    else:
        words += ["--sandbox"]
    kept = repository.keep(change, project or clone.resolve().name)
    (root / ANSWER).unlink(missing_ok=True)
    try:
        search.main(
            ["--tree", str(kept), *words, "--out", str(root)],
            prog_name="iotoll bisect",
            standalone_mode=False,
        )
        status = 0
    except SystemExit as ended:
        status = int(ended.code or 0)
    if (root / ANSWER).is_file():
        write_text(root / NOTE, note(read(root)))
    raise SystemExit(status)


def read(root: Path) -> dict[str, Any]:
    """A search's answer; raises ResultError for what is none."""
    path = root / ANSWER
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            raise ValueError("it is missing, a link, or too large")
        answer = json.loads(path.read_text())
        shas = [commit["sha"] for commit in [*answer["commits"], *_others(answer)]]
        if not all(isinstance(sha, str) and _SHA.fullmatch(sha) for sha in shas):
            raise ValueError("a commit's name is none")
        if answer["outcome"] not in ("found", "range", "nothing", "unconfirmed"):
            raise ValueError("its outcome is none")
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise ResultError(f"{path}: is not what 'iotoll ci bisect' writes: {error}") from error
    return dict(answer)


def _others(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Culprits beside the one that the search ended at."""
    first = {commit["sha"] for commit in answer["commits"]}
    every = [commit for one in answer.get("culprits", []) for commit in one["commits"]]
    return [commit for commit in every if commit["sha"] not in first]


def note(answer: dict[str, Any], link: str | None = None) -> str:
    """The answer as Markdown in which nothing of the commits' has any effect."""
    what = f"{answer['cell']}: {answer['section']}" if answer["cell"] else "nothing"
    ends = f"`{answer['good']['sha'][:12]}..{answer['bad']['sha'][:12]}`"
    lines = [f"**iotoll bisect**: {answer['outcome']}: {words_of(what)} in {ends}", ""]
    for commit in answer["commits"][:20]:
        lines.append(f"- `{commit['sha'][:12]}` {words_of(commit['subject'])}")
    others = _others(answer)[:20]
    lines += ["", "Other commits of the range that moved something:"] if others else []
    lines += [f"- `{one['sha'][:12]}` {words_of(one['subject'])}" for one in others]
    confirmed = answer.get("confirmed")
    if confirmed:
        lines += ["", f"Against its parent: {words_of(confirmed['sentence'])}"]
        functions = confirmed.get("functions", [])
        lines += [f"- {words_of(f['name'])}() {f['delta']:+g}" for f in functions]
    if answer.get("why"):
        lines += ["", words_of(answer["why"])]
    lines += ["", f"[All results]({link})"] if link else []
    return "\n".join(lines) + "\n"


@click.command("bisect-post")
@click.option("--link", envvar="CI_PIPELINE_URL", help="The pipeline, with all results.")
@click.option("--issue/--no-issue", default=True, help="Open an issue where no request is known.")
@click.option("--root", type=click.Path(path_type=Path), default="iotoll-bisect", show_default=True)
def post_command(link: str | None, issue: bool, root: Path) -> None:
    """Tell the merge request that brought the culprit, or open an issue."""
    # python-gitlab takes 0.3 s to import, and only this job speaks to GitLab.
    from iotoll.ci.gitlab import Teller, gitlab_of

    answer = read(root)
    if answer["outcome"] != "found":
        click.echo(f"{answer['outcome']}: nobody is told")
        return
    if link is not None and not re.fullmatch(r"https?://[^\s()<>]+", link):
        raise InfrastructureError("CI_PIPELINE_URL: is not an address")
    (culprit,) = answer["commits"]
    teller = gitlab_of(Teller)
    done = teller.tell(culprit["sha"], harmless(note(answer, link)), issue)
    click.echo(done)
