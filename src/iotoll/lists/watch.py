"""``iotoll watch``: the new series of an archive, each gated in a process and a folder of its own.

One series' failure is that series' result: it never stops the others.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iotoll.core.errors import InfrastructureError, IotollError, UsageError
from iotoll.core.lock import alone
from iotoll.core.plain import plain
from iotoll.core.proc import end_group
from iotoll.core.progress import Progress
from iotoll.lists import archive
from iotoll.lists.config import Config
from iotoll.lists.reply import reply
from iotoll.lists.store import Series, Store, as_mailbox, parsed
from iotoll.patch import diff
from iotoll.patch.candidate import read_series
from iotoll.patch.selection import glob_pattern, load_rules, select
from iotoll.records import results
from iotoll.records.models import Outcome, SourceRecord, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.reports.kit.page import page_template
from iotoll.reports.publish import Source, write

TRIES = 3
"""Gates of a series whose outcome is an infrastructure failure, before that is its result."""
UNSENT = ("", "sending")
NO_BASE = "no base"
"""Outcome of a series that does not apply to a base that was a guess: no verdict of it."""
_REASON = 500  # characters
SHOWN = 1000
"""Series of the page, the newest; the number of the others is said."""
_FILES = (("report.html", "report"), ("reply.eml", "reply"), ("kcidb.json", "KCIDB"))


@dataclass(frozen=True)
class Gated:
    """How a gate ended: its exit code, and its verdict as JSON or why there is none."""

    code: int
    verdict: dict[str, Any]
    why: str = ""


Measure = Callable[[Config, Path, Path], Gated]
"""Gates the mailbox of a series in a run directory."""


def run(config: Config, progress: Progress, work: Measure | None = None) -> list[Series]:
    """Read what is new, gate what is ready, send what is to be sent; returns all series."""
    folder = Path(config.folder)
    folder.mkdir(parents=True, exist_ok=True)
    busy = UsageError(f"{folder}: another iotoll watches there: wait for it")
    with alone(folder / ".lock", busy):
        store = Store(folder / "watch.sqlite", config.patches)
        try:
            _pass(config, folder, store, progress, work or gate)
            return store.series()
        finally:
            write_page(config, store.series(), folder)
            store.close()


def _pass(config: Config, folder: Path, store: Store, progress: Progress, work: Measure) -> None:
    read_new(config, store, progress)
    _send(config, folder, store, progress)
    left = config.series
    for series in store.turns():
        if left <= 0:
            progress.say("more series are ready: the next call gates them (series)")
            return
        place = folder / "series" / series.key
        count = 1
        try:
            count = _one(config, store, series, place, work)
        except IotollError as error:
            _failed(store, series, str(error))
        except OSError as error:
            _failed(store, series, f"{error.filename}: {error.strerror}")
        if count:
            left -= 1
            store.take_turn(series.key)
        now = next(s for s in store.series() if s.key == series.key)
        told = now.outcome or now.state
        progress.say(f"{now.subject}: {told}{f': {now.why}' if now.why else ''}")
        write_page(config, store.series(), folder)
        _send(config, folder, store, progress)


def read_new(config: Config, store: Store, progress: Progress) -> None:
    """Read the mails that are new in the archives, a page at a time."""
    for name in config.archives:
        for source in archive.sources(Path(name)):
            with progress.step(f"read {source}") as step:
                position, count = store.position(source), 0
                for found in archive.pages(source, position, config.since, config.until):
                    store.add(name, source, found.position, found.mails)
                    count += len(found.mails)
                    step.update(note=f"{count} mails")


def touches(config: Config, paths: Sequence[str]) -> str:
    """Why a series that changes these paths is not gated; empty where it is."""
    if config.paths:
        patterns = [glob_pattern(text) for text in config.paths]
        chosen = any(pattern.fullmatch(path) for pattern in patterns for path in paths)
        return "" if chosen else "changes none of the paths"
    if select(paths, ["any"], load_rules()).cells:
        return ""
    return "no cell runs what it changes"


def _one(config: Config, store: Store, series: Series, place: Path, work: Measure) -> int:
    """Gate one series; returns how many were gated, which is none where it is not for us."""
    mbox = place / "series.mbox"
    results.write_bytes(mbox, as_mailbox(store.mails(series.key)))
    try:
        patches = read_series(mbox).patches
        paths = sorted({p for one in patches for p in diff.changed_paths(one.text, "series.mbox")})
    except UsageError as error:
        store.change(series.key, state="refused", why=_short(str(error)))
        return 0
    if why := touches(config, paths):
        store.change(series.key, state="skipped", why=why)
        return 0
    started = time.monotonic()
    found = work(config, mbox, place / "run")
    seconds = time.monotonic() - started
    if found.code == UsageError.exit_code:
        store.change(series.key, state="refused", why=_short(found.why), seconds=seconds)
        return 1
    outcome = str(found.verdict.get("outcome") or "")
    why = _short(str(found.verdict.get("sentence") or found.why))
    if not outcome and found.code:
        outcome = Outcome.INFRASTRUCTURE.value
    if outcome == Outcome.INFRASTRUCTURE.value and series.tries + 1 < TRIES:
        store.change(series.key, why=why, tries=series.tries + 1, seconds=seconds)
        return 1
    base, is_known = _publish(config, store, series, place)
    store.change(
        series.key,
        state="gated",
        outcome=outcome or "applied" if is_known else NO_BASE,
        why=why,
        base=base,
        seconds=seconds,
        tries=series.tries + 1,
    )
    return 1


def _failed(store: Store, series: Series, why: str) -> None:
    """What is not the series' own fault is tried again, some times."""
    tries = series.tries + 1
    store.change(series.key, why=_short(why), tries=tries)
    if tries >= TRIES:
        store.change(series.key, outcome=Outcome.INFRASTRUCTURE.value, state="gated")


def _publish(config: Config, store: Store, series: Series, place: Path) -> tuple[str, bool]:
    """Write report, KCIDB submission and reply beside a run.

    Returns how its base was chosen, and whether its verdict is one of the series (`_is_known`).
    """
    if not (place / "run/run.json").is_file():  # its process was ended before it made one
        return "", True
    run = RunDir.open(place / "run")
    source = run.side("base") / "source.json"
    base = results.read(source, SourceRecord) if source.is_file() else None
    if not run.verdict.is_file():
        return _named(base), True
    verdict = results.read(run.verdict, VerdictRecord)
    write(Source(run, origin=config.origin), place, ["report", "kcidb"])
    is_known = base is None or _is_known(verdict, base)
    if base is not None and is_known and verdict.outcome is not Outcome.INFRASTRUCTURE:
        first = parsed(store.mails(series.key)[:1])[0]
        if mail := reply(config, run, first, time.time()):
            results.write_bytes(place / "reply.eml", mail)
    return _named(base), is_known


def _is_known(verdict: VerdictRecord, base: SourceRecord) -> bool:
    """Whether a verdict says something of the series: not that our guess of its base was wrong."""
    failure = verdict.failure
    return not (failure and failure.step == "apply" and base.base_by == "guess")


def _named(base: SourceRecord | None) -> str:
    return _short(base.base_why or base.commit or base.version) if base else ""


def gate(config: Config, mbox: Path, run: Path) -> Gated:
    """Gate a series by ``iotoll gate``, in another process, which ends after its limit."""
    asked = config.gate
    words = [f"--candidate={mbox}", f"--tree={config.tree}", f"--matrix={asked.matrix}"]
    words += [f"--board={asked.board}"] if asked.board else []
    words += [f"--policy={asked.policy}"] if asked.policy else []
    words += [f"--cells={','.join(asked.cells)}"] if asked.cells else []
    words += [f"--until={asked.until}", f"--out={run}", "--json"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "iotoll", "gate", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            process.wait(asked.seconds)
        except subprocess.TimeoutExpired:
            code = InfrastructureError.exit_code
            return Gated(code, {}, f"took more than {asked.seconds} s (gate.seconds)")
        finally:
            end_group(process)
        out.seek(0)
        err.seek(0)
        return _ended(process.returncode, out.read(), err.read())


def _ended(code: int, out: bytes, err: bytes) -> Gated:
    said = err.decode("utf-8", "replace").strip().splitlines()[-1:]
    why = plain("".join(said)).removeprefix("iotoll: ") if code else ""
    if code < 0:
        return Gated(InfrastructureError.exit_code, {}, f"its process was ended by signal {-code}")
    try:
        verdict = json.loads(out) if out.strip() else {}
    except ValueError:
        verdict = {}
    return Gated(code, verdict if isinstance(verdict, dict) else {}, why)


def _send(config: Config, folder: Path, store: Store, progress: Progress) -> None:
    """Hand replies to the user's command, each once at most: a list does not forget."""
    for series in store.series("gated") if config.send else []:
        path = folder / "series" / series.key / "reply.eml"
        if series.sent not in UNSENT or not path.is_file():
            continue
        if series.sent == "sending":
            said = "unknown: the call ended while it was sent; look, and send it yourself"
            store.change(series.key, sent=said)
            progress.say(f"{series.subject}: {said}")
            continue
        store.change(series.key, sent="sending")
        store.change(series.key, sent=_handed_over(config.send, path))


def _handed_over(command: Sequence[str], path: Path) -> str:
    try:
        with path.open("rb") as stream:
            done = subprocess.run(command, stdin=stream, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _short(f"failed: {error}")
    return "sent" if done.returncode == 0 else f"failed: exit code {done.returncode}"


def _short(text: str) -> str:
    return " ".join(plain(text).split())[:_REASON]


def write_page(config: Config, series: Sequence[Series], folder: Path) -> Path:
    """Write ``index.html`` into the folder of a watch; returns its path."""
    shown = [one for one in reversed(series) if one.state != "skipped"]
    text = page_template("iotoll.lists", "series.html.j2").render(
        rows=[_row(one, folder) for one in shown[:SHOWN]],
        omitted=max(0, len(shown) - SHOWN),
        counts=sorted(Counter(one.outcome or one.state for one in series).items()),
        archives=config.archives,
        tree=config.tree,
    )
    path = folder / "index.html"
    results.write_text(path, text + "\n")
    return path


def _row(one: Series, folder: Path) -> dict[str, Any]:
    place = f"series/{one.key}"
    links = [(f"{place}/{n}", word) for n, word in _FILES if (folder / place / n).is_file()]
    word = one.outcome or one.state
    return {"series": one, "word": word, "links": links, "seconds": f"{one.seconds:.0f}"}
