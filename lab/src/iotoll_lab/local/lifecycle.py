"""Brings a lab up on this machine, finds a running one, and takes it down without a trace."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from iotoll.boards import patched
from iotoll.boards.board import AnyBoard, RealBoard, VirtualBoard, load_board, load_virtual_board
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.lock import held
from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.proc import require_tool, tail_file
from iotoll.core.progress import Progress, Step
from iotoll.labs.lava.config import Lab, LabBoard
from iotoll.labs.lava.dictionary import PROGRAM, virtual_device
from iotoll.labs.local import FOLDER, LabState, running, started_at
from iotoll_lab.local.layout import LabDevice, LabPlan, LabUser, Ports, SimulatedBoard
from iotoll_lab.local.root import NAMESPACES, get_root, version
from iotoll_lab.simboard import client, profile
from iotoll_lab.simboard.profile import simulated_device

WORKER = "worker-local"
USER = "iotoll"
UP_SECONDS = 180.0
DOWN_SECONDS = 20.0
POLL_SECONDS = 0.1
FOLDERS = ("root", "memory", "log", "dispatcher", "files", "boards")
PROGRAMS = "programs"
SOCKET_PATH_LIMIT = 107  # of a Unix socket's path, in bytes


class LocalLab:
    """The lab of one folder; at most one runs there at a time."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or cache_dir() / FOLDER).resolve()

    @property
    def state(self) -> LabState | None:
        """How to reach the lab, or None while it is not up."""
        return running(self.folder)

    def up(self, lab: Lab, progress: Progress) -> LabState:
        """Bring the lab up, or return the one that is up. Raises InfrastructureError."""
        _check_machine(self.folder)
        root = get_root(progress)
        self.folder.mkdir(parents=True, exist_ok=True)
        waits = "another command brings this lab up: waiting for it"
        with held(self.folder.with_name(f".{self.folder.name}.lock"), progress, waits):
            if state := self.state:
                return state
            self._clear()
            plan = self._plan(lab, root)
            process = self._start(plan)
            try:
                with progress.step(f"LAVA {version(root)} on this machine") as step:
                    self._await(process, step)
            except BaseException:
                self._end(process.pid)
                raise
            return self._publish(plan, process.pid, version(root))

    def down(self) -> bool:
        """End the lab and remove its folder; tells whether one was up. Running jobs end with it."""
        state = self.state
        if state is not None:
            self._end(state.pid)
        self._clear()
        with contextlib.suppress(OSError):
            self.folder.rmdir()
            self.folder.with_name(f".{self.folder.name}.lock").unlink()
        return state is not None

    def control(self, what: str, service: str) -> None:
        """Stop, start or kill a service; one that is killed starts again by itself."""
        if self.state is None:
            raise UsageError(f"no lab is up in {self.folder}: iotoll lab up")
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(10)
            try:
                line.connect(str(self.folder / "control"))
                line.sendall(json.dumps({"do": what, "service": service}).encode())
                answer = line.recv(4096).decode()
            except OSError as error:
                raise InfrastructureError(f"the lab does not answer: {error}") from error
        if answer != "ok":
            raise UsageError(answer)

    # How it comes up.

    def _plan(self, lab: Lab, root: Path) -> LabPlan:
        group = lab.jobs.groups[0] if lab.jobs.groups else None
        server, events, files = _free_ports(3)
        devices = [
            _device(name, settings, number, server)
            for name, settings in lab.boards.items()
            for number in range(1, settings.count + 1)
        ]
        boards = [load_board(name) for name, settings in lab.boards.items() if settings.count]
        programs = [data_dir("lava-jobs") / "devices" / PROGRAM, *_patched(boards)]
        if any(device.simulated for device in devices):
            programs += [self.folder / PROGRAMS / name for name in client.COMMANDS]
        return LabPlan(
            name=lab.name,
            folder=str(self.folder),
            root=str(root),
            worker=WORKER,
            ports=Ports(server=server, events=events, files=files),
            admin=_user("admin", admin=True),
            user=_user(USER, group=group),
            devices=devices,
            programs=[str(path) for path in programs],
        )

    def _start(self, plan: LabPlan) -> subprocess.Popen[bytes]:
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True)
        client.install(self.folder / PROGRAMS)
        path = self.folder / "plan.json"
        write_secret(path, plan.model_dump_json())
        inside = [sys.executable, "-m", "iotoll_lab.local.namespaces", "serve", str(path)]
        with (self.folder / "log/lab.log").open("wb") as log:
            return subprocess.Popen(
                ["unshare", *NAMESPACES, "--kill-child=KILL", *inside],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _await(self, process: subprocess.Popen[bytes], step: Step) -> None:
        end = time.monotonic() + UP_SECONDS
        while True:
            steps = _lines(self.folder / "progress")
            last = steps[-1].partition(" ")[2] if steps else "namespaces"
            if last == "up":
                return
            step.update(note=last)
            failed = last.startswith("failed: ") or process.poll() is not None
            if failed or time.monotonic() > end:
                tail = tail_file(self.folder / "log/lab.log")
                why = last.removeprefix("failed: ") if failed else f"stuck at {last}"
                raise InfrastructureError(f"the lab did not come up: {why}", tail)
            time.sleep(POLL_SECONDS)

    def _publish(self, plan: LabPlan, pid: int, lava: str) -> LabState:
        token, admin = self.folder / "token", self.folder / "admin.token"
        write_secret(token, plan.user.token)
        write_secret(admin, plan.admin.token)
        started = started_at(pid)
        if started is None:
            tail = tail_file(self.folder / "log/lab.log")
            raise InfrastructureError("the lab ended as soon as it was up", tail)
        state = LabState(
            url=f"http://127.0.0.1:{plan.ports.server}",
            files_url=f"http://127.0.0.1:{plan.ports.files}",
            token_file=str(token),
            admin_token_file=str(admin),
            user=plan.user.name,
            group=plan.user.group or "",
            lava=lava,
            devices={device.name: device.type for device in plan.devices},
            simulated={d.name: d.simulated.name for d in plan.devices if d.simulated},
            pid=pid,
            started=started,
        )
        (self.folder / "lab.json").write_text(state.model_dump_json(indent=1) + "\n")
        return state

    # How it goes away.

    def _end(self, pid: int) -> None:
        """Kill unshare: the kernel then kills the first process, and with it all others."""
        inside = _children(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)  # ours, if it was started by this process
        end = time.monotonic() + DOWN_SECONDS
        while any(started_at(child) is not None for child in inside):
            if time.monotonic() > end:
                raise InfrastructureError(f"the lab's process {inside[0]} does not end")
            time.sleep(POLL_SECONDS)

    def _clear(self) -> None:
        """Remove what a lab left; its mounts went with its namespace."""
        for path in self.folder.glob("*") if self.folder.is_dir() else []:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def _patched(boards: list[AnyBoard]) -> list[Path]:
    """The QEMU of the lab's exact boards; raises InfrastructureError when it is not built."""
    names = {b.qemu.binary for b in boards if isinstance(b, VirtualBoard) and b.qemu.patched}
    return [Path(patched.binary(name)) for name in sorted(names)]


def _device(board_name: str, settings: LabBoard, number: int, port: int) -> LabDevice:
    """A board of the lab; ``port`` is the server's, which no other lab of this machine has."""
    board = load_board(board_name)
    simulated = None
    if isinstance(board, RealBoard):
        if not settings.simulated:
            raise UsageError(f"a lab cannot make {board_name}: simulated = true, or count = 0")
        name = f"{settings.device_type}-{number:02}"
        simulated = SimulatedBoard(
            name=f"{name}-{port}",
            profile=profile.load(board_name).name,
            serial=f"SIM{port}{number:02}",
        )
        text = simulated_device(simulated.name, simulated.serial)
    else:
        name = f"{board_name}-{number:02}".replace("_", "-")
        text = virtual_device(load_virtual_board(board_name), name)
    return LabDevice(
        name=name,
        type=settings.device_type,
        tags=[*settings.tags, name],
        dictionary=text,
        simulated=simulated,
    )


def write_secret(path: Path, text: str) -> None:
    """Write a file that nobody but its owner could read at any time."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)


def _user(name: str, admin: bool = False, group: str | None = None) -> LabUser:
    password, token = secrets.token_hex(24), secrets.token_hex(32)  # no leading dash
    return LabUser(name=name, password=password, token=token, admin=admin, group=group)


def _check_machine(folder: Path) -> None:
    if os.geteuid() != 0:
        raise UsageError("a lab needs root, for its namespaces and mounts: sudo make lab")
    for tool, package in (
        ("unshare", "util-linux"),
        ("mount", "mount"),
        ("chroot", "coreutils"),
        ("setpriv", "util-linux"),
    ):
        require_tool(tool, package)
    if len(os.fsencode(folder / "control")) > SOCKET_PATH_LIMIT:
        raise UsageError(f"{folder}: too long a path for a lab's socket: choose a shorter one")
    if folder.is_dir() and not (folder / "plan.json").is_file() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not a lab's folder, and not empty: choose another")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.0.1", 0))
            found.append(int(one.getsockname()[1]))
        return found


def _children(pid: int) -> Sequence[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
