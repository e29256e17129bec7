"""make bench: how fast the analyser is, beside its peers on the same trace, in one run.

The rows are run in turn, again and again, so that a busy moment of the machine meets all of them;
each shows its best. See docs/speed.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import split
import table
from inputs import Inputs, prepare
from measure import ROOT, BenchError, Row, build_programs
from rows import all_rows

#: A row that takes longer than this (seconds of wall time) is run only twice.
SLOW = 4.0


def run(rows: list[Row], rounds: int) -> None:
    """Run all rows in turn, ``rounds`` times."""
    for number in range(rounds):
        for row in rows:
            if number >= 2 and row.best.wall > SLOW:
                continue
            row.run()
            print(f"\r\033[K{number + 1}/{rounds} {row.title}", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr, flush=True)


def heading(inputs: Inputs, rounds: int) -> str:
    """Say what was run where."""
    commit = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    machine = f"{platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}"
    where = f"{machine}, load {os.getloadavg()[0]:.1f}"
    when = f"{datetime.now(UTC):%Y-%m-%d}, commit {commit or 'unknown'}"
    return f"{inputs.source}: {inputs.events:,} events; best of {rounds}; {where}; {when}"


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Time the analyser beside its peers.")
    parser.add_argument("--trace", type=Path, help="trace.dat to use; else one made from a fixture")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each row (default: 5)")
    args = parser.parse_args()
    try:
        build_programs()
        inputs = prepare(args.trace)
        rows = all_rows(inputs)
        run(rows, max(args.rounds, 1))
        print(heading(inputs, args.rounds), table.text(rows), table.memory(rows), sep="\n\n")
        print("\nFor docs/speed.md:", table.markdown(rows), sep="\n\n")
        record = next(row for row in rows if row.key == "long").commands[0]
        print("\n" + split.report(record, inputs.folder))
    except (BenchError, OSError) as error:
        sys.exit(f"make bench: {error}")


if __name__ == "__main__":
    main()
