"""Images of real boards: made from small stand-ins, read back, refused where they do not fit."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from iotoll.boards import androidboot, flash, rootfs
from iotoll.boards.flash import Kernel
from iotoll.boards.hardware import Hardware, load_hardware
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.kernels import kernel_job as kernel_job_module
from iotoll.kernels.kconfig import fragment_path
from iotoll.kernels.kernel_job import KernelJob
from iotoll.records.models import ImageRecord
from tests.unit.boardfiles import fake_dtb, fake_image, fake_kernel, small_image

NAMES = sorted(p.stem for p in (data_dir("lava-jobs") / "hardware").glob("*.toml"))
TOOLS = {
    "mkbootimg": "mkbootimg",
    "img2simg": "android-sdk-libsparse-utils",
    "mke2fs": "e2fsprogs",
    "cpio": "cpio",
}
missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
needs_tools = pytest.mark.skipif(
    bool(missing), reason=f"not installed: apt-get install {' '.join(missing)}"
)


def hikey() -> Hardware:
    """HiKey960 with a little root file system, so that the tests are quick."""
    board = load_hardware("hikey960")
    return board.model_copy(update={"rootfs": board.rootfs.model_copy(update={"size_mb": 16})})


@pytest.fixture
def small_rootfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ramdisk of a few files in place of Debian's."""
    made = small_image(tmp_path)
    monkeypatch.setattr(rootfs, "get_image", lambda *_: made)


def make(
    hardware: Hardware, out: Path, job: Path | None = None, kernel: Kernel | None = None
) -> ImageRecord:
    found = kernel or fake_kernel(hardware, out)
    return flash.package(hardware, found, out, Progress(quiet=True), job=job)


@pytest.mark.parametrize("name", NAMES)
def test_hardware_files_load_and_their_fragments_exist(name: str) -> None:
    board = load_hardware(name)
    for fragment in board.fragments:
        fragment_path(fragment)
    assert f"arch-{board.arch}" in board.fragments
    assert set(board.devices) <= {"ufs", "nvme", "emmc"}
    for target in board.devices.values():
        assert target.startswith(("PARTLABEL=", "/dev/nvme", "/dev/mmcblk0p")), (
            "a whole UFS or eMMC disk holds the boot loader"
        )


def test_boards_with_one_fragment_list_share_their_kernel() -> None:
    assert load_hardware("hikey960").fragments == load_hardware("jetson-tx1").fragments


@needs_tools
def test_images_of_hikey960(tmp_path: Path, small_rootfs: None) -> None:
    board = hikey()
    out = tmp_path / "out"
    job = tmp_path / "job"
    job.mkdir()
    (job / "job.env").write_text("BATCHES=ufs\n")
    record = make(board, out, job)
    assert {"boot.img", "system.img.gz", "system.img.sparse", "Image"} <= set(record.files)
    assert record.files["boot.img"].partition == "boot"
    assert record.files["boot.img"].room == 64 << 20
    assert len(record.checks) == 7
    found = androidboot.parse((out / "boot.img").read_bytes() + bytes(1 << 20))
    assert found.kernel == fake_image()
    assert "root=PARTLABEL=system" in found.cmdline
    assert found.cmdline.startswith("console=ttyAMA6,115200n8 ")
    raw = tmp_path / "system.img"
    raw.write_bytes(gzip.decompress((out / "system.img.gz").read_bytes()))
    for path, words in (("/iotoll/job/job.env", "BATCHES"), ("/usr/sbin/init", "tracefs")):
        done = subprocess.run(
            ["debugfs", "-R", f"cat {path}", raw], capture_output=True, text=True, check=True
        )
        assert words in done.stdout


@needs_tools
def test_same_input_same_bytes(tmp_path: Path, small_rootfs: None) -> None:
    board = hikey()
    one = make(board, tmp_path / "one")
    os.utime(tmp_path / "small.cpio", (1, 1))
    two = make(board, tmp_path / "two")
    assert one == two


@needs_tools
def test_images_of_a_u_boot_board(tmp_path: Path, small_rootfs: None) -> None:
    record = make(load_hardware("jetson-tx1"), tmp_path / "out")
    assert set(record.files) == {"Image", "board.dtb", "ramdisk.cpio.gz"}


@needs_tools
def test_too_large_for_its_partition(tmp_path: Path, small_rootfs: None) -> None:
    board = hikey()
    assert board.storage is not None
    parts = [p.model_copy(update={"kb": 64}) for p in board.storage.partitions]
    small = board.model_copy(
        update={"storage": board.storage.model_copy(update={"partitions": parts})}
    )
    with pytest.raises(UsageError, match=r"system.img has \d+ bytes and partition system .* 65536"):
        make(small, tmp_path / "out")


def test_lost_symbol_is_named(tmp_path: Path) -> None:
    board = load_hardware("hikey960")
    kernel = fake_kernel(board, tmp_path)
    text = kernel.config.read_text()
    kernel.config.write_text(text.replace("CONFIG_SCSI_UFS_HISI=y\n", ""))
    words = r"CONFIG_SCSI_UFS_HISI=y of fragment hikey960.config became n"
    with pytest.raises(UsageError, match=words):
        make(board, tmp_path, kernel=kernel)


@pytest.mark.parametrize(
    ("dtb", "words"),
    [
        (fake_dtb("hisilicon,hi3670-hikey970"), "not for hisilicon,hi3660-hikey960"),
        (fake_dtb("hisilicon,hi3660-hikey960")[:-1], "is not a device tree blob"),
        (b"", "is not a device tree blob"),
    ],
)
def test_wrong_device_tree(tmp_path: Path, dtb: bytes, words: str) -> None:
    board = load_hardware("hikey960")
    kernel = fake_kernel(board, tmp_path)
    kernel.dtb.write_bytes(dtb)
    with pytest.raises(UsageError, match=words):
        make(board, tmp_path, kernel=kernel)


def test_board_without_a_mainline_device_tree_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ok3576-c: mainline Linux has no device tree"):
        flash.build_kernel(
            load_hardware("ok3576-c"), "debian", None, tmp_path, Progress(quiet=True)
        )


def kernel_tree(folder: Path, version: tuple[int, int]) -> Path:
    """A git tree with no more than what an image's device tree is looked for in."""
    dts = folder / "arch/arm64/boot/dts/rockchip/rk3576-evb1-v10.dts"
    dts.parent.mkdir(parents=True)
    dts.write_text("/dts-v1/;\n")
    (folder / "Makefile").write_text(f"VERSION = {version[0]}\nPATCHLEVEL = {version[1]}\n")
    git = ["git", "-C", str(folder), "-c", "user.name=t", "-c", "user.email=t@t"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    return folder


def kernel_job(tree: Path, dtb: Path | None) -> KernelJob:
    board = load_hardware("ok3576-c")
    return flash.kernel_job(board, str(tree), None, Progress(quiet=True), dtb)


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test's own, and a compiler that is there."""
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_job_module, "installed_toolchain", lambda arch: f"gcc for {arch}")


def test_device_tree_by_its_name_in_the_kernel_tree_or_a_blob(
    tmp_path: Path, own_cache: None
) -> None:
    tree = kernel_tree(tmp_path / "tree", (7, 3))
    assert kernel_job(tree, Path("rockchip/rk3576-evb1-v10.dtb")).dtbs == (
        "rockchip/rk3576-evb1-v10.dtb",
    )
    blob = tmp_path / "vendor.dtb"
    blob.write_bytes(fake_dtb("rockchip,rk3576"))
    assert kernel_job(tree, blob).dtbs == ()
    words = r"device tree rockchip/x.dtb: no such file, and Linux 7.3 has no arch/arm64/.*/x.dts"
    with pytest.raises(UsageError, match=words):
        kernel_job(tree, Path("rockchip/x.dtb"))


def test_kernel_that_is_too_old_for_a_board(tmp_path: Path, own_cache: None) -> None:
    tree = kernel_tree(tmp_path / "tree", (6, 12))
    with pytest.raises(UsageError, match=r"ok3576-c needs Linux 6.16 or newer, and .* is 6.12"):
        kernel_job(tree, Path("rockchip/rk3576-evb1-v10.dtb"))


def test_ready_made_kernel_of_another_architecture(tmp_path: Path) -> None:
    path = tmp_path / "zImage"
    path.write_bytes(bytes(1000))
    with pytest.raises(UsageError, match="is no arm64 kernel"):
        flash.ready_made(load_hardware("hikey960"), path, path, tmp_path / "out")


# Boot images that a board must refuse.


def whole(tmp_path: Path) -> bytes:
    board = hikey()
    work = flash._Work(board, tmp_path)
    assert board.boot.kind == "android"
    flash._make_boot_image(work, board.boot, fake_kernel(board, tmp_path))
    return (tmp_path / "boot.img").read_bytes()


@needs_tools
@pytest.mark.parametrize(
    ("at", "new", "words"),
    [
        (0, b"X", "no Android boot image"),
        (8, b"\xff\xff\xff\x7f", "cut"),
        (8, bytes(4), "cut"),
        (36, b"\1\0\0\0", "page size 1"),
        (40, b"\2\0\0\0", "header version 0"),
        (2048, b"XX", "not gzip'd"),
        (30_000, b"XXXX", "corrupt"),
    ],
)
def test_damaged_boot_image(tmp_path: Path, at: int, new: bytes, words: str) -> None:
    data = bytearray(whole(tmp_path))
    data[at : at + len(new)] = new
    with pytest.raises(androidboot.BootImageError, match=words):
        androidboot.parse(bytes(data))


@needs_tools
@pytest.mark.parametrize("kept", [0, 100, 1632, 5000])
def test_cut_boot_image(tmp_path: Path, kept: int) -> None:
    with pytest.raises(androidboot.BootImageError):
        androidboot.parse(whole(tmp_path)[:kept])


@needs_tools
def test_boot_image_that_does_not_read_back_is_our_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = flash._run

    def other_line(command: list[str], package: str) -> None:
        where = command.index("--cmdline")
        run([*command[: where + 1], "root=/dev/sda", *command[where + 2 :]], package)

    monkeypatch.setattr(flash, "_run", other_line)
    with pytest.raises(InfrastructureError, match="does not read back: cmdline"):
        whole(tmp_path)
