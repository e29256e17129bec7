"""F1.6 and F1.7: a board proves what it ran, and its records are nobody else's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from iotoll.boots import proof
from iotoll.core.errors import InfrastructureError, ResultError
from iotoll.core.progress import Progress
from iotoll.gate.flow import Flow
from iotoll.kernels.buildid import build_ids
from iotoll.measure.collect import analyze
from iotoll.records import results, sealed
from iotoll.records.models import BootRecord, BuildRecord
from tests.unit.runs import EXAMPLES, add_boots, make_run

OURS, OLD = "ab" * 20, "cd" * 20
HEAD = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"
SAID = {proof.BUILD_ID: OURS, proof.KEY: "k1", proof.BOARD: "virt-arm64"}


def built(folder: Path, *ids: str) -> Path:
    build = results.read(EXAMPLES / "build.json", BuildRecord)
    results.write(folder / "build.json", build.model_copy(update={"build_ids": list(ids)}))
    return folder / "Image"


def test_f1_6_build_ids_of_an_image_are_found(tmp_path: Path) -> None:
    path = tmp_path / "vmlinux"
    notes = HEAD + bytes.fromhex(OURS) + b"\0" * 9 + HEAD + bytes.fromhex(OLD)
    path.write_bytes(b"\x7fELF" + b"x" * 5000 + notes)
    assert build_ids(path) == [OURS, OLD]
    path.write_bytes(b"compressed")
    assert build_ids(path) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({proof.BUILD_ID: OLD}, f"ran a kernel with build-id {OLD}, not {OURS}"),
        ({proof.BUILD_ID: ""}, "a kernel with build-id that it did not name"),
        ({proof.KEY: "k0"}, "ran a job with key k0, not k1"),
        ({proof.BOARD: "hikey960"}, "ran a job for board hikey960, not virt-arm64"),
    ],
)
def test_f1_6_a_board_that_ran_something_else_is_infrastructure(
    tmp_path: Path, changes: dict[str, str], words: str
) -> None:
    kernel = built(tmp_path, OURS)
    proof.check("base/1", kernel, "virt-arm64", SAID, "k1")
    with pytest.raises(InfrastructureError, match=words):
        proof.check("base/1", kernel, "virt-arm64", {**SAID, **changes}, "k1")


def test_f1_6_a_kernel_that_was_linked_without_one_proves_nothing(tmp_path: Path) -> None:
    """A candidate's makefile can say so: then a board that kept the base's kernel was a pass."""
    kernel = built(tmp_path)
    with pytest.raises(InfrastructureError, match="linked without a build-id"):
        proof.check("candidate/1", kernel, "virt-arm64", SAID, "k1")
    # Of an image of the user's own, which may be compressed, it is not known.
    path = kernel.with_name("build.json")
    build = results.read(path, BuildRecord)
    results.write(path, build.model_copy(update={"ready_made": True}))
    proof.check("candidate/1", kernel, "virt-arm64", SAID, "k1")


def test_f1_7_the_bases_records_in_the_candidates_folder_are_noticed(tmp_path: Path) -> None:
    """As found: base's file laid into the candidate's boot; here each file of a real boot."""
    run = make_run(tmp_path / "run")
    add_boots(run)
    for side in ("base", "candidate"):
        folder = run.boot(side, 1)
        boot = results.read(folder / "boot.json", BootRecord)
        files = sealed.digests(folder)
        assert files
        results.write(folder / "boot.json", boot.model_copy(update={"digests": files}))
    folder = run.boot("candidate", 1)
    boot = results.read(folder / "boot.json", BootRecord)
    analyze(folder, boot)
    swapped = 0
    for name in boot.digests:
        other = run.boot("base", 1) / name
        kept = (folder / name).read_bytes()
        if other.read_bytes() == kept:
            continue
        swapped += 1
        shutil.copy(other, folder / name)
        with pytest.raises(ResultError, match="is not what the board handed over"):
            analyze(folder, boot)
        (folder / name).write_bytes(kept)
    assert swapped


def test_f1_7_deriving_a_verdict_again_checks_the_digests(tmp_path: Path) -> None:
    """What `iotoll reproduce` does first, and what judged the first time."""
    run = make_run(tmp_path / "run")
    add_boots(run)
    path = run.boot("candidate", 1) / "boot.json"
    boot = results.read(path, BootRecord)
    results.write(path, boot.model_copy(update={"digests": {"gone/trace.dat": "0" * 64}}))
    with pytest.raises(ResultError, match=r"gone/trace\.dat: is gone, which boot\.json names"):
        Flow(run, Progress(quiet=True), stored=True).collect()
