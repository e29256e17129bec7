"""What one lab consists of, fixed before it starts: ports, users, devices.

It passes from `local` to the lab's first process as a file that only its owner may read, since it
holds tokens; ``lab.json`` is what others read.
"""

from __future__ import annotations

from pydantic import Field

from iotoll.records.models.base import Model


class Ports(Model):
    """TCP ports on the loopback device."""

    server: int = Field(ge=1, le=65535)
    events: int = Field(ge=1, le=65535)
    files: int = Field(ge=1, le=65535)


class LabUser(Model):
    """A user of the lab's LAVA server."""

    name: str
    password: str
    token: str
    admin: bool
    group: str | None = None


class SimulatedBoard(Model):
    """A simulated board of the lab; its name and serial number are known machine-wide."""

    name: str
    profile: str
    serial: str = Field(description="that fastboot shows")


class LabDevice(Model):
    """A board as LAVA sees it; ``dictionary`` is the text of its device file (Jinja2)."""

    name: str
    type: str
    tags: list[str] = Field(default_factory=list)
    dictionary: str
    simulated: SimulatedBoard | None = Field(None, description="what is behind it, if that is ours")


class LabPlan(Model):
    """Everything that a lab's first process needs to know."""

    name: str
    folder: str
    root: str = Field(description="the prepared root file system, which is not changed")
    worker: str
    ports: Ports
    admin: LabUser
    user: LabUser
    devices: list[LabDevice]
    device_types: dict[str, str] = Field(
        default_factory=dict, description="LAVA device types (Jinja2) that LAVA does not bring"
    )
    programs: list[str] = Field(
        default_factory=list, description="files that boards need on the worker's PATH"
    )
