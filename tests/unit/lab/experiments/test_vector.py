"""The planted costs that are no instructions: each is a patch, and its row says what was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from iotoll_lab.experiments.vector import Planted, planted

from iotoll.core.errors import UsageError
from iotoll.measure.elements import load_elements
from iotoll.verdict.policy import load_policy


def test_at_least_twelve_costs_are_planted_in_five_layers() -> None:
    known = planted()
    assert len(known) >= 12
    layers = {"/".join(Path(one.file).parts[:2]) for one in known.values()}
    assert {"drivers/ufs", "drivers/nvme", "drivers/mmc", "block/blk-mq.c", "fs/ext4"} <= layers


def test_what_blocks_is_what_the_policy_blocks() -> None:
    policy, elements = load_policy("instructions"), load_elements().elements
    for name, one in planted().items():
        key = one.element.partition(".")[0]
        assert key in elements, name
        threshold = policy.element(one.element)
        sizes = one.code.count("\n") + 1 if key in ("slab", "pages") else 1
        assert one.blocks == (threshold.gated and sizes > threshold.threshold), name


@pytest.fixture
def one() -> Planted:
    return Planted(
        what="a barrier",
        file="a.c",
        behind="\tgo();",
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
