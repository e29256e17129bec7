"""Patches to code that only some cells run select the families of these cells."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from iotoll.boards.board import load_board, load_virtual_board
from iotoll.boards.equip import families
from iotoll.boards.matrix import load_matrix
from iotoll.core.errors import UsageError
from iotoll.patch import diff, selection

MATRIX = load_matrix("default")
FAMILIES = families(load_virtual_board("virt-arm64"), MATRIX)


@pytest.mark.parametrize(
    ("path", "own", "names"),
    [
        ("block/mq-deadline.c", 0, ["mq-deadline"]),
        ("block/kyber-iosched.c", 0, ["kyber"]),
        ("block/bfq-wf2q.c", 0, ["bfq"]),
        ("io_uring/rw.c", 0, ["io_uring", "poll", "sqpoll"]),
        ("fs/aio.c", 0, ["libaio"]),
        ("block/blk-mq-tag.c", 66, ["tags", "disks"]),
        ("lib/sbitmap.c", 66, ["tags", "disks"]),
        ("fs/jbd2/commit.c", 66, ["fsync", "writeback"]),
        ("drivers/nvme/host/pci.c", 23, ["poll"]),
        ("block/blk-flush.c", 66, ["fsync", "writeback"]),
        ("fs/ext4/fsync.c", 66, ["fsync", "writeback"]),
        ("block/blk-wbt.c", 66, ["fsync", "writeback"]),
        ("block/blk-merge.c", 66, ["writeback"]),
        ("mm/readahead.c", 66, ["writeback"]),
        ("block/blk-lib.c", 66, ["discard"]),
        ("block/elevator.c", 66, ["mq-deadline"]),
        ("include/linux/io_uring.h", 0, ["io_uring", "poll", "sqpoll"]),
        ("block/blk-mq.c", 66, ["io_uring"]),
        ("drivers/ufs/core/ufshcd.c", 23, []),
    ],
)
def test_f7_3_paths_add_families(path: str, own: int, names: list[str]) -> None:
    """F7.3: a series for mq-deadline moved nothing, since no cell ran a scheduler."""
    record = selection.select([path], MATRIX.cells, families=FAMILIES)
    chosen = [choice.cell for choice in record.cells]
    assert sum(cell in MATRIX.cells for cell in chosen) == own
    more = [cell for name in names for cell in FAMILIES[name]]
    assert sorted(cell for cell in chosen if cell not in MATRIX.cells) == sorted(more)


def test_a_matrix_without_the_family_runs_whole() -> None:
    record = selection.select(["block/mq-deadline.c"], MATRIX.cells)
    assert record.full_matrix and "it has no family mq-deadline" in record.rules[0]


def test_what_no_cell_runs_is_said() -> None:
    path = "drivers/ufs/core/ufs-mcq.c"
    record = selection.select([path], MATRIX.cells, families=FAMILIES)
    assert "--board virt-arm64-smp4" in record.unmeasured[path]
    four = families(load_virtual_board("virt-arm64-smp4"), MATRIX)
    assert selection.select([path], MATRIX.cells, families=four).unmeasured == {}


@pytest.mark.parametrize(
    ("board", "family"), [("virt-arm64-smp4", "queues"), ("virt-arm64-smp4-q1", "one-queue")]
)
def test_boards_with_four_cpus_have_cells_for_their_queues(board: str, family: str) -> None:
    known = families(load_virtual_board(board), MATRIX)
    assert {"queues", "one-queue"} & set(known) == {family}
    record = selection.select(["block/blk-mq.c"], MATRIX.cells, families=known)
    more = {choice.cell for choice in record.cells if choice.cell not in MATRIX.cells}
    assert more >= set(known[family])
    assert set(record.left_out) == {"queues", "one-queue"} - {family}


def test_families_that_are_promised_are_run_or_named_with_a_board_that_runs_them() -> None:
    record = selection.select(["block/blk-mq.c"], MATRIX.cells, families=FAMILIES)
    assert record.left_out == {"queues": "virt-arm64-smp4", "one-queue": "virt-arm64-smp4-q1"}
    for name, board in record.left_out.items():
        assert families(load_virtual_board(board), MATRIX)[name] != []
    chosen = {choice.cell for choice in record.cells}
    for rule in selection.load_rules():
        for name in set(rule.families) & set(FAMILIES):
            assert FAMILIES[name], name
        for name in set(rule.families) - set(FAMILIES):
            family = selection._families()[name]
            # One of other devices stands on its board for what the matrix has itself.
            other = not set(family["devices"]) & set(MATRIX.devices)
            assert rule.unmeasured or family.get("board") or other, name
    assert chosen >= set(FAMILIES["io_uring"]), "requests are allocated in batches there (G1.4)"


def test_a_patch_to_hpb_means_the_board_that_has_it() -> None:
    path = "drivers/ufs/core/ufshpb.c"
    assert selection.board_for([path, "drivers/ufs/core/ufshcd.c"]) == "virt-arm64-hpb"
    assert selection.board_for(["drivers/ufs/core/ufshcd.c"]) is None
    board = load_virtual_board("virt-arm64-hpb")
    known = families(board, MATRIX)
    record = selection.select([path], MATRIX.cells, families=known)
    assert {c.cell for c in record.cells} >= set(known["hpb"]) and not record.unmeasured
    # Elsewhere no cell runs it, and the verdict will say so.
    assert "hpb" not in FAMILIES
    record = selection.select([path], MATRIX.cells, families=FAMILIES)
    assert "--board virt-arm64-hpb" in record.unmeasured[path]


def test_rules_that_name_two_boards_are_the_users_to_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = '[[rule]]\nname = "{0}"\npaths = ["{0}.c"]\nselect = "all"\nwhy = "x"\nboard = "{0}"\n'
    path = tmp_path / "rules.toml"
    path.write_text(rule.format("one") + rule.format("two"))
    monkeypatch.setattr(selection, "rules_path", lambda: path)
    assert selection.board_for(["one.c"]) == "one"
    with pytest.raises(UsageError, match=r"several boards \(one, two\).*--board"):
        selection.board_for(["one.c", "two.c"])


ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/cells.md"])
def test_one_table_names_every_family(page: str) -> None:
    text = (ROOT / page).read_text()
    (table,) = re.findall(r"^\| family \|.*\n\|---.*\n((?:\|.*\n)+)", text, flags=re.M)
    first = [row.split("|")[1] for row in table.splitlines()]
    named = [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
    assert sorted(named) == sorted(MATRIX.families)


def test_fragments_come_with_the_path() -> None:
    assert selection.select(["block/bfq-iosched.c"], MATRIX.cells).fragments == ["add-bfq"]
    assert selection.select(["block/kyber-iosched.c"], MATRIX.cells).fragments == ["add-kyber"]
    assert selection.select(["block/blk-wbt.c"], MATRIX.cells).fragments == ["add-wbt"]
    by_hand = selection.choose(["drivers/md/dm-crypt.c"], MATRIX.cells, MATRIX.cells[:1])
    assert by_hand.fragments == ["add-dm"]


@pytest.mark.parametrize(
    ("path", "measured"),
    [
        ("crypto/xts.c", False),
        ("fs/crypto/keysetup.c", False),
        ("block/blk-crypto.c", False),
        ("fs/crypto/inline_crypt.c", True),
        ("include/linux/blk-crypto.h", True),
    ],
)
def test_encryption_is_built_in_and_said_to_be_unmeasured(path: str, measured: bool) -> None:
    record = selection.select([path], MATRIX.cells, families=FAMILIES)
    assert record.full_matrix and record.fragments == ["add-crypto"]
    assert (path not in record.unmeasured) is measured


@pytest.mark.parametrize("path", ["crypto/shash.c", "crypto/crc32c_generic.c"])
def test_checksums_of_ext4_need_no_fragment(path: str) -> None:
    record = selection.select([path], MATRIX.cells, families=FAMILIES)
    assert record.full_matrix and not record.fragments and not record.unmeasured


PLANTED = Path(__file__).parents[2] / "vm"
EXPECTED = tomllib.loads((PLANTED / "families.toml").read_text())


@pytest.mark.parametrize("name", EXPECTED)
def test_a_planted_cost_selects_its_family(name: str) -> None:
    """Each patch of tests/vm/patches/families adds its family's cells, and no other family's."""
    expected = EXPECTED[name]
    patch = PLANTED / f"patches/families/{name}.patch"
    paths = diff.changed_paths(patch.read_bytes(), patch.name)
    assert paths == [expected["path"]]
    known = families(load_virtual_board(expected.get("board", "virt-arm64")), MATRIX)
    chosen = {choice.cell for choice in selection.select(paths, MATRIX.cells, families=known).cells}
    own = {cell for cell in chosen if cell in MATRIX.cells}
    assert len(own) == expected["matrix"]
    assert chosen - own == {cell for family in expected["families"] for cell in known[family]}


def test_every_planted_cost_says_what_it_must_show() -> None:
    patches = {path.stem for path in (PLANTED / "patches/families").glob("*.patch")}
    assert patches == set(EXPECTED)
    for expected in EXPECTED.values():
        assert expected["grows"] and expected["families"]


@pytest.mark.parametrize(
    ("path", "family", "own"),
    [
        ("drivers/scsi/scsi_lib.c", "scsi-debug", False),
        ("drivers/nvme/host/core.c", "nvme-loop", False),
        ("io_uring/rw.c", "io_uring", False),
        ("mm/filemap.c", "page-cache", True),
        ("fs/ext4/inode.c", "page-cache", True),
        ("fs/jbd2/commit.c", "fsync", True),
        ("block/blk-core.c", "", True),
    ],
)
def test_the_native_board_runs_what_a_patch_may_slow(path: str, family: str, own: bool) -> None:
    """Its own cells stay quick: what takes other ways than they do has families."""
    board, matrix = load_board("host-uml"), load_matrix("host-uml")
    known = families(board, matrix)
    record = selection.select([path], matrix.cells, families=known)
    chosen = {choice.cell for choice in record.cells}
    assert chosen.issuperset(known[family] if family else ())
    assert (chosen >= set(matrix.cells)) == own and bool(chosen & set(matrix.cells)) == own
    assert record.left_out == {}
    # Boards whose matrix has these devices itself are told nothing of it.
    default = selection.select([path], MATRIX.cells, families=FAMILIES)
    assert not {"page-cache", "scsi-debug", "nvme-loop"} & set(default.left_out)
