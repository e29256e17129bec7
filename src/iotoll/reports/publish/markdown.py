"""Text that others wrote, made harmless inside a GitLab note.

GitLab renders CommonMark with tables, some HTML, references (@user, #1, !1, ~label), bare addresses
and quick actions (/merge at the start of a line). Nothing of that may come from a run: a note is
posted with a project's token.
"""

from __future__ import annotations

import html
import re

from iotoll.reports.publish.checks import one_line

_ACTIVE = re.compile(r"([\\`*_\[\]<>|~&#$!@^{}])")
"""What Markdown, or GitLab in it, gives a meaning inside a line. Other signs stay as they are."""
_JOINER = "\u2060"
# Escaped or not, GitLab looks for these in the text that is left after rendering.
_REFERENCE = re.compile(r"([@#!~%$&^*\[])(?=[\w/.\"(])|(:)(?=[\w+-]+:)")
_NAME = re.compile(r"(?<![\w./`-])(?=[\w./:+-]*(?:_|\.[chS]\b))[A-Za-z_][\w./:+-]*\w(?![\w`])")
"""An identifier, or a path: as code it can be read, and pasted."""
_BEGINS = re.compile(r"^(\d*)([-+](?=[-\s]|$)|[=/]|(?<=\d)[.)])")
"""At the beginning of a line these make a list, a rule, a heading of the line above, an order."""
_BARE_ADDRESS = re.compile(r"(?i)\b(www(?=\.)|[a-z]+:(?=//)|mailto:)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
_QUICK_ACTION = re.compile(r"^([ \t>*+-]*)/(?=[A-Za-z])", re.M)
# An address stays as it is: GitLab looks for no reference inside one, and a mark would break it.
_ADDRESS_OR_MENTION = re.compile(
    r"(?P<address>(?:https?://[\w-]+\.|(?<=\]\(<)https?://)[\w./?=%&;,:+#-]*)"
    r"|(?<![A-Za-z0-9&])(?P<sign>[@!#$%~&])(?=[A-Za-z0-9\"_])"
)
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[A-Za-z]+);(?!\u200b)")
_SIGNS = "@!#$%~&:"
"""What GitLab's references begin with: people, requests, issues, snippets, labels, emojis."""


def text(words: str) -> str:
    """Plain words on one line: no markup, reference or address in them has any effect.

    Identifiers and paths become code spans. What is read without Markdown looks the same but for
    their ticks.
    """
    plain = one_line(words)
    parts, done = [], 0
    for name in _NAME.finditer(plain):
        parts += [_inert(plain[done : name.start()]), code(name[0])]
        done = name.end()
    made = "".join([*parts, _inert(plain[done:])])
    return _BEGINS.sub(r"\1\\\2", made)


def _inert(words: str) -> str:
    loose = _REFERENCE.sub(rf"\g<0>{_JOINER}", unlinked(words))
    return _ACTIVE.sub(r"\\\1", loose)


def unlinked(words: str) -> str:
    """Words in which nobody finds a web address to make a link of; they look the same."""
    return _BARE_ADDRESS.sub(rf"\1{_JOINER}", words)


def code(words: str) -> str:
    """A code span on one line, fit for a table; GitLab looks for nothing inside one."""
    plain = one_line(words).replace("|", "\u00a6") or " "
    ticks = max(map(len, re.findall("`+", plain)), default=0) + 1
    # A span that begins or ends with a backtick needs a space there, which is not shown.
    pad = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{'`' * ticks}{pad}{plain}{pad}{'`' * ticks}"


def block(words: str) -> str:
    """A block of lines as they are; each is moved in, so that none is a quick action."""
    lines = [f" {one_line(line)}" for line in words.expandtabs(4).splitlines()]
    ticks = max(map(len, re.findall("`+", words)), default=0)
    fence = "`" * max(3, ticks + 1)
    return "\n".join([f"{fence}text", *lines, fence])


def link(label: str, url: str) -> str:
    """A link; ``url`` must have passed `iotoll.reports.publish.links.is_web`."""
    return f"[{text(label)}](<{url}>)"


def harmless(markdown: str) -> str:
    """A finished note that, whoever wrote parts of it, gives no order and calls nobody.

    GitLab runs a line that begins with ``/`` as an order of the note's author (`/merge`), and
    mails everybody who is mentioned. A second fence behind `text`: who posts a note did not make
    it.
    """
    plain = _CONTROL.sub("", markdown.replace("\r\n", "\n").replace("\r", "\n"))
    plain = _QUICK_ACTION.sub("\\1\u200b/", plain)
    plain = _ADDRESS_OR_MENTION.sub(lambda m: m["address"] or f"{m['sign']}\u200b", plain)
    return _ENTITY.sub(_separated, plain)


def _separated(match: re.Match[str]) -> str:
    """References are looked for in the finished text: an invisible space makes them none."""
    return match[0] + ("\u200b" if html.unescape(match[0]) in _SIGNS else "")
