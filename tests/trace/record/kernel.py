"""A Debian kernel package, unpacked, and the modules that a guest needs in load order."""

from __future__ import annotations

import gzip
import lzma
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: its release, its image, and the folder of its modules."""

    release: str
    image: Path
    modules: Path


def unpack(packages: Iterable[Path], folder: Path) -> Kernel:
    """Unpack a kernel's packages: one, or for 7.x linux-base, linux-binary and linux-modules."""
    if not folder.is_dir():
        partial = folder.with_name(f".{folder.name}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for package in packages:
            subprocess.run(["dpkg-deb", "-x", package, partial], check=True)
        partial.rename(folder)
    images = sorted([*folder.glob("boot/vmlinu*"), *folder.glob("usr/lib/modules/*/vmlinuz")])
    if len(images) != 1:
        raise SystemExit(f"{folder.name}: {len(images)} kernel images: name all its packages")
    image = images[0]
    release = image.parent.name if image.name == "vmlinuz" else image.name.split("-", 1)[1]
    base = folder if (folder / "lib/modules" / release).is_dir() else folder / "usr"
    subprocess.run(["depmod", "-b", base, release], check=True)
    return Kernel(release, image, base / "lib/modules" / release)


def load_order(kernel: Kernel, wanted: Iterable[str]) -> list[Path]:
    """Files of the wanted modules and of what they need, in an order in which insmod can take them.

    A name that ends in ``?`` may be absent. Built-in modules have no file.
    """
    needs: dict[str, list[str]] = {}
    by_name: dict[str, str] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, dependencies = line.split(":")
        # modules.dep lists the direct and indirect ones, the last first to be loaded
        needs[path] = dependencies.split()[::-1]
        by_name[_name(path)] = path
    builtin = {_name(p) for p in (kernel.modules / "modules.builtin").read_text().splitlines()}
    order: dict[str, None] = {}
    for entry in wanted:
        name = entry.rstrip("?").replace("-", "_")
        if name in by_name:
            order.update(dict.fromkeys([*needs[by_name[name]], by_name[name]]))
        elif name not in builtin and not entry.endswith("?"):
            raise SystemExit(f"{kernel.release}: has no module {entry}")
    return [kernel.modules / path for path in order]


def write_module(source: Path, target: Path) -> None:
    """Write a module uncompressed, as busybox's insmod wants it."""
    data = source.read_bytes()
    if source.suffix == ".xz":
        data = lzma.decompress(data)
    elif source.suffix == ".gz":
        data = gzip.decompress(data)
    elif source.suffix == ".zst":
        done = subprocess.run(["zstd", "-dc", source], capture_output=True, check=True)
        data = done.stdout
    target.write_bytes(data)


def _name(path: str) -> str:
    return re.sub(r"\.ko(\.\w+)?$", "", Path(path).name).replace("-", "_")
