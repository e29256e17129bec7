"""Mounts what the sandbox writes, starts it, and waits until no process of it is left.

Runs as ``python -m iotoll.kernels.layers SPEC COMMAND…`` in its own mount namespace. Each layer is
an overlay above a folder. Where root runs this, the folders are mapped: what root owns on the disk
belongs to an ordinary user in here, so that the sandbox can run as one (``UID``) although a
runner's cache is root's. Root itself owns the kernel's settings, whatever capabilities it lacks.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

UID = 64571
"""The sandbox's user where root runs it: nobody's, in no range that Debian gives away."""
_LAST = (1 << 32) - 2
_AT_FDCWD, _AT_EMPTY_PATH, _CLONE_NEWUSER = -100, 0x1000, 0x10000000
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # on all architectures alike
_OPEN_TREE_CLONE, _MOVE_EMPTY_PATH, _ATTR_IDMAP = 1, 4, 0x100000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1
TELLS = "IOTOLL_SANDBOX_TELLS"
"""Names the file that this program writes its exit code to, once nothing runs any more."""
_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def _call(what: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _mapping() -> int:
    """A file descriptor of a user namespace that calls root ``UID`` and everybody else the same."""
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        status = _libc.unshare(_CLONE_NEWUSER)
        os.write(ready[1], b"1" if status == 0 else b"0")
        os.read(go[0], 1)
        os._exit(0)
    try:
        if os.read(ready[0], 1) != b"1":
            raise OSError("a user namespace is refused")
        rest = f"1 1 {UID - 1}\n{UID + 1} {UID + 1} {_LAST - UID - 1}\n"
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{child}/{name}").write_text(f"0 {UID} 1\n{rest}")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY)
    finally:
        os.write(go[1], b"1")
        os.waitpid(child, 0)
        for end in (*ready, *go):
            os.close(end)


def mapped(source: Path, target: Path, users: int) -> None:
    """Mount ``source`` at ``target`` with its owners mapped by the user namespace ``users``."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    path = os.fsencode(source)
    tree = _call("open_tree", _libc.syscall(_OPEN_TREE, _AT_FDCWD, path, flags))
    attr = _MountAttr(set=_ATTR_IDMAP, userns_fd=users)
    words = (tree, b"", _AT_EMPTY_PATH, ctypes.byref(attr), ctypes.sizeof(attr))
    _call("mount_setattr", _libc.syscall(_MOUNT_SETATTR, *words))
    place = (tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_EMPTY_PATH)
    _call("move_mount", _libc.syscall(_MOVE_MOUNT, *place))
    os.close(tree)


def mount(layers: Sequence[dict[str, str]], written: Sequence[dict[str, str]]) -> None:
    """Mount overlays (``lower``, ``folder``) and plain folders (``lower``, ``view``).

    A layer's ``folder`` holds ``base``, ``view``, ``upper`` and ``work``.
    """
    users = _mapping() if is_root() else None
    for layer in layers:
        folder = Path(layer["folder"])
        if users is None:
            lower = layer["lower"]
        else:
            mapped(Path(layer["lower"]), folder / "base", users)
            for name in ("upper", "work"):
                os.chown(folder / name, UID, UID)
            lower = "base"
        # From inside its folder: /proc/mounts then tells nobody where that is.
        os.chdir(folder)
        guarded = "".join(f"\\{c}" if c in "\\,:" else c for c in lower)
        # Without root an overlay keeps its notes in attributes that a user may write.
        own = "" if users is not None else ",userxattr"
        options = f"lowerdir={guarded},upperdir=upper,workdir=work{own}"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, "view"], check=True)
    for one in written:
        if users is None:
            subprocess.run(["mount", "--bind", one["lower"], one["view"]], check=True)
        else:
            mapped(Path(one["lower"]), Path(one["view"]), users)
    os.chdir("/")


def leave_keys() -> None:
    """Take a session keyring that is empty: no namespace hides the one that this one inherits.

    Raises OSError where that fails. A kernel without keyrings has none to hide.
    """
    number = _KEYCTL.get(os.uname().machine)
    if number is None:
        raise OSError(f"the number of keyctl on {os.uname().machine} is not known")
    if _libc.syscall(number, _JOIN_SESSION_KEYRING, None) < 0:
        error = ctypes.get_errno()
        if error != errno.ENOSYS:
            raise OSError(error, f"keyctl: {os.strerror(error)}")


def is_root() -> bool:
    """Whether this is the machine's own root, not a user whom a container calls so."""
    ids = Path("/proc/self/uid_map").read_text().split()
    return os.geteuid() == 0 and ids == ["0", "0", str((1 << 32) - 1)]


def run(command: Sequence[str]) -> int:
    """Run a command, and wait for every process that it leaves; returns its exit code.

    bubblewrap ends before its process namespace does, whose processes can still write then. They
    become children of this one, and the namespace's first process ends as its last.
    """
    _call("prctl", _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    child = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    status = 1
    while True:
        try:
            pid, ended = os.wait()
        except ChildProcessError:
            return status
        if pid == child.pid:
            code = os.waitstatus_to_exitcode(ended)
            status = code if code >= 0 else 128 - code


def main(words: Sequence[str]) -> int:
    """Mount by the JSON of the first word, and run the others."""
    # An iotoll that is killed leaves nothing behind: bubblewrap ends with this process.
    _call("prctl", _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    tells = os.environ.pop(TELLS, None)
    spec = json.loads(words[0])
    try:
        mount(spec["layers"], spec["written"])
        leave_keys()
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"iotoll: the sandbox cannot be made: {error}", file=sys.stderr)
        return 1
    status = run(words[1:])
    if tells is not None:
        _tell(int(tells), status)
    return status


def _tell(handle: int, status: int) -> None:
    """Say how it ended: until this process is gone, its mounts take a quarter of a second more."""
    for stream in (1, 2):
        os.close(stream)
    os.write(handle, bytes([status]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
