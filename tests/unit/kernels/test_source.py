"""Kernel trees, on a tiny fake one: import, exact states with few touched files, patches, sides."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from rich.console import Console

from iotoll.core.digest import file_sha256
from iotoll.core.errors import BrokenError, InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.kernels import source
from iotoll.kernels.tree import KernelTree
from iotoll.patch import candidate
from iotoll.patch import diff as patchtext
from iotoll.patch.candidate import Patch
from iotoll.records import results
from iotoll.records.models import SelectionRecord, SourceRecord
from iotoll.records.rundir import RunDir
from tests.repository import git, kernel_tree
from tests.unit.runs import asked

CELLS = ["ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"]
LINES = "".join(f"line {n}\n" for n in range(1, 31))
FILES = {
    "Makefile": "# x\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 99\nEXTRAVERSION = -rc1\nNAME = X\n",
    "drivers/ufs/core/ufshcd.c": LINES,
    'drivers/ufs/core/a "b".c': "odd name\n",
    "drivers/nvme/host/pci.c": LINES,
    "scripts/run.sh": "#!/bin/sh\n",
    "Documentation/x.rst": "words\n",
    ".gitignore": "*.o\n*.tmp\n",
    "kept.o": "ignored by .gitignore, but part of the source\n",
}
QUIET = Progress(quiet=True)


def diff(path: str, old: str = "line 15", new: str = "LINE 15", around: int = 1) -> str:
    number = int(old.split()[1])
    before = "".join(f" line {n}\n" for n in range(number - around, number))
    after = "".join(f" line {n}\n" for n in range(number + 1, number + around + 1))
    size = 2 * around + 1
    return (
        f"--- a/{path}\n+++ b/{path}\n@@ -{number - around},{size} +{number - around},{size} @@\n"
        f"{before}-{old}\n+{new}\n{after}"
    )


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("IOTOLL_CACHE", str(folder))
    return folder


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "linux-source-6.12.tar.xz"
    with tarfile.open(path, "w:xz") as tar:
        for name, text in FILES.items():
            info = tarfile.TarInfo(f"linux-source-6.12/{name}")
            info.size = len(text.encode())
            info.mode = 0o755 if name.endswith(".sh") else 0o644
            tar.addfile(info, io.BytesIO(text.encode()))
        link = tarfile.TarInfo("linux-source-6.12/link")
        link.type, link.linkname = tarfile.SYMTYPE, "Makefile"
        tar.addfile(link)
    return path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = kernel_tree(tmp_path / "linux", FILES)
    git(folder, "checkout", "-q", "-b", "topic")
    (folder / "drivers/ufs/core/ufshcd.c").write_text(LINES.replace("line 3", "LINE 3"))
    git(folder, "commit", "-q", "-am", "ufs: first")
    (folder / "drivers/nvme/host/pci.c").write_text(LINES.replace("line 4", "LINE 4"))
    git(folder, "commit", "-q", "-am", "nvme: second")
    git(folder, "checkout", "-q", "main")
    return folder


def opened(name: Path) -> tuple[KernelTree, str]:
    tree = source.open_tree(str(name), QUIET)
    return tree, tree.tree_of("base")


def run_dir(
    tmp_path: Path,
    words: str | None,
    tree: Path | None,
    base: str | None = None,
    cells: list[str] | None = None,
    name: str = "run",
) -> RunDir:
    choice = candidate.classify(words, tree=str(tree) if tree else None, base=base)
    run = RunDir(tmp_path / name)
    results.write(run.root / "run.json", asked(choice, cells=cells))
    return run


def stamps(folder: Path) -> dict[str, int]:
    return {
        str(p.relative_to(folder)): p.lstat().st_mtime_ns for p in folder.rglob("*") if p.is_file()
    }


def age(folder: Path) -> None:
    """Give all files an old time, as a checkout long ago would have."""
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)


# --- import and checkout


def test_archive_is_imported_whole_and_exactly(archive: Path) -> None:
    tree, base = opened(archive)
    tree.checkout(base)
    for name, text in FILES.items():
        assert (tree.src / name).read_text() == text
    assert (tree.src / "link").readlink() == Path("Makefile")
    assert os.access(tree.src / "scripts/run.sh", os.X_OK)
    assert tree.version(base) == "6.12.99-rc1"


def test_the_digest_of_an_archive_is_noted_until_it_changes(
    archive: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    right = file_sha256(archive)
    assert source.archive_sha256(archive) == right
    assert not (cache / "archives").exists(), "it was written just now"
    monkeypatch.setattr(source, "_SETTLED", -1.0)
    assert source.archive_sha256(archive) == right
    monkeypatch.setattr(source, "file_sha256", lambda path: "again")
    assert source.archive_sha256(archive) == right
    (note,) = (cache / "archives").iterdir()
    note.write_text(right[:20])
    assert source.archive_sha256(archive) == "again", "a torn note is none"
    note.write_text(right)
    facts = archive.stat()
    archive.write_bytes(archive.read_bytes()[:-1] + b"x")
    os.utime(archive, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert source.archive_sha256(archive) == "again", "its times were set back"


def test_an_interrupted_import_does_not_count(archive: Path, cache: Path) -> None:
    located = source.locate(str(archive))
    unfinished = located.tree.root / "git.unfinished"
    unfinished.mkdir(parents=True)
    (unfinished / "garbage").touch()
    tree, base = opened(archive)
    assert tree.has(base)


def test_corrupt_archive(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(UsageError, match="cannot be unpacked"):
        opened(archive)


def test_archive_that_is_no_kernel(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo("x/readme"), io.BytesIO(b""))
    with pytest.raises(UsageError, match="not a Linux kernel tree"):
        source.prepare(run_dir(tmp_path, None, path), QUIET, CELLS)


@pytest.mark.parametrize("moves", [False, True])
def test_only_files_that_differ_are_touched(archive: Path, moves: bool) -> None:
    tree, base = opened(archive)
    tree.checkout(base)
    age(tree.src)
    tree.git("update-index", "-q", "--refresh", check=False)
    before = stamps(tree.src)
    one = tree.apply(base, [Patch("", diff("drivers/ufs/core/ufshcd.c").encode())], "x").tree
    two = tree.apply(base, [Patch("", diff("drivers/nvme/host/pci.c").encode())], "x").tree
    assert stamps(tree.src) == before, "applying must not touch the work tree"
    both = ["drivers/nvme/host/pci.c", "drivers/ufs/core/ufshcd.c"]
    if moves:
        assert tree.move(base, one) == both[1:]
    else:
        tree.checkout(one)
    after = stamps(tree.src)
    assert {n for n in before if before[n] != after[n]} == {"drivers/ufs/core/ufshcd.c"}
    if moves:
        assert tree.move(one, two) == both
    else:
        tree.checkout(two)
    final = stamps(tree.src)
    assert {n for n in after if after[n] != final[n]} == set(both)
    assert tree.is_as_noted()


def test_a_torn_work_tree_is_put_right(archive: Path) -> None:
    tree, base = opened(archive)
    tree.checkout(base)
    assert tree.is_as_noted()
    (tree.src / "drivers/ufs/core/ufshcd.c").write_text("half writ")
    assert not tree.is_as_noted()
    (tree.src / "Documentation/x.rst").unlink()
    (tree.src / "stray.tmp").touch()
    (tree.src / "stray").mkdir()
    (tree.src / "stray" / "x.c").touch()
    (tree.git_dir / "index.lock").touch()
    tree.checkout(base)
    names = {str(p.relative_to(tree.src)) for p in tree.src.rglob("*") if not p.is_dir()}
    assert names == {*FILES, "link"}
    assert (tree.src / "drivers/ufs/core/ufshcd.c").read_text() == LINES
    assert tree.is_as_noted()


@pytest.mark.parametrize("name", ["stray.h", ".hidden", "include/stray.h", "ignored.o"])
def test_a_file_that_git_does_not_know_is_noticed(archive: Path, name: str) -> None:
    tree, base = opened(archive)
    tree.checkout(base)
    (tree.src / name).parent.mkdir(exist_ok=True)
    (tree.src / name).touch()
    assert not tree.is_as_noted()


def test_an_index_of_another_tree_is_no_ground_to_move_from(archive: Path) -> None:
    tree, base = opened(archive)
    one = tree.apply(base, [Patch("", diff("drivers/ufs/core/ufshcd.c").encode())], "x").tree
    two = tree.apply(base, [Patch("", diff("drivers/nvme/host/pci.c").encode())], "x").tree
    assert tree.move("", one) is None
    tree.checkout(one)
    again = tree.apply(base, [Patch("", diff("drivers/nvme/host/pci.c").encode())], "x").tree
    assert again == two, "src/ is of another one"
    assert tree.move(base, two) is None
    tree.checkout(two)
    assert (tree.src / "drivers/ufs/core/ufshcd.c").read_text() == LINES
    assert (tree.src / "drivers/nvme/host/pci.c").read_text() != LINES


def test_f7_7_where_a_patch_fits_with_fuzz_is_named(archive: Path) -> None:
    """F7.7: "needed fuzz" named no file."""
    tree, base = opened(archive)
    text = diff("drivers/ufs/core/ufshcd.c", around=3).replace(" line 12\n", " line twelve\n")
    (note,) = tree.apply(base, [Patch("do x", text.encode())], "x").notes
    assert note.startswith('the patch "do x" needed fuzz to apply: drivers/ufs/core/ufshcd.c: ')


def test_f7_7_what_is_already_applied_is_said_first(archive: Path) -> None:
    """F7.7: it stood at the end of what the tools said."""
    tree, base = opened(archive)
    patch = Patch("do x", diff("drivers/ufs/core/ufshcd.c").encode())
    there = tree.apply(base, [patch], "x").tree
    with pytest.raises(BrokenError) as caught:
        tree.apply(there, [patch], "Linux 6.12.99")
    told = 'the patch "do x" is already in Linux 6.12.99: name another --base, or drop it'
    assert str(caught.value) == told


def test_f7_7_a_patch_for_another_kernel_says_how_many_files_fail(archive: Path) -> None:
    """F7.7: only the tail of what the tools said was shown."""
    tree, base = opened(archive)
    one = diff("drivers/ufs/core/ufshcd.c", "LION 15")
    text = one + diff("drivers/gone.c") + diff("drivers/lost.c")
    with pytest.raises(BrokenError, match=r"3 of 3 files fail \(drivers/gone\.c, drivers/lost\.c"):
        tree.apply(base, [Patch("do x", text.encode())], "Linux 6.12.99")


def test_f7_8_second_run_waits_for_the_tree(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, _ = opened(archive)
    code = (
        "import fcntl,sys,time\n"
        f"s=open({str(tree.root / 'lock')!r},'a'); fcntl.flock(s,fcntl.LOCK_EX)\n"
        "print('held',flush=True); time.sleep(0.7)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    stream = io.StringIO()
    started = time.monotonic()
    with tree.locked(Progress(console=Console(file=stream))), tree.locked(QUIET):
        assert time.monotonic() - started > 0.3
    assert "waiting" in stream.getvalue()
    holder.wait()


# --- patches


def test_patch_that_does_not_apply_is_broken_with_gits_own_words(archive: Path) -> None:
    tree, base = opened(archive)
    bad = Patch(
        "do x", diff("drivers/ufs/core/ufshcd.c", "line 15").replace("line", "LION").encode()
    )
    with pytest.raises(BrokenError) as caught:
        tree.apply(base, [bad], "Linux 6.12.99")
    assert caught.value.step == "apply"
    assert 'the patch "do x" does not apply to Linux 6.12.99' in str(caught.value)
    assert "drivers/ufs/core/ufshcd.c" in caught.value.log_tail
    assert "\n" not in str(caught.value)


def test_patch_to_a_file_that_is_not_there(archive: Path) -> None:
    tree, base = opened(archive)
    with pytest.raises(BrokenError, match=r"gone\.c"):
        tree.apply(base, [Patch("", diff("drivers/gone.c").encode())], "x")


def test_corrupt_patch_is_broken(archive: Path) -> None:
    tree, base = opened(archive)
    text = diff("drivers/ufs/core/ufshcd.c").replace("-14,3 +14,3", "-14,9 +14,9")
    with pytest.raises(BrokenError):
        tree.apply(base, [Patch("", text.encode())], "x")


def test_a_patch_may_need_the_one_before_it(archive: Path) -> None:
    tree, base = opened(archive)
    first = Patch("a", diff("drivers/ufs/core/ufshcd.c").encode())
    second = Patch("b", diff("drivers/ufs/core/ufshcd.c").replace("-line 15", "-LINE 15").encode())
    with pytest.raises(BrokenError, match='patch 1 of 2 "b"'):
        tree.apply(base, [second, first], "x")
    assert list(tree.changed(base, tree.apply(base, [first, first][:1], "x").tree)) == [
        "drivers/ufs/core/ufshcd.c"
    ]


def test_fuzz_is_allowed_and_noted(archive: Path) -> None:
    tree, base = opened(archive)
    text = diff("drivers/ufs/core/ufshcd.c", around=3).replace(" line 12\n", " line twelve\n")
    applied = tree.apply(base, [Patch("", text.encode())], "x")
    assert len(applied.notes) == 1 and "fuzz 1" in applied.notes[0]
    done = tree.git("cat-file", "blob", f"{applied.tree}:drivers/ufs/core/ufshcd.c")
    assert done.stdout.decode() == LINES.replace("line 15", "LINE 15")
    # Nothing else may have changed on the way, modes and odd names included.
    assert tree.changed(base, applied.tree) == {"drivers/ufs/core/ufshcd.c": "100644"}


def test_create_delete_rename(archive: Path) -> None:
    tree, base = opened(archive)
    text = (
        "diff --git a/new.c b/new.c\nnew file mode 100644\n--- /dev/null\n+++ b/new.c\n"
        "@@ -0,0 +1 @@\n+x\n"
        "diff --git a/Documentation/x.rst b/Documentation/y.rst\nsimilarity index 100%\n"
        "rename from Documentation/x.rst\nrename to Documentation/y.rst\n"
    )
    changed = tree.changed(base, tree.apply(base, [Patch("", text.encode())], "x").tree)
    assert changed == {
        "new.c": "100644",
        "Documentation/x.rst": "000000",
        "Documentation/y.rst": "100644",
    }


# --- prepare


def test_prepare_a_patch(tmp_path: Path, archive: Path) -> None:
    patch = tmp_path / "p.patch"
    patch.write_text(diff("drivers/ufs/core/ufshcd.c"))
    run = run_dir(tmp_path, str(patch), archive)
    records = source.prepare(run, QUIET, CELLS)
    base, cand = records["base"], records["candidate"]
    assert base.version == cand.version == "6.12.99-rc1"
    assert base.tree_sha256 == cand.tree_sha256 and base.commit is None
    assert cand.changed_paths == ["drivers/ufs/core/ufshcd.c"]
    assert base.git_tree != cand.git_tree
    assert results.read(run.side("candidate") / "source.json", SourceRecord) == cand
    chosen = results.read(run.selection, SelectionRecord)
    assert [c.cell for c in chosen.cells] == CELLS[:1]
    assert (run.side("candidate") / "patches" / "0001.patch").read_text() == patch.read_text()
    (hunk,) = patchtext.hunks(run.change.read_bytes(), "change.diff")
    assert (hunk.path, hunk.added) == ("drivers/ufs/core/ufshcd.c", 1)
    tree = source.open_tree(str(archive), QUIET)
    tree.checkout(str(cand.git_tree))
    lines = (tree.src / hunk.path).read_text().splitlines()
    assert lines[hunk.line - 1] == "LINE 15"


def test_prepare_resumes_without_the_patch_and_notices_another_one(
    tmp_path: Path, archive: Path, cache: Path
) -> None:
    patch = tmp_path / "p.patch"
    patch.write_text(diff("drivers/ufs/core/ufshcd.c"))
    run = run_dir(tmp_path, str(patch), archive)
    first = source.prepare(run, QUIET, CELLS)
    patch.write_text(diff("drivers/nvme/host/pci.c"))
    second = source.prepare(run, QUIET, CELLS)
    assert second["candidate"].changed_paths == ["drivers/nvme/host/pci.c"]
    assert second != first
    patch.unlink()
    assert source.prepare(run, QUIET, CELLS) == second


def test_prepare_again_after_the_cache_was_emptied(
    tmp_path: Path, archive: Path, cache: Path
) -> None:
    patch = tmp_path / "p.patch"
    patch.write_text(diff("drivers/ufs/core/ufshcd.c"))
    run = run_dir(tmp_path, str(patch), archive)
    first = source.prepare(run, QUIET, CELLS)
    subprocess.run(["rm", "-rf", str(cache)], check=True)
    assert source.prepare(run, QUIET, CELLS) == first
    assert source.open_tree(str(archive), QUIET).has(first["candidate"].git_tree)


def test_prepare_a_revision_and_a_range_of_the_users_tree(tmp_path: Path, repository: Path) -> None:
    before = stamps(repository)
    one = source.prepare(run_dir(tmp_path, "topic", repository, name="one"), QUIET, CELLS)
    assert one["candidate"].changed_paths == ["drivers/nvme/host/pci.c"]
    assert one["candidate"].patch_subjects == ["nvme: second"]
    assert one["base"].commit == git(repository, "rev-parse", "topic^")
    two = source.prepare(run_dir(tmp_path, "main..topic", repository, name="two"), QUIET, CELLS)
    assert two["candidate"].patch_subjects == ["ufs: first", "nvme: second"]
    assert two["candidate"].changed_paths == [
        "drivers/nvme/host/pci.c",
        "drivers/ufs/core/ufshcd.c",
    ]
    tree = source.open_tree(str(repository), QUIET)
    tree.checkout(str(two["candidate"].git_tree))
    assert "LINE 4" in (tree.src / "drivers/nvme/host/pci.c").read_text()
    whole = RunDir(tmp_path / "two").change.read_bytes()
    assert patchtext.changed_paths(whole, "change.diff") == two["candidate"].changed_paths
    assert stamps(repository) == before, "the user's tree must not be written"
    assert git(repository, "status", "--porcelain") == ""


def test_range_starts_at_the_common_ancestor(tmp_path: Path, repository: Path) -> None:
    fork = git(repository, "rev-parse", "main")
    (repository / "Documentation/x.rst").write_text("more\n")
    git(repository, "commit", "-q", "-am", "main moved on")
    records = source.prepare(run_dir(tmp_path, "main..topic", repository), QUIET, CELLS)
    assert records["base"].commit == fork
    assert "Documentation/x.rst" not in records["candidate"].changed_paths


def test_patch_on_the_users_tree_uses_head_or_base(tmp_path: Path, repository: Path) -> None:
    patch = tmp_path / "p.patch"
    patch.write_text(diff("drivers/ufs/core/ufshcd.c"))
    head = source.prepare(run_dir(tmp_path, str(patch), repository, name="a"), QUIET, CELLS)
    assert head["base"].commit == git(repository, "rev-parse", "main")
    other = run_dir(tmp_path, str(patch), repository, base="topic", name="b")
    assert source.prepare(other, QUIET, CELLS)["base"].commit == git(
        repository, "rev-parse", "topic"
    )


def test_uncommitted_changes_are_named(tmp_path: Path, repository: Path) -> None:
    (repository / "Documentation/x.rst").write_text("edited\n")
    records = source.prepare(run_dir(tmp_path, "topic", repository), QUIET, CELLS)
    assert "uncommitted changes" in records["candidate"].notes[0]


@pytest.mark.parametrize("words", ["nope", "--version", "main..nope", "HEAD:Makefile"])
def test_revision_that_is_not_there(tmp_path: Path, repository: Path, words: str) -> None:
    with pytest.raises(UsageError, match="no such commit"):
        source.prepare(run_dir(tmp_path, words, repository), QUIET, CELLS)


def test_range_without_common_ancestor(tmp_path: Path, repository: Path) -> None:
    git(repository, "checkout", "-q", "--orphan", "alone")
    git(repository, "commit", "-q", "-m", "alone")
    with pytest.raises(UsageError, match="no common ancestor"):
        source.prepare(run_dir(tmp_path, "main..alone", repository), QUIET, CELLS)


def test_base_of_an_archive(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(UsageError, match="archive with one version"):
        source.prepare(run_dir(tmp_path, None, archive, base="v6.1"), QUIET, CELLS)


def test_measure_has_one_side_and_images_have_none(tmp_path: Path, archive: Path) -> None:
    assert list(source.prepare(run_dir(tmp_path, None, archive), QUIET, CELLS)) == ["base"]
    run = run_dir(tmp_path, None, archive, name="images")
    manifest = run.manifest.model_copy(update={"tree": None, "base": "/x/Image"})
    results.write(run.root / "run.json", manifest)
    run = RunDir(run.root)  # a manifest is read once
    assert source.prepare(run, QUIET, CELLS) == {}
    assert results.read(run.selection, SelectionRecord).full_matrix


def test_cells_asked_for_by_hand(tmp_path: Path, archive: Path) -> None:
    run = run_dir(tmp_path, None, archive, cells=CELLS[1:])
    source.prepare(run, QUIET, CELLS)
    chosen = results.read(run.selection, SelectionRecord)
    assert [c.cell for c in chosen.cells] == CELLS[1:]


# --- finding trees


def test_newest_debian_source_wins_and_old_ones_are_ignored(tmp_path: Path, archive: Path) -> None:
    folder = tmp_path / "src"
    folder.mkdir()
    for version in ("6.1", "6.6", "6.12", "5.10"):
        (folder / f"linux-source-{version}.tar.xz").write_bytes(version.encode())
    assert source.locate("debian", folder).archive == folder / "linux-source-6.12.tar.xz"
    for version in ("6.6", "6.12"):
        (folder / f"linux-source-{version}.tar.xz").unlink()
    with pytest.raises(InfrastructureError, match="apt-get install linux-source"):
        source.locate("debian", folder)


def test_a_version_of_debians_sources_can_be_named(tmp_path: Path) -> None:
    for version in ("6.1", "6.12"):
        (tmp_path / f"linux-source-{version}.tar.xz").write_bytes(version.encode())
    assert source.locate("debian-6.1", tmp_path).archive == tmp_path / "linux-source-6.1.tar.xz"
    with pytest.raises(InfrastructureError, match=r"apt-get install linux-source-6\.6, or"):
        source.locate("debian-6.6", tmp_path)
    (tmp_path / "linux-source-6.1.tar.xz").unlink()
    with pytest.raises(InfrastructureError, match=r"linux-source-6\.1 \(Debian 12 has it\), or"):
        source.locate("debian-6.1", tmp_path)


def test_folder_without_git_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="git init"):
        source.locate(str(tmp_path))


def test_trailers_of_revisions_and_patches_are_recorded(tmp_path: Path, repository: Path) -> None:
    git(repository, "checkout", "-q", "topic")
    message = "nvme: second\n\nIt costs.\n\nIotoll-Accept: nvme-* submission +20 it costs\n"
    git(repository, "commit", "-q", "--amend", "-m", message)
    git(repository, "checkout", "-q", "main")
    found = source.prepare(run_dir(tmp_path, "main..topic", repository, name="one"), QUIET, CELLS)
    assert found["candidate"].accepts == ["nvme-* submission +20 it costs"]
    assert found["base"].accepts is None
    mail = tmp_path / "topic.patch"
    mail.write_text(git(repository, "format-patch", "--stdout", "-1", "topic"))
    run = run_dir(tmp_path, str(mail), repository, name="two")
    made = source.prepare(run, QUIET, CELLS)
    assert made["candidate"].accepts == ["nvme-* submission +20 it costs"]
