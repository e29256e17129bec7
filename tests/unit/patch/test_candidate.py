"""Which candidate the command line means, and what is refused before git ever sees it."""

from __future__ import annotations

import base64
import gzip
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotoll.core.errors import UsageError
from iotoll.patch import candidate, diff
from iotoll.patch import mail as mails
from tests.unit.runs import asked

DIFF = """\
diff --git a/drivers/ufs/core/ufshcd.c b/drivers/ufs/core/ufshcd.c
index 111..222 100644
--- a/drivers/ufs/core/ufshcd.c
+++ b/drivers/ufs/core/ufshcd.c
@@ -1,3 +1,3 @@
 one
-two
+TWO
 three
"""


def mail(subject: str, body: str, headers: str = "") -> str:
    return (
        "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n"
        f"From: A Dev <dev@example.org>\nSubject: {subject}\n{headers}\n{body}\n-- \n2.39.5\n\n"
    )


def file_diff(path: str) -> str:
    return DIFF.replace("drivers/ufs/core/ufshcd.c", path)


def write(folder: Path, text: str, name: str = "x.patch") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def load(path: Path) -> candidate.Candidate:
    return candidate.load(asked(candidate.classify(str(path))))


def test_plain_diff_is_a_patch_without_subject(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, DIFF))
    assert loaded.kind == "patch"
    assert loaded.subjects == ()
    assert loaded.changed_paths == ("drivers/ufs/core/ufshcd.c",)
    assert loaded.patches[0].text == DIFF.encode()


def test_git_format_patch_gives_its_subject_without_the_prefix(tmp_path: Path) -> None:
    path = write(tmp_path, mail("[PATCH v2] scsi: ufs: Do\n less", "Why.\n---\n" + DIFF))
    loaded = load(path)
    assert loaded.kind == "patch"
    assert loaded.subjects == ("scsi: ufs: Do less",)
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_series_is_ordered_by_number_and_cover_letter_and_replies_are_left_out(
    tmp_path: Path,
) -> None:
    text = (
        mail("[PATCH 2/2] second", file_diff("drivers/nvme/host/pci.c"))
        + mail("[PATCH 0/2] cover", " a.c | 2 +-\n")
        + mail("Re: [PATCH 1/2] first", "> " + DIFF + "\nLooks good\n\n" + DIFF)
        + mail("[PATCH 1/2] first", DIFF)
    )
    loaded = load(write(tmp_path, text, "s.mbox"))
    assert loaded.kind == "mbox"
    assert loaded.subjects == ("first", "second")
    assert loaded.changed_paths == ("drivers/nvme/host/pci.c", "drivers/ufs/core/ufshcd.c")


def test_series_without_numbers_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, mail("[PATCH] b", DIFF) + mail("[PATCH] a", file_diff("x.c"))))
    assert loaded.subjects == ("b", "a")


def test_gzipped_mailbox_as_lore_serves_it(tmp_path: Path) -> None:
    path = tmp_path / "t.mbox.gz"
    path.write_bytes(gzip.compress(mail("[PATCH] a", DIFF).encode()))
    assert load(path).subjects == ("a",)


def test_base64_body_and_crlf_are_decoded(tmp_path: Path) -> None:
    body = base64.encodebytes(DIFF.replace("\n", "\r\n").encode()).decode()
    headers = "Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: base64\n"
    text = f"From: A <a@example.org>\nSubject: [PATCH] =?utf-8?q?caf=C3=A9?=\n{headers}\n{body}"
    loaded = load(write(tmp_path, text))
    assert loaded.subjects == ("café",)
    assert loaded.patches[0].text == DIFF.encode()


def test_from_inside_a_message_does_not_split_it(tmp_path: Path) -> None:
    body = "Story.\n\nFrom here on it is slow in 2024\nFrom now on\n---\n" + DIFF
    assert load(write(tmp_path, mail("[PATCH] a", body))).subjects == ("a",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "holds no change"),
        ("just words\n", "holds no change"),
        (mail("[PATCH 1/3] a", DIFF) + mail("[PATCH 3/3] c", DIFF), "patch 2/3 is missing"),
        (mail("[PATCH] a", DIFF) + mail("[PATCH] b", "cut"), 'patch "b" has no diff'),
        (mail("[PATCH v1] a", DIFF) + mail("[PATCH v2] a", "cut"), 'patch "a" has no diff'),
        (mail("[PATCH v1] a", DIFF) + mail("[PATCH v2 1/2] a", DIFF), "patch 2/2 is missing"),
        (mail("[PATCH 1/1] a", DIFF) + mail("[PATCH 1/1] a", DIFF), "patch 1 twice"),
        (DIFF.replace("100644", "120000"), "symbolic link"),
        ("diff --git a/l b/l\nnew file mode 120000\n", "symbolic link"),
        ("diff --git a/m b/m\nnew file mode 160000\n", "submodule"),
        ("diff --git a/b b/b\nindex 1..2\nGIT binary patch\nliteral 1\n", "binary"),
        ("diff --git a/b b/b\nindex 1..2\nBinary files a/b and b/b differ\n", "binary"),
        (file_diff("../../etc/passwd"), "leaves the kernel tree"),
        (file_diff("drivers/../../x"), "leaves the kernel tree"),
        (file_diff(".git/hooks/post-checkout"), "leaves the kernel tree"),
        (file_diff("/etc/passwd"), "leaves the kernel tree"),
    ],
)
def test_what_is_refused_and_how_it_is_said(tmp_path: Path, text: str, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        candidate.classify(str(path))
    assert words in str(caught.value)
    assert "x.patch" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rename_delete_create_and_mode_change_name_their_paths() -> None:
    text = (
        "diff --git a/old name.c b/new.c\nsimilarity index 100%\n"
        "rename from old name.c\nrename to new.c\n"
        "diff --git a/gone.c b/gone.c\ndeleted file mode 100644\n"
        "--- a/gone.c\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
        "diff --git a/born.c b/born.c\nnew file mode 100644\n"
        "--- /dev/null\n+++ b/born.c\n@@ -0,0 +1,2 @@\n+--- a/not-a-path.c\n++++ b/nor-this.c\n"
        "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
        'diff --git "a/caf\\303\\251.c" "b/caf\\303\\251.c"\nold mode 100644\nnew mode 100755\n'
    )
    names = ["born.c", "café.c", "gone.c", "new.c", "old name.c", "run.sh"]
    assert diff.changed_paths(text.encode(), "t") == names


def test_plain_diff_with_time_stamps() -> None:
    names = b"--- linux.orig/block/bio.c\t2026-01-01\n+++ linux/block/bio.c\t2026-01-02\n"
    assert diff.changed_paths(names + b"@@ -1 +1 @@\n-a\n+b\n", "t") == ["block/bio.c"]


@given(st.binary(max_size=400))
def test_no_bytes_make_the_reader_fail_otherwise_than_by_refusing(noise: bytes) -> None:
    for text in (noise, DIFF.encode() + noise, noise + DIFF.encode()):
        try:
            diff.changed_paths(text, "t")
            mails.looks_like_mail(text)
            mails.mails(text)
        except UsageError:
            pass


def test_binary_file_is_no_patch(tmp_path: Path) -> None:
    path = tmp_path / "Image"
    path.write_bytes(b"MZ\0\0")
    with pytest.raises(UsageError, match="binary file"):
        candidate.classify(str(path))


def test_revision_and_range_need_a_tree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--tree"):
        candidate.classify("HEAD")
    tree = str(tmp_path)
    revision = candidate.load(asked(candidate.classify("topic", tree=tree)))
    assert (revision.kind, revision.base, revision.revision) == ("revision", "topic^", "topic")
    based = candidate.load(asked(candidate.classify("topic", tree=tree, base="v6.12")))
    assert based.base == "v6.12"
    ranged = candidate.load(asked(candidate.classify("v6.12..topic", tree=tree)))
    assert (ranged.kind, ranged.base, ranged.revision) == ("range", "v6.12", "topic")
    open_end = candidate.load(asked(candidate.classify("v6.12...", tree=tree)))
    assert open_end.revision == "HEAD"


@pytest.mark.parametrize("words", ["..topic", "a..b..c"])
def test_malformed_ranges(tmp_path: Path, words: str) -> None:
    with pytest.raises(UsageError, match=r"BASE\.\.CANDIDATE"):
        candidate.classify(words, tree=str(tmp_path))


def test_range_and_base_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already names its base"):
        candidate.classify("a..b", tree=str(tmp_path), base="c")


def test_images(tmp_path: Path) -> None:
    base, other = write(tmp_path, "x", "base"), write(tmp_path, "y", "other")
    choice = candidate.classify(None, base_image=base, candidate_image=other)
    assert choice == candidate.CandidateChoice("images", None, str(base), str(other))
    assert candidate.load(asked(choice)).kind == "images"
    assert candidate.classify(None, base_image=base).kind == "none"
    with pytest.raises(UsageError, match="--base-image"):
        candidate.classify(None, candidate_image=other)
    with pytest.raises(UsageError, match="no such file"):
        candidate.classify(None, base_image=tmp_path / "none")
    with pytest.raises(UsageError, match="--tree"):
        candidate.classify(None, tree=str(tmp_path), base_image=base)


def test_no_candidate_measures_the_base() -> None:
    choice = candidate.classify(None)
    assert choice == candidate.CandidateChoice("none", "debian", None, None)
    assert candidate.load(asked(choice)).kind == "none"


def test_one_version_of_debians_sources_is_a_tree() -> None:
    choice = candidate.classify(None, tree="debian-6.1")
    assert choice == candidate.CandidateChoice("none", "debian-6.1", None, None)
    with pytest.raises(UsageError, match="no such folder or archive"):
        candidate.classify(None, tree="debian-stable")


def test_missing_tree(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder or archive"):
        candidate.classify("x", tree=str(tmp_path / "none"))


def test_patch_file_that_vanished(tmp_path: Path) -> None:
    path = write(tmp_path, DIFF)
    choice = candidate.classify(str(path))
    path.unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        candidate.load(asked(choice))


@pytest.mark.parametrize("name", ["ufs-submission-cost", "neutral"])
def test_examples_are_ufs_patches(name: str) -> None:
    root = Path(__file__).parents[3]
    patches = candidate.read_patches(root / "examples" / "patches" / f"{name}.patch")
    assert patches[0].subject.startswith("scsi: ufs: core: ")
    assert diff.changed_paths(patches[0].text, name) == ["drivers/ufs/core/ufshcd.c"]
