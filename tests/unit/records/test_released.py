"""A schema may only change in ways that keep old files readable, unless its version changes.

tests/golden/data/released-schemas.json holds the fields of every schema at the last release.
After a release, or with a new ``schema_version``, write it again: ``pytest --update-goldens``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iotoll.records.results import DOCUMENTS, schema_text

RELEASED = Path(__file__).parents[2] / "golden/data/released-schemas.json"
Fields = dict[str, dict[str, Any]]


def terms(schema: Any) -> Iterator[str]:
    """What a field may be: its JSON types, models and listed values."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("type", "$ref", "const", "pattern"):
                yield f"{key}={value}"
            elif key == "enum":
                yield from (f"enum={v}" for v in value)
            elif key not in ("default", "description", "title"):
                yield from terms(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from terms(value)


def shape(name: str) -> dict[str, Any]:
    """Version of a schema, and all fields of its objects: what each may be, and whether it must."""
    schema = json.loads(schema_text(name))
    objects = {"(top)": schema, **schema.get("$defs", {})}
    fields: Fields = {
        f"{owner}.{field}": {
            "terms": sorted(set(terms(value))),
            "required": field in parts.get("required", []),
        }
        for owner, parts in objects.items()
        for field, value in parts.get("properties", {}).items()
    }
    version = schema["properties"].get("schema_version", {}).get("default", "")
    return {"version": version, "fields": fields}


def breaks(old: Fields, new: Fields) -> list[str]:
    """Why a file of the old schema may not be one of the new schema, one line each."""
    found = [f"{name} is gone" for name in old if name not in new]
    for name, field in new.items():
        known = old.get(name)
        if known is None:
            # A new object's fields cannot lack in an old file.
            owner = name.partition(".")[0]
            if field["required"] and any(other.startswith(f"{owner}.") for other in old):
                found.append(f"{name} is new and required")
        elif field["required"] and not known["required"]:
            found.append(f"{name} has become required")
        elif lost := set(known["terms"]) - set(field["terms"]):
            found.append(f"{name} can no longer be {', '.join(sorted(lost))}")
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_an_incompatible_schema_has_a_new_version(name: str) -> None:
    released = json.loads(RELEASED.read_text())
    assert name in released, "a new schema: pytest --update-goldens"
    now = shape(name)
    if now["version"] == released[name]["version"]:
        problems = breaks(released[name]["fields"], now["fields"])
        assert not problems, f"raise schema_version of {name}: {problems}"


def test_released_schemas_are_stored(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-goldens", default=False):
        text = json.dumps({name: shape(name) for name in sorted(DOCUMENTS)}, indent=1)
        RELEASED.write_text(text + "\n")
    assert set(json.loads(RELEASED.read_text())) == set(DOCUMENTS)


def test_the_rule_sees_what_breaks_old_files() -> None:
    old: Fields = {
        "(top).a": {"terms": ["type=string"], "required": False},
        "(top).b": {"terms": ["type=integer"], "required": True},
    }
    more = {**old, "(top).c": {"terms": ["type=string"], "required": False}}
    assert breaks(old, more) == []
    assert breaks(more, old) == ["(top).c is gone"]
    must = {**old, "(top).a": {"terms": ["type=string"], "required": True}}
    assert breaks(old, must) == ["(top).a has become required"]
    needed = {**old, "(top).c": {"terms": ["type=string"], "required": True}}
    assert breaks(old, needed) == ["(top).c is new and required"]
    other = {**old, "(top).b": {"terms": ["type=string"], "required": True}}
    assert breaks(old, other) == ["(top).b can no longer be type=integer"]
