"""What a build leaves is checked when it is used, and what of a patch is in it is said."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from iotoll.core.digest import file_sha256
from iotoll.gate.conclude import with_coverage
from iotoll.kernels import cache, compiled
from iotoll.kernels.build import is_intact
from iotoll.records import results, sealed
from iotoll.records.models import BuildRecord, SourceRecord
from tests.unit.runs import EXAMPLES, make_run

UFS = "drivers/ufs/core/ufshcd.c"
CHANGE = "+++ b/block/Kconfig.iosched\n+config MQ_IOSCHED_ADIOS\n+\tdefault y\n+config ON_ONE\n"


@pytest.mark.parametrize("name", ["Image", "config", "digests.json"])
def test_f6_4_a_replaced_image_in_the_cache_is_none(tmp_path: Path, name: str) -> None:
    """F6.4: a replaced base Image gave "pass: same kernel image, byte for byte"."""
    final = tmp_path / "images/key"
    with cache.new_entry(final) as entry:
        (entry / "Image").write_bytes(b"kernel")
        (entry / "config").write_text("CONFIG_A=y\n")
    assert cache.is_whole(final)
    (final / name).write_bytes(b"another")
    assert not cache.is_whole(final)
    (final / name).unlink()
    assert not cache.is_whole(final)


def test_an_entry_that_is_whole_stays_where_it_is(tmp_path: Path) -> None:
    """Another build of the same source ended while this one's image was being copied."""
    final = tmp_path / "images/key"
    with cache.new_entry(final) as entry:
        (entry / "Image").write_bytes(b"kernel")
    with (final / "Image").open("rb") as copied:
        with cache.new_entry(final) as entry:
            (entry / "Image").write_bytes(b"kernel")
        assert os.fstat(copied.fileno()).st_nlink == 1
    (final / "Image").write_bytes(b"torn")
    with cache.new_entry(final) as entry:
        (entry / "Image").write_bytes(b"kernel")
    assert cache.is_whole(final)


@pytest.mark.parametrize("again", [True, False], ids=["built again", "found"])
def test_an_old_entry_is_not_pruned_before_it_is_copied(tmp_path: Path, again: bool) -> None:
    """A base was built for make's folder alone; its image was the oldest of a full cache."""
    old = tmp_path / "images/old"
    for name in ("old", *(f"new-{number}" for number in range(cache.KEPT - 1))):
        with cache.new_entry(old.with_name(name)) as entry:
            (entry / "Image").write_bytes(name.encode())
    os.utime(old, (1, 1))
    old.with_name("one-more").mkdir()
    if again:
        with cache.new_entry(old) as entry:
            (entry / "Image").write_bytes(b"old")
    else:
        assert cache.is_whole(old)
        with cache.new_entry(tmp_path / "images/another") as entry:
            (entry / "Image").write_bytes(b"another")
    cache.copy_tree(old, tmp_path / "copy")
    assert (tmp_path / "copy/Image").read_bytes() == b"old"


@pytest.mark.parametrize("name", ["Image", "config"])
def test_f6_8_a_damaged_image_of_a_run_is_noticed(tmp_path: Path, name: str) -> None:
    for one in ("Image", "config"):
        (tmp_path / one).write_bytes(b"built")
    build = results.read(EXAMPLES / "build.json", BuildRecord)
    digest = "9b2a1d07bd46a5ee1dc2bd8ccb1f2fdde07b0a7ae2f1bd34eb2ad1b0c43ac0f5"
    assert not is_intact(tmp_path, build.model_copy(update={"image_sha256": digest, "dtbs": {}}))
    right = file_sha256(tmp_path / "Image")
    changes = {"image_sha256": right, "config_sha256": right, "dtbs": {}}
    good = build.model_copy(update=changes)
    assert is_intact(tmp_path, good)
    (tmp_path / name).write_bytes(b"cut")
    assert not is_intact(tmp_path, good)


def test_f7_2_what_is_not_in_the_kernel_is_named(tmp_path: Path) -> None:
    """F7.2: an option that stays off booted 48 cells and passed."""
    changed = ["block/Kconfig.iosched", "block/Makefile", "block/adios.c", UFS]
    config = "CONFIG_ON_ONE=y\n# CONFIG_MQ_IOSCHED_ADIOS is not set\n"
    found = compiled.find(changed, [UFS, "block/elevator.c"], CHANGE, config)
    assert found.unbuilt == ("block/adios.c",)
    assert found.options == ("MQ_IOSCHED_ADIOS",)
    assert found.steering == ("block/Kconfig.iosched", "block/Makefile")
    assert not found.nothing
    assert "new option MQ_IOSCHED_ADIOS" in found.sentence
    said = "The patch changes how it is built: block/Kconfig.iosched, block/Makefile."
    assert said in found.sentence


def test_f7_2_sources_come_from_makes_own_notes(tmp_path: Path) -> None:
    source, out, folder = (tmp_path / name for name in ("src", "out", "image"))
    for name in ("drivers/a.c", "drivers/b.c", "include/linux/a.h"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    (out / "drivers").mkdir(parents=True)
    (out / "drivers/.a.o.cmd").write_text(
        f"savedcmd_drivers/a.o := gcc -c -o drivers/a.o ../src/drivers/a.c\n"
        f"source_drivers/a.o := ../src/drivers/a.c\ndeps_drivers/a.o := \\\n"
        f"  {source}/include/linux/a.h \\\n  include/generated/autoconf.h \\\n"
    )
    compiled.Notes(out).write_sources(source, folder)
    lines = (folder / compiled.SOURCES).read_text().splitlines()
    assert lines == ["drivers/a.c", "include/linux/a.h"]


@pytest.mark.parametrize("change", ["none", "linked", "rewritten", "gone", "new"])
def test_notes_that_were_read_while_make_links_count_as_they_are_at_the_end(
    tmp_path: Path, change: str
) -> None:
    source, out = tmp_path / "src", tmp_path / "out"
    for name in "pqrst":
        (source / name).mkdir(parents=True)
        (source / f"{name}/{name}.c").touch()

    def note(path: str, of: str) -> None:
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(f"savedcmd_x := gcc\nsource_x := ../src/{of}/{of}.c\n")

    note("p/.p.o.cmd", "p")
    note("init/.version-timestamp.o.cmd", "q")
    note("q/.q.o.cmd", "r")
    notes = compiled.Notes(out)
    notes.gather()
    if change == "linked":
        note("init/.version-timestamp.o.cmd", "s")
    elif change == "rewritten":
        note("q/.q.o.cmd", "s")
        os.utime(out / "q/.q.o.cmd", (1, 1))
    elif change == "gone":
        (out / "q/.q.o.cmd").unlink()
    elif change == "new":
        note("t/.t.o.cmd", "t")
    notes.write_sources(source, tmp_path / "early")
    compiled.Notes(out).write_sources(source, tmp_path / "late")
    for name in (compiled.SOURCES, compiled.HOST_SOURCES):
        found = (tmp_path / "early" / name).read_text()
        assert found == (tmp_path / "late" / name).read_text()
    left = {"none": "pqr", "linked": "prs", "rewritten": "pqs", "gone": "pq", "new": "pqrt"}
    sources = (tmp_path / "early" / compiled.SOURCES).read_text()
    assert sources == "".join(f"{one}/{one}.c\n" for one in left[change])


RUN_BY_MAKE = (
    "arch/arm64/kernel/vdso/gen_vdso_offsets.sh",
    "arch/arm64/tools/cpucaps",
    "arch/arm64/tools/gen-sysreg.awk",
    "kernel/time/timeconst.bc",
    "lib/vdso/Makefile.include",
    "scripts/mod/modpost.c",
    "security/selinux/policy.pl",
    "tools/include/linux/types.h",
)


@pytest.mark.parametrize("path", RUN_BY_MAKE)
def test_f6_3_whatever_the_build_runs_is_named(path: str) -> None:
    """Seen after 7dcac24: a changed awk script ran in the build, and the note said that nothing of
    the patch is in the kernel."""
    found = compiled.find([path, UFS], [UFS], "", "")
    assert found.steering == (path,) and found.unbuilt == ()


def test_f6_3_programs_that_make_compiles_and_runs_are_named(tmp_path: Path) -> None:
    source, out = tmp_path / "src", tmp_path / "out"
    for name in ("lib/gen_crc32table.c", "lib/crc32.c", "include/both.h"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("")
    (out / "lib").mkdir(parents=True)
    both = f"deps_x := \\\n  {source}/include/both.h \\\n"
    (out / "lib/.gen_crc32table.cmd").write_text(
        "savedcmd_lib/gen_crc32table := ccache gcc -Wp,-MMD,lib/.gen_crc32table.d -Wall"
        f" -I ./lib -o lib/gen_crc32table ../src/lib/gen_crc32table.c\n{both}"
    )
    (out / "lib/.crc32.o.cmd").write_text(
        "savedcmd_lib/crc32.o := ccache gcc -Wp,-MMD,lib/.crc32.o.d -D__KERNEL__ -c"
        f" -o lib/crc32.o ../src/lib/crc32.c\n{both}"
    )
    run = make_run(tmp_path / "run")
    for side in ("base", "candidate"):
        compiled.Notes(out).write_sources(source, run.build(side))
    # What a candidate left may be forged: the base's own list says the same.
    (run.build("candidate") / compiled.HOST_SOURCES).write_bytes(b"\xff\n")
    path = run.side("candidate") / "source.json"
    changed = ["lib/gen_crc32table.c", "lib/crc32.c", "include/both.h"]
    record = results.read(path, SourceRecord)
    results.write(path, record.model_copy(update={"changed_paths": changed}))
    found = compiled.of_run(run)
    assert found is not None
    assert found.steering == ("lib/gen_crc32table.c", "include/both.h")
    assert found.unbuilt == ()


def test_f6_3_a_build_that_removes_its_list_of_sources_is_still_named(tmp_path: Path) -> None:
    """Seen after 7dcac24: without that list, which a build may remove, no makefile was named."""
    run = make_run(tmp_path / "run")
    path = run.side("candidate") / "source.json"
    record = results.read(path, SourceRecord)
    changed = [UFS, "drivers/ufs/core/Makefile"]
    results.write(path, record.model_copy(update={"changed_paths": changed}))
    for name in (compiled.SOURCES, "config"):
        (run.build("candidate") / name).unlink(missing_ok=True)
    found = compiled.of_run(run)
    assert found is not None
    assert found.steering == ("drivers/ufs/core/Makefile",)
    assert found.unbuilt == () and found.options == ()


def test_a_list_of_sources_that_is_no_text_is_read(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run.build("candidate") / compiled.SOURCES).write_bytes(b"\xff\xfe\0")
    assert compiled.of_run(run) is not None


def test_f6_3_and_f7_2_a_verdict_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    path = run.side("candidate") / "source.json"
    source = results.read(path, SourceRecord)
    for paths, words in (
        (
            ["drivers/rk.c"],
            "Nothing of this patch is in the board's kernel: drivers/rk.c. No section costs more.",
        ),
        (
            [UFS, "drivers/ufs/core/Makefile"],
            "No section costs more. The patch changes how it is built: drivers/ufs/core/Makefile.",
        ),
    ):
        results.write(path, source.model_copy(update={"changed_paths": paths}))
        results.write_text(run.build("candidate") / compiled.SOURCES, f"{UFS}\n")
        said = with_coverage(run, "No section costs more.", ["w"])
        assert said["sentence"] == words
        assert said["warnings"][-1] == "w" and words[:20] not in " ".join(said["warnings"])
    results.write(path, source.model_copy(update={"changed_paths": [UFS]}))
    assert with_coverage(run, "Fine.", []) == {"sentence": "Fine.", "warnings": []}


def test_f6_8_a_damaged_change_is_not_read_and_that_is_said(tmp_path: Path) -> None:
    """F6.8: a damaged change.diff was not noticed."""
    run = make_run(tmp_path / "run", candidate_kind="patch")
    text = CHANGE.encode()
    run.change.write_bytes(text)
    path = run.side("candidate") / "source.json"
    record = results.read(path, SourceRecord)
    digest = hashlib.sha256(text).hexdigest()
    results.write(path, record.model_copy(update={"change_sha256": digest}))
    (run.build("candidate") / compiled.SOURCES).write_text(f"{UFS}\n")
    (run.build("candidate") / "config").write_text("CONFIG_BLOCK=y\n")
    assert sealed.change(run) == text
    found = compiled.of_run(run)
    assert found is not None and "MQ_IOSCHED_ADIOS" in found.options and not found.damaged
    run.change.write_bytes(text[:-4])
    assert sealed.change(run) is None
    found = compiled.of_run(run)
    assert found is not None and found.options == ()
    assert any("change.diff is not what was applied" in line for line in found.notes)
