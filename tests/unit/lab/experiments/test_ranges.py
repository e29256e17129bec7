"""What plain git needs for a planted range: `iotoll_lab.experiments.range_command.git_builds`."""

from __future__ import annotations

from pathlib import Path

import pytest
from iotoll_lab.experiments.range_command import git_builds
from iotoll_lab.experiments.ranges import Planned, Repository, plant

from iotoll.core.errors import InfrastructureError
from tests.unit.bisect.commits import DRIVER, Tree


def planned_range(root: Path) -> Planned:
    """Sixteen commits, of which the eleventh costs and the eighth does not build."""
    tree = Tree(root)
    base = tree.commit("before")
    commits = tuple(tree.commit(f"change {n}") for n in range(16))
    tree.git("branch", "-m", "main", "range-1-1")
    # As in the experiment's repository: its HEAD names a branch that nobody made.
    tree.git("symbolic-ref", "HEAD", "refs/heads/nobodys")
    return Planned("range-1-1", base, commits, {commits[10]: 50}, (commits[7],), ())


def test_git_bisect_finds_the_culprit_in_a_range_without_a_head(tmp_path: Path) -> None:
    planned = planned_range(tmp_path / "tree")
    # Four questions halve 16 commits; a skip may add some.
    assert 4 <= git_builds(tmp_path / "tree/.git", planned) <= 8


def test_a_culprit_that_git_cannot_tell_from_a_skip_is_an_error(tmp_path: Path) -> None:
    planned = planned_range(tmp_path / "tree")
    hidden = Planned(
        planned.name, planned.base, planned.commits, planned.costs, planned.commits[8:11], ()
    )
    with pytest.raises(InfrastructureError, match="git bisect"):
        git_builds(tmp_path / "tree/.git", hidden)


def test_all_commits_of_a_range_may_change_one_file(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "tree")
    driver = tmp_path / "tree" / DRIVER
    driver.parent.mkdir(parents=True)
    functions = ("ufshcd_queuecommand", "ufshcd_compl_one_cqe")
    bodies = "".join(f"static int {name}(int x)\n{{\n\treturn x;\n}}\n" for name in functions)
    driver.write_text(f"#include <linux/init.h>\n\n{bodies}")
    tree.commit("before")
    repository = object.__new__(Repository)  # without the kernel tree of the cache
    repository.root = tree.root / ".git"
    repository.tree = tree.git("rev-parse", "HEAD^{tree}")

    planned = plant(repository, 1, 3, 32, 5, DRIVER)

    assert planned.name == "range-1-3-ufshcd"
    assert (len(planned.commits), len(planned.costs)) == (32, 3)
    assert (len(planned.no_build), len(planned.no_boot)) == (3, 2)
    changed = tree.git("log", "--format=", "--name-only", f"{planned.base}..{planned.commits[-1]}")
    assert set(changed.split()) == {DRIVER}
    costly = tree.git("log", "--format=%H", "--grep=look again", planned.commits[-1])
    assert set(costly.split()) == set(planned.costs)
