"""Appends runs to a history and finds its files; several writers may work at once.

::

    HISTORY/format.json
    HISTORY/runs/branch=B/board=N/2026-11.RUN.parquet          one run: its row
    HISTORY/measurements/branch=B/board=N/2026-11.RUN.parquet  and its values
    HISTORY/boards/NAME.DIGEST.parquet

A run is in the history when its file in ``runs/`` is, which is written last. Names are made of
contents, so that adding a run again, or by two writers, is the same file. `compact` merges a month
into files ``2026-10.all-DIGEST.parquet``; until the merged one's row file is there nothing changes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from iotoll.core.digest import json_sha256
from iotoll.core.errors import ResultError, UsageError
from iotoll.nightly.history.files import Files, from_parquet, to_parquet
from iotoll.nightly.history.tables import SCHEMAS, VERSION, Point


def _to_2(table: str, data: pa.Table) -> pa.Table:
    """Version 1 knew no reference kernel: every value was the tip's."""
    if table == "measurements":
        return data.append_column("side", pa.array(["tip"] * len(data), pa.string()))
    if table == "runs":
        for name in ("reference", "subject"):
            data = data.append_column(name, pa.array([""] * len(data), pa.string()))
    return data


MIGRATIONS: dict[int, Callable[[str, pa.Table], pa.Table]] = {1: _to_2}
"""From a version to the next: (table's name, its rows) → rows."""


def lifted(table: str, data: pa.Table, version: int) -> pa.Table:
    """Rows of ``version`` as rows of VERSION."""
    for step in range(version, VERSION):
        data = MIGRATIONS[step](table, data)
    schema = SCHEMAS[table]
    return data.select(schema.names).cast(schema)


FORMAT = "format.json"
_MERGED = ".all-"


@dataclass(frozen=True)
class Found:
    """Local files of each table; each run of the history is in them once."""

    run_files: list[str]
    measurements: list[str]
    boards: list[str]


class Store:
    """One history, at a folder or a URL."""

    def __init__(self, place: str) -> None:
        self.files = Files(place)

    def begin(self) -> None:
        """Make the place a history if it is none yet."""
        self._format(create=True)

    def add(self, point: Point) -> bool:
        """Add a run; False when it is there already."""
        self.begin()
        name = _name(point)
        if self.files.exists(f"runs/{name}") or self._is_merged(point):
            return False
        row = pa.Table.from_pylist([point.run], SCHEMAS["runs"])
        if len(point.measurements):
            self.write(f"measurements/{name}", point.measurements)
        if point.board:
            key = quote(point.board["board"], safe="")
            board = f"boards/{key}.{point.board['board_sha256'][:16]}.parquet"
            if not self.files.exists(board):
                self.write(board, pa.Table.from_pylist([point.board], SCHEMAS["boards"]))
        self.write(f"runs/{name}", row)
        return True

    def find(self, branch: str | None = None, board: str | None = None) -> Found:
        """What the history holds, of one branch or board alone if asked."""
        self._format()
        folder = f"runs/{_partition(branch, board)}" if branch else "runs"
        names = self.files.names(folder.rstrip("/"))
        if board:
            names = [n for n in names if f"/board={quote(board, safe='')}/" in n]
        _, chosen = self._runs(names)
        known = set(self.files.names(folder.replace("runs", "measurements", 1).rstrip("/")))
        wanted = [f"measurements/{n.removeprefix('runs/')}" for n in chosen]
        boards = self.files.names("boards")
        return Found(
            [self.files.local(n) for n in chosen],
            [self.files.local(n) for n in wanted if n in known],
            [self.files.local(n) for n in boards],
        )

    def rows(self, branch: str, board: str) -> list[dict[str, Any]]:
        """The rows of ``runs`` of one board on one branch; none where there is no history yet."""
        if self._version() is None:
            return []
        self._format()
        table, _ = self._runs(self.files.names(f"runs/{_partition(branch, board)}".rstrip("/")))
        return list(table.to_pylist())

    def compact(self) -> int:
        """Merge the files of each month and board; returns how many files went.

        One at a time: the caller holds the history's lock.
        """
        self._format()
        months = defaultdict(list)
        for name in self.files.names("runs"):
            folder, _, file = name.rpartition("/")
            months[f"{folder}/{file[:7]}"].append(name)
        return sum(self._merge(key, names) for key, names in months.items() if len(names) > 1)

    def migrate(self) -> int:
        """Bring every file to VERSION; returns how many changed. May be killed and repeated."""
        version = self._version()
        if version is None:
            raise UsageError(f"history {self.files.place} is empty: nothing to migrate")
        _check_known(version, self.files.place)
        changed = 0
        for table in SCHEMAS:
            for name in self.files.names(table):
                data, of = from_parquet(self.files.read(name), name)
                if of < VERSION:
                    self.write(name, lifted(table, data, of))
                    changed += 1
        self.files.write(FORMAT, _format_text())
        return changed

    def write(self, name: str, table: pa.Table) -> None:
        """Write one file of the table that its folder names."""
        schema = SCHEMAS[name.partition("/")[0]]
        self.files.write(name, to_parquet(table.select(schema.names).cast(schema), VERSION))

    def _merge(self, key: str, names: Sequence[str]) -> int:
        parts = list(self._parts(names))
        rows = pa.concat_tables([part for part, _ in parts])
        ids = sorted(rows.column("run").to_pylist())
        merged = f"{key}{_MERGED}{json_sha256(ids)[:16]}.parquet"
        tail = merged.removeprefix("runs/")
        tables = [values for _, values in parts if values is not None]
        if tables:
            whole = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
            self.write(f"measurements/{tail}", whole)
        self.write(merged, rows)
        gone = [name for name in names if name != merged]
        for name in gone:
            # The row first: values without one are not in the history.
            self.files.delete(name)
            self.files.delete(f"measurements/{name.removeprefix('runs/')}")
        return len(gone)

    def _parts(self, names: Sequence[str]) -> Iterator[tuple[pa.Table, pa.Table | None]]:
        """Rows and values of ``names``, each run once; None where its files have no values."""
        read = {name: from_parquet(self.files.read(name), name)[0] for name in names}
        seen: set[str] = set()
        for name in sorted(read, key=lambda name: (-len(read[name]), name)):
            new = [run for run in read[name].column("run").to_pylist() if run not in seen]
            seen |= set(new)
            tail = f"measurements/{name.removeprefix('runs/')}"
            if not new:
                continue
            values = None
            if self.files.exists(tail):
                values = from_parquet(self.files.read(tail), tail)[0].cast(SCHEMAS["measurements"])
            rows = read[name].cast(SCHEMAS["runs"])
            if len(new) < len(rows):  # two compactions at once: the rest is in a larger file
                rows, values = (_of(table, new) for table in (rows, values))
            yield rows, values

    def _runs(self, names: Sequence[str]) -> tuple[pa.Table, list[str]]:
        """Rows of ``names``, each run once, and the files that they are taken from."""
        read = {name: from_parquet(self.files.read(name), name)[0] for name in names}
        # The largest first: what a compaction that was killed left behind is in it.
        ordered = sorted(read, key=lambda name: (-len(read[name]), name))
        seen: set[str] = set()
        chosen = []
        for name in ordered:
            ids = set(read[name].column("run").to_pylist())
            if ids <= seen:
                continue
            if ids & seen:
                raise ResultError(
                    f"history {self.files.place}: {name} overlaps another merged file:"
                    " two compactions ran at once; run iotoll history compact"
                )
            seen |= ids
            chosen.append(name)
        chosen.sort()
        if not chosen:
            return SCHEMAS["runs"].empty_table(), []
        return pa.concat_tables([read[n].cast(SCHEMAS["runs"]) for n in chosen]), chosen

    def _is_merged(self, point: Point) -> bool:
        folder = f"runs/{_partition(point.run['branch'], point.run['board'])}"
        month = point.run["night"][:7]
        return any(
            point.name in from_parquet(self.files.read(n), n)[0].column("run").to_pylist()
            for n in self.files.names(folder.rstrip("/"))
            if n.rpartition("/")[2].startswith(month + _MERGED)
        )

    def _version(self) -> int | None:
        if not self.files.exists(FORMAT):
            return None
        try:
            return int(json.loads(self.files.read(FORMAT))["history"])
        except (ValueError, KeyError, TypeError) as error:
            raise ResultError(f"history {self.files.place}: {FORMAT} is not readable") from error

    def _format(self, create: bool = False) -> None:
        version = self._version()
        if version is None:
            if not create:
                raise UsageError(
                    f"{self.files.place} holds no history: iotoll history add RUN makes one"
                )
            self.files.write(FORMAT, _format_text())
            return
        _check_known(version, self.files.place)
        if version < VERSION:
            raise UsageError(
                f"history {self.files.place} is of schema {version}, this iotoll writes {VERSION}:"
                " run iotoll history migrate"
            )


def _of(table: pa.Table | None, runs: Sequence[str]) -> pa.Table | None:
    """The rows of some runs."""
    if table is None:
        return None
    return table.filter(pc.is_in(table.column("run").cast(pa.string()), pa.array(runs)))


def _check_known(version: int, place: str) -> None:
    if version > VERSION:
        raise UsageError(f"history {place} is of schema {version}: it needs a newer iotoll")
    if version < VERSION and version not in MIGRATIONS:
        raise UsageError(f"history {place} is of schema {version}, which never was")


def _format_text() -> bytes:
    return (json.dumps({"history": VERSION}) + "\n").encode()


def _partition(branch: str, board: str | None = None) -> str:
    folder = f"branch={quote(branch, safe='')}/"
    return f"{folder}board={quote(board, safe='')}/" if board else folder


def _name(point: Point) -> str:
    run = point.run
    return f"{_partition(run['branch'], run['board'])}{run['night'][:7]}.{run['run']}.parquet"
