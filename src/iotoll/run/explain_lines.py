"""Files and lines for `iotoll explain`: read of each side's source, where there is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iotoll.core.errors import IotollError
from iotoll.kernels.compiled import SOURCES
from iotoll.kernels.debuginfo import FunctionLines, find_lines
from iotoll.kernels.symbols import Symbols
from iotoll.measure.explain.pieces import added_lines
from iotoll.records import results, sealed
from iotoll.records.models import SourceRecord
from iotoll.records.models.run import Side
from iotoll.run.flow import Flow

_MOST = 100
"""Changed functions that are looked up; a change of a header may have thousands."""


class Lines:
    """Looks functions up; what cannot be looked up is left out, and ``note`` says why."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self.note: str | None = None

    def read(
        self, side: Side, symbols: Symbols, names: Sequence[str]
    ) -> Mapping[str, FunctionLines]:
        """Lines of those of the functions whose source is found and has the image's code."""
        run = self._flow.run
        listed = run.build(side) / SOURCES
        if run.manifest.tree is None or not listed.is_file():
            self.note = "the kernels were given as images: files and lines are not known"
            return {}
        if len(names) > _MOST:
            self.note = f"{len(names)} functions changed: lines of the first {_MOST} are known"
        code = {name: symbols.code(name) for name in names[:_MOST]}
        try:
            job, sources = (
                self._flow.build_job(side),
                listed.read_text(errors="replace").splitlines(),
            )
            found = find_lines(job, code, sources, self._changed_paths(), self._flow.progress)
        except (IotollError, OSError) as error:
            self.note = f"files and lines are not known: {error}"
            return {}
        if lost := [name for name in code if name not in found]:
            self.note = f"no debug information with the measured code: {_some(lost)}"
        return found

    def _changed_paths(self) -> list[str]:
        path = self._flow.run.side("candidate") / "source.json"
        return results.read(path, SourceRecord).changed_paths if path.is_file() else []

    def added(self) -> dict[str, list[int]]:
        """The lines that the candidate adds or replaces, by file."""
        change = sealed.change(self._flow.run)
        return added_lines(change) if change is not None else {}


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return ", ".join(names[:4]) + more
