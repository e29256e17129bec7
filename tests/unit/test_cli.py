"""The command line as a user meets it: exit codes, one line for a mistake, clean JSON."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from iotoll.cli import (
    GROUPS,
    LAB_COMMANDS,
    _others,
    all_commands,
    all_examples,
    cli,
    main,
)
from tests.repository import kernel_tree
from tests.unit.runs import BOOTS, CELLS, add_boots, make_run

ROOT = Path(__file__).parents[2]
PATCH = ROOT / "examples/patches/documentation.patch"


@dataclass
class Done:
    """What a command left: exit code and both streams."""

    returncode: int
    stdout: str
    stderr: str


class Iotoll:
    """Runs the command in this process: it starts much faster than a new interpreter."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch = monkeypatch
        self.capsys = capsys

    def __call__(self, *words: str | Path) -> Done:
        self.monkeypatch.setattr("sys.argv", ["iotoll", *map(str, words)])
        known = signal.getsignal(signal.SIGTERM)
        try:
            main()
            code = 0
        except SystemExit as error:
            assert error.code is None or isinstance(error.code, int)
            code = error.code or 0
        finally:
            signal.signal(signal.SIGTERM, known)
        out, err = self.capsys.readouterr()
        return Done(code, out, err)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


@pytest.fixture
def iotoll(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iotoll:
    """The command, run in `place`."""
    return Iotoll(monkeypatch, capsys)


def mistake(done: Done, code: int = 2) -> str:
    """The one line that the user is told; checks that it is one, and no traceback."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Usage:", "Try "))]
    lines = [line for line in lines if line]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_version_and_help(place: Path, iotoll: Iotoll) -> None:
    assert iotoll("--version").returncode == 0
    text = iotoll("-h").stdout
    assert "0 pass, 1 regression, 2 usage error, 3 inconclusive, 4 infrastructure, 5 broken" in text
    for command in ("gate", "measure", "analyze", "report", "step", "doctor"):
        assert command in text
        # In a process of its own: click keeps a command's help option as another test asked for it.
        words = [sys.executable, "-m", "iotoll", command, "-h"]
        assert subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["gaet"], "No such command"),
        (["gate", "--fast"], "No such option"),
        (["gate"], "nothing to gate: give --candidate"),
        (["gate", "--candidate", "absent.patch"], "absent.patch: no such file"),
        (
            ["gate", "--candidate", PATCH, "--board", "hikey"],
            "There are: hikey960, host-uml, jetson-tx1",
        ),
        (["gate", "--candidate", PATCH, "--matrix", "huge"], "There are: default"),
        (["gate", "--candidate", PATCH, "--policy", "x"], "There are: instructions"),
        (["gate", "--candidate", PATCH, "--cells", "ufs-5k*"], "--cells ufs-5k*: no such cell"),
        (["gate", "--candidate", PATCH, "--clock", "sun"], "'sun' is not one of"),
        (["gate", "--candidate", PATCH, "--boots", "0"], "0 is not in the range"),
        (["gate", "--candidate", PATCH, "--until", "x"], "'x' is not one of"),
        (["gate", "--base-image", "a"], "image"),
        (["gate", "--base-image", "a", "--candidate-image", "b"], "a"),
        (["measure", "--image", "absent"], "absent"),
        (["measure", "--tree", "/nowhere"], "/nowhere"),
        (["analyze", "absent.dat"], "absent.dat: no such file"),
        (["analyze", PATCH], "documentation.patch"),
        (["analyze"], "Missing argument"),
        (["report", "."], "is not a run directory"),
        (["step", "judge", "."], "is not a run directory"),
        (["step", "guess", "."], "'guess' is not one of"),
    ],
)
def test_usage_errors_are_one_line(
    place: Path, iotoll: Iotoll, words: list[str | Path], part: str
) -> None:
    assert part in mistake(iotoll(*words))
    assert not (place / "runs").exists()


def test_another_run_in_the_same_place_is_refused(place: Path, iotoll: Iotoll) -> None:
    make_run(place / "run")
    line = mistake(iotoll("gate", "--candidate", PATCH, "--out", "run"))
    assert line.endswith("run holds another run: choose another --out, or remove it")
    (place / "full").mkdir()
    (place / "full/x").touch()
    line = mistake(iotoll("gate", "--candidate", PATCH, "--out", "full"))
    assert "exists and is not a run directory" in line
    (place / "file").touch()
    assert "is not a run directory" in mistake(
        iotoll("gate", "--candidate", PATCH, "--out", "file")
    )


@pytest.mark.parametrize("until", ["source", "build"])
def test_g1_10_a_patch_that_does_not_apply_is_broken_until_any_step(
    place: Path, iotoll: Iotoll, until: str
) -> None:
    tree = kernel_tree(place / "linux", {"drivers/ufs/core/ufshcd.c": "a\n"})
    patch = place / "x.patch"
    path = "drivers/ufs/core/ufshcd.c"
    patch.write_text(f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-b\n+c\n")
    words = ("gate", "--tree", tree, "--candidate", patch, "--out", place / "run")
    done = iotoll(*words, "--until", until)
    assert done.returncode == 5
    assert "does not apply" in done.stdout
    patch.write_text(f"--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+c\n")
    other = (*words[:-1], place / "other", "--until", "source")
    assert iotoll(*other).returncode == 0


def test_steps_derive_a_verdict_from_stored_traces(place: Path, iotoll: Iotoll) -> None:
    run = make_run(place / "run")
    add_boots(run)
    for step in ("collect", "judge", "report"):
        done = iotoll("step", step, "run", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == {"run": str(run.root), "step": step}
        assert done.stderr == ""
    shown = iotoll("report", "run", "--quiet")
    assert shown.stdout == "pass: No section of 2 cells grew past its threshold.\n"
    data = json.loads(iotoll("report", "run", "--json").stdout)
    assert data["outcome"] == "pass"
    assert data["run"] == str(run.root)
    page = iotoll("report", "run").stdout
    assert "PASS" in page.upper()
    assert page.rstrip().endswith(f"report: {run.report / 'index.html'}")


def test_a_step_too_early_names_what_is_missing(place: Path, iotoll: Iotoll) -> None:
    make_run(place / "run")
    line = mistake(iotoll("step", "collect", "run", "--quiet"), 4)
    assert "boot.json is missing: run the step that writes it" in line


def test_corrupt_trace_is_infrastructure_and_is_named(place: Path, iotoll: Iotoll) -> None:
    run = make_run(place / "run")
    add_boots(run)
    trace = run.boot("candidate", 1) / "ufs/trace.dat"
    trace.write_bytes(trace.read_bytes()[:9000])
    line = mistake(iotoll("step", "collect", "run", "--quiet"), 4)
    assert "corrupt trace: " in line
    assert "candidate/boots/1/ufs/trace.dat" in line


def test_corrupt_result_file_is_named(place: Path, iotoll: Iotoll) -> None:
    run = make_run(place / "run")
    add_boots(run)
    (run.side("base") / "build/build.json").write_text("{")
    assert "build.json is not readable JSON" in mistake(
        iotoll("step", "collect", "run", "--quiet"), 4
    )


def test_analyze_shows_a_table_and_clean_json(place: Path, iotoll: Iotoll) -> None:
    trace = BOOTS / "base/ufs/trace.dat"
    done = iotoll("analyze", trace, "--clock", "instructions", "--comm", "fio", "--json")
    assert done.returncode == 3, "it ends within the second cell: a request's completion is missing"
    assert [r["cell"] for r in json.loads(done.stdout)][:2] == CELLS
    table = iotoll("analyze", trace, "--clock", "instructions", "--comm", "fio")
    assert CELLS[0] in table.stdout
    assert "submission" in table.stdout


def process(place: Path, *words: str | Path, shell: str = "") -> subprocess.Popen[str]:
    """The command in an interpreter of its own."""
    command = [sys.executable, "-m", "iotoll", *map(str, words)]
    return subprocess.Popen(
        ["bash", "-o", "pipefail", "-c", f"{shlex.join(command)} {shell}"] if shell else command,
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_closed_pipe_is_no_error(place: Path, iotoll: Iotoll) -> None:
    make_run(place / "run", cells=[])
    assert iotoll("step", "judge", "run").returncode == 0
    out, err = process(place, "report", "run", "--json", shell="| head -c 1").communicate()
    assert out == "{"
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_says_how_to_go_on(place: Path, number: signal.Signals) -> None:
    # A file that never ends keeps the command where it can be interrupted. A pipe that is named on
    # the command line is refused; the board's file leads to it.
    endless = place / "endless.toml"
    os.mkfifo(endless)
    board = place / "slow.toml"
    board.write_text(f"extends = {str(endless)!r}\n")
    running = process(place, "gate", "--candidate", PATCH, "--board", board)
    end = await_reader(endless)
    await_sleep(running.pid)
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    os.close(end)
    assert running.returncode == 130, err
    assert err.strip() == "iotoll: interrupted; the same command resumes"
    assert out == ""


def await_sleep(pid: int, seconds: float = 100) -> None:
    """Until a process reads what does not come; a signal on its way there would not wake it."""
    deadline, asleep = time.monotonic() + seconds, 0
    while asleep < 5:
        assert time.monotonic() < deadline, "it does not sleep"
        time.sleep(0.05)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        asleep = asleep + 1 if state == "S" else 0


def await_reader(fifo: Path, seconds: float = 100) -> int:
    """The writing end of a FIFO, once somebody reads it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            assert time.monotonic() < deadline, "nobody reads it"
            time.sleep(0.05)


@pytest.mark.parametrize("name", all_commands())
def test_every_command_has_its_help(iotoll: Iotoll, name: str) -> None:
    done = iotoll(name, "--help")
    assert done.returncode == 0 and re.match(rf"Usage: .*{name} ", done.stdout)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    assert all_commands()[name].help == command.get_short_help_str(limit=200)
    assert all_commands()[name].group in GROUPS


@pytest.mark.parametrize("name", all_commands())
def test_examples_name_options_and_arguments_that_exist(name: str) -> None:
    lines = {name: all_commands()[name].examples}
    lines |= {key: lines for key, lines in all_examples().items() if key.split()[0] == name}
    for key, example in ((key, line) for key, examples in lines.items() for line in examples):
        words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"'))
        assert " ".join(words).startswith(f"iotoll {key}")
        command: click.Command | None = cli.get_command(click.Context(cli), name)
        words = words[2:]
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None
        command.make_context(name, words)


def test_every_command_of_a_group_has_examples(iotoll: Iotoll) -> None:
    found = set()
    for name in all_commands():
        command = cli.get_command(click.Context(cli), name)
        assert command is not None and "Examples:" in (command.epilog or "")
        for inner, member in getattr(command, "commands", {}).items():
            found.add(f"{name} {inner}")
            assert "Examples:" in (member.epilog or ""), f"SUBCOMMANDS lacks {name} {inner}"
    assert found == all_examples().keys()


@pytest.mark.parametrize("name", sorted(LAB_COMMANDS))
def test_a_command_of_the_lab_says_what_installs_it(
    name: str, iotoll: Iotoll, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("iotoll.cli.entry_points", lambda group: ())
    monkeypatch.setattr("iotoll.cli._others", _others.__wrapped__)
    told = mistake(iotoll(name))
    assert name in told and "iotoll-lab, which is not installed" in told and "make lab" in told


def test_help_imports_no_command(place: Path) -> None:
    code = """if True:
        import sys
        from iotoll.cli import cli
        cli(["--help"], standalone_mode=False)
        allowed = ("iotoll", "iotoll._native", "iotoll.cli", "iotoll.core", "iotoll_lab",
                   "iotoll_lab.commands",
                   "iotoll.core.cli_support", "iotoll.core.errors", "iotoll.core.nearest",
                   "iotoll.core.plain")
        print("IMPORTED", *(m for m in sys.modules if m.startswith("iotoll") and m not in allowed))
        print("HEAVY", *(sys.modules.keys() & {"numpy", "pydantic", "rich", "polars", "scipy"}))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-2:] == ["IMPORTED", "HEAVY"]
    for group in GROUPS:
        assert f"\n{group}:\n" in done.stdout


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("iotoll.gate.command", ["matplotlib", "scipy", "playwright", "gitlab", "kcidb_io"]),
        ("iotoll.reports.compare", ["matplotlib", "scipy", "polars"]),
        ("iotoll.listing", ["pydantic", "matplotlib", "scipy", "numpy"]),
    ],
)
def test_no_command_waits_for_the_libraries_of_another(module: str, without: list[str]) -> None:
    code = f"import sys, {module}; print(*sorted(sys.modules.keys() & {without}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_the_shells_own_code(iotoll: Iotoll, shell: str) -> None:
    done = iotoll("completion", shell)
    assert done.returncode == 0
    assert "_IOTOLL_COMPLETE" in done.stdout and f"{shell}_complete" in done.stdout


def test_completion_knows_commands_and_options(place: Path) -> None:
    def complete(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()))}
        code = "from iotoll.cli import cli; cli(prog_name='iotoll')"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **words, "_IOTOLL_COMPLETE": "bash_complete"},
            capture_output=True,
            text=True,
        )
        return done.stdout.split()

    assert {f"plain,{name}" for name in all_commands()} <= set(complete("iotoll "))
    assert set(complete("iotoll list ")) == {
        f"plain,{kind}" for kind in ("boards", "cells", "matrices", "policies", "studies")
    }


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("boards", "virt-arm64"),
        ("cells", "ufs-4k-randread-t1-direct"),
        ("matrices", "default"),
        ("policies", "instructions"),
        ("studies", "validate"),
    ],
)
def test_list_names_what_there_is(iotoll: Iotoll, kind: str, name: str) -> None:
    done = iotoll("list", kind)
    assert done.returncode == 0
    assert name in [line.split()[0] for line in done.stdout.splitlines()]
    rows = json.loads(iotoll("list", kind, "--json").stdout)
    assert name in [row["name"] for row in rows]
    assert "There are: default" in mistake(iotoll("list", "cells", "--matrix", "huge"))
