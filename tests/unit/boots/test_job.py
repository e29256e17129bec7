"""The job folder that the board's scripts read, byte for byte."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from iotoll.boards.board import RealBoard, load_board
from iotoll.boards.matrix import Matrix, load_matrix
from iotoll.boots.job import PLACE, make_batches, render_job
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir

TWO = ["nvme-128k-seqwrite-t8-sync", "ufs-4k-randread-t1-direct"]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix("default")


def test_two_cells(tmp_path: Path, matrix: Matrix, golden: Callable[[str, str], None]) -> None:
    render_job(load_board("virt-arm64"), matrix, make_batches(matrix, TWO, False), tmp_path)
    files = sorted(path.name for path in tmp_path.iterdir())
    golden("job/FILES", "".join(f"{name}\n" for name in files))
    for name in files:
        golden(f"job/{name}", (tmp_path / name).read_text())


def test_further_boots_are_perturbed_as_the_matrix_says(tmp_path: Path, matrix: Matrix) -> None:
    pace, cell = matrix.pace, TWO[1]
    for bits in (0, 1, 2):
        batches = make_batches(matrix, [cell], False)
        render_job(load_board("virt-arm64"), matrix, batches, tmp_path, late=bits)
        (text,) = [p.read_text() for p in tmp_path.glob("*.fio")]
        late, pages = bits * pace.perturb_us, bits * pace.perturb_pages
        assert f"start.sh {pace.round_us} {pace.rest_us} {late} {pages} {cell}" in text
    assert pace.perturb_us and pace.perturb_pages % 2, "the default matrix perturbs both"


def test_batches_follow_the_matrix_and_calibration_comes_last(matrix: Matrix) -> None:
    batches = make_batches(matrix, matrix.cells[::-1], True)
    devices = ["ufs", "nvme", "emmc"]
    deep = ["ufs", "ufs-libaio", "nvme", "nvme-libaio", "emmc"]
    assert [b.name for b in batches] == deep + [f"calibration-{d}" for d in devices]
    assert [run.name for b in batches[:5] for run in b.runs] == matrix.cells
    runs = batches[5].runs
    assert runs[0].name == "calibration-ufs-reference"
    assert len(runs) == 1 + len(batches[5].events)
    modes = {run.name: run.calibration for run in runs}
    assert modes["calibration-ufs-block_bio_queue"] == "double block/block_bio_queue"
    assert modes["calibration-ufs-queue_rq_return"] == "off iotoll/queue_rq_return"


def test_g1_5_a_buffer_of_pages_has_a_file_that_the_board_spreads(
    tmp_path: Path, matrix: Matrix
) -> None:
    cell = "ufs-128k-seqread-t1-direct-pages"
    batches = make_batches(matrix, [*TWO, cell], False)
    render_job(load_board("virt-arm64"), matrix, batches, tmp_path)
    text = (tmp_path / "ufs.fio").read_text()
    before, after = text.split(f"[{cell}]")
    # 32 pages and one in which fio's buffer may begin.
    assert f"; spread /tmp/iotoll-pages.{cell} 33\n" in after
    assert f"iomem=mmapshared:/tmp/iotoll-pages.{cell}\n" in after
    assert "spread" not in before and "iomem=mmaphuge" in before
    # Nothing is made on a board whose memory is as it is.
    render_job(load_board("virt-arm64-stock"), matrix, batches, tmp_path)
    text = (tmp_path / "ufs.fio").read_text()
    assert "iomem=malloc" in text and "spread" not in text


def test_g1_5_an_aged_file_is_made_where_a_cell_needs_it(tmp_path: Path, matrix: Matrix) -> None:
    cell = "nvme-128k-seqread-t1-direct-aged"
    batches = make_batches(matrix, [*TWO, cell], True)
    render_job(load_board("virt-arm64"), matrix, batches, tmp_path)
    after = (tmp_path / "nvme.fio").read_text().split(f"[{cell}]")[1]
    assert "filename=data.aged\nsize=8m\nio_size=8192k\n" in after
    environment = (tmp_path / "job.env").read_text()
    assert "AGED_MB_nvme=8\n" in environment and "AGED_MB_ufs" not in environment


REST = "; The last cell ends as the others do"
"""What stands behind the last cell, whichever that is."""


def test_cells_of_the_paper_have_the_job_that_they_have_alone(
    tmp_path: Path, matrix: Matrix
) -> None:
    paper = matrix.model_copy(update={"more": []})
    for name, one in (("all", matrix), ("paper", paper)):
        batches = make_batches(one, one.cells, False)
        render_job(load_board("virt-arm64"), one, batches, tmp_path / name)
    for device in matrix.devices:
        both = [(tmp_path / name / f"{device}.fio").read_text() for name in ("all", "paper")]
        (more, rest), (jobs, rest_alone) = (text.split(REST) for text in both)
        assert more.startswith(jobs) and rest == rest_alone


def test_a_device_without_cells_is_left_out(matrix: Matrix) -> None:
    names = [b.name for b in make_batches(matrix, TWO[1:], True)]
    assert names == ["ufs", "calibration-ufs"]


def test_a_matrix_may_have_more_options_for_one_cell(tmp_path: Path, matrix: Matrix) -> None:
    cells = ["ufs-1024k-seqread-t8-direct-raw", "ufs-1024k-seqwrite-t8-direct-raw"]
    own = matrix.model_copy(update={"fio_cells": {cells[0]: {"iodepth": "32", "size": "1G"}}})
    render_job(load_board("virt-arm64"), own, make_batches(own, cells, False), tmp_path)
    text = (tmp_path / "ufs-raw.fio").read_text()
    read, write = text.partition(f"[{cells[0]}]")[2].partition(f"[mark-{cells[1]}]")[::2]
    assert "filename=iotoll-ufs2" in read
    assert read.rindex("size=1G") > read.index("size=32m") and "iodepth=32" in read
    assert "size=1G" not in write
    assert "RAW=1" in (tmp_path / "ufs-raw.disk").read_text()


def test_board_without_huge_pages_gets_none(tmp_path: Path) -> None:
    matrix = load_matrix("emmc")
    batches = make_batches(matrix, matrix.cells, False)
    for name, memory in (("zedboard", "mmap"), ("jetson-tx1", "mmaphuge")):
        board = load_board(name)
        render_job(board, matrix, batches, tmp_path / name)
        job = (tmp_path / name / "emmc.fio").read_text()
        assert f"\niomem={memory}\n" in job.partition("[mark-")[0]
        assert f"HUGE_PAGES={board.huge_pages}\n" in (tmp_path / name / "job.env").read_text()
        probes = (tmp_path / name / "emmc.kprobes").read_text().split()
        assert probes[1::2] == ["sdhci_send_command", "cqhci_request"]


def test_digest_is_of_the_content(tmp_path: Path, matrix: Matrix) -> None:
    board = load_board("virt-arm64")
    one, again, other = (
        render_job(board, matrix, make_batches(matrix, cells, False), tmp_path / str(i))
        for i, cells in enumerate((TWO, TWO[::-1], TWO[:1]))
    )
    assert one == again
    assert one != other


def test_rendering_again_leaves_no_file_of_another_job(tmp_path: Path, matrix: Matrix) -> None:
    board = load_board("virt-arm64")
    first = render_job(board, matrix, make_batches(matrix, TWO[:1], False), tmp_path)
    render_job(board, matrix, make_batches(matrix, TWO, True), tmp_path)
    assert render_job(board, matrix, make_batches(matrix, TWO[:1], False), tmp_path) == first


def test_settings_are_shell_words(tmp_path: Path, matrix: Matrix) -> None:
    hostile = matrix.filesystem.model_copy(update={"mkfs_options": "-L 'a b' $(exit 7) `x`"})
    strange = matrix.model_copy(update={"filesystem": hostile})
    render_job(load_board("virt-arm64"), strange, make_batches(matrix, TWO, False), tmp_path)
    done = subprocess.run(
        ["sh", "-euc", '. ./job.env; printf %s "$MKFS_OPTIONS"'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == hostile.mkfs_options


def test_every_run_does_what_its_cell_says(tmp_path: Path, matrix: Matrix) -> None:
    render_job(
        load_board("virt-arm64"), matrix, make_batches(matrix, matrix.cells, False), tmp_path
    )
    for device in ("ufs", "nvme", "emmc"):
        texts = [path.read_text() for path in sorted(tmp_path.glob(f"{device}*.fio"))]
        jobs = [job for text in texts for job in text.split("\n[")]
        for cell in [c for c in matrix.cells if c.startswith(device)]:
            found = [
                dict(line.split("=", 1) for line in job.splitlines() if "=" in line)
                for job in jobs
                if job.startswith(f"{cell}]")
            ]
            threads = 8 if "-t8-" in cell else 1
            assert [lines["numjobs"] for lines in found] == ["1"] * threads, "a job for each thread"
            assert len({lines["filename"] for lines in found}) == threads
            first, *others = (lines["exec_prerun"].split() for lines in found)
            script, *values = first[2:]
            assert script == "/iotoll/dut/start.sh" and values == [
                "2048000",
                "3000000",
                "0",
                "0",
                cell,
            ]
            assert [words[1:] for words in others] == [
                ["iotoll-start", "at", f"/tmp/iotoll-{cell}.begin", str(1190 * turn), cell]
                for turn in range(1, threads)
            ]
            kb = int(found[0]["bs"].rstrip("k"))
            thin = device == "emmc"
            total = sum(int(lines["io_size"].rstrip("k")) for lines in found)
            # Read-ahead asks the disk for half of a sequential read's I/Os.
            few = "aged" in cell or (thin and not ("seqread" in cell and cell.endswith("-sync")))
            large = 24 * 32 if "qd32" in cell else 32
            assert total // kb == {4: 256, 128: 64 if few else 128, 1024: large}[kb]
            size = 16 if thin else 8 if "aged" in cell else 32
            assert sum(int(lines["size"].rstrip("m")) for lines in found) == size
            assert {lines["direct"] for lines in found} == {str(int("-direct" in cell))}


def test_threads_have_their_cpus_where_there_are_several(tmp_path: Path, matrix: Matrix) -> None:
    """Their CPUs differed between two boots of a kernel: a cost in UFS's completions passed."""
    cells = ["ufs-4k-randread-t1-direct", "ufs-4k-randread-t8-direct-q4"]
    found = {}
    for name in ("virt-arm64-smp4", "virt-arm64"):
        render_job(load_board(name), matrix, make_batches(matrix, cells, False), tmp_path / name)
        jobs = "".join(path.read_text() for path in sorted((tmp_path / name).glob("*.fio")))
        found[name] = re.findall("^cpus_allowed=(.*)$", jobs, re.M)
    assert found == {"virt-arm64-smp4": list("12301230" + "1"), "virt-arm64": []}


def test_kernel_threads_have_one_cpu_where_there_are_several(
    tmp_path: Path, matrix: Matrix
) -> None:
    """The journal's thread had another CPU in another boot: innocent kernels were blocked."""
    cells = ["ufs-4k-randwrite-t1-sync", "ufs-4k-randwrite-t8-sync", "nvme-4k-randwrite-t1-sync"]
    for name in ("virt-arm64-smp4", "virt-arm64"):
        render_job(load_board(name), matrix, make_batches(matrix, cells, False), tmp_path / name)
    assert not (tmp_path / "virt-arm64" / PLACE).exists()
    assert (tmp_path / "virt-arm64-smp4" / PLACE).is_file()
    for batch in ("ufs", "nvme"):
        (alone,) = re.findall(
            f".*{PLACE}.*", (tmp_path / f"virt-arm64-smp4/{batch}.fio").read_text()
        )
        begin = f"exec_prerun=sh /iotoll/job/{PLACE} 3 && exec sh /iotoll/dut/start.sh "
        assert alone.startswith(begin), "once in a batch, before its first cell"
        assert PLACE not in (tmp_path / f"virt-arm64/{batch}.fio").read_text()


def test_unknown_names_are_a_usage_error() -> None:
    with pytest.raises(UsageError):
        load_matrix("absent")


def test_who_syncs_each_write_is_slower_than_the_tick(tmp_path: Path, matrix: Matrix) -> None:
    """Two writes in one tick share the file's time of change: the second fsync commits nothing."""
    pace = matrix.pace
    cells = {
        "nvme-4k-randwrite-t1-fsync": pace.rate_iops_many,
        "nvme-4k-randwrite-t1-fdatasync": pace.rate_iops_many,
        "nvme-4k-randwrite-t1-fsync32": pace.rate_iops,
        "nvme-4k-randwrite-t1-sync": pace.rate_iops_many,
        "nvme-4k-randwrite-t1-dsync": pace.rate_iops,
        "nvme-4k-randread-t1-sync": pace.rate_iops,
    }
    render_job(load_board("virt-arm64"), matrix, make_batches(matrix, list(cells), False), tmp_path)
    text = "".join(path.read_text() for path in tmp_path.glob("*.fio"))
    found = re.findall(r"^\[([^]]*)\]\n(?:(?!\[).*\n)*?rate_iops=(\d+)$", text, re.M)
    assert {name: int(rate) for name, rate in found} == cells
    assert pace.rate_iops_many < 250 < pace.rate_iops, "ticks a second, of base.config"
    assert "CONFIG_HZ_250=y" in (data_dir("kernel-configs") / "base.config").read_text()


def test_cells_of_one_setting_share_a_batch_and_its_file_says_the_setting(
    tmp_path: Path, matrix: Matrix
) -> None:
    cells = [
        "nvme-4k-randtrim-t1-direct",
        "nvme-4k-randread-t1-direct-io_uring-qd32-mq-deadline-tags8",
        "nvme-4k-randread-t1-direct",
        "nvme-4k-randwrite-t2-fsync32",
        "nvme-4k-randread-t8-direct-dev2",
    ]
    batches = make_batches(matrix, cells, False)
    names = [batch.name for batch in batches]
    assert names[0] == "nvme", "the matrix's own cells come first"
    assert names[-1] == "nvme-trim", "the raw disk comes last"
    assert set(names[1:-1]) == {"nvme-io_uring-mq-deadline-tags8", "nvme-fsync", "nvme-dev2"}
    render_job(load_board("virt-arm64"), matrix, batches, tmp_path)
    setting = (tmp_path / "nvme-io_uring-mq-deadline-tags8.disk").read_text()
    assert setting == "SCHEDULER=mq-deadline\nTAGS=8\n"
    assert (tmp_path / "nvme-trim.disk").read_text() == "RAW=1\n"
    assert not (tmp_path / "nvme.disk").exists()
    events = (tmp_path / "nvme-io_uring-mq-deadline-tags8.events").read_text()
    assert "io_uring:io_uring_queue_async_work\n" in events
    assert "sys_enter_fsync\n" in (tmp_path / "nvme-fsync.events").read_text()
    assert "io_uring" not in (tmp_path / "nvme.events").read_text()
    deep = (tmp_path / "nvme-io_uring-mq-deadline-tags8.fio").read_text()
    assert "\nioengine=io_uring\niodepth=32\n" in deep
    assert "\nrate_iops" not in deep, "I/Os that are to wait for each other are not paced"
    assert "\nfsync=32\n" in (tmp_path / "nvme-fsync.fio").read_text()
    paced = f"\nrate_iops={matrix.pace.rate_iops_many}\n"
    assert paced in (tmp_path / "nvme-fsync.fio").read_text(), "one of two threads"
    fsync = (tmp_path / "nvme-fsync.fio").read_text()
    assert re.search(r"start\.sh 2048000 3000000 0 0 nvme-\S*fsync", fsync)
    assert re.search(r"iotoll-start at \S+\.begin 1190 nvme", fsync)
    two = (tmp_path / "nvme-dev2.fio").read_text()
    offsets = re.findall(r"iotoll-start at \S+\.begin (\d+) ", two)
    assert offsets == ["0"] * 15, "nor do their threads begin apart"
    assert "[beside-nvme-4k-randread-t8-direct-dev2]" in two and "directory=/mnt/nvme2" in two
    assert "filename=iotoll-nvme2" in (tmp_path / "nvme-trim.fio").read_text()
    text = (tmp_path / "job.env").read_text()
    assert "DEVICES='nvme nvme2'\n" in text and "FILE_MB_nvme2=32\n" in text


def test_f3_7_a_raw_cell_takes_no_disk_of_which_a_partition_was_named(tmp_path: Path) -> None:
    """The whole disk around the partition that was named and marked was overwritten."""
    board, own = load_board("hikey960"), load_matrix("hikey960")
    assert isinstance(board, RealBoard)
    batches = make_batches(own, ["ufs-4k-randwrite-t1-direct-raw"], False)
    render_job(board, own, batches, tmp_path / "job")
    named = {**board.hardware.devices, "ufs2": "PARTLABEL=iotoll-scratch"}
    hardware = board.hardware.model_copy(update={"devices": named})
    board = board.model_copy(update={"hardware": hardware})
    with pytest.raises(UsageError, match="ufs-4k-randwrite-t1-direct-raw overwrites a whole disk"):
        render_job(board, own, batches, tmp_path / "job")
    # With a file system, a partition will do.
    batches = make_batches(own, ["ufs-4k-randread-t8-direct-dev2"], False)
    render_job(board, own, batches, tmp_path / "job")
