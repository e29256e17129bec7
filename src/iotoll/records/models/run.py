"""Models of a run directory's inputs, builds and boots."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from iotoll.core.digest import json_sha256
from iotoll.records.models.base import Clock, Model, Outcome

Side = Literal["base", "candidate"]


class FailureRecord(Model):
    """Why a run has no values: the step, one sentence, and the tool's own last lines."""

    outcome: Outcome
    step: str
    message: str
    log_tail: str = ""


class RunManifest(Model):
    """``run.json``: everything that was asked for, fixed when the run directory is made."""

    schema_version: str = "iotoll.run/1"
    command: list[str]
    created: str = Field(description="UTC, ISO 8601")
    kind: Literal["gate", "measure"]
    board: str
    clock: Clock
    accelerator: str = Field(
        "tcg",
        description="what runs the board's code: tcg or kvm of QEMU; none where a CPU does by"
        " itself, on a real board or as User Mode Linux. The instructions clock needs tcg",
    )
    matrix: str
    policy: str
    tree: str | None = Field(
        None, description="kernel git tree, archive, or 'debian'; None for images"
    )
    base: str | None = None
    candidate: str | None = None
    candidate_kind: Literal["patch", "mbox", "revision", "range", "images", "none"]
    cells: list[str] | None = Field(None, description="cells asked for by hand, else selection")
    boots: int = 1
    parts: int = Field(
        1, ge=1, description="boots of each side that divide many cells among them (`Bench.parts`)"
    )
    seed: int | None = Field(
        None, description="of the order of the boots of a pair, on the clock `time`"
    )
    aa: bool = Field(False, description="boots one kernel against itself: noise, no verdict")
    experiment: bool = Field(
        False, description="judges times of a virtual board, which can never gate"
    )
    beside: str | None = Field(None, description="run directory of the other clock's verdict")
    runner: Literal["local", "lava", "ssh"] = Field("local", description="who boots the boards")
    lab: str | None = Field(None, description="lab file of the runner 'lava', desk file of 'ssh'")
    approved_by: str | None = Field(
        None, description="who approves the growth that the candidate's trailers ask to accept"
    )
    lines: bool = Field(False, description="lines of cache are counted, whatever was changed")
    series: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._/!-]{1,60}$",
        description="merge request or branch: a newer run of it cancels the jobs of this one",
    )


class CellChoice(Model):
    """One selected cell with the rule that selected it."""

    cell: str
    why: str


class TriedRecord(Model):
    """Cells that were tried because changed code ran in none of the selected ones."""

    functions: list[str] = Field(description="of which no changed code ran in a selected cell")
    families: list[str] = Field(description="whose cells were tried")
    left: list[str] = Field(
        default_factory=list, description="families that would, and need another kernel"
    )
    unreached: list[str] = Field(
        default_factory=list, description="functions that ran in no tried cell either"
    )


class SelectionRecord(Model):
    """``selection.json``: changed paths and the cells they select, each with its reason."""

    schema_version: str = "iotoll.selection/1"
    changed_paths: list[str]
    rules: list[str] = Field(description="one line per rule that matched, with the paths")
    cells: list[CellChoice]
    full_matrix: bool
    why: str = Field(description="one sentence for the whole choice")
    harmless: list[str] = Field(
        default_factory=list, description="changed paths that select nothing"
    )
    fragments: list[str] = Field(
        default_factory=list, description="config fragments that the changed paths need"
    )
    unmeasured: dict[str, str] = Field(
        default_factory=dict, description="changed paths that no cell runs, and why"
    )
    left_out: dict[str, str] = Field(
        default_factory=dict,
        description="families that the changed paths select and this board does not run, each with"
        " a board that does",
    )
    tried: TriedRecord | None = Field(
        None, description="absent: nothing was tried beside what the changed paths select"
    )


class SourceRecord(Model):
    """``sides/SIDE/source.json``: which kernel source this side is."""

    schema_version: str = "iotoll.source/1"
    side: Side
    tree: str
    version: str = Field(description="kernel version from the tree's Makefile, e.g. 6.12.117")
    commit: str | None = Field(None, description="git commit, when the tree is a git tree")
    tree_sha256: str = Field(description="identity of the source before the patch")
    patch_sha256: str | None = None
    patch_subjects: list[str] = Field(default_factory=list)
    changed_paths: list[str] = Field(default_factory=list)
    options: dict[str, list[str]] = Field(
        default_factory=dict,
        description="changed source files, and the options of which kbuild needs one for each",
    )
    structures: list[str] = Field(
        default_factory=list, description="structures and unions whose members differ"
    )
    git_tree: str | None = Field(
        None, description="git tree object of the exact source, patch included, that is built"
    )
    change_sha256: str | None = Field(None, description="of change.diff; absent when there is none")
    accepts: list[str] | None = Field(
        None, description="values of the trailers Iotoll-Accept in its commit messages"
    )
    base_by: Literal["mail", "blobs", "guess"] | None = Field(
        None, description="of a patch without --base: who names the base; guess: nothing does"
    )
    base_why: str | None = Field(None, description="the same in one sentence")
    notes: list[str] = Field(
        default_factory=list, description="what a reader must know, e.g. hunks that needed fuzz"
    )


class BuildRecord(Model):
    """``sides/SIDE/build/build.json``: one kernel build."""

    schema_version: str = "iotoll.build/1"
    side: Side
    arch: Literal["arm", "arm64", "x86_64", "um"]
    image: str = Field(description="path of the kernel image, relative to the run directory")
    image_sha256: str
    config_sha256: str
    fragments: list[str]
    toolchain: str
    seconds: float
    ready_made: bool = Field(False, description="the user's image: nothing was built")
    dtbs: dict[str, str] = Field(
        default_factory=dict, description="device trees built with it: file name to SHA-256"
    )
    build_ids: list[str] = Field(
        default_factory=list,
        description="GNU build-ids in it, one of which /sys/kernel/notes shows; empty: not known",
    )

    @property
    def sha256(self) -> str:
        """Digest of all that a board boots of this build."""
        if not self.dtbs:
            return self.image_sha256
        return json_sha256([self.image_sha256, self.dtbs])


class LavaAttempt(Model):
    """One LAVA job that ran, or should have run, a boot."""

    job: int | None = Field(None, description="the server's number; absent if it never got one")
    outcome: str = Field(description="done, infrastructure, hang or broken")
    why: str = ""


class TraceFile(Model):
    """A raw trace that a board sent to its lab's file server; it is only referenced here."""

    batch: str
    url: str = Field(description="where it is, under its SHA-256; no user or password")
    size: int = Field(ge=0, description="bytes")
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    problem: str | None = Field(None, description="why it is not there; None: it is, whole")


class LavaRecord(Model):
    """Where LAVA ran a boot; times are the server's, UTC, ISO 8601."""

    server: str
    job: int
    device: str
    device_type: str
    submitted: str
    started: str
    ended: str
    phases: dict[str, float] = Field(
        default_factory=dict, description="seconds spent in each phase of the job"
    )
    attempts: list[LavaAttempt] = Field(description="all attempts at this boot, oldest first")
    traces: list[TraceFile] = Field(
        default_factory=list, description="raw traces, where the board sends them"
    )
    lost_figures: list[str] = Field(
        default_factory=list,
        description="test cases that the serial line lost: LAVA's charts lack them, no record does",
    )


class FactRecord(Model):
    """What a board says of itself before and after the workload (lava-jobs/dut/facts.sh)."""

    before: dict[str, str] = Field(default_factory=dict)
    after: dict[str, str] = Field(default_factory=dict)
    limits: dict[str, str] = Field(
        default_factory=dict,
        description="limits of disks, their hosts and write-back (lava-jobs/dut/limits.sh), before"
        " anything is set; end.NAME: another value after the workload. Empty: not known",
    )


class DeviceModel(Model):
    """How long a modelled device takes to answer, in ns of the board's clock.

    Reads and writes take a fixed part and one per KiB. Each of ``units`` serves one command at a
    time, further ones wait in order.
    """

    source: str = Field(description="where the values come from; reports say it")
    read_ns: int = Field(ge=0)
    read_ns_per_kib: int = Field(ge=0)
    write_ns: int = Field(ge=0)
    write_ns_per_kib: int = Field(ge=0)
    flush_ns: int = Field(ge=0)
    discard_ns: int = Field(ge=0, description="of a discard or a write of zeroes")
    units: int = Field(gt=0, le=1024)

    def latency_ns(self, direction: Literal["read", "write"], kib: float) -> float:
        """What one command takes that need not wait for a unit."""
        if direction == "read":
            return self.read_ns + self.read_ns_per_kib * kib
        return self.write_ns + self.write_ns_per_kib * kib


class BootRecord(Model):
    """``sides/SIDE/boots/N/boot.json``: one boot of a (virtual) board that ran the workload."""

    schema_version: str = "iotoll.boot/1"
    side: Side
    boot: int
    board: str
    clock: Clock
    accelerator: str
    tools: dict[str, str] = Field(description="versions: qemu, fio, trace-cmd, kernel, image")
    board_sha256: str = Field(description="board data, DUT image and scripts")
    qemu: str | None = Field(
        None, description="digest of the patched QEMU of an exact board, whose boots are all alike"
    )
    models: dict[str, DeviceModel] = Field(
        default_factory=dict, description="what its devices are modelled on, by device"
    )
    command: list[str]
    seconds: float
    cells: list[str]
    event_cost: dict[str, float] = Field(
        default_factory=dict, description="calibrated cost of one trace event, clock units, by name"
    )
    died: list[str] = Field(
        default_factory=list,
        description="how each try of this boot before it ended, where the kernel crashed or hung",
    )
    measured: Literal["host", "board"] = Field(
        "host", description="who cut the I/Os: the host, from traces, or the board itself"
    )
    lava: LavaRecord | None = Field(None, description="absent on a local board")
    facts: FactRecord = Field(
        default_factory=FactRecord, description="what decides whether the boot may be used"
    )

    uncounted: str = Field(
        "", description="why nothing counted what the CPUs executed, where a board could"
    )
    digests: dict[str, str] = Field(
        default_factory=dict,
        description="SHA-256 of each file that values are made of, by its path beside boot.json",
    )

    @property
    def virtual(self) -> bool:
        """Whether the board was QEMU's, whatever LAVA takes it for."""
        return self.accelerator != "none"

    @property
    def shares_clock(self) -> bool:
        """Whether several CPUs take turns on the clock `instructions`, as QEMU's command says."""
        words = zip(self.command, self.command[1:], strict=False)
        cpus = next((int(number) for word, number in words if word == "-smp"), 1)
        return self.clock is Clock.INSTRUCTIONS and cpus > 1


class ImageFile(Model):
    """One file of a board's images."""

    size: int = Field(ge=0, description="bytes")
    sha256: str
    partition: str | None = Field(None, description="where it is flashed")
    room: int | None = Field(None, description="bytes of that partition")


class ImageRecord(Model):
    """``image.json``: what `iotoll image` made for one kind of board, and what was checked."""

    schema_version: str = "iotoll.image/1"
    board: str
    arch: Literal["arm", "arm64"]
    kernel_version: str | None = Field(None, description="None for a ready-made image")
    fragments: list[str]
    toolchain: str
    cmdline: str
    packages: dict[str, str] = Field(description="of the root file system")
    files: dict[str, ImageFile]
    checks: list[str] = Field(description="what was found right, one sentence each")
