"""Numbers and names as the report writes them; every other module formats through here.

Numbers follow the project's style: ``5,704``; ``+300 (+5.3 %)``; a true minus sign.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iotoll.records.models import Clock, Section, Unit

NO_VALUE = "\u2013"
MINUS = "\u2212"
NBSP = "\u00a0"
_MODES = ("direct", "sync")
DEVICES = {
    **{"ufs": "UFS", "nvme": "NVMe", "emmc": "eMMC", "ubd": "ubd"},
    **{"nullblk": "null_blk", "scsidebug": "scsi_debug", "nvmeloop": "nvme-loop"},
}
"""How people write a device of a matrix, in the order of reports."""
# The last group turns the direction of writing: what is shown is then not what is there.
_CONTROL = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[@-Z\\-_])|[\x00-\x08\x0b-\x1f\x7f-\x9f]"
    r"|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)

SECTION_NUMBERS = {section: number for number, section in enumerate(Section, start=1)}
"""The number that docs/method.md gives each latency section."""


def number(value: float | None) -> str:
    """Return ``5,704``; fractions show only below 100, where they can matter."""
    if value is None:
        return NO_VALUE
    if abs(value) >= 100 or float(value).is_integer():
        return f"{round(value):,}".replace("-", MINUS)
    return f"{value:,.1f}".replace("-", MINUS)


def signed(value: float | None) -> str:
    """Return ``+300``, ``-12`` (with a true minus) or ``0``."""
    if value is None:
        return NO_VALUE
    text = number(value)
    return f"+{text}" if value > 0 and text not in ("0", "0.0") else text


def fixed(value: float | None, digits: int, sign: bool = False, minus: str = MINUS) -> str:
    """Return ``1,234.5`` with so many digits, or ``+1,234.5`` with ``sign``; zero has none."""
    if value is None:
        return NO_VALUE
    text = f"{abs(value):,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        return text
    return f"{minus if value < 0 else '+' if sign else ''}{text}"


def percent(ratio: float | None, digits: int = 1) -> str:
    """Return a ratio as ``5.3 %`` (no sign but a minus)."""
    if ratio is None:
        return NO_VALUE
    return f"{ratio * 100:.{digits}f}{NBSP}%".replace("-", MINUS)


WHOLE_PERCENT = 0.0995
"""Shares from here on are told without a decimal."""


def signed_percent(ratio: float) -> str:
    """Return a relative change as ``+14 %`` or ``+5.3 %``; below 0.1 % its first digit."""
    digits = 0 if abs(ratio) >= WHOLE_PERCENT else 1
    if 0 < abs(ratio) < 0.001:
        digits = min(-math.floor(math.log10(abs(ratio) * 100)), 6)
    text = percent(ratio, digits)
    return f"+{text}" if ratio > 0 else text


def change(delta: float, relative: float) -> str:
    """Return ``+300 (+5.3 %)``, or ``0`` when nothing changed."""
    if delta == 0:
        return "0"
    return f"{signed(delta)} ({signed_percent(relative)})"


def plural(count: int, noun: str) -> str:
    """Return ``1 cell`` or ``32 cells``."""
    return f"{count:,}{NBSP}{noun}{'' if count == 1 else 's'}"


def some_of(names: Sequence[str], most: int) -> str:
    """Return ``a, b, c and 2 more``: the first ``most`` names, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def listed(values: Mapping[str, int | str]) -> str:
    """Return ``seen 1,030, measured 1,024``."""
    return ", ".join(
        f"{clean(key).replace('_', ' ')} {number(v) if isinstance(v, int) else clean(v)}"
        for key, v in values.items()
    )


def clean(text: str) -> str:
    """Drop terminal escapes and control characters from text that others wrote (logs, subjects)."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def section_title(section: Section) -> str:
    """Return ``2 submission``."""
    return f"{SECTION_NUMBERS[section]}{NBSP}{section.value}"


def clock_note(clock: Clock, virtual: bool, native: bool = False) -> str:
    """Return the sentence that must stand beside every figure of a clock.

    ``native`` says that the kernel ran as a process of the machine that measured it.
    """
    if clock is Clock.INSTRUCTIONS:
        return "Instructions executed on a virtual board; not time."
    if virtual:
        return "Nanoseconds of a virtual board: a smoke test, not a board's latency."
    if native:
        return "Nanoseconds of a kernel that is a process on this machine's CPU; no board's."
    return "Nanoseconds on a real board."


def unit_label(unit: Unit, clock: Clock) -> str:
    """Return the unit and clock of a figure, for axes and table heads."""
    return f"{unit.value} (clock: {clock.value})"


@dataclass(frozen=True, order=True)
class CellName:
    """A cell's name cut into the parts that group it; sorts in the order a reader expects."""

    device_rank: int
    device: str
    mode: str
    sort_key: tuple[tuple[int, int, str], ...]
    workload: str
    full: str

    @property
    def device_label(self) -> str:
        """``UFS``, ``NVMe``, ``eMMC``, or the name as it is."""
        return DEVICES.get(self.device, self.device)

    @property
    def group(self) -> str:
        """``UFS, direct``: the panel that this cell is drawn in."""
        return f"{self.device_label}, {self.mode}" if self.mode else self.device_label

    @property
    def peers(self) -> tuple[str, str]:
        """What equals in the same workload on another device."""
        return self.workload, self.mode


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    parts = re.findall(r"\d+|\D+", text)
    return tuple((0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts)


def cell_name(full: str) -> CellName:
    """Cut ``ufs-4k-randread-t1-direct``; names of another shape keep what cannot be cut."""
    device, _, rest = full.partition("-")
    if not rest:
        device, rest = "", full
    head, _, last = rest.rpartition("-")
    workload, mode = (head, last) if last in _MODES and head else (rest, "")
    workload = workload.replace("-", " ")
    rank = list(DEVICES).index(device) if device in DEVICES else len(DEVICES)
    return CellName(rank, device, mode, _natural(workload), workload, full)
