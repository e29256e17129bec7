"""Which I/Os of a trace are shown: the filters of ``iotoll analyze``, the same for every output."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

from iotoll.core.errors import UsageError

if TYPE_CHECKING:
    from iotoll._native import Options

DIRECTIONS = ("read", "write", "flush", "discard", "other")
_DEVICE = re.compile(r"\d+:\d+")
_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NANOSECONDS = 1_000_000_000
FOREVER = 2**63


@dataclass(frozen=True)
class Filters:
    """The filters as given; None or empty: not given. ``window`` holds FROM and TO as typed."""

    device: str | None = None
    comm: str | None = None
    pids: tuple[int, ...] = ()
    window: tuple[str, str] | None = None
    directions: tuple[str, ...] = ()
    min_size: int | None = None
    max_size: int | None = None

    def described(self) -> dict[str, str]:
        """Option and value of each filter, in the words of the command line."""
        named = {
            "--device": self.device or "",
            "--comm": self.comm or "",
            "--pid": ",".join(map(str, self.pids)),
            "--window": " ".join(self.window or ()),
            "--direction": ",".join(self.directions),
            "--min-size": "" if self.min_size is None else str(self.min_size),
            "--max-size": "" if self.max_size is None else str(self.max_size),
        }
        return {option: value for option, value in named.items() if value}

    def span(self, first: int) -> tuple[int, int]:
        """Return the window in clock units, half-open; ``first`` is the trace's first time."""
        if self.window is None:
            return 0, FOREVER
        begin, end = (_seconds(text, first) for text in self.window)
        if begin >= end:
            raise UsageError(f"--window {' '.join(self.window)}: FROM must be before TO")
        return begin, end

    def options(self, device: str | None) -> Options:
        """Return them as the analyser takes them, but for the window; ``device`` as resolved."""
        return {
            "device": device,
            "comm": self.comm,
            "pids": self.pids,
            "directions": self.directions,
            "min_size": self.min_size,
            "max_size": self.max_size,
        }


def _seconds(text: str, first: int) -> int:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0:
        raise UsageError(
            f"--window {text}: give seconds of the trace clock, or +seconds from its first event"
        )
    return int(value * _NANOSECONDS) + (first if text.startswith("+") else 0)


def parse_size(option: str, text: str | None) -> int | None:
    """Return bytes from ``4096``, ``4k``, ``1M``; raises UsageError naming the option."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+)([kmg]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise UsageError(f"{option} {text}: give bytes, such as 4096, 4k or 1M")
    return int(found[1]) * _SUFFIXES[found[2]]


def device_names(trace: Path) -> Mapping[str, str]:
    """Names of block devices that the board wrote beside a trace of a run directory.

    ``boot/devices`` lies beside the batch's folder: lines such as ``ufs /dev/sda 8:0``.
    """
    try:
        lines = (trace.resolve().parent.parent / "boot" / "devices").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    names: dict[str, str] = {}
    for label, node, number in (line.split() for line in lines if len(line.split()) == 3):
        names |= {label: number, node: number, node.rpartition("/")[2]: number}
    return names


def fixed_number(name: str) -> str | None:
    """Return the number of a device whose name the kernel fixes by it (admin-guide/devices.txt).

    These are ``sda`` to ``sdp`` with their partitions, ``loopN`` and ``mdN``.
    """
    node = name.removeprefix("/dev/")
    if found := re.fullmatch(r"sd([a-p])(\d{1,2})?", node):
        part = int(found[2] or 0)
        return f"8:{16 * (ord(found[1]) - ord('a')) + part}" if part < 16 else None
    if found := re.fullmatch(r"(loop|md)(\d+)", node):
        return f"{dict(loop=7, md=9)[found[1]]}:{found[2]}"
    return None


def fixed_name(number: str) -> str | None:
    """Return the name that the kernel fixes for a number, the other way round."""
    major, minor = map(int, number.split(":"))
    if major == 8 and minor < 256:
        return f"sd{chr(ord('a') + minor // 16)}{minor % 16 or ''}"
    return {7: f"loop{minor}", 9: f"md{minor}"}.get(major)


def own_number(name: str) -> str | None:
    """Return the number that a name has on this machine; None where it has no such device."""
    node = name.removeprefix("/dev/").removeprefix("mapper/")
    if not re.fullmatch(r"[\w.!-]+", node):
        return None
    try:
        return (Path("/sys/class/block") / node / "dev").read_text().strip()
    except OSError:
        pass
    for path in Path("/sys/class/block").glob("dm-*/dm/name"):
        if path.read_text().strip() == node:
            return (path.parent.parent / "dev").read_text().strip()
    return None


def resolve_device(device: str | None, trace: Path) -> str | None:
    """Return ``major:minor`` for a number or a known name; raises UsageError for any other."""
    if device is None or _DEVICE.fullmatch(device):
        return device
    names = device_names(trace)
    if device in names:
        return names[device]
    # A board that names its devices is not this machine.
    if not names and (number := fixed_number(device) or own_number(device)):
        return number
    known = f"; known here: {', '.join(sorted(names))}" if names else ""
    mend = (
        "is not a device of this machine: give MAJOR:MINOR, as in /sys/class/block/NAME/dev of the "
        "traced one"
    )
    raise UsageError(f"--device {device}: {mend}{known}")
