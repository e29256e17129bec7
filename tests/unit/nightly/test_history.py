"""The history: runs are added once, and a kill loses and doubles nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from iotoll.core.errors import InfrastructureError, ResultError, UsageError
from iotoll.nightly.history.command import history_group
from iotoll.nightly.history.files import to_parquet
from iotoll.nightly.history.query import Database
from iotoll.nightly.history.store import Store
from iotoll.nightly.history.tables import blank, of_run
from iotoll.records.rundir import RunDir
from tests.golden.runs import real
from tests.unit.nightly.points import night


def ask(place: str, sql: str) -> list[dict[str, object]]:
    database = Database(Store(place).find())
    rows = database.sql(sql).to_pylist()
    database.close()
    return list(rows)


def counted(place: str) -> tuple[int, int]:
    """Runs and values in the history."""
    sql = "SELECT (SELECT count(*) FROM runs) AS r, (SELECT count(*) FROM measurements) AS m"
    row = ask(place, sql)[0]
    return int(str(row["r"])), int(str(row["m"]))


def test_a_real_run_adds_its_own_values_once(tmp_path: Path) -> None:
    point = of_run(real("regression"), "mainline")
    store = Store(str(tmp_path))
    assert store.add(point)
    assert not store.add(of_run(real("regression"), "mainline"))
    rows = ask(str(tmp_path), "SELECT * FROM measurements")
    assert len(rows) == len(point.measurements) > 50
    result = json.loads((real("regression").side("candidate") / "result.json").read_text())
    records = result["cells"]["ufs-4k-randread-t1-direct"]
    found = [
        r["value"]
        for r in rows
        if (r["side"], r["cell"], r["section"], r["statistic"])
        == ("tip", "ufs-4k-randread-t1-direct", "submission", "median")
    ]
    assert found[0] in {r["sections"]["submission"]["own"]["median"] for r in records}
    assert {r["side"] for r in rows} == {"tip", "reference"}
    assert ask(str(tmp_path), "SELECT board FROM boards") == [{"board": "virt-arm64"}]


def test_a_failed_run_is_a_gap_with_its_reason(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    assert store.add(of_run(real("broken-build"), "next"))
    rows = ask(str(tmp_path), "SELECT status, reason FROM runs ORDER BY night")
    assert [r["status"] for r in rows] == ["failed"]
    assert all(r["reason"] for r in rows)
    assert counted(str(tmp_path)) == (1, 0)


def test_compaction_keeps_every_row_and_takes_more(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    for number in range(40):
        store.add(night(number))
    before = ask(str(tmp_path), "SELECT * FROM measurements ORDER BY run, cell")
    assert store.compact() == 40
    assert len(store.find().measurements) == 2
    assert ask(str(tmp_path), "SELECT * FROM measurements ORDER BY run, cell") == before
    assert not store.add(night(3))
    assert store.add(night(40))
    store.compact()
    assert counted(str(tmp_path)) == (41, 123)


def test_what_a_killed_compaction_leaves_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "a"))
    for number in range(5):
        store.add(night(number))
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    store.compact()
    # The merged files beside those that they were made of: killed before anything was deleted.
    shutil.copytree(tmp_path / "b", tmp_path / "a", dirs_exist_ok=True)
    assert counted(str(tmp_path / "a")) == (5, 15)
    # Merged values without their row file: killed in between.
    for path in (tmp_path / "a/runs").rglob("*.all-*"):
        path.unlink()
    assert counted(str(tmp_path / "a")) == (5, 15)


def test_two_compactions_at_once_are_put_right_by_a_third(tmp_path: Path) -> None:
    for place, numbers in (("a", (0, 1, 2)), ("b", (0, 1, 3, 4))):
        store = Store(str(tmp_path / place))
        for number in numbers:
            store.add(night(number))
        store.compact()
    shutil.copytree(tmp_path / "b", tmp_path / "a", dirs_exist_ok=True)
    store = Store(str(tmp_path / "a"))
    with pytest.raises(ResultError, match="run iotoll history compact"):
        store.find()
    assert store.compact() == 2
    assert counted(str(tmp_path / "a")) == (5, 15)


WRITER = """
import sys, time
sys.path.insert(0, {root!r})
from tests.unit.nightly.points import night
from iotoll.nightly.history.store import Store
store = Store({place!r})
print("ready", flush=True)
for number in range(200):
    store.add(night(number, cells=20))
    print("added", flush=True)
"""


def test_kill_9_during_adds_loses_and_doubles_nothing(tmp_path: Path) -> None:
    place, root = str(tmp_path / "h"), str(Path(__file__).parents[3])
    # Pauses of less than an add, after some adds: the kill lands inside one.
    for number, pause in enumerate((0.0, 0.001, 0.002, 0.003, 0.005, 0.008)):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER.format(root=root, place=place)],
            stdout=subprocess.PIPE,
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            for _ in range(5 * (number + 1)):
                assert writer.stdout.readline() == b"added\n"
            time.sleep(pause)
            os.kill(writer.pid, signal.SIGKILL)
        runs, values = counted(place)
        assert runs >= 5 * (number + 1)
        assert values == 20 * runs, f"a run is there by half after {pause} s"
    store = Store(place)
    added = sum(store.add(night(number, cells=20)) for number in range(200))
    assert added < 200, "no writer got anywhere before it was killed"
    assert counted(place) == (200, 4000)


def test_writers_at_once(tmp_path: Path) -> None:
    def write(first: int) -> int:
        store = Store(str(tmp_path))
        return sum(store.add(night(number)) for number in range(first, first + 20))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, (0, 10, 20, 0)))
    assert counted(str(tmp_path)) == (40, 120)


def old(folder: Path, version: int = 1) -> None:
    """A history as schema 1 had it: no side, no reference, no subject."""
    point = night(0)
    runs = pa.Table.from_pylist([point.run]).drop_columns(["reference", "subject"])
    values = point.measurements.drop_columns(["side"])
    for table, rows in (("runs", runs), ("measurements", values)):
        path = folder / table / "branch=main/board=virt-arm64/2026-01.run0000.parquet"
        path.parent.mkdir(parents=True)
        path.write_bytes(to_parquet(rows, version))
    (folder / "format.json").write_text(json.dumps({"history": version}))


def test_an_old_history_is_refused_then_migrated(tmp_path: Path) -> None:
    old(tmp_path)
    store = Store(str(tmp_path))
    with pytest.raises(UsageError, match="iotoll history migrate"):
        store.find()
    with pytest.raises(UsageError, match="iotoll history migrate"):
        store.add(night(1))
    assert store.migrate() == 2
    assert store.migrate() == 0
    assert {r["side"] for r in ask(str(tmp_path), "SELECT * FROM measurements")} == {"tip"}
    (tmp_path / "format.json").write_text('{"history": 99}')
    with pytest.raises(UsageError, match="newer iotoll"):
        store.find()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["query", "SELECT 1"], "holds no history"),
        (["add", "nowhere", "--branch", "x"], "not a run directory"),
        (["query", "SELECT 1", "--history", "gopher://x/y"], "s3://BUCKET"),
        (["export", "--out", "x.xls"], "end it with"),
    ],
)
def test_invalid_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(history_group, words)
    assert isinstance(found.exception, UsageError)
    assert message in str(found.exception)
    assert "\n" not in str(found.exception)


@pytest.mark.parametrize("branch", ["", "../x", "a b", "x" * 101])
def test_impossible_branches(branch: str) -> None:
    with pytest.raises(UsageError, match="branch"):
        blank(branch, "virt-arm64", "2026-11-01")


def test_a_wrong_query_and_a_damaged_file_are_one_line(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.add(night(1))
    with pytest.raises(UsageError, match=r"^query: [^\n]+$"):
        ask(str(tmp_path), "SELECT nothing FROM nowhere")
    path = next((tmp_path / "runs").rglob("*.parquet"))
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(InfrastructureError, match="is not a file of a history"):
        store.find()


def test_export_and_query(tmp_path: Path) -> None:
    place = str(tmp_path / "h")
    Store(place).add(night(1))
    for suffix in ("csv", "json", "parquet"):
        out = tmp_path / f"x.{suffix}"
        words = ["export", "--out", str(out), "--history", place]
        assert CliRunner().invoke(history_group, words).output.endswith("3 rows\n")
        assert out.stat().st_size > 100
    words = ["query", "SELECT cell, value FROM measurements ORDER BY 1", "--history", place]
    assert '"cell0",100' in CliRunner().invoke(history_group, words).output


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A server of S3's protocol on this machine, with one bucket; the URL's end that names it."""
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    old_environment = dict(os.environ)
    os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    os.environ |= {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    address = f"{host}:{port}"
    request = urllib.request.Request(f"http://{address}/nights", method="PUT")
    urllib.request.urlopen(request).close()
    yield f"endpoint_override={address}&scheme=http&region=us-east-1"
    running.stop()
    os.environ.clear()
    os.environ.update(old_environment)


def test_object_store(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path))
    place = f"s3://nights/history?{s3}"
    store = Store(place)
    for number in range(4):
        assert store.add(night(number))
    assert not store.add(night(2))
    assert counted(place) == (4, 12)
    assert store.compact() == 4
    assert store.add(of_run(RunDir.open(real("pass").root), "main"))
    assert counted(place)[0] == 5
    with pytest.raises(InfrastructureError, match="nobucket"):
        Store(f"s3://nobucket/x?{s3}").add(night(1))
