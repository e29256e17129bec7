"""doctor on machines of scripts: each need present, missing, too old or not working."""

from __future__ import annotations

import io
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from iotoll import doctor
from iotoll.boards import patched
from iotoll.boards.board import load_virtual_board
from iotoll.core import extras
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.doctor import Finding
from iotoll.kernels import source
from iotoll.kernels.kernel_job import TARGETS

DEVICES = (
    'Storage devices:\nname "nvme", bus PCI\nname "ufs", bus PCI\nname "ufs-lu", bus ufs-bus\n'
    'name "sdhci-pci", bus PCI\nname "sd-card", bus sd-bus\n'
)


class Machine:
    """A PATH that holds only scripts, and a cache of its own."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.bin.mkdir()
        self.devices = root / "devices"
        self.devices.write_text(DEVICES)

    def tool(self, name: str, body: str | None = None) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{body or f'echo {name} 1.0'}\n")
        path.chmod(0o755)

    def qemu(self, name: str, version: str) -> None:
        # no other program is on PATH, so the shell itself reads the file
        show = f'while read -r line; do echo "$line"; done < {self.devices}'
        words = f"echo QEMU emulator version {version}"
        self.tool(name, f'case "$*" in *help*) {show};; *) {words};; esac')

    def patched(self, name: str) -> None:
        folder = patched.folder() / "bin"
        folder.mkdir(parents=True)
        (self.bin / name).rename(folder / name)

    def complete(self, board_name: str) -> None:
        board = load_virtual_board(board_name)
        self.qemu(board.qemu.binary, "10.0.2")
        if board.qemu.patched:
            self.patched(board.qemu.binary)
        for name in ("nbdkit", "mmdebstrap", "cpio", "readelf", "git", "newuidmap"):
            self.tool(name)
        for name in TARGETS[board.arch].packages:
            self.tool(name)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    present = Finding("kernel source", "present", "-")
    monkeypatch.setattr(doctor, "_kernel_source", lambda board: present)
    monkeypatch.setattr(doctor, "CACHE_GB", 0.0)
    monkeypatch.setattr(doctor, "QEMU_GB", -2.0)
    monkeypatch.setattr(doctor, "BUILD_GB", 0.0)
    return made


def test_a_real_board_needs_its_compiler_and_what_makes_its_images(machine: Machine) -> None:
    needs = by_need(doctor.check("zedboard"))
    assert needs["arm-linux-gnueabihf-gcc"].package == "gcc-arm-linux-gnueabihf"
    assert not any(need.startswith("QEMU") for need in needs)
    assert "mkbootimg" not in needs
    machine.tool("mkbootimg", "exit 2")  # as the real one does when asked for its version
    needs = by_need(doctor.check("hikey960"))
    assert needs["mkbootimg"].state == "present"
    assert needs["img2simg"].package == "android-sdk-libsparse-utils"
    assert needs["aarch64-linux-gnu-gcc"].state == "missing"


@pytest.mark.parametrize(
    ("board", "package"),
    [("virt-arm64", "linux-source-6.12"), ("virt-arm64-hpb", "linux-source-6.1")],
)
def test_the_kernel_source_is_the_boards_own(
    board: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "locate", partial(source.locate, debian_folder=tmp_path))
    found = doctor._kernel_source(load_virtual_board(board))
    assert (found.state, found.package) == ("missing", package)
    assert f"apt-get install {package}" in found.mend
    (tmp_path / f"{package}.tar.xz").touch()
    assert doctor._kernel_source(load_virtual_board(board)).state == "present"


def by_need(findings: list[Finding]) -> dict[str, Finding]:
    return {f.need: f for f in findings}


def text_of(findings: list[Finding], width: int = 160) -> str:
    stream = io.StringIO()
    doctor.print_findings(findings, Console(file=stream, width=width))
    return stream.getvalue()


def test_no_command_is_broken_by_a_narrow_screen(machine: Machine) -> None:
    findings = doctor.check("virt-arm64")
    lines = text_of(findings, width=40).splitlines()
    mends = [one for one in findings if one.mend]
    assert any("build.sh aarch64" in one.mend for one in mends)
    assert all(f"  {one.need}: {one.mend}" in lines for one in mends)


def test_a_complete_machine_passes(machine: Machine) -> None:
    machine.complete("virt-arm64")
    findings = doctor.check("virt-arm64")
    assert [f for f in findings if f.state == "missing"] == []
    assert doctor.exit_code(findings) == 0
    assert "Everything that a run needs is present." in text_of(findings)


def test_an_empty_machine_names_a_package_for_every_tool(machine: Machine) -> None:
    findings = doctor.check("virt-arm64-stock")
    missing = [f for f in findings if f.state == "missing"]
    assert {"qemu-system-arm", "nbdkit", "mmdebstrap", "gcc-aarch64-linux-gnu", "ccache"} <= {
        f.package for f in missing
    }
    assert all(
        f.package and f"apt-get install {f.package}" in f.mend
        for f in missing
        if "QEMU" not in f.need
    )
    assert doctor.exit_code(findings) == 4


def test_one_command_for_all_missing_packages(machine: Machine) -> None:
    machine.complete("virt-arm64")
    (machine.bin / "flex").unlink()
    (machine.bin / "ccache").unlink()
    findings = doctor.check("virt-arm64")
    assert "apt-get install ccache flex\n" in text_of(findings)


@pytest.mark.parametrize("version", ["7.2.19", "8.1.5", "nonsense"])
def test_a_qemu_without_ufs_host_is_too_old(machine: Machine, version: str) -> None:
    machine.complete("virt-arm64-stock")
    machine.qemu("qemu-system-aarch64", version)
    finding = by_need(doctor.check("virt-arm64-stock"))["QEMU >= 8.2 for arm64"]
    assert finding.state == "missing"
    assert version in finding.found


def test_debian_12_gets_qemu_from_backports(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.complete("virt-arm64-stock")
    (machine.bin / "qemu-system-aarch64").unlink()
    monkeypatch.setattr(doctor, "_debian_release", lambda: "bookworm")
    old = by_need(doctor.check("virt-arm64-stock"))["QEMU >= 8.2 for arm64"]
    assert "-t bookworm-backports qemu-system-arm" in old.mend
    monkeypatch.setattr(doctor, "_debian_release", lambda: "trixie")
    new = by_need(doctor.check("virt-arm64-stock"))["QEMU >= 8.2 for arm64"]
    assert new.mend.endswith("apt-get install qemu-system-arm")


def test_a_qemu_built_without_a_device_is_named(machine: Machine) -> None:
    machine.complete("virt-arm64-stock")
    machine.devices.write_text('name "nvme", bus PCI\n')
    finding = by_need(doctor.check("virt-arm64-stock"))["devices of virt-arm64-stock"]
    assert finding.state == "missing"
    assert "ufs, ufs-lu" in finding.found


def test_patched_qemu_that_is_not_built_says_why_and_what_there_is_without_it(
    machine: Machine,
) -> None:
    finding = by_need(doctor.check("virt-arm64"))["patched QEMU for arm64"]
    assert finding.state == "missing" and finding.found.startswith("not built yet")
    assert "--board virt-arm64-stock" in finding.mend
    log = patched.folder().with_suffix(".log")
    log.parent.mkdir(parents=True)
    log.write_text("much\nqemu: not built: missing gcc ninja\n")
    finding = by_need(doctor.check("virt-arm64"))["patched QEMU for arm64"]
    assert finding.found.startswith("not built: missing gcc ninja")


def test_exact_board_needs_neither_debians_qemu_nor_nbdkit(machine: Machine) -> None:
    machine.complete("virt-arm64")
    (machine.bin / "nbdkit").unlink()
    needs = by_need(doctor.check("virt-arm64"))
    assert needs["patched QEMU for arm64"].state == "present"
    assert not [need for need in needs if need.startswith(("QEMU", "nbdkit"))]
    machine.devices.write_text('name "nvme", bus PCI\n')
    assert by_need(doctor.check("virt-arm64"))["devices of virt-arm64"].state == "missing"


def test_nbdkit_without_its_filter_fails_with_its_own_words(machine: Machine) -> None:
    machine.complete("virt-arm64-stock")
    machine.tool(
        "nbdkit", 'case "$1" in --version) echo nbdkit 1.0;; *) echo no delay >&2; exit 1;; esac'
    )
    finding = by_need(doctor.check("virt-arm64-stock"))["nbdkit with delays"]
    assert (finding.state, finding.found) == ("missing", "no delay")


def test_a_tool_that_does_not_start_is_missing(machine: Machine) -> None:
    machine.complete("virt-arm64")
    machine.tool("bison", "exit 127")
    finding = by_need(doctor.check("virt-arm64"))["bison"]
    assert (finding.state, finding.package) == ("missing", "bison")


def test_a_full_disk_names_the_cache_variable(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.complete("virt-arm64")
    monkeypatch.setattr(doctor, "CACHE_GB", 1e9)
    (finding,) = [f for f in doctor.check("virt-arm64") if f.need.startswith("disk")]
    assert finding.state == "missing"
    assert "IOTOLL_CACHE" in finding.mend


def test_too_little_memory(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.complete("virt-arm64")
    monkeypatch.setattr(doctor, "BUILD_GB", 1e9)
    findings = doctor.check("virt-arm64")
    assert [f.state for f in findings if f.need.startswith("memory")] == ["missing"]


def test_no_kvm_is_only_a_note(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.complete("virt-x86_64")
    monkeypatch.setattr(doctor, "kvm_works", lambda board: False)
    finding = by_need(doctor.check("virt-x86_64"))["KVM (time clock)"]
    assert finding.state == "note"
    assert "TCG" in finding.found


@pytest.mark.parametrize("board", ["virt-arm64-smp4", "virt-x86_64"])
def test_what_a_board_s_recorder_counts_is_told(
    board: str, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.complete(board)
    monkeypatch.setattr(doctor, "plugin", lambda: Path("libiotoll-record.so"))
    finding = by_need(doctor.check(board))["recorder"]
    assert finding.state == "present" and "on each CPU" in finding.found

    def fails() -> Path:
        raise InfrastructureError("plugin: not built: gcc is not installed")

    monkeypatch.setattr(doctor, "plugin", fails)
    finding = by_need(doctor.check(board))["recorder"]
    assert finding.state == "note" and "gcc is not installed" in finding.found


def test_the_cache_counts_images_and_kernels(machine: Machine, tmp_path: Path) -> None:
    for path in ("rootfs/arm64-1/rootfs.cpio", "images/1/Image", "images/2/Image"):
        (tmp_path / "cache" / path).parent.mkdir(parents=True)
        (tmp_path / "cache" / path).touch()
    finding = by_need(doctor.check("virt-arm64"))["cache"]
    assert finding.state == "present"
    assert finding.found.startswith("1 board image, 2 kernels in ")


def test_an_unknown_board_is_a_usage_error(machine: Machine) -> None:
    with pytest.raises(UsageError, match="virt-arm64"):
        doctor.check("no-such-board")


def test_brackets_in_a_path_are_shown_as_they_are() -> None:
    assert "/a[b]/c" in text_of([Finding("x", "missing", "/a[b]/c")])


def test_g3_9_extras_are_named_with_the_command_that_installs_them(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.complete("virt-arm64")
    lost = {"history": ["duckdb"], "spark": [], "allure": []}
    monkeypatch.setattr(extras, "missing", lambda name: lost[name])
    monkeypatch.setattr(extras, "install_command", lambda name: f"add {name}")
    findings = by_need(doctor.check("virt-arm64"))
    assert findings["extra spark"].state == "present"
    history = findings["extra history"]
    assert (history.state, history.mend) == ("note", "add history")
    assert "duckdb" in history.found and "iotoll history" in history.found
    assert doctor.exit_code([*findings.values()]) == 0, "a gate does without"
