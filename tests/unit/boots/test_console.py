"""What a console log says: how far, and whose fault. Logs are of real boots, shortened."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iotoll.boots.console import read_console

BOOT = """\
[    0.000000] Booting Linux on physical CPU 0x0000000000 [0x410fd083]
[    1.114502] ufshcd 0000:00:02.0: ufshcd_populate_vreg: Unable to find vdd-hba-supply regulator
[    1.520933] nvme nvme0: 1/0/0 default/read/poll queues
[    2.004131] Run /init as init process
"""
START = "iotoll: step prepare\n"
BATCH = """\
iotoll: step batch ufs
[ 1212.001002] sh (301): drop_caches: 3
iotoll: cell ufs-4k-randread-t1-direct
iotoll: cell ufs-4k-randread-t1-sync
"""
DONE = "iotoll: done\n[ 1916.376519] sd 0:0:0:0: [sda] Synchronizing SCSI cache\n"
PANIC = """\
[    1.600103] Unable to handle kernel NULL pointer dereference at virtual address 0000000000000010
[    1.600201] Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP
[    1.600401] Call trace:
[    1.600501]  ufshcd_pci_probe+0x9c/0x1a0
[    1.600601] Kernel panic - not syncing: Oops: Fatal exception
"""


def test_nothing_yet() -> None:
    state = read_console("")
    assert (state.started, state.done, state.cells, state.failed_at) == (False, False, 0, None)


def test_steps_in_their_order() -> None:
    assert read_console(BOOT).steps == ()
    assert read_console(BOOT + START + BATCH).steps == ("prepare", "batch ufs")


def test_booting_and_running() -> None:
    assert not read_console(BOOT).started
    state = read_console(BOOT + START + BATCH)
    assert state.started
    assert state.cells == 2
    assert state.failed_at is None
    assert state.log_tail.endswith("ufs-4k-randread-t1-sync")


def test_complete() -> None:
    state = read_console(BOOT + START + BATCH + DONE)
    assert state.done
    assert state.failed_at is None


def test_done_must_be_a_line_of_its_own() -> None:
    assert not read_console(BOOT + START + "iotoll: done or not\n").done


def test_panic_before_the_workload_is_the_boots() -> None:
    state = read_console(BOOT + PANIC)
    assert state.failed_at == "boot"
    assert state.reason.startswith("Unable to handle kernel NULL pointer dereference")
    assert "ufshcd_pci_probe+0x9c/0x1a0" in state.log_tail
    assert "Kernel panic - not syncing" in state.log_tail


@pytest.mark.parametrize(
    "line",
    [
        "Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:91]",
        "BUG: kernel NULL pointer dereference, address: 0000000000000010",
        "Oops: general protection fault, probably for non-canonical address 0x6b: 0000 [#1]",
        "kernel BUG at fs/ext4/inode.c:2722!",
        "Internal error: synchronous external abort: 0000000096000010 [#1] SMP",
    ],
)
def test_crash_during_the_workload(line: str) -> None:
    state = read_console(BOOT + START + BATCH + f"[ 1300.100000] {line}\n")
    assert state.failed_at == "workload"
    assert state.reason == line.split("watchdog: ")[-1] or state.reason == line


def test_a_crash_counts_even_after_the_last_line() -> None:
    assert read_console(BOOT + START + BATCH + DONE + PANIC).failed_at == "workload"


@pytest.mark.parametrize(
    "line",
    [
        "I/O error, dev sda, sector 2056 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 0",
        "EXT4-fs error (device sda): ext4_lookup:1855: inode #2: comm fio: deleted inode",
        "Buffer I/O error on dev nvme0n1, logical block 0, async page read",
        "nvme nvme0: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 1 timeout, aborting",
        "nvme nvme0: I/O tag 5 (1005) QID 1 timeout, completion polled",
        "nvme nvme0: I/O tag 4 (1004) QID 0 timeout, reset controller",
        "mmc0: Timeout waiting for hardware interrupt.",
        "VFS: Unable to mount root fs on unknown-block(0,0)",
    ],
)
def test_errors_of_the_storage_stack(line: str) -> None:
    state = read_console(BOOT + START + BATCH + f"[ 1300.100000] {line}\n")
    assert state.failed_at == "workload"
    assert state.reason.startswith(line[:20])
    assert read_console(BOOT + START + BATCH + DONE + line).failed_at is None, "after the workload"


def test_the_workloads_own_words() -> None:
    text = BOOT + START + BATCH + "fio: io_u error\niotoll: FAIL workload: ufs: fio failed\n"
    state = read_console(text)
    assert state.failed_at == "workload"
    assert state.reason == "workload: ufs: fio failed"
    assert state.log_tail.endswith("iotoll: FAIL workload: ufs: fio failed")


def test_serial_lines_end_in_carriage_returns() -> None:
    state = read_console((BOOT + START + BATCH + DONE).replace("\n", "\r\n"))
    assert state.done
    assert "\r" not in state.log_tail


def test_probing_noise_of_a_healthy_boot_is_no_failure() -> None:
    assert read_console(BOOT + START).failed_at is None


def test_a_lost_interrupt_of_the_nvme_administration_queue_is_survived() -> None:
    line = "[   63.138107] nvme nvme0: I/O tag 4 (1004) QID 0 timeout, completion polled\n"
    assert read_console(BOOT + line + START).failed_at is None


@settings(max_examples=30)
@given(st.text())
def test_any_text_is_judged(text: str) -> None:
    state = read_console(text)
    assert state.failed_at in (None, "boot", "workload")
    assert bool(state.reason) == (state.failed_at is not None)
