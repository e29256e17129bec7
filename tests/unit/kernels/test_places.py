"""G1.11: builds that have nothing to do with each other do not wait for each other."""

from __future__ import annotations

import fcntl
import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from iotoll.core.lock import attempted
from iotoll.core.progress import Progress
from iotoll.kernels import kernel_job, places, source
from iotoll.kernels.debuginfo import find_lines
from iotoll.kernels.kernel_job import BUILT, Arch, KernelJob
from iotoll.kernels.places import held_place
from iotoll.kernels.tree import KernelTree
from tests.repository import kernel_tree

QUIET = Progress(quiet=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_job, "installed_toolchain", lambda arch: f"{arch}-gcc 1; ld 2")
    monkeypatch.setattr(places, "SHORT", 0.3)
    return kernel_tree(tmp_path / "linux", {})


def job(tree: Path, arch: Arch = "arm64", fragments: tuple[str, ...] = ("base",)) -> KernelJob:
    return KernelJob.make(source.base_of(str(tree), None, QUIET), arch, fragments)


def make_warm(place: KernelTree, one: KernelJob) -> None:
    """As a build of it leaves a place."""
    place.checkout(str(one.source.git_tree))
    one.out(place).mkdir(parents=True)
    (one.out(place) / ".config").write_text("CONFIG_BLOCK=y\n")
    (one.out(place) / BUILT).write_text(one.key)


@contextmanager
def holder(place: KernelTree, builds: str = "another") -> Iterator[None]:
    """Another iotoll that builds there."""
    stream = attempted(place.lock)
    assert stream is not None
    with stream:
        (place.work / "builds").write_text(builds)
        yield


def test_g1_11_another_architecture_is_built_beside(tree: Path) -> None:
    kernel = source.open_tree(str(tree), QUIET)
    with (
        held_place(kernel, job(tree), QUIET) as one,
        held_place(kernel, job(tree, "x86_64"), QUIET) as other,
    ):
        assert one.work != other.work
        assert one.git_dir == other.git_dir, "the objects are there once"


def test_g1_11_candidates_in_the_sandbox_share_a_place(tree: Path) -> None:
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    make_warm(places.places(kernel, one)[0], one)
    with (
        held_place(kernel, one, QUIET, reads=True) as first,
        held_place(kernel, one, QUIET, reads=True) as second,
    ):
        assert first.work == second.work
        assert attempted(first.lock) is None, "and nobody moves it"


def test_a_place_in_which_somebody_configured_is_not_warm(tree: Path) -> None:
    """Else each candidate above it is configured and compiled as a whole."""
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    place = places.places(kernel, one)[0]
    make_warm(place, one)
    assert one.is_warm(place)
    noted = (one.out(place) / BUILT).stat().st_mtime
    os.utime(one.out(place) / ".config", (noted + 1, noted + 1))
    assert not one.is_warm(place)


def test_g1_11_a_long_build_of_something_else_is_not_waited_for(tree: Path) -> None:
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    first, second = places.places(kernel, one)
    said = io.StringIO()
    with (
        holder(first),
        held_place(kernel, one, Progress(console=Console(file=said))) as place,
    ):
        assert place.work == second.work
    assert "waiting" in said.getvalue(), "for a short one it waits"


def test_g1_11_a_build_of_the_same_kernel_is_waited_for(tree: Path) -> None:
    """Else both would make the same, on the same processors."""
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    first, _ = places.places(kernel, one)
    ended = threading.Event()

    def build() -> None:
        with holder(first, one.key):
            begun.set()
            ended.wait(2.0)

    begun = threading.Event()
    thread = threading.Thread(target=build)
    thread.start()
    begun.wait(5)
    with held_place(kernel, one, QUIET) as place:
        assert place.work == first.work
    thread.join()


def test_g1_11_what_was_built_before_those_who_read_is_not_waited_for(tree: Path) -> None:
    """Candidates' builds one after another share the place for as long as they like."""
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    first, second = places.places(kernel, one)
    make_warm(first, one)
    (first.work / "builds").write_text(one.key)
    with (
        held_place(kernel, one, QUIET, reads=True) as read,
        held_place(kernel, one, QUIET) as place,
    ):
        assert (read.work, place.work) == (first.work, second.work)


def test_g1_11_a_place_that_holds_the_build_comes_first(tree: Path) -> None:
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    _, second = places.places(kernel, one)
    make_warm(second, one)
    assert places.is_warm(kernel, one)
    for reads in (False, True):
        with held_place(kernel, one, QUIET, reads=reads) as place:
            assert place.work == second.work


def test_a_lock_ends_with_the_last_that_inherited_it(tree: Path) -> None:
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    with held_place(kernel, one, QUIET) as place:
        assert place.lock_stream is not None
        with place.lock.open("a") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert place.lock_stream is None


def test_lines_are_read_beside_those_who_read_what_is_built(tree: Path) -> None:
    """To move its sources made the next gate of that base build it again."""
    kernel, one = source.open_tree(str(tree), QUIET), job(tree)
    place, other = places.places(kernel, one)
    make_warm(place, one)
    stream = attempted(place.lock, shared=True)
    assert stream is not None
    with stream:
        assert find_lines(one, {"absent": b"\0"}, [], [], QUIET) == {}
    assert one.is_warm(place) and not other.checked_out.exists()
