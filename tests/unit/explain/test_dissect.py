"""Both sides dissected in two processes: what one of them meets is told, and none is left."""

from __future__ import annotations

import os
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.core.progress import Progress
from iotoll.explain import dissect
from iotoll.explain.dissect import Boot, Task, dissect_sides
from iotoll.explain.pieces import Pieces
from iotoll.kernels.symbols import Symbols

QUIET = Progress(quiet=True)


def task(side: Any, folder: Path) -> Task:
    symbols = Symbols(np.zeros(0, np.uint64), (), b"", 0)
    pieces = Pieces(np.zeros(0, np.uint64), np.zeros(0, np.int64), (), (), {})
    boot = Boot(folder / f"{side}-record/record", folder / side, folder / "gate", ())
    return Task(side, (boot,), symbols, pieces, (), (), None)


def test_what_the_other_process_meets_is_raised_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the base's record is not there; the process beside this one finds that out."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(dissect, "dissect_side", lambda *_: None)
    with pytest.raises(InfrastructureError, match="base-record/record: the plugin left no whole"):
        dissect_sides((task("base", tmp_path), task("candidate", tmp_path)), QUIET)


def test_a_process_that_is_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    def kill_the_other(*_: object) -> None:
        (child,) = active_children()
        child.kill()

    monkeypatch.setattr(dissect, "dissect_side", kill_the_other)
    with pytest.raises(InfrastructureError, match="ended with -9: is there enough memory"):
        dissect_sides((task("base", tmp_path), task("candidate", tmp_path)), QUIET)


def test_an_error_here_ends_the_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(dissect, "dissect_side", fail)
    with pytest.raises(KeyboardInterrupt):
        dissect_sides((task("base", tmp_path), task("candidate", tmp_path)), QUIET)
    left = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not [p for p in left if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()]


def test_with_one_cpu_everything_is_done_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = []
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr(dissect, "get_context", None)
    monkeypatch.setattr(dissect, "dissect_side", lambda one, _: sides.append(one.side))
    dissect_sides((task("base", tmp_path), task("candidate", tmp_path)), QUIET)
    assert sides == ["base", "candidate"]
