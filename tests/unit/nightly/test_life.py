"""Changes have a life: explained once, taken back, linked; and the page says what is known."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from iotoll.core.errors import BrokenError, UsageError
from iotoll.core.progress import Progress
from iotoll.nightly import night
from iotoll.nightly.changes.find import Change, record
from iotoll.nightly.changes.notes import note
from iotoll.nightly.command import cost_of, keep_report, last_report
from iotoll.nightly.config import Config, load_config
from iotoll.nightly.followup import follow_up
from iotoll.nightly.history.store import Store
from iotoll.nightly.history.tables import Point, blank, gap, measurements
from iotoll.nightly.trend import view
from iotoll.nightly.trend.alerts import due
from iotoll.nightly.trend.command import trend_command
from iotoll.nightly.trend.page import write_page
from tests.unit.nightly.test_nightly import TOML, Tree
from tests.unit.nights import history

CELL, OTHER = "ufs-4k-randread-t1-direct", "nvme-4k-randwrite-t1-direct"
QUIET = Progress(True)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nightly.toml").write_text(TOML)
    return load_config(Path("nightly.toml"))


def nights(store: Store, branch: str, tips: Sequence[tuple[str, dict[str, float]]]) -> None:
    """A night for each tip, with the overhead of its cells."""
    for number, (commit, values) in enumerate(tips, 1):
        row = blank(branch, "virt-arm64", f"2026-11-{number:02}")
        row |= {"run": f"{branch}-{number}", "commit": commit, "board_sha256": "b"}
        row |= {"clock": "instructions", "unit": "instructions"}
        rows = [("tip", c, "overhead", "median", value) for c, value in values.items()]
        store.add(Point(row, measurements(row, rows)))


def answer(*culprits: tuple[str, str, dict[str, float]]) -> dict[str, Any]:
    """What a search writes: commit, subject and overhead of each culprit."""
    return {
        "outcome": "found",
        "culprits": [
            {
                "commits": [{"sha": sha, "subject": words, "author": "a@b"}],
                "parts": [
                    {"cell": c, "section": "overhead", "delta": d, "some": ""}
                    for c, d in parts.items()
                ],
                "functions": [{"name": f"f_{sha[:4]}", "delta": 1.0, "changed": True}],
                "changed": [],
            }
            for sha, words, parts in culprits
        ],
    }


class Seek:
    """Stands for `iotoll bisect`: writes what is known, and counts the searches."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.known = known
        self.asked: list[list[str]] = []

    def __call__(self, words: Sequence[str], log: Path) -> int:
        self.asked.append(list(words))
        out = Path(words[words.index("--out") + 1])
        out.mkdir(parents=True)
        (out / "bisect.json").write_text(json.dumps(self.known))
        return 0


def follow(config: Config, store: Store, seek: Seek) -> list[Change]:
    follow_up(config, store, view.load(store, None, {}).changes, QUIET, seek=seek)
    return view.load(store, None, {}).changes


def test_g3_2_a_change_names_each_of_its_causes(config: Config, tmp_path: Path) -> None:
    tree, store = Tree(tmp_path / "tree"), Store(config.history)
    shas = [tree.commit(f"2026-11-0{day}") for day in (1, 2, 3)]
    nights(
        store, "mainline", [(shas[0], {CELL: 100, OTHER: 100}), (shas[2], {CELL: 182, OTHER: 137})]
    )
    seek = Seek(answer((shas[1], "ext4: read", {CELL: 82}), (shas[2], "nvme: write", {OTHER: 37})))
    (change,) = follow(config, store, seek)
    assert [word for word in seek.asked[0] if word in (CELL, OTHER)] == sorted((CELL, OTHER))
    assert change.state == "explained" and change.culprit == shas[1]
    assert [(c.commit, c.worst and c.worst.cell) for c in change.causes] == [
        (shas[1], CELL),
        (shas[2], OTHER),
    ]
    page = write_page(view.load(store, None, {}), tmp_path / "out").read_text()
    first = page[: page.index('<section id="matrix">')]
    for words in ("ext4: read", "nvme: write", f"f_{shas[1][:4]}", f"f_{shas[2][:4]}"):
        assert words in first


def test_g3_10_one_culprit_of_two_branches_is_searched_once(config: Config, tmp_path: Path) -> None:
    tree, store = Tree(tmp_path / "tree"), Store(config.history)
    shas = [tree.commit(f"2026-11-0{day}") for day in (1, 2, 3)]
    both = [config.branch[0], config.branch[0].model_copy(update={"name": "next"})]
    config = config.model_copy(update={"branch": both, "bisects": 5})
    for name in ("mainline", "next"):
        nights(store, name, [(shas[0], {CELL: 100}), (shas[2], {CELL: 141})])
    seek = Seek(answer((shas[1], "of 2026-11-02", {CELL: 41})))
    found = follow(config, store, seek)
    assert len(seek.asked) == 1
    assert {c.state for c in found} == {"explained"} and {c.culprit for c in found} == {shas[1]}
    assert {c.same for c in found} - {""} <= {c.id for c in found} and any(c.same for c in found)


def test_g3_10_a_second_message_names_the_culprit(tmp_path: Path) -> None:
    store = history(tmp_path / "h", {(CELL, "overhead"): [100, 141, 141]})
    (change,) = view.load(store, None, {}).changes
    note(store.files, change.id, told="opened")
    assert due(view.load(store, None, {}).changes) == []
    cause = {"commit": "a" * 40, "subject": "ufs: x", "author": "Ada", "functions": ["f"]}
    note(store.files, change.id, state="explained", commit="a" * 40, causes=[cause])
    (message,) = due(view.load(store, None, {}).changes)
    assert message.kind == "explained" and "ufs: x" in message.issue and "in f" in message.issue
    note(store.files, change.id, told="explained")
    assert due(view.load(store, None, {}).changes) == []


def test_g3_6_what_a_later_commit_takes_back_is_closed_and_linked(tmp_path: Path) -> None:
    """Two causes, taken back on two nights; the second night has another growth beside it."""
    lines = {
        (CELL, "overhead"): [100.0, 141, 100, 100],
        (OTHER, "overhead"): [100.0, 137, 137, 100],
        ("emmc-4k-randread-t1-direct", "overhead"): [100.0, 100, 100, 150],
    }
    found = view.load(history(tmp_path / "h", lines), None, {}).changes
    change = next(c for c in found if c.night == "2026-01-02")
    assert (change.state, change.fixed) == ("fixed", "2026-01-04")
    back = next(c for c in found if c.night == "2026-01-04")
    assert change.undone_by == back.id and back.undoes == (change.id,)


def test_g3_6_a_revert_closes_a_change_that_other_growth_hides(
    config: Config, tmp_path: Path
) -> None:
    tree, store = Tree(tmp_path / "tree"), Store(config.history)
    first, second = tree.commit("2026-11-01"), tree.commit("2026-11-02")
    (tree.folder / "file").write_text("back")
    words = f"Revert\n\nThis reverts commit {second}."
    tree._git("-C", str(tree.folder), "commit", "-qam", words, day="2026-11-03")
    third = tree._git("-C", str(tree.folder), "rev-parse", "HEAD").strip()
    # The same night adds 20 in the cell, so that it did not go back to where it was.
    tips = [(first, {CELL: 100.0}), (second, {CELL: 141.0}), (third, {CELL: 120.0})]
    nights(store, "mainline", tips)
    follow(config, store, Seek({}))
    found = follow(config, store, Seek({}))
    change = next(c for c in found if c.night == "2026-11-02")
    assert (change.state, change.undone) == ("fixed", third)


def test_g3_6_growth_of_the_same_size_again_is_searched_anew(
    config: Config, tmp_path: Path
) -> None:
    tree, store = Tree(tmp_path / "tree"), Store(config.history)
    shas = [tree.commit(f"2026-11-0{day}") for day in range(1, 8)]
    tips: list[tuple[str, dict[str, float]]] = [(shas[0], {CELL: 100.0}), (shas[2], {CELL: 141.0})]
    nights(store, "mainline", tips)
    seek = Seek(answer((shas[1], "ufs: first", {CELL: 41})))
    (change,) = follow(config, store, seek)
    assert change.culprit == shas[1]
    nights(store, "mainline", [*tips, (shas[3], {CELL: 100.0}), (shas[6], {CELL: 141.0})])
    record(store.files, view.load(store, None, {}).changes)
    again = next(c for c in view.load(store, None, {}).changes if c.grew)
    assert (again.id, again.state, again.culprit, again.causes) == (change.id, "reappeared", "", ())
    second = Seek(answer((shas[5], "ufs: second", {CELL: 41})))
    found = next(c for c in follow(config, store, second) if c.grew)
    (words,) = second.asked
    ends = [words[words.index(name) + 1] for name in ("--good", "--bad")]
    assert ends == [shas[3], shas[6]], "the nights around the return"
    assert (found.state, found.culprit) == ("reappeared", shas[5])
    record(store.files, view.load(store, None, {}).changes)
    found = next(c for c in follow(config, store, second) if c.grew)
    assert found.culprit == shas[5] and len(second.asked) == 1, "known now"


def test_g3_8_growth_against_the_release_before(tmp_path: Path) -> None:
    line = {(CELL, "overhead"): [100.0, 120, 141]}
    store = history(tmp_path / "h", line, releases={0: "v1", 2: "v2"})
    trend = view.load(store, None, {})
    (drift,) = trend.drifts
    assert (drift.release, drift.since_release) == ("v2", 0)
    assert (drift.previous, drift.since_previous) == ("v1", 41)
    assert any(s.since == "the release before" and s.worse for s in view.summaries(trend))
    assert "(+41)" in write_page(trend, tmp_path / "out").read_text()


def test_g3_4_a_tip_without_values_is_never_green(tmp_path: Path) -> None:
    place = tmp_path / "h"
    history(place, {(CELL, "overhead"): [100.0, 100]})
    store = history(place, {(CELL, "overhead"): [100.0, 0]}, "next", failed={1: "boot: panic"})
    first = view.summaries(view.load(store, None, {}))[0]
    assert first.worse is None and "not measured: next on virt-arm64" in first.sentence
    grown = history(place, {(CELL, "overhead"): [100.0, 219]}, "third")
    assert view.summaries(view.load(grown, None, {}))[0].worse is True


def test_g3_4_growth_that_a_mean_hides_is_not_green(tmp_path: Path) -> None:
    other = "ufs-4k-randread-t8-direct"
    lines = {(CELL, "overhead"): [100.0, 119], (other, "overhead"): [100.0, 81]}
    first = view.summaries(view.load(history(tmp_path / "h", lines), None, {}))[0]
    assert first.worse is True and "+19" in first.sentence


def test_g3_4_growth_since_the_last_report_counts(tmp_path: Path) -> None:
    """A night that was caught up grew; the last one did not."""
    store = history(tmp_path / "h", {(CELL, "overhead"): [100.0, 219, 219]})
    keep_report(tmp_path, "2026-01-01", {"main@virt-arm64": "2026-01-01"})
    keep_report(tmp_path, "2026-01-03", {"main@virt-arm64": "2026-01-03"})
    reported = last_report(tmp_path, "2026-01-03")
    first = view.summaries(view.load(store, None, {}, reported=reported))[0]
    assert (first.since, first.worse) == ("the last report", True)


def test_g3_5_a_tip_that_fails_has_report_commit_and_author(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Tree(tmp_path / "tree").commit("2026-11-01")

    def dies(flow: Any, until: str) -> None:
        raise BrokenError("build", "drivers/ufs does not compile")

    monkeypatch.setattr(night, "execute_alone", dies)
    store = Store(config.history)
    (point,) = night.run_night(config, store, "2026-11-01", QUIET)
    assert (point.run["status"], point.run["commit"]) == ("failed", commit)
    assert "does not compile" in point.run["reason"] and "by a@b" in point.run["reason"]
    report = Path(config.page) / unquote(point.run["url"])
    assert "does not compile" in report.read_text()
    assert (report.parent / "kcidb.json").is_file()


def test_g3_3_links_to_nights_work_from_disk_and_from_a_server(
    config: Config, tmp_path: Path
) -> None:
    out = Path(config.page)
    name = "2026-11-01/" + "next%2Ffixes@virt-arm64"
    target = out / "nights" / name
    target.mkdir(parents=True)
    (target / "report.html").write_text("the report")
    store = Store(config.history)
    url = "nights/2026-11-01/next%252Ffixes%40virt-arm64/report.html"
    store.add(
        gap("next/fixes", "virt-arm64", "2026-11-01", "boot: panic", url=url, commit="c" * 40)
    )
    page = write_page(view.load(store, None, {}), out).read_text()
    (link,) = re.findall(r'href="(nights/[^"]+)"', page)
    assert (out / unquote(link)).read_text() == "the report"
    assert json.loads((out / "data/0.js").read_text()[len("trendData(0,") : -3])["nights"][
        "url"
    ] == [url]
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(out))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with urlopen(f"http://127.0.0.1:{server.server_port}/{link}") as stream:
            assert stream.read() == b"the report"
    finally:
        server.shutdown()
        server.server_close()


def test_g3_11_a_branch_that_there_is_not_is_an_error(tmp_path: Path) -> None:
    history(tmp_path / "h", {(CELL, "overhead"): [100.0, 100]})
    words = ["--branch", "nosuch", "--history", str(tmp_path / "h")]
    found = CliRunner().invoke(trend_command, words)
    assert isinstance(found.exception, UsageError)
    assert "--branch nosuch" in str(found.exception) and "main" in str(found.exception)


def test_a_nights_own_cost_is_told() -> None:
    failed = gap("main", "virt-arm64", "2026-11-01", "boot: panic")
    assert "1 failed" in cost_of([failed], 0, 60)
    assert cost_of([], 2, 125).startswith("This night took 2 min: 0 tips measured with 0 boots")
