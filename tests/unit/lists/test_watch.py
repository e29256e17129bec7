"""A list to gate: new series of an archive, whoever wrote what into it, each once."""

from __future__ import annotations

import email
import email.policy
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from iotoll.core.errors import UsageError
from iotoll.core.lock import alone
from iotoll.core.progress import Progress
from iotoll.lists import watch
from iotoll.lists.archive import LARGEST
from iotoll.lists.config import Config, load_config
from iotoll.lists.reply import reply
from iotoll.lists.store import Series, Store
from iotoll.lists.watch import Gated
from iotoll.patch import mail as mails
from iotoll.records import results
from iotoll.records.models import FailureRecord, Outcome, SourceRecord, VerdictRecord
from tests.unit.lists.archives import HID, UFS, epoch, finished, mail
from tests.unit.runs import agreeing

QUIET = Progress(quiet=True)


def config(tmp_path: Path, **more: object) -> Config:
    values = {"archives": [str(tmp_path / "inbox")], "tree": "debian"}
    return Config.model_validate({**values, "folder": str(tmp_path / "watch"), **more})


class Gates:
    """Stands where `iotoll gate` is started; ``ends`` are its ends, the last one repeated.

    ``leaves`` says that each leaves a run that has ended, whose report takes long to draw.
    """

    def __init__(self, *ends: Gated, leaves: bool = False) -> None:
        self.ends = list(ends) or [Gated(0, {"outcome": "pass", "sentence": "fine"})]
        self.given: list[bytes] = []
        self.leaves = leaves

    def __call__(self, asked: Config, mbox: Path, run: Path) -> Gated:
        self.given.append(mbox.read_bytes())
        if self.leaves:
            finished(run)
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]


def passed(
    tmp_path: Path, *raws: bytes, leaves: bool = False, **more: object
) -> tuple[list[Series], Gates]:
    gates = Gates(leaves=leaves)
    epoch(tmp_path / "inbox", raws)
    return watch.run(config(tmp_path, **more), QUIET, gates), gates


def test_a_series_in_any_order_is_gated_once_and_v2_replaces_v1(tmp_path: Path) -> None:
    series, gates = passed(
        tmp_path,
        mail("[PATCH 0/1] ufs: faster", "v1", body=""),
        mail("[PATCH 1/1] ufs: one", "v1-1", reply_to="v1"),
        mail("[PATCH v2 2/2] ufs: two", "v2-2", reply_to="v2"),
        mail("Re: [PATCH 1/1] ufs: one", "re", reply_to="v1-1"),
        mail("[PATCH v2 1/2] ufs: one", "v2-1", reply_to="v2"),
        mail("[PATCH v2 0/2] ufs: faster", "v2", body="", reply_to="v1"),
    )
    found = {(one.version, one.state) for one in series}
    assert found == {(1, "replaced"), (2, "gated")}
    assert [m.number for m in mails.mails(gates.given[0])] == [0, 1, 2]
    again, gates = passed(tmp_path, mail("[PATCH 2/3] ufs: alone", "x-2", reply_to="x"))
    assert not gates.given
    assert [(s.state, s.why) for s in again][-1] == ("waiting", "1 of 3 patches are there")


def test_what_touches_nothing_is_skipped_and_paths_can_be_named(tmp_path: Path) -> None:
    series, gates = passed(tmp_path, mail("[PATCH] hid: x", "a", HID), paths=["drivers/ufs/"])
    assert [one.state for one in series] == ["skipped"]
    assert not gates.given


HOSTILE = {
    "huge": mail("[PATCH] ufs: huge", "h", "x" * LARGEST),
    "path": mail("[PATCH] ufs: path", "p", UFS.replace("drivers/ufs/core/", "../../etc/")),
    "git": mail("[PATCH] ufs: hook", "g", UFS.replace("drivers/ufs/core/ufshcd.c", ".git/config")),
    "many": mail("[PATCH 1/10000] ufs: many", "m"),
    "nul": mail("[PATCH] ufs: nul", "n", "\0" + UFS),
}


@pytest.mark.parametrize("name", ["huge", "path", "git", "many", "nul"])
def test_a_hostile_mail_is_refused_and_the_next_one_is_gated(tmp_path: Path, name: str) -> None:
    series, _ = passed(tmp_path, HOSTILE[name], mail("[PATCH] ufs: good", "good"))
    assert sorted(one.state for one in series) == ["gated", "refused"]
    assert all(one.why for one in series)


@pytest.mark.parametrize(
    "raw",
    [
        mail("[PATCH] ufs: x", "c", more="Content-Type: text/plain; charset=no-such\n"),
        mail("[PATCH] ufs: =?x-none?b?!!?=", "d"),
        mail("[PATCH] ufs: x", "e").replace(b"ufs: x", b"ufs: \xff\xfe\x1b[2J"),
        mail("[PATCH] ufs: x", "f").replace(b"From: A Dev", b"From: =?utf-8?q?A=0ABcc:_x"),
        mail("[PATCH] ufs: x", "../../../tmp/x y"),
    ],
)
def test_broken_mime_and_odd_headers_do_not_stop_a_patch(tmp_path: Path, raw: bytes) -> None:
    series, _ = passed(tmp_path, raw)
    assert [one.state for one in series] == ["gated"]
    assert all(one.subject.isprintable() for one in series)
    assert sorted(p.name for p in (tmp_path / "watch/series").iterdir()) == [series[0].key]


def test_parts_in_parts_and_no_mail_at_all(tmp_path: Path) -> None:
    deep = "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(3000))
    series, _ = passed(tmp_path, b"Subject: [PATCH] x\n" + deep.encode(), b"\xff\0\n\n", b"\n")
    assert all(one.state == "refused" for one in series)


def test_a_patch_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    series, _ = passed(
        tmp_path,
        mail("[PATCH 1/2] ufs: one", "a"),
        mail("[PATCH 2/2] ufs: two", "b", reply_to="a"),
        mail("[PATCH 2/2] ufs: planted", "c", reply_to="a"),
    )
    assert [(one.state, one.why) for one in series] == [("refused", "has patch 2 twice")]


def test_a_gate_that_fails_is_tried_again_and_stops_nothing(tmp_path: Path) -> None:
    epoch(tmp_path / "inbox", [mail("[PATCH] ufs: a", "a"), mail("[PATCH] ufs: b", "b")])
    asked = config(tmp_path)
    gates = Gates(Gated(4, {}, "no disk"), Gated(0, {"outcome": "pass", "sentence": "fine"}))
    first = watch.run(asked, QUIET, gates)
    assert [(one.state, one.outcome) for one in first] == [("ready", ""), ("gated", "pass")]
    second = watch.run(asked, QUIET, gates)
    assert [one.outcome for one in second] == ["pass", "pass"]
    count = len(gates.given)
    watch.run(asked, QUIET, gates)
    assert len(gates.given) == count, "no series is gated twice"


def test_replies_are_sent_once_also_when_a_call_ended_while_it_sent(tmp_path: Path) -> None:
    log = tmp_path / "sent"
    send = [sys.executable, "-c", f"import sys; open({str(log)!r}, 'a').write(sys.stdin.read())"]
    series, _ = passed(tmp_path, mail("[PATCH] ufs: a", "a"), leaves=True, send=send)
    assert series[0].sent == "sent"
    text = log.read_text()
    assert "In-Reply-To: <a>" in text
    watch.run(config(tmp_path, send=send), QUIET, Gates())
    assert log.read_text() == text
    store = Store(tmp_path / "watch/watch.sqlite", 100)
    store.change(series[0].key, sent="sending")
    store.close()
    again = watch.run(config(tmp_path, send=send), QUIET, Gates())
    assert again[0].sent.startswith("unknown")
    assert log.read_text() == text


def test_without_a_command_replies_are_files_alone(tmp_path: Path) -> None:
    series, _ = passed(tmp_path, mail("[PATCH] ufs: a", "a"), leaves=True)
    place = tmp_path / "watch/series" / series[0].key
    assert {"reply.eml", "kcidb.json", "report.html", "series.mbox"} <= {
        path.name for path in place.iterdir()
    }
    assert not series[0].sent
    page = (tmp_path / "watch/index.html").read_text()
    assert f"series/{series[0].key}/report.html" in page


def test_a_reply_is_in_its_thread_and_goes_to_nobody_by_a_planted_header(tmp_path: Path) -> None:
    run = finished(tmp_path / "run")
    raw = mail(
        "[PATCH v2 1/2] ufs: one",
        "v2-1@example.org",
        reply_to="v2@example.org",
        author='"x\\" Bcc: spam" <dev@example.org>',
        more="Cc: " + ", ".join(f"<p{n}@example.org>" for n in range(5)) + ", <bad@@x>\n",
    )
    made = reply(config(tmp_path, list_address="list@example.org"), run, mails.read(raw), 0.0)
    assert made is not None
    read = email.message_from_bytes(made, policy=email.policy.default)
    assert read["To"].addresses[0].addr_spec == "dev@example.org"
    copied = {address.addr_spec for address in read["Cc"].addresses}
    assert {"list@example.org", "p0@example.org", "linux-scsi@example.org"} <= copied
    assert "Bcc" not in read
    assert read["Subject"] == "Re: [PATCH v2 1/2] ufs: one"
    assert read["In-Reply-To"] == "<v2-1@example.org>"
    assert read["References"].split() == ["<v2@example.org>", "<v2-1@example.org>"]
    assert max(map(len, read.get_content().splitlines())) <= 75
    crowd = mails.read(mail("[PATCH] ufs: x", "c", more="Cc: " + ", ".join(["a@b.c"] * 99) + "\n"))
    few = reply(config(tmp_path, list_address="list@example.org"), run, crowd, 0.0)
    assert few is not None
    assert b"a@b.c" not in few


def test_an_archive_that_was_written_anew_gives_no_series_twice(tmp_path: Path) -> None:
    raw = mail("[PATCH] ufs: a", "a")
    passed(tmp_path, raw)
    subprocess.run(["rm", "-r", str(tmp_path / "inbox")], check=True)
    series, gates = passed(tmp_path, mail("[PATCH] ufs: b", "b"), raw)
    assert [one.subject for one in series] == ["ufs: a", "ufs: b"]
    assert len(gates.given) == 1


def test_a_mailbox_of_lei_is_an_archive(tmp_path: Path) -> None:
    box = tmp_path / "box"
    box.write_bytes(b"From mboxrd@z Thu Jan  1 00:00:00 1970\n" + mail("[PATCH] ufs: a", "a"))
    asked = config(tmp_path, archives=[str(box)])
    assert [one.state for one in watch.run(asked, QUIET, Gates())] == ["gated"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tree = 'debian'\n", "archives"),
        ("archives = ['no']\ntree = 'debian'\n", "archives: no: no such"),
        ("archives = ['.']\ntree = 'no'\n", "tree: no: no such"),
        ("archives = ['.']\ntree = 'debian'\nlist_address = 'a\\nBcc: x'\n", "list_address"),
    ],
)
def test_a_wrong_config_is_one_line_with_its_field(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "watch.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words):
        load_config(path)


def test_the_base_of_a_series_is_in_its_row(tmp_path: Path) -> None:
    class Based(Gates):
        def __call__(self, asked: Config, mbox: Path, run: Path) -> Gated:
            done = super().__call__(asked, mbox, run)
            path = run / "sides/base/source.json"
            record = results.read(path, SourceRecord)
            results.write(path, record.model_copy(update={"base_why": "v6.12, by blobs"}))
            return done

    epoch(tmp_path / "inbox", [mail("[PATCH] ufs: a", "a")])
    series = watch.run(config(tmp_path), QUIET, Based(leaves=True))
    assert series[0].base == "v6.12, by blobs"


class Unapplied(Gates):
    """A run whose patch does not apply to a base that was a guess."""

    def __call__(self, asked: Config, mbox: Path, run: Path) -> Gated:
        super().__call__(asked, mbox, run)
        done = finished(run)
        path = run / "sides/base/source.json"
        record = results.read(path, SourceRecord)
        changes = {"base_by": "guess", "base_why": "HEAD has 0 of 1"}
        results.write(path, record.model_copy(update=changes))
        verdict = results.read(done.verdict, VerdictRecord)
        failure = FailureRecord(outcome=Outcome.BROKEN, step="apply", message="It fails.")
        changed = agreeing(verdict, Outcome.BROKEN).model_copy(update={"failure": failure})
        results.write(done.verdict, changed)
        return Gated(5, {"outcome": "broken", "sentence": "does not apply"})


def test_a_guess_of_the_base_that_was_wrong_is_no_verdict_and_no_reply(tmp_path: Path) -> None:
    epoch(tmp_path / "inbox", [mail("[PATCH] ufs: a", "a")])
    series = watch.run(config(tmp_path), QUIET, Unapplied())
    assert (series[0].outcome, series[0].why) == ("no base", "does not apply")
    assert not (tmp_path / "watch/series" / series[0].key / "reply.eml").exists()


@pytest.mark.parametrize(
    ("step", "is_noted"), [("boot", True), ("workload", True), ("build", False)]
)
def test_a_reply_says_that_a_broken_boot_was_a_virtual_boards(
    tmp_path: Path, step: Literal["boot", "workload", "build"], is_noted: bool
) -> None:
    """linux-scsi, October 2024: a series was broken for what QEMU's UFS does not answer."""
    run = finished(tmp_path / "run")
    for side in ("base", "candidate"):
        (run.side(side) / "result.json").unlink(missing_ok=True)
    verdict = results.read(run.verdict, VerdictRecord)
    failure = FailureRecord(outcome=Outcome.BROKEN, step=step, message="x", log_tail="no ufs disk")
    changed = agreeing(verdict, Outcome.BROKEN).model_copy(update={"failure": failure, "cells": []})
    results.write(run.verdict, changed)
    made = reply(config(tmp_path), run, mails.read(mail("[PATCH] ufs: a", "a@b.org")), 0.0)
    assert made is not None
    text = email.message_from_bytes(made, policy=email.policy.default).get_content()
    assert "no ufs disk" in text
    assert ("is virtual (QEMU)" in text) is is_noted


class Killed(Gates):
    """The first call ends in the middle of the second gate."""

    def __call__(self, asked: Config, mbox: Path, run: Path) -> Gated:
        if len(self.given) == 1:
            self.given.append(b"")
            raise KeyboardInterrupt
        return super().__call__(asked, mbox, run)


def test_a_call_that_was_ended_resumes_with_the_series_that_it_had(tmp_path: Path) -> None:
    epoch(tmp_path / "inbox", [mail(f"[PATCH] ufs: {n}", n) for n in "abc"])
    gates = Killed()
    with pytest.raises(KeyboardInterrupt):
        watch.run(config(tmp_path), QUIET, gates)
    found = watch.run(config(tmp_path), QUIET, gates)
    assert [one.state for one in found] == ["gated"] * 3
    subjects = [mails.mails(raw)[0].subject for raw in gates.given if raw]
    assert subjects == ["ufs: a", "ufs: b", "ufs: c"]


def subjects(gates: Gates) -> list[str]:
    return [mails.mails(raw)[0].subject.removeprefix("ufs: ") for raw in gates.given]


def test_a_busy_archive_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    for name, count in {"busy": 4, "calm": 2, "rare": 1}.items():
        own = [f"{name}{n}" for n in range(count)]
        epoch(tmp_path / name, [mail(f"[PATCH] ufs: {one}", one) for one in own])
    archives, gates = [str(tmp_path / name) for name in ("busy", "calm", "rare")], Gates()
    watch.run(config(tmp_path, archives=archives, series=5), QUIET, gates)
    assert subjects(gates) == ["busy0", "calm0", "rare0", "busy1", "calm1"]
    more = [mail(f"[PATCH] ufs: {one}", one) for one in ("rare1", "rare2")]
    epoch(tmp_path / "rare", more)
    for _ in range(4):  # fewer in a call than there are archives
        watch.run(config(tmp_path, archives=archives, series=1), QUIET, gates)
    assert subjects(gates)[5:] == ["rare1", "busy2", "rare2", "busy3"]


def test_a_series_that_is_not_for_us_takes_no_turn_from_its_archive(tmp_path: Path) -> None:
    epoch(tmp_path / "one", [mail("[PATCH] hid: x", "x", HID), mail("[PATCH] ufs: a", "a")])
    epoch(tmp_path / "two", [mail("[PATCH] ufs: b", "b"), mail("[PATCH] ufs: c", "c")])
    archives, gates = [str(tmp_path / name) for name in ("one", "two")], Gates()
    asked = config(tmp_path, archives=archives, series=1, paths=["drivers/ufs/"])
    for _ in range(3):
        watch.run(asked, QUIET, gates)
    assert subjects(gates) == ["b", "a", "c"]


def test_one_call_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "watch").mkdir()
    epoch(tmp_path / "inbox", [])
    with (
        alone(tmp_path / "watch/.lock", UsageError("x")),
        pytest.raises(UsageError, match="another iotoll"),
    ):
        watch.run(config(tmp_path), QUIET, Gates())
