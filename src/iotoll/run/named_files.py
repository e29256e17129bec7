"""The files that a run names and that a step in the sandbox reads again.

A user's own board, matrix or policy may lie anywhere, in no folder that such a step sees.
"""

from __future__ import annotations

from pathlib import Path

from iotoll.core.paths import cache_dir, data_dir
from iotoll.core.toml import extended_files, load_extended, named_file
from iotoll.kernels.kconfig import fragment_path
from iotoll.kernels.sandbox import Surroundings, tools
from iotoll.kernels.source import locate
from iotoll.records.models import RunManifest


def named_files(manifest: RunManifest) -> list[Path]:
    """All files that board, matrix and policy of a run are made of, each once.

    Also those that they name in turn: what they extend, the board's hardware and its fragments.
    Raises UsageError where one cannot be read.
    """
    jobs = data_dir("lava-jobs")
    boards, matrices = jobs / "boards", jobs / "matrices"
    board, matrix = named_file(boards, manifest.board), named_file(matrices, manifest.matrix)
    policy = named_file(data_dir("pipelines") / "policies", manifest.policy)
    found = [policy, *extended_files(matrices, matrix), *extended_files(boards, board)]
    data = load_extended(boards, board)
    if "hardware" in data:
        hardware = named_file(jobs / "hardware", str(data["hardware"]))
        found.append(hardware)
        data = load_extended(jobs / "hardware", hardware)
    found += [fragment_path(str(name)) for name in data.get("fragments", ())]
    return list(dict.fromkeys(found))


def surroundings(manifest: RunManifest) -> Surroundings:
    """A sandbox that shows a step the files that its run names, under the names that it knows.

    Of the cache it sees the run's own tree, which explains where code is from.
    """
    seen: list[Path] = []
    if manifest.tree is not None:
        located = locate(manifest.tree)
        named = located.repository.resolve() if located.repository else None
        within = named is not None and named.is_relative_to(cache_dir().resolve())
        seen = [path for path in (located.tree.root, named if within else None) if path]
        lent = [path for path in located.tree.borrowed() if path.is_relative_to(cache_dir())]
        seen += [path for path in lent if not any(path.is_relative_to(one) for one in seen)]
        seen = [path for path in seen if path.is_dir()]
    return Surroundings(cache=[*tools(), *seen], shown=named_files(manifest), folder=Path.cwd())
