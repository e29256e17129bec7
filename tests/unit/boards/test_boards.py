"""Board files: both boards load, and every mistake is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from iotoll.boards.board import RealBoard, load_board, load_virtual_board
from iotoll.boards.matrix import load_matrix
from iotoll.boards.qemu import board_words
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.patch.candidate import CandidateChoice
from iotoll.records.models import Clock
from iotoll.run.manifest import RunRequest, check_device_tree, check_devices, clock_of

FOLDER = data_dir("lava-jobs") / "boards"
REAL = {"hikey960": "hikey960", "jetson-tx1": "emmc", "ok3576-c": "ok3576-c", "zedboard": "emmc"}
REAL |= dict.fromkeys(("rk3576-rock-4d", "qrb5165-rb5", "qcs6490-rb3gen2"), "ufs")
NAMES = ["virt-arm64", "virt-arm64-hpb", "virt-arm64-net", "virt-arm64-smp4", "virt-arm64-smp4-q1"]
NAMES += ["virt-arm64-stock", "virt-arm64-toll", "virt-x86_64", "virt-x86_64-stock"]
NATIVE = ["host-uml"]


def test_all_boards_are_there() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.toml")) == sorted([*REAL, *NAMES, *NATIVE])


@pytest.mark.parametrize("name", NAMES)
def test_board_has_what_the_default_matrix_needs(name: str) -> None:
    board = load_virtual_board(name)
    assert set(load_matrix("default").devices) <= set(board.devices)
    assert f"arch-{board.arch}" in board.fragments
    assert board.limits.silence < board.limits.total
    for device in board.devices.values():
        assert sum("{drive}" in word for word in device.qemu) == 1


@pytest.mark.parametrize("name", NAMES)
def test_fragments_exist(name: str) -> None:
    for fragment in load_board(name).fragments:
        assert (data_dir("kernel-configs") / f"{fragment}.config").is_file()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('arch = "arm64"', 'arch = "mips"', "arch: "),
        ('binary = "qemu-system-aarch64-exact"', "", "qemu.binary: Field required"),
        ("boot = 120", "boot = 0", "limits.boot: "),
        ("memory_mb = 1024", 'memory_mb = "much"', "memory_mb: "),
        ("[devices.nvme]\nsize_mb = 256", "[devices.nvme]\nsize_mb = -1", "devices.nvme.size_mb: "),
        ('arch = "arm64"', 'arch = "arm64"\ncolour = "red"', "colour: "),
        (
            "patched = true",
            "patched = false",
            "devices.ufs.delay_ms is needed with qemu.patched = f",
        ),
        ("[devices.nvme.model]", "[devices.nvme.models]", "devices.nvme.models: "),
        ("units = 32", "units = 0", "devices.ufs.model.units: "),
        ('arch = "arm64"', "arch = arm64", "line 2"),
    ],
)
def test_mistakes_are_one_line_with_file_and_field(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = (FOLDER / "virt-arm64.toml").read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_board(str(path))
    message = str(caught.value)
    assert words in message
    assert "mine.toml" in message
    assert "\n" not in message


def test_unknown_board_names_those_that_exist() -> None:
    with pytest.raises(
        UsageError, match="There are: hikey960, host-uml, jetson-tx1, ok3576-c, qcs6490-rb3gen2"
    ):
        load_board("hikey")


def test_board_file_that_extends_another_says_only_what_differs() -> None:
    board, other = load_virtual_board("virt-arm64-net"), load_virtual_board("virt-arm64-stock")
    assert board.name == "virt-arm64-net"
    assert board.fragments == [*other.fragments, "network"]
    assert board.cmdline.startswith(other.cmdline)
    assert board.qemu.network
    assert board.qemu.model_copy(update={"network": []}) == other.qemu
    assert board.devices == other.devices
    words = board_words(board, Clock.INSTRUCTIONS, "tcg")
    assert any("virtio-net" in word for word in words)
    assert not any("net" in word for word in board_words(other, Clock.INSTRUCTIONS, "tcg"))


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_stock_board_has_delays_where_the_exact_one_has_models(arch: str) -> None:
    exact, stock = load_virtual_board(f"virt-{arch}"), load_virtual_board(f"virt-{arch}-stock")
    assert exact.qemu.patched and exact.qemu.bh_delay_ns and exact.qemu.slice_ns
    assert not stock.qemu.patched
    for name in exact.devices:
        ours, theirs = exact.devices[name], stock.devices[name]
        assert ours.model is not None and ours.delay_ms is None
        assert theirs.model is None and theirs.delay_ms is not None
        assert (ours.qemu, ours.size_mb) == (theirs.qemu, theirs.size_mb)


@pytest.mark.parametrize("name", ["virt-arm64", "virt-x86_64"])
@pytest.mark.parametrize("device", ["ufs", "nvme"])
def test_model_gives_the_published_latencies(name: str, device: str) -> None:
    """Micron 2018: 16.6 and 104 us for reads of 4 and 128 KiB, 12.5 and 125 us for writes."""
    model = load_virtual_board(name).devices[device].model
    assert model is not None
    assert model.latency_ns("read", 4) == pytest.approx(16_600, rel=1e-3)
    assert model.latency_ns("read", 128) == pytest.approx(104_000, rel=1e-3)
    assert model.latency_ns("write", 4) == pytest.approx(12_500, rel=1e-3)
    assert model.latency_ns("write", 128) == pytest.approx(125_000, rel=1e-3)
    assert "published" in model.source


def test_files_that_extend_each_other(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text(f'extends = "{second}"\n')
    second.write_text(f'extends = "{first}"\n')
    with pytest.raises(UsageError, match=r"a.toml: extends: .*a.toml is where it began"):
        load_board(str(first))


def test_file_that_extends_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "virt-arm65"\n')
    with pytest.raises(
        UsageError, match=r"no board 'virt-arm65': did you mean virt-arm64\? There are: "
    ):
        load_board(str(path))


def test_real_board_is_its_hardware() -> None:
    board = load_board("hikey960")
    assert isinstance(board, RealBoard)
    assert "hikey960" in board.fragments
    assert board.job_settings == {
        "TARGET_ufs": "PARTLABEL=userdata",
        "TARGET_nvme": "/dev/nvme0n1",
        "PMU_EVENTS": "cycles:k instructions:k l1d_cache_refill:k l2d_cache_refill:k"
        " bus_access:k exc_taken:k mem_access:k",
    }
    check_devices(board, load_matrix("hikey960"))
    with pytest.raises(UsageError, match="measures emmc, which board hikey960 does not have"):
        check_devices(board, load_matrix("default"))
    with pytest.raises(UsageError, match="hikey960 is not virtual"):
        load_virtual_board("hikey960")


def test_a_virtual_boards_disk_must_hold_the_matrixs_files(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text('extends = "ufs"\n[fio]\nfile_mb = 128\n')
    with pytest.raises(UsageError, match=r"file_mb = 128 for ufs: .* virt-arm64 has 256 MiB"):
        check_devices(load_board("virt-arm64"), load_matrix(str(path)))


@pytest.mark.parametrize(("name", "matrix"), REAL.items())
def test_real_board_has_a_matrix_and_a_place_to_write_for_each_of_its_devices(
    name: str, matrix: str
) -> None:
    board = load_board(name)
    assert isinstance(board, RealBoard)
    check_devices(board, load_matrix(matrix))
    assert set(load_matrix(matrix).devices) == set(board.hardware.devices)
    assert board.huge_pages or board.arch == "arm"


def own_board(folder: Path, dtb: str) -> RealBoard:
    """A lab's own board file, which says what differs."""
    path = folder / "mine.toml"
    path.write_text(f'extends = "ok3576-c"\ndtb = "{dtb}"\n')
    board = load_board(str(path))
    assert isinstance(board, RealBoard)
    return board


def test_board_of_which_mainline_has_no_device_tree(tmp_path: Path) -> None:
    stock = load_board("ok3576-c")
    with pytest.raises(UsageError, match=r"ok3576-c: .*no device tree .* dtb = FILE.*: --board"):
        check_device_tree(stock)
    assert isinstance(stock, RealBoard)
    assert stock.dtbs == []
    theirs = own_board(tmp_path, "rockchip/rk3576-evb1-v10.dtb")
    check_device_tree(theirs)
    assert (theirs.dtbs, theirs.blob) == (["rockchip/rk3576-evb1-v10.dtb"], None)
    (tmp_path / "vendor.dtb").write_bytes(b"x")
    own = own_board(tmp_path, "vendor.dtb")
    assert (own.dtbs, own.blob) == ([], tmp_path / "vendor.dtb")
    assert own.model_dump() == theirs.model_dump() == {**stock.model_dump(), "name": "mine"}


def test_device_tree_of_the_hardware_is_the_default() -> None:
    for name in ("hikey960", "jetson-tx1", "zedboard"):
        board = load_board(name)
        assert isinstance(board, RealBoard)
        check_device_tree(board)
        assert board.dtbs == [board.hardware.dtb]


def test_real_board_has_the_clock_time_and_needs_a_lab() -> None:
    board = load_board("hikey960")

    def asked(runner: Literal["local", "lava"], clock: Clock | None = None) -> RunRequest:
        choice = CandidateChoice("none", None, None, None)
        return RunRequest(("iotoll",), "gate", choice, board.name, clock=clock, runner=runner)

    assert clock_of(board, asked("lava")) is Clock.TIME
    assert clock_of(load_board(NAMES[0]), asked("local")) is Clock.INSTRUCTIONS
    with pytest.raises(UsageError, match="counts no instructions: --clock time"):
        clock_of(board, asked("lava", Clock.INSTRUCTIONS))
    with pytest.raises(
        UsageError,
        match=r"booted by a LAVA lab \(--runner lava\), or by ssh: --runner ssh --lab FILE",
    ):
        clock_of(board, asked("local"))
