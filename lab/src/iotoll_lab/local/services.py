"""The services of a lab: what is started, in which order, and when each is ready."""

from __future__ import annotations

import json
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import urllib3

from iotoll.core.errors import InfrastructureError
from iotoll.core.proc import tail, tail_file
from iotoll_lab.local.layout import LabPlan, SimulatedBoard
from iotoll_lab.local.root import scripts
from iotoll_lab.simboard import client

GUEST_HOST = "10.0.2.2"
"""Under this address a QEMU guest reaches the machine that it runs on (user networking)."""
ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root"}
READY_SECONDS = 60.0
HTTP_SECONDS = 5.0


@dataclass(frozen=True)
class Service:
    """A program of the lab; ``ready`` is asked until it says so, ``host`` runs outside the root."""

    name: str
    command: list[str]
    user: str | None = None
    host: bool = False
    ready: Callable[[], bool] = field(default=lambda: True)


class Services:
    """The services of one lab, whose root file system is mounted at ``root``."""

    def __init__(self, plan: LabPlan, root: Path) -> None:
        self.plan = plan
        self.root = root
        self.log = Path(plan.folder) / "log"
        self._http = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(total=HTTP_SECONDS), num_pools=2
        )
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def words(self, command: list[str], user: str | None = None) -> list[str]:
        """A command line that runs ``command`` in the root file system."""
        switch = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]
        return ["chroot", str(self.root), *(switch if user else []), *command]

    def call(self, command: list[str], user: str | None = None, text: str = "") -> str:
        """Run a command in the root to its end, with ``text`` as its input; returns its output."""
        done = subprocess.run(
            self.words(command, user),
            input=text,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
        if done.returncode != 0:
            raise InfrastructureError(
                f"{command[0]} failed with status {done.returncode}", tail(done.stderr)
            )
        return done.stdout

    def start(self, service: Service) -> subprocess.Popen[bytes]:
        """Start a service with its output in its log; ``settle`` waits until it is ready."""
        command = service.command if service.host else self.words(service.command, service.user)
        with (self.log / f"{service.name}.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if service.host else ENVIRONMENT,
                start_new_session=True,
            )
        self.running[service.name] = process
        return process

    def tail(self, name: str) -> str:
        """The last lines of a service's log."""
        return tail_file(self.log / f"{name}.log")

    # What there is, in the order in which it is started.

    def all(self) -> list[Service]:
        """Every service; each needs those before it."""
        return [
            self._postgres(),
            self._server(),
            self._publisher(),
            self._scheduler(),
            self._files(),
            *(self._board(d.name, d.simulated) for d in self.plan.devices if d.simulated),
            self._worker(),
        ]

    def _postgres(self) -> Service:
        version = next((self.root / "etc/postgresql").iterdir()).name
        config = f"/etc/postgresql/{version}/main/postgresql.conf"
        settings = ["listen_addresses=", "fsync=off", "shared_buffers=32MB", "jit=off"]
        command = [f"/usr/lib/postgresql/{version}/bin/postgres"]
        command += ["-D", f"/var/lib/postgresql/{version}/main", "-c", f"config_file={config}"]
        command += [word for setting in settings for word in ("-c", setting)]

        def ready() -> bool:
            asked = self.words(["pg_isready", "-q"], "postgres")
            return subprocess.run(asked, env=ENVIRONMENT, check=False).returncode == 0

        return Service("postgres", command, "postgres", ready=ready)

    def _server(self) -> Service:
        command = ["gunicorn3", "lava_server.wsgi", "--log-level", "info"]
        command += ["--worker-class", "gthread", "--workers", "2", "--threads", "4"]
        command += ["--bind", f"127.0.0.1:{self.plan.ports.server}", "--timeout", "60"]
        command += ["-u", "lavaserver", "-g", "lavaserver"]
        return Service("server", command, ready=lambda: self._get("system/version/") is not None)

    def _publisher(self) -> Service:
        command = ["lava-server", "manage", "lava-publisher", "--level", "INFO"]
        command += ["--log-file", "-", "--host", "127.0.0.1"]
        command += ["--port", str(self.plan.ports.events)]
        return Service("publisher", command, "lavaserver")

    def _scheduler(self) -> Service:
        command = ["lava-server", "manage", "lava-scheduler", "--level", "DEBUG"]
        command += ["--log-file", "-", "--event-url", "ipc:///run/lava/events"]
        return Service("scheduler", command, "lavaserver")

    def _files(self) -> Service:
        command = [sys.executable, "-m", "iotoll.labs.fileserver", "--host", "127.0.0.1"]
        command += ["--port", str(self.plan.ports.files)]
        command += ["--folder", str(Path(self.plan.folder) / "files")]
        return Service("files", command, host=True)

    def _board(self, device: str, board: SimulatedBoard) -> Service:
        folder = Path(self.plan.folder) / "boards"
        command = [sys.executable, "-m", "iotoll", "simboard", "serve", board.name]
        command += ["--profile", board.profile, "--serial", board.serial, "--state", str(folder)]

        def ready() -> bool:
            try:
                client.ask(board.name, {"do": "state"}, timeout=5)
            except client.ClientError:
                return False
            return True

        return Service(f"board-{device}", command, host=True, ready=ready)

    def _worker(self) -> Service:
        name, server = self.plan.worker, f"http://127.0.0.1:{self.plan.ports.server}/"
        command = ["lava-worker", "--name", name, "--url", server, "--level", "DEBUG"]
        command += ["--ws-url", f"http://127.0.0.1:{self.plan.ports.events}/ws/"]
        command += ["--token-file", "/run/lava/worker.token", "--log-file", "-"]
        command += ["--ping-interval", "5", "--job-log-interval", "1"]

        def ready() -> bool:
            found = self._get(f"workers/{name}/")
            return found is not None and found.get("state") == "Online"

        return Service("worker", command, ready=ready)

    def _get(self, path: str) -> dict[str, object] | None:
        url = f"http://127.0.0.1:{self.plan.ports.server}/api/v0.2/{path}"
        headers = {"Authorization": f"Token {self.plan.admin.token}"}
        try:
            answer = self._http.request("GET", url, headers=headers)
            return dict(answer.json()) if answer.status == 200 else None
        except (urllib3.exceptions.HTTPError, ValueError):
            return None

    # What they need before they start.

    def configure(self) -> None:
        """Write the settings, device files and folders that the services read."""
        settings = {
            "SECRET_KEY": secrets.token_urlsafe(48),
            "INSTANCE_NAME": self.plan.name,
        }
        etc = self.root / "etc/lava-server"
        path = etc / "settings.d/20-lab.yaml"
        path.touch(0o600)
        path.write_text(json.dumps(settings))  # JSON is YAML
        worker = etc / "dispatcher.d" / self.plan.worker
        worker.mkdir(parents=True)
        address = {
            "dispatcher_ip": GUEST_HOST,
            "dispatcher_http_ip": f"{GUEST_HOST}:{self.plan.ports.files}",
        }
        (worker / "dispatcher.yaml").write_text(json.dumps(address))
        devices = etc / "dispatcher-config/devices"
        for device in self.plan.devices:
            (devices / f"{device.name}.jinja2").write_text(device.dictionary)
        types = etc / "dispatcher-config/device-types"
        for name, text in self.plan.device_types.items():
            (types / f"{name}.jinja2").write_text(text)
        shutil.copy(scripts() / "setup.py", self.root / "lab/setup.py")
        for program in self.plan.programs:
            target = self.root / "usr/local/bin" / Path(program).name
            shutil.copy(program, target)
            target.chmod(0o755)
        owned = [str(p).removeprefix(str(self.root)) for p in (path, worker, devices, types)]
        self.call(["chown", "-R", "lavaserver:lavaserver", *owned, "/var/log/lava-server"])
        self.call(["install", "-d", "-o", "postgres", "-g", "postgres", "/run/postgresql"])
        self.call(["install", "-d", "-o", "lavaserver", "-g", "lavaserver", "/run/lava"])

    def populate(self) -> None:
        """Add users, tokens, worker and devices to the running database."""
        wanted = {
            "users": [user.model_dump() for user in (self.plan.admin, self.plan.user)],
            "workers": [self.plan.worker],
            "devices": [
                {"name": d.name, "type": d.type, "worker": self.plan.worker, "tags": d.tags}
                for d in self.plan.devices
            ],
        }
        command = ["python3", "/lab/setup.py"]
        tokens = json.loads(self.call(command, "lavaserver", json.dumps(wanted)))
        path = self.root / "run/lava/worker.token"
        path.touch(0o600)
        path.write_text(tokens[self.plan.worker])
