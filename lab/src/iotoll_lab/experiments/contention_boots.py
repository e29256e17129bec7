"""The kernels of `iotoll experiment contention`: built, booted twice, and what their CPUs shared.

The second boot must leave the same bytes as the first: traces, counts, and every access.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from iotoll.boards.board import VirtualBoard, load_virtual_board
from iotoll.boards.equip import equipped, fragments
from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.boards.ramdisk import get_image
from iotoll.boots.schedule import Bench, plan_boot, run_plans
from iotoll.core.digest import file_sha256, json_sha256, text_sha256
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.kernels.build import KernelSpec, build_side
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.places import warm_place
from iotoll.kernels.source import open_tree, prepare
from iotoll.kernels.symbols import Symbols, read_symbols
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import Clock, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from iotoll.run.manifest import RunRequest, new_manifest
from iotoll.run.opening import keep_run
from iotoll_lab.contention.cells import CellSharing, sharing
from iotoll_lab.contention.names import DataNames
from iotoll_lab.contention.recorder import read_accesses, record_words
from iotoll_lab.experiments.exact import hashes

_MAP = "System.map"
_TRIES = 5
"""Builds of one kernel: others may take the work tree before its symbols are read."""


@dataclass(frozen=True)
class KernelSharing:
    """One kernel: the digest of its image and of its machine code, and what its cells shared.

    ``boots`` has the digest of all that each boot left.
    """

    name: str
    image_sha256: str
    code_sha256: str
    boots: list[str]
    cells: list[CellSharing]

    @property
    def is_repeated(self) -> bool:
        """Whether all boots left the same bytes."""
        return len(self.boots) > 1 and len(set(self.boots)) == 1


class Kernels:
    """The kernels of one command, below a folder; what an earlier command finished is read."""

    def __init__(self, out: Path, board: str, matrix: str, cells: str, tree: str) -> None:
        self.out = out
        self.progress = Progress()
        self._tree, self._names = tree, (board, matrix)
        self._matrix = load_matrix(matrix)
        loaded = load_virtual_board(board)
        if not loaded.qemu.patched or loaded.qemu.cpus < 2:
            raise UsageError(f"board {board} is not an exact one of several CPUs")
        asked = chosen_cells(cells, self._matrix.cells, self._matrix.family_cells)
        self.cells = tuple(asked or ())
        made = equipped(loaded, self.cells)
        assert isinstance(made, VirtualBoard)
        self._board = made

    def sharing(self, name: str, patch: str, boots: int) -> KernelSharing:
        """Of one kernel: the tree's own where ``patch`` is empty.

        Raises InfrastructureError where two of its boots differ; both are kept.
        """
        stored = self.out / "kernels" / f"{name}.json"
        asked = json_sha256([text_sha256(patch), self.cells, self._board.model_dump(), boots])
        if stored.is_file():
            known = json.loads(stored.read_text())
            if known.pop("asked") == asked:
                cells = [CellSharing(**one) for one in known.pop("cells")]
                return KernelSharing(**known, cells=cells)
        side: Side = "candidate" if patch else "base"
        found = self._fresh(name, self._run(name, patch), side, boots)
        results.write_text(stored, json.dumps({"asked": asked, **asdict(found)}, indent=1) + "\n")
        return found

    def _run(self, name: str, patch: str) -> RunDir:
        """The folder of a kernel, with its source ready."""
        path = self.out / "patches" / f"{name}.patch"
        if patch:
            results.write_text(path, patch)
        choice = candidate.classify(str(path) if patch else None, tree=self._tree)
        request = RunRequest(
            command=("iotoll", "experiment", "contention"),
            kind="gate" if patch else "measure",
            choice=choice,
            board=self._names[0],
            matrix=self._names[1],
            cells=self.cells,
        )
        run = keep_run(self.out / "runs" / name, new_manifest(request))
        prepare(run, self.progress, self.cells)
        return run

    def _fresh(self, name: str, run: RunDir, side: Side, boots: int) -> KernelSharing:
        names = self._build(run, side)
        symbols = read_symbols(run.build(side) / "Image")
        at, cpus = names.distances_at(), self._board.qemu.cpus
        folder = run.root / "accesses"
        words = record_words(folder, symbols, (at, cpus) if at else None)
        image = get_image(self._board.arch, self.progress)
        bench = Bench(
            self._board, self._matrix, image, self.cells, Clock.INSTRUCTIONS, "tcg", fresh=True
        )
        digests: list[str] = []
        cells: list[CellSharing] = []
        for number in range(1, boots + 1):
            plan = plan_boot(run, bench, side, 1)
            plan = replace(plan, number=number, folder=run.boot(side, number), words=words)
            shutil.rmtree(plan.folder, ignore_errors=True)
            # What an earlier boot left must not pass for this one's.
            for path in folder.glob("boot.*"):
                path.unlink()
            run_plans(run, [plan], self.progress, abreast=1)
            digests.append(_digest(plan.folder, folder))
            if number == 1:
                accesses = read_accesses(folder)
                named = replace(names, distances=tuple(accesses.distances.tolist()))
                cells = list(sharing(plan.folder, self.cells, accesses, symbols, named))
        if len(set(digests)) != 1:
            raise InfrastructureError(f"{run.root}: two boots of {name} differ: a bug of the board")
        for path in (folder, *(run.boot(side, n) for n in range(1, boots + 1))):
            shutil.rmtree(path)
        code = _code(symbols, names)
        return KernelSharing(name, file_sha256(run.build(side) / "Image"), code, digests, cells)

    def _build(self, run: RunDir, side: Side) -> DataNames:
        """Build the kernel; returns its symbols, which make leaves beside it."""
        kept = run.root / _MAP
        spec = KernelSpec(self._board.arch, fragments(self._board, self.cells))
        for _ in range(_TRIES):
            build_side(run, side, spec, self.progress, warm=not kept.is_file())
            if kept.is_file() or self._keep_map(run, side, spec, kept):
                return DataNames.read(kept)
        raise InfrastructureError(
            f"{run.root}: other builds take the work tree again and again: run the command later"
        )

    def _keep_map(self, run: RunDir, side: Side, spec: KernelSpec, kept: Path) -> bool:
        """Copy the symbols of what was just built; False if another build was there first."""
        source = results.read(run.side(side) / "source.json", SourceRecord)
        job = KernelJob.make(source, spec.arch, spec.fragments)
        with warm_place(open_tree(source.tree, self.progress), job) as place:
            if place is None:
                return False
            shutil.copyfile(job.out(place) / _MAP, kept)
        return True


def _code(symbols: Symbols, names: DataNames) -> str:
    """The digest of all instructions of an image, and of where they are."""
    parts = [symbols.image[low - symbols.base : high - symbols.base] for low, high in names.code]
    return json_sha256([names.code, [sha256(part).hexdigest() for part in parts]])


def _digest(boot: Path, accesses: Path) -> str:
    """Of all that a boot left: what `exact` compares, and its accesses."""
    kept: Sequence[Path] = sorted(accesses.glob("boot.*"))
    return json_sha256(hashes(boot) | {path.name: file_sha256(path) for path in kept})
