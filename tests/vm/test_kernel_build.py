"""Builds real kernels: reproducible, incremental, checked. Quick once the caches are warm.

Needs what ``iotoll doctor`` lists for building; a machine without it skips and says why.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from iotoll.boards.board import load_virtual_board
from iotoll.core.errors import BrokenError, IotollError
from iotoll.core.progress import Progress
from iotoll.kernels import build, cache, kconfig, kernel_job, source
from iotoll.patch import candidate, selection
from iotoll.records import results
from iotoll.records.models import BuildRecord, SourceRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from tests.unit.runs import asked

pytestmark = pytest.mark.vm

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "patches"
FAULTS = Path(__file__).parent / "patches"
PROGRESS = Progress(quiet=True)
COMMON = ["tracing", "ufs", "nvme", "emmc", "virt"]
CELLS = ["ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"]


@pytest.fixture(scope="module", autouse=True)
def needs_tools_and_source() -> None:
    try:
        kernel_job.installed_toolchain("arm64")
        source.locate("debian")
    except IotollError as error:
        pytest.skip(str(error))


def start(folder: Path, patch: Path | None, tree: str | None = None) -> RunDir:
    choice = candidate.classify(str(patch) if patch else None, tree=tree)
    run = RunDir(folder)
    results.write(run.root / "run.json", asked(choice))
    source.prepare(run, PROGRESS, CELLS)
    return run


def make(run: RunDir, side: Side, arch: kernel_job.Arch = "arm64") -> BuildRecord:
    spec = build.KernelSpec(arch, ["base", f"arch-{arch}", *COMMON])
    return build.build_side(run, side, spec, PROGRESS)


@pytest.mark.parametrize("arch", ["arm64", "x86_64"])
def test_base_builds_with_every_symbol_and_carries_its_config(
    tmp_path: Path, arch: kernel_job.Arch
) -> None:
    run = start(tmp_path, None)
    record = make(run, "base", arch)
    folder = run.build("base")
    names = ["base", f"arch-{arch}", *COMMON]
    assert not kconfig.lost([kconfig.fragment_path(n) for n in names], folder / "config")
    if arch == "arm64":  # a bzImage is compressed
        image = (run.root / record.image).read_bytes()
        assert cache.embedded_config(image) == (folder / "config").read_bytes()
    ready = tmp_path / "ready"
    ready.mkdir()
    cache.take(run.root / record.image, arch, ready)


@pytest.mark.long
def test_same_source_same_image_whatever_was_built_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = start(tmp_path / "run", EXAMPLES / "ufs-submission-cost.patch")
    images_made = []
    sides: tuple[Side, ...] = ("base", "candidate", "base")
    # With another recipe number the image cache knows nothing, so each of them is really made.
    for turn, side in enumerate(sides):
        monkeypatch.setattr(kernel_job, "RECIPE", f"test {tmp_path} {turn}")
        images_made.append(make(run, side))
        log = (run.build(side) / "build.log").read_text()
    first, changed, again = images_made
    assert log.count("  CC      drivers/ufs/core/ufshcd.o") == 1
    # A test beside this one may have built in the folder meanwhile: its files go back too.
    assert log.count("  CC      drivers/") < 10, "what went back is compiled, and nothing else"
    assert changed.image_sha256 != first.image_sha256
    assert changed.config_sha256 == first.config_sha256
    assert again.image_sha256 == first.image_sha256


def test_comment_in_a_driver_leaves_the_image_as_it_is(tmp_path: Path) -> None:
    record = source.open_tree("debian", PROGRESS)
    path = "drivers/ufs/core/ufshcd.c"
    blob = record.git("cat-file", "blob", f"base:{path}").stdout.decode()
    words = " * Universal Flash Storage Host controller driver Core\n"
    assert words in blob
    edited = blob.replace(words, words.replace("Core", "core, in other words"))
    lines = (blob.splitlines(True), edited.splitlines(True))
    patch = tmp_path / "comment.patch"
    patch.write_text("".join(difflib.unified_diff(*lines, f"a/{path}", f"b/{path}")))
    run = start(tmp_path / "run", patch)
    assert make(run, "base").image_sha256 == make(run, "candidate").image_sha256


def test_a_candidate_that_loses_a_setting_is_broken(tmp_path: Path) -> None:
    """One that does not compile: tests/vm/test_gate.py."""
    words = "CONFIG_SCSI_UFSHCD_PCI=y of fragment ufs.config became n"
    run = start(tmp_path, FAULTS / "loses-config.patch")
    make(run, "base")
    with pytest.raises(BrokenError) as caught:
        make(run, "candidate")
    assert caught.value.step == "config"
    assert words in str(caught.value)
    assert words in caught.value.log_tail


@pytest.mark.parametrize("path", sorted([*EXAMPLES.glob("*.patch"), *FAULTS.glob("*.patch")]))
def test_every_patch_kept_here_applies_without_fuzz(tmp_path: Path, path: Path) -> None:
    # A patch of ufshpb.c is for the board with HPB and its Linux 6.1.
    named = selection.board_for(candidate.named_paths(candidate.classify(str(path))))
    tree = load_virtual_board(named or "virt-arm64").tree
    try:
        source.locate(tree)
    except IotollError as error:
        pytest.skip(str(error))
    run = start(tmp_path, path, tree)
    assert results.read(run.side("candidate") / "source.json", SourceRecord).notes == []
