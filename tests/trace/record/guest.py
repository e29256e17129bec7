"""Boots one recording guest in QEMU and brings back what its cases left."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iotoll.boards.matrix import load_matrix
from iotoll.boards.ramdisk import APPLETS, PACKAGES, PROGRAMS, Contents, get_image, write_cpio
from iotoll.core.progress import Progress
from tests.trace.record.kernel import Kernel, load_order, write_module

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
TOOLS = Contents(
    (*PACKAGES, "blktrace", "dmsetup", "f2fs-tools", "fdisk", "mdadm", "mount", "util-linux"),
    (
        *PROGRAMS,
        *(
            f"usr/sbin/{name}"
            for name in ("blktrace", "dmsetup", "sfdisk", "losetup", "fstrim", "mdadm", "mkfs.f2fs")
        ),
    ),
    (*APPLETS, "insmod", "kill"),
)
DISK_MB = 128
BUFFER_KB = 16384
PORT = "org.iotoll.record"
MACHINES = {
    "arm64": ["qemu-system-aarch64", "-M", "virt,gic-version=3", "-cpu", "cortex-a72"],
    "x86_64": ["qemu-system-x86_64", "-M", "q35", "-cpu", "max"],
}
CONSOLES = {"arm64": "ttyAMA0", "x86_64": "ttyS0"}


def run(
    kernel: Kernel, arch: str, recipe: Mapping[str, Any], events: Mapping[str, list[str]], out: Path
) -> None:
    """Boot ``kernel`` and unpack the guest's hand-over into ``out``; the console goes there too."""
    image = get_image(arch, Progress(quiet=True), TOOLS)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _write_ramdisk(kernel, recipe, events, work)
        with (work / "ramdisk").open("wb") as whole:
            for part in (image.path, work / "job.cpio"):
                with part.open("rb") as stream:
                    shutil.copyfileobj(stream, whole)
        _boot(qemu_command(kernel, arch, recipe, work), nbdkit_command(recipe, work), out, work)
        try:
            with tarfile.open(work / "handover.tar") as archive:
                archive.extractall(out, filter="data")
        except tarfile.TarError as error:
            raise SystemExit(f"no hand-over ({error}): see {out / 'console'}") from error


def qemu_command(kernel: Kernel, arch: str, recipe: Mapping[str, Any], work: Path) -> list[str]:
    """The guest's command line, with its files in ``work``."""
    command = [*MACHINES[arch], "-accel", "tcg,thread=multi", "-smp", str(recipe["cpus"])]
    command += ["-m", str(recipe["memory_mb"]), "-nodefaults", "-display", "none", "-no-reboot"]
    command += ["-kernel", str(kernel.image), "-initrd", f"{work}/ramdisk"]
    # A host that is busy makes an emulated x86's check of its timer fail.
    check = "no_timer_check " if arch == "x86_64" else ""
    words = f"console={CONSOLES[arch]} panic=-1 mitigations=off {check}{recipe['cmdline']}".strip()
    command += ["-append", words, "-serial", f"file:{work}/console"]
    command += ["-device", "virtio-serial-pci", "-chardev", f"file,id=out,path={work}/handover.tar"]
    command += ["-device", f"virtserialport,chardev=out,name={PORT}"]
    if recipe.get("share"):
        share = "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
        command += ["-virtfs", share]
    drive = f"file=nbd+unix:///?socket={work}/disk.sock,if=none,id=disk,format=raw,discard=unmap"
    return [*command, "-drive", f"{drive},cache=unsafe", *recipe["qemu"]]


def nbdkit_command(recipe: Mapping[str, Any], work: Path) -> list[str]:
    """The device's store: memory behind a delay."""
    delay = f"{recipe['delay_ms']}ms"
    command = ["nbdkit", "--foreground", "--exit-with-parent", "--threads", str(recipe["threads"])]
    command += ["--unix", f"{work}/disk.sock", "--filter=delay", "memory", f"{DISK_MB}M"]
    return [*command, f"rdelay={delay}", f"wdelay={delay}"]


def _write_ramdisk(
    kernel: Kernel, recipe: Mapping[str, Any], events: Mapping[str, list[str]], work: Path
) -> None:
    root = work / "root"
    shutil.copytree(HERE / "guest", root / "record/guest")
    shutil.copy(HERE / "guest/init", root / "init")
    (root / "init").chmod(0o755)
    (root / "record/modules").mkdir()
    options: Mapping[str, str] = recipe.get("module_options", {})
    order = []
    for path in load_order(kernel, recipe["modules"]):
        name = path.name.split(".ko")[0]
        write_module(path, root / "record/modules" / f"{name}.ko")
        order.append(f"{name}.ko {options.get(name, '')}".strip())
    (root / "record/modules.order").write_text("\n".join(order) + "\n")
    lean = load_matrix("default").events
    sets = {**events, "lean": [event for part in lean.values() for event in part]}
    for name, names in sets.items():
        (root / f"record/{name}.events").write_text("".join(f"{n}\n" for n in names))
    job = {
        "NODE": recipe["node"],
        "NEW_ID": recipe.get("new_id", ""),
        "CASES": " ".join(recipe["cases"]),
        "SET": recipe["set"],
        "TRACE_CLOCK": recipe["clock"],
        "BUFFER_KB": str(BUFFER_KB),
        "PYTHON": sys.executable,
        "SOURCES": str(ROOT / "src"),
    }
    lines = [f"{key}={shlex.quote(value)}\n" for key, value in job.items()]
    (root / "record/job.env").write_text("".join(lines))
    write_cpio(root, work / "job.cpio")


def _boot(qemu: list[str], nbdkit: list[str], out: Path, work: Path, seconds: float = 3600) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with (out / "host.log").open("wb") as log:
        server = subprocess.Popen(nbdkit, stdout=log, stderr=log)
        try:
            while not (work / "disk.sock").exists():
                if server.poll() is not None:
                    raise SystemExit(f"nbdkit did not start: see {log.name}")
                time.sleep(0.05)
            env = {**os.environ, "TMPDIR": str(work)}
            subprocess.run(qemu, stdout=log, stderr=log, timeout=seconds, check=True, env=env)
        finally:
            server.terminate()
            server.wait()
            if (work / "console").exists():
                shutil.copy(work / "console", out / "console")
