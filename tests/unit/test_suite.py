"""The rules of the test suite itself: what may skip, and what `make check` leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ALLOWED_SKIPS, FIRST, SLOW, forbidden_skip, is_strict

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("node", "reason", "forbidden"),
    [
        ("tests/vm/test_gate.py::test_x", "qemu-system-aarch64 is not installed", True),
        ("tests/lab/test_gate.py::test_x", "a lab needs root, for its namespaces", True),
        ("tests/vm/test_gate.py::test_x", "set IOTOLL_TEST_LONG=1", False),
        ("tests/vm/test_x.py::test_x", "no kernel source linux-source-6.12.tar.xz", True),
        ("tests/vm/test_x.py::test_x", "no kernel source linux-source-6.1.tar.xz", False),
        ("tests/unit/test_cli.py::test_x", "qemu-system-aarch64 is not installed", False),
    ],
)
def test_a_skip_of_a_board_or_lab_fails_in_ci(node: str, reason: str, forbidden: bool) -> None:
    assert forbidden_skip(node, reason) == forbidden


@pytest.mark.parametrize(
    ("ci", "named", "strict"),
    [("true", "", True), ("", "", False), ("", "1", True), ("true", "0", False)],
)
def test_ci_is_strict(ci: str, named: str, strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setenv("IOTOLL_TEST_STRICT", named)
    assert is_strict() == strict


def test_what_is_left_out_exists_and_has_a_reason() -> None:
    for name, why in SLOW.items():
        path, _, test = name.partition("::")
        found = [ROOT / path] if path.endswith(".py") else [*ROOT.glob(f"{path}*.py")]
        assert found and all(file.is_file() for file in found), name
        assert why and (not test or f"def {test}" in found[0].read_text()), name
    assert all(ALLOWED_SKIPS.values())


def test_what_begins_first_exists() -> None:
    for name in FIRST:
        assert (ROOT / name).exists(), name
