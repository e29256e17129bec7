"""What a gate's later steps need, done in another thread while this one waits for make or a board.

Nothing depends on it: a piece that was not reached, or failed, is done by the step that needs it,
which then fails as it always did.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

from iotoll.boards.board import VirtualBoard
from iotoll.boots import base_boots
from iotoll.boots.local import BootPlan
from iotoll.boots.schedule import mark_done, open_plans
from iotoll.core.progress import Progress
from iotoll.records import results
from iotoll.records.models import BootRecord, Clock
from iotoll.run.building import Building
from iotoll.run.setup import Setup
from iotoll.verdict.policy import Policy

Work = Iterator[Callable[[], object]]
"""Pieces of work, each as short as may be: the end of a step waits for the one that has begun."""

_FOR_BOOTS = ("numpy", "iotoll.explain.gate_coverage", "iotoll.kernels.changed")
_FOR_REPORTS = (
    "iotoll.measure.collect",
    "iotoll.verdict.instructions.rule",
    "iotoll.reports.page",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
)
"""They take half a second to import, in the order in which the steps need them."""
COMPILES, STARTS = 3.0, 0.5
"""Seconds in which a build needs all processors, and a boot starts its programs."""
LONGEST = 2.0
"""Seconds for which the end of a step waits at most."""


def while_it_is_built(setup: Setup) -> Work:
    """What the boot needs: make links the kernel on one processor."""
    for name in _FOR_BOOTS:
        yield partial(importlib.import_module, name)
    yield _job_template
    yield partial(_base_functions, setup)


def while_it_boots(setup: Building, later: Work) -> Work:
    """What is ``later`` than the build, and what the steps after the boot need.

    The base's first boots are analysed, for one.
    """
    yield from later
    for name in _FOR_REPORTS:
        yield partial(importlib.import_module, name)
    yield _models
    yield _page_template
    yield partial(_changed_code, setup)
    yield partial(_base_boot, setup)


def is_counted(setup: Setup) -> bool:
    """Whether this machine boots an exact board, which counts what it executes.

    The image is read for that, and what ran of the change is told.
    """
    manifest, board = setup.run.manifest, setup.board
    return (
        setup.explains
        and isinstance(setup.policy, Policy)
        and manifest.clock is Clock.INSTRUCTIONS
        and manifest.runner == "local"
        and isinstance(board, VirtualBoard)
        and board.has_recorder
    )


def _models() -> None:
    """Have the models of all documents ready to check some."""
    for model in results.DOCUMENTS.values():
        model.model_rebuild()


def _job_template() -> None:
    """Have jinja2 compile a batch of fio jobs."""
    # Each of these imports what it makes ready, which is why it is not at the top.
    from iotoll.boots import job

    job.template()


def _page_template() -> None:
    """Have jinja2 compile the report's page."""
    from iotoll.reports.page import html

    html.template()


def _base_functions(setup: Setup) -> None:
    """Have the functions of the base's image (`iotoll.kernels.symbols` remembers them)."""
    from iotoll.explain import gate_coverage

    if is_counted(setup):
        _ = gate_coverage.symbols_of(setup.run, "base").codes


def _changed_code(setup: Building) -> None:
    """Have what changed, with its lines (`iotoll.explain.gate_coverage` remembers it)."""
    from iotoll.explain import gate_coverage

    if isinstance(setup.policy, Policy) and setup.policy.explain.ran:
        gate_coverage.changed_code(setup)


def _base_boot(setup: Setup) -> None:
    """Have the base's figures (`iotoll.measure.collect` remembers them)."""
    from iotoll.measure.collect import affected, analyze

    for folder in setup.run.first_folders("base"):
        record = results.read(folder / "boot.json", BootRecord)
        analyze(folder, record, affected(setup.run, record))


class StoredBase:
    """The base's boots from the store of earlier boots, and its values: had until boots begin."""

    def __init__(self, setup: Setup) -> None:
        self._run, self._is_counted = setup.run, is_counted(setup)
        # The same run: what is known of it by itself, as the build may yet select other cells.
        self._twin = Setup(setup.run, Progress(quiet=True), fresh=setup.fresh)
        self._twin.sandbox_refused = ""
        self._lock = threading.Lock()
        self._has_ended = False

    def pieces(self) -> Work:
        """Both, where this machine boots an exact board."""
        if self._is_counted:
            yield partial(importlib.import_module, "iotoll.measure.collect")
            yield partial(self._until_end, self._boots)
            yield partial(self._until_end, self._values)

    def end(self) -> None:
        """Begin nothing any more, and wait for what has begun: the run's boots are written now."""
        with self._lock:
            self._has_ended = True

    def _until_end(self, piece: Callable[[], object]) -> None:
        with self._lock:
            if not self._has_ended:
                piece()

    def _plans(self) -> list[BootPlan]:
        """The base's first boots that are not done; the candidate has no kernel yet."""
        wanted = [boot for boot in self._twin.wanted if boot[0] == "base"]
        return open_plans(self._run, self._twin.bench, wanted)

    def _boots(self) -> None:
        for plan in self._plans():
            if base_boots.take(plan):
                mark_done(self._run, plan)

    def _values(self) -> None:
        """The values, which `iotoll.measure.collect` remembers, if all boots are there."""
        from iotoll.measure.collect import collect

        if not self._plans():
            numbers = [number for side, number in self._twin.wanted if side == "base"]
            collect(self._run, self._twin.cells, self._run.manifest.clock, "base", numbers)


@contextmanager
def meanwhile(work: Work, after: float) -> Iterator[None]:
    """Do pieces of work while the body runs, from ``after`` seconds on.

    Those that have not begun by its end stay undone.
    """
    ended = threading.Event()

    def run() -> None:
        ended.wait(after)
        while not ended.is_set() and (piece := next(work, None)) is not None:
            with suppress(Exception):
                piece()

    # A daemon: should a piece hang, an interrupted gate ends all the same.
    thread = threading.Thread(target=run, name="prefetch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(LONGEST)
