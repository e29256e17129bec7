"""A study on the exact board: two fresh runs of it leave the same pages, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.vm.conftest import needs_board, patience, succeed

pytestmark = [pytest.mark.vm, patience]
BOARD = "virt-arm64"
STUDY = """
title = "Two cells"
question = "Is a direct read cheaper than a buffered one, on two devices?"
[sources.own]
title = "this test"
[matrix]
extends = "default"
devices = ["ufs"]
families = []
[variants.base]
why = "the board's own device"
cells = ["ufs-4k-randread-t1-direct", "ufs-4k-randread-t1-sync"]
[variants.slow]
why = "a device of 80 us"
cells = ["ufs-4k-randread-t1-direct"]
[variants.slow.devices.ufs.model]
read_ns = 80000
read_ns_per_kib = 0
[[tables]]
name = "sw"
title = "Software"
form = "bars"
drawn = ["sw"]
columns = [
    { key = "sw", title = "SW", unit = "us", formula = "c.sw", digits = 2 },
    { key = "hw", title = "HW off the model", unit = "us", formula = "c.hw - c.model", digits = 2 },
]
rows = [
    { label = "direct", cells = { c = "ufs-4k-randread-t1-direct" } },
    { label = "slow", cells = { c = "ufs-4k-randread-t1-direct@slow" } },
]
[[claims]]
text = "The device's latency is the model's, and software does not depend on it"
source = "own"
kind = "shape"
formula = "b.hw - a.hw > 63 and b.hw - a.hw < 64 and abs(a.sw / b.sw - 1) < 0.03"
cells = { a = "ufs-4k-randread-t1-direct@base", b = "ufs-4k-randread-t1-direct@slow" }
"""


def test_two_runs_leave_the_same_bytes(tmp_path: Path) -> None:
    needs_board(BOARD)
    study = tmp_path / "two.toml"
    study.write_text(STUDY)
    for name in ("one", "other"):
        succeed("study", study, "--fresh", "--out", tmp_path / name)
    pages = sorted(p.name for p in (tmp_path / "one").iterdir() if p.is_file())
    assert pages == ["index.html", "study.json", "two-sw.svg", "two.md"]
    for page in pages:
        assert (tmp_path / "one" / page).read_bytes() == (tmp_path / "other" / page).read_bytes()
    found = json.loads((tmp_path / "one/study.json").read_text())
    assert [claim["verdict"] for claim in found["claims"]] == ["shape holds"]
