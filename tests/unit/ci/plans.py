"""A pipeline's plan for the tests that need one."""

from __future__ import annotations

from iotoll.records.models import PlanRecord

PLAN = PlanRecord(
    project="storage/linux",
    base="1" * 40,
    candidate="2" * 40,
    merge_request=7,
    pipeline=10,
    boards=["virt-arm64"],
    lava_boards=["virt-arm64"],
)
