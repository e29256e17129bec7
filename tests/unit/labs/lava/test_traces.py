"""Raw traces: sent by the board's own script, taken whole or not at all, and only referenced."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from http.server import ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from pydantic import ValidationError

from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.job_end import traces
from iotoll.labs.lava.server import FileStore
from iotoll.measure.board_records import sort

TRACE = bytes(range(256)) * 500 + b"\0" * 1000
HEX = hashlib.sha256(TRACE).hexdigest()


def base(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def upload(folder: Path, url: str, programs: Path | None = None) -> str:
    """What upload.sh prints of ``folder/trace.dat``; ``programs`` come before all others."""
    for tool in ("dash", "busybox"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: see tools/packages.txt")
    (folder / "trace.dat").write_bytes(TRACE)
    script = data_dir("lava-jobs") / "dut/upload.sh"
    done = subprocess.run(
        ["dash", str(script), "trace.dat", url],
        cwd=folder,
        env={"PATH": f"{programs}:/usr/bin:/bin" if programs else "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def document(size: int = len(TRACE), sha256: str = HEX, problem: str = "") -> str:
    said = {"cell": "trace.ufs", "size": size, "sha256": sha256, "problem": problem}
    return json.dumps(said)


def test_board_s_script_sends_every_byte(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    assert upload(tmp_path, f"{base(server)}/traces") == f"{len(TRACE)} {HEX}\n"
    assert (tmp_path / "files/traces" / HEX).read_bytes() == TRACE
    files = FileStore(Http(base(server)))
    (found,) = traces(sort([document()], "job 1"), files)
    assert found.problem is None
    assert (found.batch, found.size, found.sha256) == ("ufs", len(TRACE), HEX)
    assert found.url == f"{base(server)}/traces/{HEX}"


@pytest.mark.parametrize(("tool", "words"), [("sha256sum", "422"), ("wc", "422")])
def test_other_digest_or_size_is_refused(
    server: ThreadingHTTPServer, tmp_path: Path, tool: str, words: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    lie = f"echo {'0' * 64}" if tool == "sha256sum" else f"echo {len(TRACE) - 1}"
    (programs / tool).write_text(f"#!/bin/sh\n{lie}\n")
    (programs / tool).chmod(0o755)
    said = upload(tmp_path, f"{base(server)}/traces", programs).split(maxsplit=2)
    assert said[2].startswith(f"HTTP/1.1 {words} ")
    assert not [p for p in (tmp_path / "files").rglob("*") if p.is_file()]


def test_server_that_does_not_answer(tmp_path: Path) -> None:
    said = upload(tmp_path, "http://127.0.0.1:1/traces").strip()
    assert said.startswith(f"{len(TRACE)} {HEX} ")


def test_trace_that_is_not_there_or_shorter_is_named(
    server: ThreadingHTTPServer, tmp_path: Path
) -> None:
    files = FileStore(Http(base(server)))
    (lost,) = traces(sort([document()], "job 1"), files)
    assert lost.problem == f"the file server has no such file, the board sent {len(TRACE)} bytes"
    upload(tmp_path, f"{base(server)}/traces")
    (longer,) = traces(sort([document(size=len(TRACE) + 1)], "job 1"), files)
    assert longer.problem is not None
    assert longer.problem.startswith(f"the file server has {len(TRACE)} bytes, ")
    (refused,) = traces(sort([document(problem="HTTP/1.1 413 Request")], "job 1"), files)
    assert refused.problem == "HTTP/1.1 413 Request"


@pytest.mark.parametrize(
    "text",
    [
        document(size=-1),
        document(sha256="../../etc/passwd"),
        document(problem="x" * 1000),
        document().replace("trace.ufs", "trace.<b>"),
        document().replace('"size"', '"sizes"'),
    ],
)
def test_document_of_a_hostile_board(text: str) -> None:
    with pytest.raises(InfrastructureError, match="job 1: a trace's document is not ours"):
        sort([text], "job 1")


def test_more_traces_than_any_boot_has() -> None:
    texts = [document().replace("trace.ufs", f"trace.ufs-{n}") for n in range(65)]
    assert len(sort(texts[:64], "job 1").traces) == 64
    with pytest.raises(InfrastructureError, match="over 64 traces"):
        sort(texts, "job 1")


def test_address_as_the_board_sees_it() -> None:
    address = IPv4Address("10.0.2.2")
    for url, seen in (
        ("http://127.0.0.1:8012", "http://10.0.2.2:8012/traces"),
        ("http://files.example/lab", "http://10.0.2.2:80/lab/traces"),
        ("http://files.example/$(id) ;", "http://10.0.2.2:80/%24%28id%29%20%3B/traces"),
    ):
        assert FileStore(Http(url)).seen_from(address) == seen
    assert FileStore(Http("http://127.0.0.1:8012")).seen_from(None) is None


def test_board_cannot_send_to_a_server_that_wants_tls() -> None:
    lab = load_lab("local")
    board = lab.board("virt-arm64").model_dump() | {"file_server": "10.0.2.2"}
    urls = {"server": "https://lava.example", "files": "https://files.example"}
    data = lab.model_dump() | urls | {"boards": {"virt-arm64": board}}
    with pytest.raises(ValidationError, match="'file_server', which needs http in 'files'"):
        Lab.model_validate(data)
