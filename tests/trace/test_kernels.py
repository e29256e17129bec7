"""The traces of many kernels are what their descriptions say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iotoll import _native
from tests.trace.record.table import table

FOLDER = Path(__file__).with_name("data") / "kernels"
TRACES = sorted(path.stem for path in FOLDER.glob("*.dat"))


@pytest.mark.parametrize("name", TRACES)
def test_trace_is_what_its_description_says(name: str) -> None:
    facts = json.loads((FOLDER / f"{name}.json").read_text())
    info = json.loads(_native.trace_info(str(FOLDER / f"{name}.dat")))
    assert info["events"] == facts["events"]
    assert (info["cpus"], info["lost_events"]) == (facts["cpus"], 0)
    assert info["clock"] == facts["clock"]
    for wanted in facts["absent_events"]:
        assert wanted.rpartition(":")[2] not in info["events"]


def test_every_file_belongs_to_a_trace() -> None:
    stems = {path.name.removesuffix(".fio.json") for path in FOLDER.glob("*.fio.json")}
    assert stems <= set(TRACES)
    described = {path.stem for path in FOLDER.glob("*.json")} - {f"{stem}.fio" for stem in stems}
    assert described == set(TRACES)


def test_table_is_up_to_date() -> None:
    assert (FOLDER / "README.md").read_text() == table(FOLDER)
