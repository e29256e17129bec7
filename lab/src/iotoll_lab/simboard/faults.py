"""What can be made to go wrong with a simulated board, and when."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FAULTS: dict[str, str] = {
    "clear": "end all faults",
    "uart-cut": "the serial line is cut, for VALUE seconds or (0) until `clear`",
    "uart-garble": "VALUE of the bytes on the serial line have a wrong bit",
    "uart-drop": "VALUE of the bytes on the serial line are lost",
    "hang": "the SoC stops; only the relay helps",
    "reset": "the board resets by itself",
    "fastboot-lost": "the board shows its fastboot prompt, but no USB device",
    "serial-changes": "from the next reset on, every reset gives another fastboot serial number",
    "dead": "the board says nothing after the next reset",
    "relay-stuck": "the power relay does not answer",
}
RATES = ("uart-garble", "uart-drop")


class FaultError(Exception):
    """A control command that makes no sense, or that the board cannot do now."""


@dataclass(frozen=True)
class Fault:
    """A fault of `FAULTS`; ``when`` is a text on the UART at which it begins, empty for now."""

    name: str
    value: float = 0.0
    when: str = ""


def parse_fault(request: dict[str, Any]) -> Fault:
    """Read a fault from a control request; raises FaultError that says what is wrong."""
    name = request["fault"]
    if name not in FAULTS:
        raise FaultError(f"{name}: no such fault: choose from {', '.join(FAULTS)}")
    value = float(request.get("value") or 0)
    if name in RATES and not 0 <= value <= 1:
        raise FaultError(f"{name} {value:g}: give a fraction from 0 to 1")
    if value < 0:
        raise FaultError(f"{name} {value:g}: give no negative number")
    return Fault(name, value, str(request.get("when") or ""))
