"""A run whose sources and kernels can be made: what gate, explain and bisect begin with."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from iotoll.boards.board import RealBoard
from iotoll.boards.equip import families
from iotoll.boards.flash import add_dtb, check_source
from iotoll.kernels.build import build_side
from iotoll.kernels.cache import copy_tree
from iotoll.kernels.compiled import read_by_builds
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.source import prepare
from iotoll.patch.selection import choose
from iotoll.records import results
from iotoll.records.models import (
    SelectionRecord,
    SourceRecord,
)
from iotoll.records.models.run import Side
from iotoll.run import sandboxed
from iotoll.run.setup import Setup


@dataclass
class Building(Setup):
    """A run directory, and how its sources and its kernels are made."""

    def while_compiling(self) -> AbstractContextManager[None]:
        """What is done beside make, when it compiles a candidate in the sandbox."""
        return nullcontext()

    def source(self) -> None:
        """Sources of both sides, and the selection of cells."""
        known = families(self.board, self.matrix)
        prepare(self.run, self.progress, self.matrix.cells, known)
        if isinstance(self.board, RealBoard) and self.run.manifest.tree is not None:
            record = results.read(self.run.side("base") / "source.json", SourceRecord)
            check_source(self.board.hardware, record, self.dtbs, self.progress)

    def build(self) -> None:
        """Kernel images of both sides; the base first, since its failure is not the patch's.

        The base's also where no cell is selected: its list of sources confirms that.
        """
        while True:
            for side in self.sides:
                self.build_side(side)
            if not self.select_compiled([self.run.build(side) for side in self.sides]):
                return

    def select_compiled(self, folders: Sequence[Path]) -> bool:
        """Select cells for paths that a rule calls no part of a kernel, and that a build read.

        ``folders`` are those of builds. Returns whether there were such paths.
        """
        selected = results.read(self.run.selection, SelectionRecord)
        found = read_by_builds(selected.harmless, folders)
        if not found:
            return False
        self.progress.say(
            f"{', '.join(sorted(found))}: objects of the board's kernel are made of it (or of a"
            " header of its name), so it selects cells"
        )
        known = families(self.board, self.matrix)
        left = set(selected.changed_paths) - set(selected.harmless)
        chosen = choose(selected.changed_paths, self.matrix.cells, None, known, found | left)
        results.write(self.run.selection, chosen)
        return True

    @property
    def is_unconfirmed(self) -> bool:
        """Whether no cell is selected only because rules call all of it no part of a kernel."""
        selected = results.read(self.run.selection, SelectionRecord)
        return not selected.cells and bool(selected.harmless)

    def build_side(self, side: Side, warm: bool = False) -> None:
        """The kernel image of one side; ``warm`` as in `iotoll.kernels.build.build_side`."""
        if not self.cells and not (side == "base" and self.is_unconfirmed):
            return
        if side == "candidate" and self.run.manifest.candidate_kind == "none":
            copy_tree(self.run.build("base"), self.run.build(side))
            return
        if side == "candidate" and self._in_sandbox():
            return
        build_side(self.run, side, self.kernel_spec, self.progress, warm=warm)
        self.add_blob(side)

    def add_blob(self, side: Side) -> None:
        """Put the device tree beside a built kernel, where it is a file of the lab's own."""
        if isinstance(self.board, RealBoard) and self.board.blob is not None:
            add_dtb(self.run.build(side), self.board.hardware, self.board.blob)

    def _in_sandbox(self) -> bool:
        """Build the candidate in the sandbox if this is a desk that allows it; else say why not.

        An image that is in the cache already needs no makefile of the candidate's.
        """
        if not self.needs_sandbox:
            return False
        builds = self.run.manifest.tree is not None and not self.build_job("candidate").is_done
        spec = self.kernel_spec
        why = sandboxed.why_not(self.run, spec) if builds else ""
        if builds and not why:
            self.sandbox_refused = ""  # this one saw all that a boot's does, and more
        why = self.sandbox_refused or why
        if why:
            self.progress.say(
                "the candidate's makefiles and kernel run as you, with your files and network; no"
                f" sandbox: {why} (docs/threat-model.md)"
            )
        if why or not builds:
            return False
        self.build_side("base", warm=True)
        step = self.progress.step("build the candidate in the sandbox")
        with step, self.while_compiling():
            sandboxed.at_desk(self.run, spec, self.progress)
        self.add_blob("candidate")
        return True

    def build_job(self, side: Side) -> KernelJob:
        """The build of one side, which may be done."""
        return sandboxed.job_of(self.run, side, self.kernel_spec)
