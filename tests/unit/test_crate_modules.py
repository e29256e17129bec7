"""The modules of each crate import one another in one direction only."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CRATES = Path(__file__).parents[2] / "crates"
SOURCES = sorted(path for path in CRATES.glob("*/src") if path.is_dir())
# A file's unit tests stand last in it; they may import what the file itself must not.
TESTS = re.compile(r"^#\[cfg\(test\)\]\n(?:#\[.*\]\n)*mod ", re.MULTILINE)
USE_LIST = re.compile(r"\bcrate::\{([^;]*)\}")


def imports(text: str) -> set[str]:
    """First parts of all paths below ``crate::`` in the code of a file."""
    code = re.sub(r"//.*", "", TESTS.split(text)[0])
    found = set(re.findall(r"\bcrate::(\w+)", code))
    for inner in USE_LIST.findall(code):
        found.update(re.findall(r"(?:^|,)\s*(\w+)", inner))
    return found


def circle(modules: dict[str, str]) -> list[str]:
    """Modules that import one another in a circle, the first one again at the end; or none.

    ``modules`` has the text of each module by its name.
    """
    graph = {name: (imports(text) & modules.keys()) - {name} for name, text in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.parent.name)
def test_no_circles(source: Path) -> None:
    roots = ("lib", "main")
    files = {path.stem: path for path in source.glob("*.rs") if path.stem not in roots}
    assert circle({name: path.read_text() for name, path in files.items()}) == []


@pytest.mark.parametrize(
    "back",
    ["use crate::one::One;", "use crate::{two::Two, one};", "fn f() -> crate::one::One {}"],
)
def test_a_circle_is_found(back: str) -> None:
    one = "use crate::two::Two;"
    assert set(circle({"one": one, "two": back})) == {"one", "two"}
    assert circle({"one": one, "two": f"#[cfg(test)]\nmod tests {{ {back} }}"}) == []
    allowed = f"#[cfg(test)]\n#[allow(clippy::unwrap_used)]\nmod tests {{ {back} }}"
    assert circle({"one": one, "two": allowed}) == []
    assert circle({"one": one, "two": f"// {back}"}) == []
