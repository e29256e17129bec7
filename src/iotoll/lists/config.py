"""What `iotoll watch` watches: a TOML file with an archive, a kernel tree and what to gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from iotoll.core.errors import UsageError
from iotoll.core.nearest import near_path
from iotoll.core.toml import first_error, load_toml
from iotoll.patch.candidate import is_debian
from iotoll.records.models.base import Model

_Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9._%+=-]{1,64}@[A-Za-z0-9.-]{1,200}$")]


class Gate(Model):
    """Options of `iotoll gate` for every series; ``seconds`` is the limit of one."""

    board: str | None = None
    matrix: str = "default"
    policy: str | None = None
    cells: list[str] = Field(default_factory=list)
    until: Literal["source", "report"] = "report"
    seconds: int = Field(14400, ge=60, le=604800)


class Config(Model):
    """The whole file; paths are relative to where the command runs.

    ``archives`` are public-inbox archives (the folder of a v2 inbox, or one git epoch), or
    mailboxes as lei writes them. ``paths`` are patterns as in pipelines/selection.toml; without
    any, a series is gated where the selection has cells for it.
    """

    archives: list[str] = Field(min_length=1)
    tree: str
    folder: str = "watch"
    paths: list[str] = Field(default_factory=list)
    since: str = Field("", pattern=r"^(\d{4}-\d{2}-\d{2})?$")
    until: str = Field("", pattern=r"^(\d{4}-\d{2}-\d{2})?$")
    list_address: _Address | None = None
    sender: _Address = "iotoll@localhost"
    origin: str = Field("iotoll", pattern=r"^[a-z0-9_]+$")
    url: str = Field("", pattern=r"^(https?://\S+)?$", description="where the folder is served")
    send: list[str] = Field(default_factory=list, description="command that gets a mail on stdin")
    series: int = Field(20, ge=0, description="series that one call gates at most")
    patches: int = Field(100, ge=1, le=1000, description="patches of a series at most")
    gate: Gate = Field(default_factory=Gate)


def load_config(path: Path) -> Config:
    """Read the file; raises UsageError with the field that is wrong."""
    try:
        config = Config.model_validate(load_toml(path))
    except ValidationError as error:
        raise first_error(path, error) from error
    for name in config.archives:
        if not Path(name).exists():
            raise UsageError(
                f"{path}: archives: {name}: no such folder or file{near_path(Path(name))}"
            )
    if not is_debian(config.tree) and not Path(config.tree).exists():
        raise UsageError(f"{path}: tree: {config.tree}: no such folder or archive")
    return config
