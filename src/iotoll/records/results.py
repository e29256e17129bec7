"""Reads and writes models as JSON, checked strictly in both directions.

The schemas of results-schema/ are made from the models, for other readers; tests hold the two
together with a JSON Schema validator.

Writing is atomic (temporary file, then rename), so a killed process leaves the old file or the
new one, never half of one.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from iotoll.core.errors import InfrastructureError, ResultError, UsageError, os_fix
from iotoll.core.paths import check_target
from iotoll.core.plain import is_plain_json, plain_data
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
    "findings": models.FindingsRecord,
    "failure": models.FailureRecord,
    "plan": models.PlanRecord,
    "summary": models.SummaryRecord,
    "noise": models.NoiseRecord,
    "explain": models.ExplainRecord,
    "profile": models.ProfileRecord,
    "untraced": models.UntracedRecord,
    "study": models.StudyRecord,
}
"""Schema name (``results-schema/NAME.schema.json``) → model of that document."""

M = TypeVar("M", bound=Model)


def schema_text(name: str) -> str:
    """Return the JSON Schema generated from the model of ``name``, as stored in the folder."""
    schema = DOCUMENTS[name].model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def write(path: Path, document: Model) -> None:
    """Write a document as JSON; raises ResultError when it is not of its schema.

    A copy with changes (`model_copy`) is not checked when it is made, so it is checked here. A
    side's result, which has values of each I/O, is one line: half the bytes, in a sixth of the
    time.
    """
    data = document.model_dump(mode="json", exclude_none=True, warnings=False)
    indent = None if isinstance(document, models.SideResult) else 1
    text = json.dumps(data, indent=indent, sort_keys=True) + "\n"
    if not is_plain_json(text):
        text = json.dumps(plain_data(data), indent=indent, sort_keys=True) + "\n"
    found = parsed(text, type(document), path)
    write_text(path, text)
    _remember(identity(path), len(text), found)


def write_text(path: Path, text: str) -> None:
    """Write a file atomically, as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically; a full disk or a missing permission is an InfrastructureError.

    Raises UsageError where something stands that is no file: root would replace a device.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        check_target(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise InfrastructureError(
            f"cannot write {path}: {error.strerror}: {os_fix(error)}"
        ) from error


def read(path: Path, model: type[M]) -> M:
    """Read a document; raises ResultError naming file and field when it is not of its schema."""
    name = identity(path)
    known = _large.get(name)
    if type(known) is model:
        return known
    try:
        text = path.read_bytes()
    except FileNotFoundError as error:
        raise ResultError(f"{path} is missing: run the step that writes it") from error
    except OSError as error:
        raise ResultError(
            f"{path} cannot be read ({error.strerror}): run its step again"
        ) from error
    found = parsed(text, model, path)
    _remember(name, len(text), found)
    return found


_LARGE, _MOST = 1 << 18, 4  # bytes, and documents
_large: dict[tuple[object, ...], Model] = {}
"""The last large documents: a gate's steps read both sides' results again and again, and documents
are frozen."""


def _remember(name: tuple[object, ...], size: int, found: Model) -> None:
    if size > _LARGE:
        _large[name] = found
        if len(_large) > _MOST:
            _large.pop(next(iter(_large)), None)


def identity(path: Path) -> tuple[object, ...]:
    """What another file, or another content, does not have; empty where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return str(path), found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def parsed(text: str | bytes, model: type[M], where: Path) -> M:
    """A document from JSON text; raises ResultError naming ``where`` and field if it is none.

    Strict: no text stands for a number, no number for a text, and no NaN for either. A document of
    another version is refused, since its fields may mean something else, and so is one that
    contradicts itself (`Model.contradiction`): somebody edited it.
    """
    try:
        found = model.model_validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "json_invalid":
            why = str(first["msg"])[:200]
            raise ResultError(
                f"{where} is not readable JSON ({why}): run its step again"
            ) from error
        field = "/".join(str(p) for p in first["loc"]) or "(top)"
        name = next(name for name, known in DOCUMENTS.items() if known is model)
        raise ResultError(
            f"{where}: field {field}: {first['msg'][:200]} (schema {name})"
        ) from error
    version = model.model_fields.get("schema_version")
    if version and (named := getattr(found, "schema_version", "")) != version.default:
        raise ResultError(
            f"{where}: schema_version is {named[:60]!r}, this iotoll reads {version.default!r}: use"
            " the version that wrote it"
        )
    if wrong := found.contradiction():
        raise ResultError(f"{where}: contradicts itself: {wrong}: run the step again that wrote it")
    return found


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
