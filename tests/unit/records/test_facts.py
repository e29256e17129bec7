"""What a board says of its kernel's limits: bounded, and left out where it does not read as one."""

from __future__ import annotations

from iotoll.records.facts import LENGTH, LIMITS, read_facts, read_limits
from iotoll.records.models.run import FactRecord

TEXT = """\
board virt-arm64
limit ufs.queue/max_sectors_kb 1024
limit ufs.queue/scheduler none [mq-deadline]
limit ufs.mq/0/cpu_list 0, 1
limit vm.dirty_ratio 20
"""


def test_g1_3_limits_are_facts_with_names_of_sysfs() -> None:
    assert read_facts(TEXT) == {"board": "virt-arm64"}
    assert read_limits(TEXT) == {
        "ufs.queue.max_sectors_kb": "1024",
        "ufs.queue.scheduler": "none,[mq-deadline]",
        "ufs.mq.0.cpu_list": "0,1",
        "vm.dirty_ratio": "20",
    }


def test_g1_3_a_limit_that_changed_during_the_workload_has_a_name_of_its_own() -> None:
    after = TEXT.replace("1024", "64").replace("limit vm.dirty_ratio 20\n", "")
    found = read_limits(TEXT, after)
    assert found["ufs.queue.max_sectors_kb"] == "1024"
    assert found["end.ufs.queue.max_sectors_kb"] == "64"
    assert len(found) == 5


def test_limits_of_a_board_are_untrusted() -> None:
    lines = [
        "limit",
        "limit x",
        "limit y ",
        "limit ../etc/passwd 1",
        "limit a<script> 1",
        "limit ufs.control \x1b[31m1",
        f"limit ufs.long {'9' * 1000}",
        *(f"limit ufs.n{number} 1" for number in range(2 * LIMITS)),
    ]
    found = read_limits("\n".join(lines))
    assert len(found) < LIMITS
    assert found.pop("ufs.long") == "9" * LENGTH
    assert all(name.startswith("ufs.n") for name in found)


def test_records_of_older_versions_know_no_limit() -> None:
    assert FactRecord.model_validate({"before": {}, "after": {}}).limits == {}
