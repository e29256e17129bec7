"""What ufshpb counted in each cell, from the counters that the board noted before every cell."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import InfrastructureError
from iotoll.studies.quantities import counts_of, read_counts

NOTED = """\
first sda hit_cnt 5 miss_cnt 7
first sdb hit_cnt 0 miss_cnt 0
second sda hit_cnt 5 miss_cnt 8
second sdb hit_cnt 90 miss_cnt 10
end sda hit_cnt 5 miss_cnt 9
end sdb hit_cnt 90 miss_cnt 10
"""


def test_a_cell_has_what_was_added_until_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "hpb"
    path.write_text(NOTED)
    assert read_counts(path) == {
        "first": {"hit_cnt": 90, "miss_cnt": 11},
        "second": {"hit_cnt": 0, "miss_cnt": 1},
    }


def test_batches_are_put_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"{name} sda hit_cnt 1\nend sda hit_cnt 4\n")
    assert counts_of(sorted(tmp_path.iterdir())) == {"one": {"hit_cnt": 3}, "two": {"hit_cnt": 3}}


@pytest.mark.parametrize("text", ["first sda hit_cnt", "first sda hit_cnt many", "first"])
def test_a_damaged_file_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "hpb"
    path.write_text(text)
    with pytest.raises(InfrastructureError, match=r"hpb: not ufshpb's counters"):
        read_counts(path)
