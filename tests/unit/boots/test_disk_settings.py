"""lib.sh sets a disk as a batch's file says and puts it back, here a folder like sysfs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from iotoll.core.paths import data_dir

LIB = data_dir("lava-jobs") / "dut/lib.sh"
SCRIPT = """
. {lib}
disk_of() {{ echo {disk}; }}
SCHEDULER=none
set_disks {job} nvme-x devices
cat {disk}/queue/scheduler {disk}/queue/nr_requests
disk_of() {{ echo "disk-of-$1"; }}
find_disks nvme-x
echo $DISKS
disk_of() {{ echo {disk}; }}
reset_disks
cat {disk}/queue/scheduler {disk}/queue/nr_requests
"""


def run(tmp_path: Path, settings: str) -> subprocess.CompletedProcess[str]:
    disk = tmp_path / "disk"
    (disk / "mq/0").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue/scheduler").write_text("none\n")
    (disk / "queue/nr_requests").write_text("1023\n")
    if settings:
        (tmp_path / "nvme-x.disk").write_text(settings)
    text = SCRIPT.format(lib=LIB, disk=disk, job=tmp_path)
    return subprocess.run(
        ["sh", "-u", "-c", text], capture_output=True, text=True, check=False, timeout=20
    )


def test_scheduler_and_tags_are_set_and_put_back(tmp_path: Path) -> None:
    done = run(tmp_path, "SCHEDULER=mq-deadline\nTAGS=4\nQUEUES=1\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["mq-deadline", "4", "disk-of-nvme", "none", "1023"]


def test_a_batch_without_settings_leaves_the_disk_alone(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["none", "1023", "disk-of-nvme", "none", "1023"]


def test_only_disks_that_the_cells_use_are_prepared_before_them(tmp_path: Path) -> None:
    # Two disks share tags: to look for the first tag of one undoes the other's nr_requests.
    both = run(tmp_path / "both", "SECOND=1\nTAGS=4\n").stdout.split()
    assert both[2:4] == ["disk-of-nvme", "disk-of-nvme2"]


def test_another_number_of_queues_fails_the_workload(tmp_path: Path) -> None:
    done = run(tmp_path, "QUEUES=4\n")
    assert done.returncode == 1
    assert "iotoll: FAIL workload: nvme has 1 queues, not 4" in done.stdout
