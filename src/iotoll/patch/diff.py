"""Reads patch text: which paths a unified diff changes, and the messages of a mailbox.

Nothing here applies a patch or looks at a kernel tree. Contents of hunks are skipped by their
line counts, so a changed line that looks like a header is not mistaken for one.
"""

from __future__ import annotations

import email
import email.policy
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path

from iotoll.core.errors import UsageError
from iotoll.core.proc import require_tool

_HUNK = re.compile(rb"^@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_PLACE = re.compile(rb"^@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@ ?(.*)")
_TOP_LEVEL = re.compile(rb"[A-Za-z_$][^;:]*\(")
"""What begins a function in C: at the line's beginning, and no label."""
_HUGE = re.compile(rb"^@@ [-+,\d ]*\d{10}")
_MBOX_FROM = re.compile(rb"^From \S+ +\w{3} \w{3} +\d+ \d\d:\d\d(:\d\d)?\b.*\b\d{4}\b")
_MAIL_HEADER = re.compile(rb"^(From|Subject|Date|Message-I[dD]|Received|Return-Path):? ", re.M)
_PREFIX = re.compile(r"^\s*\[(?P<inside>[^\]]*PATCH[^\]]*)\]\s*", re.I)
_NUMBER = re.compile(r"(?<![\w.])(\d{1,5})/(\d{1,5})(?![\w.])")
_VERSION = re.compile(r"\bv(\d{1,5})\b", re.I)

SYMLINK_MODE = "120000"
SUBMODULE_MODE = "160000"


@dataclass(frozen=True)
class Hunk:
    """One hunk of a diff, in the new file.

    ``heading`` begins the function of its first change (may be empty); ``line`` is the first
    line that is added, or where lines were removed; ``added`` counts added lines. ``begins`` are
    the lines in the hunk that begin functions, with their numbers.
    """

    path: str
    heading: str
    line: int
    added: int
    begins: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Mail:
    """One message: its subject without ``[PATCH …]``, its body as bytes, its place in a series.

    ``number``/``of`` are None when the subject has no ``n/m``; ``version`` is 1 without ``vN``.
    """

    subject: str
    body: bytes
    is_patch: bool
    number: int | None
    of: int | None
    version: int


def changed_paths(text: bytes, name: str) -> list[str]:
    """Return the paths that a diff creates, changes, removes or renames (both names), sorted.

    ``name`` is for messages. Raises UsageError for binaries, symlinks, submodules and paths that
    leave the tree: a kernel patch needs none of them and a build machine must not follow them.
    """
    found: set[str] = set()
    in_diff = False
    for line in _header_lines(text):
        in_diff = in_diff or line.startswith((b"diff --git ", b"--- "))
        if in_diff:
            if _HUGE.match(line):
                raise UsageError(f"{name}: a hunk's numbers have over 9 digits: it is damaged")
            _refuse_mode(line, name)
            found.update(check_path(path, name) for path in _paths_of(line))
    return sorted(found)


def has_diff(text: bytes) -> bool:
    """Tell whether the text holds at least one file header of a diff."""
    return any(line.startswith((b"diff --git ", b"+++ ")) for line in _header_lines(text))


def hunks(text: bytes, name: str) -> list[Hunk]:
    """Return the hunks of a diff in files that it leaves in the tree; ``name`` is for messages."""
    found: list[Hunk] = []
    lines = text.split(b"\n")
    index, path = 0, ""
    while index < len(lines):
        line = lines[index]
        sizes, place = _HUNK.match(line), _PLACE.match(line)
        if sizes and place:
            end = _after_hunk(lines, index + 1, *(int(n) if n else 1 for n in sizes.groups()))
            if path:
                found.append(_hunk(path, place, lines[index + 1 : end]))
            index = end
            continue
        if line.startswith(b"diff --git "):
            path = ""
        elif line.startswith(b"+++ "):
            path = next((check_path(p, name) for p in _paths_of(line.rstrip(b"\r"))), "")
        index += 1
    return found


def _hunk(path: str, place: re.Match[bytes], body: list[bytes]) -> Hunk:
    number, first, added = int(place[1]), 0, 0
    begins: list[tuple[int, str]] = []
    for line in body:
        mark = line[:1]
        if mark in (b"+", b"-") and not first:
            first = number
        added += mark == b"+"
        if mark in (b"+", b" ") and _begins(line[1:]):
            begins.append((number, line[1:].decode("utf-8", "replace").strip()))
        number += mark not in (b"-", b"\\")
    heading = _around(place[2], body).decode("utf-8", "replace").strip()
    return Hunk(path, heading, max(first, 1), added, tuple(begins))


def _around(heading: bytes, body: Sequence[bytes]) -> bytes:
    """The line that begins the function of a hunk's first change; empty if it is in none.

    ``heading`` is what git found before the hunk: the context may begin another function.
    """
    for index, line in enumerate(body):
        mark, text = line[:1], line[1:]
        if mark not in (b"+", b"-"):
            heading = text if _begins(text) else heading
        elif text.startswith((b" ", b"\t")):
            return heading
        elif text.strip():
            changed = (other[1:] for other in body[index:] if other[:1] == mark)
            return next((other for other in changed if _begins(other)), b"")
    return heading


def _begins(text: bytes) -> bool:
    """Whether a line begins a function: no declaration, and no macro's call."""
    return bool(_TOP_LEVEL.match(text)) and not text.rstrip().endswith(b";")


def looks_like_mail(data: bytes) -> bool:
    """Tell whether data begin with an mbox ``From`` line or with mail headers."""
    first = data.lstrip(b"\r\n").split(b"\n", 1)[0]
    if _MBOX_FROM.match(first):
        return True
    head = re.split(rb"\r?\n\r?\n", data.lstrip(b"\r\n"), maxsplit=1)[0]
    return bool(re.match(rb"^[A-Za-z-]+: ", first)) and bool(_MAIL_HEADER.search(head))


def mails(data: bytes) -> list[Mail]:
    """Split a mailbox (or one message) and decode its messages, in file order."""
    return [_mail(raw) for raw in _split_mbox(data)]


def _split_mbox(data: bytes) -> list[bytes]:
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


def _mail(raw: bytes) -> Mail:
    if _MBOX_FROM.match(raw.split(b"\n", 1)[0]):
        raw = raw.split(b"\n", 1)[1] if b"\n" in raw else b""
    message = email.message_from_bytes(raw.lstrip(b"\r\n"), policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    whole = " ".join(str(message.get("Subject", "")).split())
    body = b"\n".join(_text_parts(message))
    if body.count(b"\r\n") == body.count(b"\n"):
        body = body.replace(b"\r\n", b"\n")
    subject, inside = _without_prefix(whole)
    number = _NUMBER.search(inside)
    version = _VERSION.search(inside)
    reply = whole.lower().startswith("re:")
    return Mail(
        subject=subject or "(no subject)",
        body=body,
        is_patch=not reply and has_diff(body),
        number=int(number[1]) if number else None,
        of=int(number[2]) if number else None,
        version=int(version[1]) if version else 1,
    )


def _without_prefix(subject: str) -> tuple[str, str]:
    """Return the subject less its ``[PATCH …]`` and the words inside the brackets."""
    match = _PREFIX.match(subject)
    return (subject[match.end() :], match["inside"]) if match else (subject, "")


def _text_parts(message: EmailMessage) -> Iterator[bytes]:
    for part in message.walk():
        kind = part.get_content_type()
        if part.is_multipart() or not (kind.startswith("text/") or "patch" in kind):
            continue
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes) and kind != "text/html":
            yield payload


def _header_lines(text: bytes) -> Iterator[bytes]:
    """Yield a diff's lines outside hunks, ``---`` only where ``+++`` follows."""
    lines = text.split(b"\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        hunk = _HUNK.match(line)
        if hunk:
            index = _after_hunk(lines, index + 1, *(int(n) if n else 1 for n in hunk.groups()))
            continue
        is_old_name = line.startswith(b"--- ")
        if not is_old_name or (index + 1 < len(lines) and lines[index + 1].startswith(b"+++ ")):
            yield line.rstrip(b"\r")
        index += 1


def _after_hunk(lines: list[bytes], index: int, old: int, new: int) -> int:
    """Return the index after a hunk; a wrong count ends at the next line no hunk can hold."""
    while index < len(lines) and (old > 0 or new > 0):
        mark = lines[index][:1]
        if mark not in (b" ", b"+", b"-", b"\\", b"", b"\r"):
            break
        old -= mark not in (b"+", b"\\")
        new -= mark not in (b"-", b"\\")
        index += 1
    return index


def _refuse_mode(line: bytes, name: str) -> None:
    words = line.decode("utf-8", "replace").split()
    modes = words[-1:] if re.match(rb"^(new |old |new file |deleted file )mode ", line) else []
    if re.match(rb"^index [0-9a-f]+\.\.[0-9a-f]+ \d{6}$", line):
        modes = words[-1:]
    what = {SYMLINK_MODE: "a symbolic link", SUBMODULE_MODE: "a submodule"}.get("".join(modes))
    if re.match(rb"^(GIT binary patch|Binary files .* differ)$", line):
        what = "a binary file"
    if what:
        raise UsageError(f"{name}: the patch carries {what}, which iotoll refuses: leave it out")


def _paths_of(line: bytes) -> list[str]:
    if line.startswith(b"diff --git "):
        return _git_names(line[len(b"diff --git ") :])
    for word in (b"rename from ", b"rename to ", b"copy to "):
        if line.startswith(word):
            return [_unquote(line[len(word) :])]
    if line.startswith((b"--- ", b"+++ ")):
        path = _unquote(line[4:].split(b"\t", 1)[0].rstrip())
        if path != "/dev/null":
            return [_strip_first(path)]
    return []


def _git_names(names: bytes) -> list[str]:
    """Return the names of ``a/X b/X``; none when they differ, as rename lines then tell them."""
    if names.startswith(b'"'):
        quoted = re.findall(rb'"(?:[^"\\]|\\.)*"', names)
        pair = [_unquote(q) for q in quoted]
    else:
        half = len(names) // 2
        pair = [
            names[:half].decode("utf-8", "replace"),
            names[half + 1 :].decode("utf-8", "replace"),
        ]
    stripped = [_strip_first(p) for p in pair]
    return stripped[:1] if len(stripped) == 2 and stripped[0] == stripped[1] else []


def _unquote(name: bytes) -> str:
    """Undo git's C-style quoting of unusual file names."""
    if not (name.startswith(b'"') and name.endswith(b'"') and len(name) >= 2):
        return name.decode("utf-8", "replace")
    simple = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}

    def one(match: re.Match[bytes]) -> bytes:
        code = match[1]
        return bytes([int(code, 8) & 255]) if code.isdigit() else simple.get(code, code)

    return re.sub(rb"\\([0-7]{3}|.)", one, name[1:-1]).decode("utf-8", "replace")


def _strip_first(path: str) -> str:
    """Drop the first component (``a/``, ``b/``), as ``patch -p1`` does."""
    return path.split("/", 1)[1] if "/" in path and not path.startswith("/") else path


def check_path(path: str, name: str) -> str:
    """Return a path that stays in the kernel tree; raises UsageError naming ``name`` otherwise."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts or ".git" in (p.lower() for p in parts) or not path:
        raise UsageError(f"{name}: path {path!r} leaves the kernel tree: make the diff at its top")
    return path
