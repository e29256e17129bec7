"""The lab's root file system: LAVA and what it needs, from Debian's packages, made once.

A running lab lays a file system in memory over it and never changes it, so every lab begins with
the same empty database.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from iotoll.core.digest import files_sha256, json_sha256
from iotoll.core.errors import InfrastructureError
from iotoll.core.lock import held
from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.proc import require_tool, run_logged
from iotoll.core.progress import Progress

SUITE = "trixie"
BACKPORTS = (
    "lava-common",
    "lava-dispatcher",
    "lava-server",
    "lava-server-doc",  # a dependency of lava-server's web pages
    "python3-django",
)
"""From trixie-backports: LAVA 2026.10, and the Django that it needs."""
PACKAGES = (
    "postgresql",
    "qemu-system-arm",
    "qemu-system-x86",
    "nbdkit",  # disks of the virtual boards
    "cpio",  # LAVA puts its overlay into ramdisks with it
    "e2fsprogs",  # ... and into ext4 images, with debugfs
    "file",
    "ca-certificates",
    "netcat-openbsd",  # a serial line over TCP, as ser2net gives it
    "fastboot",  # HiKey960 is flashed with it
)
PREPARED = ("prepare.sh", "settings.yaml")
"""What makes the database, in the folder `scripts`."""
LAYOUT = 3  # change it when the tree is made differently, so that cached ones are redone
NO_DAEMONS = (
    'mkdir -p "$1/usr/sbin"; printf "#!/bin/sh\\nexit 101\\n" >"$1/usr/sbin/policy-rc.d"; '
    'chmod 755 "$1/usr/sbin/policy-rc.d"'
)
NO_COMPILER = (
    # Some hundred packages would each start Python to compile their modules: done once, at the end.
    'mkdir -p "$1/usr/local/bin"; ln -s /bin/true "$1/usr/local/bin/py3compile"'
)
SCRIPTS_PATH = 'DPkg::Path "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"'
"""Where the packages' scripts find programs: apt's own choice has no /usr/local."""
COMPILE = (
    # Some packages carry files that are no Python of this version: they are left as they are.
    'rm "$1/usr/local/bin/py3compile"; chroot "$1" python3 -m compileall -qq -j 0 '
    "/usr/lib/python3/dist-packages /usr/share/lava-server || true"
)
UNREAD = ("doc", "info", "man", "locale", "lintian")
"""Folders of /usr/share that nothing in a lab reads."""
SERVED = "/usr/share/doc/lava-server-doc/*"
"""Part of the web pages: without it the server does not start. dpkg keeps the folder itself only
when the pattern names it up to its wildcard."""
DPKG = "\n".join(
    [
        "force-unsafe-io",
        *(f"path-exclude=/usr/share/{name}/*" for name in UNREAD),
        f"path-include={SERVED}",
    ]
)
LEAVE_OUT = (
    # Not by --dpkgopt: mmdebstrap would then send each essential package through a Python filter.
    f'mkdir -p "$1/etc/dpkg/dpkg.cfg.d"; printf "%s\\n" "{DPKG}" >"$1/etc/dpkg/dpkg.cfg.d/lab"'
)
NAMESPACES = ("--fork", "--pid", "--mount", "--uts", "--ipc", "--propagation", "private")
"""What a lab has of its own, as words of unshare; it shares the network, for its ports."""


def scripts() -> Path:
    """The folder of the files that run or are read inside the root file system."""
    return data_dir("lava-jobs") / "lab"


def get_root(progress: Progress) -> Path:
    """Return the lab's root file system, made once and then from the cache."""
    prepared = files_sha256([scripts() / name for name in PREPARED], scripts())
    key = json_sha256([SUITE, BACKPORTS, PACKAGES, prepared, LAYOUT])[:16]
    root = cache_dir() / "lab" / f"root-{key}"
    if root.is_dir():
        return root
    title = "LAVA's root file system (once: 900 MB, about three minutes)"
    waits = "another command makes LAVA's root file system: waiting for it"
    with held(root.parent / f".{root.name}.lock", progress, waits):
        if not root.is_dir():
            with progress.step(title):
                _build(root)
    return root


def version(root: Path) -> str:
    """LAVA's version in a root file system."""
    found = list((root / "usr/lib/python3/dist-packages").glob("lava-*.egg-info"))
    return found[0].name.removeprefix("lava-").removesuffix(".egg-info") if found else "unknown"


def _build(root: Path) -> None:
    require_tool("mmdebstrap", "mmdebstrap")
    log = root.parent / "root.log"
    log.unlink(missing_ok=True)
    work = Path(tempfile.mkdtemp(prefix="new-", dir=root.parent))
    work.chmod(0o755)  # a service's user must reach its files
    try:
        tree = work / "root"
        run_logged(_mmdebstrap(tree), log, timeout=1800, env={"LC_ALL": "C.UTF-8"})
        (tree / "lab").mkdir()
        for name in PREPARED:
            shutil.copy(scripts() / name, tree / "lab")
        # Debian's scripts make the database; it needs /proc and a first process that goes away.
        prepare = [sys.executable, "-m", "iotoll_lab.local.namespaces", "prepare", str(tree)]
        run_logged(["unshare", *NAMESPACES, "--kill-child=KILL", *prepare], log, timeout=600)
        tree.rename(root)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _mmdebstrap(tree: Path) -> list[str]:
    mirror = _mirror()
    names = [f"{name}/{SUITE}-backports" for name in BACKPORTS]
    return [
        "mmdebstrap",
        "--mode=root",
        "--variant=apt",
        '--aptopt=APT::Install-Recommends "false"',
        f"--aptopt={SCRIPTS_PATH}",
        f"--setup-hook={LEAVE_OUT}",
        f"--setup-hook={NO_DAEMONS}",
        f"--setup-hook={NO_COMPILER}",
        f"--customize-hook={COMPILE}",
        f"--include={','.join([*names, *PACKAGES])}",
        SUITE,
        str(tree),
        f"deb {mirror} {SUITE} main",
        f"deb {mirror} {SUITE}-backports main",
    ]


def _mirror() -> str:
    """The Debian mirror that this machine uses."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"^(https?://\S+/debian)/?$", done.stdout, re.M)
    if done.returncode != 0 or not found:
        raise InfrastructureError("apt knows no Debian mirror: add one, then apt-get update")
    return found[1]
