"""The planted costs that are no instructions: each is a patch, and its row says what was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from iotoll_lab.experiments.vector import Planted, planted

from iotoll.core.errors import UsageError
from iotoll.measure.elements import load_elements


def test_at_least_forty_costs_are_planted_in_five_layers() -> None:
    known = planted()
    assert len(known) >= 40
    layers = {"/".join(Path(one.file).parts[:2]) for one in known.values()}
    assert {"drivers/ufs", "drivers/nvme", "drivers/mmc", "block/blk-mq.c", "fs/ext4"} <= layers


def test_every_element_of_a_planted_cost_is_counted() -> None:
    elements = load_elements().elements
    for name, one in planted().items():
        assert one.element.partition(".")[0] in elements, name


def test_a_cost_of_all_layers_has_the_globals_that_its_code_names() -> None:
    known = planted()
    assert known["ext4-lock"].globals == "static DEFINE_MUTEX(iotoll_mutex);"
    assert known["ufs-lock"].globals == "static DEFINE_SPINLOCK(iotoll_lock);"
    assert "blk-mq-read" not in known, "generic layers have no registers"


@pytest.fixture
def one() -> Planted:
    return Planted(
        what="a barrier",
        file="a.c",
        behind=["\tgo();"],
        code="\tmb();",
        globals="static int x;",
        element="dsb",
        function="f",
        cells="ufs-*",
    )


def test_a_patch_adds_its_lines_behind_the_named_one(one: Planted) -> None:
    source = "#include <a.h>\n\nvoid f(void)\n{\n\tgo();\n}\n"
    text = one.variant("x", lambda path: source).text
    added = [line for line in text.split("\n") if line.startswith("+") and line[1:2] != "+"]
    assert added == ["+", "+static int x;", "+\tmb();"]
    assert "\tgo();\n+\tmb();\n" in text


def test_a_source_without_that_line_is_refused(one: Planted) -> None:
    with pytest.raises(UsageError, match=r"x: a\.c has not one line 'go\(\);'"):
        one.variant("x", lambda path: "#include <a.h>\n\tgo();\n\tgo();\n")


def test_lines_may_follow_several_places_and_have_their_number(one: Planted) -> None:
    more = {"behind": ["\tint a;", "\tint b;"], "code": "\tchar pad_NUMBER[64];", "globals": ""}
    spread = one.model_copy(update=more)
    source = "struct s {\n\tint a;\n\tint b;\n};\n"
    text = spread.variant("x", lambda path: source).text
    added = [line[1:] for line in text.split("\n") if line.startswith("+") and line[1:2] != "+"]
    assert added == ["\tchar pad_0[64];", "\tchar pad_1[64];"]
