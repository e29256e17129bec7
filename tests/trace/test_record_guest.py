"""`iotoll record --run` for real: in a guest with a kernel of Debian's, on its NVMe disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from iotoll.core.paths import cache_dir
from iotoll.records.models import Clock
from iotoll.reports.trace.filters import Filters
from iotoll.reports.trace.reader import load
from tests.trace.record import guest
from tests.trace.record.__main__ import load_recipe
from tests.trace.record.kernel import unpack

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.long,  # boots a guest
]
KERNELS = sorted((cache_dir() / "record").glob("*/boot/vmlinuz-*-amd64"))


@pytest.fixture(scope="module", params=["record", "record-flat"])
def left(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the guest left: of each command its output, its exit code and its trace.

    The disk is a multipath head, or has its requests itself.
    """
    if not KERNELS:
        pytest.skip(
            "needs a kernel package of Debian's, unpacked once by python -m tests.trace.record "
            "--deb linux-image-VERSION-amd64.deb --arch x86_64 --out DIR record"
        )
    kernel = unpack([], KERNELS[-1].parents[1])
    recipe, events = load_recipe(request.param)
    out = tmp_path_factory.mktemp(request.param)
    guest.run(kernel, "x86_64", recipe, events, out)
    return out


@pytest.mark.parametrize("how", ["timed", "ctrlc"])
def test_g4_1_record_runs_and_the_analysis_follows(left: Path, how: str) -> None:
    said, shown = (left / f"{how}.err").read_text(), (left / f"{how}.out").read_text()
    assert (left / f"{how}.code").read_text() == "0\n", said + shown
    assert "is complete" in said
    text = " ".join(shown.replace("\xa0", " ").split())
    assert "3 hardware" in text and "Requests and bios, ns (clock: time)" in text
    assert "record with:" not in text, "nothing that could be told is missing"
    assert all(len(line) <= 80 for line in shown.splitlines() if not line.startswith("!"))
    (cell,) = load(left / f"{how}.dat", Clock.TIME, Filters(comm="fio"))
    assert cell.record.invalid is None and not cell.record.warnings
    # Each load of 16 reads that began and ended in time has all of its I/Os.
    assert cell.record.ios["measured"] >= 16
    assert cell.record.blocks is not None
    assert sum(d["requests"] for d in cell.record.blocks["devices"]) >= 16


def test_g4_1_what_is_printed_is_what_was_run(left: Path) -> None:
    shown = (left / "printed.out").read_text()
    assert (left / "printed.code").read_text() == "0\n"
    assert shown.startswith("# Linux 6.") or shown.startswith("trace-cmd record ")
    assert re.search(r"-e nvme:nvme_sq ", shown)
    assert ("-f 'dev == " in shown) == ("flat" in left.name)
    assert "sleep 3\niotoll analyze /tmp/printed.dat" in shown
