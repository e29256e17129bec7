"""Matrix files: cells and their names, and one line for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.boards.cells import parse_cell
from iotoll.boards.matrix import load_matrix
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir

DEFAULT = data_dir("lava-jobs") / "matrices/default.toml"
NAMES = sorted(path.stem for path in DEFAULT.parent.glob("*.toml"))


PAPER = [
    f"{pattern}-t{threads}-{mode}"
    for pattern in ("4k-randread", "128k-seqread", "4k-randwrite", "128k-seqwrite")
    for threads in (1, 8)
    for mode in ("direct", "sync")
]


def test_default_matrix_is_the_papers_sixteen_cells_on_three_devices_and_those_of_limits() -> None:
    matrix = load_matrix("default")
    assert len(matrix.cells) == len(set(matrix.cells)) == 66
    for device in ("ufs", "nvme", "emmc"):
        mine = [name for name in matrix.cells if name.startswith(f"{device}-")]
        assert [name.partition("-")[2] for name in mine[:16]] == PAPER
    reads = [i for i, name in enumerate(matrix.cells[:16]) if "read-" in name]
    assert reads == list(range(8)), "writes leave pages dirty, so reads come first"


def test_g1_5_the_default_matrix_has_ios_of_several_segments() -> None:
    found = [parse_cell(name) for name in load_matrix("default").cells]
    for device in ("ufs", "nvme", "emmc"):
        mine = [cell for cell in found if cell.device == device]
        assert {(c.block_kb, c.op) for c in mine if c.pages} == {(128, "read"), (128, "write")}


def test_g1_5_the_default_matrix_has_files_whose_extents_are_out_of_order() -> None:
    matrix = load_matrix("default")
    found = [parse_cell(name) for name in matrix.cells]
    for device in ("ufs", "nvme"):
        aged = [c for c in found if c.device == device and c.aged]
        assert {(c.block_kb, c.op, c.io_mode) for c in aged} == {
            (128, "read", "direct"),
            (128, "write", "sync"),
        }
        # Each place once, and enough I/Os for the gate.
        assert {matrix.ios(c) * c.block_kb for c in aged} == {matrix.fio.aged_mb * 1024}


def test_g1_3_the_default_matrix_meets_limits_of_size_and_depth() -> None:
    matrix = load_matrix("default")
    found = [parse_cell(name) for name in matrix.cells]
    for device in ("ufs", "nvme", "emmc"):
        large = [c for c in found if c.device == device and c.block_kb == 1024]
        assert {c.op for c in large if c.depth == 1} == {"read", "write"}
        assert any(c.depth == 32 for c in large) == (device != "emmc")
    deep = next(c for c in found if c.depth > 1)
    assert matrix.ios(deep) == 24 * 32, "as many bursts as the sign test needs"


def test_cells_beside_the_patterns_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('extends = "default"\n[[more]]\ndevices = ["ufs"]\nworkloads = ["4k-x"]\n')
    with pytest.raises(UsageError, match=r"mine\.toml.*ufs-4k-x"):
        load_matrix(str(path))


@pytest.mark.parametrize("name", load_matrix("default").cells)
def test_every_cell_name_says_what_it_is(name: str) -> None:
    cell = parse_cell(name)
    order = "rand" if cell.random else "seq"
    again = f"{cell.device}-{cell.block_kb}k-{order}{cell.op}-t{cell.threads}-{cell.io_mode}"
    assert again == "-".join(name.split("-")[:5])
    assert cell.workload == name.split("-", 1)[1]
    assert cell.fio_rw == ("rand" if cell.random else "") + cell.op


def test_a_device_may_do_less() -> None:
    matrix = load_matrix("default")
    less, more = matrix.settings("emmc"), matrix.settings("ufs")
    assert more == matrix.fio == matrix.settings("nvme")
    assert (less.file_mb, less.ios_4k, less.ios_128k) == (16, 256, 64)
    cells = [parse_cell(f"{device}-128k-seqread-t8-direct") for device in ("emmc", "ufs")]
    assert [matrix.ios(cell) for cell in cells] == [64, 128]
    assert less.randseed == more.randseed


def test_a_matrix_may_hold_only_what_differs_from_another() -> None:
    default, emmc, both = (load_matrix(name) for name in ("default", "emmc", "ok3576-c"))
    assert emmc.devices == ["emmc"]
    assert (both.devices, both.name) == (["ufs", "emmc"], "ok3576-c")
    assert emmc.cells == [cell for cell in default.cells if cell.startswith("emmc-")][:16]
    assert emmc.filesystem == both.filesystem
    # Only an exact board can keep the journal from committing by time within a cell.
    changed = {"mount_options": default.filesystem.mount_options}
    assert emmc.filesystem.model_copy(update=changed) == default.filesystem
    assert (emmc.pace.rate_iops, emmc.pace.round_us) == (0, 0)
    assert emmc.fio.randseed == default.fio.randseed
    for matrix in (emmc, both):
        assert matrix.settings("emmc").model_dump() == matrix.fio.model_dump()
        assert (matrix.fio.file_mb, matrix.fio.ios_4k, matrix.fio.ios_128k) == (32, 512, 256)


@pytest.mark.parametrize("matrix_name", NAMES)
def test_every_thread_gets_whole_ios(matrix_name: str) -> None:
    matrix = load_matrix(matrix_name)
    for name in matrix.cells:
        cell = parse_cell(name)
        assert matrix.ios(cell) % cell.threads == 0
        size = matrix.settings(cell.device).file_mb * 1024
        assert matrix.ios(cell) * cell.block_kb <= size or cell.block_kb == 1024


@pytest.mark.parametrize(
    "name",
    [
        "",
        "ufs",
        "ufs-4k-randread-t1",
        "sata-4k-randread-t1-direct",
        "ufs-4k-randread-t1-direct-x",
        "ufs-4k-read-t1-direct",
        "ufs-4k-randtrim-t1-sync",
        "UFS-4k-randread-t1-direct",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="is not DEVICE-SIZEk-PATTERN-tTHREADS-MODE"):
        parse_cell(name)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('devices = ["ufs", "nvme", "emmc"]', "devices = 5", "devices: "),
        ('devices = ["ufs", "nvme", "emmc"]', "", "devices: Field required"),
        ("randseed = 42", 'randseed = "x"', "fio.randseed: "),
        ("ios_4k = 256", "ios_4k = 0", "fio.ios_4k: "),
        ("ios_4k = 256", "ios_5k = 256", "fio.ios_4k: Field required"),
        ('name = "4k-randread"', 'nome = "4k-randread"', "patterns.0.name: "),
        ('name = "4k-randread"', 'name = "4k-zigzag"', "ufs-4k-zigzag-t1-direct"),
        ("threads = [1, 8]", "threads = [1, 8", "line"),
        ("threads = [1, 8]", "threads = [1, 8]\nspeed = 1", "speed: "),
        ('"discard", "disks"', '"discrd", "disks"', "no family 'discrd': the nearest is 'discard'"),
        ("[events]", '[fio_cells.ufs-4k-randred-t1-direct]\nsize = "1m"\n[events]', "'randread'"),
    ],
)
def test_mistakes_are_one_line_with_file_and_field(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    text = DEFAULT.read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_matrix(str(path))
    message = str(caught.value)
    assert words in message
    assert "mine.toml" in message
    assert "\n" not in message


def test_unknown_matrix_names_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"no matrix 'huge'\. There are: .*default"):
        load_matrix("huge")


def test_folder_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        load_matrix(f"{tmp_path}/")
