"""Kernels of boards that nobody simulates here: as far as QEMU's machines can boot them.

ZedBoard's zImage, device tree and ramdisk boot in QEMU's Zynq-7000, with an SD card on the board's
own host controller. OK3576-C's Image boots on the virtual board, so without its own drivers.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotoll.boards.board import RealBoard, load_board
from iotoll.boards.matrix import load_matrix
from iotoll.boards.ramdisk import Image
from iotoll.boots.console import read_console
from iotoll.boots.job import make_batches, render_job
from iotoll.boots.schedule import Bench
from iotoll.labs.lava.config import load_lab
from iotoll.measure.board_records import cell_of_dut, sort
from iotoll.measure.serial import receive
from iotoll.records import results
from iotoll.records.models import Clock, Section, SideResult
from tests.trace import dut
from tests.vm.conftest import CELLS, make_images, measure, needs_board, needs_kernel

pytestmark = pytest.mark.vm
PROMPT = "iotoll# "
BOOT_SECONDS = 180  # on a busy host
NEW_TREE = "IOTOLL_TEST_NEW_TREE"
WORKLOAD_SECONDS = 400
READS = 64
ZED_IOS = {"emmc-4k-randread-t1-direct": 64, "emmc-128k-seqwrite-t8-sync": 16}
ZED_CELLS = list(ZED_IOS)
UNUSED = Image(Path(), "", {})  # the board's images are made by the command


class Zynq:
    """QEMU's Zynq with ZedBoard's images, and what its second UART (the board's console) says."""

    def __init__(self, images: Path, card: Path) -> None:
        record = json.loads((images / "image.json").read_text())
        words = ["qemu-system-arm", "-M", "xilinx-zynq-a9", "-m", "512", "-display", "none"]
        words += ["-monitor", "none", "-serial", "null", "-serial", "stdio", "-no-reboot"]
        words += ["-kernel", str(images / "Image"), "-dtb", str(images / "zynq-zed.dtb")]
        words += ["-initrd", str(images / "ramdisk.cpio.gz"), "-append", record["cmdline"]]
        words += ["-drive", f"file={card},if=sd,format=raw"]
        self.heard = ""
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), 4096):
            self.heard += data.decode("utf-8", "replace")

    def await_text(self, words: str, seconds: float = BOOT_SECONDS) -> None:
        """Wait until the board has said something."""
        end = time.monotonic() + seconds
        while words not in self.heard:
            assert self.process.poll() is None, self.heard[-3000:]
            assert time.monotonic() < end, f"no {words!r} after:\n{self.heard[-3000:]}"
            time.sleep(0.1)

    def shell(self, line: str, seconds: float = 120) -> str:
        """Run a line in the board's shell; returns what it printed."""
        mark = secrets.token_hex(4)
        assert self.process.stdin is not None
        # The marks are put together by the shell, so that the echo of the line has none.
        self.process.stdin.write(
            f"echo '{mark[:4]}''{mark[4:]}'; {line}; echo {mark[4:]}''{mark[:4]}\n".encode()
        )
        self.process.stdin.flush()
        self.await_text(mark[4:] + mark[:4], seconds)
        return self.heard.rpartition(mark + "\r\n")[2].partition(mark[4:] + mark[:4])[0]

    def stop(self) -> None:
        """End QEMU: a Zynq cannot switch itself off."""
        self.process.kill()
        self.process.wait(30)
        self._listener.join(30)


def zedboard_job(folder: Path) -> Path:
    """Two cells as a LAVA job's boot runs them, with files that QEMU's card writes in seconds."""
    path = folder / "little.toml"
    path.write_text('extends = "emmc"\n[fio_of.emmc]\nfile_mb = 4\nios_4k = 64\nios_128k = 16\n')
    board, matrix = load_board("zedboard"), load_matrix(str(path))
    assert isinstance(board, RealBoard)
    times = load_lab("example").board(board.name).send_times
    bench = Bench(board, matrix, UNUSED, ZED_CELLS, Clock.TIME, "none", send_times=times)
    batches = make_batches(matrix, ZED_CELLS, calibrate=False)
    render_job(board, matrix, batches, folder / "job", bench.settings)
    return folder / "job"


@pytest.fixture(scope="module")
def zynq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zynq]:
    """ZedBoard's kernel at its shell, with a card that has a boot partition and another one."""
    for tool, package in (("qemu-system-arm", "qemu-system-arm"), ("sfdisk", "fdisk")):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: apt-get install {package}")
    needs_kernel("zedboard")
    folder = tmp_path_factory.mktemp("zedboard")
    images = make_images("zedboard", folder / "images", "--job", zedboard_job(folder))
    card = folder / "card.img"
    with card.open("wb") as out:
        out.truncate(128 << 20)  # a card's size is a power of two
    table = "label: dos\n,16M,c\n,32M,83\n"
    subprocess.run(["sfdisk", "--quiet", card], input=table, text=True, check=True)
    board = Zynq(images, card)
    try:
        board.await_text(PROMPT)
        yield board
    finally:
        board.stop()


def test_zedboard_s_kernel_runs_with_its_own_device_tree(zynq: Zynq) -> None:
    assert zynq.shell("uname -m").strip() == "armv7l"
    compatible = zynq.shell("tr '\\0' ' ' </sys/firmware/devicetree/base/compatible")
    assert {"avnet,zynq-zed", "xlnx,zynq-7000"} <= set(compatible.split())


def test_zedboard_s_sd_host_finds_card_and_partitions(zynq: Zynq) -> None:
    assert "e0100000.mmc" in zynq.shell("ls /sys/bus/platform/drivers/sdhci-arasan")
    assert {"mmcblk0", "mmcblk0p1", "mmcblk0p2"} <= set(zynq.shell("ls /sys/class/block").split())


def test_zedboard_s_reads_are_traced(zynq: Zynq) -> None:
    # Without discarding: QEMU writes what a card only forgets.
    zynq.shell("mke2fs -q -t ext4 -E nodiscard /dev/mmcblk0p2 && mount /dev/mmcblk0p2 /mnt")
    tracing = "/sys/kernel/tracing"
    zynq.shell("fio --name=x --filename=/mnt/x --size=4m --rw=write --bs=128k --end_fsync=1")
    zynq.shell(f"echo 1 >{tracing}/events/mmc/enable; echo 1 >{tracing}/events/block/enable")
    words = f"--rw=randread --bs=4k --direct=1 --io_size={READS * 4}k"
    said = zynq.shell(f"fio --name=x --filename=/mnt/x --size=4m {words}")
    zynq.shell(f"echo 0 >{tracing}/tracing_on")
    assert f"total={READS}," in said, said
    for event in ("block_rq_issue", "mmc_request_start", "mmc_request_done", "block_rq_complete"):
        found = zynq.shell(f"grep -c ' {event}: ' {tracing}/trace")
        assert int(found) >= READS, event
    zynq.shell(f"echo 0 >{tracing}/events/enable; umount /mnt")


def test_zedboard_measures_itself(zynq: Zynq, tmp_path: Path) -> None:
    dut.find("arm")
    begin = len(zynq.heard)
    zynq.shell("sh /iotoll/dut/run.sh /iotoll/job", WORKLOAD_SECONDS)
    console = zynq.heard[begin:]
    state = read_console(console)
    assert state.done, state.reason
    texts = [one.text for one in receive(console.encode())]
    assert None not in texts
    documents = sort([text for text in texts if text is not None], "the board's console")
    assert documents.facts.before["tainted"] == "0"
    for name in ZED_CELLS:
        cell = cell_of_dut(documents.cells[name], Clock.TIME, documents.fio[name].totals())
        assert cell.invalid is None
        assert cell.ios["measured"] == cell.fio["ios"] == ZED_IOS[name]
        assert cell.device["driver"] == "mmc"
        assert all(cell.sections[section].own.median for section in Section)


def test_image_of_a_rockchip_board_runs_on_the_virtual_one(tmp_path: Path) -> None:
    tree = os.environ.get(NEW_TREE)
    if not tree:
        pytest.skip(f"needs a kernel tree from Linux 6.16 on: set {NEW_TREE} to one")
    needs_board("virt-arm64")
    dtb = Path("rockchip/rk3576-evb1-v10.dtb")
    needs_kernel("ok3576-c", tree, dtb)
    images = make_images("ok3576-c", tmp_path / "images", "--tree", tree, "--dtb", dtb)
    run = tmp_path / "run"
    measure(run, "virt-arm64", "--image", images / "Image", "--cells", CELLS, "--quiet")
    side = results.read(run / "sides/base/result.json", SideResult)
    assert sorted(side.cells) == sorted(CELLS.split(","))
    for records in side.cells.values():
        assert {record.invalid for record in records} == {None}
        assert records[0].sections[Section.SUBMISSION].own.median
