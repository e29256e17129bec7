"""The commands for the device under test that were built (``make dut``), and how to run them."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "target/dut"
MACHINE = {"arm64": "aarch64", "x86_64": "x86_64", "arm": "arm"}


@dataclass(frozen=True)
class Dut:
    """One architecture's command."""

    arch: str
    path: Path
    emulator: tuple[str, ...] = ()

    def run(self, *words: str | Path, data: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run it; ``data`` goes to its standard input."""
        return subprocess.run(
            [*self.emulator, self.path, *words],
            input=data,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def output(self, *words: str | Path, data: str | None = None) -> str:
        """What it prints; fails when it fails."""
        done = self.run(*words, data=data)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


def find(arch: str) -> Dut:
    """The command for ``arch``, or a skip that says what is missing."""
    path = FOLDER / arch / "iotoll-dut"
    if not path.is_file():
        pytest.skip(f"{path} is not built: tools/build-dut.sh {arch}")
    if platform.machine() in (arch, MACHINE[arch]):
        return Dut(arch, path)
    names = (f"qemu-{MACHINE[arch]}", f"qemu-{MACHINE[arch]}-static")
    emulator = next(filter(None, map(shutil.which, names)), None)
    if emulator is None:
        pytest.skip(f"{names[0]} is not installed, so {arch} cannot run (apt install qemu-user)")
    return Dut(arch, path, (emulator,))


def native() -> Dut:
    """The command for this machine."""
    return find(next((a for a, m in MACHINE.items() if m == platform.machine()), "x86_64"))
