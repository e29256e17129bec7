"""What a run names is read again in the sandbox: files of a user's own, and those they name."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.bisect import sandboxed_commits
from iotoll.ci import jobs
from iotoll.core.digest import file_sha256
from iotoll.core.errors import InfrastructureError, IotollError, UsageError
from iotoll.core.paths import data_dir
from iotoll.core.progress import Progress
from iotoll.kernels import sandbox
from iotoll.records import results
from iotoll.records.models import BuildRecord, VerdictRecord
from iotoll.records.rundir import RunDir
from iotoll.run.sandboxed import named_files, surroundings
from tests.unit.runs import CELLS, make_run

READ = """
import sys
from pathlib import Path
from iotoll.core.progress import Progress
from iotoll.kernels.kconfig import fragment_path
from iotoll.records.rundir import RunDir
from iotoll.gate.flow import Flow
flow = Flow(RunDir.open(Path(sys.argv[1])), Progress(quiet=True))
assert flow.board.memory_mb == 1536, flow.board
assert flow.matrix.threads == [3] and flow.matrix.devices == ["ufs"], flow.matrix
assert flow.policy.min_ios == 7, flow.policy
for name in flow.board.fragments:
    fragment_path(name)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user's own, where a run's files lie; the commands stand in it."""
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "desk"
    (folder / "below").mkdir(parents=True)
    (tmp_path / "cache").mkdir()
    monkeypatch.chdir(folder)
    Path("below/quick.toml").write_text('extends = "default"\ndevices = ["ufs"]\n')
    Path("three.toml").write_text('extends = "below/quick.toml"\nthreads = [3]\n')
    Path("below/more.config").write_text("CONFIG_BLK_WBT=y\n")
    text = (data_dir("lava-jobs") / "boards/virt-arm64.toml").read_text()
    assert text.count("memory_mb = 1024") == 1 and text.count('"exact"]') == 1
    text = text.replace('"exact"]', '"exact", "below/more.config"]')
    Path("below/board.toml").write_text(text)
    Path("large.toml").write_text('extends = "./below/board.toml"\nmemory_mb = 1536\n')
    text = (data_dir("pipelines") / "policies/instructions.toml").read_text()
    assert text.count("min_ios = ") == 1
    head, _, rest = text.partition("min_ios = ")
    Path("own.toml").write_text(f"{head}min_ios = 7\n{rest.partition(chr(10))[2]}")
    return folder


def asked(folder: Path) -> RunDir:
    """A run of no cell, whose board, matrix and policy are the files above."""
    root, policy = folder.parent / "run", str(folder / "own.toml")
    return make_run(root, cells=[], board="large.toml", matrix="./three.toml", policy=policy)


def needs_sandbox() -> None:
    try:
        sandbox.check()
    except IotollError as error:
        pytest.skip(str(error))


def test_files_that_other_files_name_are_among_them(own: Path) -> None:
    found = {path.resolve() for path in named_files(asked(own).manifest)}
    names = ("large", "below/board", "three", "below/quick", "own")
    assert {own / f"{name}.toml" for name in names} <= found
    assert own / "below/more.config" in found


def test_a_real_boards_hardware_and_its_fragments_are_among_them(own: Path) -> None:
    text = (data_dir("lava-jobs") / "hardware/hikey960.toml").read_text()
    kept = [line for line in text.splitlines() if not line.startswith("fragments = ")]
    Path("below/mine.toml").write_text("\n".join(['fragments = ["below/more.config"]', *kept]))
    Path("real.toml").write_text('extends = "hikey960"\nhardware = "below/mine.toml"\n')
    run = make_run(own.parent / "run", cells=[], board="real.toml", matrix="hikey960")
    found = {path.resolve() for path in named_files(run.manifest)}
    assert {own / "real.toml", own / "below/mine.toml", own / "below/more.config"} <= found


def test_a_file_that_is_not_there_is_one_line(own: Path) -> None:
    Path("below/quick.toml").unlink()
    with pytest.raises(UsageError, match=r"below/quick\.toml: no such file"):
        named_files(asked(own).manifest)


def test_a_step_in_the_sandbox_reads_them_under_the_same_names(own: Path) -> None:
    needs_sandbox()
    run = asked(own)
    words = ["-c", READ, str(run.root)]
    assert sandbox.run(words, run.root, None, around=surroundings(run.manifest)) == 0
    # Nothing else of the folder is there.
    Path("secret").write_text("glpat-64_secret-of-a-desk")
    words = ["-c", f"import os; assert not os.path.exists({str(own / 'secret')!r})"]
    assert sandbox.run(words, run.root, None, around=surroundings(run.manifest)) == 0


def test_a_pipelines_gate_reads_them(own: Path) -> None:
    needs_sandbox()
    run = asked(own)
    code = jobs.gate(run, Progress(quiet=True))
    verdict = results.read(run.verdict, VerdictRecord)
    assert (code, verdict.sentence[:20]) == (0, "Nothing to measure: ")
    assert (run.root / "report/index.html").is_file()


def test_a_searchs_boot_reads_them(own: Path) -> None:
    """It gets as far as the image of the boards, of which this cache has none."""
    needs_sandbox()
    run = asked(own)
    image = run.build("candidate") / "Image"
    image.write_text("no kernel")
    record = results.read(run.build("candidate") / "build.json", BuildRecord)
    record = record.model_copy(update={"image_sha256": file_sha256(image)})
    results.write(run.build("candidate") / "build.json", record)
    with pytest.raises(InfrastructureError) as caught:
        sandboxed_commits.boot(run, "candidate", [CELLS[0]], own.parent / "records")
    assert "in silence" not in str(caught.value), caught.value
