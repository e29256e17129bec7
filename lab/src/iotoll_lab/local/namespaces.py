"""The first process of a lab's namespaces: mounts, starts, watches; with it all else ends.

::

    python -m iotoll_lab.local.namespaces prepare ROOT   make the database of a new lab
    python -m iotoll_lab.local.namespaces serve PLAN     be a lab
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from iotoll.core.errors import InfrastructureError, IotollError
from iotoll_lab.local.layout import LabPlan
from iotoll_lab.local.services import ENVIRONMENT, READY_SECONDS, Service, Services

POLL_SECONDS = 0.1
RESTART_SECONDS = 1.0
"""Pause before a service that died is started again, as Debian's systemd units do."""
REQUEST_LIMIT = 4096


def mount(*words: str) -> None:
    """Mount something; raises InfrastructureError with mount's own words."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InfrastructureError(f"mount {' '.join(words)}: {done.stderr.strip()}")


def mount_system(root: Path) -> None:
    """Mount in a root file system what programs expect; all of it goes with the namespace."""
    mount("-t", "proc", "proc", f"{root}/proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", f"{root}/sys")
    mount("--rbind", "/dev", f"{root}/dev")
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", f"{root}/run")
    mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", f"{root}/tmp")


def prepare(root: Path) -> None:
    """Run prepare.sh in a new root file system."""
    mount_system(root)
    command = ["chroot", str(root), "sh", "/lab/prepare.sh"]
    if status := subprocess.run(command, env=ENVIRONMENT, check=False).returncode:
        raise InfrastructureError(f"prepare.sh failed with status {status}")


def lay_over(plan: LabPlan) -> Path:
    """Mount the root file system with a layer in memory over it, and the folders on disk."""
    folder = Path(plan.folder)
    memory, root = folder / "memory", folder / "root"
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(memory))
    for name in ("upper", "work"):
        (memory / name).mkdir()
    layers = f"lowerdir={plan.root},upperdir={memory}/upper,workdir={memory}/work"
    mount("-t", "overlay", "-o", layers, "overlay", str(root))
    mount_system(root)
    # Large things are on disk: what jobs download and unpack.
    dispatcher = root / "var/lib/lava/dispatcher"
    dispatcher.mkdir(parents=True, exist_ok=True)
    mount("--bind", str(folder / "dispatcher"), str(dispatcher))
    return root


class Supervisor:
    """Starts a lab's services and keeps them running until it is told otherwise."""

    def __init__(self, plan: LabPlan) -> None:
        self.plan = plan
        self.folder = Path(plan.folder)
        self.started = time.monotonic()
        self.services = Services(plan, lay_over(plan))
        self.known = {service.name: service for service in self.services.all()}
        self.wanted: dict[str, float] = {}  # when to start each service that should run

    def bring_up(self) -> None:
        """Start everything in order; raises InfrastructureError with a service's last lines."""
        self.services.configure()
        for service in self.services.all():
            if service.name == "server":
                self.say("users, worker and devices")
                self.services.populate()
            self.say(service.name)
            self._start(service)
            self._await(service)
        self.say("up")

    def say(self, step: str) -> None:
        """Tell those outside how far it is: a line of seconds and step."""
        with (self.folder / "progress").open("a") as out:
            out.write(f"{time.monotonic() - self.started:.1f} {step}\n")

    def watch(self) -> None:
        """Serve requests and restart what dies; never returns."""
        with selectors.DefaultSelector() as selector, socket.socket(socket.AF_UNIX) as server:
            server.bind(str(self.folder / "control"))
            server.listen()
            selector.register(server, selectors.EVENT_READ)
            while True:
                for _ in selector.select(POLL_SECONDS):
                    self._serve(server)
                self._reap()
                for name, due in list(self.wanted.items()):
                    if name not in self.services.running and time.monotonic() >= due:
                        self._start(self.known[name])

    def _start(self, service: Service) -> None:
        self.wanted[service.name] = 0.0
        self.services.start(service)

    def _await(self, service: Service) -> None:
        end = time.monotonic() + READY_SECONDS
        process = self.services.running[service.name]
        while not service.ready():
            if process.poll() is not None:
                raise InfrastructureError(
                    f"the lab's {service.name} ended with status {process.returncode}",
                    self.services.tail(service.name),
                )
            if time.monotonic() > end:
                raise InfrastructureError(
                    f"the lab's {service.name} was not ready within {READY_SECONDS:.0f} s",
                    self.services.tail(service.name),
                )
            time.sleep(POLL_SECONDS)

    def _reap(self) -> None:
        """Take note of ended services; orphans of theirs also end here."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, process in list(self.services.running.items()):
                if process.pid == pid:
                    process.returncode = 0  # reaped here: Popen must not wait for it
                    del self.services.running[name]
                    if name in self.wanted:
                        self.say(f"{name} ended: starting it again")
                        self.wanted[name] = time.monotonic() + RESTART_SECONDS

    def _serve(self, server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.settimeout(1)
            try:
                request = json.loads(connection.recv(REQUEST_LIMIT))
                answer = self._do(request["do"], request["service"])
            except (OSError, ValueError, KeyError, TypeError) as error:
                answer = f"bad request: {error!r}"
            connection.sendall(answer.encode())

    def _do(self, what: str, name: str) -> str:
        if name not in self.known:
            return f"no service {name}; there are: {', '.join(self.known)}"
        process = self.services.running.get(name)
        if what == "start":
            self.wanted.setdefault(name, 0.0)
        elif what in ("stop", "kill"):
            if what == "stop":
                self.wanted.pop(name, None)
            if process is not None:
                sent = signal.SIGTERM if what == "stop" else signal.SIGKILL
                os.killpg(process.pid, sent)
        else:
            return f"cannot {what} a service"
        return "ok"


def serve(path: Path) -> None:
    """Be a lab: never returns while it is up."""
    plan = LabPlan.model_validate_json(path.read_text())
    supervisor = Supervisor(plan)
    try:
        supervisor.bring_up()
    except IotollError as error:
        supervisor.say(f"failed: {error}")
        print(f"{error}\n{getattr(error, 'log_tail', '')}", flush=True)
        raise SystemExit(error.exit_code) from error
    supervisor.watch()


def main(words: Sequence[str]) -> None:
    """Entry point; SIGTERM and SIGINT end the lab, which as first process they would not."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    mode, path = words
    try:
        {"prepare": prepare, "serve": serve}[mode](Path(path))
    except IotollError as error:
        print(error, flush=True)
        raise SystemExit(error.exit_code) from error


if __name__ == "__main__":
    main(sys.argv[1:])
