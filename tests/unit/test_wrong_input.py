"""Wrong input of every kind to every command: one line, a documented exit code, no traceback.

Point 9 of issue 21. A file that a command is told to read as one of iotoll's own and that is none
ends with exit code 4 (`ResultError`), what the user wrote with 2.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iotoll.records import results
from tests.unit.runs import EXAMPLES, manifest
from tests.unit.test_cli import Iotoll, iotoll, mistake, place

__all__ = ["iotoll", "place"]
ROOT = Path(__file__).parents[2]
TRACE = ROOT / "tests/trace/data/ufs-read.dat"


@pytest.fixture
def things(place: Path) -> Path:
    """Files and folders that are not what they are taken for."""
    (place / "empty").touch()
    (place / "folder").mkdir()
    (place / "binary").write_bytes(bytes(range(256)) * 8)
    (place / "half.json").write_text("{")
    (place / "list.json").write_text("[]")
    (place / "deep.json").write_text("[" * 300_000)
    (place / "head.dat").write_bytes(TRACE.read_bytes()[:100])
    (place / "good.patch").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    (place / "broken.toml").write_text("name = \n")
    (place / "negative.toml").write_text("memory_mb = -1\n")
    for name in ("plan", "summary", "run"):
        data = json.loads((EXAMPLES / f"{name}.json").read_text())
        (place / f"new-{name}").mkdir()
        text = json.dumps({**data, "schema_version": f"iotoll.{name}/99"})
        (place / f"new-{name}/{name}.json").write_text(text)
    (place / "no-run").mkdir()
    (place / "no-run/run.json").write_bytes(bytes(range(256)))
    results.write(place / "begun/run.json", manifest())
    return place


GATE = "gate --candidate good.patch"
ANALYZE = f"analyze {TRACE}"
USER = [
    "gate --candidate empty",
    "gate --candidate folder",
    "gate --candidate binary",
    "gate --candidate HEAD",
    f"{GATE} --board broken.toml",
    f"{GATE} --board negative.toml",
    f"{GATE} --board folder",
    f"{GATE} --board binary",
    f"{GATE} --policy broken.toml",
    f"{GATE} --policy absent.toml",
    f"{GATE} --matrix binary",
    f"{GATE} --cells ufs-4k-randread-t-1-direct",
    f"{GATE} --boots -1",
    f"{GATE} --boots many",
    f"{GATE} --out empty/run",
    f"{GATE} --out empty",
    f"{GATE} --tree folder",
    f"{GATE} --runner lava --lab absent",
    "gate --base-image empty --candidate-image binary",
    "report empty",
    "report begun --commit --cover",
    "compare begun",
    "analyze empty",
    "analyze folder",
    "analyze binary",
    "analyze head.dat",
    f"{ANALYZE} --comm nobody",
    f"{ANALYZE} --fio half.json",
    f"{ANALYZE} --fio list.json",
    f"{ANALYZE} --fio folder",
    f"{ANALYZE} --parquet absent/x.parquet",
    f"{ANALYZE} --perfetto folder",
    f"{ANALYZE} --slowest -5",
    "publish folder --out x",
    "history query absent",
    "trend absent",
    "plan binary",
    "plan empty",
    "list nothing",
    "list cells --board absent",
    "explain folder",
    "bisect --tree folder --good a",
    "bisect --tree absent --good a",
    "ledger --tree folder --good a --bad b",
    "reproduce absent",
    "reproduce half.json",
    "reproduce deep.json",
    "noise absent",
    "receive absent.log",
    "receive folder",
    "image absent",
    "image broken.toml",
    "lava check absent",
    "lava render folder",
    "lava forget folder -1",
    "study binary",
    "nightly empty",
    "ci select --clone folder",
    "ci select --clone absent",
    "ci build virt-arm64 sideways",
    "ci gate virt-arm64",
    "ci judge --root empty",
    "completion nushell",
]
OTHERS = [
    "report no-run",
    "report new-run",
    "compare no-run begun",
    "step collect begun",
    "ci judge --root new-plan",
    "ci post --root new-summary",
    "ci collect --root new-plan",
    "ci report --root folder",
]


@pytest.mark.parametrize("words", USER)
def test_what_the_user_wrote_is_one_line_and_exit_code_2(
    things: Path, iotoll: Iotoll, words: str
) -> None:
    assert mistake(iotoll(*words.split()))


@pytest.mark.parametrize("words", OTHERS)
def test_documents_that_are_none_are_one_line_and_exit_code_4(
    things: Path, iotoll: Iotoll, words: str
) -> None:
    line = mistake(iotoll(*words.split()), 4)
    if "new-" in words:
        assert "/99', this iotoll reads 'iotoll." in line


@pytest.mark.parametrize("words", ["analyze", "report", "receive", "gate --candidate"])
def test_names_that_are_not_utf_8(things: Path, iotoll: Iotoll, words: str) -> None:
    name = os.fsdecode(b"\xff\xfe.dat")
    (things / name).write_bytes(TRACE.read_bytes()[:1000])
    line = mistake(iotoll(*words.split(), name))
    assert line == r"iotoll: \xff\xfe.dat: is not UTF-8: rename the file"


def in_small_place(folder: Path, words: str, options: str) -> subprocess.CompletedProcess[str]:
    """Run iotoll where ``small/`` is a file system of 64 KiB, or a read-only one."""
    mount = f"mount -t tmpfs -o {options} tmpfs small && exec {sys.executable} -m iotoll {words}"
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(done.stderr.strip())
    return done


@pytest.mark.parametrize(
    ("words", "options", "code"),
    [
        (f"{ANALYZE} --parquet small/x.parquet", "size=4k", 4),
        (f"{ANALYZE} --perfetto small/x.pftrace", "size=4k", 4),
        (f"{GATE} --out small/run --until source", "ro", 2),
        ("publish begun --out small/x", "ro", 4),
    ],
)
def test_full_disks_and_places_that_may_not_be_written(
    things: Path, words: str, options: str, code: int
) -> None:
    (things / "small").mkdir()
    done = in_small_place(things, words, options)
    lines = [line for line in done.stderr.splitlines() if line.startswith("iotoll: ")]
    assert "Traceback" not in done.stderr and "a bug of iotoll" not in done.stderr
    assert (done.returncode, len(lines)) == (code, 1), done.stderr
