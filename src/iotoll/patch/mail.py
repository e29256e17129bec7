"""Reads mails: the messages of a mailbox, each with its place in a series and in a thread.

Whatever a mail holds, reading it ends in a `Mail` or in a UsageError: anybody can write to a list.
"""

from __future__ import annotations

import email
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from pathlib import Path

from iotoll.core.errors import UsageError
from iotoll.core.plain import plain
from iotoll.core.proc import require_tool
from iotoll.patch.diff import has_diff

_MBOX_FROM = re.compile(rb"^From \S+ +\w{3} \w{3} +\d+ \d\d:\d\d(:\d\d)?\b.*\b\d{4}\b")
_MAIL_HEADER = re.compile(rb"^(From|Subject|Date|Message-I[dD]|Received|Return-Path):? ", re.M)
_PREFIX = re.compile(r"^\s*\[(?P<inside>[^\]]*PATCH[^\]]*)\]\s*", re.I)
_NUMBER = re.compile(r"(?<![\w.])(\d{1,5})/(\d{1,5})(?![\w.])")
_VERSION = re.compile(r"\bv(\d{1,5})\b", re.I)
_REPLY = re.compile(r"(re|aw|sv|fwd?)\s*:", re.I)
_MESSAGE_ID = re.compile(r"<([^<>\s]{1,998})>")
_BASE = re.compile(rb"^base-commit: ([0-9a-f]{40}|[0-9a-f]{64})[ \t]*\r?$", re.M)
_PREREQUISITE = re.compile(rb"^prerequisite-patch-id: ([0-9a-f]{40}|[0-9a-f]{64})[ \t]*\r?$", re.M)
_MOST_REFERENCES = 200  # of one mail; a thread of more is read from its end


@dataclass(frozen=True)
class Mail:
    """One message: its subject without ``[PATCH …]``, its body as bytes, its place in a series.

    ``number``/``of`` are None when the subject has no ``n/m``; ``version`` is 1 without ``vN``.
    ``message_id`` and ``references`` (In-Reply-To last) are without angle brackets, and empty where
    the mail has none. ``head`` has the headers From, To, Cc, Date and Subject as one line each.
    """

    subject: str
    body: bytes
    is_patch: bool
    number: int | None
    of: int | None
    version: int
    message_id: str = ""
    references: tuple[str, ...] = ()
    is_tagged: bool = False
    head: tuple[tuple[str, str], ...] = ()

    def header(self, name: str) -> str:
        """A header of ``head``; empty where the mail has none."""
        return dict(self.head).get(name, "")


@dataclass(frozen=True)
class Stated:
    """What ``git format-patch --base`` wrote into a series; ``commit`` is empty without it.

    ``prerequisites`` are stable patch ids of patches between that commit and the series, oldest
    first.
    """

    commit: str = ""
    prerequisites: tuple[str, ...] = ()


def looks_like_mail(data: bytes) -> bool:
    """Tell whether data begin with an mbox ``From`` line or with mail headers."""
    first = data.lstrip(b"\r\n").split(b"\n", 1)[0]
    if _MBOX_FROM.match(first):
        return True
    head = re.split(rb"\r?\n\r?\n", data.lstrip(b"\r\n"), maxsplit=1)[0]
    return bool(re.match(rb"^[A-Za-z-]+: ", first)) and bool(_MAIL_HEADER.search(head))


def mails(data: bytes) -> list[Mail]:
    """Split a mailbox (or one message) and decode its messages, in file order."""
    return [read(raw) for raw in split(data)]


def stated_base(series: Iterable[Mail]) -> Stated:
    """What the mails of one series, cover letter included, state of their base.

    Raises UsageError where they contradict each other.
    """
    bodies = [mail.body for mail in series]
    commits = {found.decode() for body in bodies for found in _BASE.findall(body)}
    if len(commits) > 1:
        named = " and ".join(sorted(commit[:12] for commit in commits))
        raise UsageError(f"the series names two base commits, {named}: name one with --base")
    ids = [found.decode() for body in bodies for found in _PREREQUISITE.findall(body)]
    return Stated("".join(commits), tuple(dict.fromkeys(ids)) if commits else ())


def split(data: bytes) -> list[bytes]:
    """The messages of a mailbox, as git itself splits it, each with its ``From`` line."""
    git = require_tool("git", "git")
    with tempfile.TemporaryDirectory(prefix="iotoll-") as name:
        done = subprocess.run(
            [git, "mailsplit", "-b", "--keep-cr", f"-o{name}"],
            input=data,
            capture_output=True,
            check=False,
            env={"PATH": os.environ.get("PATH", ""), "GIT_CONFIG_NOSYSTEM": "1", "HOME": name},
        )
        if done.returncode:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UsageError(f"git mailsplit refuses the mailbox: {words[-1:] or 'no word'}")
        paths = sorted(Path(name).iterdir(), key=lambda path: int(path.name))
        return [path.read_bytes() for path in paths]


def read(raw: bytes) -> Mail:
    """Decode one message, with or without its ``From`` line.

    Raises UsageError where its parts lie too deep in one another.
    """
    if _MBOX_FROM.match(raw.split(b"\n", 1)[0]):
        raw = raw.split(b"\n", 1)[1] if b"\n" in raw else b""
    try:
        message = email.message_from_bytes(raw.lstrip(b"\r\n"))
        body = b"\n".join(_text_parts(message))
    except RecursionError as error:
        raise UsageError("a mail whose MIME parts lie too deep in one another: refused") from error
    if body.count(b"\r\n") == body.count(b"\n"):
        body = body.replace(b"\r\n", b"\n")
    whole = _header(message, "Subject")
    subject, inside = _without_prefix(whole)
    number = _NUMBER.search(inside)
    version = _VERSION.search(inside)
    names = _MESSAGE_ID.findall(_header(message, "Message-ID"))
    return Mail(
        subject=subject or "(no subject)",
        body=body,
        is_patch=not _REPLY.match(whole) and has_diff(body),
        number=int(number[1]) if number else None,
        of=int(number[2]) if number else None,
        version=int(version[1]) if version else 1,
        message_id=names[0] if names else "",
        references=_references(message),
        is_tagged=bool(inside) and not _REPLY.match(whole),
        head=tuple((n, _header(message, n)) for n in ("From", "To", "Cc", "Date", "Subject")),
    )


def _header(message: Message, name: str) -> str:
    """A header as one line of text; what cannot be decoded is replaced, whatever it is."""
    try:
        value = message.get(name, "")
    except (ValueError, LookupError):
        return ""
    try:
        text = str(make_header(decode_header(value)))
    except (MessageError, LookupError, ValueError, TypeError):
        text = str(value)
    readable = text.encode("utf-8", "replace").decode("utf-8", "replace")
    return plain(" ".join(readable.split()))


def _references(message: Message) -> tuple[str, ...]:
    found = [
        one
        for name in ("References", "In-Reply-To")
        for one in _MESSAGE_ID.findall(_header(message, name))
    ]
    last_first = dict.fromkeys(reversed(found[-_MOST_REFERENCES:]))
    return tuple(reversed(last_first))


def _without_prefix(subject: str) -> tuple[str, str]:
    """Return the subject less its ``[PATCH …]`` and the words inside the brackets."""
    match = _PREFIX.match(subject)
    return (subject[match.end() :], match["inside"]) if match else (subject, "")


def _text_parts(message: Message) -> Iterator[bytes]:
    for part in message.walk():
        kind = part.get_content_type()
        if part.is_multipart() or not (kind.startswith("text/") or "patch" in kind):
            continue
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes) and kind != "text/html":
            yield payload
