"""make bench-lab: many jobs over eight boards of a real LAVA, by one submitter that is killed once.

The boards are QEMU's, as in `make lab`, and each job is a whole one (kernel, ramdisk, workload,
record over the serial line) with the smallest workload that there is: what is tried here is
submission, journal and collection, not the boards. In the middle the submitter is killed (SIGKILL)
and started again. At the end every boot must have exactly one record, and LAVA exactly the jobs
that the journal names.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from iotoll_lab.local.lifecycle import LocalLab

from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.labs.lava.config import load_lab
from iotoll.labs.lava.http import Http
from iotoll.labs.lava.journal import Journal, read_journal
from iotoll.labs.lava.server import LavaServer
from iotoll.labs.local import LabState
from iotoll.records import results
from iotoll.records.models import BootRecord

ROOT = Path(__file__).resolve().parents[2]
PATCH = ROOT / "examples/patches/neutral.patch"
BOARD = "virt-arm64"
CELL = "nvme-4k-randread-t1-direct"
SMALLEST = {
    'devices = ["ufs", "nvme", "emmc"]': 'devices = ["nvme"]',
    "threads = [1, 8]": "threads = [1]",
    "file_mb = 32 ": "file_mb = 1 ",
    "ios_4k = 256 ": "ios_4k = 16 ",
}
"""What the smallest workload changes of the default matrix."""
SAMPLE_SECONDS = 1.0


@dataclass(frozen=True)
class Sample:
    """The submitter at one moment: seconds since the start, jobs that ended, resident kB."""

    at: float
    ended: int
    rss: int


def changed(path: Path, changes: dict[str, str], target: Path) -> Path:
    """Write a file's text with changes to ``target``; each must be there once."""
    text = path.read_text()
    for old, new in changes.items():
        if text.count(old) != 1:
            sys.exit(f"{path} no longer has the line that the benchmark changes: {old}")
        text = text.replace(old, new)
    target.write_text(text)
    return target


def journal_of(run: Path) -> Journal | None:
    """The run's journal, once there is one."""
    path = run / "lava/journal.jsonl"
    return read_journal(path) if path.is_file() and path.read_bytes().endswith(b"\n") else None


def ended(run: Path) -> int:
    """How many jobs have ended and were collected."""
    journal = journal_of(run)
    return sum(a.outcome is not None for a in journal.attempts) if journal else 0


def resident(pid: int) -> int:
    """Resident memory of a process in kB; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)


def watch(process: subprocess.Popen[bytes], run: Path, begun: float) -> Iterator[Sample]:
    """Samples of a submitter until it ends."""
    while process.poll() is None:
        rss = resident(process.pid)
        if rss:
            yield Sample(time.monotonic() - begun, ended(run), rss)
        time.sleep(SAMPLE_SECONDS)


def submit(command: list[str], state: LabState, run: Path, jobs: int) -> list[list[Sample]]:
    """Run the submitter to its end, killed once when half of the jobs have ended."""
    own = {"IOTOLL_LAVA_TOKEN_FILE": state.token_file, "PYTHONPATH": str(ROOT / "src")}
    environment = {**os.environ, **own}
    begun = time.monotonic()
    lives: list[list[Sample]] = []
    shown = 0
    for kill_at in (jobs // 2, None):
        lives.append([])
        process = subprocess.Popen(command, env=environment)
        for sample in watch(process, run, begun):
            lives[-1].append(sample)
            if sample.ended >= shown + 10:
                shown = sample.ended
                load = os.getloadavg()[0]
                print(f"{sample.at:6.0f} s  {shown:3} jobs  {sample.rss >> 10} MB  load {load:.1f}")
            if kill_at is not None and sample.ended >= kill_at:
                process.send_signal(signal.SIGKILL)
                print(f"{sample.at:6.0f} s  the submitter was killed, and is started again")
        status = process.wait()
        if status != (0 if kill_at is None else -signal.SIGKILL):
            sys.exit(f"the submitter ended with status {status}")
    return lives


def check(run: Path, lava: LavaServer, jobs: int) -> list[BootRecord]:
    """Nothing lost and nothing doubled, by LAVA's own list; returns the boots' records."""
    journal = journal_of(run)
    if journal is None:
        sys.exit("there is no journal")
    done = Counter(a.boot for a in journal.attempts if a.outcome == "done")
    if len(done) != jobs or set(done.values()) != {1}:
        sys.exit(f"{len(done)} of {jobs} boots are done, {max(done.values(), default=0)} at most")
    for attempt in journal.attempts:
        if lava.find(attempt.key) != [attempt.number]:
            sys.exit(f"job {attempt.number}: LAVA has {lava.find(attempt.key)} for {attempt.key}")
    if left := lava.unfinished(journal.run):
        sys.exit(f"{len(left)} jobs go on")
    others = [a for a in journal.attempts if a.outcome != "done"]
    print(f"{len(journal.attempts)} jobs for {jobs} boots, {len(others)} of them tried again")
    for one in others:
        print(f"    job {one.number}: {one.why}")
    paths = sorted(run.glob("sides/*/boots/*/boot.json"))
    if len(paths) != jobs:
        sys.exit(f"{len(paths)} records of {jobs} boots")
    return [results.read(path, BootRecord) for path in paths]


def report(lives: list[list[Sample]], records: list[BootRecord]) -> None:
    """Print memory, time and the split of the jobs' time."""
    for number, life in enumerate(lives, 1):
        # The first jobs bring in what Python loads when it is first used.
        steady = [s for s in life if s.ended >= life[0].ended + 5] or life
        print(
            f"submitter {number}: {steady[0].rss} kB after {steady[0].ended} jobs,"
            f" {steady[-1].rss} kB after {steady[-1].ended},"
            f" {max(s.rss for s in life)} kB at most"
        )
    seconds = lives[-1][-1].at
    print(f"{len(records)} boots in {seconds:.0f} s: {3600 * len(records) / seconds:.0f} an hour")
    used = Counter(r.lava.device for r in records if r.lava)
    print(f"boots of each board: {', '.join(f'{n} {c}' for n, c in sorted(used.items()))}")
    phases = [r.lava.phases for r in records if r.lava]
    for name in phases[0]:
        values = sorted(p.get(name, 0.0) for p in phases)
        print(f"    {name:10} median {median(values):6.1f} s, longest {values[-1]:6.1f} s")


def main() -> None:
    """Bring a lab up, run the jobs, check and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=100, help="an even number")
    parser.add_argument("--boards", type=int, default=8)
    words = parser.parse_args()
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    lab = load_lab("local")
    boards = {BOARD: lab.boards[BOARD].model_copy(update={"count": words.boards})}
    with tempfile.TemporaryDirectory(prefix="iotoll-bench-") as name:
        folder = Path(name)
        local = LocalLab(folder / "lab")
        try:
            state = local.up(lab.model_copy(update={"boards": boards}), Progress())
            run_all(folder, state, words.jobs)
        finally:
            local.down()


def run_all(folder: Path, state: LabState, jobs: int) -> None:
    """The benchmark on a running lab."""
    addresses = {
        'server = "" ': f'server = "{state.url}" ',
        'files = ""': f'files = "{state.files_url}"',
    }
    lab = changed(data_dir("lava-jobs") / "labs/local.toml", addresses, folder / "lab.toml")
    matrix = changed(
        data_dir("lava-jobs") / "matrices/default.toml", SMALLEST, folder / "smallest.toml"
    )
    run = folder / "run"
    command = [sys.executable, "-m", "iotoll", "gate", "--candidate", str(PATCH), "--cells", CELL]
    command += ["--board", BOARD, "--matrix", str(matrix), "--boots", str(jobs // 2)]
    command += ["--runner", "lava", "--lab", str(lab), "--out", str(run), "--quiet"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    subprocess.run([*command, "--until", "build"], env=environment, check=True)
    lives = submit([*command, "--until", "boot"], state, run, jobs)
    lava = LavaServer(Http(state.url, Path(state.token_file).read_text()))
    report(lives, check(run, lava, jobs))


if __name__ == "__main__":
    main()
