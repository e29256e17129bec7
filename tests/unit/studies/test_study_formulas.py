"""Formulas of studies: arithmetic, comparisons, and what is refused."""

from __future__ import annotations

import pytest

from iotoll.core.errors import UsageError
from iotoll.studies.formula import NoValue, parse

NOTHING: dict[str, float] = {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7),
        ("-(a.sw - 1) / 2", -1.5),
        ("max(1, hw, 2) ** 2", 25),
        ("1 < hw <= 5 and a.sw > 3", 1),
        ("hw > 5 or a.sw > 9", 0),
    ],
)
def test_formulas_compute(text: str, value: float) -> None:
    known = {"hw": 5.0, "a.sw": 4.0}
    assert parse(text).value(known.__getitem__) == value


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "a.b.c",
        "open(1)",
        "[1]",
        "'x'",
        "True",
        "1 if 2 else 3",
        "a.sw == 1",
        "max()",
        "(",
        "1" * 500,
        "lambda: 1",
    ],
)
def test_what_is_not_arithmetic_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert "\n" not in str(caught.value)
    assert "formula" in str(caught.value)


def test_a_division_by_zero_and_a_huge_power_have_no_value() -> None:
    for text in ("1 / (2 - 2)", "10 ** 400 ** 2", "(0 - 8) ** 0.5", "10 ** 308 * 10"):
        with pytest.raises(NoValue):
            parse(text).value(NOTHING.__getitem__)


def test_comparisons_have_both_sides_in_the_order_of_the_text() -> None:
    known = {"a": 3.0, "b": 2.0, "c": 1.0}
    formula = parse("a > b >= 2 * c and max(a, b) < 4")
    found = [(3.0, ">", 2.0), (2.0, ">=", 2.0), (3.0, "<", 4.0)]
    assert formula.comparisons(known.__getitem__) == found
    with pytest.raises(NoValue):
        parse("a / (b - 2 * c) > 1").comparisons(known.__getitem__)
