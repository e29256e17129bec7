"""The state of a watch: which mails were read, the series that they make, what became of each.

A SQLite file, so that a killed call leaves the old state or the new one: mails and the position in
their archive are one transaction. A series is known by its author, version and number
of patches, and by who replies to whom.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from email.utils import parseaddr
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from iotoll.core.errors import InfrastructureError
from iotoll.lists.archive import LARGEST, Raw
from iotoll.patch import mail
from iotoll.patch.mail import Mail
from iotoll.records.text import clean

State = Literal["waiting", "ready", "skipped", "refused", "replaced", "gated"]
OPEN = ("waiting", "ready")
"""States of a series that a newer version replaces."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS cursor (source TEXT PRIMARY KEY, position TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS mail (
    id TEXT PRIMARY KEY, author TEXT NOT NULL, version INTEGER NOT NULL, total INTEGER NOT NULL,
    number INTEGER NOT NULL, subject TEXT NOT NULL, date TEXT NOT NULL, parents TEXT NOT NULL,
    series TEXT, raw BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS mail_group ON mail (author, version, total);
CREATE INDEX IF NOT EXISTS mail_series ON mail (series);
CREATE TABLE IF NOT EXISTS series (
    number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE NOT NULL, author TEXT NOT NULL,
    version INTEGER NOT NULL, total INTEGER NOT NULL, subject TEXT NOT NULL, date TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '', state TEXT NOT NULL,
    why TEXT NOT NULL DEFAULT '', outcome TEXT NOT NULL DEFAULT '',
    base TEXT NOT NULL DEFAULT '', seconds REAL NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    sent TEXT NOT NULL DEFAULT '',
    archive TEXT NOT NULL DEFAULT '', turn INTEGER NOT NULL DEFAULT 0);
CREATE INDEX IF NOT EXISTS series_title ON series (author, title);
CREATE INDEX IF NOT EXISTS series_turn ON series (archive, turn);
"""
_IDS = 500  # parents of a series that are looked up
_LONGEST = 300  # characters of a subject, an address or a reason


@dataclass(frozen=True)
class Series:
    """A row of the table: a series, or one mail that could not be read.

    ``archive`` is where its first mail was found. ``turn`` numbers the series that were gated, in
    their order; 0: not yet.
    """

    number: int
    key: str
    author: str
    version: int
    total: int
    subject: str
    date: str
    title: str
    state: State
    why: str
    outcome: str
    base: str
    seconds: float
    tries: int
    sent: str
    archive: str
    turn: int


class Store:
    """The table of mails and that of series; ``most`` is how many patches a series may have."""

    def __init__(self, path: Path, most: int) -> None:
        self._most = most
        try:
            self._base = sqlite3.connect(path)
            self._base.row_factory = sqlite3.Row
            self._base.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise InfrastructureError(f"{path}: {error}: remove it to begin anew") from error

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def position(self, source: Path) -> str:
        """How far an archive was read; empty at its beginning."""
        row = self._one("SELECT position FROM cursor WHERE source = ?", str(source.resolve()))
        return str(row["position"]) if row else ""

    def add(self, archive: str, source: Path, position: str, mails: Iterable[Raw]) -> None:
        """Add mails of an archive's source with the position behind them; make series of them."""
        with self._base:
            touched = {group for raw in mails if (group := self._add(raw))}
            for group in sorted(touched):
                self._group(*group)
            self._base.execute("UPDATE series SET archive = ? WHERE archive = ''", (archive,))
            self._base.execute(
                "INSERT OR REPLACE INTO cursor VALUES (?, ?)", (str(source.resolve()), position)
            )

    def series(self, state: State | None = None) -> list[Series]:
        """All series, or those of a state, oldest first."""
        where, values = ("WHERE state = ?", (state,)) if state else ("", ())
        rows = self._base.execute(f"SELECT * FROM series {where} ORDER BY number", values)
        return [Series(**dict(row)) for row in rows]

    def turns(self) -> list[Series]:
        """The series that are ready: one of each archive, one more of each, and so on.

        An archive's own are in their order. The archive whose last gate is the longest ago begins.
        """
        ready: dict[str, list[Series]] = {}
        last = Counter[str]()
        for one in self.series():
            last[one.archive] = max(last[one.archive], one.turn)
            if one.state == "ready":
                ready.setdefault(one.archive, []).append(one)
        queues = [ready[archive] for archive in sorted(ready, key=lambda name: last[name])]
        return [one for row in zip_longest(*queues) for one in row if one is not None]

    def take_turn(self, key: str) -> None:
        """Note that a series was gated after all others."""
        with self._base:
            words = "UPDATE series SET turn = (SELECT max(turn) + 1 FROM series) WHERE key = ?"
            self._base.execute(words, (key,))

    def change(self, key: str, **fields: str | float | int) -> None:
        """Set fields of a series."""
        names = ", ".join(f"{name} = ?" for name in fields)
        with self._base:
            self._base.execute(f"UPDATE series SET {names} WHERE key = ?", (*fields.values(), key))

    def mails(self, key: str) -> list[bytes]:
        """The mails of a series as they came, the cover letter first."""
        order = "SELECT raw FROM mail WHERE series = ? ORDER BY number, rowid"
        return [zlib.decompress(row["raw"]) for row in self._base.execute(order, (key,))]

    def _one(self, words: str, *values: Any) -> sqlite3.Row | None:
        with closing(self._base.execute(words, values)) as found:
            row: sqlite3.Row | None = found.fetchone()
            return row

    def _add(self, raw: Raw) -> tuple[str, int, int] | None:
        """Add one mail, if it may be of a series; returns what that has in common."""
        digest = hashlib.sha256(raw.data or raw.name.encode()).hexdigest()
        if not raw.data:
            self._refuse(digest, raw.name, f"a mail of more than {LARGEST >> 20} MiB")
            return None
        try:
            found = mail.read(raw.data)
        except Exception as error:  # anybody can write to a list, and no mail may stop the others
            self._refuse(digest, raw.name, f"cannot be read: {type(error).__name__}: {error}")
            return None
        if not found.is_tagged or not (found.is_patch or found.number == 0):
            return None
        address = parseaddr(found.header("From"))[1].lower()[:_LONGEST]
        total = found.of if found.of is not None and found.number is not None else 1
        row = (
            found.message_id or digest,
            address,
            found.version,
            total,
            1 if found.number is None else found.number,
            clean(found.subject)[:_LONGEST],
            clean(found.header("Date"))[:_LONGEST],
            "\n".join(found.references),
            None,
            zlib.compress(raw.data),
        )
        words = "INSERT OR IGNORE INTO mail VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        added = self._base.execute(words, row).rowcount
        return (address, found.version, total) if added else None

    def _refuse(self, digest: str, name: str, why: str) -> None:
        words = (
            "INSERT OR IGNORE INTO series (key, author, version, total, subject, date, state, why)"
            " VALUES (?, '', 1, 1, ?, '', 'refused', ?)"
        )
        self._base.execute(words, (digest[:20], clean(name)[:_LONGEST], clean(why)[:_LONGEST]))

    def _group(self, author: str, version: int, total: int) -> None:
        """Make series of the mails that have these in common and are connected by replies."""
        # Not the mails themselves: an author may have sent thousands.
        names = "id, author, version, total, number, subject, date, parents, series"
        words = f"SELECT {names} FROM mail WHERE author = ? AND version = ? AND total = ?"
        if total <= 1:
            words += " AND (series IS NULL OR number = 0)"
        rows = self._base.execute(f"{words} ORDER BY rowid", (author, version, total)).fetchall()
        for group in _lone(rows) if total <= 1 else _connected(rows):
            if any(row["series"] is None for row in group):
                self._put(sorted(group, key=lambda row: row["number"]))

    def _put(self, group: Sequence[sqlite3.Row]) -> None:
        first = group[0]
        known = next((row["series"] for row in group if row["series"] is not None), None)
        key = known or hashlib.sha256(str(first["id"]).encode()).hexdigest()[:20]
        self._base.executemany(
            "UPDATE mail SET series = ? WHERE id = ?", [(key, row["id"]) for row in group]
        )
        fields = [first[name] for name in ("author", "version", "total", "subject", "date")]
        words = (
            "INSERT INTO series (key, author, version, total, subject, date, title, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'waiting') ON CONFLICT (key) DO UPDATE SET"
            " subject = excluded.subject, date = excluded.date, title = excluded.title"
            " WHERE state = 'waiting'"
        )
        self._base.execute(words, (key, *fields, _title(first["subject"])))
        state, why = self._complete(group)
        words = "UPDATE series SET state = ?, why = ? WHERE key = ? AND state = 'waiting'"
        self._base.execute(words, (state, why, key))
        self._replace(key, group)

    def _complete(self, group: Sequence[sqlite3.Row]) -> tuple[State, str]:
        total = int(group[0]["total"])
        if total > self._most:
            return "refused", f"{total} patches; at most {self._most} are gated (patches)"
        numbers = [row["number"] for row in group if row["number"] > 0]
        double = next((n for n in numbers if numbers.count(n) > 1), None)
        if double is not None:
            return "refused", f"has patch {double} twice"
        missing = sorted(set(range(1, total + 1)) - set(numbers))
        if missing or len(numbers) != total:
            return "waiting", f"{len(numbers)} of {total} patches are there"
        return "ready", ""

    def _replace(self, key: str, group: Sequence[sqlite3.Row]) -> None:
        """A newer version replaces an older one that nobody gated yet, whichever came first."""
        first = group[0]
        parents = sorted({one for row in group for one in str(row["parents"]).split("\n")})[:_IDS]
        marks = ", ".join("?" * len(parents))
        words = (
            "SELECT key, version FROM series WHERE author = ? AND key != ? AND version != ? AND"
            f" (title = ? OR key IN (SELECT series FROM mail WHERE id IN ({marks})))"
        )
        values = (first["author"], key, first["version"], _title(first["subject"]), *parents)
        for other in self._base.execute(words, values).fetchall():
            newer = max(first["version"], other["version"])
            older = other["key"] if first["version"] == newer else key
            self._base.execute(
                "UPDATE series SET state = 'replaced', why = ? WHERE key = ? AND state IN (?, ?)",
                (f"v{newer} replaces it", older, *OPEN),
            )


def _title(subject: str) -> str:
    return re.sub(r"\W+", " ", subject.lower()).strip()


def _lone(rows: Sequence[sqlite3.Row]) -> list[list[sqlite3.Row]]:
    """Single patches, each with the cover letter that it replies to."""
    covers = {row["id"]: row for row in rows if row["number"] == 0}
    found: list[list[sqlite3.Row]] = []
    for row in rows:
        if row["number"] == 0:
            continue
        mine = [covers[p] for p in str(row["parents"]).split("\n") if p in covers]
        found.append([*mine[-1:], row])
    return found


def _connected(rows: Sequence[sqlite3.Row]) -> list[list[sqlite3.Row]]:
    """Mails that reply to each other, or to the same mail, which need not be there."""
    above: dict[str, str] = {}

    def top(name: str) -> str:
        while above.setdefault(name, name) != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    ids = {row["id"] for row in rows}
    for row in rows:
        parents = [parent for parent in str(row["parents"]).split("\n") if parent]
        # Only the mail that it answers, or any of the same series: an older version is another.
        for parent in {*parents[-1:], *(p for p in parents if p in ids)}:
            if row["number"] > 0 or parent in ids:
                above[top(row["id"])] = top(parent)
    groups: dict[str, list[sqlite3.Row]] = {}
    for row in rows:
        groups.setdefault(top(row["id"]), []).append(row)
    return list(groups.values())


def as_mailbox(mails: Sequence[bytes]) -> bytes:
    """Mails as a mailbox that `iotoll.patch.mail.split` reads, each line as it was.

    git splits at lines that look like the first one of a mail, so one in a body is indented, as
    mail programs do.
    """
    parts = []
    for raw in mails:
        text = raw if not raw.startswith(b"From ") else raw.partition(b"\n")[2]
        body = re.sub(rb"^(>*From )", rb">\1", text.rstrip(b"\n"), flags=re.M)
        parts.append(b"From mboxrd@z Thu Jan  1 00:00:00 1970\n" + body + b"\n\n")
    return b"".join(parts)


def parsed(mails: Sequence[bytes]) -> list[Mail]:
    """The mails of a series, decoded."""
    return [mail.read(raw) for raw in mails]
