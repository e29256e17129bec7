"""What boards send of function_graph's profiler: read with suspicion, and compared per I/O."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from iotoll.core.errors import InfrastructureError
from iotoll.core.paths import data_dir
from iotoll.explain.profile import SHOWN, compare_profiles, complete, read_profile
from iotoll.explain.terminal import APPROXIMATE, print_profile
from iotoll.records.models import ProfiledCell, ProfileRecord, UnseenFunction
from iotoll.records.rundir import SIDES

CELL = "ufs-4k-randread-t1-direct"
LONG = "blk_mq_sched_insert_requests_longer"
STAT = """  Function                               Hit    Time            Avg             s^2
  --------                               ---    ----            ---             ---
  ufshcd_queuecommand                    256    1024.000 us     4.000 us        0.123 us
  blk_mq_sched_insert_requests_l          12    1234567 us      9.000 us        0.000 us
"""


def document(**changes: Any) -> str:
    rows = [["driver", 256, 512.5], ["driver", 256, 1.5], [LONG[:30], 512, 64.0]]
    return json.dumps({"cell": "functions.0", "of": CELL, "functions": rows, **changes})


def test_cpus_are_added_up_from_files_and_from_the_serial_line(tmp_path: Path) -> None:
    (tmp_path / "ufs").mkdir()
    (tmp_path / "ufs/functions").write_text(document() + "\n")
    wanted = {CELL: {"driver": (512, 514_000.0), LONG[:30]: (512, 64_000.0)}}
    assert read_profile(tmp_path) == wanted
    (tmp_path / "ufs/functions").unlink()
    lines = ['{"cell":"boot","devices":[]}', document().replace(": ", ":")]
    (tmp_path / "received.jsonl").write_text("\n".join(lines) + "\n")
    assert read_profile(tmp_path) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        document(cell="functions.x"),
        document(functions=[["a b", 1, 1.0]]),
        document(functions=[["f", -1, 1.0]]),
        document(functions=[["f", 1, "many"]]),
        document(of="x" * 500),
        document(more=1),
    ],
)
def test_what_is_not_ours_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "ufs").mkdir()
    (tmp_path / "ufs/functions").write_text(text + "\n")
    with pytest.raises(InfrastructureError, match="functions: what was profiled cannot be read"):
        read_profile(tmp_path)


def test_changed_functions_come_first_then_the_largest_changes() -> None:
    base = {"driver": (256, 256_000.0), "other": (256, 9000.0), "gone": (256, 2560.0)}
    after = {"driver": (256, 259_840.0), "other": (512, 90_000.0)}
    cell = compare_profiles(CELL, 256, (base, after), {"driver"})
    names = [(f.name, f.changed, round(f.change, 1)) for f in cell.functions]
    assert names == [("driver", True, 15.0), ("other", False, 316.4), ("gone", False, -10.0)]
    assert (cell.functions[1].base_calls, cell.functions[1].candidate_calls) == (1, 2)
    unsure = compare_profiles(CELL, 256, (base, after))
    assert all(f.changed is None for f in unsure.functions)


def test_names_are_whole_where_one_fits() -> None:
    counts = {"driver": (1, 2.0), LONG[:30]: (3, 4.0)}
    assert complete(counts, [LONG, "driver"]) == {"driver": (1, 2.0), LONG: (3, 4.0)}
    assert complete(counts, [LONG, LONG + "2"]) == counts


def test_who_has_the_time_of_a_changed_function_is_marked_and_kept() -> None:
    many = {f"f{n}": (1, float(n)) for n in range(SHOWN + 20)}
    unseen = UnseenFunction(name="inner", sides=["base"], why="untraced", holders=["f1"])
    cell = compare_profiles(CELL, 1, ({}, many), {"f0", "inner"}, [unseen])
    first, second, third = cell.functions[:3]
    assert (first.name, first.holds, first.changed) == ("f1", ["inner"], False)
    assert (second.name, second.holds, second.changed) == ("f0", [], True)
    assert third.name == f"f{SHOWN + 19}" and cell.unseen == [unseen]


def test_small_changes_are_left_out_and_counted() -> None:
    many = {f"f{n}": (1, float(n)) for n in range(SHOWN + 20)}
    cell = compare_profiles(CELL, 1, ({}, many), {"f0"})
    assert len(cell.functions) == SHOWN and cell.left_out == 20
    assert cell.functions[0].name == "f0" and cell.functions[1].name == f"f{SHOWN + 19}"


def printed(cell: ProfiledCell) -> str:
    out = io.StringIO()
    record = ProfileRecord(board="hikey960", cells=[cell], images=[])
    print_profile(record, Console(file=out, width=300))
    return out.getvalue()


def test_the_table_says_that_it_is_approximate() -> None:
    text = printed(compare_profiles(CELL, 1, ({}, {"driver": (1, 500.0)}), {"driver"}))
    assert APPROXIMATE in text and "nothing is gated" in text
    assert "+500" in text and "driver (changed)" in text
    assert "no line of" not in text


def test_the_table_says_why_a_changed_function_has_no_line() -> None:
    def unseen(name: str, why: str, *holders: str, sides: tuple[str, ...] = SIDES) -> Any:
        fields = {"name": name, "sides": sides, "why": why, "holders": holders}
        return UnseenFunction.model_validate(fields)

    found = [
        *(unseen(f"idle{n}", "idle") for n in range(5)),
        unseen("inner", "untraced", "driver"),
        unseen("lost", "untraced", sides=("base",)),
        unseen("part", "absent", sides=("candidate",)),
    ]
    names = {one.name for one in found}
    text = printed(compare_profiles(CELL, 1, ({}, {"driver": (1, 500.0)}), names, found))
    assert "driver (with inner, changed)" in text
    assert [line for line in text.splitlines() if line.startswith("!")] == [
        "! no line of idle0, idle1, idle2 and 2 more (changed) in both kernels:"
        " nothing called it in this cell",
        "! no line of inner (changed) in both kernels: declared inline or notrace, so the tracer"
        " cannot enter it; the time is in driver",
        "! no line of lost (changed) in the base: declared inline or notrace, so the tracer"
        " cannot enter it; none of its callers has a line here",
        "! no line of part (changed) in the candidate: no separate function there; the one that"
        " has its code is changed",
    ]


@pytest.fixture
def board(tmp_path: Path) -> dict[str, Path]:
    """The board's scripts beside a job's, with a folder in place of the kernel's tracefs."""
    tracefs, lava = tmp_path / "tracefs", data_dir("lava-jobs")
    (tracefs / "trace_stat").mkdir(parents=True)
    (tracefs / "options").mkdir()
    (tracefs / "trace_stat/function0").write_text(STAT)
    (tracefs / "trace_stat/function1").write_text(STAT.replace("256", "  1"))
    (tracefs / "function_profile_enabled").write_text("0\n")
    for folder in ("dut", "job", "bin", "out/ufs"):
        (tmp_path / folder).mkdir(parents=True)
    lib = (lava / "dut/lib.sh").read_text()
    (tmp_path / "dut/lib.sh").write_text(lib + f"\nTRACEFS={tracefs}\n")
    (tmp_path / "dut/mark.sh").write_text('echo "$@" >>"$MARKED"\n')
    for name in ("handover", "serial"):
        (tmp_path / f"dut/{name}.sh").write_text(f'echo {name} "$2" >>"$MARKED"\n')
    for path in (lava / "profile").iterdir():
        text = path.read_text().replace("/tmp/iotoll-profiled", str(tmp_path / "open"))
        (tmp_path / "job" / path.name).write_text(text)
    (tmp_path / "job/job.env").write_text("SENDER=serial\n")
    program = tmp_path / "bin/iotoll-dut"
    program.write_text('#!/bin/sh\necho iotoll-dut "$@" >>"$MARKED"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {"root": tmp_path, "tracefs": tracefs, "marked": tmp_path / "marked"}


def run(board: dict[str, Path], script: str, *words: str | Path) -> str:
    root = board["root"]
    environment = {
        **os.environ,
        "MARKED": str(board["marked"]),
        "PATH": f"{root / 'bin'}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["sh", str(root / "job" / script), *map(str, words)],
        cwd=root / "out/ufs",
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_boards_script_keeps_what_ran_between_two_marks(board: dict[str, Path]) -> None:
    assert run(board, "mark.sh", CELL, "double", "x") == ""
    assert board["marked"].read_text() == f"{CELL} double x\n", "the usual mark is made first"
    assert (board["tracefs"] / "function_profile_enabled").read_text() == "1\n"
    assert (board["tracefs"] / "options/graph-time").read_text() == "0\n"
    assert run(board, "mark.sh", "second") == ""
    assert run(board, "mark.sh") == ""
    assert (board["tracefs"] / "function_profile_enabled").read_text() == "0\n"
    found = read_profile(board["root"] / "out")
    assert list(found) == [CELL, "second"]
    assert found[CELL]["ufshcd_queuecommand"] == (257, 2_048_000.0)
    assert found[CELL][LONG[:30]] == (24, 2 * 1_234_567_000.0)
    assert run(board, "mark.sh") == "" and list(read_profile(board["root"] / "out")) == list(found)


def test_the_board_sends_what_it_kept(board: dict[str, Path]) -> None:
    job, out = board["root"] / "job", board["root"] / "out/ufs"
    (out / "functions").write_text(document() + "\n")
    assert run(board, "send.sh", job, out) == ""
    assert board["marked"].read_text().splitlines() == [
        f"serial {out}",
        f"iotoll-dut send --repeat 1 --in {out}/functions",
    ]
    (job / "job.env").write_text("SENDER=handover\n")
    run(board, "send.sh", job, out)
    assert board["marked"].read_text().splitlines()[2:] == [f"handover {out}"], "it is in the tar"


def test_a_kernel_without_the_profiler_is_said(board: dict[str, Path]) -> None:
    (board["tracefs"] / "function_profile_enabled").unlink()
    said = run(board, "send.sh", board["root"] / "job", board["root"] / "out/ufs")
    assert "iotoll: FAIL workload: the kernel has no function profiler" in said
    assert not board["marked"].exists()
