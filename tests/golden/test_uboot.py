"""Jobs of U-Boot boards through LAVA's own worker: files as TFTP has them, words for U-Boot."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotoll.boards import flash, rootfs
from iotoll.boards.board import RealBoard, load_board
from iotoll.boards.hardware import load_hardware
from iotoll.boards.ramdisk import Image
from iotoll.boots.local import BootPlan
from iotoll.core.digest import file_sha256
from iotoll.core.errors import UsageError
from iotoll.labs.fileserver import make_server
from iotoll.labs.lava.config import load_lab
from iotoll.labs.lava.definition import render
from iotoll.labs.lava.files import JobFiles
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.server import FileStore
from iotoll.records import results
from iotoll.records.models import BuildRecord, Clock
from iotoll.records.results import write
from tests.conftest import Check
from tests.golden.test_devices import U_BOOT
from tests.unit.boardfiles import fake_dtb, fake_kernel, small_image

BOARDS = {board: device for device, board in U_BOOT.items()}
ON_A_WORKER = ("in.tftpd", "mkimage", "telnet")
"""Programs that LAVA looks for, and does not run before it has a board."""
CELLS = ["emmc-4k-randread-t1-direct"]
TFTP_NAME = 127  # characters that U-Boot's tftp keeps of a file's name


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FileStore]:
    """A lab's file server."""
    server = make_server("127.0.0.1", 0, tmp_path_factory.mktemp("files"))
    threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True).start()
    yield FileStore(Http(f"http://127.0.0.1:{server.server_port}"))
    server.shutdown()
    server.server_close()


def plan(name: str, image: Image, folder: Path) -> BootPlan:
    """A boot of a board whose kernel is built."""
    board = load_board(name)
    assert isinstance(board, RealBoard)
    build, job = folder / name / "build", folder / name / "job"
    fake_kernel(board.hardware, build)
    record = BuildRecord(
        side="base",
        arch=board.arch,
        image="Image",
        image_sha256=file_sha256(build / "Image"),
        config_sha256="0",
        fragments=[],
        toolchain="",
        seconds=0,
    )
    write(build / "build.json", record)
    flash.add_dtb(build, board.hardware, build / "board.dtb")
    job.mkdir()
    (job / "job.env").write_text("BATCHES=emmc\n")
    return BootPlan(
        "base", 1, board, Clock.TIME, "none", build / "Image", image, job, "0", CELLS, 1,
        folder / name / "boot",
    )  # fmt: skip


@pytest.fixture(scope="module")
def made(
    store: FileStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[BootPlan, str]]]:
    """A boot of each board, and its job as the runner submits it; its files are uploaded."""
    folder = tmp_path_factory.mktemp("boards")
    small = small_image(folder)
    for arch in ("arm", "arm64"):
        (folder / arch).mkdir()
        (folder / arch / "iotoll-dut").write_text(arch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IOTOLL_DUT", str(folder))
        patch.setattr(rootfs, "get_image", lambda *_: small)
        plans = {board: plan(board, small, folder) for board in BOARDS}
        files, lab = JobFiles(store.add), load_lab("example")
        yield {
            board: (one, render(files.job(one, board, {}), board, lab))
            for board, one in plans.items()
        }


@pytest.fixture(scope="module")
def deployed(
    lab_root: Path,
    made: dict[str, tuple[BootPlan, str]],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What LAVA's worker makes of the jobs."""
    folder = tmp_path_factory.mktemp("worker")
    devices = Path(__file__).parent / "data/devices"
    jobs = {
        board: {"job": text, "device": json.loads((devices / f"{BOARDS[board]}.json").read_text())}
        for board, (_, text) in made.items()
    }
    programs = folder / "programs"
    programs.mkdir()
    for name in ON_A_WORKER:
        (programs / name).symlink_to("/bin/true")
    script = Path(__file__).parent / "lava_deploy.py"
    done = subprocess.run(
        [sys.executable, str(script), str(lab_root), str(folder), str(folder / "made.json")],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:{programs}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads((folder / "made.json").read_text())
    return found


@pytest.mark.parametrize("board", BOARDS)
def test_words_that_lava_types_into_u_boot(
    board: str, deployed: dict[str, Any], golden: Check
) -> None:
    golden(f"lava/u-boot/{board}.txt", "".join(f"{w}\n" for w in deployed[board]["commands"]))


@pytest.mark.parametrize("board", BOARDS)
def test_console_and_command_line_are_those_of_the_board(
    board: str, deployed: dict[str, Any]
) -> None:
    hardware = load_hardware(board)
    words = next(w for w in deployed[board]["commands"] if w.startswith("setenv bootargs"))
    assert f"console={hardware.console} " in words
    assert f" {hardware.cmdline} " in words


@pytest.mark.parametrize("board", BOARDS)
def test_files_that_tftp_serves(
    board: str, deployed: dict[str, Any], made: dict[str, tuple[BootPlan, str]]
) -> None:
    kernel = made[board][0].kernel
    files = {kind: Path(path) for kind, path in deployed[board]["files"].items()}
    assert files["kernel"].read_bytes() == kernel.read_bytes()
    assert files["dtb"].read_bytes() == kernel.with_name("board.dtb").read_bytes()
    for path in files.values():
        assert len(str(Path(*path.parts[-4:]))) <= TFTP_NAME


@pytest.mark.parametrize("board", BOARDS)
def test_ramdisk_has_the_job_and_lava_s_overlay(
    board: str, deployed: dict[str, Any], tmp_path: Path
) -> None:
    packed = Path(deployed[board]["files"]["ramdisk"])
    subprocess.run(
        ["cpio", "-id", "--quiet", "--no-absolute-filenames"],
        input=gzip.decompress(packed.read_bytes()),
        cwd=tmp_path,
        check=True,
    )
    assert (tmp_path / "init").stat().st_mode & 0o111
    assert (tmp_path / "iotoll/job/job.env").read_text() == "BATCHES=emmc\n"
    assert (tmp_path / "iotoll/dut/lava.sh").is_file()
    assert (tmp_path / "usr/bin/iotoll-dut").read_text() == load_hardware(board).arch
    assert [*tmp_path.glob("lava-*/bin/lava-test-runner")], "LAVA's overlay"


def test_job_needs_a_device_tree_of_its_board(
    store: FileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = plan("jetson-tx1", small_image(tmp_path), tmp_path)
    build = one.kernel.parent
    record = results.read(build / "build.json", BuildRecord)
    write(build / "build.json", record.model_copy(update={"dtbs": {}}))
    with pytest.raises(UsageError, match=r"jetson-tx1 needs a device tree: .*--tree.*\(dtb\)"):
        JobFiles(store.add).job(one, "x", {})
    (tmp_path / "other.dtb").write_bytes(fake_dtb("raspberrypi,4"))
    with pytest.raises(UsageError, match=r"other.dtb: its device tree is not for nvidia,p2371"):
        flash.add_dtb(build, load_hardware("jetson-tx1"), tmp_path / "other.dtb")
    with pytest.raises(UsageError, match=r"device tree .*none.dtb: No such file"):
        flash.add_dtb(build, load_hardware("jetson-tx1"), tmp_path / "none.dtb")
