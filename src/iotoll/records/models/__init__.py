"""Typed models of every file in a run directory; results-schema/ is generated from them."""

from iotoll.records.models.analysis import CellRecord, SectionRecord, Stats
from iotoll.records.models.base import Clock, Model, Outcome, Section, Unit
from iotoll.records.models.ci import PipelineRun, PlanRecord, SummaryRecord
from iotoll.records.models.dut import DutRecord
from iotoll.records.models.run import (
    BootRecord,
    BuildRecord,
    CellChoice,
    FailureRecord,
    ImageFile,
    ImageRecord,
    LavaAttempt,
    LavaRecord,
    RunManifest,
    SelectionRecord,
    SourceRecord,
    TraceFile,
)
from iotoll.records.models.verdict import (
    CellVerdict,
    GrowthRecord,
    NoisePair,
    NoiseRecord,
    OtherClock,
    PairRecord,
    SectionComparison,
    SequentialRecord,
    SideResult,
    VerdictRecord,
)

__all__ = [
    "BootRecord",
    "BuildRecord",
    "CellChoice",
    "CellRecord",
    "CellVerdict",
    "Clock",
    "DutRecord",
    "FailureRecord",
    "GrowthRecord",
    "ImageFile",
    "ImageRecord",
    "LavaAttempt",
    "LavaRecord",
    "Model",
    "NoisePair",
    "NoiseRecord",
    "OtherClock",
    "Outcome",
    "PairRecord",
    "PipelineRun",
    "PlanRecord",
    "RunManifest",
    "Section",
    "SectionComparison",
    "SectionRecord",
    "SelectionRecord",
    "SequentialRecord",
    "SideResult",
    "SourceRecord",
    "Stats",
    "SummaryRecord",
    "TraceFile",
    "Unit",
    "VerdictRecord",
]
