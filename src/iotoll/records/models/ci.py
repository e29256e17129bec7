"""Models of what a CI pipeline passes from job to job."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.records.models.base import Clock, Model, Outcome

COMMIT = r"^[0-9a-f]{40}([0-9a-f]{24})?$"
BOARD = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""A board's name in a pipeline: it becomes a folder, a job's name and a word of a script."""


WORST = (
    Outcome.BROKEN,
    Outcome.REGRESSION,
    Outcome.INFRASTRUCTURE,
    Outcome.INCONCLUSIVE,
    Outcome.PASS,
)
"""A pipeline's outcome is the first of these that one of its runs has."""


class PlanRecord(Model):
    """``plan.json``: what a pipeline compares, and on which boards; written by its first job."""

    schema_version: str = "iotoll.plan/1"
    project: str
    base: str = Field(pattern=COMMIT, description="merge base of the change and its target")
    candidate: str = Field(pattern=COMMIT)
    merge_request: int | None = Field(None, gt=0, description="GitLab's number in the project")
    pipeline: int | None = Field(None, gt=0, description="GitLab's number of the pipeline")
    boards: list[str] = Field(description="virtual boards, each with a run in virtual/BOARD")
    lava_boards: list[str] = Field(description="boards in a LAVA lab, with runs in lava/BOARD")
    nothing: bool = Field(False, description="no path of the change selects a cell")
    refused: str | None = Field(None, description="why the change is not even looked at")


class PipelineRun(Model):
    """How one board's run ended."""

    run: str = Field(description="its run directory, relative to plan.json")
    board: str
    runner: Literal["local", "lava"]
    outcome: Outcome
    sentence: str
    clock: Clock | None = Field(None, description="of its verdict; null when it has none")


class SummaryRecord(Model):
    """``summary.json``: the verdict of a whole pipeline, the worst of its runs'."""

    schema_version: str = "iotoll.summary/1"
    outcome: Outcome
    exit_code: int
    sentence: str
    plan: PlanRecord
    runs: list[PipelineRun]
    reading: str = Field(
        "", description="what both clocks mean together, where both have a verdict"
    )

    def contradiction(self) -> str:
        """As `Model.contradiction`: the outcome is the worst of the runs', or the refusal's."""
        said = f"the outcome is {self.outcome.value}, and"
        if self.exit_code != self.outcome.exit_code:
            return f"{said} the exit code is {self.exit_code}"
        if self.plan.refused:
            is_broken = self.outcome is Outcome.BROKEN and not self.runs
            return "" if is_broken else f"{said} the change was refused"
        outcomes = {run.outcome for run in self.runs}
        worst = next((outcome for outcome in WORST if outcome in outcomes), None)
        if self.outcome is not worst:
            return f"{said} the worst run is {worst.value if worst else 'none'}"
        return ""
