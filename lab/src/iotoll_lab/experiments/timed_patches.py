"""Patches that make one section of host-uml's I/Os longer by a stated share of its time.

The delay is a loop of dependent instructions, so its time is real and depends on nothing but the
CPU. What a turn of it takes there is measured by what such a kernel grew by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from iotoll_lab.experiments.variants import Read, Variant, entered, made_of

When = Literal["always", "every16th", "threads8"]

EVERY = 16
MANY = 6
"""fio with 8 threads has more than so many threads, with one thread fewer."""

PLACES: dict[str, tuple[str, str]] = {
    "vfs_fs": ("fs/iomap/direct-io.c", "iomap_dio_bio_iter"),
    "submission": ("block/blk-mq.c", "blk_mq_submit_bio"),
    "completion": ("block/blk-mq.c", "blk_update_request"),
}
"""Section to the file and the function, one call for each I/O, that gets the delay."""

CONDITIONS: dict[When, str] = {
    "always": "1",
    "every16th": f"!(++calls % {EVERY})",
    "threads8": f"current->signal->nr_threads > {MANY}",
}

DELAY = """
#include <linux/sched/signal.h>

/* Takes the time of n turns of a loop, of which none can begin before the last one has ended. */
static __always_inline void iotoll_delay(unsigned long n)
{{
	static unsigned int calls __maybe_unused;

	if ({condition})
		do
			asm volatile("" : "+r" (n));
		while (--n);
}}
"""


@dataclass(frozen=True)
class Delay:
    """A delay of ``percent`` of a section's mean time on the base; ``every16th`` is 16 times it.

    So the mean I/O of each kind grows by as much.
    """

    section: str
    percent: float
    when: When = "always"

    @property
    def name(self) -> str:
        """``submission-5-always``."""
        return f"{self.section}-{self.percent:g}-{self.when}"

    def variant(self, base_ns: float, turn_ns: float, read: Read) -> Variant:
        """The patch, for a section that takes ``base_ns`` and a loop whose turn takes ``turn_ns``.

        Raises UsageError where the tree has no such function.
        """
        turns = max(1, round(base_ns * self.percent / 100 / turn_ns))
        turns *= EVERY if self.when == "every16th" else 1
        return delayed(self.name, self.section, turns, self.when, read)


def delayed(name: str, section: str, turns: int, when: When, read: Read) -> Variant:
    """A patch with a loop of so many turns, of two instructions each on any CPU.

    Raises UsageError where the tree has no such function.
    """
    path, function = PLACES[section]
    helper = DELAY.format(condition=CONDITIONS[when])
    text = entered(read(path), path, function, f"\tiotoll_delay({turns});\n", helper)
    what = f"{function}(): {turns} turns of a loop, {when}"
    return made_of("delay", name, what, {path: text}, read)


DELAYS: tuple[Delay, ...] = (
    Delay("submission", 5),
    Delay("submission", 10),
    Delay("vfs_fs", 10),
    Delay("completion", 10),
    Delay("submission", 10, "threads8"),
    Delay("submission", 10, "every16th"),
    Delay("submission", 2),
    Delay("vfs_fs", 5),
    Delay("completion", 5),
    Delay("submission", 1),
    Delay("submission", 5, "every16th"),
    Delay("submission", 5, "threads8"),
    Delay("submission", 0.5),
    Delay("vfs_fs", 2),
    Delay("completion", 2),
)
"""Those that are booted, in order: where time ends, the first ones are there."""
