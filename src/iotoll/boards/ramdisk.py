"""The DUT's root file system, as a ramdisk: fio, trace-cmd, e2fsprogs and busybox from Debian.

The packages are unpacked, never run, so a board of another architecture needs no emulation here
(mmdebstrap ``--variant=extract``). Only the programs below and the libraries that they need are
kept, without the clients of storage over a network that Debian's fio is linked with (`REMOTE`).
The image holds no job: the host appends the scripts and the job as a second cpio archive.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iotoll.core.digest import file_sha256, files_sha256, json_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.core.lock import held
from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.proc import require_tool, run_logged
from iotoll.core.progress import Progress
from iotoll.core.scratch import scratch
from iotoll.kernels.kernel_job import TARGETS, Arch
from iotoll.records.results import write_text

SUITE = "trixie"
PACKAGES = ("fio", "trace-cmd", "e2fsprogs", "busybox-static", "dash")
PROGRAMS = (
    "usr/bin/fio",
    "usr/bin/trace-cmd",
    "usr/sbin/mke2fs",
    "usr/bin/dash",
    "usr/bin/busybox",
)
REMOTE = (
    "libgfapi",
    "libibverbs",
    "libnbd",
    "libnfs",
    "libpmem",
    "librados",
    "librbd",
    "librdmacm",
)
"""Libraries of I/O engines that no cell uses: with what they need four fifths of the image, which
each boot unpacks, and most of what is linked whenever fio starts."""
APPLETS = [
    "awk",
    "basename",
    "cat",
    "cp",
    "cttyhack",
    "cut",
    "date",
    "dd",
    "dirname",
    "dmesg",
    "echo",
    "env",
    "find",
    "grep",
    "head",
    "ln",
    "ls",
    "mkdir",
    "mknod",
    "mount",
    "mv",
    "od",
    "poweroff",
    "readlink",
    "reboot",
    "rm",
    "rmdir",
    "sed",
    "setsid",
    "sha256sum",
    "sleep",
    "sort",
    "stat",
    "sync",
    "tail",
    "tar",
    "taskset",
    "tr",
    "umount",
    "uname",
    "wc",
]
LAYOUT = 4  # change it when the tree below is made differently, so that cached images are redone
EPOCH = 1_767_225_600  # 2026-01-01, the board's clock at boot too
EXACT_ARCHES: tuple[Arch, ...] = ("arm64", "x86_64")
DEBIAN_ARCH = {"arm": "armhf", "arm64": "arm64", "x86_64": "amd64"}


@dataclass(frozen=True)
class Contents:
    """What a ramdisk holds: Debian packages, which of their programs, and busybox's applets."""

    packages: tuple[str, ...] = PACKAGES
    programs: tuple[str, ...] = PROGRAMS
    applets: tuple[str, ...] = tuple(APPLETS)


BOARD = Contents()


@dataclass(frozen=True)
class Image:
    """A ramdisk: an uncompressed newc cpio archive, its SHA-256 and its package versions."""

    path: Path
    sha256: str
    packages: dict[str, str]


def get_image(arch: str, progress: Progress, contents: Contents = BOARD) -> Image:
    """Return the ramdisk for ``arch`` (arm64, x86_64), built once and then from the cache."""
    what = [contents.packages, contents.programs, contents.applets]
    key = json_sha256([arch, SUITE, *what, LAYOUT, file_sha256(_start())])[:16]
    folder = cache_dir() / "rootfs" / f"{arch}-{key}"
    made = folder / "rootfs.cpio.sha256"
    if not made.is_file():
        waits = f"another command makes the board image for {arch}: waiting for it"
        with held(folder.with_name(f".{folder.name}.lock"), progress, waits):
            if not made.is_file():
                with progress.step(f"board image for {arch}"):
                    _build(arch, folder, contents)
    packages = dict(
        line.split(" ", 1) for line in (folder / "packages").read_text().splitlines() if line
    )
    sha256 = (folder / "rootfs.cpio.sha256").read_text().strip()
    return Image(folder / "rootfs.cpio", sha256, packages)


def _start() -> Path:
    """The source of iotoll-start, which lets a cell's threads begin in step."""
    return data_dir("lava-jobs") / "image/start.c"


_COMPILED = (
    "-Os",
    "-std=gnu11",
    "-nostdlib",
    "-ffreestanding",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-tree-loop-distribute-patterns",
    "-Wl,--build-id=none",
    "-Wl,-z,noexecstack",
)


def _compiler(arch: str) -> str | None:
    """The kernel's compiler, which need not have a libc; None: not for an exact board."""
    found = [TARGETS[name] for name in EXACT_ARCHES if name == arch]
    if not found:
        return None
    compiler = found[0].compiler
    require_tool(compiler, found[0].packages[compiler])
    return compiler


def _compile_start(compiler: str, target: Path, log: Path) -> None:
    words = [*_COMPILED, "-static", "-fno-pie", "-no-pie"]
    run_logged([compiler, *words, "-o", str(target), str(_start())], log, timeout=60)


def _without_remote(compiler: str, tree: Path, program: Path, log: Path) -> None:
    """Put stand-ins in the place of the `REMOTE` libraries that a program needs.

    They have the functions alone that it takes from them, so it starts; a call of one ends it.
    Raises InfrastructureError where it takes anything but functions.
    """
    # Data stands in the program's own list as if it were defined there (copy relocations).
    wanted = {s for s, kind, is_own in _symbols(program) if not is_own or kind == "OBJECT"}
    folders = _library_folders(tree)
    for name in _needed(program):
        place = next((f / name for f in folders if (f / name).exists()), None)
        if place is None or name.partition(".")[0] not in REMOTE:
            continue
        given = {s: kind for s, kind, is_defined in _symbols(place) if is_defined and s in wanted}
        if others := [symbol for symbol, kind in given.items() if kind != "FUNC"]:
            raise InfrastructureError(f"board image: {program.name} takes {others[0]} of {name}")
        place.unlink()
        _compile_stand_in(compiler, place, list(given), log)


def _compile_stand_in(compiler: str, library: Path, symbols: list[str], log: Path) -> None:
    by_version: dict[str, list[str]] = {}
    for symbol in symbols:
        function, _, version = symbol.partition("@")
        by_version.setdefault(version, []).append(function)
    with scratch() as folder:
        source, versions = folder / "stand-in.c", folder / "stand-in.map"
        functions = [one for some in by_version.values() for one in some]
        source.write_text("".join(f"void {f}(void) {{ __builtin_trap(); }}\n" for f in functions))
        nodes = [
            f"{version} {{ global: {' '.join(f'{one};' for one in some)} }};\n"
            for version, some in by_version.items()
        ]
        versions.write_text("".join(nodes))
        words = [*_COMPILED, "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
        words += ["-Wl,--hash-style=gnu", f"-Wl,--version-script={versions}", str(source)]
        run_logged([compiler, *words, "-o", str(library)], log, timeout=60)


def _symbols(path: Path) -> list[tuple[str, str, bool]]:
    """Dynamic symbols: name with its version (``f@V``), type, and whether they are defined."""
    output = subprocess.run(
        ["readelf", "-W", "--dyn-syms", str(path)], capture_output=True, text=True, check=False
    ).stdout
    rows = [line.split() for line in output.splitlines()]
    return [
        (row[7].replace("@@", "@"), row[3], row[6] != "UND")
        for row in rows
        if len(row) > 7 and row[0].rstrip(":").isdigit()
    ]


def _build(arch: str, folder: Path, contents: Contents) -> None:
    require_tool("mmdebstrap", "mmdebstrap")
    require_tool("cpio", "cpio")
    require_tool("readelf", "binutils")
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        work = Path(name)
        tree, root, log = work / "debian", work / "root", folder.parent / f"{arch}.log"
        log.unlink(missing_ok=True)
        command = ["mmdebstrap", "--variant=extract", f"--architectures={DEBIAN_ARCH[arch]}"]
        # Packages' own scripts never run, so their system-wide set-up hooks are not needed.
        command += [f"--include={','.join(contents.packages)}", SUITE, str(tree)]
        run_logged(command, log, timeout=900)
        compiler = _compiler(arch)
        if compiler:
            for program in contents.programs:
                _without_remote(compiler, tree, tree / program, log)
        _assemble(tree, root, contents)
        if compiler:
            _compile_start(compiler, root / "usr/bin/iotoll-start", log)
        out = work / "out"
        out.mkdir()
        versions = _versions(tree, contents.packages)
        write_text(root / "etc/iotoll-tools", tools(versions))
        write_cpio(root, out / "rootfs.cpio")
        write_text(out / "packages", "".join(f"{n} {v}\n" for n, v in versions.items()))
        write_text(out / "rootfs.cpio.sha256", file_sha256(out / "rootfs.cpio") + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        out.replace(folder)


def _versions(tree: Path, packages: tuple[str, ...]) -> dict[str, str]:
    # `extract` leaves dpkg's database empty; the package files' names carry the versions.
    names = sorted(p.name for p in (tree / "var/cache/apt/archives").glob("*.deb"))
    found = dict(name.split("_")[:2] for name in names)
    if not found:
        lists = [*tree.glob("usr/share/doc/*/changelog.Debian.gz")]
        found = {p.parent.name: _changelog_version(p) for p in lists if p.parent.name in packages}
    return {name: found[name] for name in packages if name in found}


def tools(versions: Mapping[str, str]) -> str:
    """What fio and trace-cmd say of their versions: to ask them takes an emulated board 0.5 s.

    ``versions`` are those of Debian's packages, with epoch and revision.
    """
    fio, trace_cmd = (
        re.sub(r"^\d+:|-[^-]*$", "", versions.get(name, "unknown")) for name in ("fio", "trace-cmd")
    )
    return f"fio fio-{fio}\ntrace-cmd {trace_cmd}\n"


def _changelog_version(path: Path) -> str:
    with gzip.open(path, "rt", errors="replace") as stream:
        match = re.match(r"\S+ \(([^)]+)\)", stream.readline())
    return match[1] if match else "unknown"


def _needed(path: Path) -> list[str]:
    # host readelf reads ELF files of every architecture's headers
    output = subprocess.run(
        ["readelf", "-d", str(path)], capture_output=True, text=True, check=False
    ).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output)


def _library_folders(tree: Path) -> list[Path]:
    folders = [p for p in tree.glob("usr/lib/*-linux-gnu*") if p.is_dir()]
    return [*folders, *(p for f in folders for p in f.iterdir() if p.is_dir()), tree / "usr/lib"]


def _closure(tree: Path, programs: tuple[str, ...]) -> set[Path]:
    folders = _library_folders(tree)
    todo, seen = [tree / p for p in programs], set[Path]()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        for library in _needed(path):
            hits = [f / library for f in folders if (f / library).exists()]
            if not hits:
                raise InfrastructureError(f"board image: {path.name} needs {library}: not found")
            todo.append(hits[0])
    return seen


def _assemble(tree: Path, root: Path, contents: Contents) -> None:
    library = root / "usr/lib"
    for folder in (
        "usr/bin",
        "usr/sbin",
        "usr/lib",
        "proc",
        "sys",
        "dev",
        "tmp",
        "etc",
        "mnt",
        "root",
        "run",
        "iotoll",
    ):
        (root / folder).mkdir(parents=True)
    for path in _closure(tree, contents.programs):
        relative = path.relative_to(tree)
        # One library folder, so that no ld.so.conf is needed (ceph's lie a level deeper).
        target = root / relative if "bin" in relative.parts[1] else library / path.name
        shutil.copy(path.resolve(), target)
    for loader in [*tree.glob("usr/lib/ld-linux*"), *tree.glob("usr/lib64/ld-linux*")]:
        (root / loader.parent.relative_to(tree)).mkdir(exist_ok=True)
        shutil.copy(_inside(tree, loader), root / loader.relative_to(tree))
    for name in ("bin", "sbin", "lib", "lib64"):
        if (root / "usr" / name).is_dir():
            (root / name).symlink_to(f"usr/{name}")
    for applet in contents.applets:
        (root / "usr/bin" / applet).symlink_to("busybox")
    (root / "usr/bin/sh").symlink_to("dash")
    (root / "usr/sbin/mkfs.ext4").symlink_to("mke2fs")
    shutil.copy(tree / "etc/mke2fs.conf", root / "etc/mke2fs.conf")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\n")


def _inside(tree: Path, link: Path) -> Path:
    """Follow a link as the board would: an absolute target lies inside the tree."""
    while link.is_symlink():
        target = link.readlink()
        link = tree / target.relative_to("/") if target.is_absolute() else link.parent / target
    return link


def dut_scripts() -> Path:
    """The folder of the DUT's scripts."""
    return data_dir("lava-jobs") / "dut"


def scripts_sha256() -> str:
    """Digest of the DUT's scripts: a boot with others is another boot."""
    scripts = dut_scripts()
    return files_sha256([path for path in scripts.rglob("*") if path.is_file()], scripts)


def job_cpio(job: Path, target: Path) -> None:
    """Write the DUT's scripts and a rendered job as the ramdisk's second archive."""
    scripts = dut_scripts()
    with scratch() as folder:
        root = folder / "root"
        shutil.copytree(scripts, root / "iotoll/dut")
        shutil.copytree(job, root / "iotoll/job")
        shutil.copy(scripts / "init", root / "init")
        (root / "init").chmod(0o755)
        write_cpio(root, target)


def whole_cpio(image: Image, job: Path, dut: Path, target: Path) -> None:
    """Write image, scripts, job and iotoll-dut as one archive, for those who unpack only one."""
    with scratch() as folder:
        root = folder / "root"
        job_cpio(job, folder / "job.cpio")
        root.mkdir()
        for archive in (image.path, folder / "job.cpio"):
            with archive.open("rb") as stream:
                done = subprocess.run(
                    ["cpio", "-i", "-d", "-m", "-u", "--quiet", "--no-absolute-filenames"],
                    stdin=stream,
                    stderr=subprocess.PIPE,
                    cwd=root,
                    check=False,
                )
            if done.returncode != 0:
                words = done.stderr.decode(errors="replace").strip()
                raise InfrastructureError(f"cannot unpack {archive}: {words}")
        shutil.copy(dut, root / "usr/bin/iotoll-dut")
        (root / "usr/bin/iotoll-dut").chmod(0o755)
        write_cpio(root, target)


def write_cpio(root: Path, target: Path) -> None:
    """Pack a tree as newc cpio with fixed owners, times and order: same tree, same bytes."""
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink():
            mode = 0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644
            path.chmod(mode)
        os.utime(path, (EPOCH, EPOCH), follow_symlinks=False)
    names = sorted(str(p.relative_to(root)) for p in root.rglob("*"))
    # Not straight to the file: on a full disk cpio would ask the terminal for the next volume.
    done = subprocess.run(
        ["cpio", "--reproducible", "--quiet", "-o", "-H", "newc", "-R", "0:0"],
        input="\n".join(names).encode(),
        capture_output=True,
        cwd=root,
        check=False,
    )
    if done.returncode != 0:
        raise InfrastructureError(f"cpio failed: {done.stderr.decode(errors='replace').strip()}")
    try:
        target.write_bytes(done.stdout)
    except OSError as error:
        raise InfrastructureError(f"cannot write {target}: {error.strerror}") from error
