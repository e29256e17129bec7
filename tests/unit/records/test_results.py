"""Result files: round trip, atomic writing, schemas up to date, errors that name file and field."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest

from iotoll.core.errors import InfrastructureError, ResultError, UsageError
from iotoll.core.paths import data_dir
from iotoll.records import results
from iotoll.records.models import SelectionRecord, SourceRecord

SCHEMAS = data_dir("results-schema")
INVALID = sorted((SCHEMAS / "invalid").glob("*.json"))
STORED_RUNS = Path(__file__).parents[2] / "golden"
FIELDS = {
    "run.unknown-clock": "clock",
    "selection.no-reason": "cells/0/why",
    "source.no-tree-hash": "tree_sha256",
    "build.unknown-arch": "arch",
    "boot.cells-not-a-list": "cells",
    "cell.unknown-section": "sections",
    "dut.columns-not-numbers": "columns",
    "image.negative-size": "files/boot.img/size",
    "result.unknown-key": "score",
    "result.negative-work": "cells/ufs-4k-randread-t1-direct/0/work/idle",
    "verdict.unknown-outcome": "outcome",
    "verdict.work-without-total": "cells/0/work/total",
    "failure.no-step": "step",
    "plan.base-is-a-branch": "base",
    "summary.unknown-runner": "runs/0/runner",
    "explain.delta-is-text": "cells/0/sections/0/functions/0/delta",
    "profile.said-to-be-exact": "approximate",
    "untraced.unknown-side": "cells/0/side",
    "findings.unknown-kind": "findings/0/kind",
    "study.unknown-verdict": "claims/0/verdict",
    "noise.ratio-not-a-number": "pairs/0/ratios/ufs-4k-randread-t1-direct/overhead",
}


def selection() -> SelectionRecord:
    return results.read(SCHEMAS / "valid" / "selection.json", SelectionRecord)


@pytest.mark.parametrize("name", results.DOCUMENTS)
def test_schema_is_up_to_date(name: str) -> None:
    stored = (SCHEMAS / f"{name}.schema.json").read_text()
    assert stored == results.schema_text(name), "write_schemas(results-schema/) and commit"


def test_schemas_are_written_where_asked(tmp_path: Path) -> None:
    paths = results.write_schemas(tmp_path)
    assert [p.name for p in paths] == [f"{n}.schema.json" for n in results.DOCUMENTS]
    with pytest.raises(UsageError, match="not a folder"):
        results.write_schemas(tmp_path / "absent")


@pytest.mark.parametrize("name", results.DOCUMENTS)
def test_valid_example_survives_a_round_trip(name: str, tmp_path: Path) -> None:
    document = results.read(SCHEMAS / "valid" / f"{name}.json", results.DOCUMENTS[name])
    results.write(tmp_path / "copy.json", document)
    assert results.read(tmp_path / "copy.json", results.DOCUMENTS[name]) == document


def test_every_schema_has_an_invalid_example() -> None:
    assert {path.name.split(".")[0] for path in INVALID} == set(results.DOCUMENTS)


def validator(name: str) -> jsonschema_rs.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    return jsonschema_rs.Draft202012Validator(schema)


@pytest.mark.parametrize("name", results.DOCUMENTS)
def test_other_readers_find_the_same_by_the_schema(name: str) -> None:
    known = validator(name)
    known.validate(json.loads((SCHEMAS / "valid" / f"{name}.json").read_text()))
    for path in (p for p in INVALID if p.name.split(".")[0] == name):
        assert not known.is_valid(json.loads(path.read_text())), path.name


def test_results_of_real_runs_are_of_their_schemas() -> None:
    names = {"result.json": "result", "verdict.json": "verdict", "run.json": "run"}
    found = [p for p in STORED_RUNS.rglob("*.json") if p.name in names]
    assert {p.name for p in found} == set(names)
    for path in found:
        validator(names[path.name]).validate(json.loads(path.read_text()))


@pytest.mark.parametrize(
    "text", ['{"cells": NaN}', '{"cells": Infinity}', "[" * 9999, '{"a": "\\ud800"}', "\udcff"]
)
def test_no_json_at_all_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ResultError, match=r"x\.json"):
        results.read(tmp_path / "x.json", SelectionRecord)


@pytest.mark.parametrize(
    ("field", "value"), [("full_matrix", "true"), ("full_matrix", 1), ("why", 3), ("cells", {})]
)
def test_nothing_is_converted(field: str, value: object, tmp_path: Path) -> None:
    known = json.loads((SCHEMAS / "valid" / "selection.json").read_text())
    (tmp_path / "s.json").write_text(json.dumps({**known, field: value}))
    with pytest.raises(ResultError, match=rf"s\.json: field {field}: "):
        results.read(tmp_path / "s.json", SelectionRecord)


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_invalid_example_is_refused_with_file_and_field(path: Path) -> None:
    model = results.DOCUMENTS[path.name.split(".")[0]]
    with pytest.raises(ResultError, match=rf"{path.name}: field {FIELDS[path.stem]}"):
        results.read(path, model)


def test_missing_and_corrupt_files_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ResultError, match=r"x\.json is missing: run the step"):
        results.read(tmp_path / "x.json", SourceRecord)
    (tmp_path / "x.json").write_text('{"half": ')
    with pytest.raises(ResultError, match="not readable JSON"):
        results.read(tmp_path / "x.json", SourceRecord)


def test_writing_checks_the_schema(tmp_path: Path) -> None:
    wrong = selection().model_copy(update={"why": None})
    with pytest.raises(ResultError, match="why"):
        results.write(tmp_path / "s.json", wrong)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "s.json"
    results.write(target, selection())
    before = target.read_text()

    def full(self: Path, text: str) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full)
        with pytest.raises(InfrastructureError, match="No space left"):
            results.write(target, selection().model_copy(update={"why": "another"}))
    assert target.read_text() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.json"]


def test_parent_folders_are_made_and_none_is_left_out(tmp_path: Path) -> None:
    source = results.read(SCHEMAS / "valid" / "source.json", SourceRecord)
    results.write(tmp_path / "a" / "b.json", source.model_copy(update={"commit": None}))
    assert "commit" not in json.loads((tmp_path / "a" / "b.json").read_text())


def test_a_large_document_is_parsed_again_once_its_file_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "_LARGE", 0)
    path = tmp_path / "selection.json"
    results.write(path, selection())
    first = results.read(path, SelectionRecord)
    assert results.read(path, SelectionRecord) is first
    with pytest.raises(ResultError):
        results.read(path, SourceRecord)
    results.write(path, selection().model_copy(update={"why": "another one"}))
    assert results.read(path, SelectionRecord).why == "another one"
    path.write_text("{}")
    with pytest.raises(ResultError):
        results.read(path, SelectionRecord)
