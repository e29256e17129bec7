"""Builds of a small tree, with a played tuxmake: the cache, whose fault a failure is, leftovers."""

from __future__ import annotations

import gzip
import os
import sys
import time
from pathlib import Path

import pytest

from iotoll.core.errors import BrokenError, InfrastructureError, IotollError, UsageError
from iotoll.core.progress import Progress, Step
from iotoll.kernels import build, cache, kernel_job, makerun, source
from iotoll.patch import candidate
from iotoll.records import results
from iotoll.records.models import BuildRecord
from iotoll.records.models.run import Side
from iotoll.records.rundir import RunDir
from tests.repository import MAKEFILE, git, kernel_tree
from tests.unit.runs import asked, manifest

QUIET = Progress(quiet=True)
FRAGMENTS = ["base", "ufs"]
STEP = Step(None, None)

# What tuxmake does, in small: it "configures" from the fragments.
CONFIGURES = """
import pathlib, sys
args = sys.argv[1:]
tree, out = (pathlib.Path(args[args.index(flag) + 1]) for flag in ("-C", "-b"))
with (out / "calls").open("a") as calls:
    calls.write("config\\n")
fragments = [args[i + 1] for i, word in enumerate(args) if word == "-K"]
config = "".join(pathlib.Path(name).read_text() for name in fragments)
if "DROP" in (tree / "driver.c").read_text():
    config = config.replace("CONFIG_SCSI_UFSHCD=y", "# CONFIG_SCSI_UFSHCD is not set")
(out / ".config").write_text(config)
"""
# What the tree's makefile runs: it "compiles" one file.
COMPILES = """
import pathlib, sys, time
tree, out = map(pathlib.Path, sys.argv[1:])
text = (tree / "driver.c").read_text()
with (out / "calls").open("a") as calls:
    calls.write("make\\n")
if "SLEEP" in text:
    time.sleep(60)
for word, line in {
    "SYNTAX": "driver.c:3:5: error: expected ; before x",
    "DISK": "fatal error: error writing to /tmp/x.s: No space left on device",
}.items():
    if word in text:
        print("  CC      fs/ok.o\\ndriver.c: In function probe:\\n" + line)
        print("   3 |  x\\n     |  ^")
        print("make[2]: *** [scripts/Makefile.build:229: driver.o] Error 1")
        sys.exit(2)
image = out / "arch/arm64/boot/Image"
image.parent.mkdir(parents=True, exist_ok=True)
image.write_text(text)
print("  CC      driver.o")
"""


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kernel_job, "installed_toolchain", lambda arch: f"{arch}-gcc 1; ld 2")
    package = tmp_path / "fake" / "tuxmake"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(CONFIGURES)
    monkeypatch.syspath_prepend(str(package.parent))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    script = tmp_path / "compiles.py"
    script.write_text(COMPILES)
    rule = f"Image:\n\t@{sys.executable} {script} $(CURDIR) $(O)\n"
    files = {"driver.c": "good\n", "Makefile": MAKEFILE + rule}
    return kernel_tree(tmp_path / "linux", files)


def start(tmp_path: Path, tree: Path, new_text: str | None, name: str = "run") -> RunDir:
    patch = None
    if new_text is not None:
        patch = tmp_path / f"{name}.patch"
        patch.write_text(f"--- a/driver.c\n+++ b/driver.c\n@@ -1 +1 @@\n-good\n+{new_text}\n")
    choice = candidate.classify(str(patch) if patch else None, tree=str(tree))
    run = RunDir(tmp_path / name)
    results.write(run.root / "run.json", asked(choice))
    source.prepare(run, QUIET, ["ufs-x"])
    return run


def make(run: RunDir, side: Side, timeout: float = 60) -> BuildRecord:
    return build.build_side(run, side, build.KernelSpec("arm64", FRAGMENTS), QUIET, timeout=timeout)


def calls(tmp_path: Path) -> list[str]:
    files = (tmp_path / "cache" / "trees").glob("*/work/*/out/*/calls")
    return [line for path in files for line in path.read_text().split()]


def test_both_sides_leave_image_config_log_and_record(tmp_path: Path, tree: Path) -> None:
    run = start(tmp_path, tree, "better")
    base, cand = make(run, "base"), make(run, "candidate")
    assert (run.root / base.image).read_text() == "good\n"
    assert (run.root / cand.image).read_text() == "better\n"
    assert base.image_sha256 != cand.image_sha256
    assert base.config_sha256 == cand.config_sha256
    assert cand.fragments == FRAGMENTS and cand.toolchain == "arm64-gcc 1; ld 2"
    assert "CC      driver.o" in (run.build("candidate") / "build.log").read_text()
    assert calls(tmp_path) == ["config", "make", "make"], "one config for both sides"


def test_finished_builds_and_cached_images_are_not_built_again(tmp_path: Path, tree: Path) -> None:
    run = start(tmp_path, tree, "better")
    first = make(run, "base")
    assert make(run, "base") == first
    other = start(tmp_path, tree, "worse", "other")
    assert make(other, "base").image_sha256 == first.image_sha256
    assert calls(tmp_path) == ["config", "make"]


def warm(run: RunDir) -> None:
    """As what comes before a candidate's overlay."""
    build.build_side(run, "base", build.KernelSpec("arm64", FRAGMENTS), QUIET, warm=True)


def test_a_warm_build_brings_makes_folder_back_from_another_kernel(
    tmp_path: Path, tree: Path
) -> None:
    """Else every candidate would compile in its overlay what the other kernel changed."""
    run = start(tmp_path, tree, "better")
    make(run, "base")
    warm(run)
    assert calls(tmp_path) == ["config", "make"], "it holds the base's"
    make(run, "candidate")
    warm(run)
    assert calls(tmp_path) == ["config", "make", "make", "make"], "it held the candidate's"


def test_a_warm_build_sees_that_another_folder_moved_the_sources(
    tmp_path: Path, tree: Path
) -> None:
    """They came back with new time stamps: each candidate ran syncconfig, and built more files."""
    run = start(tmp_path, tree, "better")
    make(run, "base")
    build.build_side(run, "candidate", build.KernelSpec("arm64", FRAGMENTS[:1]), QUIET)
    before = calls(tmp_path)
    warm(run)
    assert calls(tmp_path)[len(before) :] == ["make"]
    warm(run)
    assert calls(tmp_path)[len(before) :] == ["make"], "nothing moved since"


def test_a_source_that_somebody_changed_in_the_cache_is_not_built(
    tmp_path: Path, tree: Path
) -> None:
    run = start(tmp_path, tree, "better")
    make(run, "base")
    (source_folder,) = (tmp_path / "cache" / "trees").glob("*/work/*/src")
    (source_folder / "stray.h").touch()
    make(run, "candidate")
    assert calls(tmp_path) == ["config", "make"], "the candidate's again, in an empty folder"
    log = (run.build("candidate") / "build.log").read_text()
    assert log.count("driver.o") == 1
    assert not (source_folder / "stray.h").exists()
    make(start(tmp_path, tree, "worse", "other"), "candidate")
    assert calls(tmp_path)[2:] == ["make"]


def test_image_that_vanished_from_the_run_comes_back(tmp_path: Path, tree: Path) -> None:
    run = start(tmp_path, tree, None)
    (run.root / make(run, "base").image).unlink()
    assert (run.root / make(run, "base").image).read_text() == "good\n"


def test_a_folder_that_a_sandbox_emptied_is_filled_again(tmp_path: Path, tree: Path) -> None:
    """A run was resumed whose candidate's image had left the cache: "build.json is missing"."""
    run = start(tmp_path, tree, None)
    image = run.root / make(run, "base").image
    for path in image.parent.iterdir():
        path.unlink()
    assert (run.root / make(run, "base").image).read_text() == "good\n"


def fails(run: RunDir, side: Side = "candidate") -> IotollError:
    with pytest.raises(IotollError) as caught:
        make(run, side)
    assert "\n" not in str(caught.value)
    return caught.value


def test_candidate_that_does_not_build_is_broken(tmp_path: Path, tree: Path) -> None:
    error = fails(start(tmp_path, tree, "SYNTAX"))
    assert isinstance(error, BrokenError) and error.step == "build"
    assert "driver.c:3:5: error: expected ; before x" in str(error)
    assert "In function probe" in error.log_tail and "     |  ^" in error.log_tail
    assert not list((tmp_path / "cache" / "images").glob("*"))


def test_candidate_that_loses_a_symbol_is_broken(tmp_path: Path, tree: Path) -> None:
    (tree / "Kconfig").write_text("x")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "kconfig")
    run = start(tmp_path, tree, "DROP")
    patch = tmp_path / "run.patch"
    patch.write_text(
        patch.read_text() + "--- a/Kconfig\n+++ b/Kconfig\n@@ -1 +1 @@\n-x\n"
        "\\ No newline at end of file\n+y\n"
    )
    source.prepare(run, QUIET, ["ufs-x"])
    make(run, "base")
    error = fails(run)
    assert isinstance(error, BrokenError) and error.step == "config"
    assert "CONFIG_SCSI_UFSHCD=y of fragment ufs.config became n" in str(error)


def test_base_that_loses_a_symbol_is_a_usage_error(tmp_path: Path, tree: Path) -> None:
    (tree / "driver.c").write_text("DROP\n")
    git(tree, "commit", "-q", "-am", "drop")
    error = fails(start(tmp_path, tree, None), "base")
    assert isinstance(error, UsageError) and "CONFIG_SCSI_UFSHCD" in str(error)


def test_base_that_does_not_build_is_not_the_candidates_fault(tmp_path: Path, tree: Path) -> None:
    (tree / "driver.c").write_text("SYNTAX\n")
    git(tree, "commit", "-q", "-am", "bad")
    error = fails(start(tmp_path, tree, None), "base")
    assert isinstance(error, InfrastructureError) and "base kernel 6.12.1" in str(error)


def test_full_disk_is_not_the_candidates_fault(tmp_path: Path, tree: Path) -> None:
    error = fails(start(tmp_path, tree, "DISK"))
    assert isinstance(error, InfrastructureError) and "disk is full" in str(error)


def test_time_out_ends_everything(tmp_path: Path, tree: Path) -> None:
    run = start(tmp_path, tree, "SLEEP")
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="took longer than"):
        make(run, "candidate", timeout=2)
    assert time.monotonic() - started < 15
    assert not list((tmp_path / "cache" / "trees").glob("*/work/*/out/*/.iotoll-running"))


def test_a_build_killed_hard_starts_afresh(tmp_path: Path, tree: Path) -> None:
    make(start(tmp_path, tree, None), "base")
    (out,) = (tmp_path / "cache" / "trees").glob("*/work/*/out/*")
    (out / ".iotoll-running").touch()
    (out / "torn.o").touch()
    make(start(tmp_path, tree, "better", "two"), "candidate")
    assert not (out / "torn.o").exists()


def test_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(InfrastructureError, match="apt-get install make"):
        kernel_job.installed_toolchain("arm64")


# --- ready-made images

ARM64 = b"\0" * 0x38 + b"ARM\x64" + b"rest"


def ready_made(tmp_path: Path, base: bytes, other: bytes) -> RunDir:
    (tmp_path / "a").write_bytes(base)
    (tmp_path / "b").write_bytes(other)
    run = RunDir(tmp_path / "ready")
    images = {"base": str(tmp_path / "a"), "candidate": str(tmp_path / "b")}
    made = manifest(tree=None, candidate_kind="images", **images)
    results.write(run.root / "run.json", made)
    return run


def test_ready_made_images_are_taken_with_their_config(tmp_path: Path) -> None:
    config = b"CONFIG_A=y\n"
    with_config = ARM64 + b"IKCFG_ST" + gzip.compress(config) + b"IKCFG_ED"
    run = ready_made(tmp_path, ARM64, gzip.compress(with_config))
    base, cand = make(run, "base"), make(run, "candidate")
    assert base.ready_made and cand.ready_made
    assert (run.root / cand.image).read_bytes() == with_config
    assert (run.build("candidate") / "config").read_bytes() == config
    assert b"not known" in (run.build("base") / "config").read_bytes()


def test_image_of_another_architecture_is_refused(tmp_path: Path) -> None:
    run = ready_made(tmp_path, b"\0" * 0x202 + b"HdrS", b"")
    with pytest.raises(UsageError, match="is no arm64 kernel"):
        make(run, "base")
    with pytest.raises(UsageError, match="is no arm64 kernel"):
        make(run, "candidate")


def test_the_image_cache_forgets_what_was_not_used_for_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "KEPT", 2)
    for number, name in enumerate(("a", "b", "c")):
        with cache.new_entry(tmp_path / "images" / name) as entry:
            (entry / "Image").touch()
        os.utime(tmp_path / "images" / name, (number, number))
    assert sorted(p.name for p in (tmp_path / "images").iterdir()) == ["b", "c"]


def test_a_failed_entry_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError), cache.new_entry(tmp_path / "images" / "a"):
        raise ValueError
    assert list((tmp_path / "images").iterdir()) == []


# --- running commands


def run_python(tmp_path: Path, code: str, timeout: float = 20) -> tuple[int, str]:
    log = tmp_path / "log"
    command = [sys.executable, "-c", code]
    done = makerun.run(
        command, env=os.environ, log=log, step=STEP, timeout=timeout, running=tmp_path / "running"
    )
    return done, log.read_text()


def test_output_is_logged_without_colours_and_the_exit_code_returned(tmp_path: Path) -> None:
    code, log = run_python(tmp_path, r"print('\033[1mbold\033[0m'); raise SystemExit(3)")
    assert (code, log) == (3, "bold\n")
    assert not (tmp_path / "running").exists()


def test_grandchildren_that_stay_behind_are_ended(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    code = (
        "import subprocess,pathlib\n"
        "p=subprocess.Popen(['sleep','100'],stdout=subprocess.DEVNULL,stderr=subprocess.DEVNULL)\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(p.pid))\n"
    )
    run_python(tmp_path, code)
    state = Path(f"/proc/{pid.read_text()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_what_ignores_the_request_to_end_is_killed_and_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotoll.core.proc.GRACE", 0.5)
    stubborn = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    # Six seconds: on a busy machine it may take some until the signal is ignored.
    with pytest.raises(InfrastructureError, match="took longer than 6 s"):
        run_python(tmp_path, stubborn, timeout=6)
    assert (tmp_path / "running").exists()


def test_command_that_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cannot start /none"):
        makerun.run(
            ["/none"], env={}, log=tmp_path / "l", step=STEP, timeout=1, running=tmp_path / "r"
        )


@pytest.mark.parametrize(
    ("log", "first"),
    [
        ("x\na.c:1:2: warning: w\na.c:3:4: error: e\nmake: *** [x] Error 1\n", "a.c:3:4: error: e"),
        ("ld: a.o: in function f:\na.c:(.text+0x1): undefined reference to `g'\n", "a.c:(.text"),
        ("make[1]: *** No rule to make target 'x.o'.  Stop.\n", "make[1]: *** No rule"),
        (
            "block/Kconfig:3:warning: w\ndrivers/ufs/Kconfig:33: syntax error\n"
            "make[3]: *** [../scripts/kconfig/Makefile:85: allnoconfig] Error 1\n",
            "drivers/ufs/Kconfig:33: syntax error",
        ),
        ("nothing to see\n", "make failed"),
    ],
)
def test_first_cause_of_a_failure(tmp_path: Path, log: str, first: str) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    summary, lines = makerun.cause(path)
    assert summary.startswith(first)
    assert lines


@pytest.mark.parametrize(
    ("log", "mend"),
    [
        ('a.c:1:2: error: e\n    3 |   pr_err("No space left on device");\n      |   ^\n', None),
        ("{standard input}: fatal error: x.s: No space left on device\n", "the disk is full"),
        ("make[3]: *** [scripts/Makefile.build:229: a.o] Terminated\n", "ended from outside"),
        ("make[3]: *** [scripts/Makefile.build:229: a.o] Error 1\n", None),
        ("cc1: out of memory allocating 65536 bytes\n", "no memory"),
    ],
)
def test_whose_fault_a_failure_is(tmp_path: Path, log: str, mend: str | None) -> None:
    path = tmp_path / "log"
    path.write_text(log)
    found = makerun.not_the_source(path)
    assert found is None if mend is None else found is not None and mend in found


def test_missing_tuxmake_is_not_the_candidates_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InfrastructureError, match="tuxmake is not installed: make setup"):
        kernel_job.installed_toolchain("arm64")
