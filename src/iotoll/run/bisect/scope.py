"""What of a range matters: the cells that measure it, and the commits that can change a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from iotoll.kernels.compiled import find as find_coverage
from iotoll.patch import selection
from iotoll.run.bisect.history import History


def selected_cells(history: History, good: str, bad: str, known: Sequence[str]) -> list[str]:
    """Those of the ``known`` cells that the paths select in which two commits differ."""
    chosen = selection.select(history.differing(good, bad), known)
    return [cell.cell for cell in chosen.cells]


def without_effect(history: History, commits: Iterable[str], sources: set[str]) -> dict[str, float]:
    """Weight 0 for each commit none of whose files is among ``sources``, nor steers a build.

    ``sources`` are the files of a kernel that was built; where none is known no commit is ruled
    out. Nor is a merge: its own changes are not listed, and in a search along first parents it
    brings a branch.
    """
    if not sources:
        return {}
    single = [commit for commit in commits if len(history.parents(commit)) == 1]
    return {
        commit: 0.0
        for commit, paths in history.changed(single).items()
        if find_coverage(paths, sources, "", "").nothing or not paths
    }
