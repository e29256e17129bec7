"""Instructions and time side by side, and which of them blocks."""

from __future__ import annotations

import pytest

from iotoll.records import results
from iotoll.records.models import Clock, Outcome, VerdictRecord
from iotoll.verdict.time.clocks import together
from tests.unit.runs import EXAMPLES

BOTH = list(Clock)


def verdict(clock: Clock, outcome: Outcome, can_gate: bool = True) -> VerdictRecord:
    example = results.read(EXAMPLES / "verdict.json", VerdictRecord)
    return example.model_copy(
        update={
            "clock": clock,
            "outcome": outcome,
            "exit_code": outcome.exit_code,
            "sentence": f"{clock.value} says {outcome.value}.",
            "can_gate": can_gate,
        }
    )


@pytest.mark.parametrize(
    ("time", "instructions", "blocks", "outcome", "words"),
    [
        ("pass", "pass", BOTH, "pass", "Neither more instructions nor slower."),
        ("regression", "pass", BOTH, "regression", "look at caches, locking, or the device"),
        ("pass", "regression", BOTH, "regression", "without a measurable loss of time"),
        ("pass", "regression", [Clock.TIME], "pass", "without a measurable loss of time"),
        ("regression", "regression", BOTH, "regression", "the added code costs time"),
        ("regression", "pass", [Clock.INSTRUCTIONS], "pass", "Slower without more instructions"),
        ("inconclusive", "pass", BOTH, "inconclusive", "'time' has not decided: inconclusive"),
        ("inconclusive", "regression", BOTH, "regression", "'time' has not decided"),
        ("pass", "broken", BOTH, "pass", "'instructions' has not decided: broken"),
        ("infrastructure", "regression", BOTH, "infrastructure", "has not decided"),
    ],
)
def test_outcome_and_reading(
    time: str, instructions: str, blocks: list[Clock], outcome: str, words: str
) -> None:
    own = verdict(Clock.TIME, Outcome(time))
    other = verdict(Clock.INSTRUCTIONS, Outcome(instructions))
    found = together(own, other, blocks, "run")
    assert (found.outcome, found.exit_code) == (Outcome(outcome), Outcome(outcome).exit_code)
    assert found.other is not None and words in found.other.reading
    assert found.other.outcome is Outcome(instructions)


def test_what_cannot_gate_never_blocks() -> None:
    own = verdict(Clock.INSTRUCTIONS, Outcome.PASS)
    other = verdict(Clock.TIME, Outcome.REGRESSION, can_gate=False)
    found = together(own, other, BOTH, "run")
    assert found.outcome is Outcome.PASS
    assert found.other is not None and not found.other.blocks
