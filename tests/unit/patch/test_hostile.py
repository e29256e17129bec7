"""Patches that are too large, damaged, or quote others: findings F6.5, F6.6, F6.9, F7.6 to F7.8."""

from __future__ import annotations

import gzip
import subprocess
import time
from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.patch import candidate
from iotoll.patch import mail as mails
from iotoll.patch.selection import select
from tests.unit.patch.test_candidate import DIFF, mail, write

FROM = "From 0123456789abcdef0123456789abcdef01234567 Mon Sep 17 00:00:00 2001\n"
DIGITS = "9" * 5000


def test_f6_5_a_packed_patch_is_never_cut(tmp_path: Path) -> None:
    """F6.5: what came after 64 MiB was left out in silence."""
    path = tmp_path / "large.patch.gz"
    text = DIFF.encode()
    with gzip.open(path, "wb", compresslevel=1) as stream:
        stream.write(text)
        stream.write((b" " * 1023 + b"\n") * (64 << 10))
        stream.write(text.replace(b"ufshcd.c", b"other.c"))
    with pytest.raises(UsageError, match=r"large\.patch\.gz: unpacks to more than 64 MiB"):
        candidate.read_patches(path)


@pytest.mark.parametrize(
    "text",
    [
        DIFF.replace("@@ -1,3 +1,3 @@", f"@@ -{DIGITS},3 +1,3 @@"),
        DIFF.replace("@@ -1,3 +1,3 @@", f"@@ -1,{DIGITS} +1,3 @@"),
        DIFF.replace("@@ -1,3 +1,3 @@", f"@@ -1,3 +1,{DIGITS} @@"),
    ],
)
def test_f6_6_numbers_of_5000_digits_are_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="over 9 digits") as caught:
        candidate.read_patches(write(tmp_path, text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("subject", [f"[PATCH 1/{DIGITS}] a", f"[PATCH v{DIGITS}] a"])
def test_f6_6_numbers_of_5000_digits_in_a_subject_number_nothing(
    tmp_path: Path, subject: str
) -> None:
    (patch,) = candidate.read_patches(write(tmp_path, mail(subject, DIFF)))
    assert patch.subject == "a"


def test_f6_9_a_long_series_is_read_in_linear_time(tmp_path: Path) -> None:
    """F6.9: 60,000 mails took over 120 s; twice as many may take twice as long, not four times."""
    seconds = []
    for count in (1500, 6000):
        mails = [mail(f"[PATCH {n}/{count}] a{n}", DIFF) for n in range(1, count + 1)]
        path = write(tmp_path, "".join(mails), f"{count}.mbox")
        begun = time.process_time()
        assert len(candidate.read_patches(path)) == count
        seconds.append(time.process_time() - begun)
    assert seconds[1] < 8 * seconds[0] + 1


def test_f6_9_a_patch_of_too_many_files_is_refused_with_the_limit(tmp_path: Path) -> None:
    text = "".join(f"--- a/f{n}\n+++ b/f{n}\n@@ -1 +1 @@\n-a\n+b\n" for n in range(20_001))
    with pytest.raises(UsageError, match="changes 20001 files, at most 20000"):
        candidate.read_patches(write(tmp_path, text))


def test_f7_6_a_quoted_mail_is_split_where_git_splits(tmp_path: Path) -> None:
    """F7.6: what a base64 or quoted-printable mail quotes is text, not another mail."""
    nested = f"Changes:\n\n=46{FROM[1:]}Subject: [PATCH] quoted\n\n---\n{DIFF}"
    headers = "Content-Transfer-Encoding: quoted-printable\n"
    path = write(tmp_path, mail("[PATCH] outer", nested, headers))
    assert [p.subject for p in candidate.read_patches(path)] == ["outer"]


def test_f7_6_mails_that_are_joined_without_a_blank_line(tmp_path: Path) -> None:
    """F7.6: three patches joined by hand were counted as two."""
    texts = [mail(f"[PATCH {n}/3] p{n}", DIFF).rstrip("\n") + "\n" for n in (1, 2, 3)]
    patches = candidate.read_patches(write(tmp_path, "".join(texts)))
    assert [p.subject for p in patches] == ["p1", "p2", "p3"]


def test_f7_7_a_cover_letter_alone_is_called_so(tmp_path: Path) -> None:
    path = write(tmp_path, mail("[PATCH 0/3] ufs: faster", " a.c | 2 +-\n"))
    with pytest.raises(UsageError, match='holds the cover letter "ufs: faster" and no patch'):
        candidate.read_patches(path)


def test_f7_8_a_drivers_own_build_files_select_its_cells() -> None:
    cells = ["ufs-4k-x", "nvme-4k-x", "emmc-4k-x"]
    assert [c.cell for c in select(["drivers/ufs/host/Kconfig"], cells).cells] == ["ufs-4k-x"]
    assert [c.cell for c in select(["drivers/nvme/host/Makefile"], cells).cells] == ["nvme-4k-x"]
    assert len(select(["block/Kconfig.iosched"], cells).cells) == 3


def test_mails_of_any_bytes_are_read_or_refused() -> None:
    for data in (b"From ", FROM.encode(), FROM.encode() * 3, b"\xff" * 50, b"Subject: a\n\n"):
        mails.mails(data)


def test_damaged_deflate_data_is_one_line(tmp_path: Path) -> None:
    """Found by fuzzing: gzip's header is right, and zlib's own error is no OSError."""
    path = tmp_path / "damaged.patch.gz"
    head = bytes.fromhex("1f8b080a0a200a0a0a0a0a0808080808")
    path.write_bytes(head + bytes(38) + b"\x08" * 21 + b"\n")
    with pytest.raises(UsageError, match=r"cannot be read .*invalid stored block lengths.*check"):
        candidate.read_patches(path)


@pytest.mark.parametrize(
    "text",
    [
        DIFF.replace(" one\n", " one\nwrapped\n"),
        DIFF.replace("+TWO\n three\n", ""),
        DIFF.replace("+TWO\n", "+TWO\n+more\n"),
        DIFF.replace("@@ -1,3 +1,3 @@", "@@ -1,3 +1,3 @@ static void\nf(void)"),
    ],
)
def test_a_hunk_that_does_not_count_its_lines_is_refused(tmp_path: Path, text: str) -> None:
    """Five of 660 series of real lists: git takes none of them, on any base."""
    words = r'"ufs: a": the hunk at line \d+ has .* wrapped'
    with pytest.raises(UsageError, match=words) as caught:
        candidate.read_patches(write(tmp_path, mail("[PATCH] ufs: a", text)))
    assert "\n" not in str(caught.value)
    done = subprocess.run(
        ["git", "apply", "--numstat"], input=text.encode(), capture_output=True, check=False
    )
    assert done.returncode and b"corrupt patch" in done.stderr


def test_a_mail_that_is_cut_behind_a_files_names_is_refused(tmp_path: Path) -> None:
    """It was called the same source as the base's."""
    head = DIFF[: DIFF.index("@@ ")]
    for text in (head, head + DIFF):
        with pytest.raises(UsageError, match=r"no hunk follows line \d+ \(\+\+\+\): it was cut"):
            candidate.read_patches(write(tmp_path, mail("[PATCH] ufs: a", text)))
