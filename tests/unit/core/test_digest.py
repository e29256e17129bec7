"""Digests: of content, not of order."""

from __future__ import annotations

import hashlib
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from iotoll.core.digest import file_sha256, files_sha256, json_sha256

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=25)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_key_order_does_not_matter(data: dict[str, object]) -> None:
    assert json_sha256(data) == json_sha256(dict(reversed(data.items())))


def test_values_do() -> None:
    assert len({json_sha256(v) for v in (0, "0", [0], {"a": 0}, None, False, "")}) == 7


def test_files(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    one.write_bytes(b"a" * 3_000_000)
    two.write_bytes(b"b")
    assert file_sha256(one) == hashlib.sha256(b"a" * 3_000_000).hexdigest()
    both = files_sha256([one, two], tmp_path)
    assert both == files_sha256([two, one], tmp_path)
    two.rename(tmp_path / "3")
    assert files_sha256([one, tmp_path / "3"], tmp_path) != both, "names count"
