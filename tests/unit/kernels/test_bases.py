"""On which commit a mailed patch was made: what it states, what its blobs show, what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import BrokenError
from iotoll.kernels import source
from iotoll.patch import candidate, diff
from iotoll.records import results
from iotoll.records.models import SourceRecord
from iotoll.records.rundir import RunDir
from tests.repository import commit, git, kernel_tree, put
from tests.unit.kernels.archives import FILES, LINES
from tests.unit.kernels.test_source import CELLS, QUIET, run_dir

pytestmark = pytest.mark.usefixtures("cache")
UFS = "drivers/ufs/core/ufshcd.c"
NVME = "drivers/nvme/host/pci.c"


@pytest.fixture
def linux(tmp_path: Path) -> Path:
    """main has moved on; v6.12-rc1 is the base of branch topic, which has three commits."""
    folder = kernel_tree(tmp_path / "linux", FILES)
    git(folder, "tag", "v6.12-rc1")
    git(folder, "checkout", "-q", "-b", "topic")
    for number in (2, 3, 4):
        text = (folder / UFS).read_text().replace(f"line {number}\n", f"LINE {number}\n")
        put(folder, UFS, text)
        commit(folder, f"ufs: change line {number}")
    git(folder, "checkout", "-q", "main")
    put(folder, UFS, LINES.replace("line 1\n", "other 1\n"))
    commit(folder, "ufs: main moved on")
    return folder


def series(folder: Path, out: Path, *words: str) -> Path:
    """A mailbox by git format-patch."""
    out.write_text(git(folder, "format-patch", "--stdout", *words) + "\n")
    return out


def base_of(folder: Path, mbox: Path, tmp_path: Path, name: str = "run") -> SourceRecord:
    run = run_dir(tmp_path, str(mbox), folder, name=name)
    return source.prepare(run, QUIET, CELLS)["base"]


def test_a_base_is_found_by_blobs_where_the_mail_names_none(tmp_path: Path, linux: Path) -> None:
    mbox = series(linux, tmp_path / "s.mbox", "v6.12-rc1..topic")
    found = base_of(linux, mbox, tmp_path)
    assert found.commit == git(linux, "rev-parse", "v6.12-rc1^{commit}")
    assert found.base_by == "blobs"
    assert found.base_why is not None
    assert "has all 1 files" in found.base_why


def test_a_patch_of_a_branch_that_is_checked_out_has_its_parent_as_base(
    tmp_path: Path, linux: Path
) -> None:
    git(linux, "checkout", "-q", "topic")
    mbox = series(linux, tmp_path / "s.mbox", "-1", "topic~1")
    found = base_of(linux, mbox, tmp_path)
    assert found.commit == git(linux, "rev-parse", "topic~2")


def test_the_mails_base_and_its_prerequisite_patches(tmp_path: Path, linux: Path) -> None:
    git(linux, "checkout", "-q", "topic")
    mbox = series(linux, tmp_path / "s.mbox", "--base=v6.12-rc1", "topic~1..topic")
    text = mbox.read_text()
    assert text.count("prerequisite-patch-id:") == 2
    found = base_of(linux, mbox, tmp_path)
    assert found.commit == git(linux, "rev-parse", "v6.12-rc1^{commit}")
    assert found.base_by == "mail"
    assert found.git_tree == git(linux, "rev-parse", "topic~1^{tree}")
    assert found.base_why is not None
    assert "2 prerequisite patches" in found.base_why


@pytest.mark.parametrize("claim", ["0" * 39 + "1", "main", "blob"])
def test_a_claim_that_is_not_so_is_said_and_not_taken(
    tmp_path: Path, linux: Path, claim: str
) -> None:
    """A commit that is not there, one with other files, and an object that is no commit."""
    named = {"main": "main", "blob": f"main:{UFS}"}
    value = git(linux, "rev-parse", named[claim]) if claim in named else claim
    mbox = series(linux, tmp_path / "s.mbox", "v6.12-rc1..topic")
    mbox.write_text(mbox.read_text().rstrip("\n") + f"\n\nbase-commit: {value}\n")
    found = base_of(linux, mbox, tmp_path)
    assert found.commit == git(linux, "rev-parse", "v6.12-rc1^{commit}")
    assert found.base_by == "blobs"
    assert found.base_why is not None
    assert f"base-commit {value[:12]} of the mail" in found.base_why


def test_a_base_that_nothing_fits_is_a_guess_and_stays_in_the_record_of_a_failure(
    tmp_path: Path, linux: Path
) -> None:
    mbox = series(linux, tmp_path / "s.mbox", "topic~1..topic")
    git(linux, "branch", "-D", "topic")
    run: RunDir = run_dir(tmp_path, str(mbox), linux)
    with pytest.raises(BrokenError, match="does not apply"):
        source.prepare(run, QUIET, CELLS)
    record = results.read(run.side("base") / "source.json", SourceRecord)
    assert record.base_by == "guess"
    assert record.base_why is not None
    assert "no tag or branch has all 1 files" in record.base_why


def test_an_archives_only_version_is_compared(tmp_path: Path, archive: Path) -> None:
    folder = kernel_tree(tmp_path / "linux", FILES)
    put(folder, UFS, LINES.replace("line 2\n", "LINE 2\n"))
    commit(folder, "ufs: change line 2")
    found = base_of(archive, series(folder, tmp_path / "s.mbox", "-1"), tmp_path)
    assert found.base_by == "blobs"
    assert found.base_why is not None
    assert "has 1 of 1 files" in found.base_why


def test_preimages_are_those_of_the_first_patch_of_a_file_and_of_new_files() -> None:
    def patch(path: str, old: str, index: str) -> bytes:
        head = f"diff --git a/{path} b/{path}\n{index}--- {old}\n+++ b/{path}\n"
        return f"{head}@@ -1 +1 @@\n-a\n+b\n".encode()

    texts = [
        patch("a.c", "a/a.c", "index 1234567..89abcde 100644\n"),
        patch("a.c", "a/a.c", "index 89abcde..1111111 100644\n"),
        patch("new.c", "/dev/null", "new file mode 100644\nindex 0000000..2222222\n"),
        patch("short.c", "a/short.c", "index 12..34 100644\n"),
    ]
    assert diff.preimages(texts, "t") == {"a.c": "1234567", "new.c": ""}


def test_of_several_versions_the_newest_is_taken(tmp_path: Path, linux: Path) -> None:
    first = series(linux, tmp_path / "1.mbox", "v6.12-rc1..topic").read_text()
    second = series(linux, tmp_path / "2.mbox", "-v2", "v6.12-rc1..topic~1").read_text()
    both = tmp_path / "both.mbox"
    both.write_text(f"{second}\n{first}")
    found = candidate.read_series(both)
    assert [patch.subject for patch in found.patches] == [
        "ufs: change line 2",
        "ufs: change line 3",
    ]
    assert found.notes == ("v1 of the series in both.mbox left out: v2 replaces it",)


@pytest.mark.parametrize("kind", ["tree", "archive"])
def test_new_files_alone_fit_any_tree_so_the_base_is_a_guess(
    tmp_path: Path, linux: Path, archive: Path, kind: str
) -> None:
    """Patches of other projects are on the lists as well: blktests, xfstests."""
    put(linux, "tests/nvme/055", "words\n")
    commit(linux, "nvme: test something")
    mbox = series(linux, tmp_path / "s.mbox", "-1")
    git(linux, "reset", "-q", "--hard", "HEAD~1")
    found = base_of(linux if kind == "tree" else archive, mbox, tmp_path)
    assert found.base_by == "guess"
