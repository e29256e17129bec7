"""Call trees of both kernels as one: each frame has the instructions per I/O of either side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from iotoll.explain.attribute import CellParts
from iotoll.explain.record import Ints
from iotoll.explain.walk import Tree


@dataclass
class Frame:
    """A function in its call path; ``own`` are its instructions per I/O, (base, candidate)."""

    name: str
    own: list[float] = field(default_factory=lambda: [0.0, 0.0])
    children: dict[str, Frame] = field(default_factory=dict)

    def child(self, name: str) -> Frame:
        """The frame of a called function, made where there is none yet."""
        return self.children.setdefault(name, Frame(name))

    @cached_property
    def total(self) -> tuple[float, float]:
        """Instructions per I/O with all that it calls, (base, candidate); of a whole tree."""
        parts = [self.own, *(child.total for child in self.children.values())]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    @cached_property
    def differs(self) -> bool:
        """Whether a frame of this subtree has another count on either side."""
        return self.own[0] != self.own[1] or any(c.differs for c in self.children.values())

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Frame]]:
        """This frame and all below it with their depths, callers before what they call."""
        yield depth, self
        for child in self.children.values():
            yield from child.walk(depth + 1)


def add(frame: Frame, side: int, tree: Tree, nodes: Ints, ios: int) -> None:
    """Add one side's instructions by node, divided by the number of I/Os, below a frame."""
    for node in np.flatnonzero(nodes).tolist():
        place = frame
        for name in tree.path(node):
            place = place.child(name)
        place.own[side] += int(nodes[node]) / ios


def cell_frames(base: CellParts, candidate: CellParts, *, single: bool = False) -> Frame:
    """The sections of a cell, and below them what ran; with ``single`` of the one I/O asked for."""
    root = Frame(base.cell)
    for side, parts in enumerate((base, candidate)):
        for section, found in parts.sections.items():
            nodes = found.single if single else found.nodes
            if nodes is not None and len(found.ios):
                frame = root.child(section.value)
                add(frame, side, parts.tree, nodes, 1 if single else len(found.ios))
    return root
