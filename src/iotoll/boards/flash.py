"""Images for real boards: kernel, device tree, boot image and root file system, checked.

A kernel is built as for a virtual board (`iotoll.kernels.build`), with the board's fragments. What
is packed is read back and compared, and everything is checked against the partition that it is
meant for, before any board sees it. Same sources and packages: same bytes.
"""

from __future__ import annotations

import gzip
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iotoll.boards import androidboot, rootfs, sparse
from iotoll.boards.hardware import AndroidBoot, Hardware, PartitionRootfs
from iotoll.boards.ramdisk import write_cpio
from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.proc import require_tool
from iotoll.core.progress import Progress
from iotoll.core.scratch import scratch
from iotoll.kernels import cache, kconfig, source
from iotoll.kernels.compiling import compile_job
from iotoll.kernels.kernel_job import KernelJob
from iotoll.records import results
from iotoll.records.models import BuildRecord, ImageFile, ImageRecord, SourceRecord

BOOT_IMAGE = "boot.img"
ROOTFS = "system.img"


@dataclass(frozen=True)
class Kernel:
    """A built kernel: ``image`` and ``dtb`` are files, ``config`` its final .config."""

    image: Path
    dtb: Path
    config: Path
    version: str | None
    toolchain: str


@dataclass
class _Work:
    """One set of images in the making: what was checked, what goes where."""

    hardware: Hardware
    out: Path
    checks: list[str] = field(default_factory=list)
    files: dict[str, str | None] = field(default_factory=dict)

    def file(self, name: str, partition: str | None = None) -> Path:
        """Note that ``name`` is one of the images, and return its path."""
        self.files[name] = partition
        return self.out / name


def build_kernel(
    hardware: Hardware,
    tree: str,
    base: str | None,
    out: Path,
    progress: Progress,
    dtb: Path | None = None,
) -> Kernel:
    """Build the board's kernel and device tree, or take them from the cache, into ``out``.

    ``dtb`` is the user's device tree in place of the board's own: a blob, or the name of one that
    the kernel tree has (``rockchip/rk3576-evb1-v10.dtb``).
    """
    given = dtb if dtb is not None and dtb.is_file() else None
    job = kernel_job(hardware, tree, base, progress, dtb)
    out.mkdir(parents=True, exist_ok=True)
    if not job.is_done:
        compile_job(job, progress, out)
    cache.copy_tree(job.cached, out)
    blob = _take_dtb(given, out) if given else out / Path(job.dtbs[0]).name
    return Kernel(out / "Image", blob, out / "config", job.source.version, job.toolchain)


def kernel_job(
    hardware: Hardware, tree: str, base: str | None, progress: Progress, dtb: Path | None = None
) -> KernelJob:
    """What there is to build for a board; raises UsageError when mainline does not have it."""
    name = str(dtb) if dtb else hardware.dtb
    if not name:
        raise UsageError(
            f"board {hardware.name}: mainline Linux has no device tree for it: give the vendor's"
            " with --dtb"
        )
    record = source.base_of(tree, base, progress)
    names = [] if dtb is not None and dtb.is_file() else [name]
    check_source(hardware, record, names, progress)
    return KernelJob.make(record, hardware.arch, hardware.fragments, names)


def check_source(
    hardware: Hardware, record: SourceRecord, dtbs: Sequence[str], progress: Progress
) -> None:
    """Raise UsageError where a kernel source is too old for a board, or lacks a device tree.

    ``dtbs`` are those that are to be built, as make names them.
    """
    _new_enough(hardware, record)
    for name in dtbs:
        where = f"arch/{hardware.arch}/boot/dts/{name.removesuffix('.dtb')}.dts"
        if not source.open_tree(record.tree, progress).has(f"{record.git_tree}:{where}"):
            raise UsageError(
                f"device tree {name}: no such file, and Linux {record.version} has no {where}:"
                " fix the name"
            )


def ready_made(hardware: Hardware, image: Path, dtb: Path, out: Path) -> Kernel:
    """Take the user's own kernel and device tree; raises UsageError when they are not for it."""
    out.mkdir(parents=True, exist_ok=True)
    cache.take(image, hardware.arch, out)
    blob = _take_dtb(dtb, out)
    return Kernel(out / "Image", blob, out / "config", None, "unknown (ready-made image)")


def add_dtb(build: Path, hardware: Hardware, dtb: Path) -> None:
    """Put the user's device tree, checked, beside a built kernel, and note it in ``build.json``."""
    blob = _take_dtb(dtb, build)
    check_dtb(hardware, blob)
    record = results.read(build / "build.json", BuildRecord)
    trees = {blob.name: file_sha256(blob)}
    results.write(build / "build.json", record.model_copy(update={"dtbs": trees}))


def _take_dtb(path: Path, out: Path) -> Path:
    try:
        if not (out / path.name).is_file() or not path.samefile(out / path.name):
            shutil.copyfile(path, out / path.name)
    except OSError as error:
        raise UsageError(f"device tree {path}: {error.strerror}") from error
    return out / path.name


def package(
    hardware: Hardware,
    kernel: Kernel,
    out: Path,
    progress: Progress,
    dut: Path | None = None,
    job: Path | None = None,
) -> ImageRecord:
    """Make and check all that the board needs, in ``out``; also writes ``image.json``.

    ``dut`` and ``job`` go into the root file system (`rootfs.make_tree`). Raises UsageError when
    kernel or device tree do not fit the board, InfrastructureError when an image does not read
    back as it was written.
    """
    work = _Work(hardware, out)
    work.file(kernel.image.name)
    work.file(kernel.dtb.name)
    _check_symbols(work, kernel)
    work.checks.append(check_dtb(hardware, kernel.dtb))
    with scratch() as folder, progress.step("root file system"):
        root = folder / "root"
        packages = rootfs.make_tree(hardware.arch, dut, job, root, progress)
        _make_rootfs(work, root)
    if isinstance(hardware.boot, AndroidBoot):
        with progress.step("boot image"):
            _make_boot_image(work, hardware.boot, kernel)
    record = ImageRecord(
        board=hardware.name,
        arch=hardware.arch,
        kernel_version=kernel.version,
        fragments=hardware.fragments,
        toolchain=kernel.toolchain,
        cmdline=hardware.full_cmdline,
        packages=packages,
        files={name: _measured(work, name) for name in sorted(work.files)},
        checks=work.checks,
    )
    results.write(out / "image.json", record)
    return record


def boot_image(hardware: Hardware, kernel: Kernel, out: Path) -> Path:
    """Make and check in ``out`` the boot image alone; raises as `package`."""
    if not isinstance(hardware.boot, AndroidBoot):
        raise UsageError(f"board {hardware.name} has no boot image that could be flashed")
    work = _Work(hardware, out)
    work.checks.append(check_dtb(hardware, kernel.dtb))
    _make_boot_image(work, hardware.boot, kernel)
    return out / BOOT_IMAGE


def root_image(hardware: Hardware, dut: Path, job: Path, out: Path, progress: Progress) -> Path:
    """Make and check in ``out`` the root file system with a job, gzip'd; raises as `package`."""
    work, spec = _Work(hardware, out), hardware.rootfs
    rootfs.make_tree(hardware.arch, dut, job, out / "root", progress)
    if not isinstance(spec, PartitionRootfs):
        return _make_ramdisk(work, out / "root")
    raw = _make_ext4(work, spec, out / "root")
    packed = work.file(f"{ROOTFS}.gz", spec.partition)
    _gzip(raw, packed)
    raw.unlink()
    return packed


def _new_enough(hardware: Hardware, record: SourceRecord) -> None:
    have = tuple(int(word) for word in record.version.split("-")[0].split(".")[:2])
    need = tuple(int(word) for word in hardware.oldest_kernel.split("."))
    if have < need:
        raise UsageError(
            f"board {hardware.name} needs Linux {hardware.oldest_kernel} or newer, and"
            f" {record.tree} is {record.version}: name another --tree"
        )


def _check_symbols(work: _Work, kernel: Kernel) -> None:
    paths = [kconfig.fragment_path(name) for name in work.hardware.fragments]
    config = kernel.config.read_text()
    if not kconfig.read_config(kernel.config):
        work.checks.append(f"symbols: not known, {config.strip().removeprefix('# ')}")
        return
    lost = kconfig.lost(paths, kernel.config)
    if lost:
        words = "; ".join(str(item) for item in lost)
        raise UsageError(f"{kernel.image}: {words}: build it with the board's fragments")
    count = len({request.symbol for path in paths for request in kconfig.read_fragment(path)})
    work.checks.append(f"all {count} symbols of the fragments are as requested")


def check_dtb(hardware: Hardware, path: Path) -> str:
    """Raise UsageError for what is no whole device tree blob of the board; returns what it is."""
    data = path.read_bytes()
    if data[:4] != androidboot.DTB_MAGIC or int.from_bytes(data[4:8], "big") != len(data):
        raise UsageError(f"{path}: is not a device tree blob: give a .dtb file")
    wanted = hardware.compatible
    if wanted.encode() + b"\0" not in data:
        raise UsageError(f"{path}: its device tree is not for {wanted}: give the board's own")
    return f"{path.name} is a device tree for {wanted}"


def _make_rootfs(work: _Work, root: Path) -> None:
    spec = work.hardware.rootfs
    if not isinstance(spec, PartitionRootfs):
        _make_ramdisk(work, root)
        return
    raw = _make_ext4(work, spec, root)
    packed = work.file(f"{ROOTFS}.sparse", spec.partition)
    _run(["img2simg", str(raw), str(packed)], "android-sdk-libsparse-utils")
    _check_sparse(work, raw, packed)
    _gzip(raw, work.file(f"{ROOTFS}.gz", spec.partition))
    raw.unlink()


def _make_ramdisk(work: _Work, root: Path) -> Path:
    plain, packed = work.out / "ramdisk.cpio", work.file("ramdisk.cpio.gz")
    rootfs.write_ramdisk(root, plain)
    _gzip(plain, packed)
    plain.unlink()
    return packed


def _make_ext4(work: _Work, spec: PartitionRootfs, root: Path) -> Path:
    raw = work.out / ROOTFS
    rootfs.write_ext4(root, raw, spec.size_mb)
    _run(["e2fsck", "-f", "-n", str(raw)], "e2fsprogs")
    work.checks.append(f"{ROOTFS}: e2fsck finds no error")
    _fits(work, ROOTFS, raw.stat().st_size, spec.partition)
    return raw


def _check_sparse(work: _Work, raw: Path, packed: Path) -> None:
    """Read the sparse image back, by code that does not come from the writer."""
    with packed.open("rb") as stream, raw.open("rb") as original:
        header = sparse.read_header(stream)
        if header is None or header.unpacked != raw.stat().st_size:
            raise InfrastructureError(f"{packed}: is not the sparse form of {raw.name}: img2simg")
        at = 0
        for offset, data in sparse.pieces(stream, header):
            gap = original.read(offset - at)
            if gap.strip(b"\0") or original.read(len(data)) != data:
                raise InfrastructureError(f"{packed}: differs from {raw.name} at {offset}")
            at = offset + len(data)
        if original.read().strip(b"\0"):
            raise InfrastructureError(f"{packed}: the end of {raw.name} is missing")
    work.checks.append(f"{packed.name} unpacks to the bytes of {raw.name}")


def _make_boot_image(work: _Work, spec: AndroidBoot, kernel: Kernel) -> None:
    target = work.file(BOOT_IMAGE, spec.partition)
    with scratch() as folder:
        packed, ramdisk = folder / "Image.gz-dtb", folder / "ramdisk"
        _gzip(kernel.image, packed)
        with packed.open("ab") as stream:
            stream.write(kernel.dtb.read_bytes())
        # Without /init in it the kernel mounts root= by itself; the boot loader wants a ramdisk.
        for part in ("dev", "root"):
            (folder / "tree" / part).mkdir(parents=True)
        write_cpio(folder / "tree", ramdisk)
        command = ["mkbootimg", "--header_version", "0", "--kernel", str(packed)]
        command += ["--ramdisk", str(ramdisk), "--cmdline", work.hardware.full_cmdline]
        command += ["--pagesize", str(spec.page_size), "--base", hex(spec.base)]
        command += ["--kernel_offset", hex(spec.kernel_offset), "--output", str(target)]
        command += ["--ramdisk_offset", hex(spec.ramdisk_offset)]
        command += ["--tags_offset", hex(spec.tags_offset)]
        _run(command, "mkbootimg")
        _check_boot_image(work, spec, kernel, target, ramdisk.read_bytes())
    _fits(work, BOOT_IMAGE, target.stat().st_size, spec.partition)


def _check_boot_image(
    work: _Work, spec: AndroidBoot, kernel: Kernel, path: Path, ramdisk: bytes
) -> None:
    try:
        found = androidboot.parse(path.read_bytes())
    except androidboot.BootImageError as error:
        raise InfrastructureError(f"{path}: does not read back: {error}") from error
    wanted = androidboot.BootImage(
        page_size=spec.page_size,
        kernel_address=spec.base + spec.kernel_offset,
        ramdisk_address=spec.base + spec.ramdisk_offset,
        tags_address=spec.base + spec.tags_offset,
        kernel=kernel.image.read_bytes(),
        dtb=kernel.dtb.read_bytes(),
        ramdisk=ramdisk,
        cmdline=work.hardware.full_cmdline,
    )
    if found != wanted:
        names = [n for n in vars(wanted) if getattr(found, n) != getattr(wanted, n)]
        raise InfrastructureError(f"{path}: does not read back: {', '.join(names)}: mkbootimg")
    work.checks.append(
        f"{path.name} reads back: addresses, command line, ramdisk, and this very Image and DTB"
    )


def _fits(work: _Work, name: str, size: int, partition: str) -> None:
    room = _room(work, partition)
    if room is None:
        return
    if size > room:
        raise UsageError(
            f"{name} has {size} bytes and partition {partition} of {work.hardware.name} {room}:"
            " make it smaller"
        )
    work.checks.append(f"{name}: {size} bytes fit into partition {partition} ({room})")


def _room(work: _Work, partition: str | None) -> int | None:
    storage = work.hardware.storage
    return storage.size(partition) if storage is not None and partition else None


def _measured(work: _Work, name: str) -> ImageFile:
    path, partition = work.out / name, work.files[name]
    return ImageFile(
        size=path.stat().st_size,
        sha256=file_sha256(path),
        partition=partition,
        room=_room(work, partition),
    )


def _gzip(source_path: Path, target: Path) -> None:
    """As ``gzip -n``: neither name nor time, so the same bytes give the same bytes."""
    with (
        source_path.open("rb") as stream,
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, mtime=0) as out,
    ):
        shutil.copyfileobj(stream, out, 1 << 20)


def _run(command: list[str], package_name: str) -> None:
    require_tool(command[0], package_name)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        text = (done.stderr + done.stdout).strip()
        last = text.splitlines()[-1] if text else f"status {done.returncode}"
        raise InfrastructureError(f"{command[0]} failed: {last}", text)
