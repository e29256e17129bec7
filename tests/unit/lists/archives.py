"""Archives of a mailing list as public-inbox keeps them, made of mails that tests write."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from iotoll.records.rundir import RunDir
from tests.repository import git

GOLDEN = Path(__file__).parents[2] / "golden/data/runs"
UFS = """\
diff --git a/drivers/ufs/core/ufshcd.c b/drivers/ufs/core/ufshcd.c
--- a/drivers/ufs/core/ufshcd.c
+++ b/drivers/ufs/core/ufshcd.c
@@ -1,3 +1,3 @@
 line 1
-line 2
+LINE 2
 line 3
"""
HID = UFS.replace("drivers/ufs/core/ufshcd.c", "drivers/hid/hid-core.c")


def mail(
    subject: str,
    name: str,
    body: str = UFS,
    reply_to: str = "",
    author: str = "A Dev <dev@example.org>",
    more: str = "",
) -> bytes:
    """One mail; ``name`` is its Message-ID without brackets, ``more`` are further headers."""
    replied = f"In-Reply-To: <{reply_to}>\nReferences: <{reply_to}>\n" if reply_to else ""
    return (
        f"From: {author}\nTo: linux-scsi@example.org\nSubject: {subject}\n"
        f"Date: Mon, 5 Jan 2026 10:00:00 +0000\nMessage-ID: <{name}>\n{replied}{more}\n"
        f"Why.\n---\n{body}-- \n2.39.5\n"
    ).encode()


def epoch(folder: Path, mails: Sequence[bytes]) -> Path:
    """A v2 inbox with one epoch, or further mails of one; all by one ``git fast-import``."""
    path = folder / "git/0.git"
    if not path.exists():
        path.mkdir(parents=True)
        git(path, "init", "-q", "--bare", "-b", "master")
    known = subprocess.run(
        ["git", "rev-parse", "--verify", "-q", "refs/heads/master"],
        cwd=path,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    parts = []
    for number, raw in enumerate(mails):
        above = f"from {known}\n" if known and not number else ""
        head = "commit refs/heads/master\ncommitter t <t@example.org> 1767225600 +0000\ndata 0\n"
        parts.append(f"{head}{above}M 100644 inline m\ndata {len(raw)}\n".encode() + raw + b"\n")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=path, input=b"".join(parts), check=True)
    return folder


def finished(path: Path, name: str = "pass") -> RunDir:
    """A run that has ended: one of tests/golden/data/runs."""
    if not path.exists():
        shutil.copytree(GOLDEN / name, path)
    return RunDir.open(path)
