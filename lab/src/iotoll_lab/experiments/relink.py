"""Relinks a kernel with its functions in another order, from the objects of one build.

Nothing is compiled again: a layout has the same instructions at other addresses. A layout shuffles
the kernel's files, and the functions within each, by a seed, and puts 4 to 60 bytes before every
fourth function or so. All behind the functions keeps its address: data, tables, and how much memory
the kernel leaves. What is not ordered are functions that the kernel places itself (interrupt entry,
locks, the scheduler), and those that the compiler takes for unlikely.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.kernels.compiling import kept_objects
from iotoll.kernels.kernel_job import TARGETS, KernelJob
from iotoll.kernels.tree import clean_env, run_tool
from iotoll.records import results

FRAGMENT = Path(__file__).with_name("layouts.config")
"""What is added to a board's fragments."""
PADDED = 0.25
"""Share of functions that have something before them: 1 to `WORDS` instructions."""
WORDS = 15
_ROOM, _UNIT = 32, 1 << 20
"""Bytes for each function, four times what padding takes, and to what the whole is rounded up; what
the kernel places before its functions has some KB."""

_SECTION = re.compile(r"^ *\d+ (\.text\.\S+) +([0-9a-f]{8}) .*\bCODE\b")
_FILE = re.compile(r"^(\S+): +file format ")
_KERNELS_OWN = re.compile(r"\.text\.(hot|unlikely|unknown|fixup|startup|exit|asan|tsan)(\.|$)")
_PLACE = "*(.text .text.fixup)"
"""Where a kernel's linker script has its functions."""


@dataclass(frozen=True)
class Functions:
    """A kernel's functions as sections of its objects, file by file in the order of the link.

    ``size`` is that of all together, in bytes.
    """

    files: tuple[tuple[str, ...], ...]
    size: int

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(map(len, self.files))

    @property
    def room(self) -> int:
        """Bytes that hold them in any layout."""
        wanted = self.size + _ROOM * self.count
        return -(-wanted // _UNIT) * _UNIT


def functions_of(listing: str) -> Functions:
    """The functions that objdump's list of sections has (``objdump -hw``).

    Those of one name in several files are placed together, where the first is.
    """
    files: list[list[str]] = []
    known: set[str] = set()
    size = 0
    for line in listing.splitlines():
        if _FILE.match(line):
            files.append([])
        elif (found := _SECTION.match(line)) and not _KERNELS_OWN.match(found[1]):
            size += int(found[2], 16)
            if found[1] not in known:
                known.add(found[1])
                files[-1].append(found[1])
    return Functions(tuple(tuple(file) for file in files if file), size)


def ordered(functions: Functions, seed: int, number: int) -> Iterator[tuple[int, str]]:
    """Layout ``number`` of a seed: each section, and the bytes before it.

    Number 0 is the order of the link, without padding. An empty name stands for what assembler
    files have in one section.
    """
    files = [list(file) for file in functions.files]
    files.insert(0, [""])
    chance = random.Random(f"layout {seed} {number}")
    if number:
        chance.shuffle(files)
    for file in files:
        if number:
            chance.shuffle(file)
        for section in file:
            padded = number and chance.random() < PADDED
            yield 4 * chance.randint(1, WORDS) if padded else 0, section


def with_layout(script: str, layout: Iterator[tuple[int, str]], room: int) -> str:
    """A kernel's linker script with its functions placed so, and ``room`` bytes for them.

    Raises UsageError where the script has no place for functions that is known.
    """
    if script.count(_PLACE) != 1:
        raise UsageError(f"this kernel's linker script has not one {_PLACE}: use another kernel")
    lines = [". = ALIGN(64);"]
    for padding, section in layout:
        if padding:
            lines.append(f". += {padding};")
        lines.append(f"*({section})" if section else _PLACE)
    # What no list has: such a function would else be placed behind the kernel.
    lines.append("*(.text.[0-9a-zA-Z_]*)")
    # From the beginning of .text; a linker refuses to go back.
    lines.append(f". = {room};")
    return script.replace(_PLACE, "\n".join(lines))


def relink(
    job: KernelJob, seed: int, numbers: Sequence[int], folder: Path, progress: Progress, room: int
) -> tuple[Functions, int]:
    """Leave layouts of a kernel as ``NUMBER.Image.gz`` in ``folder``; those that are there stay.

    ``job`` has `FRAGMENT`. Returns the kernel's functions, and the room that they were given, in
    bytes: ``room``, or more if they need it. Raises BrokenError, InfrastructureError or UsageError.
    """
    place = f"layouts-{job.source.side}"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    target = TARGETS[job.arch]
    with kept_objects(job, progress, place, log) as (out, make):
        # All objects, but no kernel yet: this linker script knows no function's section.
        make("vmlinux.a")
        functions = functions_of(_listing(out, target.compiler.removesuffix("gcc")))
        room = max(room, functions.room)
        script = out / f"arch/{job.arch}/kernel/vmlinux.lds"
        own = _own_script(script)
        for number in numbers:
            path = folder / f"{number}.Image.gz"
            if path.is_file():
                continue
            text = with_layout(own, ordered(functions, seed, number), room)
            # Newer than what it is made of: make leaves it alone.
            script.write_text(text)
            make(target.make_target)
            image = (out / target.image).read_bytes()
            results.write_bytes(path, gzip.compress(image, 1, mtime=0))
            progress.say(f"{path}: linked")
    return functions, room


def _own_script(script: Path) -> str:
    """The linker script as the kernel has it, which a layout takes the place of."""
    kept = script.with_name("iotoll.lds")
    if not kept.is_file():
        kept.write_text(script.read_text())
    return kept.read_text()


def _listing(out: Path, prefix: str) -> str:
    """The sections of all objects that a kernel is linked from."""
    archives = ["vmlinux.a", *(str(p.relative_to(out)) for p in sorted(out.glob("**/lib.a")))]
    command = [f"{prefix}objdump", "-hw", *archives]
    done = run_tool(command, cwd=out, stdin=None, env=clean_env())
    if done.returncode:
        raise InfrastructureError(
            f"{command[0]} cannot read {out}: {done.stderr.decode('utf-8', 'replace')[-200:]}"
        )
    return done.stdout.decode("utf-8", "replace")
