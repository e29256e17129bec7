"""A developer's board for tests: a QEMU guest with sshd, and a line to it that can be cut."""

from __future__ import annotations

import contextlib
import json
import selectors
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType

from iotoll.boards.ramdisk import BOARD, Contents, get_image, write_cpio
from iotoll.core.progress import Progress

START_SECONDS = 300
FRAGMENTS = ["base", "arch-arm64", "tracing", "ufs", "virt", "network", "kexec"]
GUEST = Contents(
    packages=(*BOARD.packages, "dropbear-bin", "kexec-tools"),
    programs=(*BOARD.programs, "usr/sbin/dropbear", "usr/sbin/kexec"),
    applets=(*BOARD.applets, "gzip", "id", "kill", "login"),
)
WORDS = "console=ttyAMA0 norandmaps panic=10 ip=10.0.2.15::10.0.2.2:255.255.255.0::eth0:off"
INIT = """#!/bin/sh
export PATH=/usr/bin:/usr/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /run; mount -t devpts devpts /dev/pts
mount -t tmpfs run /run; mount -t tmpfs tmp /tmp
mkdir -p /etc/dropbear
dropbear -F -E -R -s
"""
HARDWARE = """\
arch = "arm64"
description = "QEMU virt as a developer's board"
fragments = {fragments}
oldest_kernel = "6.6"
dtb = ""
compatible = "linux,dummy-virt"
console = "ttyAMA0"
cmdline = ""
[boot]
kind = "u-boot"
[rootfs]
kind = "ramdisk"
[devices]
ufs = "/dev/sda"
"""
BOARD_FILE = 'hardware = "{hardware}"\nhuge_pages = 96\nbuffer_kb = 4096\ntrace_clock = "mono"\n'


def board_file(folder: Path) -> Path:
    """Write the guest's board and hardware files; returns the board's."""
    (folder / "hardware").mkdir(parents=True, exist_ok=True)
    hardware, board = folder / "hardware/guest.toml", folder / "guest.toml"
    hardware.write_text(HARDWARE.format(fragments=json.dumps(FRAGMENTS)))
    board.write_text(BOARD_FILE.format(hardware=hardware))
    return board


class Line:
    """A TCP line to a port of this machine, which can be cut and mended."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._open: set[socket.socket] = set()
        self.is_cut = False
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """End all connections, and refuse new ones."""
        self.is_cut = True
        for one in list(self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Pass connections on again."""
        self.is_cut = False

    def _serve(self) -> None:
        while True:
            here, _ = self._server.accept()
            if self.is_cut:
                here.close()
                continue
            threading.Thread(target=self._pass, args=(here,), daemon=True).start()

    def _pass(self, here: socket.socket) -> None:
        with (
            contextlib.suppress(OSError),
            here,
            socket.create_connection(("127.0.0.1", self._to)) as there,
            selectors.DefaultSelector() as ready,
        ):
            self._open |= {here, there}
            ready.register(here, selectors.EVENT_READ, there)
            ready.register(there, selectors.EVENT_READ, here)
            while True:
                for key, _ in ready.select():
                    assert isinstance(key.fileobj, socket.socket)
                    data = key.fileobj.recv(1 << 16)
                    if not data or self.is_cut:
                        return
                    key.data.sendall(data)


class Guest:
    """The guest; ``line`` is the way to its sshd."""

    def __init__(self, folder: Path, kernel: Path) -> None:
        self.folder = folder
        self.kernel = kernel
        self.key = folder / "key"
        self.ramdisk = folder / "ramdisk"
        self.disk = folder / "disk.img"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True
        )
        self._make_ramdisk()
        with self.disk.open("wb") as stream:
            stream.truncate(256 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-L", "iotoll-scratch", str(self.disk)], check=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.line = Line(self._port)
        self._process: subprocess.Popen[bytes] | None = None

    def _make_ramdisk(self) -> None:
        image = get_image("arm64", Progress(quiet=True), GUEST)
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            (root / "root/.ssh").mkdir(parents=True)
            shutil.copy(self.key.with_suffix(".pub"), root / "root/.ssh/authorized_keys")
            (root / "init").write_text(INIT)
            (root / "init").chmod(0o755)
            write_cpio(root, self.folder / "own.cpio")
        parts = (image.path, self.folder / "own.cpio")
        self.ramdisk.write_bytes(b"".join(part.read_bytes() for part in parts))

    def desk(self, **settings: object) -> Path:
        """Write a desk file by which the guest is reached; returns its path."""
        options = ["-p", str(self.line.port), "-i", str(self.key), "-o", "StrictHostKeyChecking=no"]
        options += ["-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-F", "none"]
        known = {"host": "root@127.0.0.1", "options": options, "simulated": True, **settings}
        lines = [f"{key} = {_toml(value)}" for key, value in known.items()]
        path = self.folder / "desk.toml"
        path.write_text('description = "QEMU"\n[boards.guest]\n' + "\n".join(lines) + "\n")
        return path

    def start(self, kernel: Path | None = None) -> None:
        """Boot the guest, with another kernel than its own if one is named."""
        self.stop()
        # Of a GICv3's ITS the next kernel takes the tables as they lie, which UEFI alone keeps free
        # (irq-gic-v3-its.c). The device tree has a kaslr-seed, as a board's has.
        machine = "virt,gic-version=3,its=off"
        command = ["qemu-system-aarch64", "-M", machine, "-cpu", "cortex-a72"]
        command += ["-m", "1536", "-smp", "1", "-display", "none", "-nodefaults"]
        command += ["-kernel", str(kernel or self.kernel), "-initrd", str(self.ramdisk)]
        command += ["-append", WORDS, "-serial", f"file:{self.folder}/console.log"]
        command += ["-netdev", f"user,id=n,hostfwd=tcp:127.0.0.1:{self._port}-:22"]
        command += ["-device", "virtio-net-pci,netdev=n,romfile="]
        command += ["-device", "ufs,id=ufs0,nutrs=32"]
        command += ["-drive", f"file={self.disk},if=none,id=d,format=raw"]
        command += ["-device", "ufs-lu,bus=ufs0,lun=0,drive=d"]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def console(self) -> str:
        """What the kernels said since the guest started."""
        return (self.folder / "console.log").read_text(errors="replace")

    def await_sshd(self) -> None:
        """Wait until somebody can log in."""
        limit = time.monotonic() + START_SECONDS
        while time.monotonic() < limit:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", self._port), 5) as there,
            ):
                if there.recv(4) == b"SSH-":
                    return
            time.sleep(0.5)
        raise TimeoutError(f"no sshd in {START_SECONDS} s: {self.console()[-500:]}")

    def stop(self) -> None:
        """End the guest, as if its power failed."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Guest:
        self.start()
        self.await_sshd()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return repr(value) if isinstance(value, int | float) else f'"{value}"'
