"""Relinks a kernel with its files in another order, from the objects of one build.

Nothing is compiled again: a layout has the same instructions at other addresses. A layout orders
the functions of the kernel's files by a seed, file by file, and puts up to 252 bytes before each.
All behind the functions keeps its address: data, tables, and how much memory the kernel leaves.
What is not ordered are functions that the kernel places by itself (interrupt entry, locks, the
scheduler), those that the compiler takes for unlikely, and those of one file among themselves.
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

WORDS = 63
"""Instructions that are before a file's functions at most: nearly four lines of a cache."""
_UNIT = 1 << 18
"""Bytes to which the space for all functions is rounded up."""

_SECTION = re.compile(r"^ *\d+ \.text +([0-9a-f]{8}) .*\bCODE\b")
_FILE = re.compile(r"^(\S+): +file format ")
_PLACE = "*(.text .text.fixup)"
"""Where a kernel's linker script has its functions."""


@dataclass(frozen=True)
class Files:
    """The files of a kernel that have functions, in the order of the link, and their bytes."""

    sizes: dict[str, int]

    @property
    def space(self) -> int:
        """Bytes that hold them in any layout."""
        wanted = sum(self.sizes.values()) + 4 * (WORDS + 1) * len(self.sizes) + _UNIT
        return -(-wanted // _UNIT) * _UNIT


def files_of(listing: str) -> Files:
    """The files that objdump's list of sections has (``objdump -hw``)."""
    sizes: dict[str, int] = {}
    name = ""
    for line in listing.splitlines():
        if found := _FILE.match(line):
            name = found[1]
        elif (found := _SECTION.match(line)) and (size := int(found[1], 16)):
            sizes[name] = size
    return Files(sizes)


def ordered(files: Files, seed: int, number: int) -> Iterator[tuple[int, str]]:
    """Layout ``number`` of a seed: each file, and the bytes before it.

    Number 0 is the order of the link, without padding.
    """
    names = list(files.sizes)
    chance = random.Random(f"layout {seed} {number}")
    if number:
        chance.shuffle(names)
    for name in names:
        yield 4 * chance.randint(0, WORDS) if number else 0, name


def with_layout(script: str, layout: Iterator[tuple[int, str]], space: int) -> str:
    """A kernel's linker script with its functions placed so, and ``space`` bytes for them.

    Raises UsageError where the script has no place for functions that is known.
    """
    if script.count(_PLACE) != 1:
        raise UsageError(f"this kernel's linker script has not one {_PLACE}: use another kernel")
    lines = [". = ALIGN(64);"]
    for padding, name in layout:
        if padding:
            lines.append(f". += {padding};")
        lines.append(f"*{name}(.text .text.fixup)")
    # From the beginning of .text; a linker refuses to go back.
    return script.replace(_PLACE, "\n".join([*lines, _PLACE, f". = {space};"]))


def relink(
    job: KernelJob, seed: int, numbers: Sequence[int], folder: Path, progress: Progress, space: int
) -> tuple[Files, int]:
    """Leave layouts of a kernel as ``NUMBER.Image.gz`` in ``folder``; those that are there stay.

    Returns the kernel's files, and the space that they were given, in bytes: ``space``, or more if
    they need it. Raises BrokenError, InfrastructureError or UsageError.
    """
    place = f"layouts-{job.source.side}"
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "build.log"
    target = TARGETS[job.arch]
    with kept_objects(job, progress, place, log) as (out, make):
        # All objects, but no kernel yet.
        make("vmlinux_o")
        files = files_of(_listing(out, target.compiler.removesuffix("gcc")))
        space = max(space, files.space)
        script = out / f"arch/{job.arch}/kernel/vmlinux.lds"
        own = _own_script(script)
        for number in numbers:
            path = folder / f"{number}.Image.gz"
            if path.is_file():
                continue
            # Newer than its sources: make leaves it alone.
            script.write_text(with_layout(own, ordered(files, seed, number), space))
            make(target.make_target)
            image = (out / target.image).read_bytes()
            results.write_bytes(path, gzip.compress(image, 1, mtime=0))
            progress.say(f"{path}: linked")
    return files, space


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
