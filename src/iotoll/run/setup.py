"""What a run's manifest names, loaded once: board, matrix, policy, lab, and what follows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from iotoll.boards.board import AnyBoard, HostBoard, RealBoard, load_board
from iotoll.boards.equip import equipped, fragments
from iotoll.boards.matrix import Matrix, load_matrix
from iotoll.boards.ramdisk import get_image
from iotoll.boots.pair_order import boot_order
from iotoll.boots.schedule import LEAST_DIVIDED, Bench, Connect, counts_recorder
from iotoll.core.errors import InfrastructureError
from iotoll.core.proc import SANDBOXED
from iotoll.core.progress import Progress
from iotoll.kernels import sandbox
from iotoll.kernels.build import KernelSpec
from iotoll.labs.lava.config import Lab, load_lab
from iotoll.labs.ssh.config import SshBoard, load_desk
from iotoll.labs.ssh.connection import Connection
from iotoll.labs.ssh.runner import SshRunner
from iotoll.records import results
from iotoll.records.models import (
    BuildRecord,
    Clock,
    SelectionRecord,
    SideResult,
    SourceRecord,
)
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.verdict.policy import Policy, TimePolicy, load_any_policy, load_policy, load_time_policy


@dataclass
class Setup:
    """One run directory and what its manifest names, loaded once.

    With ``stored`` nothing boots: what a verdict needs and the run does not hold is an error. With
    ``fresh`` no boot is taken from the store of earlier boots. With ``explains`` the report also
    has what the policy wants explained.
    """

    run: RunDir
    progress: Progress
    stored: bool = False
    fresh: bool = False
    explains: bool = False

    @cached_property
    def board(self) -> AnyBoard:
        """The board the run is on."""
        return load_board(self.run.manifest.board)

    @property
    def is_exact(self) -> bool:
        """Whether the board leaves nothing to the host, so that I/Os can be paired."""
        return self.board.is_exact

    @cached_property
    def matrix(self) -> Matrix:
        """The workload matrix."""
        return load_matrix(self.run.manifest.matrix)

    @cached_property
    def policy(self) -> Policy | TimePolicy:
        """The gate policy."""
        return load_any_policy(self.run.manifest.policy)

    @cached_property
    def instructions_policy(self) -> Policy:
        """The policy of a run on the clock `instructions`."""
        return load_policy(self.run.manifest.policy)

    @property
    def judges_time(self) -> bool:
        """Whether the run's times are judged: of a real board, or of a virtual one on purpose."""
        manifest = self.run.manifest
        real = manifest.accelerator == "none"
        return (
            manifest.kind == "gate"
            and manifest.clock is Clock.TIME
            and (real or manifest.experiment)
        )

    @cached_property
    def lab(self) -> Lab | None:
        """The LAVA lab that runs the boots; None on a local board."""
        manifest = self.run.manifest
        if manifest.runner != "lava":
            return None
        lab = load_lab(manifest.lab or "local")
        lab.board(self.board.name)
        return lab

    @cached_property
    def desk(self) -> SshBoard | None:
        """How the board is reached by ssh; None where the runner is another one."""
        manifest = self.run.manifest
        if manifest.runner != "ssh":
            return None
        return load_desk(str(manifest.lab)).board(self.board.name)

    @property
    def sides(self) -> tuple[Side, ...]:
        """The kernels of this run."""
        return ("base", "candidate") if self.run.manifest.kind == "gate" else ("base",)

    @property
    def wanted(self) -> list[tuple[Side, int]]:
        """The boots that were asked for, in the order in which they run."""
        if self.judges_time:
            looks = load_time_policy(self.run.manifest.policy).looks
            return boot_order(self.run.manifest.seed, max(self.run.manifest.boots, looks[0]))
        numbers = range(1, max(self.run.manifest.boots, self.bench.parts) + 1)
        return [(side, n) for n in numbers for side in self.sides]

    @property
    def cells(self) -> list[str]:
        """The selected cells."""
        return [c.cell for c in results.read(self.run.selection, SelectionRecord).cells]

    @property
    def fragments(self) -> list[str]:
        """The config fragments of both kernels: the board's, and what cells and patch need."""
        more = results.read(self.run.selection, SelectionRecord).fragments
        return fragments(self.board, self.cells, more)

    @property
    def kernel_spec(self) -> KernelSpec:
        """What both kernels are built for."""
        return KernelSpec(self.board.arch, self.fragments, self.dtbs)

    @property
    def boots_in_sandbox(self) -> Sequence[Side]:
        """The sides that boot in the sandbox, which only a candidate at a desk needs.

        Where times are judged it is both, so that they differ in nothing but the kernel.
        """
        if self.sandbox_refused and isinstance(self.board, HostBoard):
            raise InfrastructureError(
                f"board {self.board.name} runs the candidate as a process of this machine,"
                f" with your rights where no sandbox is: {self.sandbox_refused}: name another board"
            )
        if self.sandbox_refused is None or self.sandbox_refused:
            return ()
        return self.sides if self.judges_time else ("candidate",)

    @property
    def needs_sandbox(self) -> bool:
        """Whether this desk is to build or boot a stranger's kernel.

        Nothing is a stranger's where one kernel is measured, and a lab's boards are not this
        machine. A pipeline's job is in a sandbox already.
        """
        manifest = self.run.manifest
        strangers = manifest.kind == "gate" and manifest.candidate_kind != "none"
        return strangers and not self.stored and SANDBOXED not in os.environ

    @cached_property
    def sandbox_refused(self) -> str | None:
        """Why this desk's sandbox is not to be had, empty if it is; None where there is no need."""
        return sandbox.why_not(self.run.root) if self.needs_sandbox else None

    @property
    def caches(self) -> str | None:
        """The model of caches in which lines are counted; None where they are not."""
        if not isinstance(self.policy, Policy):
            return None
        rule = self.policy.lines
        source = self.run.side("candidate") / "source.json"
        changed = rule.when == "structures" and source.is_file()
        asked = self.run.manifest.lines or rule.when == "always"
        if asked or (changed and results.read(source, SourceRecord).structures):
            return rule.caches
        return None

    @cached_property
    def bench(self) -> Bench:
        """What the boots of this run share."""
        manifest, lab, desk = self.run.manifest, self.lab, self.desk
        where = lab.board(self.board.name) if lab else desk
        image = get_image(self.board.image_arch, self.progress)
        bench = Bench(
            equipped(self.board, self.cells),
            self.matrix,
            image,
            self.cells,
            manifest.clock,
            manifest.accelerator,
            # Gates on times compare raw values: both kernels have the same probes.
            calibrate_times=manifest.kind == "measure",
            send_times=lab.board(self.board.name).send_times if lab else None,
            cool_down=where.cool_down_seconds if where else 0,
            fresh=self.fresh,
            in_sandbox=self.boots_in_sandbox,
            keeps=desk is not None,
            caches=self.caches,
        )
        # Calibration runs are of one boot, for the cells of all.
        is_divided = len(self.cells) >= LEAST_DIVIDED and counts_recorder(
            bench, self.run.build("base") / "Image"
        )
        return replace(bench, parts=manifest.parts) if is_divided else bench

    @property
    def connect(self) -> Connect | None:
        """What reaches the lab, or the board, that runs the boots; None on a local board."""
        lab, desk = self.lab, self.desk
        if desk is not None:
            return lambda: SshRunner(self.run, desk, self.progress)
        if lab is None:
            return None
        # Only a lab needs HTTP, which takes a tenth of a second to import.
        from iotoll.labs.lava.runner import lava_runner

        return lambda: lava_runner(self.run, lab, tell=self.progress.say)

    def preflight(self) -> None:
        """Raise what keeps the lab from running this board's jobs, before anything long begins.

        A run that has jobs in LAVA already waits for the lab instead.
        """
        lab, desk = self.lab, self.desk
        if desk is not None and desk.boot != "command" and not desk.reset:
            with self.progress.step(f"look at {desk.host}"), Connection(desk) as board:
                board.boot_id()
        if lab is None or (self.run.root / "lava/journal.jsonl").is_file():
            return
        from iotoll.labs.lava import check
        from iotoll.labs.lava.server import connect

        with self.progress.step(f"look at lab {lab.name}"):
            check.demand(lab, connect(lab, check.RETRIES), [self.board.name])

    @property
    def dtbs(self) -> list[str]:
        """Device trees that are built with the kernel, as make names them."""
        return self.board.dtbs if isinstance(self.board, RealBoard) else []

    def needs_boots(self) -> bool:
        """Whether anything is to be measured: cells are selected and the images differ."""
        return bool(self.cells) and not self.identical_images()

    def identical_images(self) -> bool:
        """Whether both sides' kernels are the same bytes, and nobody wants them booted."""
        if self.run.manifest.kind == "measure" or self.run.manifest.aa:
            return False
        images = {
            results.read(self.run.build(side) / "build.json", BuildRecord).sha256
            for side in self.sides
        }
        return len(images) == 1

    def result(self, side: Side) -> SideResult:
        """The values of one side; raises ResultError before they were collected."""
        return results.read(self.run.side(side) / "result.json", SideResult)
