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
from iotoll.core.errors import InfrastructureError, UsageError
from iotoll.core.progress import Progress
from iotoll.kernels import source
from iotoll.patch import candidate
from iotoll.patch import diff as patchtext
from iotoll.records import results
from iotoll.records.models import SelectionRecord, SourceRecord
from iotoll.records.rundir import RunDir
from tests.repository import git, kernel_tree
from tests.unit.kernels.archives import FILES, LINES, diff, opened, stamps
from tests.unit.runs import asked

pytestmark = pytest.mark.usefixtures("cache")
CELLS = ["ufs-4k-randread-t1-direct", "nvme-4k-randread-t1-direct"]
QUIET = Progress(quiet=True)


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


# --- import


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


def test_f7_8_second_run_waits_for_the_tree(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree, _ = opened(archive)
    tree.lock.parent.mkdir(parents=True)
    code = (
        "import fcntl,sys,time\n"
        f"s=open({str(tree.lock)!r},'a'); fcntl.flock(s,fcntl.LOCK_EX)\n"
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
