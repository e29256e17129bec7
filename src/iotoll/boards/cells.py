"""The names of cells: one grammar for matrices, families, ``--cells`` and jobs.

``DEVICE-SIZEk-PATTERN-tTHREADS-MODE``, then any of these words in this order, each left out where
the matrix's own setting is meant: engine (``libaio``, ``io_uring``), ``sqpoll``, ``poll``, ``qdN``,
``pages`` (a buffer of 4 KiB pages that are no neighbours in memory, not of huge ones), ``aged`` (a
file whose extents of 32 KiB lie on the disk in another order), scheduler, ``qN`` hardware queues,
``tagsN``, ``dev2``, ``rangeN``, ``passN``, ``raw`` (a whole second disk and no file, or its first N
MiB, the Nth time in one boot). docs/cells.md says what each means.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iotoll.core.errors import UsageError
from iotoll.core.nearest import nearest

SHAPE = "DEVICE-SIZEk-PATTERN-tTHREADS-MODE"
DEVICES = ("ufs", "nvme", "emmc", "ubd", "nullblk", "scsidebug", "nvmeloop")
PATTERNS = tuple(order + op for order in ("rand", "seq") for op in ("read", "write", "rw", "trim"))
MODES = ("direct", "sync", "dsync", "directsync", "directdsync", "buffered", "fsync", "fdatasync")
ENGINES = ("libaio", "io_uring")
SCHEDULERS = ("none", "mq-deadline", "kyber", "bfq")
NUMBERED = ("qd", "q", "tags", "dev", "range", "pass")
ORDER = (
    *(*ENGINES, "sqpoll", "poll", "qd", "pages", "aged", *SCHEDULERS),
    *("q", "tags", "dev", "range", "pass", "raw"),
)
"""All words behind the mode, in the order in which a name has them."""
_DEFAULTS = {
    "psync": "the engine",
    "qd1": "the depth",
    "dev1": "the number of disks",
    "pass1": "the pass",
}
_LEAST = {"qd": 2, "q": 1, "tags": 4, "dev": 2, "range": 1, "pass": 2}
_MOST = {"qd": 1024, "q": 8, "tags": 1024, "dev": 2, "range": 9999, "pass": 99}
_FIELDS = {
    **{"qd": "depth", "q": "queues", "tags": "tags"},
    **{"dev": "disks", "range": "range_mb", "pass": "turn"},
}
_OTHER_WORDS = {
    **{"discard": "randtrim", "mix": "randrw", "mixed": "randrw", "rwmix": "randrw"},
    **{"depth": "qd", "iodepth": "qd", "lun": "dev", "namespaces": "dev", "sq_poll": "sqpoll"},
}
"""What people call a pattern or a word that has another name here, without its number."""
MIX = 70
"""Share of reads in a mixed pattern, in per cent."""
LARGE_KB = 1024
"""I/Os of so many KiB meet a kernel's limits: it says how many requests they are, and at once."""


@dataclass(frozen=True)
class Cell:
    """One point of the matrix; ``block_kb`` is the I/O size in KiB.

    Empty words and zeros stand for the matrix's own setting. ``sync_every`` writes are followed by
    one fsync or fdatasync. ``range_mb`` is the part of a raw disk that I/Os go to (MiB). ``turn``
    counts cells that are one workload, run again in the same boot.
    """

    name: str
    device: str
    block_kb: int
    random: bool
    op: str
    threads: int
    io_mode: str
    sync_every: int = 0
    engine: str = ""
    sqpoll: bool = False
    poll: bool = False
    depth: int = 1
    pages: bool = False
    aged: bool = False
    scheduler: str = ""
    queues: int = 0
    tags: int = 0
    disks: int = 1
    range_mb: int = 0
    turn: int = 1
    raw: bool = False

    @property
    def fio_rw(self) -> str:
        """fio's ``rw=`` for this cell."""
        return ("rand" if self.random else "") + self.op

    @property
    def workload(self) -> str:
        """The cell's name without its device, to compare devices with each other."""
        return self.name.partition("-")[2]

    @property
    def is_direct(self) -> bool:
        """Whether the page cache is passed by."""
        return self.io_mode.startswith("direct")

    @property
    def fio_sync(self) -> str:
        """fio's ``sync=``: which of O_SYNC and O_DSYNC the file is opened with."""
        word = self.io_mode.removeprefix("direct")
        return word if word in ("sync", "dsync") else "none"

    @property
    def is_raw(self) -> bool:
        """Whether it runs on a second, raw disk: as asked, or as fio discards no part of a file."""
        return self.raw or self.op == "trim"

    @property
    def spare(self) -> bool:
        """Whether the board needs a second disk of the cell's device."""
        return self.disks > 1 or self.is_raw

    @property
    def contends(self) -> bool:
        """Whether I/Os are meant to wait for each other, so that none has a moment of its own."""
        return bool(self.depth > 1 or self.tags or self.disks > 1 or self.sqpoll)

    @property
    def fio_more(self) -> list[str]:
        """Further lines of its fio job."""
        lines = [f"ioengine={self.engine}"] if self.engine else []
        if self.depth > 1:
            # All at once, and the next ones when all have ended. One by one the disk ends each
            # before the next is there (in a trace: two or three at a time of 32).
            batch = ("iodepth", "iodepth_batch_submit", "iodepth_batch_complete_min")
            lines += [f"{option}={self.depth}" for option in batch]
        lines += [f"rwmixread={MIX}"] if self.op == "rw" else []
        lines += ["sqthread_poll=1"] if self.sqpoll else []
        lines += ["hipri=1"] if self.poll else []
        if self.sync_every:
            lines.append(f"{self.io_mode.rstrip('0123456789')}={self.sync_every}")
        return lines

    @property
    def setting(self) -> tuple[str, ...]:
        """What it needs set of the disk or recorded: cells of one setting share a fio process."""
        words = [self.engine] if self.engine else []
        words += ["poll"] if self.poll else []
        words += ["fsync"] if self.sync_every else []
        words += ["trim"] if self.op == "trim" else []
        words += [self.scheduler] if self.scheduler else []
        words += [f"q{self.queues}"] if self.queues else []
        words += [f"tags{self.tags}"] if self.tags else []
        words += [f"dev{self.disks}"] if self.disks > 1 else []
        words += ["raw"] if self.raw else []
        return tuple(words)


def parse_cell(name: str) -> Cell:
    """Parse a cell name such as ``ufs-4k-randread-t1-direct``; raises UsageError.

    The error names the wrong word and the nearest that is known.
    """
    words = _split(name)
    if len(words) < 5:
        raise _refusal(name, f"it has {len(words)} of 5 words")
    device, size, pattern, threads, mode, *more = words
    _known(name, "device", device, DEVICES)
    block_kb = _number(name, "size", size, r"([1-9]\d*)k", "4k", 4096)
    _known(name, "pattern", pattern, PATTERNS)
    count = _number(name, "threads", threads, r"t([1-9]\d*)", "t8", 64)
    kind, every = _mode(name, mode)
    cell = Cell(
        name=name,
        device=device,
        block_kb=block_kb,
        random=pattern.startswith("rand"),
        op=pattern.removeprefix("rand").removeprefix("seq"),
        threads=count,
        io_mode=kind,
        sync_every=every,
        **_options(name, more),
    )
    if why := _conflict(cell):
        raise _refusal(name, why)
    return cell


def _split(name: str) -> list[str]:
    """The words between the hyphens; ``mq-deadline`` has one itself."""
    return re.split(r"-(?!(?<=-mq-)[a-z])", name) if name else []


def _refusal(name: str, why: str) -> UsageError:
    return UsageError(f"cell {name!r} is not {SHAPE}[-WORD...]: {why}")


def _nearest(word: str, known: Sequence[str]) -> str:
    meant = _OTHER_WORDS.get(word.rstrip("0123456789"), "")
    longer = [k for k in known if meant and k.rstrip("N0123456789") == meant]
    longer += [k for k in known if word and k.startswith(word)]
    return longer[0] if longer else nearest(word, known)


def _known(name: str, what: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise _refusal(name, f"no {what} {word!r}: the nearest is {_nearest(word, known)!r}")


def _number(name: str, what: str, word: str, pattern: str, example: str, most: int) -> int:
    found = re.fullmatch(pattern, word)
    if found is None or len(found[1]) > 9 or int(found[1]) > most:
        limit = f"at most {most}"
        raise _refusal(name, f"{what} {word!r} is not of the form {example!r}, {limit}")
    return int(found[1])


def _mode(name: str, word: str) -> tuple[str, int]:
    """The mode, and after how many writes it syncs: ``fsync32`` is a mode, ``fsync`` is of 1."""
    if found := re.fullmatch(r"(fsync|fdatasync)([1-9]\d{0,3})?", word):
        return found[1], int(found[2] or 1)
    _known(name, "mode", word, MODES)
    return word, 0


def _options(name: str, words: list[str]) -> dict[str, Any]:
    """The fields of the words behind the mode; refuses one that is unknown, twice or misplaced."""
    fields: dict[str, Any] = {}
    places: list[int] = []
    for word in words:
        if word in _DEFAULTS:
            raise _refusal(name, f"{word!r} is {_DEFAULTS[word]} without that word: leave it out")
        found = re.fullmatch(r"(qd|q|tags|dev|range|pass)([1-9]\d{0,3})", word)
        stem = found[1] if found else word
        if stem not in ORDER or (stem in NUMBERED and not found):
            digits = "".join(re.findall(r"\d", word)).lstrip("0") or "N"
            known = [w + digits if w in NUMBERED else w for w in ORDER]
            raise _refusal(name, f"no word {word!r}: the nearest is {_nearest(word, known)!r}")
        if found:
            value = int(found[2])
            if not _LEAST[stem] <= value <= _MOST[stem]:
                limits = f"{stem}{_LEAST[stem]} to {stem}{_MOST[stem]}"
                raise _refusal(name, f"{word!r} is outside of {limits}")
            fields[_FIELDS[stem]] = value
        elif stem in ("sqpoll", "poll", "pages", "aged", "raw"):
            fields[stem] = True
        else:
            fields["engine" if stem in ENGINES else "scheduler"] = stem
        places.append(ORDER.index(stem))
    if places != sorted(set(places)):
        ranked = [w for _, w in sorted(zip(places, words, strict=True))]
        right = "-".join(dict.fromkeys(ranked))
        raise _refusal(name, f"its last words must be, once and in this order: {right}")
    if sum(word in ENGINES for word in words) > 1 or sum(word in SCHEDULERS for word in words) > 1:
        raise _refusal(name, "it has two engines or two schedulers: name one")
    return fields


def _conflict(cell: Cell) -> str:
    """Why its words do not go together; empty if they do."""
    rules = [
        (cell.depth > 1 and not cell.engine, "depth above 1 needs libaio or io_uring"),
        ((cell.sqpoll or cell.poll) and cell.engine != "io_uring", "sqpoll and poll need io_uring"),
        (cell.poll and not cell.is_direct, "poll needs direct I/O"),
        (cell.pages and not cell.is_direct, "pages needs direct I/O, which has the buffer's pages"),
        (cell.pages and cell.threads > 1, "pages needs one thread, whose buffer it is"),
        (cell.aged and cell.threads > 1, "aged needs one thread, whose file it is"),
        (cell.aged and cell.is_raw, "aged needs a file: trim and raw have none"),
        (cell.aged and cell.disks > 1, "aged runs on one disk"),
        (cell.poll and cell.device == "emmc", "emmc has no queue that is polled"),
        (cell.engine == "libaio" and not cell.is_direct, "libaio needs direct I/O: it blocks else"),
        (
            cell.io_mode == "buffered" and cell.op in ("write", "rw"),
            "buffered writes stay in memory: name fsync or fdatasync",
        ),
        (bool(cell.sync_every) and "read" in cell.op, f"{cell.io_mode} needs a writing pattern"),
        (cell.is_raw and cell.io_mode != "direct", "trim and raw need the mode direct"),
        (cell.op == "trim" and bool(cell.engine), "trim has no other engine than psync"),
        (cell.is_raw and cell.disks > 1, "trim and raw run on one disk"),
        (bool(cell.range_mb) and not cell.is_raw, "range needs raw or trim"),
        (cell.turn > 1 and not cell.is_raw, "pass needs raw or trim"),
        (cell.op == "trim" and cell.raw, "trim is raw without that word: leave it out"),
        (cell.spare and cell.device == "emmc", "emmc has no second disk"),
        (bool(cell.block_kb % 4) and cell.device == "ufs", "ufs has blocks of 4k: take a multiple"),
    ]
    return next((why for wrong, why in rules if wrong), "")
