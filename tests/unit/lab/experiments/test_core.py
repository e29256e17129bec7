"""What is said of a core's model and its estimates."""

from __future__ import annotations

import pytest
from iotoll_lab.estimate.microbench import Loop, Row
from iotoll_lab.estimate.sections import Estimate
from iotoll_lab.experiments.core import beside, groups, markdown

from iotoll.records.models import Section


def row(group: str, estimated: float, sets: bool = False) -> Row:
    return Row(Loop(group, "add {d}, {d}, {s}", True, 2.0, sets), estimated)


def test_loops_whose_numbers_are_used_are_not_tried() -> None:
    (one,) = groups([row("add", 4.0, sets=True), row("add", 2.0), row("add", 1.0)])
    assert (one.used, one.loops) == (1, 2)
    assert one.mean_error == pytest.approx(0.25)
    assert one.worst_error == pytest.approx(-0.5)


def test_a_group_of_used_loops_alone_has_no_error() -> None:
    assert groups([row("add", 4.0, sets=True)]) == []


def test_the_mean_of_groups_of_which_none_is_used_is_told() -> None:
    text = markdown(groups([row("add", 1.0), row("move", 2.0), row("move", 2.0, sets=True)]), [])
    assert "| mean of the groups | 1 | 2 | 25.0% |" in text
    assert "| of those of which none is used | 0 | 1 | 50.0% |" in text


def estimate(section: Section, ns: tuple[float, ...]) -> Estimate:
    return Estimate("cell", section, 100.0, ns)


def test_a_difference_is_taken_under_the_same_assumption() -> None:
    base = [estimate(Section.SUBMISSION, (10, 20, 40)), estimate(Section.RETURN, (0, 0, 0))]
    other = [estimate(Section.SUBMISSION, (11, 22, 44)), estimate(Section.RETURN, (0, 0, 0))]
    (one,) = beside(base, other)
    assert list(one.difference) == pytest.approx([1, 2, 4])
    assert "| 20 (10 to 40) | 22 (11 to 44) | +2 (+1 to +4) |" in markdown([], [one])
