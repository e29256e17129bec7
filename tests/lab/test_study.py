"""A study in a lab: on simulated HiKey960 boards, and on a virtual board without its models."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.labs.local import LabState
from iotoll.records import results
from iotoll.records.models import Clock, Section, SideResult, StudyRecord
from iotoll.records.models.study import StudyRow, StudyTable, StudyValue
from tests.lab.conftest import UFS
from tests.vm.conftest import hikey960, succeed

pytestmark = [pytest.mark.lab, pytest.mark.vm, pytest.mark.long]
STUDY = f"""
title = "Two boards"
question = "What does a read cost?"
[sources.own]
title = "this test"
[matrix]
extends = "default"
devices = ["ufs"]
families = []
[boards.hikey960]
matrix = "hikey960"
[variants.plain]
why = "the board's own devices"
cells = ["{UFS}"]
[variants.slow]
why = "a device of 80 us"
cells = ["{UFS}"]
[variants.slow.devices.ufs.model]
read_ns = 80000
read_ns_per_kib = 0
[[tables]]
name = "sw"
title = "Software"
cells = {{ c = "{UFS}@plain", s = "{UFS}@slow" }}
columns = [
    {{ key = "sw", title = "SW", unit = "us", formula = "c.sw" }},
    {{ key = "probed", title = "with the probes", unit = "us", formula = "c.probed" }},
    {{ key = "hw", title = "HW", unit = "us", formula = "c.hw" }},
    {{ key = "slow", title = "SW, slow device", unit = "us", formula = "s.sw" }},
]
rows = [{{ label = "4K random read" }}]
[[claims]]
text = "A read needs software"
source = "own"
kind = "shape"
formula = "c.sw > 0"
cells = {{ c = "{UFS}@plain" }}
[[claims]]
text = "So does one of a slow device"
source = "own"
kind = "shape"
formula = "s.sw > 0"
cells = {{ s = "{UFS}@slow" }}
"""


def run(board: str, state: LabState, lab: Path, out: Path) -> tuple[StudyRecord, str]:
    """The study above in the lab: its record, and what it said."""
    path = out.with_name("two.toml")
    path.write_text(STUDY)
    words = ("--board", board, "--runner", "lava", "--lab", lab, "--out", out)
    done = succeed("study", path, *words, IOTOLL_LAVA_TOKEN_FILE=state.token_file)
    return results.read(out / "study.json", StudyRecord), done.stderr


SEEDS = {"ufs-nvme": 32, "queues": 8}
"""The studies whose seed was measured on HiKey960, with the cells of their own that it has."""


@pytest.mark.parametrize("name", SEEDS)
def test_a_seeds_study_has_its_figures_from_a_simulated_board(
    name: str, state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    text = lab_file.read_text()
    assert "workload = 6, job = 30" in text
    lab_file.write_text(text.replace("workload = 6, job = 30", "workload = 100, job = 120"))
    board, out = hikey960(tmp_path / "board").board, tmp_path / "out"
    words = ("--board", board, "--runner", "lava", "--lab", lab_file, "--out", out)
    token = state.token_file
    succeed("study", name, *words, timeout=3600, IOTOLL_LAVA_TOKEN_FILE=token)
    record = results.read(out / "study.json", StudyRecord)
    assert (record.clock, record.virtual) == (Clock.TIME, True)
    (ran,) = [variant for variant in record.variants if not variant.missing]
    assert len(ran.cells) == SEEDS[name]
    judged = [claim for claim in record.claims if claim.verdict != "needs a board"]
    # Arithmetic with what was printed needs no board.
    assert all("the gains of paper and talk" in claim.text for claim in judged)
    side = next(out.glob("variants/*/run/sides/base/result.json"))
    result = results.read(side, SideResult)
    (boot,) = result.boots
    assert boot.virtual and boot.lava is not None and boot.lava.device_type == "hi960-hikey"
    # Whether a cost is believed, and more than a section's own time, is the load's of this machine,
    # whose processes share QEMU's time. That there was something to believe is not: events were
    # counted, in each section that has some.
    for (cell,) in result.cells.values():
        assert cell.invalid is None
        assert cell.sections[Section.SUBMISSION].probe_events
    shown = [table for table in record.tables if table.name in FIGURES[name]]
    assert len(shown) == len(FIGURES[name])
    for value in [value for table in shown for row in table.rows for value in row.values]:
        assert value.ours is not None or value.why
    hardware = [key.ours for table in shown for row in table.rows for key in _of(table, row, "hw")]
    assert None not in hardware


FIGURES = {
    "ufs-nvme": ("shares-ufs", "shares-nvme", "ratio", "figure-6-iops", "figure-6-mbs"),
    "queues": ("board",),
}
"""The tables that a real board fills: figures 2 to 6 of the paper, high parallelism of the talk."""


def _of(table: StudyTable, row: StudyRow, key: str) -> list[StudyValue]:
    """The values of the columns whose key has ``key`` in it."""
    pairs = zip(table.columns, row.values, strict=True)
    return [value for column, value in pairs if key in column.key]


def values(record: StudyRecord) -> dict[str, float | None]:
    (row,) = record.tables[0].rows
    return {c.key: v.ours for c, v in zip(record.tables[0].columns, row.values, strict=True)}


def test_a_simulated_board_has_values_and_no_verdict(
    state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    board = hikey960(tmp_path / "board").board
    record, said = run(board, state, lab_file, tmp_path / "out")
    assert "variant slow (2 of 2): left out: board hikey960 is real" in said
    assert (record.clock, record.virtual) == (Clock.TIME, True)
    assert {claim.verdict for claim in record.claims} == {"needs a board"}
    found = values(record)
    probed, software = found["probed"], found["sw"]
    assert probed is not None and probed > 0 and found["slow"] is None
    # The probes were calibrated on the clock `time`; where none is believed there is no value.
    assert software is None or 0 < software < probed
    side = results.read(tmp_path / "out/variants/plain/run/sides/base/result.json", SideResult)
    assert side.boots[0].lava is not None and side.boots[0].lava.device_type == "hi960-hikey"


def test_a_labs_virtual_board_runs_no_variant_with_a_model(
    state: LabState, lab_file: Path, tmp_path: Path
) -> None:
    record, said = run("virt-arm64", state, lab_file, tmp_path / "out")
    assert "variant slow (2 of 2): left out: board virt-arm64 of a lab has its own devices" in said
    assert [claim.verdict for claim in record.claims] == ["shape holds", "not measured"]
    assert "no job changes their models" in record.claims[1].why
    assert values(record)["sw"] is not None and values(record)["slow"] is None
