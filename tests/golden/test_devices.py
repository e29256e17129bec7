"""Device dictionaries and types, rendered by LAVA's own templates, held against its schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from iotoll.boards import load_board
from iotoll.hardware import load_hardware
from iotoll.models import Clock
from iotoll.paths import cache_dir, data_dir
from iotoll.qemu import BootFiles, qemu_command
from tests.conftest import Check

LAVA_JOBS = data_dir("lava-jobs")
NAMES = sorted(path.stem for path in (LAVA_JOBS / "devices").glob("*.jinja2"))
U_BOOT = {
    "zynq-zed-01": "zedboard",
    "tegra210-p2371-2180-01": "jetson-tx1",
    "rk3576-ok3576-c-01": "ok3576-c",
}


def lava_root() -> Path:
    """A root file system with LAVA's packages: the lab's, or IOTOLL_LAVA_ROOT."""
    named = os.environ.get("IOTOLL_LAVA_ROOT")
    roots = [Path(named)] if named else sorted((cache_dir() / "lab").glob("root-*"))
    for root in roots:
        if (root / "usr/share/lava-server/device-types/hi960-hikey.jinja2").is_file():
            return root
    pytest.skip("no LAVA here: make lab makes its root file system, or IOTOLL_LAVA_ROOT names one")


@pytest.fixture(scope="module")
def devices() -> dict[str, Any]:
    """All devices, as LAVA's dispatcher gets them."""
    script = Path(__file__).parent / "lava_device.py"
    words = [lava_root(), LAVA_JOBS / "devices", LAVA_JOBS / "device-types", *NAMES]
    done = subprocess.run(
        [sys.executable, script, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_device_is_as_reviewed(name: str, devices: dict[str, Any], golden: Check) -> None:
    golden(f"devices/{name}.json", json.dumps(devices[name], indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("qemu")])
def test_board_can_be_reached_and_reset(name: str, devices: dict[str, Any]) -> None:
    commands = devices[name]["commands"]
    assert set(commands) >= {"connect", "hard_reset", "power_on", "power_off"}


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("hi960")])
def test_hikey_leaves_fastboot_as_the_board_wants_it(name: str, devices: dict[str, Any]) -> None:
    device = devices[name]
    fastboot = device["actions"]["deploy"]["methods"]["fastboot"]
    assert fastboot["interrupt_prompt"] == "Android Fastboot mode"
    assert fastboot["interrupt_string"] == " "
    assert {"boot", "system"} <= set(device["flash_cmds_order"])
    assert device["fastboot_serial_number"] != "0000000000", "LAVA's own default: not set"
    simulated = device["device_info"][0].get("wait_device_board_id") is False
    assert simulated == ("-sim-" in name), "a real board is awaited on the USB bus"


@pytest.mark.parametrize(("name", "hardware"), U_BOOT.items())
def test_console_of_u_boot_boards_is_that_of_their_images(
    name: str, hardware: str, devices: dict[str, Any]
) -> None:
    board = load_hardware(hardware)
    assert board.boot.kind == "u-boot"
    text = json.dumps(devices[name]["actions"]["boot"]["methods"]["u-boot"]["ramdisk"])
    assert f"console={board.console}" in text.replace("115200n8n8", "115200n8")
    assert board.full_cmdline.partition(" ")[2] in text, "the kernel arguments of the hardware file"


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_qemu_device_is_the_local_virtual_board(
    arch: str, devices: dict[str, Any], tmp_path: Path
) -> None:
    """The same machine, CPU, clock, memory and disks, so that LAVA's figures are the local ones."""
    board = load_board(f"virt-{arch}")
    work = Path(f"/run/iotoll/disks/qemu-{arch}-01")
    files = BootFiles(*[tmp_path] * 5, work=work)
    local = qemu_command(board, Clock.INSTRUCTIONS, "tcg", files)
    parameters = devices[f"qemu-{arch}-01"]["actions"]["boot"]["methods"]["qemu"]["parameters"]
    lava = [parameters["command"]]
    for line in [*parameters["options"], *parameters["extra"]]:
        option, _, value = line.partition(" ")
        lava += [{"-machine": "-M"}.get(option, option), value]
    theirs, ours = _options(lava), _options(local)
    for option in ("-M", "-cpu", "-accel", "-icount", "-rtc", "-seed", "-smp", "-m"):
        assert theirs[option] == ours[option], option
    assert theirs["-drive"] == ours["-drive"]
    console = {"virtio-serial-pci"} | {d for d in ours["-device"] if d.startswith("virtserialport")}
    assert theirs["-device"] == [d for d in ours["-device"] if d not in console]


def _options(words: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for option, value in pairwise(words):
        if option.startswith("-"):
            found.setdefault(option, []).append(value)
    return found
