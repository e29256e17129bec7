"""The commands that iotoll-lab adds to iotoll: `iotoll.cli` finds them by the entry point."""

from __future__ import annotations

from iotoll.cli import Entry

COMMANDS = {
    "experiment": Entry(
        "Investigate",
        "iotoll_lab.experiments.command:experiment_group",
        "Experiments on boards and on the gate itself.",
        ("iotoll experiment exact --boots 4", "iotoll experiment planted"),
    ),
    "lab": Entry(
        "Lab",
        "iotoll_lab.local.command:lab_command",
        "Run a whole LAVA on this machine: server, worker, file server, boards.",
        ("iotoll lab up", "iotoll lab down"),
    ),
    "simboard": Entry(
        "Lab",
        "iotoll_lab.simboard.command:simboard_group",
        "Simulated HiKey960 boards for a lab without boards (docs/boards.md).",
        ("iotoll simboard serve hikey-01",),
    ),
}

SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "experiment both": ("iotoll experiment both --pairs 6",),
    "experiment builds": ("iotoll experiment builds --only uapi,early --changes 4",),
    "experiment contention": ("iotoll experiment contention --only lock",),
    "experiment core": ("iotoll experiment core", "iotoll experiment core runs/NAME"),
    "experiment culprits": ("iotoll experiment culprits --ranges 40",),
    "experiment detector": ("iotoll experiment detector --series 300 --seed 2",),
    "experiment exact": ("iotoll experiment exact --boots 4",),
    "experiment explained": ("iotoll experiment explained --patches 10 --out runs/explained",),
    "experiment history": (
        "iotoll experiment history --rows 1000000",
        "iotoll experiment history --rows 1000000 --engine duckdb --engine spark",
    ),
    "experiment innocent": ("iotoll experiment innocent --patches 20 --out runs/innocent",),
    "experiment layouts": (
        "iotoll experiment layouts --cells ufs-4k-randread-t1-direct",
        "iotoll experiment layouts my.patch --layouts 30 --cells ufs-4k-randread-t1-direct",
    ),
    "experiment planted": ("iotoll experiment planted --patches 20 --cells 'ufs-4k-*'",),
    "experiment ranges": ("iotoll experiment ranges --ranges 2",),
    "experiment realise": ("iotoll experiment realise --data REALISE-Performance",),
    "experiment rule": (
        "iotoll experiment rule runs/innocent/innocent-*",
        "iotoll experiment rule runs/innocent/innocent-3 --what shifts",
    ),
    "experiment search": ("iotoll experiment search --ranges 100",),
    "experiment sized": ("iotoll experiment sized --first 7 --patches 6 --cells 'nvme-*'",),
    "experiment time": ("iotoll experiment time --aa 24 --pairs 16",),
    "experiment tracing": ("iotoll experiment tracing --cells 'ufs-4k-randread-*'",),
    "experiment vector": ("iotoll experiment vector --only ufs-read",),
    "lab up": ("iotoll lab up",),
    "lab down": ("iotoll lab down",),
    "lab status": ("iotoll lab status --json",),
    "lab service": ("iotoll lab service stop worker",),
    "simboard serve": ("iotoll simboard serve hikey-01 --state /tmp/boards",),
    "simboard power": ("iotoll simboard power hikey-01 reset",),
    "simboard fault": ("iotoll simboard fault hikey-01 uart-cut 5",),
    "simboard state": ("iotoll simboard state",),
    "simboard uart": ("iotoll simboard uart hikey-01",),
    "simboard install": ("iotoll simboard install worker-root",),
}
