"""Which options build a file, and that a pass of which nothing was measured is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.gate.conclude import with_coverage
from iotoll.kernels import compiled
from iotoll.records import results
from iotoll.records.models import Outcome, SelectionRecord, SourceRecord
from iotoll.records.rundir import RunDir
from tests.unit.runs import make_run

MAKEFILES = {
    "Makefile": "obj-y += block/ drivers/\n",
    "block/Makefile": (
        "obj-y := blk-mq.o\nbfq-y := bfq-iosched.o \\\n\tbfq-wf2q.o\n"
        "obj-$(CONFIG_IOSCHED_BFQ) += bfq.o # bfq-cgroup.o\n"
    ),
    "drivers/Makefile": "obj-$(CONFIG_MD) += md/\n",
    "drivers/md/Makefile": "dm-mod-y += dm.o\nobj-$(CONFIG_BLK_DEV_DM) += dm-mod.o\n",
    "drivers/ufs/Kbuild": "ufs-$(CONFIG_BSG) += ufs_bsg.o\nobj-$(CONFIG_UFS) += ufs.o\n",
}


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("block/bfq-wf2q.c", ["IOSCHED_BFQ"]),
        ("block/blk-mq.c", []),
        ("block/bfq-cgroup.c", []),
        ("drivers/md/dm.c", ["BLK_DEV_DM", "MD"]),
        ("drivers/ufs/ufs_bsg.c", ["BSG", "UFS"]),
        ("include/linux/bio.h", []),
        ("nowhere/x.c", []),
    ],
)
def test_options_come_from_the_makefiles(path: str, options: list[str]) -> None:
    assert compiled.options_of(path, lambda name: MAKEFILES.get(name, "")) == options


def test_unbuilt_files_are_named_with_the_options_that_are_off() -> None:
    found = compiled.find(
        ["block/bfq-wf2q.c"],
        ["block/blk-mq.c"],
        "",
        "CONFIG_BLOCK=y\n",
        {"block/bfq-wf2q.c": ["IOSCHED_BFQ", "BLOCK"]},
    )
    words = "Nothing of this patch is in the board's kernel: block/bfq-wf2q.c (it needs CONFIG_"
    assert found.nothing and words + "IOSCHED_BFQ)." in found.sentence


@pytest.mark.parametrize(
    ("changed", "unmeasured", "outcome"),
    [
        (["block/bfq.c"], {}, Outcome.INCONCLUSIVE),
        (["block/bfq.c", "Documentation/a.rst"], {}, Outcome.INCONCLUSIVE),
        (["block/bfq.c", "block/blk-mq.c"], {}, None),
        (["block/blk-mq.c"], {"block/blk-mq.c": "no board"}, Outcome.INCONCLUSIVE),
        (["block/blk-mq.c"], {}, None),
    ],
)
def test_a_pass_of_which_nothing_was_measured_is_none(
    tmp_path: Path, changed: list[str], unmeasured: dict[str, str], outcome: Outcome | None
) -> None:
    run = changes(tmp_path, changed, unmeasured)
    said = with_coverage(run, "No section costs more.", [], Outcome.PASS)
    assert said.get("outcome") is outcome
    # Pages and the terminal show the sentence: it names what would measure the patch.
    asked = "No cell runs what this patch changes: no board. No section"
    assert said["sentence"].startswith(asked) is bool(unmeasured)
    assert "outcome" not in with_coverage(run, "It grew.", [], Outcome.REGRESSION)


@pytest.mark.parametrize(
    ("changed", "outcome"),
    [
        (["drivers/mmc/host/mtk-sd.c", "drivers/mmc/host/Kconfig"], Outcome.INCONCLUSIVE),
        (["drivers/mmc/host/mtk-sd.c", "include/linux/blkdev.h"], Outcome.INCONCLUSIVE),
        (["drivers/mmc/host/mtk-sd.c", "block/blk-mq.c"], None),
        (["include/linux/blkdev.h", "Documentation/a.rst"], None),
        (["block/Kconfig"], None),
    ],
)
def test_equal_images_tell_nothing_of_a_driver_that_is_not_built(
    tmp_path: Path, changed: list[str], outcome: Outcome | None
) -> None:
    """Series of linux-mmc passed whose driver was off, as they changed a header or Kconfig too."""
    run = changes(tmp_path, changed, {})
    said = with_coverage(run, "The same bytes.", [], Outcome.PASS, identical=True)
    assert said.get("outcome") is outcome
    if outcome:
        assert said["sentence"].startswith("No cell runs what this patch changes. The same")


def changes(tmp_path: Path, changed: list[str], unmeasured: dict[str, str]) -> RunDir:
    """A run whose candidate changes files, of which blk-mq.c and blkdev.h are in the kernel."""
    run = make_run(tmp_path / "run")
    path = run.side("candidate") / "source.json"
    source = results.read(path, SourceRecord)
    results.write(path, source.model_copy(update={"changed_paths": changed}))
    known = "block/blk-mq.c\ninclude/linux/blkdev.h\n"
    results.write_text(run.build("candidate") / compiled.SOURCES, known)
    selected = results.read(run.selection, SelectionRecord)
    more = {
        "changed_paths": changed,
        "unmeasured": unmeasured,
        "harmless": [p for p in changed if p.startswith("Doc")],
    }
    results.write(run.selection, selected.model_copy(update=more))
    return run
