"""Packs of known issues: the generic one is valid, and bad ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.labs.lava.issues import GENERIC, load_issues

GOOD = """
[[issue]]
id = "mine"
phase = "boot"
pattern = "PHY: link never up"
outcome = "infrastructure"
note = "Power off and on."
source = "lab book"
"""


def test_a_labs_own_pack_comes_before_the_generic_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    issues = load_issues([str(tmp_path / "mine.toml")])
    assert issues[0].id == "mine"
    assert [i.id for i in issues[1:]] == [i.id for i in load_issues([])]
    assert {i.outcome for i in issues} <= {"infrastructure", "broken", "hang"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"boot"', '"later"', "phase"),
        ('"infrastructure"', '"pass"', "outcome"),
        ('"PHY: link never up"', '"(unclosed"', "no regular expression"),
        ('"PHY: link never up"', '".*"', "matches an empty line"),
        ('id = "mine"', 'id = "Mine!"', "id"),
        ('id = "mine"', 'id = "cancelled"', "another issue cancelled"),
        ('note = "Power off and on."', "", "note"),
    ],
)
def test_bad_packs(tmp_path: Path, old: str, new: str, words: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageError) as caught:
        load_issues([str(path)])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pack_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="generic"):
        load_issues(["no-such-pack"])


@pytest.mark.parametrize("path", sorted((data_dir("lava-jobs") / "known-issues").glob("*.toml")))
def test_packs_that_come_with_iotoll(path: Path) -> None:
    packs = [] if path.stem == GENERIC else [path.stem]
    assert len(load_issues(packs)) >= 8
