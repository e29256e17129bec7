"""Policy files: which rule holds for a section of a cell, and one line for every mistake."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.boards.matrix import load_matrix
from iotoll.core.digest import file_sha256
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.records.models import Clock, Section
from iotoll.verdict.policy import load_policy

FILE = data_dir("pipelines") / "policies/instructions.toml"
V, S = Section.VFS_FS, Section.SUBMISSION


def variant(tmp_path: Path, old: str, new: str) -> str:
    text = FILE.read_text()
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1))
    return str(path)


def test_default_policy() -> None:
    policy = load_policy("instructions")
    assert policy.clock is Clock.INSTRUCTIONS
    assert policy.sha256 == file_sha256(FILE)
    assert set(policy.sections) == set(Section) - {Section.HARDWARE}


def test_every_cell_of_the_default_matrix_is_gated_somewhere() -> None:
    policy = load_policy("instructions")
    for cell in load_matrix("default").cells:
        rules = {s: policy.rule(cell, s) for s in policy.sections}
        assert any(rule.gated for rule in rules.values()), cell
        assert rules[S].gated, f"{cell}: submission is the gate's first purpose"
        assert all(rule.gated or rule.why for rule in rules.values()), "ungated, and no reason"


def test_exceptions_hold_for_their_cells_and_sections_and_the_last_one_wins(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.toml"
    head = FILE.read_text().partition("[[exceptions]]")[0]
    path.write_text(
        head
        + '[[exceptions]]\ncells = ["ufs-*"]\nsections = ["vfs_fs"]\ngated = false\nwhy = "first"\n'
        + '[[exceptions]]\ncells = ["*-t8-*"]\nsections = ["vfs_fs"]\nthreshold = 40\n'
        + 'why = "second"\n'
    )
    policy = load_policy(str(path))
    both = policy.rule("ufs-4k-randread-t8-sync", V)
    assert (both.gated, both.threshold, both.why) == (False, 40, "second")
    assert policy.rule("ufs-4k-randread-t8-sync", S).gated
    assert policy.rule("nvme-4k-randread-t1-sync", V) == policy.sections[V]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('clock = "instructions"', 'clock = "sundial"', "clock: "),
        ("min_ios = 24", "", "min_ios: Field required"),
        ("own = 2.0", "own = 0.5", "moved.own: "),
        ("boots = 3", "boots = 0", "perturb.boots: "),
        ("threshold = 4", "threshold = -1", "sections.vfs_fs.threshold: "),
        ("[sections.vfs_fs]", "[sections.queue]", "sections.queue"),
        ("[sections.vfs_fs]", "[sections.hardware]", "sections.hardware: it has no meaning"),
        ("min_ios = 24", "min_ios = 24\nstrict = 1", "strict: "),
        ("min_ios = 24", "min_ios = #", "line 4"),
    ],
)
def test_mistakes_are_one_line_with_file_and_field(
    tmp_path: Path, old: str, new: str, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_policy(variant(tmp_path, old, new))
    message = str(caught.value)
    assert words in message
    assert "mine.toml" in message
    assert "\n" not in message


def test_unknown_policy_names_those_that_exist() -> None:
    with pytest.raises(UsageError, match="There are: instructions"):
        load_policy("lenient")
