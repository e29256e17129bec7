"""`iotoll check` and `iotoll watch` with real kernels and boots: one of each, by few cells."""

from __future__ import annotations

import email
import email.policy
import json
import subprocess
from pathlib import Path

import pytest

from tests.unit.lists.archives import epoch
from tests.vm.conftest import (
    EXAMPLES,
    LIMIT,
    UNCALIBRATED,
    command,
    environment,
    needs_board,
    unexplained,
)

pytestmark = pytest.mark.vm
UFS = "ufs-4k-randread-t1-direct"
SLOW = EXAMPLES / "ufs-submission-cost.patch"


@pytest.fixture(scope="module", autouse=True)
def needs() -> None:
    needs_board("virt-arm64")


def test_check_says_in_lines_of_b4_that_a_patch_costs(tmp_path: Path) -> None:
    words = ["--tree", "debian", "--cells", UFS, "--matrix", str(UNCALIBRATED)]
    words += ["--policy", str(unexplained(tmp_path))]
    done = subprocess.run(
        command("check", "-", *words),
        input=SLOW.read_text(),
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, ""), done.stderr
    assert any("ERROR:" in line and "submission" in line for line in done.stdout.splitlines())


def test_watch_gates_a_series_of_an_archive_and_writes_its_reply(tmp_path: Path) -> None:
    raw = SLOW.read_bytes().partition(b"\n")[2]
    epoch(tmp_path / "inbox", [b"Message-ID: <one@example.org>\n" + raw])
    text = (
        f'archives = ["inbox"]\ntree = "debian"\n[gate]\ncells = ["{UFS}"]\n'
        f'matrix = "{UNCALIBRATED}"\npolicy = "{unexplained(tmp_path)}"\n'
    )
    (tmp_path / "watch.toml").write_text(text)
    found = subprocess.run(
        command("watch", "watch.toml", "--json"),
        env=environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    (series,) = json.loads(found.stdout)
    assert (series["state"], series["outcome"]) == ("gated", "regression"), series
    assert "the archive's only version" in series["base"]
    place = tmp_path / "watch/series" / series["key"]
    reply = email.message_from_bytes(
        (place / "reply.eml").read_bytes(), policy=email.policy.default
    )
    assert reply["In-Reply-To"] == "<one@example.org>"
    assert "submission" in reply.get_content()
    assert json.loads((place / "kcidb.json").read_text())["tests"]
    assert series["key"] in (tmp_path / "watch/index.html").read_text()
