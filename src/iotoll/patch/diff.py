"""Reads patch text: which paths a unified diff changes, and from what.

Nothing here applies a patch or looks at a kernel tree. Contents of hunks are skipped by their
line counts, so a changed line that looks like a header is not mistaken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from iotoll.core.errors import UsageError

_HUNK = re.compile(rb"^@@ -\d{1,9}(?:,(\d{1,9}))? \+\d{1,9}(?:,(\d{1,9}))? @@")
_PLACE = re.compile(rb"^@@ -\d{1,9}(?:,\d{1,9})? \+(\d{1,9})(?:,\d{1,9})? @@ ?(.*)")
_TOP_LEVEL = re.compile(rb"[A-Za-z_$][^;:]*\(")
"""What begins a function in C: at the line's beginning, and no label."""
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_STRUCTURE = re.compile(r"^(?:typedef\s+)?(struct|union)\s+(\w+)\s*\{", re.M)
_HUGE = re.compile(rb"^@@ [-+,\d ]*\d{10}")

_INDEX = re.compile(rb"^index ([0-9a-f]{7,64})\.\.[0-9a-f]{7,64}(?: \d{6})?$")

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


def check_whole(text: bytes, name: str) -> None:
    """Raise UsageError where a hunk has other lines than its header counts, or a file no hunk.

    No base takes such a patch: a mail program wrapped its long lines, or it was cut.
    """
    lines = text.split(b"\n")
    index = 0
    while index < len(lines):
        match = _HUNK.match(lines[index])
        index += 1
        if match is None:
            head = [line[:4] for line in lines[max(0, index - 2) : index]]
            if head == [b"--- ", b"+++ "] and not _HUNK.match(b"".join(lines[index : index + 1])):
                raise UsageError(
                    f"{name}: no hunk follows line {index} (+++): it was cut; fetch it again"
                )
            continue
        first, sizes = index, [int(n) if n else 1 for n in match.groups()]
        index = _after_hunk(lines, index, *sizes)
        marks = [line[:1] for line in lines[first:index]]
        old, new = (sum(m not in (other, b"\\") for m in marks) for other in (b"+", b"-"))
        if [old, new] != sizes:
            raise UsageError(
                f"{name}: the hunk at line {first} has {old} and {new} lines, not the"
                f" {sizes[0]} and {sizes[1]} that it counts: a mail program wrapped its lines, or"
                " it was cut; fetch it again"
            )


def has_diff(text: bytes) -> bool:
    """Tell whether the text holds at least one file header of a diff."""
    return any(line.startswith((b"diff --git ", b"+++ ")) for line in _header_lines(text))


def preimages(texts: Iterable[bytes], name: str) -> dict[str, str]:
    """The files that a series was made on: path → beginning of its blob's hash.

    It is empty for a file that must not be there. By the index lines of the first patch that
    changes a file; files without one (git writes it, diff does not) are left out. ``name`` is for
    messages.
    """
    found: dict[str, str] = {}
    seen: set[str] = set()
    for text in texts:
        own: dict[str, str] = {}
        old = ""
        for line in _header_lines(text):
            index = _INDEX.match(line)
            if line.startswith(b"diff --git "):
                old = ""
            elif index:
                old = index[1].decode()
            elif old and line.startswith((b"--- ", b"+++ ")):
                is_new = not old.strip("0")
                if is_new == line.startswith(b"+++ "):
                    own |= {path: "" if is_new else old for path in _paths_of(line)}
        found |= {path: blob for path, blob in own.items() if path not in seen}
        seen.update(changed_paths(text, name), own)
    return found


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


def changed_structures(before: str, after: str) -> list[str]:
    """Structures and unions of C whose members differ between two versions of a file, by name.

    Those that only one version has as well: what uses them has moved to other memory.
    """
    bodies = [_structures(text) for text in (before, after)]
    names = sorted({*bodies[0], *bodies[1]})
    return [name for name in names if bodies[0].get(name) != bodies[1].get(name)]


def _structures(text: str) -> dict[str, str]:
    """Bodies of structures by name, without comments and blanks."""
    text = _COMMENT.sub(" ", text)
    found = {}
    for head in _STRUCTURE.finditer(text):
        depth, at = 1, head.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        # What follows the brace may align or pack it.
        end = text.find(";", at)
        body = text[head.end() : end if end >= 0 else len(text)]
        found[f"{head[1]} {head[2]}"] = " ".join(body.split())
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
