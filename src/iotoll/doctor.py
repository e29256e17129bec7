"""What iotoll needs of a machine: what is present, what is missing, and how to get it.

The checks use things rather than look for them where that is cheap: nbdkit serves a delayed disk,
QEMU lists its devices, KVM starts a guest. The patched QEMU is built, or the last build's log says
why it cannot be.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.table import Table

from iotoll.boards import patched
from iotoll.boards.board import Board, HostBoard, RealBoard, VirtualBoard, load_board
from iotoll.boards.hardware import AndroidBoot, Hardware, PartitionRootfs, load_hardware
from iotoll.boards.plugin import plugin
from iotoll.boards.qemu import kvm_works
from iotoll.core import extras
from iotoll.core.errors import InfrastructureError, IotollError
from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.toml import named_file
from iotoll.kernels import source
from iotoll.kernels.kernel_job import TARGETS, Arch

State = Literal["present", "missing", "note"]

MIN_PYTHON = (3, 11)
MIN_QEMU = (8, 2)
"""The first QEMU with a UFS host."""

CACHE_GB = 6.0
"""Disk space in GB that a first run fills: kernel tree and objects, compiler cache, images."""
WARM_GB = 1.0
"""Disk space in GB for a further run."""
BUILD_GB = 2.0
"""Memory in GB that a kernel build takes."""
QEMU_GB = 0.25
"""Memory in GB of one QEMU beside its guest's."""

NO_VERSION = ("newuidmap", "mkbootimg", "img2simg", "mke2fs", "e2fsck", "debugfs")
"""Programs that know no --version."""


@dataclass(frozen=True)
class Finding:
    """One need: ``missing`` fails the check, ``note`` is for the reader only.

    ``mend`` is the command that gets what is missing, ``package`` its Debian package if it is one.
    """

    need: str
    state: State
    found: str
    mend: str = ""
    package: str = ""


def check(board_name: str) -> list[Finding]:
    """Check everything that a run on this board needs, or `iotoll image` of a real board.

    Raises UsageError for an unknown board.
    """
    board = _load(board_name)
    hardware = board.hardware if isinstance(board, RealBoard) else board
    return [
        _python(),
        _native(),
        *(_qemu(board) if isinstance(board, VirtualBoard) else []),
        *_image_tools(),
        *(_board_image_tools(hardware) if isinstance(hardware, Hardware) else []),
        *_build_tools(board.arch),
        _kernel_source(board),
        _disk(),
        *([_memory(board), _accelerator(board)] if isinstance(board, VirtualBoard) else []),
        *([_port(), _host_memory(board)] if isinstance(board, HostBoard) else []),
        _cached(),
        *map(_extra, extras.EXTRAS),
    ]


def _load(name: str) -> Board | Hardware:
    """A board by its name; one that no job runs on yet has a hardware file alone."""
    folders = (data_dir("lava-jobs") / kind for kind in ("boards", "hardware"))
    boards, hardware = (named_file(folder, name).is_file() for folder in folders)
    return load_hardware(name) if hardware and not boards else load_board(name)


def exit_code(findings: Sequence[Finding]) -> int:
    """0, or InfrastructureError's code when something that a run needs is missing."""
    missing = any(f.state == "missing" for f in findings)
    return InfrastructureError.exit_code if missing else 0


def print_findings(findings: Sequence[Finding], console: Console) -> None:
    """Print findings as a table, then what to do: whole commands, however narrow the screen is."""
    table = Table(box=None, pad_edge=False)
    for title in ("", "need", "found"):
        table.add_column(title, overflow="fold")
    marks = {
        "present": "[green]ok[/]",
        "missing": "[bold red]MISSING[/]",
        "note": "[yellow]note[/]",
    }
    for finding in findings:
        table.add_row(marks[finding.state], _plain(finding.need), _plain(finding.found))
    console.print(table)
    missing = [f for f in findings if f.state == "missing"]
    notes = [f for f in findings if f.state == "note"]
    for title, some in (("Get what is missing:", missing), ("Optional:", notes)):
        lines = [f"  {one.need}: {one.mend}" for one in some if one.mend]
        if lines:
            console.print(_plain("\n".join([title, *lines])), soft_wrap=True, highlight=False)
    if not missing:
        console.print("Everything that a run needs is present.")
        return
    console.print(f"{len(missing)} of {len(findings)} missing.", highlight=False)
    packages = sorted({f.package for f in missing if f.package})
    if packages:
        console.print(_plain(f"All packages at once: {_apt(*packages)}"), soft_wrap=True)
    console.print("In a checkout of iotoll, 'make setup' installs everything.")


@click.command("doctor")
@click.option("--board", default="virt-arm64", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON on stdout.")
def doctor_command(board: str, as_json: bool) -> None:
    """Check what is present, what is missing, and how to get it."""
    findings = check(board)
    if as_json:
        click.echo(json.dumps([vars(f) for f in findings], indent=1, sort_keys=True))
    else:
        print_findings(findings, Console())
    raise SystemExit(exit_code(findings))


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] >= MIN_PYTHON:
        return Finding("Python", "present", f"{version} ({sys.executable})")
    return Finding("Python", "missing", version, _apt("python3"), "python3")  # pragma: no cover


def _native() -> Finding:
    try:
        # Imported here, as it may be missing or of another Python.
        from iotoll import _native
    except ImportError as error:
        return Finding("trace analyser", "missing", str(error), "make setup, or reinstall iotoll")
    return Finding("trace analyser", "present", Path(str(_native.__file__)).name)


def _qemu(board: VirtualBoard) -> list[Finding]:
    return _patched_qemu(board) if board.qemu.patched else [*_stock_qemu(board), _nbdkit()]


def _patched_qemu(board: VirtualBoard) -> list[Finding]:
    need = f"patched QEMU for {board.arch}"
    try:
        binary = patched.binary(board.qemu.binary)
    except IotollError:
        return [
            Finding(need, "missing", patched.why_not() or "not built yet", _patched_mend(board))
        ]
    line = _first_line([binary, "--version"])
    if line is None:
        return [Finding(need, "missing", f"{binary} does not run", _patched_mend(board))]
    devices = _devices(board, binary, _patched_mend(board))
    return [Finding(need, "present", line), devices, _recorder(board)]


def _recorder(board: VirtualBoard) -> Finding:
    """What the boots of an exact board count besides their traces."""
    need = "recorder"
    try:
        plugin()
    except (InfrastructureError, OSError) as error:
        found = f"{error}: counts are calibrated, and functions are not told"
        return Finding(need, "note", found, str(data_dir("tools/plugin") / "build.sh"))
    return Finding(need, "present", "counts elements and functions, I/O by I/O, on each CPU")


def _patched_mend(board: VirtualBoard) -> str:
    return f"{patched.build_command(board.qemu.binary)}, or: --board {board.name}-stock"


def _devices(board: VirtualBoard, binary: str, mend: str, package: str = "") -> Finding:
    """Whether this QEMU has the devices of the board."""
    listed = _output([binary, "-M", "none", "-device", "help"])
    known = set(re.findall(r'^name "([^"]+)"', listed, re.M))
    wanted = {w.split(",")[0] for d in board.devices.values() for w in d.qemu if w != "-device"}
    lost = ", ".join(sorted(wanted - known))
    need = f"devices of {board.name}"
    if lost:
        found = f"this QEMU was built without {lost}"
        return Finding(need, "missing", found, mend, package)
    return Finding(need, "present", ", ".join(sorted(wanted)))


def _stock_qemu(board: VirtualBoard) -> list[Finding]:
    need = f"QEMU >= {_dotted(MIN_QEMU)} for {board.arch}"
    package, mend = board.qemu.package, _qemu_mend(board.qemu.package)
    line = _first_line([board.qemu.binary, "--version"])
    if line is None:
        return [Finding(need, "missing", "not installed", mend, package)]
    match = re.search(r"version (\d+)\.(\d+)", line)
    if match is None or (int(match[1]), int(match[2])) < MIN_QEMU:
        return [Finding(need, "missing", line, mend, package)]
    return [
        Finding(need, "present", line),
        _devices(board, board.qemu.binary, mend, package),
    ]


def _qemu_mend(package: str) -> str:
    if _debian_release() == "bookworm":
        return (
            _apt("-t", "bookworm-backports", package)
            + " (with bookworm-backports in apt's sources)"
        )
    return _apt(package)


def _nbdkit() -> Finding:
    need, mend = "nbdkit with delays", _apt("nbdkit")
    line = _first_line(["nbdkit", "--version"])
    if line is None:
        return Finding(need, "missing", "not installed", mend, "nbdkit")
    command = ["nbdkit", "--filter=delay", "memory", "1M", "rdelay=1ms", "wdelay=1ms"]
    done = _try([*command, "--run", "true"])
    if done is None or done.returncode != 0:
        words = done.stderr.strip().splitlines() if done else []
        return Finding(need, "missing", words[0] if words else f"{line} fails", mend, "nbdkit")
    return Finding(need, "present", line)


def _image_tools() -> list[Finding]:
    tools = {"mmdebstrap": "mmdebstrap", "cpio": "cpio", "readelf": "binutils", "git": "git"}
    if os.geteuid() != 0:
        tools["newuidmap"] = "uidmap"  # mmdebstrap without root
    return [_tool(name, package) for name, package in tools.items()]


def _board_image_tools(hardware: Hardware) -> list[Finding]:
    tools = {}
    if isinstance(hardware.boot, AndroidBoot):
        tools["mkbootimg"] = "mkbootimg"
    if isinstance(hardware.rootfs, PartitionRootfs):
        tools |= {name: "e2fsprogs" for name in ("mke2fs", "e2fsck", "debugfs")}
        tools["img2simg"] = "android-sdk-libsparse-utils"
    return [_tool(name, package) for name, package in tools.items()]


def _build_tools(arch: Arch) -> list[Finding]:
    packages = TARGETS[arch].packages
    findings = [_tool(name, package) for name, package in packages.items()]
    if arch == "x86_64":
        header, need = Path("/usr/include/gelf.h"), "libelf headers"
        findings.append(
            Finding(need, "present", str(header))
            if header.is_file()
            else Finding(need, "missing", "not installed", _apt("libelf-dev"), "libelf-dev")
        )
    return findings


def _tool(name: str, package: str) -> Finding:
    if shutil.which(name) is None:
        return Finding(name, "missing", "not installed", _apt(package), package)
    if name in NO_VERSION:
        return Finding(name, "present", str(shutil.which(name)))
    line = _first_line([name, "--version"])
    if line is None:
        return Finding(name, "missing", f"{name} --version fails", _apt(package), package)
    return Finding(name, "present", line)


def _kernel_source(board: Board | Hardware) -> Finding:
    tree = getattr(board, "tree", None) or "debian"
    try:
        archive = source.locate(tree).archive
    except IotollError as error:
        version = tree.removeprefix("debian").removeprefix("-")
        package = f"linux-source-{version or '6.12'}"
        return Finding("kernel source", "missing", str(error), _apt(package), package)
    return Finding("kernel source", "present", str(archive))


def _disk() -> Finding:
    folder = cache_dir()
    warm = any((folder / "trees").glob("*/git"))
    need = WARM_GB if warm else CACHE_GB
    free = shutil.disk_usage(folder).free / 1e9
    found = f"{free:.1f} GB free in {folder}"
    if free >= need:
        return Finding(f"disk: {need:.0f} GB", "present", found)
    mend = "free some, or name another folder: export IOTOLL_CACHE=FOLDER"
    return Finding(f"disk: {need:.0f} GB", "missing", found, mend)


def _memory(board: VirtualBoard) -> Finding:
    # Base and candidate boot side by side; the disks' contents lie in memory too.
    disks = sum(device.size_mb for device in board.devices.values())
    boards = 2 * ((board.memory_mb + disks) * 2**20 / 1e9 + QEMU_GB)
    return _available(max(boards, BUILD_GB))


def _available(need: float) -> Finding:
    match = re.search(r"^MemAvailable:\s*(\d+) kB", _read("/proc/meminfo"), re.M)
    free = int(match[1]) * 1024 / 1e9 if match else 0.0
    found = f"{free:.1f} GB available"
    if free >= need:
        return Finding(f"memory: {need:.1f} GB", "present", found)
    return Finding(f"memory: {need:.1f} GB", "missing", found, "end other programs, or add memory")


def _accelerator(board: VirtualBoard) -> Finding:
    if kvm_works(board):
        return Finding("KVM (time clock)", "present", "/dev/kvm starts a guest")
    reason = "does not start a guest" if Path("/dev/kvm").exists() else "does not exist"
    found = f"/dev/kvm {reason}: TCG is used; the instructions clock needs no KVM"
    return Finding("KVM (time clock)", "note", found)


def _port() -> Finding:
    """Whether this machine can be a board of User Mode Linux, of which x86-64 alone has a port."""
    need, machine = "User Mode Linux", platform.machine()
    if machine == "x86_64":
        return Finding(need, "present", "x86-64, as a process; neither KVM nor root")
    return Finding(need, "missing", f"no port for {machine}", "take an x86-64 machine")


def _host_memory(board: HostBoard) -> Finding:
    """Times are judged one boot at a time: memory and disks of one board."""
    disks = sum(disk.size_mb for disk in board.disks[:-1])  # the handover is sparse
    return _available(max((board.memory_mb + disks) * 2**20 / 1e9, BUILD_GB))


def _cached() -> Finding:
    folder = cache_dir()
    roots = len([*folder.glob("rootfs/*/rootfs.cpio")])
    kernels = len([*folder.glob("images/*/Image")])
    found = f"{_count(roots, 'board image')}, {_count(kernels, 'kernel')} in {folder}"
    first = "" if roots and kernels else "made by the first run"
    return Finding("cache", "present" if roots and kernels else "note", found, first)


def _extra(name: str) -> Finding:
    """An extra that nothing but its own commands need."""
    need, lost = f"extra {name}", extras.missing(name)
    if not lost:
        return Finding(need, "present", extras.EXTRAS[name])
    found = f"not installed: {', '.join(lost)} ({extras.EXTRAS[name]})"
    return Finding(need, "note", found, extras.install_command(name))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _apt(*words: str) -> str:
    sudo = "" if os.geteuid() == 0 else "sudo "
    return f"{sudo}apt-get install {' '.join(words)}"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _debian_release() -> str:
    match = re.search(r"^VERSION_CODENAME=(\w+)", _read("/etc/os-release"), re.M)
    return match[1] if match else ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _try(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _output(command: list[str]) -> str:
    done = _try(command)
    return done.stdout if done and done.returncode == 0 else ""


def _first_line(command: list[str]) -> str | None:
    """The first line that a program prints; None when it cannot be run."""
    done = _try(command)
    if done is None or done.returncode != 0:
        return None
    lines = [line.strip() for line in (done.stdout or done.stderr).splitlines()]
    return next(filter(None, lines), "present")
