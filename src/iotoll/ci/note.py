"""The text of a pipeline: its note in the merge request, made from results that nobody trusts."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from iotoll.models import Outcome, SummaryRecord

WORDS = {
    Outcome.PASS: "pass",
    Outcome.REGRESSION: "REGRESSION",
    Outcome.INCONCLUSIVE: "INCONCLUSIVE: the data cannot tell; this is no pass",
    Outcome.INFRASTRUCTURE: "infrastructure: it says nothing about the change",
    Outcome.BROKEN: "BROKEN",
}
_QUICK_ACTION = re.compile(r"^([ \t>*+-]*)/(?=[A-Za-z])", re.M)
_MENTION = re.compile(r"(?<![A-Za-z0-9&])([@!#$%~&])(?=[A-Za-z0-9\"_])")
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z]+);(?!\u200b)")
_SIGNS = "@!#$%~&"
"""What GitLab's references begin with: people, requests, issues, snippets, labels …"""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")


def pipeline_note(summary: SummaryRecord, details: Iterable[str], link: str | None) -> str:
    """The whole note in Markdown: verdict, one line per board, then each run's own note."""
    notes = list(details)
    lines = []
    if len(summary.runs) != 1 or len(notes) != 1:  # the note of a single run says all of it
        lines += [f"### iotoll: {WORDS[summary.outcome]}", "", escape(summary.sentence), ""]
    if len(summary.runs) > 1:
        lines += ["| board | outcome | |", "|---|---|---|"]
        for run in summary.runs:
            where = "LAVA" if run.runner == "lava" else "virtual"
            words = escape(run.sentence)
            lines.append(f"| {escape(run.board)} ({where}) | {run.outcome.value} | {words} |")
        lines.append("")
    for text in notes:
        lines += [text.rstrip(), ""]
    plan = summary.plan
    pins = f"candidate `{plan.candidate[:12]}`, merge base `{plan.base[:12]}`"
    lines.append(f"[Report and results]({link}), {pins}" if link else pins)
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text of unknown origin as one line of Markdown that means nothing but itself."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    # Numeric entities: a backslash would not keep GitLab from finding its own references.
    plain = re.sub(r"[&<>`*_{}\[\]()#+|~!@$%\\/:^-]", lambda m: f"&#{ord(m[0])};", line)
    return _ENTITY.sub(_apart, plain)


def _apart(match: re.Match[str]) -> str:
    """References are looked for in the finished text: an invisible space makes them none."""
    return match[0] + ("\u200b" if html.unescape(match[0]) in f"{_SIGNS}:" else "")


def harmless(markdown: str) -> str:
    """A finished note that, whoever wrote parts of it, gives no order and calls nobody.

    GitLab runs a line that begins with ``/`` as an order of the note's author (`/merge`), and
    mails everybody who is mentioned.
    """
    text = _CONTROL.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    text = _QUICK_ACTION.sub("\\1\u200b/", text)
    return _ENTITY.sub(_apart, _MENTION.sub("\\1\u200b", text))
