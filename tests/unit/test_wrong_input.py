"""Wrong input of every kind to every command: one line, a documented exit code, no traceback.

Point 9 of issue 21. What the user wrote or named ends with exit code 2. With 4 (`ResultError`) ends
what an earlier job or step of iotoll's should have left and has not.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.nightly.history.files import write_local
from iotoll.records import results
from tests.unit.runs import EXAMPLES, manifest
from tests.unit.test_cli import Done, Iotoll, iotoll, mistake, place

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
    (place / "deep.toml").write_text("name = " + "[" * 100_000)
    (place / "negative.toml").write_text("memory_mb = -1\n")
    for name in ("plan", "summary", "run"):
        data = json.loads((EXAMPLES / f"{name}.json").read_text())
        (place / f"new-{name}").mkdir()
        text = json.dumps({**data, "schema_version": f"iotoll.{name}/99"})
        (place / f"new-{name}/{name}.json").write_text(text)
    (place / "loop").symlink_to("loop")
    os.mkfifo(place / "pipe")
    (place / "no-run").mkdir()
    (place / "no-run/run.json").write_bytes(bytes(range(256)))
    results.write(place / "begun/run.json", manifest())
    results.write(place / "cut/run.json", manifest())
    (place / "cut/verdict.json").write_text('{"schema_version": "iotoll.verd')
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
    f"{GATE} --board deep.toml",
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
    f"{GATE} --out no-run",
    f"{GATE} --base {'x' * 70_000}",
    "gate --base-image empty --candidate-image binary",
    "study ufs-nvme --out empty/x",
    "report no-run",
    "report new-run",
    "report cut --json",
    "report loop",
    f"report {'x' * 300}",
    f"report {'a/' * 3_000}",
    "compare no-run begun",
    "compare begun pipe",
    "analyze pipe",
    "nightly pipe",
    "nightly /dev/zero",
    "report empty",
    "report begun --commit --cover",
    "report begun --cover --json",
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
    f"{ANALYZE} --parquet=",
    f"{ANALYZE} --parquet /dev/null",
    f"{ANALYZE} --perfetto pipe",
    f"{ANALYZE} --pid 99999999999999999999",
    "publish folder --out x",
    "publish begun --out x --only allure --history binary",
    "publish begun --out x --only allure --history list.json",
    "publish begun --out x --only allure --history absent/x",
    "publish begun --out x --only allure --history=",
    "history query absent",
    "trend absent",
    "plan binary",
    "plan empty",
    "plan --requests 10 --boot-seconds nan",
    "plan --requests 10 --wait nan",
    "plan --requests 10 --peak inf",
    "plan --requests 10 --seed -1",
    "simulate --growth nan",
    "simulate --noise inf",
    f"simulate --cells {'9' * 30}",
    "simulate --out deep.json",
    "experiment detector --seed -1",
    "experiment realise --data folder",
    "experiment realise --data absent",
    "experiment search --change nan",
    "experiment time --pool absent",
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
    "study deep.toml",
    "nightly empty",
    "nightly deep.toml",
    "ci select --clone folder",
    "ci select --clone absent",
    "ci build virt-arm64 sideways",
    "ci gate virt-arm64",
    "ci judge --root empty",
    "completion nushell",
]
OTHERS = [
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


@pytest.mark.parametrize("words", ["report", "compare begun", "gate --candidate", "lava check"])
@pytest.mark.parametrize("name", ["a\nb", "a\r\nb", "\x1b[31mred", "\u202ecba"])
def test_what_a_message_repeats_of_a_name_is_one_plain_line(
    things: Path, iotoll: Iotoll, words: str, name: str
) -> None:
    line = mistake(iotoll(*words.split(), name))
    assert not re.search("[\x00-\x1f\u202e]", line)


@pytest.mark.parametrize("words", ["list", "completion", "step"])
def test_what_is_missing_is_one_line(iotoll: Iotoll, words: str) -> None:
    assert "Missing argument" in mistake(iotoll(words))


def test_a_device_or_a_pipe_is_never_replaced(things: Path) -> None:
    """Seen in a trial as root: a Parquet file stood where /dev/zero had been."""
    for write in (results.write_text, lambda path, text: write_local(path, text.encode())):
        with pytest.raises(UsageError, match="pipe: is not a plain file"):
            write(things / "pipe", "text")
    assert (things / "pipe").is_fifo()
    assert not list(things.glob(".pipe*"))


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
        ("publish begun --out small/x", "ro", 2),
        (f"{ANALYZE} --parquet small/x", "ro", 2),
        ("study ufs-nvme --until source --out small/x", "ro", 2),
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


@pytest.mark.parametrize(
    "words",
    [
        "report shut",
        "compare shut begun",
        "analyze shut/x",
        f"{GATE} --out shut/x",
        "nightly shut/x",
    ],
)
def test_what_may_not_be_read(things: Path, words: str) -> None:
    """As somebody who is not root, or as root without the right to read everything."""
    (things / "shut").mkdir(mode=0)
    less = "-dac_override,-dac_read_search"
    command = (
        ["setpriv", f"--bounding-set={less}", f"--inh-caps={less}"] if os.getuid() == 0 else []
    )
    done = subprocess.run(
        [*command, sys.executable, "-m", "iotoll", *words.split()],
        cwd=things,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    (things / "shut").chmod(0o700)
    line = mistake(Done(done.returncode, done.stdout, done.stderr))
    assert "shut" in line and "a bug" not in line
