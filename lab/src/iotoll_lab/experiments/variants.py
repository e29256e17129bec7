"""Patches made from a seed: costs planted on the way of an I/O, and changes that cost nothing.

A planted patch executes a known number of instructions when a function is entered: always, in
every 8th or in every 64th call. An innocent one changes what no I/O executes: code that never runs
(the layout of everything behind it), data, alignment, start-up work, an unused driver, the version.
"""

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from iotoll.boards.cells import parse_cell
from iotoll.core.errors import UsageError

PLACES: tuple[tuple[str, str], ...] = (
    ("block/blk-core.c", "submit_bio_noacct"),
    ("block/blk-mq.c", "blk_mq_submit_bio"),
    ("block/blk-mq.c", "blk_mq_start_request"),
    ("drivers/nvme/host/pci.c", "nvme_prep_rq"),
    ("drivers/nvme/host/pci.c", "nvme_pci_complete_rq"),
    ("drivers/ufs/core/ufshcd.c", "ufshcd_queuecommand"),
    ("drivers/ufs/core/ufshcd.c", "ufshcd_compl_one_cqe"),
    ("drivers/mmc/core/core.c", "mmc_wait_for_req_done"),
    ("drivers/mmc/host/sdhci.c", "sdhci_send_command"),
    ("fs/ext4/file.c", "ext4_file_read_iter"),
    ("fs/ext4/file.c", "ext4_file_write_iter"),
    ("fs/jbd2/commit.c", "jbd2_journal_commit_transaction"),
    ("mm/filemap.c", "generic_file_read_iter"),
    ("mm/filemap.c", "generic_perform_write"),
    ("kernel/sched/core.c", "wake_up_process"),
)
"""Files and functions that get a planted cost."""

COSTS = (5, 20, 50, 400, 5000)
LARGE_KB, PAGE_KB = 16, 4
EVERY = (1, 8, 64)

Edits = dict[str, str]
Read = Callable[[str], str]
"""Gives a file of the base's source by its path."""


Condition = Literal["", "write", "large", "pages"]
"""When a cost is executed: always; by writes alone; by I/Os over 16 KiB; so often per 4 KiB."""


@dataclass(frozen=True)
class Plant:
    """A planted cost: instructions in every so-manyth call of a function, under a condition."""

    function: str
    cost: int
    every: int
    condition: Condition = ""

    def size(self, cell: str) -> float:
        """Instructions of the loop for a cell's I/Os; two a turn, and a turn counts two."""
        found = parse_cell(cell)
        times = {
            "": 1,
            "write": int(found.op == "write"),
            "large": int(found.block_kb > LARGE_KB),
            "pages": found.block_kb // PAGE_KB,
        }[self.condition]
        return 2 * -(-self.cost * times // 2)


@dataclass(frozen=True)
class Variant:
    """One patch: ``kind`` is ``planted`` or ``innocent``, ``what`` one line, ``text`` the patch."""

    name: str
    kind: str
    what: str
    text: str
    plant: Plant | None = None


def planted(seed: int, number: int, read: Read) -> Variant:
    """Planted patch ``number`` of a seed; every second one is conditional."""
    chance = random.Random(f"planted {seed} {number}")
    path, function = chance.choice(PLACES)
    cost = chance.choice(COSTS)
    every = 1 if number % 2 else chance.choice(EVERY[1:])
    call = f"\tint planted __maybe_unused = iotoll_planted({every}, {cost});\n"
    text = entered(read(path), path, function, call, LOOP)
    when = "each call" if every == 1 else f"every {every}th call"
    what = f"{function}(): {cost} instructions in {when}"
    made = made_of("planted", number, what, {path: text}, read)
    return replace(made, plant=Plant(function, cost, every))


def innocent(seed: int, number: int, read: Read) -> Variant:
    """Innocent patch ``number`` of a seed."""
    chance = random.Random(f"innocent {seed} {number}")
    make = chance.choice((_cold, _aligned, _start_up, _driver, _version))
    what, edits = make(chance, read)
    return made_of("innocent", number, what, edits, read)


LOOP = """
/* Executes about n instructions: a loop of two, so that no compiler knows better. */
static __always_inline int iotoll_planted(unsigned int every, unsigned long n)
{
	static unsigned int calls;

	if (every > 1 && ++calls % every)
		return 0;
#if defined(CONFIG_ARM64)
	asm volatile("1: subs %0, %0, #2\\n b.gt 1b" : "+r" (n) : : "cc");
#elif defined(__x86_64__)
	asm volatile("1: sub $2, %0\\n jg 1b" : "+r" (n) : : "cc");
#endif
	return 0;
}
"""


def entered(text: str, path: str, function: str, call: str, helper: str) -> str:
    """The file with ``call`` at the entry of a function, and ``helper`` after its includes.

    Raises UsageError where the file has no such function.
    """
    found = re.search(rf"^(?:[a-z][^\n;{{}}]*\b)?{function}\([^;{{}}]*\)\n\{{\n", text, re.M)
    at = _after_all_includes(text)
    if found is None or not 0 < at < found.start():
        raise UsageError(f"{path}: has no function {function}(): choose another tree")
    body = text[: found.end()] + call + text[found.end() :]
    return body[:at] + helper + body[at:]


def inserted(
    text: str, path: str, places: Iterable[tuple[str, str]], more: str = "", skip: int = 0
) -> str:
    """A file with code behind some of its lines, each with ``skip`` lines between.

    ``places`` are pairs of a line and code; ``more`` comes behind the last include, if any. Raises
    UsageError where a line is not there once.
    """
    lines = text.split("\n")
    for behind, code in places:
        if lines.count(behind) != 1:
            raise UsageError(f"{path} has not one line {behind.strip()!r}")
        place = lines.index(behind) + 1 + skip
        lines[place:place] = code.split("\n")
    if more:
        last = max(n for n, line in enumerate(lines) if line.startswith("#include")) + 1
        lines[last:last] = ["", more]
    return "\n".join(lines)


def _after_all_includes(text: str) -> int:
    """Where the last include before any code ends, of those that no #if surrounds; 0: none."""
    at = depth = end = 0
    for line in text.splitlines(keepends=True):
        at += len(line)
        word = "".join(line.split(maxsplit=2)[:2]) if line.startswith("#") else line
        if word.startswith("#if"):
            depth += 1
        elif word.startswith("#endif"):
            depth -= 1
        elif word.startswith("#include") and not depth:
            end = at
        elif re.match(r"[A-Za-z_]", line) and not depth:
            # An include among code is a part of it: kernel/sched/core.c has the values of an
            # enumeration so.
            break
    return end


def _cold(chance: random.Random, read: Read) -> tuple[str, Edits]:
    path = chance.choice(PLACES)[0]
    count = chance.randint(1, 40)
    bodies = "".join(
        f"\nstatic noinline __used int iotoll_cold_{n}(int x)\n{{\n"
        f"\treturn x * {chance.randint(3, 999)} + (x >> {chance.randint(1, 9)});\n}}\n"
        for n in range(count)
    )
    text = read(path)
    at = _after_includes(text)
    return f"{path}: {count} functions that nobody calls", {path: text[:at] + bodies + text[at:]}


def _aligned(chance: random.Random, read: Read) -> tuple[str, Edits]:
    path = chance.choice(PLACES)[0]
    size, align = chance.randint(1, 9000), chance.choice((64, 256, 1024))
    more = f"\nstatic char iotoll_data[{size}] __used __aligned({align}) = {{ 1 }};\n"
    text = read(path)
    at = _after_includes(text)
    what = f"{path}: {size} bytes of data, aligned to {align}"
    return what, {path: text[:at] + more + text[at:]}


def _start_up(chance: random.Random, read: Read) -> tuple[str, Edits]:
    path, turns = "init/main.c", chance.randint(1000, 5_000_000)
    return f"{path}: {turns} turns of a loop at start-up", {
        path: read(path)
        + "\nstatic int __init iotoll_start_up(void)\n{\n\tvolatile int i;\n\n"
        + f"\tfor (i = 0; i < {turns}; i++)\n\t\t;\n\treturn 0;\n}}\n"
        + "late_initcall(iotoll_start_up);\n"
    }


def _driver(chance: random.Random, read: Read) -> tuple[str, Edits]:
    path, number = "drivers/base/platform.c", chance.randint(1, 999)
    return f"{path}: a platform driver without a device", {
        path: read(path)
        + "\nstatic int iotoll_probe(struct platform_device *pdev)\n{\n"
        + f"\treturn pdev->id == {number} ? -EIO : 0;\n}}\n"
        + "\nstatic struct platform_driver iotoll_driver = {\n\t.probe = iotoll_probe,\n"
        + f'\t.driver = {{ .name = "iotoll-{number}" }},\n}};\n'
        + "builtin_platform_driver(iotoll_driver);\n"
    }


def _version(chance: random.Random, read: Read) -> tuple[str, Edits]:
    words = "".join(chance.choice("abcdefgh") for _ in range(chance.randint(1, 30)))
    text = re.sub(r"^EXTRAVERSION =.*$", f"EXTRAVERSION = -{words}", read("Makefile"), flags=re.M)
    return f"Makefile: the version ends with -{words}", {"Makefile": text}


def _after_includes(text: str) -> int:
    """Where the first block of includes ends: nothing is compiled conditionally before it."""
    found = re.search(r"(?:^#include .*\n)+", text, re.M)
    return found.end() if found else 0


def made_of(
    kind: str, number: int | str, what: str, edits: Mapping[str, str], read: Read
) -> Variant:
    """The patch that leaves these files of the base like this."""
    head = f"From: iotoll <iotoll@localhost>\nSubject: [PATCH] {what}\n\n---\n"
    parts = (
        difflib.unified_diff(
            read(path).splitlines(True), text.splitlines(True), f"a/{path}", f"b/{path}"
        )
        for path, text in edits.items()
    )
    return Variant(f"{kind}-{number}", kind, what, head + "".join("".join(p) for p in parts))
