"""Device dictionaries and types, rendered by LAVA's own templates, held against its schema."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from iotoll_lab.simboard.profile import simulated_device

from iotoll.boards.hardware import AndroidBoot, load_hardware
from iotoll.core.paths import data_dir
from tests.conftest import Check

LAVA_JOBS = data_dir("lava-jobs")
SIMULATED = "hikey-sim-01"
NAMES = sorted([SIMULATED, *(path.stem for path in (LAVA_JOBS / "devices").glob("*.jinja2"))])
U_BOOT = {
    "zynq-zed-01": "zedboard",
    "tegra210-p2371-2180-01": "jetson-tx1",
    "rk3576-ok3576-c-01": "ok3576-c",
    "rk3576-rock-4d-01": "rk3576-rock-4d",
}


@pytest.fixture(scope="module")
def devices(lab_root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All devices, as LAVA's dispatcher gets them."""
    made = tmp_path_factory.mktemp("devices")
    (made / f"{SIMULATED}.jinja2").write_text(simulated_device(SIMULATED, "HIKEYSIM01"))
    folders = (made, LAVA_JOBS / "devices", LAVA_JOBS / "device-types")
    script = Path(__file__).parent / "lava_device.py"
    done = subprocess.run(
        [sys.executable, str(script), str(lab_root), *NAMES],
        input="\n".join(map(str, folders)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_device_is_as_reviewed(name: str, devices: dict[str, Any], golden: Check) -> None:
    golden(f"devices/{name}.json", json.dumps(devices[name], indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize("name", NAMES)
def test_board_can_be_reached_and_reset(name: str, devices: dict[str, Any]) -> None:
    commands = devices[name]["commands"]
    assert set(commands) >= {"connect", "hard_reset", "power_on", "power_off"}


@pytest.mark.parametrize("name", [SIMULATED, "hi960-hikey-01"])
def test_hikey_leaves_fastboot_as_the_board_wants_it(name: str, devices: dict[str, Any]) -> None:
    device = devices[name]
    fastboot = device["actions"]["deploy"]["methods"]["fastboot"]
    assert fastboot["interrupt_prompt"] == "Android Fastboot mode"
    assert fastboot["interrupt_string"] == " "
    assert {"boot", "system"} <= set(device["flash_cmds_order"])
    assert device["fastboot_serial_number"] != "0000000000", "LAVA's own default: not set"
    simulated = device["device_info"][0].get("wait_device_board_id") is False
    assert simulated == (name == SIMULATED), "a real board is awaited on the USB bus"


@pytest.mark.parametrize("hardware", ["qrb5165-rb5", "qcs6490-rb3gen2"])
def test_boards_whose_boot_image_is_sent_and_started(
    hardware: str, devices: dict[str, Any]
) -> None:
    device, boot = devices[f"{hardware}-01"], load_hardware(hardware).boot
    assert isinstance(boot, AndroidBoot) and boot.method in device["actions"]["boot"]["methods"]
    assert device["actions"]["boot"]["methods"]["fastboot"] == ["no-flash-boot"]
    assert "fastboot" in device["actions"]["deploy"]["methods"]
    assert device["fastboot_serial_number"] != "0000000000", "LAVA's own default: not set"
    assert device["device_info"] == [{"board_id": device["fastboot_serial_number"]}]


@pytest.mark.parametrize(("name", "hardware"), U_BOOT.items())
def test_console_of_u_boot_boards_is_that_of_their_images(
    name: str, hardware: str, devices: dict[str, Any]
) -> None:
    board = load_hardware(hardware)
    assert board.boot.kind == "u-boot"
    text = json.dumps(devices[name]["actions"]["boot"]["methods"]["u-boot"]["ramdisk"])
    assert f"console={board.console}" in text.replace("115200n8n8", "115200n8")
    assert board.full_cmdline.partition(" ")[2] in text, "the kernel arguments of the hardware file"
