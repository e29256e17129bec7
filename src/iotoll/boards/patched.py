"""The patched QEMU of the exact boards: where it is, what identifies it, why it is not there."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import data_dir


def build_script() -> Path:
    """tools/qemu/build.sh, which knows all about it; raises UsageError when it is absent."""
    return data_dir("tools/qemu") / "build.sh"


@cache
def folder() -> Path:
    """The folder of the patched QEMU, built or not; its name is the digest.

    Raises InfrastructureError when the build script cannot say it.
    """
    done = subprocess.run(
        ["bash", str(build_script()), "--print"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0 or not done.stdout.strip():
        raise InfrastructureError("tools/qemu/build.sh --print failed", done.stderr)
    return Path(done.stdout.strip())


def digest() -> str:
    """What identifies the patched QEMU: its source, patches, devices and build."""
    return folder().name


def binary(name: str) -> str:
    """The path of one of its programs; raises InfrastructureError when it is not built."""
    path = folder() / "bin" / name
    if not path.is_file():
        raise InfrastructureError(
            f"the patched {name} is not built: {build_script()}"
            " (without it there are the boards virt-...-stock)"
        )
    return str(path)


def why_not() -> str:
    """Why the last build failed, as its log says; empty if there was none."""
    try:
        lines = folder().with_suffix(".log").read_text(errors="replace").splitlines()
    except (InfrastructureError, UsageError, OSError):
        return ""
    told = [line for line in lines if line.startswith("qemu: not built: ")]
    return told[-1].removeprefix("qemu: ") if told else ""
