"""Call trees from a record: which function ran when, called by what, in which task.

The instruction that ends a block says how the next one is reached: it calls, returns, leaves an
exception, or jumps (a tail call replaces its caller). An exception begins in the function
``vectors``, or of x86-64 in its own (``asm_exc_page_fault``). What is approximate: a function that
was running before the record began is known from the moment when something returns to it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from iotoll.explain.record import PREVIOUS, SWITCH, Ints, Record
from iotoll.kernels.flow import Kind, ends_of
from iotoll.kernels.symbols import NOWHERE, USER, Symbols

JUMP, CALL, RETURN, LEAVE = range(4)
"""How a block ends."""

_KINDS = 4
_UNKNOWN = 2
"""How far the numbers of `Symbols.index` reach below 0."""

ROOT = 0
"""The node of the call trees above all functions."""

_VECTORS = "vectors"
_INTERRUPT = re.compile(
    r"el1h_64_irq|el0t_64_irq|el1h_64_fiq|el0t_64_fiq|asm_sysvec_\w+|asm_common_interrupt"
)
_ENTRY = re.compile(
    r"vectors|asm_exc_\w+|asm_sysvec_\w+|asm_\w+_interrupt|(irq|spurious)_entries_start"
    r"|entry_SYSCALL_64\w*|syscall_return_via_sysret|common_interrupt_return|error_return"
    r"|swapgs_restore_regs_and_return_to_usermode|native_(irq_return_)?iret|ret_from_fork_asm"
)
"""Where exceptions begin: arm64's vectors; of x86-64 also what they end in (entry_64.S)."""


@dataclass
class Tree:
    """Call paths: node ``n`` is the function ``function[n]``, called by node ``parent[n]``."""

    parent: list[int] = field(default_factory=lambda: [ROOT])
    function: list[str] = field(default_factory=lambda: [""])
    _known: dict[tuple[int, str], int] = field(default_factory=dict)

    def child(self, node: int, function: str) -> int:
        """The node of a function called by another node."""
        key = node, function
        if key not in self._known:
            self._known[key] = len(self.parent)
            self.parent.append(node)
            self.function.append(function)
        return self._known[key]

    def path(self, node: int) -> tuple[str, ...]:
        """The functions from the outermost one to a node."""
        found = []
        while node != ROOT:
            found.append(self.function[node])
            node = self.parent[node]
        return tuple(reversed(found))

    def above(self, node: int, function: str) -> int:
        """The nearest node above with this function; ROOT if there is none."""
        node = self.parent[node]
        while node != ROOT and self.function[node] != function:
            node = self.parent[node]
        return node

    def is_interrupt(self) -> npt.NDArray[np.bool_]:
        """Which nodes run in an interrupt, shape (nodes,)."""
        found = np.zeros(len(self.parent), np.bool_)
        for node in range(1, len(self.parent)):
            found[node] = found[self.parent[node]] or bool(
                _INTERRUPT.fullmatch(self.function[node])
            )
        return found


@dataclass(frozen=True)
class Walk:
    """Stretches of runs in one function, in order; arrays of shape (stretches,).

    ``run`` is the number of the first run, ``count`` its instructions, ``node`` its place in the
    tree, ``task`` the address of the task's structure (0: not known yet), ``entered`` whether it
    begins with a call. ``end`` is the run behind the last.
    """

    tree: Tree
    run: Ints
    count: Ints
    node: Ints
    task: npt.NDArray[np.uint64]
    entered: npt.NDArray[np.bool_]
    end: int


class Walker:
    """Walks through parts of a record; the tree is common to all of them."""

    def __init__(self, record: Record, symbols: Symbols) -> None:
        self._record = record
        self._symbols = symbols
        self._function, self._ends = _of_blocks(record, symbols)
        self._switches = record.marks[record.marks["probe"] == SWITCH]
        self._clock_runs = np.unique(record.clock["run"]).astype(np.int64)
        self.tree = Tree()
        # What `_next` returned, by node and step: the same ways are gone again and again.
        self._known: dict[tuple[int, int], int] = {}

    def walk(self, low: int, high: int) -> Walk:
        """The stretches of the runs from number ``low`` to before ``high``."""
        blocks, counts = self._record.unpack(low, high)
        functions, ends = self._function[blocks], self._ends[blocks]
        whole = counts == self._record.blocks["instructions"][blocks].astype(np.int64)
        ends = np.where(whole, ends, JUMP)
        changed = functions[1:] != functions[:-1]
        cut = np.concatenate([[True], changed | (ends[:-1] != JUMP)])[: len(blocks)]
        cut[_inside(self._clock_runs, low, high) - low] = True
        switches = self._switches
        inside = (switches["run"] >= low) & (switches["run"] < high)
        places = switches["run"][inside].astype(np.int64) - low
        cut[places] = True
        begin = np.nonzero(cut)[0]
        lengths = np.add.reduceat(counts, begin) if len(begin) else begin
        begun = np.searchsorted(begin, places).tolist()
        tasks = dict(zip(begun, switches["value"][inside].tolist(), strict=True))
        how = np.concatenate([[JUMP], ends[begin[1:] - 1]])[: len(begin)]
        first = self._first_task(low, high)
        nodes, before, owners = self._follow(functions[begin], how, tasks, first)
        entered = (nodes != before) & (how == CALL)
        return Walk(self.tree, begin + low, lengths, nodes, owners, entered, high)

    def _first_task(self, low: int, high: int) -> int:
        """The task that runs at the beginning: the first one that is left; 0: none is left."""
        marks = self._record.marks
        left = marks[(marks["probe"] == PREVIOUS) & (marks["run"] >= low) & (marks["run"] < high)]
        return int(left["value"][0]) if len(left) else 0

    def _follow(
        self, functions: Ints, how: Ints, tasks: dict[int, int], first: int
    ) -> tuple[Ints, Ints, npt.NDArray[np.uint64]]:
        """Of each stretch its node, the node before it, and its task.

        ``functions`` are numbers as `Symbols.index` has them, ``tasks`` those that begin, by the
        number of the stretch at which they do.
        """
        tree, names, known = self.tree, self._symbols.name, self._known
        steps = ((functions + _UNKNOWN) * _KINDS + how).tolist()
        owners = np.full(len(steps), first, np.uint64)
        nodes: list[int] = []
        before: dict[int, int] = {}
        node, task = ROOT, first
        saved: dict[int, int] = {}
        bounds = [0, *sorted(set(tasks) - {0}), len(steps)]
        for begin, end in pairwise(bounds):
            if begin in tasks:
                saved[task] = node
                task = tasks[begin]
                # The rest of cpu_switch_to runs for the next task, which called it some time ago.
                name = names(steps[begin] // _KINDS - _UNKNOWN)
                node = saved.get(task) or tree.child(ROOT, name)
                before[begin] = node
            owners[begin:end] = task
            for step in steps[begin:end]:
                key = node, step
                after = known.get(key)
                if after is None:
                    kind = step % _KINDS
                    after = _next(tree, node, names(step // _KINDS - _UNKNOWN), kind)
                    known[key] = after
                node = after
                nodes.append(node)
        found = np.array(nodes, np.int64)
        previous = np.concatenate([[ROOT], found[:-1]])[: len(found)]
        previous[list(before)] = list(before.values())
        return found, previous, owners


def _next(tree: Tree, node: int, name: str, end: int) -> int:
    """The node that runs next, in the function ``name``, after a block that ended like ``end``."""
    if name == USER:
        return tree.child(ROOT, USER)
    if end == RETURN:
        # A kretprobe lets a function return into its trampoline, which then returns to the caller.
        unknown = tree.parent[node] if name.endswith("_trampoline") else ROOT
        return tree.above(node, name) or tree.child(unknown, name)
    if end == LEAVE:
        while node != ROOT and not _is_entry(tree.function[node]):
            node = tree.parent[node]
        node = tree.parent[node]
    here = tree.function[node]
    if here == name and end != CALL:
        return node
    if here != _VECTORS and _is_entry(here) and _is_entry(name) and end == JUMP:
        return tree.child(tree.parent[node], name)
    if end == CALL or name == NOWHERE or _is_entry(name) or here == _VECTORS:
        return tree.child(node, name)
    if here == NOWHERE:
        # An instruction of a probed function ran elsewhere: back into the function.
        return tree.above(node, name) or tree.child(ROOT, name)
    return tree.child(tree.parent[node], name)


@cache
def _is_entry(name: str) -> bool:
    return bool(_ENTRY.fullmatch(name))


def _of_blocks(record: Record, symbols: Symbols) -> tuple[Ints, Ints]:
    """Function (as `Symbols.index` has it) and kind of end of each block."""
    address, size = record.blocks["address"], record.blocks["instructions"]
    kinds = ends_of(symbols, address, size.astype(np.int64)).kind
    ends = np.full(len(address), JUMP, np.int64)
    for kind, end in ((Kind.CALL, CALL), (Kind.RETURN, RETURN), (Kind.LEAVE, LEAVE)):
        ends[kinds == kind] = end
    return symbols.index(address), ends


def _inside(numbers: Ints, low: int, high: int) -> Ints:
    return numbers[(numbers >= low) & (numbers < high)]
