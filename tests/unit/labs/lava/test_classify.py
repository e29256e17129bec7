"""The lab's fault or the candidate's: one test for each rule, on what real jobs said."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iotoll.core.errors import BrokenError, InfrastructureError
from iotoll.labs.lava.classify import classify, evidence, without_figures
from iotoll.labs.lava.issues import Issue, load_issues
from iotoll.labs.lava.job_log import JobLog, read_log

AT = "2026-11-21T20:02:00+00:00"
DEPLOY = ("info", "start: 1 deployimages (timeout 00:05:00) [common]")
BOOT = ("info", "start: 2 boot-image-retry (timeout 00:04:00) [common]")
TEST = ("info", "start: 3 lava-test-retry (timeout 00:20:00) [common]")
END = ("info", "start: 4 finalize (timeout 00:24:17) [common]")
KERNEL = ("target", "[    0.000000] Linux version 6.12.117 (gcc (Debian 12.2.0-14) 12.2.0)")
STARTED = ("target", "Starting kernel ...")
STEP = ("target", "iotoll: step prepare")
BEGUN = (DEPLOY, BOOT, KERNEL, TEST, STEP)
ISSUES = load_issues([])
CLOSED = "Connection closed"


def log_of(*entries: tuple[str, str]) -> JobLog:
    lines = [json.dumps({"dt": AT, "lvl": level, "msg": text}) for level, text in entries]
    return read_log("".join(f"- {line}\n" for line in lines).encode())


def judged(
    *entries: tuple[str, str],
    health: str = "Incomplete",
    kind: str = "Infrastructure",
    error: str = CLOSED,
) -> tuple[str, str]:
    """Outcome and the rule that decided."""
    found = classify(evidence(health, kind, error, log_of(*entries)), ISSUES)
    outcome = "broken" if isinstance(found, BrokenError) else "infrastructure"
    return outcome, str(found).rpartition("[")[2].rstrip("]")


@pytest.mark.parametrize(
    "words",
    [
        "[    1.9] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b",
        "[    1.2] Unable to handle kernel NULL pointer dereference at virtual address 00000000",
        "[    1.2] Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP",
        "[   15.2] kernel BUG at fs/ext4/file.c:75!",
        "[   15.2] BUG: scheduling while atomic: fio/82/0x00000002",
        "[   15.2] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:82]",
        "#iotoll1 D 0a1b2c3d 3/9 eJyrVkrOz0[   15.2] Kernel panic - not syncing: Fatal exception",
        "#iotoll1 H 0a1b2c3d ufs zl[   15.2] Kernel panic - not syncing: Fatal exception",
    ],
)
@pytest.mark.parametrize(
    ("kind", "error"),
    [("Infrastructure", CLOSED), ("Job", "x"), ("Test", "lava-test-retry timed out"), ("", "")],
)
def test_crash_is_broken_whatever_lava_calls_it(words: str, kind: str, error: str) -> None:
    entries = (*BEGUN, ("target", words), END)
    assert judged(*entries, kind=kind, error=error) == ("broken", "crash")


def test_crash_at_boot_and_in_the_workload() -> None:
    panic = ("target", "[    1.9] Kernel panic - not syncing: VFS: Unable to mount root fs")
    at_boot = evidence("Incomplete", "Job", "", log_of(DEPLOY, BOOT, KERNEL, panic))
    later = evidence("Incomplete", "Job", "", log_of(*BEGUN, panic))
    for found, step in ((at_boot, "boot"), (later, "workload")):
        error = classify(found, ISSUES)
        assert isinstance(error, BrokenError)
        assert error.step == step
        assert "Kernel panic" in error.log_tail


@pytest.mark.parametrize(
    "words",
    [
        "[  245.1] INFO: task fio:82 blocked for more than 122 seconds.",
        "[   26.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "[   26.0] rcu: INFO: rcu_sched self-detected stall on CPU",
    ],
)
def test_hung_task_is_broken(words: str) -> None:
    entries = (*BEGUN, ("target", words), END)
    assert judged(*entries, error="lava-test-retry timed out after 480 seconds") == (
        "broken",
        "hang",
    )


@pytest.mark.parametrize(
    ("rule", "entries", "health", "kind", "error"),
    [
        ("cancelled", BEGUN, "Canceled", "", ""),
        ("cancelled", (), "Canceled", "", ""),
        ("connection-closed", (*BEGUN, END), "Incomplete", "Infrastructure", CLOSED),
        ("connection-closed", (DEPLOY, BOOT, KERNEL, END), "Incomplete", "Infrastructure", CLOSED),
        (
            "disk-full",
            (DEPLOY, END),
            "Incomplete",
            "Infrastructure",
            "Unable to write '/var/lib/lava/tmp/9/x': [Errno 28] No space left on device",
        ),
        (
            "download-failed",
            (DEPLOY, END),
            "Incomplete",
            "Job",
            "Resource unavailable at 'http://files/sha256/1a' (404)",
        ),
        (
            "no-sign-of-a-kernel",
            (DEPLOY, BOOT, END),
            "Incomplete",
            "Job",
            "auto-login-action timed out after 240 seconds",
        ),
        (
            "board-disk-full",
            (*BEGUN, ("target", "iotoll: FAIL handover: tar: No space left on device"), END),
            "Complete",
            "",
            "",
        ),
        ("unknown", (*BEGUN, END), "Incomplete", "Bug", "list index out of range"),
        ("unknown", (), "Incomplete", "", ""),
    ],
)
def test_infrastructure(
    rule: str, entries: tuple[tuple[str, str], ...], health: str, kind: str, error: str
) -> None:
    found = judged(*entries, health=health, kind=kind, error=error)
    assert found == ("infrastructure", rule)


@pytest.mark.parametrize(
    ("rule", "entries", "error"),
    [
        ("hangs-at-boot", (DEPLOY, BOOT, KERNEL, END), "auto-login-action timed out"),
        # Before the kernel has a console U-Boot says that it was started.
        ("hangs-at-boot", (DEPLOY, BOOT, STARTED, END), "auto-login-action timed out"),
        ("hangs-in-workload", (*BEGUN, END), "lava-test-shell timed out after 480 seconds"),
    ],
)
@pytest.mark.parametrize("kind", ["Job", "Test", "Infrastructure"])
def test_time_out_of_a_kernel_that_began_is_broken(
    rule: str, entries: tuple[tuple[str, str], ...], error: str, kind: str
) -> None:
    assert judged(*entries, kind=kind, error=error) == ("broken", rule)


def test_u_boot_that_cannot_start_a_kernel_is_the_lab_s() -> None:
    said = ("target", "Retry time exceeded; starting again")
    error = "matched a bootloader error message: 'Retry time exceeded; starting again' (5)"
    log = log_of(DEPLOY, BOOT, said, END)
    found = classify(evidence("Incomplete", "Infrastructure", error, log), load_issues(["uboot"]))
    assert isinstance(found, InfrastructureError)
    assert str(found).endswith("[uboot-no-address]")
    awaited = ("debug", "bootloader-commands: Wait for prompt Starting kernel (timeout 00:03:43)")
    assert judged(DEPLOY, BOOT, awaited, END, error="bootloader-commands timed out") == (
        "infrastructure",
        "no-sign-of-a-kernel",
    )


def test_end_that_lava_did_not_hear_of_is_the_serial_line_s() -> None:
    done = ("target", "iotoll: done")
    task = ("target", "[ 3600.0] INFO: task fio:82 blocked for more than 120 seconds.")
    error = "lava-test-shell timed out after 480 seconds"
    for words in ((*BEGUN, done, END), (*BEGUN, task, done, END)):
        assert judged(*words, kind="Test", error=error) == ("infrastructure", "end-not-heard")
    assert judged(*BEGUN, task, END, kind="Test", error=error) == ("broken", "hang")


def test_failed_workload_is_broken() -> None:
    failed = ("target", "iotoll: FAIL workload: ufs: fio or trace-cmd failed (status 1)")
    assert judged(*BEGUN, failed, END, health="Complete", kind="", error="") == (
        "broken",
        "workload",
    )


def test_a_boards_own_issue_counts_in_its_phase_alone() -> None:
    mine = Issue(
        id="mine",
        phase="deploy",
        pattern="FAILED .remote",
        outcome="infrastructure",
        note="Flash it again.",
        source="fastboot",
    )
    said = ("debug", "FAILED (remote: 'no')")
    at_deploy = evidence("Incomplete", "Job", "x", log_of(DEPLOY, said, END))
    at_boot = evidence("Incomplete", "Job", "x", log_of(DEPLOY, BOOT, said, END))
    assert "Flash it again) [mine]" in str(classify(at_deploy, [mine, *ISSUES]))
    assert "[mine]" not in str(classify(at_boot, [mine, *ISSUES]))


def test_no_issue_hides_a_crash() -> None:
    every = Issue(
        id="every", phase="any", pattern=".", outcome="infrastructure", note="x", source="x"
    )
    panic = ("target", "[    1.9] Kernel panic - not syncing: Oops: Fatal exception")
    found = classify(evidence("Incomplete", "Job", "x", log_of(*BEGUN, panic)), [every])
    assert isinstance(found, BrokenError)


def test_what_lava_says_of_the_end_is_in_the_message() -> None:
    log = log_of(*BEGUN, END)
    found = classify(evidence("Incomplete", "Infrastructure", CLOSED, log), ISSUES)
    assert isinstance(found, InfrastructureError)
    assert str(found).startswith("Connection closed (The serial connection ended")


RECORD = "#iotoll1 D 0a1b2c3d {number}/99 {data} 01234567"
SIGNAL = "<LAVA_SIGNAL_TESTCASE TEST_CASE_ID=x.median RESULT=pass UNITS=ns MEASUREMENT={number}>"
REPEATED = "Received signal: <TESTCASE> TEST_CASE_ID=x.median MEASUREMENT={number}"


@given(st.integers(1, 10**9), st.text("ABCabc+/09", min_size=48, max_size=120))
def test_no_figure_reaches_the_rules(number: int, data: str) -> None:
    """Whatever was measured, what is judged is the same to the last byte."""

    def seen(number: int, data: str) -> object:
        entries = [
            ("target", RECORD.format(number=number % 99 + 1, data=data)),
            ("target", f"#iotoll1 D 0a1b2c3d 1/9 {data[:40]}[    1.234567] usb 1-1: new device"),
            ("target", data),
            ("target", SIGNAL.format(number=number)),
            ("debug", REPEATED.format(number=number)),
            ("results", json.dumps({"case": "x.median", "measurement": number})),
        ]
        return evidence("Complete", "", "", log_of(*BEGUN, *entries, END))

    assert seen(number, data) == seen(1, "A" * 64)


def test_what_stands_beside_a_figure_stays() -> None:
    text = "#iotoll1 D 0a1b2c3d 1/9 eJyr[    1.234567] ufshcd: link startup failed"
    assert without_figures(text) == "[    1.234567] ufshcd: link startup failed"
