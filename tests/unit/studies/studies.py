"""A small study, records for it, and what comes of both: for the tests of studies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from iotoll.core.paths import data_dir
from iotoll.records import results
from iotoll.records.models import CellRecord, Clock
from iotoll.records.models.run import DeviceModel
from iotoll.records.models.study import StudyRecord
from iotoll.studies.data import Study, load_study
from iotoll.studies.evaluate import Evaluator, Measured

CELL = "ufs-4k-randread-t1-direct"


MODEL = DeviceModel(
    source="test",
    read_ns=10_000,
    read_ns_per_kib=1_000,
    write_ns=0,
    write_ns_per_kib=0,
    flush_ns=0,
    discard_ns=0,
    units=1,
)


PUBLISHED = ", published = { share = { low = 20, high = 40 } }"


SMALL = f"""
title = "Small"
question = "How large?"
[sources.paper]
title = "A paper"
[variants.base]
why = "the board's own devices"
cells = ["{CELL}"]
[[tables]]
name = "share"
title = "Share of software"
source = "paper"
form = "shares"
drawn = ["share", "rest"]
cells = {{ c = "{CELL}" }}
columns = [
    {{ key = "share", title = "software", unit = "%", formula = "100 * c.sw / (c.sw + c.hw)" }},
    {{ key = "rest", title = "hardware", unit = "%", formula = "100 * c.hw / (c.sw + c.hw)" }},
    {{ key = "off", title = "off the model", unit = "us", formula = "c.hw - c.model" }},
]
rows = [ {{ label = "4K read", published = {{ share = {{ low = 20, high = 40 }} }} }} ]
[[curves]]
name = "gain"
title = "Gain"
x_title = "latency"
x_unit = "us"
unit = "%"
formula = "100 * (c.sw + x) / (x + 1)"
x = [0, 10, 100]
cells = {{ c = "{CELL}" }}
lines = [ {{ label = "reads", points = [[10, 50]], executed = [["c.hw", "c.sw"]] }} ]
[[claims]]
text = "Software is 20 to 40 %"
source = "paper"
kind = "value"
formula = "100 * c.sw / (c.sw + c.hw)"
unit = "%"
published = {{ low = 20, high = 40 }}
tolerance = 10
cells = {{ c = "{CELL}" }}
[[claims]]
text = "Hardware takes longer than software"
source = "paper"
kind = "shape"
formula = "c.hw > c.sw"
unit = "us"
cells = {{ c = "{CELL}" }}
"""


def small(tmp_path: Path, *changes: tuple[str, str]) -> Study:
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "small.toml"
    path.write_text(text)
    return load_study(str(path))


def record(sw: int = 30_000, hw: int = 70_000, invalid: str | None = None) -> CellRecord:
    example = results.read(data_dir("results-schema") / "valid/cell.json", CellRecord)
    sections = {}
    for section, part in example.sections.items():
        elapsed = part.elapsed.model_copy(update={"median": hw})
        changed: dict[str, Any] = {"elapsed": elapsed, "corrected_median": sw / 3}
        sections[section] = part.model_copy(update=changed)
    return example.model_copy(update={"cell": CELL, "sections": sections, "invalid": invalid})


def evaluated(study: Study, measured: Measured, **changes: Any) -> StudyRecord:
    settings: dict[str, Any] = {"clock": Clock.INSTRUCTIONS, "virtual": True, **changes}
    evaluator = Evaluator(study, {"base": measured}, **settings)
    return StudyRecord(
        name=study.name,
        title=study.title,
        question=study.question,
        sources=[],
        clock=evaluator.clock,
        virtual=evaluator.virtual,
        command=["iotoll", "study", study.name],
        assumed=[],
        not_shown=[],
        variants=[],
        claims=[evaluator.claim(c) for c in study.claims],
        tables=[evaluator.table(t) for t in study.tables],
        curves=[evaluator.curve(c) for c in study.curves],
    )
