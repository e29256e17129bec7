"""Write synthetic traces and the truth of their I/Os.

    python -m tests.trace.synthetic FOLDER [--big-endian] [--long 4] [--page-kb 64]

For every kernel, driver and scenario: KERNEL-DRIVER-SCENARIO.dat, and a .json with pid, op, start,
end and sections of every I/O (nanoseconds).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tests.trace.synthetic.container import Layout
from tests.trace.synthetic.drivers import DRIVERS
from tests.trace.synthetic.formats import KERNELS
from tests.trace.synthetic.machine import Machine
from tests.trace.synthetic.scenarios import SCENARIOS, machine, possible


def truth(made: Machine) -> str:
    """The I/Os of a machine as JSON."""
    keys = ("pid", "op", "start", "end", "sections")
    ios = [{key: getattr(io, key) for key in keys} for io in made.ios]
    return json.dumps({"kernel": made.kernel, "layout": made.layout.name, "ios": ios}, indent=1)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--big-endian", action="store_true")
    parser.add_argument("--long", type=int, choices=(4, 8), default=8)
    parser.add_argument("--page-kb", type=int, choices=(4, 16, 64), default=4)
    args = parser.parse_args()
    layout = Layout(args.big_endian, args.long, args.page_kb << 10)
    args.folder.mkdir(parents=True, exist_ok=True)
    for kernel in KERNELS:
        for driver in DRIVERS:
            for scenario in SCENARIOS:
                if possible(driver, scenario, kernel):
                    made = machine(layout, kernel, driver, scenario)
                    path = args.folder / f"{kernel}-{driver}-{scenario}"
                    Path(f"{path}.dat").write_bytes(made.file())
                    Path(f"{path}.json").write_text(truth(made) + "\n")


if __name__ == "__main__":
    main()
