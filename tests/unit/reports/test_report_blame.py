"""Which line of a change a regression is pinned to."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.patch.diff import Hunk, hunks
from iotoll.records.models import Section
from iotoll.reports.page.blame import blame, load_parts
from tests.golden.runs import real

UFS = "drivers/ufs/core/ufshcd.c"
NVME = "drivers/nvme/host/pci.c"


def hunk(path: str, heading: str = "", line: int = 10, added: int = 1) -> Hunk:
    return Hunk(path, heading, line, added)


def test_hunks_of_a_real_change_are_in_the_functions_that_it_changes() -> None:
    change = real("regression").change.read_bytes()
    first, second = hunks(change, "change.diff")
    assert (first.path, first.added, second.added) == (UFS, 23, 3)
    assert first.heading.startswith("static u32 ufshcd_request_checksum("), "it adds this one"
    assert second.heading.startswith("static int ufshcd_queuecommand(")
    assert second.line > first.line


def test_hunks_of_removed_and_renamed_files_and_of_removed_lines() -> None:
    text = (
        b"diff --git a/gone.c b/gone.c\ndeleted file mode 100644\n--- a/gone.c\n+++ /dev/null\n"
        b"@@ -1,2 +0,0 @@\n-int a;\n-int b;\n"
        b"diff --git a/kept.c b/kept.c\n--- a/kept.c\n+++ b/kept.c\n"
        b"@@ -5,3 +5,2 @@ int f(void)\n \tone\n-\ttwo\n \tthree\n"
        b"@@ -20,0 +20,1 @@\n+++ b/not-a-file.c\n"
    )
    assert hunks(text, "x") == [
        Hunk("kept.c", "int f(void)", 6, 0),
        Hunk("kept.c", "", 20, 1),
    ]


def test_hunks_never_leave_the_tree() -> None:
    text = b"--- a/x\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n"
    with pytest.raises(UsageError, match="leaves the kernel tree"):
        hunks(text, "x")


def test_only_file_is_blamed_whatever_it_is() -> None:
    place = blame([hunk("lib/odd.c", line=7)], "ufs", Section.SUBMISSION)
    assert place is not None and (place.path, place.line) == ("lib/odd.c", 7)
    assert "only file" in place.how


def test_file_of_another_device_or_section_is_no_suspect() -> None:
    change = [hunk(UFS), hunk(NVME), hunk("fs/iomap/direct-io.c")]
    for device, section, path in (
        ("ufs", Section.SUBMISSION, UFS),
        ("nvme", Section.COMPLETION, NVME),
        ("ufs", Section.VFS_FS, "fs/iomap/direct-io.c"),
    ):
        place = blame(change, device, section)
        assert place is not None and place.path == path
    assert blame(change, "emmc", Section.SUBMISSION) is None
    assert blame([], "ufs", Section.SUBMISSION) is None


def test_among_suspects_the_larger_change_and_the_function_named_for_it() -> None:
    change = [
        hunk("block/blk-mq.c", "void blk_mq_init(x)", 5, 9),
        hunk(UFS, "int ufshcd_init(struct ufs_hba *hba)", 100, 40),
        hunk(UFS, "static int ufshcd_queuecommand(struct Scsi_Host *host)", 300, 2),
    ]
    place = blame(change, "ufs", Section.SUBMISSION)
    assert place is not None and (place.path, place.line) == (UFS, 300)
    assert "1 more" in place.how and "by its name, in ufshcd_queuecommand" in place.how


def test_rules_are_checked(tmp_path: Path) -> None:
    parts = load_parts(data_dir("pipelines") / "sections.toml")
    assert {s for p in parts.part for s in p.sections} == set(Section)
    wrong = tmp_path / "sections.toml"
    wrong.write_text('[[part]]\npaths = ["x/"]\nsections = ["nowhere"]\n[words]\n')
    with pytest.raises(UsageError, match=r"sections\.toml: part\.0\.sections\.0"):
        load_parts(wrong)


@pytest.mark.parametrize(
    ("body", "function"),
    [
        (" \n static int later(struct a *b)\n {\n+\tcost();\n \tint c;\n", "later"),
        (" \tint c;\n+\tcost();\n }\n static int later(void)\n", "before"),
        (" out:\n+\tcost();\n \treturn 0;\n", "before"),
        (" EXPORT_SYMBOL(x);\n \n+/* New. */\n+static int added(void)\n+{\n+}\n", "added"),
        (" #include <a.h>\n+#include <b.h>\n \n", ""),
    ],
)
def test_the_function_is_that_of_the_change_not_the_one_before_it(body: str, function: str) -> None:
    lines = body.splitlines()
    old = sum(line[0] in " -" for line in lines)
    new = sum(line[0] in " +" for line in lines)
    head = "diff --git a/f.c b/f.c\n--- a/f.c\n+++ b/f.c\n"
    text = f"{head}@@ -10,{old} +10,{new} @@ static int before(void)\n{body}"
    (found,) = hunks(text.encode(), "test")
    assert found.heading.startswith(f"static int {function}(" if function else "")
    assert bool(found.heading) == bool(function)
