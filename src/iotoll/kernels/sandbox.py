"""Runs what a candidate has a hand in, its build and its boots, where no secret can be seen.

A merge request is code of a stranger, and a kernel's build runs whatever its makefiles say. A job
of GitLab's always holds a token (``CI_JOB_TOKEN``) in its environment, in files beside its clone
and in the clone's own remote. So such a step runs in namespaces of its own (bubblewrap): without
the environment, other processes, the network, or any file but compilers, iotoll, its own run
directory, what a desk's run names, and the folders of the cache that the step needs; as an ordinary
user, also where root runs iotoll (`iotoll.kernels.layers`).

Of the cache it sees the folders that it is given by name (`Surroundings.cache`), each laid below an
overlay: a candidate reads them, and what it writes there is thrown away. Else one merge request
could leave a doctored compiler cache, or another base, for the next, or read another project's.
"""

from __future__ import annotations

import glob
import json
import math
import os
import select
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from iotoll.core.errors import InfrastructureError, IotollError, ResultError
from iotoll.core.paths import DATA_FOLDERS, cache_dir, data_dir
from iotoll.core.plain import plain_log
from iotoll.core.proc import SANDBOXED, THROWN_AWAY, require_tool, stop
from iotoll.core.scratch import scratch
from iotoll.kernels.layers import TELLS, UID, is_root
from iotoll.kernels.overrun import Disk, OverrunError
from iotoll.records.rundir import run_above

INSIDE = ("-P", "-m", "iotoll.ci.inside")  # -P: no module of the folder that a job stands in
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64")
ETC = ("alternatives", "fonts", "group", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd")
"""All of /etc that programs need; a runner keeps its own token in there."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LARGEST = 1 << 30  # bytes of one file that comes out; a kernel with debug information is smaller
LONGEST = 1 << 16  # bytes of a line of the sandbox that are passed on in one piece
WATCH_SECONDS = 0.2
MEMORY = 4 << 30  # bytes of /tmp, which is the machine's memory
TOOLS = ("qemu", "rootfs", "plugin", "uml", "matplotlib")
"""Folders of the cache that nothing of any project is in."""
SECRETS = ("lab",)
"""Folders of the cache that no trusted step sees: a lab on this machine keeps its tokens there."""
_SCRATCH = "sandbox-"
ALONE = ("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--die-with-parent")


@dataclass(frozen=True)
class Kept:
    """Files that a step may bring out, as paths relative to its run directory."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Surroundings:
    """What else a step sees and is told, and how it is watched.

    ``cache`` are all folders of the cache that it sees. ``hidden`` folders of the run are empty in
    there. ``shown`` files and folders are there, read-only, under their own names;
    names that do not begin with / are of ``folder``, where the step stands. ``hear`` is given each
    line that the step prints, which is then not passed on.
    Once ``cancelled`` is set the step is ended, and after ``seconds``. ``ended`` is called when
    nothing of the step runs any more, before what it wrote is removed, which can take its time.
    """

    cache: Sequence[Path] = ()
    hidden: Sequence[Path] = ()
    shown: Sequence[Path] = ()
    folder: Path = Path("/")
    variables: Mapping[str, str] = field(default_factory=dict)
    hear: Callable[[str], None] | None = None
    cancelled: threading.Event | None = None
    seconds: float | None = None
    ended: Callable[[], None] | None = None


BARE = Surroundings()


def tools() -> list[Path]:
    """What a boot or a report needs of the cache: QEMU, libraries, RAM disks, a list of fonts."""
    return [path for name in TOOLS if (path := cache_dir() / name).is_dir()]


def run(
    words: Sequence[str],
    run_root: Path,
    kept: Kept | None,
    trusted: bool = False,
    around: Surroundings = BARE,
) -> int:
    """Run iotoll's own Python with ``words`` in the sandbox; returns its exit code.

    With ``kept``, the step sees the run directory and changes a copy, of which these files alone
    come back; without, it writes the run directory itself. ``trusted`` code sees and fills the
    whole cache.
    Raises InfrastructureError where this machine allows no sandbox.
    """
    require_tool("bwrap", "bubblewrap")
    for tool in ("unshare", "mount", "setpriv"):
        require_tool(tool, "util-linux" if tool != "mount" else "mount")
    with ExitStack() as ending:
        scratch = _scratch(run_root)
        ending.callback(_remove, scratch)
        cache = cache_dir()
        layers = []
        if trusted:
            secret = [path for name in SECRETS if (path := cache / name).is_dir()]
            around = replace(around, hidden=[*around.hidden, *secret])
        else:
            for number, path in enumerate(around.cache):
                layers.append(_Layer(path, scratch / f"cache-{number}"))
        if kept is not None:
            layers.append(_Layer(run_root, scratch / "run"))
        written = [] if kept is not None else [run_root]
        written += [cache] if trusted else []
        seen = [cache] if trusted else around.cache
        places = _Places(scratch, run_root, layers, written, _shown(around, [*seen, run_root]))
        if not trusted:
            around = replace(around, variables={**around.variables, THROWN_AWAY: "1"})
        try:
            disk = Disk(scratch, *([run_root] if kept is None else []))
            status = _execute(_wrapped(places, around, words), around, disk, ending)
        finally:
            if around.ended is not None:
                around.ended()
        if kept is not None:
            _bring_out(scratch / "run/upper", run_root, kept.names)
        if kept is not None and kept.names:  # what it wrote is much: nobody waits for its removal
            threading.Thread(target=ending.pop_all().close, name="sandbox").start()
    return status


class _Layer:
    """A folder that looks as it is, and whose changes land in another one."""

    def __init__(self, lower: Path, scratch: Path) -> None:
        self.lower = lower
        self.folder = scratch
        self.view = scratch / "view"
        self.upper = scratch / "upper"
        for name in ("base", "view", "upper", "work"):
            (scratch / name).mkdir(parents=True)


def _scratch(run_root: Path) -> Path:
    # Beside the run directory: an overlay needs a file system that is none itself, and room. Below
    # the run, as a boot's folder is, it would keep the sandbox's user from opening the run again.
    root = run_above(run_root) or run_root
    root.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{root.name}-{_SCRATCH}"
    return Path(tempfile.mkdtemp(prefix=prefix, dir=root.parent))


def sweep(folder: Path, name: str | None = None) -> None:
    """Remove what sandboxes of runs in ``folder`` left whose iotoll was killed; none may run.

    Of the run directory ``name`` alone, if that is given.
    """
    which = "*" if name is None else glob.escape(name)
    for left in folder.glob(f".{which}-{_SCRATCH}*"):
        _remove(left)


def _remove(scratch: Path) -> None:
    # The overlay's own folder has no permission bits. Another thread may remove it meanwhile.
    for work in scratch.glob("*/work/work"):
        with suppress(FileNotFoundError):
            work.chmod(0o700)
    shutil.rmtree(scratch, ignore_errors=True)


class _Places:
    """Where the folders of one sandbox lie on the host, and under which names it has them."""

    def __init__(
        self,
        scratch: Path,
        run_root: Path,
        layers: Sequence[_Layer],
        written: Sequence[Path],
        shown: Sequence[Path],
    ) -> None:
        self.layers = layers
        self.own = _own_files()
        self.views: list[tuple[str, Path, Path]] = []  # bubblewrap's word, on the host, in there
        for word, paths in (("--bind", written), ("--ro-bind", shown)):
            for path in paths:
                view = scratch / f"view-{len(self.views)}"
                view.touch() if path.is_file() else view.mkdir()
                self.views.append((word, view, path))
        inside = (*self.own, run_root, cache_dir(), *shown, *(one.lower for one in layers))
        self.above = sorted({parent for path in inside for parent in path.parents})

    @property
    def spec(self) -> str:
        """What `iotoll.kernels.layers` is to mount."""
        layers = [{"lower": str(one.lower), "folder": str(one.folder)} for one in self.layers]
        plain = [{"lower": str(p.resolve()), "view": str(view)} for _, view, p in self.views]
        return json.dumps({"layers": layers, "written": plain})


def _shown(around: Surroundings, there: Sequence[Path]) -> list[Path]:
    """The paths that are to be seen and would not be, each with its whole name."""
    seen = (*_own_files(), *map(Path, SYSTEM), *there)
    paths = [Path(os.path.normpath(around.folder / path)) for path in around.shown]
    return [
        path
        for path in dict.fromkeys(paths)
        if path.exists() and not any(path.is_relative_to(one) for one in seen)
    ]


def _wrapped(places: _Places, around: Surroundings, words: Sequence[str]) -> list[str]:
    root = is_root()
    command = ["unshare", "--mount", "--propagation", "private"]
    command += [] if root else ["--map-root-user"]
    command += [sys.executable, "-P", "-m", "iotoll.kernels.layers", places.spec]
    command += ["bwrap", *ALONE, "--new-session", "--cap-drop", "ALL"]
    command += ["--perms", "0755", "--dir", "/etc"]
    for name in (*SYSTEM, *(f"/etc/{name}" for name in ETC)):
        command += ["--ro-bind-try", name, name]
    # Read-only as a whole: most settings below /proc/sys are the machine's, not a namespace's.
    command += ["--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc"]
    command += ["--perms", "1777", "--size", str(MEMORY), "--tmpfs", "/tmp"]
    # bubblewrap makes folders on the way for root alone.
    cache = cache_dir()
    inner = [folder for folder in places.above if folder.is_relative_to(cache)]
    for folder in (f for f in (*places.above, around.folder) if f not in inner):
        command += ["--perms", "0755", "--dir", str(folder)]
    command += ["--perms", "1777", "--size", str(MEMORY), "--tmpfs", str(cache)]
    for folder in (f for f in inner if f != cache):
        command += ["--perms", "0755", "--dir", str(folder)]
    for path in places.own:
        command += ["--ro-bind", str(path), str(path)]
    for layer in places.layers:
        command += ["--bind", str(layer.view), str(layer.lower)]
    for word, view, path in places.views:
        command += [word, str(view), str(path)]
    for path in around.hidden:
        command += ["--perms", "1777", "--size", str(MEMORY), "--tmpfs", str(path)]
    if root:  # to become an ordinary user, which has no capability
        command += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    command += ["--chdir", str(around.folder)]
    if root:
        command += ["setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"]
        command += ["--inh-caps=-all"]
    return [*command, sys.executable, *words]


def _own_files() -> list[Path]:
    """Where iotoll, its interpreter and its data are, outermost folders only."""
    found = {Path(p).resolve() for p in (sys.prefix, sys.base_prefix, *sys.path) if p}
    found |= {Path(sys.prefix)} | {data_dir(name).resolve() for name in DATA_FOLDERS}
    ordered = sorted(path for path in found if path.exists() and not _system(path))
    # An import path that is a working folder would show the job's clone: it is none of ours.
    ordered = [path for path in ordered if path != Path.cwd()]
    return [path for path in ordered if not any(o in path.parents for o in ordered)]


def _system(path: Path) -> bool:
    return any(path.is_relative_to(name) for name in SYSTEM)


def _environment() -> dict[str, str]:
    # bubblewrap is the first process in there, and anyone may read what it was started with.
    return {
        "PATH": PATH,
        "HOME": "/tmp",
        "LC_ALL": "C.UTF-8",
        "IOTOLL_CACHE": str(cache_dir()),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p and Path(p) != Path.cwd()),
        "PYTHONDONTWRITEBYTECODE": "1",
        SANDBOXED: "1",
        "MPLCONFIGDIR": str(cache_dir() / "matplotlib"),  # its list of fonts, made once
    }


def _execute(command: list[str], around: Surroundings, disk: Disk, ending: ExitStack) -> int:
    told, tells = os.pipe()
    ending.callback(os.close, told)
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**_environment(), **around.variables, TELLS: str(tells)},
        start_new_session=True,
        pass_fds=(tells,),
    )
    os.close(tells)
    ending.callback(process.wait)
    pairs = ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
    words = [(source, around.hear or _writer(target)) for source, target in pairs]
    pumps = [threading.Thread(target=_pump, args=pair, daemon=True) for pair in words]
    for pump in pumps:
        pump.start()
    end = math.inf if around.seconds is None else time.monotonic() + around.seconds
    status = b""
    try:
        while True:
            if select.select([told], [], [], WATCH_SECONDS)[0]:
                # Nothing, where it was killed, or its mounts could not be made.
                status = os.read(told, 1)
                return status[0] if status else process.wait()
            if around.cancelled is not None and around.cancelled.is_set():
                raise InfrastructureError("interrupted before its end: run again to resume")
            if time.monotonic() > end:
                raise OverrunError(f"it did not end within {around.seconds:.0f} s: it was ended")
            disk.check()
    finally:
        if not status:
            stop(process)
        for pump in pumps:
            pump.join(5)


def _writer(target: IO[str]) -> Callable[[str], None]:
    def write(line: str) -> None:
        target.write(line)
        target.flush()

    return write


def _pump(source: IO[bytes], hear: Callable[[str], None]) -> None:
    """Pass on what the sandbox says, without what would steer a terminal or GitLab's log."""
    for line in iter(lambda: source.readline(LONGEST), b""):
        hear(plain_log(line.decode("utf-8", "replace")))


def _bring_out(upper: Path, run_root: Path, names: Iterable[str]) -> None:
    """Copy plain files that the step left; never follows what it may have put there instead.

    Each folder on the way is opened in the one above it, and what is looked at is what was opened.
    """
    for name in names:
        try:
            source = _open_inside(upper, name)
        except FileNotFoundError:
            continue
        except OSError as error:  # a link (ELOOP, ENOTDIR as a folder), a socket (ENXIO)
            raise _not_plain(name) from error
        facts = os.fstat(source)
        if not stat.S_ISREG(facts.st_mode):
            os.close(source)
            raise _not_plain(name)
        with os.fdopen(source, "rb") as stream:
            if facts.st_size > LARGEST:
                raise ResultError(f"{name} that the sandbox left is larger than 1 GiB: refused")
            target = run_root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            with target.open("xb") as out:
                shutil.copyfileobj(stream, out)


def _not_plain(name: str) -> ResultError:
    return ResultError(f"{name} that the sandbox left is not a plain file: refused")


def _open_inside(folder: Path, name: str) -> int:
    """Open a file below ``folder`` for reading without following any link, nor waiting."""
    *above, last = Path(name).parts
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for part in above:
            deeper = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = deeper
        return os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    finally:
        os.close(handle)


def check() -> None:
    """Try the sandbox; raises InfrastructureError with the fix where it cannot be had."""
    with scratch() as folder:
        run_root = folder / "run"
        run_root.mkdir()
        if run(["-c", "pass"], run_root, Kept(())) != 0:
            raise InfrastructureError(
                "this runner allows no sandbox (unshare, overlay, bwrap): let a Docker runner have"
                " privileged = true or use a shell runner; see docs/threat-model.md"
            )


def why_not(run_root: Path, around: Surroundings = BARE) -> str:
    """Why a step of this run cannot be put into the sandbox, in one line; empty if it can.

    It is tried, with all that the step is to see.
    """
    said: list[str] = []
    paths = [str(Path(os.path.normpath(around.folder / path))) for path in around.shown]
    text = f"import os; assert all(map(os.path.exists, {paths!r}))"
    try:
        status = run(["-c", text], run_root, Kept(()), around=replace(around, hear=said.append))
    except (IotollError, OSError) as error:
        return str(error)
    if status == 0:
        return ""
    words = [line.strip().removeprefix("iotoll: ") for line in said if line.strip()]
    return words[-1] if words else "this machine allows none (unshare, overlay, bwrap)"
