"""The container image: the same bytes twice, and a patch is gated in it. No daemon, no registry."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from iotoll.core.paths import cache_dir
from tests.vm.conftest import EXAMPLES, LIMIT, ROOT, UNCALIBRATED, needs_board

pytestmark = [pytest.mark.vm, pytest.mark.long]
CELL = "ufs-4k-randread-t1-direct"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where images are built; skips where they cannot be."""
    for name in ("buildah", "mmdebstrap"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    if os.getuid() != 0:
        pytest.skip("buildah needs root here")
    return tmp_path_factory.mktemp("image")


def build(folder: Path, name: str) -> tuple[Path, str]:
    """Build the image with the QEMU of this machine; its archive, and its manifest's digest."""
    done = subprocess.run(
        [
            ROOT / "tools/image/build.sh",
            folder / f"{name}.tar",
            f"--volume={cache_dir()}/qemu:/built-qemu:ro",
        ],
        env=os.environ | {"IMAGE_STORAGE": str(folder)},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / f"{name}.tar", done.stdout.strip()


@pytest.fixture(scope="module")
def image(folder: Path) -> tuple[Path, str]:
    return build(folder, "one")


def test_the_same_sources_and_packages_make_the_same_bytes(
    folder: Path, image: tuple[Path, str]
) -> None:
    other, digest = build(folder, "two")
    assert digest == image[1]
    layers = [blobs(one) for one in (image[0], other)]
    assert layers[0] == layers[1]
    other.unlink()


def blobs(archive: Path) -> set[str]:
    """SHA-256 of what an OCI archive holds, each of which is named by it."""
    with tarfile.open(archive) as tar:
        names = {one.name: one for one in tar if one.name.startswith("blobs/sha256/")}
        for name, one in names.items():
            stream = tar.extractfile(one)
            assert stream is not None
            assert hashlib.sha256(stream.read()).hexdigest() == Path(name).name
    return set(names)


@pytest.fixture(scope="module")
def container(folder: Path, image: tuple[Path, str]) -> Iterator[list[str]]:
    """The command that runs something in a container of the image, with the folder as /work."""
    store = [
        f"--root={folder}/root",
        f"--runroot={folder}/run",
        "--storage-driver=vfs",
    ]
    made = subprocess.run(
        ["buildah", *store, "from", f"oci-archive:{image[0]}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    volumes = [f"--volume={cache_dir()}:/cache", f"--volume={folder}:/work"]
    run = ["run", "--isolation=chroot", "--env=IOTOLL_CACHE=/cache", "--workingdir=/work"]
    yield ["buildah", *store, *run, *volumes, made.stdout.strip()]
    subprocess.run(["buildah", *store, "rm", "--all"], check=False, capture_output=True)
    shutil.rmtree(folder / "root", ignore_errors=True)


def test_a_patch_is_gated_in_it(folder: Path, container: list[str]) -> None:
    needs_board("virt-arm64")
    shutil.copy(EXAMPLES / "ufs-submission-cost.patch", folder / "my.patch")
    shutil.copy(UNCALIBRATED, folder / "uncalibrated.toml")
    words = ["--cells", CELL, "--matrix", "uncalibrated.toml", "--out", "/work/out"]
    done = subprocess.run(
        [*container, "iotoll", "gate", "--candidate", "my.patch", *words],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    verdict = json.loads((folder / "out/verdict.json").read_text())
    assert (done.returncode, verdict["outcome"]) == (1, "regression"), done.stderr[-3000:]
    doctor = subprocess.run(
        [*container, "iotoll", "doctor", "--json"], capture_output=True, text=True, check=False
    )
    found = {one["need"]: one["state"] for one in json.loads(doctor.stdout)}
    assert found["trace analyser"] == "present"
    assert str(ROOT) not in doctor.stdout
