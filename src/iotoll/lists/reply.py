"""The reply to a gated series: a mail in its thread, with the verdict as text of 75 columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from email import policy
from email.headerregistry import Address
from email.message import EmailMessage
from email.utils import formatdate, getaddresses

from iotoll.core.digest import json_sha256
from iotoll.core.errors import UsageError
from iotoll.lists.config import Config
from iotoll.patch.mail import Mail
from iotoll.records import results
from iotoll.records.models import Outcome, SourceRecord, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.reports.page.evidence import gather
from iotoll.reports.page.plain_text import COLUMNS, ascii_only, cover_text, fill

MOST_RECIPIENTS = 30
"""A mail to more is answered to its author and the list alone."""
_ADDRESS = re.compile(r"[A-Za-z0-9._%+=-]{1,64}@[A-Za-z0-9.-]{1,200}")
_LOG_LINES = 15
_VIRTUAL = (
    "Note: board {board} is virtual (QEMU). Its devices do not have all that real ones have: no"
    " vendor's registers and attributes, for one. A change that asks for such a thing fails here"
    " alone."
)
_FORMAT = policy.default.clone(max_line_length=78, cte_type="7bit")


def reply(config: Config, run: RunDir, first: Mail, created: float) -> bytes | None:
    """The reply to the mail ``first`` of a series; None where that names no sender or itself.

    ``created`` is its date, in seconds since 1970. Its Message-ID is made of what it says, so that
    archives drop a second one.
    """
    to = _addresses([first.header("From")])[:1]
    if not to or not first.message_id:
        return None
    text = body(config, run)
    message = EmailMessage(policy=_FORMAT)
    message["From"] = Address("iotoll", addr_spec=config.sender)
    message["To"] = to
    if copied := _copied(config, first, to):
        message["Cc"] = copied
    message["Subject"] = f"Re: {first.header('Subject')[:200] or first.subject[:200]}"
    message["Date"] = formatdate(created)
    name = json_sha256([first.message_id, text])[:32]
    message["Message-ID"] = f"<iotoll.{name}@{config.sender.partition('@')[2]}>"
    message["In-Reply-To"] = f"<{first.message_id}>"
    above = [*first.references[-20:], first.message_id]
    message["References"] = " ".join(f"<{one}>" for one in dict.fromkeys(above))
    message["Auto-Submitted"] = "auto-replied"
    message.set_content(text)
    return message.as_bytes()


def _copied(config: Config, first: Mail, to: Sequence[Address]) -> list[Address]:
    known = {address.addr_spec.lower() for address in to} | {config.sender.lower()}
    listed = [Address(addr_spec=config.list_address)] if config.list_address else []
    others = _addresses([first.header("To"), first.header("Cc")])
    wanted = [*listed, *(others if len(others) <= MOST_RECIPIENTS else [])]
    unique = {address.addr_spec.lower(): address for address in reversed(wanted)}
    return [a for name, a in reversed(unique.items()) if name not in known]


def _addresses(values: Sequence[str]) -> list[Address]:
    """The addresses of headers; what is not plainly one is left out, and so are odd names."""
    found = []
    for name, address in getaddresses(list(values)):
        if _ADDRESS.fullmatch(address):
            is_plain = name.isprintable() and len(name) <= 100
            found.append(Address(name if is_plain else "", addr_spec=address))
    return found


def body(config: Config, run: RunDir) -> str:
    """The text of a reply: verdict, values, base, what was not measured, how to repeat it."""
    verdict = results.read(run.verdict, VerdictRecord)
    base = results.read(run.side("base") / "source.json", SourceRecord)
    evidence = gather(run)
    command = ["iotoll", "gate", "--tree", "linux", "--candidate", "series.mbox"]
    command += ["--base", base.commit[:12]] if base.commit else []
    try:
        parts = [cover_text(evidence, command).rstrip("\n")]
    except UsageError:  # no boot: it is broken, or there is nothing to measure
        parts = [fill(verdict.sentence)]
        failure = verdict.failure
        if verdict.outcome is Outcome.BROKEN and failure and failure.log_tail.strip():
            tail = failure.log_tail.strip().splitlines()[-_LOG_LINES:]
            parts.append("\n".join(f"  {ascii_only(line)[: COLUMNS - 2]}" for line in tail))
        if failure and failure.step in ("boot", "workload") and evidence.virtual:
            parts.append(fill(_VIRTUAL.format(board=verdict.board)))
    parts.append(fill(f"Base: Linux {base.version}: {base.base_why or base.commit or base.tree}."))
    if warnings := [fill(f"Note: {text}") for text in verdict.warnings[:10]]:
        parts.append("\n".join(warnings))
    if config.url:
        parts.append(fill(f"All series and reports: {config.url}"))
    parts.append(
        fill(
            "This is an automatic measurement of the series as it was mailed. It counts what CPUs"
            " execute for each I/O; it is not a review."
        )
    )
    return "\n\n".join(parts) + "\n"
