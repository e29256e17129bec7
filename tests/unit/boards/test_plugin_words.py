"""The plugin's options, and models of caches that are data."""

from __future__ import annotations

from pathlib import Path

import pytest

from iotoll.boards import plugin
from iotoll.boards.plugin import CACHES, load_caches, plugin_words
from iotoll.core.errors import UsageError
from iotoll.core.paths import data_dir


def test_caches_are_an_option_of_the_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin, "plugin", lambda: Path("so"))
    words = plugin_words(Path("out"), "0x10:0", None, load_caches(CACHES))
    assert words == (
        "-plugin",
        "so,out=out,probes=0x10:0,caches=65536:4+65536:16+2097152:16+64:1",
    )
    spans = plugin_words(Path("out"), "0x10:0", Path("spans"))
    assert spans[1] == "so,out=out,probes=0x10:0,spans=spans"


def test_every_model_of_caches_is_valid() -> None:
    names = sorted(path.stem for path in (data_dir("lava-jobs") / "caches").glob("*.toml"))
    assert CACHES in names
    for name in names:
        assert load_caches(name).source


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("ways = 4", "ways = 3"), "l1i: size divided by"),
        (("line = 64", "line = 48"), "l1i: size divided by"),
        (("line = 64", "line = 8"), "line: Input should be greater than or equal to 16"),
        (("size_kib = 64", "size_kib = 0"), "l1i.size_kib: Input should be greater than 0"),
        (("[l2]", "[l3]"), "l2: Field required"),
    ],
)
def test_an_invalid_model_is_named(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    path = tmp_path / "own.toml"
    text = (data_dir("lava-jobs") / "caches/cortex-a73.toml").read_text()
    path.write_text(text.replace(*change, 1))
    with pytest.raises(UsageError, match=f"own.toml: .*{words}"):
        load_caches(str(path))
    with pytest.raises(UsageError, match="There are: cortex-a53, cortex-a73"):
        load_caches("absent")
