"""A simulated HiKey960 is flashed and boots what was flashed: kernel, root file system, disks.

The kernel is the one that `iotoll image` builds for real boards, if that is in the cache.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from iotoll_lab.simboard import client

from iotoll.core.proc import require_tool
from tests.vm.conftest import command, environment, hikey960, make_images

pytestmark = pytest.mark.vm
PROMPT = "iotoll# "
BOOT_SECONDS = 180  # on a busy host without KVM


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The images of HiKey960, made by the command."""
    for tool in ("mkbootimg", "img2simg", "fastboot"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: see tools/packages.txt")
    board = hikey960(tmp_path_factory.mktemp("board"))
    return make_images(board.hardware, tmp_path_factory.mktemp("images"))


class Lab:
    """A running board and what LAVA would do with it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.log = folder / name / "uart.log"
        self.tools = folder / "bin"
        client.install(self.tools)

    def power(self, how: str) -> None:
        """The relay."""
        client.ask(self.name, {"do": "power", "how": how})

    def fastboot(self, *words: str | Path) -> str:
        """The lab's fastboot; it must succeed."""
        serial = client.ask(self.name, {"do": "state"})["serial"]
        tool = [sys.executable, str(self.tools / "fastboot"), "-s", serial, *map(str, words)]
        done = subprocess.run(tool, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def heard(self) -> str:
        """All that the board said."""
        return self.log.read_bytes().decode("utf-8", "replace") if self.log.exists() else ""

    def await_text(self, words: str, count: int = 1, seconds: float = BOOT_SECONDS) -> None:
        """Wait until the board has said something ``count`` times."""
        end = time.monotonic() + seconds
        while self.heard().count(words) < count:
            assert time.monotonic() < end, f"no {words!r} after:\n{self.heard()[-3000:]}"
            time.sleep(0.2)

    def shell(self, line: str, seconds: float = 60) -> str:
        """Run a line in the board's shell; returns what it printed."""
        mark = secrets.token_hex(4)
        port = client.ask(self.name, {"do": "state"})["uart"]
        with socket.create_connection(("127.0.0.1", port), 10) as uart:
            # The mark is put together by the shell, so that the echo of the line has none.
            uart.sendall(f"{line}; echo {mark[:4]}''{mark[4:]}\n".encode())
            self.await_text(mark, seconds=seconds)
        said = self.heard().rpartition(mark)[0].rpartition(f"{mark[4:]}\r\n")[2].replace("\r", "")
        # On a busy host the kernel may say so meanwhile ("hrtimer: interrupt took 40 ms").
        return re.sub(r"^\[ *\d+\.\d+\] .*\n", "", said, flags=re.M)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A board in its process."""
    require_tool("qemu-system-aarch64", "qemu-system-arm")
    folder = tmp_path_factory.mktemp("boards")
    name = f"test-{secrets.token_hex(6)}"
    words = command("simboard", "serve", name, "--state", folder)
    process = subprocess.Popen(words, env=environment())
    try:
        end = time.monotonic() + 60
        while name not in [board["name"] for board in client.boards()]:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.1)
        yield Lab(name, folder)
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.fixture(scope="module")
def booted(lab: Lab, images: Path) -> Lab:
    """The board after what LAVA does: reset, flash both, reset, a space at the prompt."""
    lab.power("reset")
    lab.await_text("Android Fastboot mode", seconds=30)
    lab.fastboot("flash", "boot", images / "boot.img")
    lab.fastboot("flash", "system", images / "system.img.sparse")
    boot(lab)
    return lab


def boot(lab: Lab, start: Callable[[], object] | None = None) -> None:
    """Reset the board (or ``start`` it) and leave its fastboot for the system."""
    prompts, shells = lab.heard().count("Press RETURN"), lab.heard().count(PROMPT)
    (start or (lambda: lab.power("reset")))()
    lab.await_text("Press RETURN", prompts + 1)  # a reboot too, on a busy host
    port = client.ask(lab.name, {"do": "state"})["uart"]
    with socket.create_connection(("127.0.0.1", port), 10) as uart:
        uart.sendall(b" \r")
        lab.await_text(PROMPT, shells + 1)


def test_the_flashed_kernel_runs(booted: Lab, images: Path) -> None:
    record = json.loads((images / "image.json").read_text())
    assert booted.shell("uname -r").strip() == record["kernel_version"]
    assert record["cmdline"] in booted.shell("cat /proc/cmdline")


def test_root_is_the_flashed_partition(booted: Lab) -> None:
    found = booted.shell("sed -n 's/^PARTNAME=//p' /sys/class/block/sd?10/uevent").split()
    assert found == ["system"]
    mounted = booted.shell("grep ' / ' /proc/mounts")
    assert "ext4 rw" in mounted


def test_ufs_nvme_and_sd_are_there(booted: Lab) -> None:
    disks = booted.shell("ls /sys/block").split()
    assert {"nvme0n1", "mmcblk0"} <= set(disks)
    assert "sdb" in disks, "the boot loader's unit, and the one with the partitions"
    blocks = booted.shell("cat /sys/block/sdb/queue/logical_block_size").strip()
    assert blocks == "4096", "as on the real board"


def test_tracing_and_fio_are_there(booted: Lab) -> None:
    found = booted.shell("cd /sys/kernel/tracing/events && ls -d ufs nvme block mmc | wc -l")
    assert found.strip() == "4"
    assert "fio-3" in booted.shell("fio --version")


def test_reboot_ends_in_fastboot_and_files_stay(booted: Lab) -> None:
    booted.shell("echo kept >/root/kept; sync")

    def reboot() -> None:
        port = client.ask(booted.name, {"do": "state"})["uart"]
        with socket.create_connection(("127.0.0.1", port), 10) as uart:
            uart.sendall(b"reboot -f\n")
            time.sleep(1)

    boot(booted, reboot)
    assert booted.shell("cat /root/kept").strip() == "kept"


def test_hang_is_ended_by_the_relay(booted: Lab) -> None:
    client.ask(booted.name, {"do": "fault", "fault": "hang"})
    port = client.ask(booted.name, {"do": "state"})["uart"]
    before = booted.heard()
    with socket.create_connection(("127.0.0.1", port), 10) as uart:
        uart.sendall(b"echo are you there\n")
        time.sleep(2)
    assert booted.heard() == before
    boot(booted)
    assert booted.shell("echo back").strip() == "back"


def test_power_off_stays_off(booted: Lab) -> None:
    port = client.ask(booted.name, {"do": "state"})["uart"]
    with socket.create_connection(("127.0.0.1", port), 10) as uart:
        uart.sendall(b"poweroff -f\n")
        end = time.monotonic() + 60
        while client.ask(booted.name, {"do": "state"})["state"] != "off":
            assert time.monotonic() < end
            time.sleep(0.2)


def test_new_kernel_needs_the_board_s_own_device_tree(booted: Lab, images: Path) -> None:
    data = (images / "boot.img").read_bytes().replace(b"hi3660-hikey960\0", b"hi3660-hikey961\0")
    path = images / "other.img"
    path.write_bytes(data)
    booted.power("reset")
    prompts = booted.heard().count("Press RETURN")
    booted.await_text("Press RETURN", prompts + 1, seconds=60)
    booted.fastboot("flash", "boot", path)
    port = client.ask(booted.name, {"do": "state"})["uart"]
    with socket.create_connection(("127.0.0.1", port), 10) as uart:
        uart.sendall(b" ")
        booted.await_text("the device tree is not for hisilicon,hi3660-hikey960", seconds=30)
