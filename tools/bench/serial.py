"""How often all records of a boot arrive over a bad serial line, by how often they are sent.

There is no way back from a LAVA job to its board: nobody can ask for a chunk again. So a board may
be told (``send_times`` in the lab file) to send every record several times. The records are those
that iotoll-dut makes of a real trace, the line is the simulated board's, which flips a bit of each
byte with a given chance, and what is counted are boots of which every record is whole.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from iotoll_lab.simboard.uart import Uart

from iotoll.core.paths import dut_command
from iotoll.measure import serial

ROOT = Path(__file__).resolve().parents[2]
TRACE = ROOT / "tests/unit/data/base/ufs/trace.dat"
RATES = (1e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
TIMES = (1, 2, 3, 5)
BOOTS = 100


def records(dut: Path, folder: Path) -> Path:
    """The records of the trace's cells, as a file."""
    words = ["record", str(TRACE), "--cells", "--digest", "--comm", "fio", "--device", "8:0"]
    done = subprocess.run([dut, *words, "--unit", "instructions"], capture_output=True, check=True)
    path = folder / "records"
    path.write_bytes(done.stdout)
    return path


def whole(log: bytes, cells: int) -> bool:
    """Whether every record of a log is there and whole."""
    found = serial.receive(log)
    return len(found) == cells and all(one.text is not None for one in found)


def main() -> None:
    """Print a table: a line per garble rate, a column per number of times."""
    dut = dut_command("x86_64")
    with tempfile.TemporaryDirectory() as name:
        path = records(dut, Path(name))
        cells = len(path.read_bytes().splitlines())
        sent = {
            times: subprocess.run(
                [dut, "send", "--in", path, "--repeat", str(times)],
                capture_output=True,
                check=True,
            ).stdout
            for times in TIMES
        }
        one = sent[1]
        lines = one.count(b"\n")
        print(f"{cells} records, {len(one)} bytes in {lines} lines; {BOOTS} boots each")
        print("wrong bytes  " + "".join(f"sent {times:>2} x  " for times in TIMES))
        for rate in RATES:
            uart = Uart(Path(name) / "uart.log", lambda _: None)
            uart.garble = rate
            shares = [
                sum(whole(uart.disturbed(sent[times]), cells) for _ in range(BOOTS))
                for times in TIMES
            ]
            print(f"{rate:11g}  " + "".join(f"{100 * n // BOOTS:7} %  " for n in shares))


if __name__ == "__main__":
    main()
