"""Lab files: what is wrong in one is said in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.labs.lava.config import load_lab

TEXT = (data_dir("lava-jobs") / "labs/local.toml").read_text()


def lab(tmp_path: Path, old: str, new: str) -> None:
    assert old in TEXT
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace(old, new, 1))
    load_lab(str(path))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("priority = 50", "priority = 101", "priority"),
        ("attempts = 3", "attempts = 0", "attempts"),
        ("queue_limit = 16", "queue_limit = 0", "queue_limit"),
        ('visibility = "group"', 'visibility = "public"', "'groups' goes with visibility"),
        ('groups = ["storage"]', "groups = []", "'groups' goes with visibility"),
        ("queue = 60,", "", "queue"),
        ("[jobs]", "[jobs]\nretries = 3", "retries"),
        ('server = ""', 'server = "ftp://lava.example"', "http://HOST"),
        ('server = ""', 'server = "https://me:secret@lava.example"', "without user"),
        ('server = ""', 'server = "https://lava.example/?token=x"', "without user"),
        ('server = ""', 'server = "https://lava.example"', "both 'server' and 'files'"),
        ('device_type = "qemu-aarch64"', "device_type = 5", "device_type"),
        ("[jobs]", "[jobs", "mine.toml"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        lab(tmp_path, old, new)
    assert words in str(caught.value)
    assert "mine.toml" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_unknown_lab() -> None:
    with pytest.raises(UsageError, match="local"):
        load_lab("no-such-lab")
