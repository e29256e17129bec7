"""Fuzzes iotoll's readers of foreign JSON and of patches, with atheris (README.md)::

    python readers.py json|patch [libFuzzer's options] CORPUS...

Any bytes are read or refused by an error of iotoll's own; anything else is a finding.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
import tempfile
import zlib
from pathlib import Path

import atheris

with atheris.instrument_imports(
    include=["iotoll.boots.console", "iotoll.measure", "iotoll.patch", "iotoll.records"]
):
    from iotoll.boots.console import read_console
    from iotoll.core.errors import IotollError
    from iotoll.measure import asked, board_records, boot_trace, dut_cell, fio, hpb, serial
    from iotoll.patch import candidate, diff, trailers
    from iotoll.records import results
    from iotoll.records.models import Clock

ROOT = Path(__file__).resolve().parents[1]
KINDS = sorted(results.DOCUMENTS)
WORK = Path(tempfile.mkdtemp(prefix="iotoll-fuzz-"))


def read_json(data: bytes) -> None:
    """The first byte chooses the reader: one of fio's, a board's, or that of a document."""
    kind, text = data[0] if data else 0, data[1:].decode("utf-8", "surrogateescape")
    path = WORK / "input.json"
    path.write_bytes(data[1:])
    readers = [
        lambda: fio.read_jobs(path),
        lambda: board_records.sort([text], "fuzz"),
        lambda: dut_cell.cell_of_dut(text, Clock.INSTRUCTIONS),
        lambda: serial.receive(data[1:]),
        *(lambda k=k: results.read(path, results.DOCUMENTS[k]) for k in KINDS),
        lambda: asked.read_ran(path),
        lambda: hpb.read_counts(path),
        lambda: boot_trace._devices(path),
        lambda: read_console(text),
        lambda: serial.receive(whole_lines(data[1:])),
    ]
    try:
        readers[kind % len(readers)]()
    except IotollError as error:
        assert len(str(error)) < 2_000, "one line, not the input"


def whole_lines(data: bytes) -> bytes:
    """Serial lines of a board with the checksum that each needs, which no fuzzer guesses."""
    lines = [b"#iotoll1 " + line for line in data.split(b"\n")]
    return b"".join(line + f" {zlib.crc32(line):08x}\n".encode() for line in lines)


def read_patch(data: bytes) -> None:
    """Mails, their trailers, changed files and hunks, then the whole way of a candidate."""
    for mail in diff.mails(data):
        trailers.trailers([mail.body.decode("utf-8", "replace")])
    path = WORK / "input.patch"
    path.write_bytes(data)
    try:
        for patch in candidate.read_patches(path):
            diff.changed_paths(patch.text, "fuzz")
            diff.hunks(patch.text, "fuzz")
    except IotollError as error:
        assert len(str(error)) < 2_000, "one line, not the input"


def seeds(target: str, folder: Path) -> None:
    """Fill an empty corpus with this repository's own documents and patches."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        return
    if target == "patch":
        for path in sorted((ROOT / "examples/patches").glob("*.patch")):
            shutil.copy(path, folder)
        return
    for name in KINDS:
        path = ROOT / f"results-schema/valid/{name}.json"
        (folder / name).write_bytes(bytes([4 + KINDS.index(name)]) + path.read_bytes())
    job = {"jobname": "a", "error": 0, "read": {"total_ios": 2, "io_bytes": 8192}}
    latency = {"N": 2, "mean": 5.0, "percentile": {"50.000000": 5}, "bins": {"5": 2}}
    job["read"] |= {"clat_ns": latency, "lat_ns": latency, "runtime": 1}  # type: ignore[operator]
    text = json.dumps({"global options": {"bs": "4k"}, "jobs": [job]}, indent=1).encode()
    (folder / "fio").write_bytes(b"\0" + text)
    dut = (ROOT / "results-schema/valid/dut.json").read_bytes()
    (folder / "cell-of-dut").write_bytes(b"\2" + dut)
    (folder / "asked").write_bytes(bytes([4 + len(KINDS)]) + text)
    (folder / "hpb").write_bytes(bytes([5 + len(KINDS)]) + b"a sda hit_cnt 1\nend sda hit_cnt 2\n")
    (folder / "devices").write_bytes(bytes([6 + len(KINDS)]) + b"ufs /dev/sda 8:0\n")
    console = b"iotoll: step prepare\niotoll: FAIL workload: no\nKernel panic\n"
    (folder / "console").write_bytes(bytes([7 + len(KINDS)]) + console)
    packed, digest = zlib.compress(b"{}"), hashlib.sha256(b"{}").hexdigest()
    head = f"{digest[:8]} ufs-4k zlib 2 {len(packed)} 1 {digest}"
    chunk = base64.b64encode(packed).decode()
    sent = f"H {head}\nD {digest[:8]} 1/1 {chunk}\nE {head}".encode()
    (folder / "lines").write_bytes(bytes([8 + len(KINDS)]) + sent)
    sent = json.dumps({"cell": "fio a", "fio": json.loads(text)}).encode()
    (folder / "board").write_bytes(b"\1" + sent)


def main() -> None:
    """Fuzz one of the two until libFuzzer's own limits end it."""
    target = sys.argv.pop(1)
    corpora = [Path(word) for word in sys.argv[1:] if not word.startswith("-")]
    if corpora and not corpora[0].is_file():
        seeds(target, corpora[0])
    atheris.Setup(sys.argv, {"json": read_json, "patch": read_patch}[target])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
