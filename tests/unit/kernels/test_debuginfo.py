"""Lines of functions: by the compiler's own debug information, and only of the measured code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from iotoll.kernels.debuginfo import Frame, _places, debug_command, parse_frames, read_unit
from iotoll.kernels.x86 import SHORT_JUMP, instructions

COMPILER = "aarch64-linux-gnu-gcc"
SOURCE = """\
extern int other(int);
static inline __attribute__((always_inline)) int inner(int x)
{
	for (int i = 0; i < x; i++)
		asm volatile("nop");
	return x;
}
int outer(int x)
{
	other(x);
	return inner(x) + 1;
}
"""


def test_frames_are_read_innermost_first() -> None:
    text = (
        "0x0000000000000010\ninner\n/out/drivers/x.h:4 (discriminator 3)\nouter\n./x.c:11\n"
        "0x0000000000000014\n??\n??:?\n"
    )
    assert parse_frames(text, "/out/") == [
        (Frame("inner", "drivers/x.h", 4), Frame("outer", "x.c", 11)),
        (),
    ]


def test_the_saved_command_is_used_without_what_follows_it() -> None:
    saved = (
        "ccache gcc -Wp,-MMD,a/.x.o.d -include /src/k.h -DNAME='\"x\"' -fno-common -O2 -c -o a/x.o"
        " ../x.c ; objtool a/x.o"
    )
    words = debug_command(saved, Path("/cache/x.part"), "gcc", Path("/src/x.c"))
    assert words == [
        *("gcc", "-include", "/src/k.h", '-DNAME="x"', "-fno-common", "-O2", "-c"),
        *("-gdwarf-4", "-o", "/cache/x.part", "/src/x.c"),
    ]


@pytest.mark.parametrize(
    "word",
    [
        *("-fplugin=/tmp/x.so", "-wrapper", "-B/tmp", "@/tmp/x", "-specs=/tmp/x", "-Wl,x"),
        *("-Wa,-a=x", "-fopt-info-all=/tmp/x", "-fsave-optimization-record", "-fstack-usage"),
        *("-ftest-coverage", "-fdiagnostics-format=json-file", "-fself-test=/tmp/x"),
    ],
)
def test_a_command_that_could_start_a_program_or_write_a_file_is_not_run(word: str) -> None:
    saved = f"gcc {word} -c -o a/x.o ../x.c"
    assert debug_command(saved, Path("/cache/x.part"), "gcc", Path("/src/x.c")) is None
    other = "/tmp/gcc -c -o a/x.o ../x.c"
    assert debug_command(other, Path("/cache/x.part"), "gcc", Path("/src/x.c")) is None


@pytest.mark.skipif(not shutil.which(COMPILER), reason=f"{COMPILER} is not installed")
def test_lines_are_those_of_the_measured_code_only(tmp_path: Path) -> None:
    (tmp_path / "x.c").write_text(SOURCE)
    for words in (["-o", "plain.o"], ["-g", "-o", "debug.o"]):
        subprocess.run([COMPILER, "-O2", "-c", "x.c", *words], cwd=tmp_path, check=True)
    copy = ["aarch64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", "plain.o", "code"]
    subprocess.run(copy, cwd=tmp_path, check=True)
    code = (tmp_path / "code").read_bytes()
    tool = "aarch64-linux-gnu-addr2line"
    unit = tmp_path / "debug.o"
    # The linker fills in where other() is; nothing else may differ.
    call = next(at for at in range(0, len(code), 4) if code[at + 3] == 0x94)
    linked = code[:call] + b"\x01\x02\x03\x94" + code[call + 4 :]
    found = read_unit(unit, {"outer": linked}, tool, tmp_path)["outer"]
    assert (found.file, found.line) == ("x.c", 9)
    inlined = [frames for frames in found.frames if frames[0].function == "inner"]
    assert inlined and all(f[1] == Frame("outer", "x.c", 11) for f in inlined)
    other = code[:-4] + b"\x1f\x20\x03\xd5"
    assert read_unit(unit, {"outer": other}, tool, tmp_path) == {}
    assert read_unit(unit, {"missing": code}, tool, tmp_path) == {}


X86_COMPILER = "x86_64-linux-gnu-gcc"
STATIC_BRANCH = """\
extern int other(int);
int outer(int x)
{
	asm goto("1: jmp %l[yes]" : : : : yes);
	x = other(x);
yes:
	return x + 1;
}
"""


@pytest.mark.skipif(not shutil.which(X86_COMPILER), reason=f"{X86_COMPILER} is not installed")
def test_lines_of_x86_64_where_a_branch_waits(tmp_path: Path) -> None:
    """In a finished object, a `nop` is in the place of a static key's jump."""
    (tmp_path / "x.c").write_text(STATIC_BRANCH)
    words = [X86_COMPILER, "-O2", "-c", "x.c", "-g", "-o", "debug.o"]
    subprocess.run(words, cwd=tmp_path, check=True)
    copy = ["x86_64-linux-gnu-objcopy", "-O", "binary", "-j", ".text", "debug.o", "code"]
    subprocess.run(copy, cwd=tmp_path, check=True)
    code = bytearray((tmp_path / "code").read_bytes())
    tool, unit = "x86_64-linux-gnu-addr2line", tmp_path / "debug.o"
    found, _ = instructions(np.frombuffer(bytes(code), np.uint8))
    jump = int(found.place[found.opcode == SHORT_JUMP][0])
    code[jump : jump + 2] = b"\x66\x90"
    call = int(found.place[found.opcode == 0xE8][0])
    code[call + 1 : call + 5] = b"\x11\x22\x33\x44"
    lines = read_unit(unit, {"outer": bytes(code)}, tool, tmp_path)["outer"]
    assert (lines.file, lines.line) == ("x.c", 4) and len(lines.frames) == len(found.place)
    assert {frame.line for frames in lines.frames for frame in frames} >= {4, 5, 7}
    for place in (jump, call):
        other = bytes([*code[:place], 0x50, *code[place + 1 :]])
        assert read_unit(unit, {"outer": other}, tool, tmp_path) == {}, "another instruction"


def test_a_definition_may_begin_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("static ssize_t\nwrite_iter(int x)\n{\n\tread_iter(x);\n}\n")
    (tmp_path / "b.c").write_text("static int read_iter(int x)\n{\n}\n")
    found = _places(tmp_path, ["write_iter", "read_iter"], ["a.c", "b.c"], set())
    assert found == {"write_iter": ["a.c"], "read_iter": ["b.c"]}
