"""Fragments ask, the final config answers; a lost request is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir
from iotoll.kernels import kconfig

FRAGMENT = '# why\nCONFIG_A=y\nCONFIG_NAME="x y"\nCONFIG_N=8\n# CONFIG_OFF is not set\n'


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_everything_kept(tmp_path: Path) -> None:
    fragment = write(tmp_path / "f.config", FRAGMENT)
    config = write(tmp_path / ".config", 'CONFIG_A=y\nCONFIG_NAME="x y"\nCONFIG_N=8\nCONFIG_B=m\n')
    assert kconfig.lost([fragment], config) == []


def test_lost_symbols_name_symbol_fragment_and_value(tmp_path: Path) -> None:
    fragment = write(tmp_path / "ufs.config", FRAGMENT)
    config = write(tmp_path / ".config", "CONFIG_A=m\nCONFIG_N=8\nCONFIG_OFF=y\n")
    words = [str(item) for item in kconfig.lost([fragment], config)]
    assert words == [
        "CONFIG_A=y of fragment ufs.config became m",
        'CONFIG_NAME="x y" of fragment ufs.config became n',
        "CONFIG_OFF=n of fragment ufs.config became y",
    ]


def test_a_later_fragment_overrides_an_earlier_one(tmp_path: Path) -> None:
    first = write(tmp_path / "a.config", "CONFIG_A=y\n")
    second = write(tmp_path / "b.config", "# CONFIG_A is not set\n")
    config = write(tmp_path / ".config", "# CONFIG_A is not set\n")
    assert kconfig.lost([first, second], config) == []


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("CONFIG_NONE=y\n", []),
        ("CONFIG_LAZY=y\n", []),
        ("CONFIG_FULL=y\n", ["CONFIG_NONE=y of fragment f.config became n"]),
        ("CONFIG_LAZY=m\n", ["CONFIG_NONE=y of fragment f.config became n"]),
    ],
)
def test_what_a_later_kernel_has_instead(tmp_path: Path, config: str, words: list[str]) -> None:
    fragment = write(tmp_path / "f.config", "CONFIG_NONE=y\n# or CONFIG_LAZY=y\n")
    lost = kconfig.lost([fragment], write(tmp_path / ".config", config))
    assert [str(item) for item in lost] == words


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("CONFIG_SCALE=0\n", []),
        ("# an earlier kernel, which has no such symbol\n", []),
        ("CONFIG_SCALE=5\n", ["CONFIG_SCALE=0 of fragment f.config became 5"]),
    ],
)
def test_what_an_earlier_kernel_need_not_have(
    tmp_path: Path, config: str, words: list[str]
) -> None:
    fragment = write(tmp_path / "f.config", "CONFIG_SCALE=0\n# or CONFIG_SCALE=n\n")
    lost = kconfig.lost([fragment], write(tmp_path / ".config", config))
    assert [str(item) for item in lost] == words


def test_instead_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"f\.config:2: '# or CONFIG_A=y' has no request"):
        kconfig.read_fragment(write(tmp_path / "f.config", "# x\n# or CONFIG_A=y\n"))


def test_bad_line_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"f\.config:2: 'A=y'"):
        kconfig.read_fragment(write(tmp_path / "f.config", "# x\nA=y\n"))


def test_fragments_by_name_and_by_path(tmp_path: Path) -> None:
    assert kconfig.fragment_path("ufs") == (data_dir("kernel-configs") / "ufs.config").resolve()
    own = write(tmp_path / "own.config", "CONFIG_A=y\n")
    assert kconfig.fragment_path(str(own)) == own
    with pytest.raises(UsageError, match=r"choose from .*arch-arm, arch-arm64"):
        kconfig.fragment_path("typo")


def test_shipped_fragments_are_well_formed_and_explained() -> None:
    for path in data_dir("kernel-configs").glob("*.config"):
        assert kconfig.read_fragment(path) or kconfig.compiler_options([path]), path
        assert path.read_text().startswith("# "), path


def test_compiler_options_in_order(tmp_path: Path) -> None:
    first = write(tmp_path / "a.config", "CONFIG_A=y\n# compiler option -falign-functions=64\n")
    second = write(tmp_path / "b.config", "# compiler option -fno-x\n# a compiler option is not\n")
    options = kconfig.compiler_options([first, second])
    assert options == ["-falign-functions=64", "-fno-x"]


@pytest.mark.parametrize("bad", ["-f a", "falign", "", "-f;rm"])
def test_a_bad_compiler_option_is_refused(tmp_path: Path, bad: str) -> None:
    fragment = write(tmp_path / "a.config", f"# compiler option {bad}\n")
    with pytest.raises(UsageError, match=r"a\.config:1: .*write one option"):
        kconfig.read_fragment(fragment)
