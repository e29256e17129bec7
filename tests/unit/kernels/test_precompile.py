"""Files that are compiled before make comes to them, with the real ccache and compiler."""

from __future__ import annotations

import fcntl
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from iotoll.kernels import precompile
from iotoll.kernels.precompile import Precompiler
from iotoll.kernels.reuse import key_folder

WORDS = "gcc -Wp,-MMD,fs/.a.o.d -O2 -DNAME='\"a\"' -c -o fs/a.o ../src/fs/a.c"
TAIL = " ; ./tools/objtool/objtool --hacks=jump_label fs/a.o"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A tree with one file, and make's folder after a build of it."""
    for name in ("ccache", "gcc"):
        assert shutil.which(name), f"{name} is a package that make test installs"
    (tmp_path / "src/fs").mkdir(parents=True)
    (tmp_path / "src/fs/a.c").write_text("const char *a(void) { return NAME; }\n")
    folder = tmp_path / "out"
    note(folder, f"savedcmd_fs/a.o := ccache {WORDS}{TAIL}\n")
    return folder


def note(out: Path, text: str) -> None:
    (out / "fs").mkdir(parents=True, exist_ok=True)
    (out / "fs/.a.o.cmd").write_text(f"{text}\nsource_fs/a.o := ../src/fs/a.c\n")


def environment(out: Path, **more: str) -> dict[str, str]:
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    own = {"CCACHE_DIR": str(out.parent / "ccache"), "CCACHE_LOGFILE": str(out.parent / "log")}
    return {**keep, "LANG": "C", "LC_ALL": "C", **own, **more}


def results(out: Path) -> list[str]:
    """What ccache says of its work so far."""
    log = out.parent / "log"
    lines = log.read_text().splitlines() if log.is_file() else []
    return [line.split("Result: ")[1] for line in lines if "Result: " in line]


def precompile_paths(out: Path, paths: list[str], env: dict[str, str]) -> None:
    with Precompiler(out, env) as early:
        early.start(out.parent / "src", paths)
        wait_for(early)


def wait_for(early: Precompiler) -> None:
    limit = time.monotonic() + 20
    while early.is_working and time.monotonic() < limit:
        time.sleep(0.01)


def test_make_finds_in_ccache_what_was_precompiled(out: Path) -> None:
    precompile_paths(out, ["fs/a.c", "Documentation/a.rst"], environment(out))
    assert "cache_miss" in results(out)
    assert [path.name for path in (out / "fs").iterdir()] == [".a.o.cmd"], "all else is make's"
    # As kbuild, which takes LC_ALL from its compilers.
    makes = {k: v for k, v in environment(out, CCACHE_READONLY="1").items() if k != "LC_ALL"}
    subprocess.run(["ccache", *shlex.split(WORDS)], cwd=out, env=makes, check=True)
    assert results(out)[-1] != "cache_miss" and "direct_cache_hit" in results(out)
    assert (out / "fs/a.o").is_file()


def test_make_waits_for_what_is_being_compiled(out: Path) -> None:
    """Without that it would compile the same file at the same time."""
    header = slow_header(out)
    with Precompiler(out, environment(out)) as early:
        makes = environment(out) | early.start(out.parent / "src", ["fs/a.c"])
        writer = os.open(header, os.O_WRONLY)  # returns once the compiler has opened it
        make = subprocess.Popen(["ccache", *shlex.split(WORDS)], cwd=out, env=makes)
        with pytest.raises(subprocess.TimeoutExpired):
            make.wait(0.5)
        let_go(header, writer)
        assert make.wait(20) == 0
    assert (out / "fs/a.o").is_file()


def test_what_makefiles_ask_of_the_compiler_is_known_from_the_build_before(out: Path) -> None:
    """Each candidate has a key of its own, so that ccache had no answer of another's."""
    asked = ["ccache", "gcc", "-Werror", "-O2", "-c", "-x", "c", "/dev/null", "-o", "probe.o"]
    base, own = key_folder("base"), key_folder("candidate")
    more = {"CCACHE_DEPEND": "1"}
    before = environment(out, CPATH=base, **more)
    subprocess.run(asked, cwd=out, env=before, check=True)
    env = environment(out, CPATH=own, CCACHE_READONLY="1", **more)
    with Precompiler(out, env) as early:
        makes = env | early.start(out.parent / "src", ["fs/a.c"], "base")
        wait_for(early)
        before_it = len(results(out))
        subprocess.run(asked, cwd=out, env=makes, check=True)
        assert "direct_cache_hit" in results(out)[before_it:]
        # What reads files is compared with the job's own alone.
        before_it = len(results(out))
        subprocess.run([*asked[:3], "-I.", *asked[3:]], cwd=out, env=makes, check=True)
        assert "direct_cache_miss" in results(out)[before_it:]


def test_what_make_compiles_is_not_compiled_a_second_time(out: Path) -> None:
    header = slow_header(out)
    (out.parent / "src/fs/b.c").write_text("int b;\n")
    words = WORDS.replace("/a.", "/b.").replace("/.a.", "/.b.")
    (out / "fs/.b.o.cmd").write_text(f"savedcmd_fs/b.o := ccache {words}\n")
    with Precompiler(out, environment(out)) as early:
        early.start(out.parent / "src", ["fs/a.c", "fs/b.c"])
        writer = os.open(header, os.O_WRONLY)
        with early._lock_of("fs/b.c").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)  # make is at it
            let_go(header, writer)
            wait_for(early)
    assert results(out).count("cache_miss") == 1


def slow_header(out: Path) -> Path:
    """A header of fs/a.c: a compiler that opens it waits until somebody has written it."""
    header = out.parent / "src/fs/slow.h"
    os.mkfifo(header)
    (out.parent / "src/fs/a.c").write_text('#include "slow.h"\nint a;\n')
    return header


def let_go(header: Path, writer: int) -> None:
    header.unlink()
    header.write_text("/* what ccache, and a second compiler, would read */\n")
    os.close(writer)


@pytest.mark.parametrize(
    "text",
    [
        f"savedcmd_fs/a.o := {WORDS}",  # no ccache
        "savedcmd_fs/a.o := ccache gcc 'fs/a.c",  # torn
        "savedcmd_fs/a.o := ccache gcc -c -o",
        "savedcmd_fs/a.o := ccache ld -r -o fs/a.o fs/b.o",
        "",
    ],
)
def test_a_note_of_something_else_gives_no_command(out: Path, tmp_path: Path, text: str) -> None:
    note(out, text)
    assert precompile.command(out, "fs/a.c", tmp_path) == []
    assert precompile.command(out, "fs/new.c", tmp_path) == []


def test_the_note_of_an_older_kernel_is_read(out: Path, tmp_path: Path) -> None:
    note(out, f"cmd_fs/a.o := ccache {WORDS.replace('-O2', '-DA=$$b')}")
    words = precompile.command(out, "fs/a.c", tmp_path)
    assert words[:3] == ["ccache", "gcc", f"-Wp,-MMD,{tmp_path}/.a.o.d"]
    assert words[3:5] == ["-DA=$b", '-DNAME="a"']
    assert words[-3:] == ["-o", f"{tmp_path}/a.o", "../src/fs/a.c"]


def test_what_does_not_compile_is_left_to_make(out: Path) -> None:
    (out.parent / "src/fs/a.c").write_text("int a(void) { return }\n")
    precompile_paths(out, ["fs/a.c"], environment(out))
    assert "compile_failed" in results(out)


def test_what_make_has_compiled_and_large_changes_are_left_alone(out: Path) -> None:
    (out / "fs/a.o").touch()
    precompile_paths(out, ["fs/a.c"], environment(out))
    (out / "fs/a.o").unlink()
    precompile_paths(out, ["fs/a.c"] * (precompile.MOST + 1), environment(out))
    assert results(out) == []


def test_a_compiler_that_runs_is_ended_with_the_build(out: Path) -> None:
    os.mkfifo(out.parent / "src/fs/endless.h")  # a compiler that opens it waits
    (out.parent / "src/fs/a.c").write_text('#include "endless.h"\n')
    started = time.monotonic()
    with Precompiler(out, environment(out)) as early:
        early.start(out.parent / "src", ["fs/a.c"])
        time.sleep(0.5)
        assert early.is_working
    assert time.monotonic() - started < 10
    assert not early.is_working
