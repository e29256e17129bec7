"""Cores as data: what an in-order pipeline needs, and what its parts cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from iotoll.core.errors import UsageError
from iotoll.core.toml import first_error, load_toml
from iotoll.records.models.base import Model

Cycles = Annotated[int, Field(ge=0)]


class Needs(Model):
    """When an operand is needed, in cycles after issue."""

    address: Cycles
    shifted: Cycles
    multiplied: Cycles
    operand: Cycles
    stored: Cycles


class Ready(Model):
    """When a result is ready, in cycles after issue; ``load_second`` is added to a load's."""

    alu: Cycles
    load: Cycles
    load_small: Cycles
    load_second: Cycles
    multiply_64: Cycles
    multiply_32: Cycles
    multiply_high: Cycles
    divide: Cycles
    exclusive: Cycles


class Busy(Model):
    """For how many cycles a unit takes nothing else."""

    load_pair: Cycles
    multiply_64: Cycles
    multiply_add_64: Cycles
    multiply_high: Cycles
    divide: Cycles


class Issue(Model):
    """What is fetched and issued in a cycle."""

    width: int = Field(ge=1)
    fetch: int = Field(ge=1)
    queue: int = Field(ge=1)
    store_to_load: Cycles


class Branches(Model):
    """What branches cost, in cycles."""

    taken: Cycles
    indirect: Cycles
    mispredicted: Cycles


class Waits(Model):
    """What lets nothing pass, in cycles."""

    dmb: Cycles
    dsb: Cycles
    isb: Cycles
    exception: Cycles
    system: Cycles
    tlb: Cycles
    cache: Cycles


class Misses(Model):
    """What a miss adds, in cycles."""

    l1i: Cycles
    l1d: Cycles
    l2: Cycles


class Devices(Model):
    """What an access to a device's register takes, in ns."""

    read: Cycles
    write: Cycles


class Core(Model):
    """One core; the file says of each number whether it is measured or assumed."""

    description: str
    mhz: int = Field(gt=0)
    caches: str = Field(description="of lava-jobs/caches, for boots that it is estimated of")
    needs: Needs
    ready: Ready
    busy: Busy
    issue: Issue
    branches: Branches
    waits: Waits
    misses: Misses
    devices: Devices


WHICH = ("least", "taken", "most")
"""Of a number that is assumed, as its file has them."""


def load_core(name: str, which: str = "taken") -> Core:
    """The core of a file beside this one, or of the user's; raises UsageError.

    ``which`` of `WHICH` are taken of the numbers that are assumed.
    """
    known = Path(__file__).with_name(f"{name}.toml")
    path = known if known.is_file() else Path(name)
    if not path.is_file():
        cores = [p.stem for p in Path(__file__).parent.glob("cortex-*.toml")]
        raise UsageError(f"core {name}: no such core: choose {', '.join(sorted(cores))}, or a file")
    try:
        told = load_toml(path)
        number = WHICH.index(which)
        for part in (one for one in told.values() if isinstance(one, dict)):
            for key, value in part.items():
                part[key] = value[number] if isinstance(value, list) and len(value) == 3 else value
        return Core.model_validate(told)
    except ValidationError as error:
        raise first_error(path, error) from error
