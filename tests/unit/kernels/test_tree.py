"""One work tree for all states of a source: few files touched, nothing strange left, patches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from iotoll.core.errors import BrokenError
from iotoll.patch.candidate import Patch
from tests.unit.kernels.archives import FILES, LINES, diff, opened, stamps
from tests.unit.killed import assert_git_keeps_lock

pytestmark = pytest.mark.usefixtures("cache")


def age(folder: Path) -> None:
    """Give all files an old time, as a checkout long ago would have."""
    for path in folder.rglob("*"):
        os.utime(path, (1e9, 1e9), follow_symlinks=False)


# --- checkout


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
    (tree.work / "index.lock").touch()
    tree.checkout(base)
    names = {str(p.relative_to(tree.src)) for p in tree.src.rglob("*") if not p.is_dir()}
    assert names == {*FILES, "link"}
    assert (tree.src / "drivers/ufs/core/ufshcd.c").read_text() == LINES
    assert tree.is_as_noted()


_HOLDER = """
import sys
from pathlib import Path
from iotoll.core.progress import Progress
from iotoll.kernels.tree import KernelTree
tree = KernelTree(Path(sys.argv[1])).at("held")
with tree.locked(Progress(quiet=True)):
    tree.git("read-tree", "base")
"""


def test_a_killed_iotoll_holds_its_tree_until_its_git_ends(archive: Path, tmp_path: Path) -> None:
    """The next one would write the same files and the same index beside it."""
    tree, _ = opened(archive)
    assert_git_keeps_lock(_HOLDER, [tree.root], tree.at("held").lock, tmp_path)


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
    with pytest.raises(BrokenError, match=r"all its 3 files fail: drivers/gone\.c is not"):
        tree.apply(base, [Patch("do x", text.encode())], "Linux 6.12.99")


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
