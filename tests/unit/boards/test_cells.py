"""The grammar of cells, the families, and what a board gets for the cells that need more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iotoll.boards.board import load_board, load_virtual_board
from iotoll.boards.cells import parse_cell
from iotoll.boards.equip import check_cells, check_families, equipped, families, fragments
from iotoll.boards.matrix import chosen_cells, load_matrix
from iotoll.core.errors import UsageError

MATRIX = load_matrix("default")
FAMILIES = MATRIX.family_cells
ALL = [cell for cells in FAMILIES.values() for cell in cells]


def test_every_word_is_a_field() -> None:
    cell = parse_cell("nvme-16k-seqrw-t4-directdsync-io_uring-qd32-mq-deadline-q4-tags8-dev2")
    assert (cell.block_kb, cell.fio_rw, cell.threads) == (16, "rw", 4)
    assert (cell.engine, cell.depth, cell.scheduler) == ("io_uring", 32, "mq-deadline")
    assert (cell.queues, cell.tags, cell.disks, cell.fio_sync) == (4, 8, 2, "dsync")
    assert cell.is_direct and cell.spare and cell.contends and not cell.poll
    assert {"ioengine=io_uring", "iodepth=32", "rwmixread=70"} <= set(cell.fio_more)
    synced = parse_cell("ufs-4k-seqwrite-t1-fdatasync16-kyber")
    assert (synced.io_mode, synced.sync_every) == ("fdatasync", 16)
    assert synced.fio_more == ["fdatasync=16"] and not synced.is_direct
    polled = parse_cell("nvme-4k-randread-t1-direct-io_uring-sqpoll-poll")
    assert polled.fio_more == ["ioengine=io_uring", "sqthread_poll=1", "hipri=1"]


def test_a_raw_cell_runs_on_a_whole_second_disk() -> None:
    cell = parse_cell("ufs-1024k-seqread-t8-direct-raw")
    assert cell.is_raw and cell.spare and cell.setting == ("raw",)
    assert not parse_cell("ufs-1024k-seqread-t8-direct").is_raw
    for name, why in (
        ("ufs-1024k-seqread-t8-sync-raw", "trim and raw need the mode direct"),
        ("ufs-4k-randtrim-t1-direct-raw", "trim is raw without that word"),
        ("ufs-4k-randread-t1-direct-dev2-raw", "trim and raw run on one disk"),
        ("emmc-4k-randread-t1-direct-raw", "emmc has no second disk"),
    ):
        with pytest.raises(UsageError, match=why):
            parse_cell(name)


def test_old_names_need_nothing_new() -> None:
    for name in load_matrix("default").model_copy(update={"more": []}).cells:
        cell = parse_cell(name)
        assert cell.fio_more == [] and cell.setting == () and not cell.contends


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("uffs-4k-randread-t1-direct", "device 'uffs': the nearest is 'ufs'"),
        ("ufs-4k-randred-t1-direct", "pattern 'randred': the nearest is 'randread'"),
        ("ufs-4k-randread-t1-dirct", "mode 'dirct': the nearest is 'direct'"),
        ("ufs-4k-randread-t1-direct-uring", "word 'uring': the nearest is 'io_uring'"),
        ("ufs-4k-randread-t1-direct-tgs4", "word 'tgs4': the nearest is 'tags4'"),
        ("ufs-4k-randread-t1-direct-mq-deadlin", "the nearest is 'mq-deadline'"),
        ("ufs-4k-randread-t1-direct-mq", "word 'mq': the nearest is 'mq-deadline'"),
        ("ufs-4-randread-t1-direct", "size '4' is not of the form '4k'"),
        ("ufs-4k-randread-8-direct", "threads '8' is not of the form 't8'"),
        ("ufs-4k-randread-t1-direct-qd32-libaio", "in this order: libaio-qd32"),
        ("ufs-4k-randread-t1-direct-bfq-bfq", "once and in this order: bfq"),
        ("ufs-4k-randread-t1-direct-kyber-bfq", "two engines or two schedulers"),
        ("ufs-4k-randread-t1-direct-psync", "leave it out"),
        ("ufs-4k-randread-t1-direct-qd32", "needs libaio or io_uring"),
        ("ufs-4k-randread-t1-direct-tags2", "outside of tags4 to tags1024"),
        ("ufs-4k-randread-t1-fsync", "needs a writing pattern"),
        ("ufs-4k-randread-t1-sync-libaio", "libaio needs direct I/O"),
        ("nvme-4k-randread-t1-direct-poll", "sqpoll and poll need io_uring"),
        ("emmc-4k-randtrim-t1-direct", "emmc has no second disk"),
        ("ufs-4k-randread-t1-direct-", "no word ''"),
        ("ufs-4k-randread-t1-direct-mq+deadline", "the nearest is 'mq-deadline'"),
        ("ufs-4k-randread-t1-direct-libaio-qd08", "word 'qd08': the nearest is 'qd8'"),
        ("ufs-6k-randread-t1-direct", "ufs has blocks of 4k"),
        ("ufs-4k-randrw-t1-buffered", "buffered writes stay in memory"),
        ("ufs-4k-discard-t1-direct", "pattern 'discard': the nearest is 'randtrim'"),
        ("ufs-4k-mix-t1-direct", "pattern 'mix': the nearest is 'randrw'"),
        ("nvme-4k-randread-t1-direct-depth32", "word 'depth32': the nearest is 'qd32'"),
    ],
)
def test_a_wrong_word_is_named_with_the_nearest(words: str, nearest: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cell(words)
    assert nearest in str(caught.value) and "\n" not in str(caught.value)


def test_families_are_beside_the_matrix() -> None:
    assert len(MATRIX.cells) == 66 and len(ALL) == len(set(ALL))
    assert not set(ALL) & set(MATRIX.cells)
    assert {"io_uring", "tags", "mq-deadline", "bfq", "fsync", "discard"} <= set(FAMILIES)
    assert {
        c.partition("-")[0] for cells in load_matrix("small").family_cells.values() for c in cells
    } == {"ufs"}
    assert load_matrix("hikey960").family_cells == {}


@pytest.mark.parametrize("name", ALL)
def test_family_cells_run_whole_ios(name: str) -> None:
    cell = parse_cell(name)
    assert MATRIX.ios(cell) % cell.threads == 0 and MATRIX.ios(cell) > 0


@pytest.mark.parametrize(
    ("name", "ios"),
    [
        ("ufs-4k-randread-t1-direct-libaio-qd32", 24 * 32),
        ("ufs-4k-randread-t4-direct-libaio-qd8", 24 * 32),
        ("ufs-4k-randread-t1-direct-libaio", 256),
        ("emmc-4k-randread-t1-direct-libaio-qd256", 4096),  # all blocks of its file
        ("emmc-128k-seqread-t8-sync", 128),  # read-ahead asks the disk for half of them
    ],
)
def test_a_cell_with_a_depth_has_bursts_enough_to_be_judged(name: str, ios: int) -> None:
    assert MATRIX.ios(parse_cell(name)) == ios


def test_cells_are_chosen_by_name_family_pattern_or_grammar() -> None:
    def chosen(text: str) -> list[str] | None:
        return chosen_cells(text, MATRIX.cells, FAMILIES)

    assert chosen("tags") == FAMILIES["tags"]
    # A pattern means the matrix's own cells where it fits any.
    assert len(chosen("ufs-*") or []) == 23
    assert chosen("nvme-*-bfq") == [c for c in FAMILIES["bfq"] if c.startswith("nvme")]
    assert chosen("nvme-64k-randread-t2-direct-kyber") == ["nvme-64k-randread-t2-direct-kyber"]
    for text, words in (
        ("tag", "no such cell or family; the nearest is tags"),
        ("ufs-4k-randred-t1-direct", "the nearest is 'randread'"),
        ("sata-*", "no such cell; the nearest is"),
        ("tags,", "an item is empty"),
    ):
        with pytest.raises(UsageError, match=words):
            chosen(text)
    with pytest.raises(UsageError, match="the matrix does not name that family"):
        chosen_cells("tags", load_matrix("hikey960").cells)
    with pytest.raises(UsageError, match="measures ufs alone"):
        chosen_cells("nvme-4k-randread-t1-direct", load_matrix("small").cells)


def test_a_range_is_a_part_of_a_raw_disk() -> None:
    cell = parse_cell("ufs-4k-randread-t16-direct-range4096-raw")
    assert cell.range_mb == 4096 and cell.spare
    assert cell.setting == parse_cell("ufs-4k-randread-t16-direct-raw").setting
    with pytest.raises(UsageError, match="range needs raw or trim"):
        parse_cell("ufs-4k-randread-t16-direct-range512")
    with pytest.raises(UsageError, match="once and in this order: range512-raw"):
        parse_cell("ufs-4k-randread-t16-direct-raw-range512")


def test_a_pass_is_the_same_work_once_more() -> None:
    first, second = (
        parse_cell(f"ufs-4k-randread-t1-direct-range2304-{word}raw") for word in ("", "pass2-")
    )
    assert (first.turn, second.turn) == (1, 2)
    assert replace(second, name=first.name, turn=1) == first
    assert second.setting == first.setting
    with pytest.raises(UsageError, match="'pass1' is the pass without that word"):
        parse_cell("ufs-4k-randread-t1-direct-pass1-raw")
    with pytest.raises(UsageError, match="pass needs raw or trim"):
        parse_cell("ufs-4k-randread-t1-direct-pass2")


def test_only_cells_that_need_more_change_the_board() -> None:
    board = load_virtual_board("virt-arm64")
    assert equipped(board, MATRIX.cells) == board
    both = equipped(board, ["ufs-4k-randread-t8-direct-dev2", *FAMILIES["poll"]])
    # A polled write goes to a raw disk: NVMe has a second one then.
    assert list(both.devices) == ["ufs", "nvme", "emmc", "ufs2", "nvme2"]
    assert any("lun=1" in word for word in both.devices["ufs2"].qemu)
    assert both.cmdline == f"{board.cmdline} nvme.poll_queues=1"
    assert fragments(board, MATRIX.cells) == board.fragments
    assert fragments(board, FAMILIES["bfq"], ["add-dm"]) == [*board.fragments, "add-bfq", "add-dm"]


def test_a_board_runs_only_what_it_can() -> None:
    one, four = load_virtual_board("virt-arm64"), load_virtual_board("virt-arm64-smp4")
    assert "queues" not in families(one, MATRIX)
    assert families(four, MATRIX)["queues"] == FAMILIES["queues"]
    assert "poll" in families(one, MATRIX) and "poll" not in families(four, MATRIX)
    with pytest.raises(UsageError, match="ufs has 1 of 4 hardware queues"):
        check_cells(one, FAMILIES["queues"])
    with pytest.raises(UsageError, match="known of virtual boards alone"):
        check_cells(load_board("hikey960"), ["ufs-4k-randread-t8-direct-dev2"])


def test_a_family_by_hand_needs_a_board_that_has_what_it_is_for() -> None:
    check_families(load_virtual_board("virt-arm64-hpb"), MATRIX, "hpb")
    check_families(load_virtual_board("virt-arm64"), MATRIX, "tags, ufs-*")
    check_families(load_virtual_board("virt-arm64"), MATRIX, None)
    with pytest.raises(UsageError, match="--cells hpb: board virt-arm64 has no hpb"):
        check_families(load_virtual_board("virt-arm64"), MATRIX, "tags, hpb")


def test_a_matrix_file_has_the_same_grammar(tmp_path: Path) -> None:
    """Its I/O modes may have further words; a wrong one is refused, and the file named."""
    path = tmp_path / "mine.toml"
    path.write_text('extends = "small"\nio_modes = ["direct-io_uring-qd32-kyber"]\n')
    assert load_matrix(str(path)).cells[0] == "ufs-4k-randread-t1-direct-io_uring-qd32-kyber"
    path.write_text('extends = "small"\nio_modes = ["direct-io_uring-qd32-kiber"]\n')
    with pytest.raises(UsageError, match=r"mine\.toml: .*no word 'kiber': the nearest is 'kyber'"):
        load_matrix(str(path))
