"""``iotoll experiment sized``: a cost of a stated size in one section of every I/O. Who finds it?

Each kernel has one size in one section of all devices at once, so that 24 kernels answer for every
section of every cell: how many cells call that section grown, and what else they call grown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

from iotoll.boards.cells import parse_cell
from iotoll.core.errors import UsageError
from iotoll.records import results
from iotoll.records.models import CellVerdict, VerdictRecord
from iotoll.verdict.words import parts
from iotoll_lab.experiments.gates import gate_options, run_gates
from iotoll_lab.experiments.variants import LOOP, Read, Variant, entered, made_of

SIZES: tuple[tuple[int, int], ...] = ((5, 1), (20, 1), (50, 1), (400, 8), (5000, 8), (5000, 64))
"""Instructions, and in every so-manyth call."""

ENTRIES: dict[str, tuple[tuple[str, str], ...]] = {
    "vfs_fs": (
        ("fs/ext4/file.c", "ext4_file_read_iter"),
        ("fs/ext4/file.c", "ext4_file_write_iter"),
    ),
    "submission": (("block/blk-mq.c", "blk_mq_submit_bio"),),
    # NVMe's batches end by the second one. Both begin with the event that ends the section.
    "completion": (
        ("block/blk-mq.c", "blk_update_request"),
        ("block/blk-mq.c", "blk_complete_request"),
    ),
    "return": (("fs/read_write.c", "vfs_read"), ("fs/read_write.c", "vfs_write")),
}
"""Functions that every I/O passes in that section, on every device."""

ENDS = {"vfs_read": "\tinc_syscr(current);\n", "vfs_write": "\tinc_syscw(current);\n"}
"""The line before which the cost stands, where it is not the function's entry."""

COUNT = len(ENTRIES) * len(SIZES)


def sized(seed: int, number: int, read: Read) -> Variant:
    """Patch ``number`` of `COUNT`; the seed chooses nothing. Raises UsageError for a higher one."""
    if number > COUNT:
        raise UsageError(f"experiment sized has {COUNT} patches, no {number}: lower --patches")
    section, cost, every = _asked(number)
    edits: dict[str, str] = {}
    for path, function in ENTRIES[section]:
        text, helper = (edits[path], "") if path in edits else (read(path), LOOP)
        call = f"\tint planted __maybe_unused = iotoll_planted({every}, {cost});\n"
        if function in ENDS:
            edits[path] = _before(entered(text, path, function, "", helper), path, function, call)
        else:
            edits[path] = entered(text, path, function, call, helper)
    when = "each call" if every == 1 else f"every {every}th call"
    return made_of("sized", number, f"{section}: {cost} instructions in {when}", edits, read)


def _asked(number: int) -> tuple[str, int, int]:
    """Section, cost, and every so-manyth call."""
    section = list(ENTRIES)[(number - 1) // len(SIZES)]
    return section, *SIZES[(number - 1) % len(SIZES)]


def _before(text: str, path: str, function: str, call: str) -> str:
    """The file with ``call`` as a block of its own before a line of the function."""
    at = text.find(ENDS[function], text.index(f"ssize_t {function}("))
    if at < 0:
        line = ENDS[function].strip()
        raise UsageError(f"{path}: {function}() has no line {line!r}: choose another tree")
    return f"{text[:at]}\t{{\n\t{call}\t}}\n{text[at:]}"


@dataclass(frozen=True)
class Found:
    """What the gate says of one size in one section.

    ``found`` of ``judged`` cells call that section grown, ``found_t1`` of ``judged_t1`` among those
    of one thread; ``delta`` is the median of what they say, in instructions. ``whole`` counts the
    cells of which only the whole I/O is called grown, ``pools`` what several cells show together,
    and ``elsewhere`` the cells that call another section grown.
    """

    section: str
    cost: int
    every: int
    outcome: str
    found: int
    judged: int
    found_t1: int
    judged_t1: int
    delta: float | None
    whole: int
    pools: int
    missed: list[str]
    elsewhere: list[str]


def found_in(verdict: VerdictRecord, section: str, cost: int, every: int) -> Found:
    """What a verdict says of a cost in that section."""
    judged = {c.cell: c for c in verdict.cells if _is_judged(c, section)}
    sizes = {name: size for name, c in judged.items() for size in _grew(c, section)}
    one = [name for name in judged if parse_cell(name).threads == 1]
    missed = [name for name in judged if name not in sizes]
    return Found(
        section,
        cost,
        every,
        verdict.outcome.value,
        len(sizes),
        len(judged),
        sum(name in sizes for name in one),
        len(one),
        median(sizes.values()) if sizes else None,
        sum(bool(list(_grew(judged[name], "whole"))) for name in missed),
        sum(pool.moved == "grew" for pool in verdict.pools),
        missed,
        [
            f"{cell.cell} {name} {found.delta:+.0f}"
            for cell in verdict.cells
            for name, found in parts(cell)
            if name not in (section, "whole") and found.gated and found.moved == "grew"
        ],
    )


def _is_judged(cell: CellVerdict, section: str) -> bool:
    return any(
        name == section and found.gated and found.moved != "unknown" for name, found in parts(cell)
    )


def _grew(cell: CellVerdict, section: str) -> Iterator[float]:
    for name, found in parts(cell):
        if name == section and found.gated and found.moved == "grew":
            yield found.delta


@click.command("sized")
@gate_options(COUNT)
def sized_command(out: Path | None, **options: object) -> None:
    """Gate kernels with a cost of a stated size in one section of every I/O: in how many cells is
    it found?

    There are 24: +5, +20, +50 in each I/O, +400 and +5000 in every 8th, +5000 in every 64th, in
    each of four sections.
    """
    folder = out or Path("runs/sized")
    run_gates(sized, folder, options)
    rows = list(_rows(folder, options))
    text = json.dumps([asdict(row) for row in rows], indent=1)
    results.write_text(folder / "found.json", text + "\n")
    _print(rows, Console())


def _rows(out: Path, options: Mapping[str, object]) -> Iterator[Found]:
    first = int(str(options["first"]))
    for number in range(first, min(first + int(str(options["patches"])), COUNT + 1)):
        path = out / f"sized-{number}" / "verdict.json"
        if path.is_file():
            yield found_in(results.read(path, VerdictRecord), *_asked(number))


def _print(rows: list[Found], console: Console) -> None:
    table = Table(
        "Section",
        "Cost",
        "Verdict",
        "Cells",
        "Of one thread",
        "Said",
        "Whole I/O only",
        "Elsewhere",
    )
    for row in rows:
        cost = f"+{row.cost}" + (f" in every {row.every}th" if row.every > 1 else "")
        table.add_row(
            row.section,
            cost,
            row.outcome + (f" ({row.pools} over cells)" if row.pools else ""),
            f"{row.found} of {row.judged}",
            f"{row.found_t1} of {row.judged_t1}",
            "-" if row.delta is None else f"{row.delta:+.0f}",
            str(row.whole),
            str(len(row.elsewhere)),
        )
    console.print(table)
