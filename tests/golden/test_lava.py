"""LAVA job definitions and device dictionaries, as they are given to LAVA.

tests/lab/test_schema.py has LAVA's own strict schema read the same files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from iotoll.boards.board import RealBoard, load_board, load_virtual_board
from iotoll.boards.equip import check_cells
from iotoll.boards.hardware import load_hardware
from iotoll.boards.matrix import load_matrix
from iotoll.boots.job import TIMED_IOS, make_batches, render_job
from iotoll.core.errors import UsageError
from iotoll.labs.lava.config import load_lab
from iotoll.labs.lava.definition import File, fastboot_job, render, uboot_job, virtual_job
from iotoll.labs.lava.dictionary import virtual_device
from iotoll.labs.lava.files import expected_cases
from iotoll.records.models import Clock
from iotoll.studies.data import load_study, studies_folder
from tests.conftest import Check

BOARDS = ("virt-arm64", "virt-x86_64")
FILES = "http://files.lab.example/sha256"
KERNEL = File(f"{FILES}/{'1a' * 32}", "1a" * 32)
DTB = File(f"{FILES}/{'3c' * 32}", "3c" * 32)
RAMDISK = File(f"{FILES}/{'2b' * 32}", "2b" * 32)
CELLS = ["ufs-4k-randread-t1-direct", "nvme-128k-seqwrite-t8-sync"]
CLOCK = Clock.INSTRUCTIONS
U_BOOT = {"zedboard": "zimage", "jetson-tx1": "image", "ok3576-c": "image"}
U_BOOT |= {"rk3576-rock-4d": "image"}
MATRIX = {"zedboard": "emmc", "jetson-tx1": "emmc", "ok3576-c": "ok3576-c"}
MATRIX |= {"rk3576-rock-4d": "ufs"}
METADATA = {"iotoll.key": "0123456789ab-base-1-1", "iotoll.side": "base"}


def definition(board: str) -> str:
    name = f"iotoll base boot 1 on {board} 0123456789ab-base-1-1"
    job = virtual_job(
        load_virtual_board(board),
        name,
        KERNEL,
        RAMDISK,
        METADATA,
        expected_cases(CELLS, CLOCK),
    )
    return render(job, board, load_lab("local"))


@pytest.mark.parametrize("board", BOARDS)
def test_job_definition(board: str, golden: Check) -> None:
    golden(f"lava/jobs/{board}.yaml", definition(board))


def test_job_whose_board_keeps_its_raw_traces_elsewhere(golden: Check) -> None:
    board = load_virtual_board("virt-arm64-net")
    name = "iotoll base boot 1 on virt-arm64-net 0123456789ab-base-1-1"
    job = virtual_job(board, name, KERNEL, RAMDISK, METADATA, expected_cases(CELLS, CLOCK))
    job = replace(job, traces="http://10.0.2.2:8012/traces")
    golden("lava/jobs/virt-arm64-net.yaml", render(job, "virt-arm64-net", load_lab("local")))


def test_job_that_is_flashed(golden: Check) -> None:
    board = load_board("hikey960")
    assert isinstance(board, RealBoard)
    name = "iotoll base boot 1 on hikey960 0123456789ab-base-1-1"
    expected = expected_cases(CELLS, Clock.TIME)
    job = fastboot_job(board.hardware, name, KERNEL, RAMDISK, METADATA, expected)
    golden("lava/jobs/hikey960.yaml", render(job, "hikey960", load_lab("local")))


@pytest.mark.parametrize("name", ["qrb5165-rb5", "qcs6490-rb3gen2"])
def test_job_whose_boot_image_is_sent_and_started(name: str, golden: Check) -> None:
    title = f"iotoll base boot 1 on {name} 0123456789ab-base-1-1"
    expected = expected_cases(["ufs-4k-randread-t1-direct"], Clock.TIME)
    job = fastboot_job(load_hardware(name), title, KERNEL, RAMDISK, METADATA, expected)
    text = render(job, name, load_lab("example"))
    golden(f"lava/jobs/{name}.yaml", text)
    deploy, boot, _ = yaml.safe_load(text)["actions"]
    assert set(deploy["deploy"]["images"]) == {"boot", job.system_partition}
    assert boot["boot"]["method"] == "fastboot" and "commands" not in boot["boot"]


@pytest.mark.parametrize(("board", "kind"), U_BOOT.items())
def test_job_whose_files_u_boot_loads(board: str, kind: str, golden: Check) -> None:
    cells = [f"{device}-4k-randread-t1-direct" for device in load_matrix(MATRIX[board]).devices]
    name = f"iotoll base boot 1 on {board} 0123456789ab-base-1-1"
    expected = expected_cases(cells, Clock.TIME)
    hardware = load_hardware(board)
    job = uboot_job(hardware, name, KERNEL, DTB, RAMDISK, METADATA, expected)
    text = render(job, board, load_lab("example"))
    golden(f"lava/jobs/{board}.yaml", text)
    assert yaml.safe_load(text)["actions"][0]["deploy"]["kernel"]["type"] == kind


STUDIES = [
    ("ufs-nvme", "hikey960"),
    ("queues", "hikey960"),
    ("emmc", "zedboard"),
    ("emmc", "jetson-tx1"),
]


def test_every_study_that_names_a_real_board_is_here() -> None:
    named = {
        (p.stem, b) for p in studies_folder().glob("*.toml") for b in load_study(p.stem).boards
    }
    assert named == set(STUDIES)


@pytest.mark.parametrize(("study", "name"), STUDIES)
def test_job_of_a_study_on_a_real_board(
    study: str, name: str, golden: Check, tmp_path: Path
) -> None:
    board, data = load_board(name), load_study(study)
    assert isinstance(board, RealBoard)
    variant = next(v for v in data.variants.values() if not (v.devices or v.changes))
    matrix = load_matrix(data.boards[name].matrix)
    check_cells(board, variant.cells)
    # The probes are calibrated on the clock `time` as well.
    batches = make_batches(matrix, variant.cells, True, TIMED_IOS)
    render_job(board, matrix, batches, tmp_path / "job")
    runs = [run.name for batch in batches for run in batch.runs]
    assert set(variant.cells) < set(runs) and "calibration-" in runs[-1]
    expected = expected_cases(variant.cells, Clock.TIME)
    title = f"iotoll base boot 1 on {name} 0123456789ab-base-1-1"
    if name == "hikey960":
        flashed = fastboot_job(board.hardware, title, KERNEL, RAMDISK, METADATA, expected)
        text = render(flashed, name, load_lab("example"))
    else:
        loaded = uboot_job(board.hardware, title, KERNEL, DTB, RAMDISK, METADATA, expected)
        text = render(loaded, name, load_lab("example"))
    golden(f"lava/jobs/study-{study}-{name}.yaml", text)


def test_no_job_for_a_board_with_another_boot_loader() -> None:
    with pytest.raises(UsageError, match="zedboard is not flashed by fastboot"):
        fastboot_job(load_hardware("zedboard"), "x", KERNEL, RAMDISK, METADATA, [])
    with pytest.raises(UsageError, match="hikey960: its boot loader is not U-Boot"):
        uboot_job(load_hardware("hikey960"), "x", KERNEL, DTB, RAMDISK, METADATA, [])


def test_health_check_runs_on_every_device_of_its_type(golden: Check) -> None:
    job = virtual_job(
        load_virtual_board("virt-arm64"), "iotoll health check", KERNEL, RAMDISK, METADATA, []
    )
    text = render(replace(job, health_check=True), "virt-arm64", load_lab("local"))
    golden("lava/jobs/health-check.yaml", text)
    assert "tags" not in yaml.safe_load(text)


@pytest.mark.parametrize("board", [*BOARDS, "virt-arm64-net", "virt-x86_64-stock"])
def test_device_dictionary(board: str, golden: Check) -> None:
    golden(f"lava/devices/{board}.jinja2", virtual_device(load_virtual_board(board), f"{board}-01"))


def test_whatever_a_name_holds_stays_one_value() -> None:
    board = load_virtual_board("virt-arm64")
    strange = 'x"\n- evil: {{ 7 * 7 }} {% raw %} \\ é \x1b \u2028'
    job = virtual_job(board, strange, KERNEL, RAMDISK, {"iotoll.key": strange}, [strange])
    data = yaml.safe_load(render(job, board.name, load_lab("local")))
    assert data["job_name"] == strange
    assert data["metadata"] == {"iotoll.key": strange}
    assert len(data["actions"]) == 3
    assert data["actions"][2]["test"]["definitions"][0]["expected"] == [strange]


def test_hardware_has_no_length_in_instructions() -> None:
    cell = CELLS[0]
    cases = expected_cases([cell], Clock.INSTRUCTIONS)
    assert cases[0] == "workload"
    assert f"{cell}.submission.median" in cases
    assert f"{cell}.hardware.median" not in cases
    assert f"{cell}.hardware.median" in expected_cases([cell], Clock.TIME)
    assert len(set(cases)) == len(cases) == 1 + 4 * 3


def test_lab_without_the_board() -> None:
    job = virtual_job(load_virtual_board("virt-arm64"), "x", KERNEL, RAMDISK, METADATA, [])
    with pytest.raises(
        UsageError, match=r"lab local has no board zedboard; it has: hikey960, virt-arm64"
    ):
        render(job, "zedboard", load_lab("local"))
