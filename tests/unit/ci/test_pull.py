"""The pull-lab against a server that speaks KernelCI's protocol: events, definitions, callbacks."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from iotoll.ci import pull
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress

MEASURED = Path(__file__).parents[2] / "golden/data/report/measured"
KERNEL = b"a kernel"
LAB, PLATFORM = "pull-labs-storage", "qemu-arm64"


class KernelCI(ThreadingHTTPServer):
    """The API, the storage and the callback of KernelCI, as far as a pull-lab meets them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.nodes: list[dict[str, Any]] = []
        self.definitions: dict[str, dict[str, Any]] = {}
        self.posted: list[tuple[str, str, dict[str, Any]]] = []
        self.refuses = 0
        """Callbacks that it answers with 503, before it takes one."""

    def add(self, name: str, runtime: str = LAB, platform: str = PLATFORM, **more: Any) -> None:
        """A job node as the scheduler makes it, its definition as kernelci-core does."""
        path = f"/pull_labs_jobs/20261127/{name}.json"
        self.definitions[path] = {
            "artifacts": {"kernel": f"{self.url}/kernel", "modules": f"{self.url}/modules"},
            "tests": [{"id": "x", "type": "boot", "depends": [], "timeout_s": 600}],
            "environment": {"platform": platform, "arch": "arm64"},
            "callback": {"url": f"{self.url}/node/{name}", "token_name": "lab"},
            **more,
        }
        self.nodes.append(
            {
                "id": name,
                "state": "available",
                "artifacts": {"job_definition": f"{self.url}{path}"},
                "data": {"runtime": runtime, "platform": platform},
            }
        )


class Handler(BaseHTTPRequestHandler):
    server: KernelCI

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/latest/events":
            asked = {key: value[0] for key, value in parse_qs(parts.query).items()}
            assert (asked["kind"], asked["recursive"]) == ("job", "true")
            numbered = [
                (f"2026-11-27T00:00:{n:02}.000000", node)
                for n, node in enumerate(self.server.nodes)
                if node["state"] == asked["state"]
            ]
            new = [one for one in numbered if one[0] > asked["from"]]
            self._answer([{"timestamp": at, "kind": "node", "node": node} for at, node in new])
        elif parts.path in self.server.definitions:
            self._answer(self.server.definitions[parts.path])
        else:
            self._send(200 if parts.path == "/kernel" else 404, KERNEL)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.refuses:
            self.server.refuses -= 1
            self._send(503, b"busy")
            return
        self.server.posted.append((self.path, self.headers.get("Authorization", ""), body))
        self._send(200, b"OK")

    def _answer(self, data: object) -> None:
        self._send(200, json.dumps(data).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[KernelCI]:
    with KernelCI() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def config(server: KernelCI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pull.Config:
    monkeypatch.setenv(pull.TOKEN, "secret")
    return pull.Config(
        api=f"{server.url}/latest",
        callback=f"{server.url}/node/",
        runtime=LAB,
        platforms=[PLATFORM],
        cells=["ufs-4k-randread-t1-direct"],
        folder=str(tmp_path / "lab"),
    )


@pytest.fixture
def measures(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """No boot: what a measurement leaves is a stored run's. Its kernels, in order."""
    seen: list[Path] = []

    def tests(config: pull.Config, kernel: Path, run: Path, progress: Progress) -> dict[str, Any]:
        assert kernel.read_bytes() == KERNEL
        seen.append(kernel)
        shutil.copytree(MEASURED, run)
        return pull._body(pull._tests(run))

    monkeypatch.setattr(pull, "_measured", tests)
    return seen


def call(config: pull.Config) -> dict[str, dict[str, Any]]:
    return pull.run(config, Progress(quiet=True))


def test_a_job_runs_once_and_its_figures_are_called_back(
    server: KernelCI, config: pull.Config, measures: list[Path]
) -> None:
    server.add("a1")
    server.add("b2", runtime="another-lab")
    server.add("c3", platform="another-board")
    assert list(call(config)) == ["a1"]
    ((path, token, body),) = server.posted
    assert (path, token) == ("/node/a1", "Token secret")
    assert body["metadata"]["system"] == "virt-arm64"
    suite = body["tests"]["iotoll"]
    assert body["summary"]["total"] == len(suite["subtests"]) and body["summary"]["failed"] == 0
    metrics = next(iter(suite["subtests"].values()))["metrics"]
    assert metrics["submission.median.instructions"] > 0
    assert call(config) == {}
    assert len(measures) == len(server.posted) == 1
    server.add("d4")
    assert list(call(config)) == ["d4"]


def test_a_result_that_was_not_taken_is_posted_by_the_next_call(
    server: KernelCI, config: pull.Config, measures: list[Path]
) -> None:
    server.add("a1")
    server.refuses = 1
    call(config)
    assert server.posted == []
    assert call(config) == {}
    assert [path for path, _, _ in server.posted] == ["/node/a1"]
    assert len(measures) == 1
    assert "secret" not in (Path(config.folder) / "state.json").read_text()


@pytest.mark.parametrize(
    ("error", "code"),
    [(InfrastructureError("no disk"), "Infrastructure"), (UsageError("no"), "invalid_job_params")],
)
def test_what_says_nothing_of_the_kernel_is_an_error_code(
    error: Exception,
    code: str,
    server: KernelCI,
    config: pull.Config,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(pull, "_measured", fails)
    server.add("a1")
    call(config)
    ((_, _, body),) = server.posted
    assert (body["error_code"], body["summary"]["total"], body["tests"]) == (code, 0, {})


@pytest.mark.parametrize("wrong", ["kernel", "integrity"])
def test_a_kernel_that_is_not_the_stated_one_is_not_booted(
    wrong: str, server: KernelCI, config: pull.Config, measures: list[Path]
) -> None:
    sha256 = hashlib.sha256(b"other").hexdigest()
    more: dict[str, Any] = {"integrity": {"sha256": {"kernel": sha256}}}
    more = {"artifacts": {}} if wrong == "kernel" else more
    server.add("a1", **more)
    call(config)
    ((_, _, body),) = server.posted
    assert "error_code" in body and not measures


@pytest.mark.parametrize(
    "callback", ["http://elsewhere.example/node/a", "file:///etc/passwd", None, "http://[::1"]
)
def test_the_token_goes_nowhere_else(
    callback: str | None, server: KernelCI, config: pull.Config, measures: list[Path]
) -> None:
    server.add("a1", callback={"url": callback})
    assert call(config) == {}
    assert server.posted == [] and not measures


def test_a_hostile_api_ends_in_one_line(server: KernelCI, config: pull.Config) -> None:
    server.nodes.append({"id": "x", "state": "available", "data": None, "artifacts": []})
    assert call(config) == {}
    other = config.model_copy(update={"api": server.url})
    with pytest.raises(InfrastructureError):
        call(other)


def test_a_command_really_measures(tmp_path: Path, server: KernelCI, config: pull.Config) -> None:
    """A kernel that is none is the job's fault, in the words of `iotoll measure`."""
    server.add("a1")
    call(config)
    ((_, _, body),) = server.posted
    assert body["error_code"] == "invalid_job_params"
    assert "is no arm64 kernel" in body["error_msg"]
