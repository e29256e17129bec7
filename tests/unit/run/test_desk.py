"""What `--runner ssh` asks for, before anything is built."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from iotoll.core.errors import UsageError
from iotoll.gate.command import gate_command, measure_command

DESK = 'description = "x"\n[boards.hikey960]\nhost = "b"\nboot = "running"\nsimulated = {}\n'
PATCH = Path(__file__).parents[3] / "examples/patches/neutral.patch"


def refused(tmp_path: Path, *words: str, lab: bool = True, board: str = "hikey960") -> str:
    desk = tmp_path / "desk.toml"
    desk.write_text(DESK.format("true"))
    more = ["--lab", str(desk)] if lab else []
    words = ("--board", board, "--runner", "ssh", "--matrix", "hikey960", *more, *words)
    done = CliRunner().invoke(gate_command, ["--candidate", str(PATCH), *words])
    assert isinstance(done.exception, UsageError), done.exception
    return str(done.exception)


def test_a_desk_is_named(tmp_path: Path) -> None:
    assert "--runner ssh needs --lab FILE" in refused(tmp_path, lab=False)
    assert "desk desk has no board zedboard" in refused(
        tmp_path, "--matrix", "emmc", board="zedboard"
    )
    assert "which this machine boots" in refused(tmp_path, board="virt-arm64")


def test_a_board_that_boots_nothing_gates_nothing(tmp_path: Path) -> None:
    assert "iotoll measure --image FILE" in refused(tmp_path)


def test_a_ready_made_image_is_measured_where_it_runs(tmp_path: Path) -> None:
    desk, image = tmp_path / "desk.toml", tmp_path / "Image"
    desk.write_text(DESK.format("false"))
    image.write_bytes(b"no kernel")
    words = ["--board", "hikey960", "--runner", "ssh", "--lab", str(desk), "--image", str(image)]
    words += ["--matrix", "hikey960", "--until", "build", "--out", str(tmp_path / "run")]
    done = CliRunner().invoke(measure_command, words)
    assert isinstance(done.exception, UsageError), done.exception
    assert "is no arm64 kernel" in str(done.exception)
