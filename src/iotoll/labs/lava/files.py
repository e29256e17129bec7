"""The files of a boot's job: made from kernel, root file system and job, and uploaded once."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from iotoll.boards import flash
from iotoll.boards.board import RealBoard, VirtualBoard
from iotoll.boards.hardware import Hardware, UbootBoot
from iotoll.boards.ramdisk import whole_cpio
from iotoll.boots.local import BootPlan
from iotoll.core.digest import file_sha256, json_sha256
from iotoll.core.errors import UsageError
from iotoll.core.paths import dut_command
from iotoll.core.progress import Progress
from iotoll.labs.lava.definition import File, Job, fastboot_job, uboot_job, virtual_job
from iotoll.records import results
from iotoll.records.models import BuildRecord, Clock, Section

STATISTICS = ("median", "mean", "p99")
"""What crates/iotoll-dut/src/figures.rs says of each section."""
WORKLOAD = "workload"
"""The test case that says whether the workload ended well; also the test definition's name."""


def expected_cases(cells: Iterable[str], clock: Clock) -> list[str]:
    """The test cases of a boot; LAVA itself calls one failed that does not come.

    LAVA compares names without their test set, which is the cell: so they also hold it.
    """
    sections = [s for s in Section if s is not Section.HARDWARE or clock is Clock.TIME]
    figures = [f"{c}.{s.value}.{name}" for c in cells for s in sections for name in STATISTICS]
    return [WORKLOAD, *figures]


class JobFiles:
    """Makes the jobs of boots; ``add`` uploads a file, unless it is there."""

    def __init__(self, add: Callable[[Path], File]) -> None:
        self._add = add
        self._made: dict[str, File] = {}

    def job(self, plan: BootPlan, name: str, metadata: Mapping[str, str]) -> Job:
        """The job of a boot, whose files the lab's file server then has."""
        expected = expected_cases(plan.cells, plan.clock)
        board = plan.board
        if isinstance(board, VirtualBoard):
            kernel, ramdisk = self._add(plan.kernel), self._ramdisk(plan)
            return virtual_job(board, name, kernel, ramdisk, metadata, expected)
        assert isinstance(board, RealBoard)
        hardware, dtb = board.hardware, _device_tree(plan)
        root = self._root(plan, hardware)
        if isinstance(hardware.boot, UbootBoot):
            flash.check_dtb(hardware, dtb)
            kernel, tree = self._add(plan.kernel), self._add(dtb)
            return uboot_job(hardware, name, kernel, tree, root, metadata, expected)
        boot = self._boot(plan, hardware, dtb)
        return fastboot_job(hardware, name, boot, root, metadata, expected)

    def _ramdisk(self, plan: BootPlan) -> File:
        dut = dut_command(plan.board.arch)

        def make(folder: Path) -> Path:
            whole_cpio(plan.image, plan.job, dut, folder / "ramdisk.cpio")
            return folder / "ramdisk.cpio"

        return self._once(["ramdisk", *_contents(plan, dut)], make)

    def _root(self, plan: BootPlan, hardware: Hardware) -> File:
        dut = dut_command(plan.board.arch)

        def make(folder: Path) -> Path:
            return flash.root_image(hardware, dut, plan.job, folder, Progress(quiet=True))

        return self._once(["root", hardware.name, *_contents(plan, dut)], make)

    def _boot(self, plan: BootPlan, hardware: Hardware, dtb: Path) -> File:
        config = plan.kernel.with_name("config")
        kernel = flash.Kernel(plan.kernel, dtb, config, None, "")

        def make(out: Path) -> Path:
            return flash.boot_image(hardware, kernel, out)

        return self._once(["boot", hardware.name, plan.kernel_sha256], make)

    def _once(self, what: list[str], make: Callable[[Path], Path]) -> File:
        key = json_sha256(what)
        if key not in self._made:
            with tempfile.TemporaryDirectory(prefix="iotoll-") as name:
                self._made[key] = self._add(make(Path(name)))
        return self._made[key]


def _device_tree(plan: BootPlan) -> Path:
    """The device tree of a real board, as its kernel's build noted it."""
    build = results.read(plan.kernel.with_name("build.json"), BuildRecord)
    if not build.dtbs:
        raise UsageError(
            f"board {plan.board.name} needs a device tree: build with --tree, or name a blob in"
            " your board file (dtb)"
        )
    return plan.kernel.with_name(next(iter(build.dtbs)))


def _contents(plan: BootPlan, dut: Path) -> list[str]:
    return [plan.image.sha256, plan.job_sha256, file_sha256(dut)]
