"""Reads and writes models as JSON, checked against results-schema/ in both directions.

Writing is atomic (temporary file, then rename), so a killed process leaves the old file or the
new one, never half of one.
"""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jsonschema_rs
from pydantic import ValidationError

from iotoll.core.errors import InfrastructureError, ResultError, UsageError
from iotoll.core.paths import data_dir
from iotoll.core.plain import plain_data
from iotoll.records import models
from iotoll.records.models.base import Model

DOCUMENTS: dict[str, type[Model]] = {
    "run": models.RunManifest,
    "selection": models.SelectionRecord,
    "source": models.SourceRecord,
    "build": models.BuildRecord,
    "boot": models.BootRecord,
    "image": models.ImageRecord,
    "dut": models.DutRecord,
    "cell": models.CellRecord,
    "result": models.SideResult,
    "verdict": models.VerdictRecord,
    "failure": models.FailureRecord,
    "plan": models.PlanRecord,
    "summary": models.SummaryRecord,
    "noise": models.NoiseRecord,
    "explain": models.ExplainRecord,
}
"""Schema name (``results-schema/NAME.schema.json``) → model of that document."""

M = TypeVar("M", bound=Model)


def schema_text(name: str) -> str:
    """Return the JSON Schema generated from the model of ``name``, as stored in the folder."""
    schema = DOCUMENTS[name].model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


@cache
def _validator(name: str) -> jsonschema_rs.Draft202012Validator:
    path = data_dir("results-schema") / f"{name}.schema.json"
    return jsonschema_rs.Draft202012Validator(json.loads(path.read_text()))


def _schema_name(model: type[Model]) -> str:
    return next(name for name, known in DOCUMENTS.items() if known is model)


def _check(name: str, data: Any, where: Path) -> None:
    error = next(iter(_validator(name).iter_errors(data)), None)
    if error is not None:
        field = "/".join(str(p) for p in error.instance_path) or "(top)"
        raise ResultError(f"{where}: field {field}: {error.message[:200]} (schema {name})")


def write(path: Path, document: Model) -> None:
    """Write a document as JSON; raises ResultError when it does not match its schema."""
    data = plain_data(document.model_dump(mode="json", exclude_none=True))
    _check(_schema_name(type(document)), data, path)
    write_text(path, json.dumps(data, indent=1, sort_keys=True) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically; a full disk or a missing permission is an InfrastructureError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InfrastructureError(
            f"cannot write {path}: {error.strerror}: free or fix it"
        ) from error


def read(path: Path, model: type[M]) -> M:
    """Read a document; raises ResultError naming file and field when it is not of its schema."""
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise ResultError(f"{path} is missing: run the step that writes it") from error
    except (OSError, ValueError, RecursionError) as error:
        why = str(error)[:200]
        raise ResultError(f"{path} is not readable JSON ({why}): run its step again") from error
    return checked(data, model, path)


def checked(data: Any, model: type[M], where: Path) -> M:
    """A document from JSON data; raises ResultError naming ``where`` and field if it is none."""
    _check(_schema_name(model), data, where)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = "/".join(str(p) for p in first["loc"])
        raise ResultError(f"{where}: field {field}: {first['msg']}") from error


def write_schemas(folder: Path) -> list[Path]:
    """Write all generated schemas into ``folder`` and return their paths."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    paths = []
    for name in DOCUMENTS:
        path = folder / f"{name}.schema.json"
        path.write_text(schema_text(name))
        paths.append(path)
    return paths
