"""The error of a core's model: loops that others measured on the real one (microbench.toml)."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.errors import InfrastructureError
from iotoll.core.proc import require_tool
from iotoll.core.toml import load_toml
from iotoll_lab.estimate.core import Core
from iotoll_lab.estimate.decode import Decoder
from iotoll_lab.estimate.pipeline import Step, issued

ASSEMBLER = "aarch64-linux-gnu-as"
_BODIES = 240
"""How many bodies are simulated; the first quarter fills the pipeline."""
_REGISTERS = 24
_MARK = re.compile(r"^[TNR](?=[a-z])")
_CHANCE = ((True, True), (False, False), (True, False), (False, True))
"""Taken, mispredicted: half of what goes by chance each."""


@dataclass(frozen=True)
class Loop:
    """One measured loop: ``cycles`` are those of one body; a ``set`` one the core's file has."""

    group: str
    body: str
    is_chain: bool
    cycles: float
    sets: bool


@dataclass(frozen=True)
class Row:
    """A loop, and what the model says."""

    loop: Loop
    estimated: float

    @property
    def error(self) -> float:
        """Of the measured number."""
        return self.estimated / self.loop.cycles - 1


def loops() -> list[Loop]:
    """What was measured, in the order of the file."""
    found = []
    for group, told in load_toml(Path(__file__).with_name("microbench.toml")).items():
        for number, (body, chain, free) in enumerate(told["rows"]):
            sets = number in told.get("sets", ())
            for is_chain, cycles in ((True, chain), (False, free)):
                if cycles:
                    found.append(Loop(group, body, is_chain, float(cycles), sets))
    return found


def estimates(core: Core, wanted: Sequence[Loop]) -> list[Row]:
    """What the model says of loops; raises InfrastructureError without an assembler."""
    texts = [[*_bodies(loop)] for loop in wanted]
    words = iter(assembled([_MARK.sub("", line) for text in texts for line in text]))
    decoder = Decoder(core)
    rows = []
    for loop, text in zip(wanted, texts, strict=True):
        ops = decoder.ops([next(words) for _ in text])
        steps: list[Step] = []
        chance = 0
        for line, op in zip(text, ops, strict=True):
            mark = _MARK.match(line)
            taken, missed = mark is not None and mark[0] == "T", False
            if mark and mark[0] == "R":
                taken, missed = _CHANCE[chance % len(_CHANCE)]
                chance += 1
            steps.append((op, taken, missed))
        times = issued(steps, core)
        size = len(text) // _BODIES
        first, last = _BODIES // 4 * size, (_BODIES - 1) * size
        rows.append(Row(loop, (times[last] - times[first]) / (_BODIES - 1 - _BODIES // 4)))
    return rows


def _bodies(loop: Loop) -> Iterator[str]:
    """The loop's instructions, unrolled."""
    for number in range(_BODIES):
        need = number % _REGISTERS
        make, second = (number + 1) % _REGISTERS, 25
        if not loop.is_chain:
            # Far from each other: nine bodies, with two registers each.
            need = make = 2 * (number % 9)
            second = make + 1
        names = {"d": f"x{make}", "dw": f"w{make}", "s": f"x{need}", "sw": f"w{need}"}
        for line in loop.body.format(d2=f"x{second}", **names).split(";"):
            yield line.strip()


def assembled(lines: Sequence[str]) -> list[int]:
    """The words of instructions."""
    require_tool(ASSEMBLER, "binutils-aarch64-linux-gnu")
    text = ".arch armv8-a+crc\n" + "\n".join(lines) + "\n"
    with tempfile.TemporaryDirectory() as folder:
        made, flat = Path(folder) / "a.o", Path(folder) / "a.bin"
        for command in (
            [ASSEMBLER, "-o", str(made), "-"],
            [ASSEMBLER.removesuffix("as") + "objcopy", "-O", "binary", str(made), str(flat)],
        ):
            done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
            if done.returncode:
                why = done.stderr.decode("utf-8", "replace")[-300:]
                raise InfrastructureError(f"{command[0]}: {why}")
        data = flat.read_bytes()
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
