"""Changed paths select cells, each with its reason; doubt selects everything."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotoll.core.errors import UsageError
from iotoll.patch import selection

UFS = ["ufs-4k-randread-t1-direct", "ufs-128k-seqwrite-t8-sync"]
NVME = ["nvme-4k-randread-t1-direct", "nvme-128k-seqwrite-t8-sync"]
EMMC = ["emmc-4k-randread-t1-direct", "emmc-128k-seqwrite-t8-sync"]
ALL = UFS + NVME + EMMC


def cells(*paths: str, matrix: list[str] = ALL) -> list[str]:
    return [choice.cell for choice in selection.select(paths, matrix).cells]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("drivers/ufs/core/ufshcd.c", UFS),
        ("drivers/ufs/host/ufshcd-pci.c", UFS),
        ("include/ufs/ufshcd.h", UFS),
        ("include/trace/events/ufs.h", UFS),
        ("drivers/scsi/sd.c", UFS),
        ("include/scsi/scsi_cmnd.h", UFS),
        ("drivers/nvme/host/pci.c", NVME),
        ("include/linux/nvme.h", NVME),
        ("include/linux/nvme-tcp.h", NVME),
        ("block/blk-mq.c", ALL),
        ("fs/ext4/file.c", ALL),
        ("io_uring/rw.c", ALL),
        ("include/linux/blkdev.h", ALL),
        ("include/linux/sched.h", ALL),
        ("mm/filemap.c", ALL),
        ("kernel/sched/core.c", ALL),
        ("arch/arm64/kernel/entry.S", ALL),
        ("lib/sbitmap.c", ALL),
        ("scripts/Makefile.build", ALL),
        ("drivers/ufs/Kconfig", UFS),
        ("drivers/nvme/host/Makefile", NVME),
        ("Documentation/Kconfig", ALL),
        ("tools/objtool/check.c", ALL),
        ("Makefile", ALL),
        ("drivers/gpu/drm/drm_drv.c", ALL),
        ("some/new/folder/x.c", ALL),
        ("drivers/mmc/core/block.c", EMMC),
        ("drivers/mmc/host/sdhci.c", EMMC),
        ("include/linux/mmc/host.h", EMMC),
        ("include/trace/events/mmc.h", EMMC),
        ("Documentation/scsi/ufs.rst", []),
        ("drivers/nvme/README.rst", []),
        ("MAINTAINERS", []),
        ("tools/testing/selftests/Makefile", []),
        ("samples/bpf/x.c", []),
    ],
)
def test_default_rules(path: str, expected: list[str]) -> None:
    assert cells(path) == expected


def test_device_rules_add_up_and_documentation_adds_nothing() -> None:
    assert cells("drivers/ufs/core/ufshcd.c", "Documentation/x.rst") == UFS
    assert cells("drivers/ufs/core/ufshcd.c", "drivers/nvme/host/core.c") == UFS + NVME


def test_every_choice_says_why_with_the_path() -> None:
    record = selection.select(["drivers/ufs/core/ufshcd.c", "MAINTAINERS"], ALL)
    assert record.cells[0].why == "drivers/ufs/core/ufshcd.c: UFS host controller driver"
    assert "documentation -> nothing: MAINTAINERS" in record.rules
    assert "ufs -> ufs cells: drivers/ufs/core/ufshcd.c" in record.rules
    assert not record.full_matrix
    assert record.why.startswith("2 of 6 cells: drivers/ufs/core/ufshcd.c (")


def test_device_without_a_cell_in_the_matrix_runs_everything_and_says_so() -> None:
    record = selection.select(["drivers/mmc/core/block.c"], UFS + NVME)
    assert record.full_matrix
    assert "it has no emmc cell" in record.rules[0]
    assert cells("drivers/mmc/core/block.c", matrix=["emmc-x", *UFS]) == ["emmc-x"]


def test_documentation_alone_selects_nothing_and_says_why() -> None:
    record = selection.select(["Documentation/a.rst"], ALL)
    assert record.cells == []
    assert "documentation is not part of the kernel image" in record.why


def test_no_paths_at_all_is_no_reason_to_run_nothing() -> None:
    assert selection.select([], ALL).full_matrix


def test_cells_by_hand_win() -> None:
    record = selection.choose(["MAINTAINERS"], ALL, [NVME[0], NVME[0]])
    assert [c.cell for c in record.cells] == [NVME[0]]
    assert record.cells[0].why == "asked for by hand"


def test_ready_made_images_run_everything() -> None:
    assert selection.choose(None, ALL, None).full_matrix


@given(st.lists(st.text("abc/.*_-", min_size=1), min_size=1))
def test_only_known_harmless_paths_leave_anything_out(paths: list[str]) -> None:
    record = selection.select(paths, ALL)
    harmless = [p for p in paths if p.endswith((".rst", ".md"))]
    assert record.full_matrix or len(harmless) == len(paths)


@pytest.mark.parametrize(
    ("pattern", "path", "hit"),
    [
        ("a/*.c", "a/x.c", True),
        ("a/*.c", "a/b/x.c", False),
        ("a/", "a/b/x.c", True),
        ("a/", "ab/x.c", False),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("**/x", "a/yx", False),
        ("a?.c", "ab.c", True),
        ("a.c", "abc", False),
    ],
)
def test_patterns(pattern: str, path: str, hit: bool) -> None:
    assert bool(selection.glob_pattern(pattern).fullmatch(path)) is hit


RULE = '[[rule]]\nname = "a"\npaths = ["a/"]\nselect = "all"\nwhy = "w"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule", "TOML"),
        ("", r"\[\[rule\]\]"),
        ("x = 1\n" + RULE, r"\[\[rule\]\]"),
        (RULE.replace('why = "w"\n', ""), "rule 1: needs exactly"),
        (RULE + RULE.replace('"all"', '"some"'), "rule 2: field select"),
        (RULE.replace('"all"', "[]"), "field select"),
        (RULE.replace('["a/"]', "[]"), "field paths"),
        (RULE.replace('"w"', '""'), "field why"),
        (RULE + 'families = ["kybr"]', "field families: no 'kybr': the nearest is 'kyber'"),
        (
            RULE + 'fragments = ["add-bqf"]',
            "field fragments: no 'add-bqf': the nearest is 'add-bfq'",
        ),
    ],
)
def test_mistakes_in_the_rules_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "selection.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        selection.load_rules(path)
    assert "selection.toml" in str(caught.value)
