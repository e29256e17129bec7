"""How busy was this machine with other work while a native board booted?"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

FACT = "host_others"
"""Of a native board's boot: CPUs that other processes used meanwhile."""
QUIET = 0.25
"""CPUs that others may use before a verdict mentions them."""


@dataclass(frozen=True)
class Load:
    """Seconds of CPU since the machine began: all that were used, and what our processes used.

    A virtual machine's stolen time counts as used.
    """

    at: float
    used: float
    ours: float

    @classmethod
    def now(cls) -> Load:
        """As /proc/stat and the account of this process and its ended children have it."""
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
        ticks = [int(word) for word in words]  # user nice system idle iowait irq softirq steal
        times = os.times()
        return cls(
            time.monotonic(),
            (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"),
            times.user + times.system + times.children_user + times.children_system,
        )

    def others_until(self, later: Load) -> float:
        """CPUs that others used on average; 0 where the accounts differ the other way."""
        used = (later.used - self.used) - (later.ours - self.ours)
        return max(used / max(later.at - self.at, 1e-3), 0.0)
