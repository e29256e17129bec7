"""``iotoll pull-lab``: a virtual board as a pull-lab of KernelCI (its protocol PULL_LABS).

KernelCI pushes nothing: a lab polls the API's events for job nodes of its runtime, fetches each
job's definition and kernel, runs it, and posts the results to the definition's callback. Fields as
`kernelci.runtime.pull_labs` of kernelci-core writes and reads them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import click
from pydantic import Field, ValidationError

from iotoll.core.cli_support import Output, output_options
from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, IotollError, ResultError, UsageError
from iotoll.core.lock import alone
from iotoll.core.plain import plain
from iotoll.core.proc import end_group
from iotoll.core.progress import Progress
from iotoll.core.toml import first_error, load_toml
from iotoll.labs.lava.http import Http
from iotoll.records import results
from iotoll.records.models import SideResult
from iotoll.records.models.base import Model
from iotoll.records.rundir import RunDir

TOKEN = "IOTOLL_KERNELCI_TOKEN"
"""The environment variable with the lab's token, which is sent to ``callback`` alone."""
EVENTS = 1000
"""Events of one request; the next call goes on after the last of them."""
KERNEL_LIMIT = 512 << 20  # bytes
REMEMBERED = 10_000
"""Nodes that are known as done, the newest; the cursor has passed all others."""
_SUITE = "iotoll"
_ERROR = 500  # characters


class Config(Model):
    """The whole file; paths are relative to where the command runs."""

    api: str = Field(pattern=r"^https?://\S+$", description="KernelCI's API, with its version")
    callback: str = Field(
        pattern=r"^https?://[^/\s]+/\S*$",
        description="what every job's callback must begin with: nobody else gets the token",
    )
    runtime: str = Field(description="the lab's name in KernelCI's pipeline")
    platforms: list[str] = Field(default_factory=list, description="of jobs that are taken; or any")
    board: str = "virt-arm64"
    matrix: str = "default"
    cells: list[str] = Field(min_length=1)
    folder: str = "pull-lab"
    state: Literal["available", "done"] = Field("available", description="of the nodes to take")
    since: str = Field("", description="of the first call: a timestamp; empty: 1970")
    jobs: int = Field(20, ge=1, description="jobs that one call runs at most")
    seconds: int = Field(3600, ge=60, le=86400, description="limit of one job")


@dataclass
class State:
    """What is known between two calls; ``pending`` are results that the callback did not take."""

    cursor: str = "1970-01-01T00:00:00.000000"
    done: list[str] = field(default_factory=list)
    pending: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path, since: str) -> State:
        """The state of an earlier call; a new one that begins at ``since``."""
        if not path.is_file():
            return cls(since or cls.cursor)
        try:
            return cls(**json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise ResultError(f"{path}: is damaged ({error}): remove it") from error

    def write(self, path: Path) -> None:
        """Keep it."""
        self.done = self.done[-REMEMBERED:]
        results.write_text(path, json.dumps(asdict(self), indent=1, sort_keys=True) + "\n")


@click.command("pull-lab")
@click.argument("config", type=click.Path(path_type=Path))
@output_options
def pull_command(config: Path, quiet: bool, as_json: bool) -> None:
    """Run the jobs that KernelCI has for this lab, as CONFIG says, and post their results.

    One call takes what is new and ends: a timer calls it again. No job runs twice, and a result
    that was not taken is posted again by the next call. The token is in IOTOLL_KERNELCI_TOKEN.
    """
    try:
        loaded = Config.model_validate(load_toml(config))
    except ValidationError as error:
        raise first_error(config, error) from error
    output = Output(quiet, as_json)
    found = run(loaded, output.progress)
    if as_json:
        click.echo(json.dumps(found, indent=1, sort_keys=True))
    else:
        click.echo(f"{len(found)} jobs" if found else "no job")


def run(config: Config, progress: Progress) -> dict[str, dict[str, Any]]:
    """Take what is new; returns what was posted, or is to be, by its node."""
    folder = Path(config.folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "state.json"
    with alone(folder / ".lock", UsageError(f"{folder}: another iotoll works there: wait for it")):
        state = State.read(path, config.since)
        ran: dict[str, dict[str, Any]] = {}
        _post(config, state, path, progress)
        for event in _events(config, state):
            if len(ran) >= config.jobs:
                progress.say("more jobs wait: the next call takes them (jobs)")
                return ran
            node = _dict(event.get("node"))
            name = str(node.get("id", ""))
            if _is_ours(config, node) and name not in state.done:
                body = _job(config, node, folder / "jobs" / _safe(name), progress)
                state.done.append(name)
                if body is not None:
                    ran[name] = state.pending[name] = body
            state.cursor = str(event.get("timestamp", state.cursor))
            state.write(path)
            _post(config, state, path, progress)
        return ran


def _events(config: Config, state: State) -> list[dict[str, Any]]:
    fields = {"state": config.state, "kind": "job", "recursive": "true", "limit": str(EVENTS)}
    found = Http(config.api).get("events", {**fields, "from": state.cursor})
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InfrastructureError(f"{config.api}/events: the answer is not a list of events")
    return found


def _is_ours(config: Config, node: Mapping[str, Any]) -> bool:
    data = _dict(node.get("data"))
    is_taken = not config.platforms or data.get("platform") in config.platforms
    return bool(node.get("id")) and data.get("runtime") == config.runtime and is_taken


def _dict(found: Any) -> Mapping[str, Any]:
    """What a stranger's document has where a mapping belongs; an empty one for anything else."""
    return found if isinstance(found, dict) else {}


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", name)[:64]


def _job(
    config: Config, node: Mapping[str, Any], place: Path, progress: Progress
) -> dict[str, Any] | None:
    """Run one job; returns the body for its callback, None where it names none of ours."""
    artifacts = _dict(node.get("artifacts"))
    try:
        url = str(artifacts.get("job_definition", ""))
        definition = json.loads(_fetch(url, 1 << 20))
        callback = str(definition["callback"]["url"])
    except (IotollError, ValueError, LookupError, TypeError) as error:
        progress.say(f"job {node.get('id')}: its definition cannot be used: {plain(str(error))}")
        return None
    if not callback.startswith(config.callback):
        progress.say(f"job {node.get('id')}: its callback is not of {config.callback}: left alone")
        return None
    try:
        kernel = _kernel(definition, place)
        body = _measured(config, kernel, place / "run", progress)
    except UsageError as error:
        body = _failed("invalid_job_params", str(error))
    except IotollError as error:
        body = _failed("Infrastructure", str(error))
    body["metadata"] = {"system": config.board, "runtime": config.runtime, "node": node.get("id")}
    return {"callback": callback, "body": body}


def _fetch(url: str, limit: int) -> bytes:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise UsageError(f"{plain(url)[:200]!r} is not a URL that can be fetched")
    query = f"?{parts.query}" if parts.query else ""
    base = f"{parts.scheme}://{parts.netloc}"
    return Http(base).get_bytes(f"{parts.path.lstrip('/')}{query}", limit)


def _kernel(definition: Mapping[str, Any], place: Path) -> Path:
    """The job's kernel, as a file that has the SHA-256 that the definition states, if it does."""
    url = _dict(definition.get("artifacts")).get("kernel")
    if not isinstance(url, str):
        raise UsageError("the job has no kernel")
    place.mkdir(parents=True, exist_ok=True)
    path = place / "kernel"
    path.write_bytes(_fetch(url, KERNEL_LIMIT))
    wanted = _dict(_dict(definition.get("integrity")).get("sha256")).get("kernel")
    if wanted and file_sha256(path) != wanted:
        raise InfrastructureError("the kernel is not the one whose SHA-256 the job states")
    return path


def _measured(config: Config, kernel: Path, run: Path, progress: Progress) -> dict[str, Any]:
    """Measure a kernel by ``iotoll measure``, in another process that ends after its limit."""
    words = [f"--image={kernel}", f"--board={config.board}", f"--matrix={config.matrix}"]
    words += [f"--cells={','.join(config.cells)}", f"--out={run}", "--quiet", "--json"]
    with tempfile.TemporaryFile() as err, progress.step(f"job {run.parent.name}"):
        process = subprocess.Popen(
            [sys.executable, "-m", "iotoll", "measure", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=err,
            start_new_session=True,
        )
        try:
            code = process.wait(config.seconds)
        except subprocess.TimeoutExpired as error:
            raise InfrastructureError(f"it took more than {config.seconds} s") from error
        finally:
            end_group(process)
        err.seek(0)
        said = plain(err.read().decode("utf-8", "replace")).strip().splitlines()
    why = (said or [f"exit code {code}"])[-1].removeprefix("iotoll: ")
    if code == UsageError.exit_code:
        raise UsageError(why)
    if code not in (0, 5):
        raise InfrastructureError(why)
    tests = {"boot": _broken(why)} if code else _tests(run)
    return _body(tests)


def _tests(run: Path) -> dict[str, Any]:
    """One test of each cell, with its published figures as metrics."""
    # What reports are made with takes long to import, and boots come first.
    from iotoll.reports.page.evidence import gather
    from iotoll.reports.publish.samples import all_figures, base_unit

    found = RunDir.open(run)
    evidence = gather(found)
    unit = base_unit(evidence.clock.unit)
    metrics: dict[str, dict[str, float]] = {}
    for figure in all_figures(evidence):
        key = f"{figure.section.value}.{figure.statistic}.{unit}"
        metrics.setdefault(figure.cell, {})[key] = figure.value
    tests: dict[str, Any] = {}
    side = results.read(found.side("base") / "result.json", SideResult)
    for cell, records in side.cells.items():
        if why := next((record.invalid for record in records if record.invalid), None):
            tests[cell] = {"status": "error", "error_msg": why[:_ERROR]}
        else:
            tests[cell] = {"status": "pass", "metrics": metrics.get(cell, {})}
    return tests


def _broken(why: str) -> dict[str, Any]:
    return {"status": "fail", "error_msg": why[:_ERROR]}


def _body(tests: Mapping[str, Any]) -> dict[str, Any]:
    counted = [test["status"] for test in tests.values()]
    failed = counted.count("fail")
    whole = "fail" if failed else "error" if "error" in counted or not counted else "pass"
    return {
        "summary": {"total": len(counted), "failed": failed, "passed": counted.count("pass")},
        "tests": {_SUITE: {"status": whole, "subtests": dict(tests)}},
    }


def _failed(code: str, why: str) -> dict[str, Any]:
    """The body of a job that says nothing of its kernel."""
    return {
        "error_code": code,
        "error_msg": plain(why)[:_ERROR],
        "summary": {"total": 0, "failed": 0, "passed": 0},
        "tests": {},
    }


def _post(config: Config, state: State, path: Path, progress: Progress) -> None:
    """Post what waits; what is not taken waits for the next call."""
    for name, one in list(state.pending.items()):
        parts = urlsplit(one["callback"])
        server = Http(f"{parts.scheme}://{parts.netloc}", os.environ.get(TOKEN))
        try:
            server.post(parts.path.lstrip("/"), one["body"], answers=False)
        except IotollError as error:
            progress.say(f"job {name}: its result was not taken: {plain(str(error))}")
            return
        del state.pending[name]
        state.write(path)
