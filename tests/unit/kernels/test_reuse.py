"""G1.1: what is built after another source is what a clean build gives, by real make and ccache.

A small tree with makefiles that note what an object was made of, as kbuild does.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from iotoll.core.digest import json_sha256
from iotoll.core.errors import IotollError
from iotoll.core.progress import Progress
from iotoll.kernels import kernel_job, reuse, source
from iotoll.kernels.compiling import clean_build, compile_job, kept_objects
from iotoll.kernels.kernel_job import KernelJob
from iotoll.kernels.places import places
from iotoll.kernels.tree import Change
from iotoll.records.models import SourceRecord
from tests.repository import MAKEFILE, git, kernel_tree

QUIET = Progress(quiet=True)
FRAGMENTS = ["base", "ufs"]
CONFIGURES = """
import pathlib, sys
args = sys.argv[1:]
tree, out = (pathlib.Path(args[args.index(flag) + 1]) for flag in ("-C", "-b"))
fragments = [args[i + 1] for i, word in enumerate(args) if word == "-K"]
config = "".join(pathlib.Path(name).read_text() for name in fragments)
option = (tree / "Kconfig").read_text()
(out / ".config").write_text(config + option)
"""
# In the O= folder, as kbuild; the note has the command, the source and what was included.
RULES = """
ifeq ($(KBUILD_OUT),)
Image:
	@$(MAKE) --no-print-directory -C $(O) -f $(CURDIR)/Makefile KBUILD_OUT=1 S=$(CURDIR) Image
else
flags := $(shell cat $(S)/flags) -I$(S)/early -I. -I$(S)/late
objects := a.o b.o
cmd = $(CC) $(KCFLAGS) $(flags) -Wp,-MMD,.$@.d -c -o $@ $<
-include $(objects:%=.%.cmd)
Image: $(objects)
	mkdir -p arch/arm64/boot
	cat $^ > arch/arm64/boot/Image
	cp arch/arm64/boot/Image vmlinux
a.o: made.h
made.h: $(S)/made.txt
	sed 's/^/\\#define MADE /' $< > $@
%.o: $(S)/%.c FORCE
	$(if $(filter-out $(saved_$@),$(subst $() ,_,$(cmd)))$(filter-out FORCE,$?),$(call make_it))
define make_it
$(cmd)
printf 'saved_%s := %s\\n' $@ '$(subst $() ,_,$(cmd))' > .$@.cmd
printf 'source_%s := %s\\ndeps_%s := \\\\\\n' $@ $< $@ >> .$@.cmd
tr '\\\\\\n' ' ' < .$@.d | sed -e 's/^[^ ]*: *[^ ]*//' >> .$@.cmd
printf '\\n%s: $$(deps_%s)\\n$$(deps_%s):\\n' $@ $@ $@ >> .$@.cmd
endef
FORCE:
endif
"""
FILES = {
    "Makefile": MAKEFILE + RULES,
    "Kconfig": "# CONFIG_OWN is not set\n",
    "flags": "-O2\n",
    "made.txt": "1\n",
    # ccache gives the compiler another path than make does, which __FILE__ must not show.
    "a.c": '#include <value.h>\n#include "made.h"\nint a(void) { return VALUE + MADE; }\n'
    "const char *file = __FILE__;\n",
    "b.c": '#if __has_include("more.h")\n#include "more.h"\n#else\n#define MORE 1\n#endif\n'
    "int b(void) { return MORE; }\n",
    "late/value.h": "#define VALUE 1\n",
    "other/value.h": "#define VALUE 5\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IOTOLL_CACHE", str(tmp_path / "cache"))
    package = tmp_path / "fake" / "tuxmake"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(CONFIGURES)
    monkeypatch.syspath_prepend(str(package.parent))
    try:
        kernel_job.installed_toolchain("arm64")
    except IotollError as error:
        pytest.skip(str(error))
    return kernel_tree(tmp_path / "linux", FILES)


def record(tree: Path, edits: Mapping[str, str | None] | None = None) -> SourceRecord:
    """The source with edits, as a commit that is left behind."""
    git(tree, "checkout", "-q", "-B", "work", "main")
    for path, text in (edits or {}).items():
        target = tree / path
        if text is None:
            target.unlink()
            continue
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "--allow-empty", "-m", "work")
    found = source.base_of(str(tree), "HEAD", QUIET)
    return found.model_copy(update={"side": "candidate"})


def build(one: SourceRecord, folder: Path) -> tuple[str, str]:
    """The digest of an image as runs build it, and the log."""
    job = KernelJob.make(one, "arm64", FRAGMENTS)
    shutil.rmtree(job.cached, ignore_errors=True)
    compile_job(job, QUIET, folder)
    return digest(job.cached), (folder / "build.log").read_text()


def clean(one: SourceRecord, folder: Path) -> str:
    clean_build(KernelJob.make(one, "arm64", FRAGMENTS), QUIET, folder)
    return digest(folder)


def digest(folder: Path) -> str:
    return json_sha256([(folder / name).read_bytes().hex() for name in ("Image", "config")])


CHANGES: dict[str, dict[str, str | None]] = {
    "shadows": {"early/value.h": "#define VALUE 2\n"},
    "next": {"early/value.h": "#include_next <value.h>\n#undef VALUE\n#define VALUE 3\n"},
    "probed": {"more.h": "#define MORE 2\n"},
    "moved": {"late/value.h": None, "early/value.h": "#define VALUE 4\n"},
    "flags": {"flags": "-O2 -UX -DMORE_FLAGS -Os\n"},
    "generated": {"made.txt": "2\n"},
    "recipe": {"Makefile": FILES["Makefile"].replace("define MADE /'", "define MADE 1/'")},
    "unmade": {
        "Makefile": FILES["Makefile"]
        .replace("a.o: made.h\n", "")
        .replace("made.h: $(S)/made.txt\n\tsed 's/^/\\#define MADE /' $< > $@\n", ""),
        "late/made.h": "#define MADE 6\n",
    },
    "option": {"Kconfig": "CONFIG_OWN=y\n"},
    "edited": {"a.c": FILES["a.c"].replace("VALUE + MADE", "VALUE - MADE")},
    "header": {"late/value.h": "#define VALUE 7\n"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_g1_1_after_another_source_the_image_is_the_clean_builds(
    tmp_path: Path, tree: Path, name: str
) -> None:
    base, changed = record(tree), record(tree, CHANGES[name])
    before, _ = build(base, tmp_path / "before")
    after, log = build(changed, tmp_path / "after")
    assert after == clean(changed, tmp_path / "clean")
    assert after != before, "the change changes the image, or nothing is shown"
    back, _ = build(base, tmp_path / "back")
    assert back == before == clean(base, tmp_path / "clean-base")
    assert ("empty folder" in log) == (name not in ("edited", "header"))


def test_g1_1_what_ccache_has_of_a_tree_without_the_header_is_not_taken(
    tmp_path: Path, tree: Path
) -> None:
    """Nor is it in a later run, whose base has the header and whose change is an edit alone."""
    edit = {"a.c": FILES["a.c"].replace("VALUE + MADE", "VALUE * 3 + MADE")}
    build(record(tree, edit), tmp_path / "1")
    shadow = {"early/value.h": "#define VALUE 2\n"}
    build(record(tree, shadow), tmp_path / "2")
    both = record(tree, {**edit, **shadow})
    made, log = build(both, tmp_path / "3")
    assert "empty folder" not in log
    assert made == clean(both, tmp_path / "clean")


def test_g1_1_objects_that_are_newer_than_the_clock_are_not_trusted(
    tmp_path: Path, tree: Path
) -> None:
    base, changed = record(tree), record(tree, CHANGES["edited"])
    build(base, tmp_path / "1")
    job = KernelJob.make(base, "arm64", FRAGMENTS)
    out = job.out(places(source.open_tree(str(tree), QUIET), job)[0])
    for path in (p for p in out.rglob("*") if p.is_file()):
        os.utime(path, (time.time() + 3600, time.time() + 3600))
    made, log = build(changed, tmp_path / "2")
    assert "from the future" in log
    assert made == clean(changed, tmp_path / "clean")


def test_g1_1_after_a_source_that_did_not_compile(tmp_path: Path, tree: Path) -> None:
    base = record(tree)
    build(base, tmp_path / "1")
    shadow = {"early/value.h": "#define VALUE 2\n", "b.c": "#error no\n"}
    with pytest.raises(IotollError):
        build(record(tree, shadow), tmp_path / "2")
    made, log = build(base, tmp_path / "3")
    assert "early/value.h" in log
    assert made == clean(base, tmp_path / "clean")


def test_a_header_that_nothing_names_leaves_the_folder(tmp_path: Path, tree: Path) -> None:
    build(record(tree), tmp_path / "1")
    changed = record(tree, {"docs/value.rst": "x\n", "MAINTAINERS": "y\n"})
    _, log = build(changed, tmp_path / "2")
    assert "empty folder" not in log


def test_g1_1_direct_mode_finds_only_what_the_same_job_compiled(tmp_path: Path, tree: Path) -> None:
    """By ccache itself: should a later one leave CPATH out of its keys, this fails."""
    one, other = (
        reuse.direct_key(KernelJob.make(record(tree, edits), "arm64", FRAGMENTS))
        for edits in ({}, CHANGES["edited"])
    )
    (tmp_path / "x.c").write_text("int x;\n")
    found = [_result(tmp_path, variables) for variables in (one, one, other)]
    assert ["direct_cache_hit" in words for words in found] == [False, True, False]
    assert "cache_miss" in found[2]


def _result(folder: Path, variables: dict[str, str]) -> str:
    log = folder / "log"
    log.unlink(missing_ok=True)
    env = {**os.environ, **variables, "CCACHE_DIR": str(folder / "cc"), "CCACHE_LOGFILE": str(log)}
    command = ["ccache", "gcc", "-c", "-o", "x.o", "x.c"]
    subprocess.run(command, cwd=folder, env=env, check=True)
    return log.read_text()


@pytest.mark.parametrize(
    ("text", "reused"),
    [
        ("obj-y := a.o b.o\nrest\n", True),
        ("obj-y := a.o\n\nobj-$(CONFIG_C) += c.o # words\nrest\n", True),
        ("obj-y := a.o \\\n\tb.o\nrest\n", True),
        ("parts-objs := b.o\nobj-y := a.o\nrest\n", True),
        ("obj-y := a.o deep/\nrest\n", False),
        ("obj-y := a.o $(wildcard *.o)\nrest\n", False),
        ("obj-y := a.o\nalways-y := b.o\nrest\n", False),
        ("obj-y := a.o\nCFLAGS_a.o := -O1\nrest\n", False),
        ("obj-y := a.o\nREST\n", False),
    ],
)
def test_a_makefile_that_lists_other_objects_leaves_the_folder(
    tmp_path: Path, tree: Path, text: str, reused: bool
) -> None:
    made = {"more/Makefile": "obj-y := a.o\nrest\n"}
    base = record(tree, made)
    build(base, tmp_path / "1")
    job = KernelJob.make(base, "arm64", FRAGMENTS)
    (job.out(places(source.open_tree(str(tree), QUIET), job)[0]) / "more").mkdir()
    _, log = build(record(tree, made | {"more/Makefile": text}), tmp_path / "2")
    assert ("empty folder" not in log) == reused


@pytest.mark.parametrize(
    ("path", "reads"),
    [
        ("drivers/ufs/Kconfig", True),
        ("drivers/ufs/options", True),
        ("scripts/x.c", True),
        ("drivers/ufs/core/ufshcd.c", False),
        ("Documentation/x/y.yaml", False),
    ],
)
def test_what_kconfig_may_read(path: str, reads: bool) -> None:
    assert reuse.read_by_kconfig(path) == reads


def test_a_change_is_read_with_both_modes(tree: Path) -> None:
    old, new = record(tree), record(tree, {"more.h": "#define MORE 2\n", "late/value.h": None})
    kernel = source.open_tree(str(tree), QUIET)
    found = kernel.changes(str(old.git_tree), str(new.git_tree))
    assert [(c.path, c.kind, c.old_mode, c.mode) for c in found] == [
        ("late/value.h", "D", "100644", "000000"),
        ("more.h", "A", "000000", "100644"),
    ]
    assert all(isinstance(change, Change) for change in found)


def test_kept_objects_are_there_again_until_the_source_is_another(
    tree: Path, tmp_path: Path
) -> None:
    def made(one: SourceRecord) -> bool:
        job = KernelJob.make(one, "arm64", FRAGMENTS)
        with kept_objects(job, QUIET, "mine", tmp_path / "log") as (out, make):
            was_there = (out / "mine").is_file()
            (out / "mine").touch()
            make("Image")
            assert (out / "arch/arm64/boot/Image").is_file()
        return was_there

    first = record(tree)
    assert [made(first), made(first)] == [False, True]
    assert not made(record(tree, {"late/value.h": "#define VALUE 9\n"}))


def test_kept_objects_of_a_goal_that_fails_are_not_taken_again(tree: Path, tmp_path: Path) -> None:
    job = KernelJob.make(record(tree), "arm64", FRAGMENTS)
    for _ in range(2):
        with kept_objects(job, QUIET, "mine", tmp_path / "log") as (out, make):
            assert not (out / "mine").exists()
            (out / "mine").touch()
            with pytest.raises(IotollError, match="no_goal"):
                make("no_goal")
