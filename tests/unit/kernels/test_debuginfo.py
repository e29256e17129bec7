"""Lines of functions: by the compiler's own debug information, and only of the measured code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iotoll.kernels.debuginfo import Frame, debug_command, parse_frames, read_unit

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
