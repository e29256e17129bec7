"""The patched QEMU of the exact boards: where it is, what identifies it, why it is not there."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.paths import cache_dir, data_dir


def build_script() -> Path:
    """tools/qemu/build.sh, which knows all about it; raises UsageError when it is absent."""
    return data_dir("tools/qemu") / "build.sh"


@cache
def digest() -> str:
    """What identifies the patched QEMU: its source, patches, devices and build.

    It is what build.sh computes: sha256 of the source's sha256 and of each file's, as sha256sum
    prints them. Raises UsageError when build.sh pins no source.
    """
    script = build_script()
    pinned = re.search(r"^readonly SHA256=([0-9a-f]{64})$", script.read_text(), re.M)
    if pinned is None:
        raise UsageError(f"{script} pins no sha256 of its source: reinstall iotoll")
    files = [*sorted(script.parent.glob("patches/*.patch"))]
    files += [*sorted(script.parent.glob("devices/*.mak"))]
    files += [script.with_name("requirements.txt"), script]
    lines = [pinned[1], *(f"{file_sha256(path)}  -" for path in files)]
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]


def folder() -> Path:
    """The folder of the patched QEMU, built or not.

    A container image has it beside the script that built it: its cache is a folder of the runner's.
    """
    inside = build_script().parent / "built" / digest()
    return inside if inside.is_dir() else cache_dir() / "qemu" / digest()


def binary(name: str) -> str:
    """The path of one of its programs; raises InfrastructureError when it is not built."""
    path = folder() / "bin" / name
    if not path.is_file():
        raise InfrastructureError(
            f"the patched {name} is not built: {build_command(name)}"
            " (without it there are the boards virt-...-stock)"
        )
    return str(path)


def build_command(name: str) -> str:
    """The command that builds one of its programs."""
    target = name.removeprefix("qemu-system-").removesuffix("-exact")
    return f"bash {build_script()} {target}"


def why_not() -> str:
    """Why the last build failed, as its log says; empty if there was none."""
    try:
        lines = folder().with_suffix(".log").read_text(errors="replace").splitlines()
    except (UsageError, OSError):
        return ""
    told = [line for line in lines if line.startswith("qemu: not built: ")]
    return told[-1].removeprefix("qemu: ") if told else ""
