"""Study files: those of the project are valid, a wrong one is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.studies.data import load_study, studies_folder
from tests.unit.studies.studies import CELL, small

STUDIES = sorted(path.stem for path in studies_folder().glob("*.toml"))


@pytest.mark.parametrize("name", STUDIES)
def test_studies_of_the_project_are_valid(name: str) -> None:
    study = load_study(name)
    assert study.claims or study.tables
    assert all(claim.source in study.sources for claim in study.claims)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("c.sw / (c.sw", "c.speed / (c.sw", "no quantity 'speed'"),
        ("c.hw - c.model", "d.hw", "no cell 'd'"),
        ("c.hw - c.model", "hw", "no value 'hw'"),
        (f'c = "{CELL}"', f'c = "{CELL}@other"', "no variant other runs cell"),
        (f'cells = ["{CELL}"]', 'cells = ["ufs-4k-x"]', "variants.base.cells"),
        ('source = "paper"\nform', 'source = "papers"\nform', "no source 'papers'"),
        ("low = 20, high = 40", "low = 50, high = 40", "low is above high"),
        ("low = 20, high = 40", "low = 20", "give value, or low and high"),
        ('kind = "value"', 'kind = "guess"', "claims.0.kind"),
        ('title = "Small"', 'tilte = "Small"', "title: Field required"),
        ("published = { share", "published = { shares", "no column 'shares'"),
        ('drawn = ["share", "rest"]', 'drawn = ["all"]', "no column 'all'"),
        ("tolerance = 10", "tolerance = nan", "tolerance"),
        ('title = "Small"', 'title = "Small"\nname = "../other"', "a study has its file's name"),
        ("[variants.base]", '[variants."../base"]', "'../base' is not a name"),
    ],
)
def test_a_wrong_study_file_is_refused_in_one_line(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        small(tmp_path, (old, new))
    assert said in str(caught.value)
    assert "small.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_study_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="ufs-nvme"):
        load_study("nothing")


@pytest.mark.parametrize("name", STUDIES)
def test_threads_of_a_study_begin_at_once_and_wait_for_each_other(name: str) -> None:
    """Where each thread is a job of its own, its numjobs is not the command's, and few overlap."""
    matrix = load_study(name).matrix
    if matrix.get("threads") == [1] and "pace" not in matrix:
        return  # one thread overlaps nothing, so the default's pace changes nothing but its moments
    pace = matrix["pace"]
    assert (pace["rate_iops"], pace["round_us"]) == (0, 0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("destroys = ", "# destroys = ", "destroys must say so"),
        ('numjobs=8 -runtime=180 -group_reporting"\nufs', 'numjobs=4"\nufs', "numjobs is 4"),
        ("-rw=write ", "-rw=write-bs=1k ", "bs= is merged into it"),
        ("-rw=read-bs=1024k", "-rw=read", "fio would take this command"),
        (
            '-size=1G -numjobs=8 -runtime=180 -group_reporting"\noptions',
            '"\noptions',
            "has no numjobs",
        ),
        ("iops = 332", "iops = 0", "reported.write.iops"),
    ],
)
def test_wrong_fio_commands_of_a_study_are_refused(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    text = (studies_folder() / "raw-device.toml").read_text()
    path = tmp_path / "raw.toml"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError) as caught:
        load_study(str(path))
    assert said in str(caught.value)
