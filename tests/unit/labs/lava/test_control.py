"""The A/A control: a board drifts when two pairs of boots show the same, and not before."""

from __future__ import annotations

import json

import pytest

from iotoll.labs.lava.control import finding
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.server import LavaServer
from iotoll.records.models import Section
from iotoll.verdict.instructions import rule
from iotoll.verdict.policy import load_policy
from tests.unit.labs.lava.conftest import Answer, Request, Stub, as_json
from tests.unit.runs import side_result
from tests.unit.verdict.gates import UFS, counts

POLICY = load_policy("instructions")


def pair(seed: int, cost: int) -> rule.Judgement:
    """A pair of boots of one kernel; the second boot's submission costs so much more."""
    base = side_result("base", {UFS: counts(seed)})
    other = side_result("candidate", {UFS: counts(seed, {Section.SUBMISSION: cost})})
    return rule.judge(base, other, POLICY, [UFS])


@pytest.mark.parametrize("cost", [80, -80])
def test_what_both_pairs_show_is_a_drift(cost: int) -> None:
    found = finding("b-01", [pair(1, cost), pair(3, cost)])
    assert [line.split(":")[1].split()[0] for line in found.moved] == ["submission", "whole"]
    assert found.sentence.startswith("b-01: drifts, one kernel differs from itself: ")


@pytest.mark.parametrize("costs", [(80, 0), (0, 80), (80, -80)])
def test_what_one_pair_shows_is_none(costs: tuple[int, int]) -> None:
    found = finding("b-01", [pair(1, costs[0]), pair(3, costs[1])])
    assert found.sentence == "b-01: steady"


def test_quarantine_says_why(stub: Stub) -> None:
    stub.answers(as_json({"message": "OK"}, 202))
    LavaServer(Http(stub.url, "token")).quarantine("b/01", "it drifts")
    (asked,) = stub.requests
    assert asked.path == "/api/v0.2/devices/b%2F01/set_health/"
    assert json.loads(asked.body) == {"health": "MAINTENANCE", "reason": "it drifts"}


def test_healthy_devices_of_the_type(stub: Stub) -> None:
    entries = [
        {"hostname": "b-01", "device_type": "qemu", "health": "Good"},
        {"hostname": "b-02", "device_type": "qemu", "health": "Bad"},
        {"hostname": "b-03", "device_type": "qemu", "health": "Unknown"},
        {"hostname": "b-04", "device_type": "qemu", "health": "Maintenance"},
        {"hostname": "c-01", "device_type": "other", "health": "Good"},
    ]

    def play(_: Request) -> Answer:
        return as_json({"results": entries})

    stub.play = play
    assert LavaServer(Http(stub.url, "token")).devices("qemu") == ["b-01", "b-03"]
