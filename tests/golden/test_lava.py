"""LAVA job definitions and device dictionaries, as they are given to LAVA.

tests/lab/test_schema.py has LAVA's own strict schema read the same files.
"""

from __future__ import annotations

import pytest
import yaml

from iotoll.boards import load_board
from iotoll.errors import UsageError
from iotoll.lava.config import load_lab
from iotoll.lava.device import virtual_device
from iotoll.lava.job import File, render, virtual_job
from tests.conftest import Check

BOARDS = ("virt-arm64", "virt-x86_64")
FILES = "http://files.lab.example/sha256"
KERNEL = File(f"{FILES}/{'1a' * 32}", "1a" * 32)
RAMDISK = File(f"{FILES}/{'2b' * 32}", "2b" * 32)
METADATA = {"iotoll.key": "0123456789ab-base-1-1", "iotoll.side": "base"}


def definition(board: str) -> str:
    name = f"iotoll base boot 1 on {board} 0123456789ab-base-1-1"
    job = virtual_job(load_board(board), name, KERNEL, RAMDISK, METADATA)
    return render(job, board, load_lab("local"))


@pytest.mark.parametrize("board", BOARDS)
def test_job_definition(board: str, golden: Check) -> None:
    golden(f"lava/jobs/{board}.yaml", definition(board))


@pytest.mark.parametrize("board", BOARDS)
def test_device_dictionary(board: str, golden: Check) -> None:
    golden(f"lava/devices/{board}.jinja2", virtual_device(load_board(board), f"{board}-01"))


def test_whatever_a_name_holds_stays_one_value() -> None:
    board = load_board("virt-arm64")
    strange = 'x"\n- evil: {{ 7 * 7 }} {% raw %} \\ é \x1b \u2028'
    job = virtual_job(board, strange, KERNEL, RAMDISK, {"iotoll.key": strange})
    data = yaml.safe_load(render(job, board.name, load_lab("local")))
    assert data["job_name"] == strange
    assert data["metadata"] == {"iotoll.key": strange}
    assert len(data["actions"]) == 3


def test_lab_without_the_board() -> None:
    job = virtual_job(load_board("virt-arm64"), "x", KERNEL, RAMDISK, METADATA)
    with pytest.raises(UsageError, match=r"lab local has no board zedboard; it has: virt-arm64"):
        render(job, "zedboard", load_lab("local"))
