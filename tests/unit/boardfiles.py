"""Small stand-ins for what a real board boots: kernel, device tree, root file system."""

from __future__ import annotations

import hashlib
from pathlib import Path

from iotoll.boards import ramdisk
from iotoll.boards.flash import Kernel
from iotoll.boards.hardware import Hardware
from iotoll.boards.ramdisk import Image
from iotoll.kernels.kconfig import fragment_path, read_fragment


def fake_image(size: int = 200_000) -> bytes:
    body = hashlib.shake_256(b"kernel").digest(size)
    return body[:0x38] + b"ARM\x64" + body[0x3C:]


def fake_dtb(compatible: str) -> bytes:
    body = b"compatible\0" + compatible.encode() + b"\0" + bytes(64)
    return b"\xd0\x0d\xfe\xed" + (len(body) + 8).to_bytes(4, "big") + body


def fake_kernel(hardware: Hardware, folder: Path) -> Kernel:
    """Files as a build leaves them: the config is what the fragments ask for."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {
        r.symbol: r.value for name in hardware.fragments for r in read_fragment(fragment_path(name))
    }
    lines = (
        f"# CONFIG_{k} is not set" if v == "n" else f"CONFIG_{k}={v}" for k, v in wanted.items()
    )
    (folder / "config").write_text("\n".join(lines) + "\n")
    (folder / "Image").write_bytes(fake_image())
    (folder / "board.dtb").write_bytes(fake_dtb(hardware.compatible))
    return Kernel(folder / "Image", folder / "board.dtb", folder / "config", "6.12.1", "gcc 1")


def small_image(folder: Path) -> Image:
    """A ramdisk of a few files in place of Debian's."""
    root = folder / "small"
    for name in ("usr/bin/fio", "usr/bin/sh", "usr/sbin/mke2fs", "etc/passwd"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n" * 1000)
    (root / "sbin").symlink_to("usr/sbin")
    ramdisk.write_cpio(root, folder / "small.cpio")
    return Image(folder / "small.cpio", "0" * 64, {"fio": "3.39-1"})
