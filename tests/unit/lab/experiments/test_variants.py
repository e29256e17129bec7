"""Patches made from a seed: the same seed gives the same patch, and each applies to its source."""

from __future__ import annotations

import re

import pytest
from iotoll_lab.experiments import variants

from iotoll.core.errors import UsageError


def read(path: str) -> str:
    """A kernel source that has every function of `variants.PLACES`."""
    if path == "Makefile":
        return "VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\nEXTRAVERSION =\nNAME = x\n"
    functions = [name for known, name in variants.PLACES if known == path]
    head = "// SPDX-License-Identifier: GPL-2.0\n#include <linux/a.h>\n#include <linux/b.h>\n\n"
    return head + "\n".join(
        f"static int {name}(struct request *rq,\n\t\tint x)\n{{\n\treturn x;\n}}\n"
        for name in functions
    )


@pytest.mark.parametrize("number", range(1, 31))
def test_planted_patch_says_what_it_does(number: int) -> None:
    made = variants.planted(7, number, read)
    assert made == variants.planted(7, number, read)
    found = re.fullmatch(r"(\w+)\(\): (\d+) instructions in (each|every (\d+)th) call", made.what)
    assert found, made.what
    assert (found[3] == "each") == bool(number % 2), "every second one is conditional"
    assert f"+\tint planted __maybe_unused = iotoll_planted({found[4] or 1}, {found[2]});" in (
        made.text
    )
    body = made.text[made.text.index("iotoll_planted(" + (found[4] or "1")) - 200 :]
    assert found[1] in made.text
    assert body.count("+\tint planted") == 1


def test_innocent_patches_are_of_every_kind() -> None:
    kinds = {variants.innocent(1, n, read).what for n in range(1, 200)}
    words = ("nobody calls", "aligned", "start-up", "without a device", "version ends")
    for word in words:
        assert any(word in kind for kind in kinds), word


def test_seeds_differ() -> None:
    one, other = ([variants.planted(seed, n, read).what for n in range(1, 9)] for seed in (1, 2))
    assert one != other


def test_tree_without_the_function_is_a_clear_error() -> None:
    with pytest.raises(UsageError, match="has no function"):
        variants.planted(1, 1, lambda path: "#include <linux/a.h>\n")


def test_includes_among_code_and_under_a_condition_do_not_count() -> None:
    head = "#include <linux/a.h>\n#ifdef CONFIG_X\n# include <linux/x.h>\n#endif\n"
    later = 'const int features =\n#include "features.h"\n\t0;\n\nint called(int x)\n{\n}\n'
    made = variants.entered(f"{head}{later}", "a.c", "called", "\tCALL\n", "HELPER\n")
    assert made.startswith(head.replace("a.h>\n", "a.h>\nHELPER\n", 1))
    assert made.endswith("{\n\tCALL\n}\n")
