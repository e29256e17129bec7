"""``iotoll experiment explained``: costs that are harder to find than those of ``planted``."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import click

from iotoll_lab.experiments.gates import gate_options, run_gates
from iotoll_lab.experiments.variants import (
    LARGE_KB,
    LOOP,
    PAGE_KB,
    Condition,
    Plant,
    Read,
    Variant,
    entered,
    made_of,
)

COSTS = (20, 50, 100, 400)
CELLS = "ufs-4k-randread-t1-direct,ufs-4k-randwrite-t1-direct,ufs-128k-seqread-t1-direct"
"""Cells in which each condition holds and does not hold, all of one thread."""


@dataclass(frozen=True)
class Place:
    """A function of an I/O's way; C expressions of its I/O: whether it writes, its bytes."""

    path: str
    function: str
    writes: str
    size: str


PLACES = (
    Place(
        "block/blk-core.c",
        "submit_bio_noacct",
        "op_is_write(bio_op(bio))",
        "bio->bi_iter.bi_size",
    ),
    Place(
        "block/blk-mq.c",
        "blk_mq_submit_bio",
        "op_is_write(bio_op(bio))",
        "bio->bi_iter.bi_size",
    ),
    Place(
        "block/blk-mq.c",
        "blk_mq_start_request",
        "op_is_write(req_op(rq))",
        "blk_rq_bytes(rq)",
    ),
    Place(
        "drivers/ufs/core/ufshcd.c",
        "ufshcd_queuecommand",
        "op_is_write(req_op(scsi_cmd_to_rq(cmd)))",
        "blk_rq_bytes(scsi_cmd_to_rq(cmd))",
    ),
    Place(
        "drivers/scsi/sd.c",
        "sd_setup_read_write_cmnd",
        "op_is_write(req_op(scsi_cmd_to_rq(cmd)))",
        "blk_rq_bytes(scsi_cmd_to_rq(cmd))",
    ),
)

_NESTED = """
static __always_inline int iotoll_around(unsigned int every, unsigned long n)
{
	return n ? iotoll_planted(every, n) : 0;
}
"""
_OUTLINED = """
static noinline int iotoll_apart(unsigned int every, unsigned long n)
{
	return iotoll_planted(every, n);
}
"""
SHAPES: dict[str, tuple[str, str, str]] = {
    "inlined": ("iotoll_planted", "", "an inlined function"),
    "nested": ("iotoll_around", _NESTED, "a function that is inlined into an inlined one"),
    "apart": ("iotoll_apart", _OUTLINED, "a new function"),
}
"""What is called, its helper beside the loop, and what it is, by the shape's name."""

CONDITIONS: tuple[tuple[Condition, int, str], ...] = (
    ("write", 1, "for writes alone"),
    ("large", 1, f"for I/Os over {LARGE_KB} KiB"),
    ("pages", 1, f"for each {PAGE_KB} KiB"),
    ("", 8, "in every 8th call"),
)


def shaped(seed: int, number: int, read: Read) -> Variant:
    """Patch ``number`` of a seed."""
    chance = random.Random(f"shaped {seed} {number}")
    place, cost = chance.choice(PLACES), chance.choice(COSTS)
    called, helper, form = list(SHAPES.values())[(number - 1) % len(SHAPES)]
    condition, every, when = CONDITIONS[(number - 1) % len(CONDITIONS)]
    expression = _call(place, called, condition, every, cost)
    call = f"\tint planted __maybe_unused = {expression};\n"
    text = entered(read(place.path), place.path, place.function, call, LOOP + helper)
    what = f"{place.function}(): {cost} instructions in {form}, {when}"
    made = made_of("shaped", number, what, {place.path: text}, read)
    # A new function has its own line; what is inlined belongs to the function it is inlined into.
    own = called if called == "iotoll_apart" else place.function
    return replace(made, plant=Plant(own, cost, every, condition))


def _call(place: Place, called: str, condition: Condition, every: int, cost: int) -> str:
    if condition == "pages":
        return f"{called}({every}, {cost}ul * ({place.size} / {PAGE_KB << 10}))"
    text = f"{called}({every}, {cost})"
    tests = {"write": place.writes, "large": f"{place.size} > {LARGE_KB << 10}"}
    return f"{tests[condition]} ? {text} : 0" if condition else text


@click.command("explained")
@gate_options()
def explained_command(out: Path | None, **options: object) -> None:
    """Gate and explain PATCHES kernels whose cost is in an inlined or new function, or conditional.

    Is the function named first, with its size? Without --cells three UFS cells run, in which each
    condition holds and does not hold.
    """
    options = {**options, "cells": options["cells"] or CELLS, "explain": True}
    run_gates(shaped, out or Path("runs/explained"), options)
