"""One message per change: the body of a GitLab issue, and a mail that a kernel list would take.

What was sent is noted with the change in the history, so nothing is sent twice. Sending itself is
the hook's: a command that gets KIND, CHANGE and the folder with the texts as arguments.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from iotoll.core.errors import InfrastructureError
from iotoll.nightly.changes.find import Change, Effect
from iotoll.nightly.changes.notes import note
from iotoll.nightly.history.store import Store
from iotoll.nightly.trend import view
from iotoll.records import results
from iotoll.records.text import clean

Kind = Literal["opened", "explained", "closed", "reopened"]
ROWS = 20
_SECONDS = 120  # for one call of the hook


@dataclass(frozen=True)
class Message:
    """One message to send about a change."""

    kind: Kind
    change: Change
    title: str
    issue: str
    mail: str


def due(changes: Sequence[Change]) -> list[Message]:
    """The messages that were not sent yet, oldest change first."""
    made = []
    for change in sorted(changes, key=lambda c: (c.night, c.id)):
        told = [n.told for n in change.notes if n.told]
        last = told[-1] if told else ""
        kind = _kind(change, last) or _explained(change, last)
        if kind is not None:
            made.append(message(kind, change))
    return made


def _kind(change: Change, last: str) -> Kind | None:
    if not change.grew or not change.is_told:
        sent = last in ("opened", "explained", "reopened")
        return "closed" if change.state == "dismissed" and sent else None
    if change.is_open:
        return {"": "opened", "closed": "reopened"}.get(last)  # type: ignore[return-value]
    return "closed" if last in ("opened", "explained", "reopened") else None


def _explained(change: Change, last: str) -> Kind | None:
    """A second message, when the culprit became known after the first one."""
    if not (change.is_open and change.is_told and change.culprit and last):
        return None
    known = max((n.at for n in change.notes if n.commit), default="")
    told = max((n.at for n in change.notes if n.told), default="")
    return "explained" if last in ("opened", "reopened") and known > told else None


def message(kind: Kind, change: Change) -> Message:
    """The texts about a change; both are plain functions of it."""
    worst = change.worst
    size = view.amount(worst.delta, worst.unit)
    title = f"[{change.branch}] {worst.cell}.{worst.section} {size} since {change.night}"
    if kind == "closed":
        why = f"fixed on {change.fixed}" if change.fixed else change.state
        why += f" by {change.undone[:12]}" if change.undone else ""
        text = f"{title}: {why}." + (f" {_flat(change.words)}" if change.words else "") + "\n"
        return Message(kind, change, f"{title}: {why}", text, text)
    if kind == "explained":
        title = f"{title}: {view.cause(change)}"
    return Message(kind, change, title, _issue(change), _mail(change))


def _issue(change: Change) -> str:
    lines = [
        _quoted(view.change_sentence(change)),
        "",
        "| board | cell | section | before | after | change |",
        "|---|---|---|--:|--:|--:|",
    ]
    for effect in _largest(change):
        share = f" ({effect.delta / effect.before:+.1%})" if effect.before else ""
        lines.append(
            f"| {effect.board} | {effect.cell} | {effect.section} | {effect.before:,.0f} |"
            f" {effect.after:,.0f} | {view.amount(effect.delta, effect.unit)}{share} |"
        )
    lines += [*_omitted(change), "", f"Range: `{'..'.join(change.ends)}`"]
    for cause in change.causes:
        lines += ["", f"Culprit: {_quoted(view.cause_text(cause))}"]
    if change.culprit and not change.causes:
        lines.append(f"Culprit: `{change.culprit}`")
    if change.same:
        lines += ["", f"The same commits made change {change.same} of another branch."]
    lines += ["", "Reproduce:", "", f"    {view.reproduce_command(change)}"]
    if (search := view.bisect_command(change)) and not change.culprit:
        lines += ["", "Find the commit:", "", f"    {search}"]
    return "\n".join([*lines, "", f"iotoll change {change.id}"]) + "\n"


def _mail(change: Change) -> str:
    """Plain text in LKP's form; the first line is the subject."""
    worst = change.worst
    share = f" ({100 * worst.delta / worst.before:+.1f}%)" if worst.before else ""
    size = view.amount(worst.delta, worst.unit).replace("µs", "us")
    lines = [
        f"Subject: [{change.branch}] {worst.cell}.{worst.section} {size}{share} regression",
        "",
        "Hello,",
        "",
        f"iotoll noticed {size}{share} per I/O of {worst.section} in",
        f"{worst.cell} on board {worst.board},",
    ]
    if len(change.causes) > 1:
        lines += ["on commits:", "", *(f"Fixes: {_flat(cause.line)}" for cause in change.causes)]
    elif change.culprit:
        subject = f' ("{_flat(change.words)}")' if change.words else ""
        lines += ["on commit:", "", f"Fixes: {change.culprit[:12]}{subject}"]
    else:
        lines += ["in the range:", "", change.ends[0][:40], f"..{change.ends[1][:40]}"]
    lines += ["", f"{'cell and section':40} {'before':>10} {'after':>10} {'change':>9}"]
    for effect in _largest(change):
        scale = 1.0 if effect.unit == "instructions" else 1e-3
        name = f"{effect.cell} {effect.section}"
        lines.append(
            f"{name:40} {effect.before * scale:10,.1f} {effect.after * scale:10,.1f}"
            f" {effect.delta * scale:+9,.1f}"
        )
    unit = "instructions" if worst.unit == "instructions" else "us"
    lines += [*_omitted(change), "", f"Unit: {unit} per I/O."]
    if worst.unit == "instructions":
        lines.append("Instructions are counted on a virtual board; latency was not measured.")
    lines += ["", "To reproduce:", "", f"    {view.reproduce_command(change)}", ""]
    return "\n".join(lines) + "\n"


def _largest(change: Change) -> list[Effect]:
    return sorted(change.effects, key=lambda e: (-abs(e.delta), e.cell, e.section))[:ROWS]


def _omitted(change: Change) -> list[str]:
    more = len(change.effects) - ROWS
    return [f"({more} more sections omitted)"] if more > 0 else []


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


def _quoted(text: str) -> str:
    """Text that GitLab shows as it is: no command, mention or markup."""
    flat = _flat(text).replace("`", "'")
    return f"`{flat}`"


def send(store: Store, messages: Sequence[Message], out: Path, hook: Sequence[str]) -> int:
    """Write each message into ``out``, hand it to the hook, and note that; returns how many.

    Without a hook the texts are written and nothing is noted. Raises InfrastructureError when the
    hook failed for any: that message stays due, and the others are sent all the same.
    """
    failed: list[str] = []
    for made in messages:
        folder = out / f"{made.change.id}-{made.kind}"
        results.write_text(folder / "title.txt", made.title + "\n")
        results.write_text(folder / "issue.md", made.issue)
        results.write_text(folder / "mail.txt", made.mail)
        if not hook:
            continue
        words = [*hook, made.kind, made.change.id, str(folder)]
        try:
            subprocess.run(words, check=True, timeout=_SECONDS, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.SubprocessError) as error:
            failed.append(f"{made.change.id}: {error}")
            continue
        note(store.files, made.change.id, told=made.kind)
    if failed:
        raise InfrastructureError(
            f"hook {hook[0]}: {len(failed)} of {len(messages)} messages are still due: {failed[0]}"
        )
    return len(messages)
