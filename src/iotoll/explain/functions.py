"""Functions of `iotoll explain` as its record has them: with files, lines and inlined functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iotoll.core.errors import IotollError
from iotoll.core.progress import Progress
from iotoll.explain.compare import FunctionChange, InlinedChange, SectionChange
from iotoll.explain.pieces import Pieces, added_lines
from iotoll.kernels.compiled import SOURCES
from iotoll.kernels.debuginfo import FunctionLines, find_changed_lines, find_lines
from iotoll.kernels.symbols import Symbols
from iotoll.records import results, sealed
from iotoll.records.models import FunctionDelta, InlinedDelta, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.text import some_of
from iotoll.run.building import Building

_MOST = 100
"""Changed functions that are looked up; a change of a header may have thousands."""


class Lines:
    """Looks functions up; what cannot be looked up is left out, and ``note`` says why."""

    def __init__(self, setup: Building) -> None:
        self._setup = setup
        self.note: str | None = None

    def read(
        self, side: Side, symbols: Symbols, names: Sequence[str]
    ) -> Mapping[str, FunctionLines]:
        """Lines of those of the functions whose source is found and has the image's code."""
        run = self._setup.run
        listed = run.build(side) / SOURCES
        if run.manifest.tree is None or not listed.is_file():
            self.note = "the kernels were given as images: files and lines are not known"
            return {}
        if len(names) > _MOST:
            self.note = f"{len(names)} functions changed: lines of the first {_MOST} are known"
        code = {name: symbols.code(name) for name in names[:_MOST]}
        try:
            job, sources = (
                self._setup.build_job(side),
                listed.read_text(errors="replace").splitlines(),
            )
            found = find_lines(job, code, sources, self.changed_paths(), self._setup.progress)
        except (IotollError, OSError) as error:
            self.note = f"files and lines are not known: {error}"
            return {}
        if lost := [name for name in code if name not in found]:
            self.note = f"no debug information with the measured code: {some_of(lost, 4)}"
        return found

    def read_changed(self, symbols: Symbols, names: Sequence[str]) -> Mapping[str, FunctionLines]:
        """Lines of those of the candidate's functions that are in changed files.

        That takes no more than the base's build, as it is after a candidate was built. Where
        another build has its place, as when both images were in the cache, it is as `read`.
        """
        run = self._setup.run
        if run.manifest.tree is None:
            self.note = "the kernels were given as images: files and lines are not known"
            return {}
        code = {name: symbols.code(name) for name in names[:_MOST]}
        listed, paths = run.build("candidate") / SOURCES, self.changed_paths()
        try:
            job, base = self._setup.build_job("candidate"), self._setup.build_job("base")
            sources = listed.read_text(errors="replace").splitlines() if listed.is_file() else []
            found = find_changed_lines(job, base, code, paths, sources, Progress(quiet=True))
        except (IotollError, OSError) as error:
            self.note = f"files and lines are not known: {error}"
            return {}
        if found is None:
            return self.read("candidate", symbols, names)
        lost = [name for name in code if name not in found]
        if lost and any(path.endswith(".h") for path in paths):
            self.note = f"a header changed, and lines are not looked up in {some_of(lost, 4)}"
        return found

    def changed_paths(self) -> list[str]:
        """The files that the candidate changes."""
        path = self._setup.run.side("candidate") / "source.json"
        return results.read(path, SourceRecord).changed_paths if path.is_file() else []

    def added(self) -> dict[str, list[int]]:
        """The lines that the candidate adds or replaces, by file."""
        change = sealed.change(self._setup.run)
        return added_lines(change) if change is not None else {}


_LOOKED_UP = 3
"""Functions of a section whose lines are looked up, the largest differences first."""


@dataclass
class Found:
    """What is known of functions: the changed ones, both sides' pieces, and looked-up lines.

    ``symbols`` are those of candidate and base; ``begins`` has file and line by function.
    """

    changed: frozenset[str]
    candidate: Pieces
    base: Pieces
    symbols: tuple[Symbols, Symbols]
    lines: Lines
    begins: dict[str, tuple[str, int]] = field(default_factory=dict)

    def look_up(self, sections: Sequence[SectionChange]) -> None:
        """Look up where the functions behind the largest differences begin."""
        names = {f.name for s in sections for f in s.functions[:_LOOKED_UP]}
        self.begins |= {**self.base.begins, **self.candidate.begins}
        note = self.lines.note
        candidate, base = self.symbols
        mine = [name for name in sorted(names - set(self.begins)) if candidate.span(name)]
        self._keep(self.lines.read_changed(candidate, mine) if mine else {})
        # In files that did not change it is where it was; the base's are compiled once for all.
        left = [name for name in sorted(names - set(self.begins)) if base.span(name)]
        found = self.lines.read("base", base, left) if left else {}
        moved = set(self.lines.changed_paths())
        still = {
            n: one for n, one in found.items() if one.file not in moved or not candidate.span(n)
        }
        self._keep(still)
        # It says why lines of the change are not known, and these functions are any.
        self.lines.note = note

    def _keep(self, lines: Mapping[str, FunctionLines]) -> None:
        self.begins |= {name: (one.file, one.line) for name, one in lines.items()}


def function_delta(change: FunctionChange, found: Found) -> FunctionDelta:
    """One function of a section, as the record has it."""
    file, line = found.begins.get(change.name, (None, None))
    second = change.change.second
    return FunctionDelta(
        name=change.name,
        base=change.base,
        candidate=change.candidate,
        delta=change.change.common,
        share=round(change.change.share, 4),
        mean=round(change.change.mean, 2),
        calls_base=change.calls[0],
        calls_candidate=change.calls[1],
        callers=list(change.callers),
        changed=change.name in found.changed,
        next_delta=second[0] if second else None,
        next_share=round(second[1], 4) if second else None,
        file=file,
        line=line,
        inlined=[_inlined(one, found) for one in change.inlined],
    )


def _inlined(change: InlinedChange, found: Found) -> InlinedDelta:
    label = change.label
    place = found.candidate.places.get(label) or found.base.places[label]
    return InlinedDelta(
        name=label.chain[0],
        into=[*label.chain[1:], label.function],
        file=place.file,
        line=place.line,
        base=change.base,
        candidate=change.candidate,
        delta=change.change.common,
        share=round(change.change.share, 4),
        mean=round(change.change.mean, 2),
    )
