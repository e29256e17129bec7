"""What a diff and the files behind it say."""

from __future__ import annotations

from iotoll.patch import diff


def test_structures_whose_members_differ_are_named() -> None:
    before = (
        "struct a {\n\tint x;\n\tstruct { int in; } y;\n};\nunion b { int c; };\nint f(void);\n"
    )
    comment = before.replace("int x;", "int /* why */ x;").replace("int f", "long f")
    assert diff.changed_structures(before, comment) == []
    more = before.replace("int in;", "int in, out;")
    assert diff.changed_structures(before, more) == ["struct a"]
    aligned = before.replace("};\nunion", "} ____cacheline_aligned;\nunion")
    assert diff.changed_structures(before, aligned) == ["struct a"]
    assert diff.changed_structures(before, before.replace("union b", "union d")) == [
        "union b",
        "union d",
    ]
    assert diff.changed_structures("struct open {", "") == ["struct open"]
