"""The LAVA that iotoll-lab brings up on this machine: how to reach it, if it is up."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from iotoll.core.paths import cache_dir
from iotoll.records.models.base import Model

FOLDER = Path("lab/local")
"""Of the lab, in iotoll's cache."""


def running(folder: Path | None = None) -> LabState | None:
    """How to reach the lab of a folder (default: this user's), or None while it is not up."""
    path = (folder or cache_dir() / FOLDER).resolve() / "lab.json"
    try:
        state = LabState.model_validate_json(path.read_text())
    except (OSError, ValueError):
        return None
    return state if started_at(state.pid) == state.started else None


class LabState(Model):
    """``lab.json``: how to reach a running lab; holds no secret."""

    url: str
    files_url: str
    token_file: str = Field(description="of a user that may submit; only its owner may read it")
    admin_token_file: str
    user: str
    group: str
    lava: str = Field(description="version of the LAVA server")
    devices: dict[str, str] = Field(description="device name to device type")
    simulated: dict[str, str] = Field(
        default_factory=dict, description="device name to the name that iotoll simboard knows"
    )
    pid: int = Field(description="of the process whose end is the lab's end")
    started: int = Field(description="that process's start time, in ticks since boot")


def started_at(pid: int) -> int | None:
    """A process's start time in ticks since boot, which tells it from a later one of its number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
