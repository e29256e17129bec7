"""The REST client against servers that answer what no LAVA should."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from iotoll.core.errors import UsageError
from iotoll.labs.lava.http import Http, ServerError
from iotoll.labs.lava.server import LavaServer
from tests.unit.labs.lava.conftest import Answer, Request, Stub, as_json

JOB = {
    "id": 7,
    "description": "iotoll base boot 1 on b k-base-1-1",
    "state": "Running",
    "health": "Unknown",
    "actual_device": "b-01",
    "submit_time": "2026-11-21T20:00:00.123456Z",
    "start_time": None,
    "end_time": None,
}
STRANGE: list[Any] = [None, [], 5, "text", {"unexpected": 1}, {"results": {}}, {"job_ids": "7"}]


@pytest.fixture
def lava(stub: Stub) -> LavaServer:
    return LavaServer(Http(stub.url, "token", retries=0))


def test_job(stub: Stub, lava: LavaServer) -> None:
    stub.answers(as_json(JOB))
    job = lava.job(7)
    assert (job.id, job.device, job.finished) == (7, "b-01", False)


@pytest.mark.parametrize("answer", [*STRANGE, {**JOB, "id": "seven"}, {**JOB, "id": None}])
def test_job_of_a_strange_server(stub: Stub, lava: LavaServer, answer: Any) -> None:
    stub.answers(as_json(answer))
    with pytest.raises(ServerError, match="job 7: the server's answer"):
        lava.job(7)


def test_times_and_device_that_are_no_text(stub: Stub, lava: LavaServer) -> None:
    stub.answers(as_json({**JOB, "actual_device": {"a": 1}, "submit_time": 5}))
    assert lava.job(7).device is None
    assert lava.job(7).submitted is None


@pytest.mark.parametrize(
    "answer", [*STRANGE, {"job_ids": []}, {"job_ids": [1, 2]}, {"job_ids": ["x"]}]
)
def test_submission_without_a_number_is_in_doubt(stub: Stub, lava: LavaServer, answer: Any) -> None:
    stub.answers(as_json(answer))
    with pytest.raises(ServerError) as caught:
        lava.submit("job_name: x")
    assert caught.value.sent
    assert len(str(caught.value)) < 400


def test_refused_definition_is_the_users_to_mend(stub: Stub, lava: LavaServer) -> None:
    stub.answers(as_json({"message": "job submission failed: No devices"}, 400))
    with pytest.raises(UsageError, match=r"LAVA refuses the job.*No devices"):
        lava.submit("x")
    stub.answers(as_json({"message": "Job invalid: extra keys not allowed"}))
    with pytest.raises(UsageError, match="extra keys"):
        lava.validate("x")


def pages(entries: list[dict[str, Any]]) -> Any:
    def play(request: Request) -> Answer:
        query = parse_qs(urlsplit(request.path).query)
        start, size = int(query["offset"][0]), int(query["limit"][0])
        more = "more" if start + size < len(entries) else None
        return as_json({"results": entries[start : start + size], "next": more})

    return play


def test_all_pages_are_read(stub: Stub, lava: LavaServer) -> None:
    stub.play = pages([{"name": str(n)} for n in range(450)])
    assert [t["name"] for t in lava.tests(7)] == [str(n) for n in range(450)]
    assert len(stub.requests) == 3


def test_list_without_end(stub: Stub, lava: LavaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iotoll.labs.lava.server.PAGES", 5)
    stub.answers(as_json({"results": [], "next": "more"}))
    with pytest.raises(ServerError, match="over 1000 entries"):
        lava.tests(7)
    assert len(stub.requests) == 5


@pytest.mark.parametrize("answer", [*STRANGE, {"results": [None]}, {"results": ["x"]}])
def test_list_that_is_none(stub: Stub, lava: LavaServer, answer: Any) -> None:
    stub.answers(as_json(answer))
    with pytest.raises(ServerError):
        lava.tests(7)


def test_jobs_of_others_are_not_taken_for_ours(stub: Stub, lava: LavaServer) -> None:
    # As from a server that does not know the filter.
    names = {9: "x k-base-1-1", 5: "x k-base-1-1", 6: "x k-base-1-11", 7: None}
    stub.play = pages([{"id": n, "description": name} for n, name in names.items()])
    assert lava.find("k-base-1-1") == [5, 9]


def test_job_without_a_log(stub: Stub, lava: LavaServer) -> None:
    stub.answers(Answer(404))
    assert lava.log(7) == b""
    stub.answers(Answer(410))
    with pytest.raises(ServerError):
        lava.log(7)


def test_devices_of_a_type_that_have_every_tag(stub: Stub, lava: LavaServer) -> None:
    have = {"b-01": ["fast", "b-01"], "b-02": ["fast"], "b-03": ["slow"]}

    def play(request: Request) -> Answer:
        wanted = parse_qs(urlsplit(request.path).query).get("tags__name")
        names = [name for name, tags in have.items() if not wanted or wanted[0] in tags]
        common = {"device_type": "qemu", "health": "Good"}
        return as_json({"results": [{"hostname": name, **common} for name in names]})

    stub.play = play
    assert lava.devices("qemu") == ["b-01", "b-02", "b-03"]
    assert lava.devices("qemu", ["fast"]) == ["b-01", "b-02"]
    assert lava.devices("qemu", ["fast", "b-01"]) == ["b-01"]
    assert lava.devices("qemu", ["other"]) == []
