"""Boards of a lab on this machine, as LAVA and `iotoll simboard` know them; what a board boots."""

from __future__ import annotations

import pytest
from iotoll_lab.local.lifecycle import _device

from iotoll.core.errors import UsageError
from iotoll.labs.lava.config import load_lab
from iotoll.records.models import BuildRecord


def test_simulated_boards_of_two_labs_do_not_meet() -> None:
    settings = load_lab("local").board("hikey960")
    ours, second, other = (_device("hikey960", settings, *at) for at in ((1, 81), (2, 81), (1, 82)))
    assert (ours.name, second.name) == ("hi960-hikey-01", "hi960-hikey-02")
    assert ours.name == other.name, "LAVA's name is the same in every lab"
    boards = [device.simulated for device in (ours, second, other)]
    assert len({board.name for board in boards if board}) == 3
    assert len({board.serial for board in boards if board}) == 3
    assert ours.simulated is not None
    assert f"'simboard-uart {ours.simulated.name}'" in ours.dictionary
    assert f"fastboot_serial_number = '{ours.simulated.serial}'" in ours.dictionary
    assert ours.name in ours.tags, "a pair's second boot asks for it by this tag"


def test_a_lab_cannot_make_a_real_board() -> None:
    settings = load_lab("local").board("hikey960").model_copy(update={"simulated": False})
    with pytest.raises(UsageError, match="cannot make hikey960: simulated = true, or count = 0"):
        _device("hikey960", settings, 1, 81)


def test_device_tree_is_part_of_what_a_board_boots() -> None:
    build = BuildRecord(
        side="base",
        arch="arm64",
        image="Image",
        image_sha256="1a",
        config_sha256="0",
        fragments=[],
        toolchain="",
        seconds=0,
    )
    assert build.sha256 == "1a"
    first, second = (build.model_copy(update={"dtbs": {"b.dtb": text}}) for text in ("2b", "3c"))
    assert len({build.sha256, first.sha256, second.sha256}) == 3
