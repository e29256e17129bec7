//! One I/O at a time: where its sections begin and end, and what ran for it.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use std::collections::BTreeMap;

use common::*;
use iosections::{Kind, Op, Options};

/// A direct read on UFS that sleeps and is woken from the idle task.
fn direct_read() -> Vec<Line> {
    vec![
        (50, 0, 7, Kind::Other),
        (100, 0, 7, enter(Op::Pread64)),
        (130, 0, 7, queue("R", 80, 8)),
        (160, 0, 7, issue("R", 80, 8)),
        (170, 0, 7, SEND(3)),
        (180, 0, 7, Kind::QueueReturn),
        (200, 0, 7, sleep(0)),
        (1000, 0, 0, IRQ),
        (1010, 0, 0, DONE(3)),
        (1025, 0, 0, complete("R", 80, 8)),
        (1040, 0, 0, Kind::IrqExit),
        (1060, 0, 0, preempt(7)),
        (1075, 0, 7, leave(Op::Pread64)),
    ]
}

#[test]
fn a_direct_read_on_ufs() {
    let outcome = run(&direct_read());
    let io = only(&outcome);
    assert_eq!(io.elapsed, [30, 40, 830, 25, 50]);
    assert_eq!(io.own, [30, 40, 30, 25, 50]);
    assert!(io.clean);
    assert_eq!(
        (io.start, io.pid, io.op, io.bytes),
        (100, 7, Op::Pread64, 4096)
    );
    assert_eq!(
        (io.path.as_str(), io.requests, io.bios, io.detached),
        ("R4", 1, 1, 0)
    );
    assert_eq!(
        outcome.device_marks,
        BTreeMap::from([("ufshcd_command", 1)])
    );
    assert_eq!(
        outcome.interrupt_marks,
        BTreeMap::from([("irq_handler_entry", 1)])
    );
    assert_eq!(outcome.drivers, [1, 0, 0, 0]);
    // Each event counts in the piece that it ends: bio_queue in vfs_fs, sys_exit in return.
    assert_eq!(outcome.probe_events[3], [1, 0, 0, 0, 0]);
    assert_eq!(outcome.probe_events[4], [0, 1, 0, 0, 0]);
    assert_eq!(outcome.probe_events[2], [0, 0, 0, 0, 1]);
    // The interrupt's entry ended a sleep, so it is in nobody's time.
    assert!(
        outcome
            .probe_events
            .get(6)
            .is_none_or(|counts| counts == &[0; 5])
    );
}

#[test]
fn the_return_of_the_queue_function_is_the_hand_over() {
    let options = Options {
        use_queue_return: true,
        ignore_queue_return: false,
        ..options()
    };
    let outcome = run_with(options, &direct_read());
    assert_eq!(only(&outcome).elapsed, [30, 50, 820, 25, 50]);
    assert_eq!(
        outcome.device_marks,
        BTreeMap::from([("queue_rq_return", 1)])
    );
}

#[test]
fn an_interrupt_inside_the_queue_function_ends_the_hand_over() {
    let mut lines = direct_read();
    lines.truncate(5);
    lines.extend([
        (176, 0, 7, IRQ),
        (180, 0, 7, DONE(3)),
        (190, 0, 7, complete("R", 80, 8)),
        (195, 0, 7, Kind::IrqExit),
        (199, 0, 7, Kind::QueueReturn),
        (230, 0, 7, leave(Op::Pread64)),
    ]);
    let outcome = run_with(
        Options {
            use_queue_return: true,
            ignore_queue_return: false,
            ..options()
        },
        &lines,
    );
    let io = only(&outcome);
    assert_eq!(io.elapsed, [30, 46, 0, 14, 40]);
    assert_eq!(io.own, io.elapsed);
    assert!(io.clean);
    assert_eq!(outcome.device_marks, BTreeMap::from([("clamped", 1)]));
}

#[test]
fn a_missed_return_probe_falls_back_to_the_last_event_before() {
    let mut lines = direct_read();
    lines.retain(|l| l.3 != Kind::QueueReturn);
    let outcome = run_with(
        Options {
            use_queue_return: true,
            ignore_queue_return: false,
            ..options()
        },
        &lines,
    );
    assert_eq!(
        outcome.device_marks,
        BTreeMap::from([("ufshcd_command", 1)])
    );
}

#[test]
fn nvme_pairs_its_queue_entries_with_completions() {
    let lines = [
        (100, 0, 7, enter(Op::Pread64)),
        (130, 0, 7, queue("R", 80, 8)),
        (150, 0, 7, SETUP(9)),
        (160, 0, 7, issue("R", 80, 8)),
        (200, 0, 7, sleep(0)),
        (1000, 0, 0, IRQ),
        (1010, 0, 0, Kind::NvmeSq(1)),
        (1025, 0, 0, complete("R", 80, 8)),
        (1040, 0, 0, Kind::IrqExit),
        (1060, 0, 0, preempt(7)),
        (1075, 0, 7, leave(Op::Pread64)),
    ];
    let outcome = run(&lines);
    let io = only(&outcome);
    assert_eq!(io.elapsed, [30, 30, 840, 25, 50]);
    assert_eq!(io.own, [30, 30, 40, 25, 50]);
    assert!(io.clean);
    assert_eq!(
        outcome.device_marks,
        BTreeMap::from([("block_rq_issue", 1)])
    );
    assert_eq!(outcome.drivers, [0, 1, 0, 0]);
}

#[test]
fn completion_in_a_softirq_begins_with_the_interrupt_before_it() {
    for with_driver in [true, false] {
        let mut lines = direct_read();
        lines.truncate(7);
        lines.extend([
            (1000, 0, 0, IRQ),
            (1010, 0, 0, if with_driver { DONE(3) } else { Kind::Other }),
            (1020, 0, 0, Kind::IrqExit),
            (1025, 0, 0, Kind::SoftirqEntry(4)),
            (1040, 0, 0, complete("R", 80, 8)),
            (1050, 0, 0, Kind::SoftirqExit),
            (1060, 0, 0, preempt(7)),
            (1075, 0, 7, leave(Op::Pread64)),
        ]);
        let outcome = run(&lines);
        let io = only(&outcome);
        assert_eq!(io.elapsed, [30, 40, 830, 40, 35]);
        // Without the driver's event nothing says whom the interrupt itself served.
        let completion = if with_driver { 40 } else { 15 };
        assert_eq!(io.own, [30, 40, 30, completion, 35]);
        assert_eq!(io.clean, with_driver);
    }
}

#[test]
fn polled_completions_have_no_interrupt() {
    let mut lines = direct_read();
    lines.retain(|l| !matches!(l.3, Kind::IrqEntry(_) | Kind::IrqExit | Kind::Done(..)));
    let outcome = run(&lines);
    assert_eq!(only(&outcome).elapsed, [30, 40, 855, 0, 50]);
    assert_eq!(outcome.interrupt_marks, BTreeMap::from([("none", 1)]));
    let mut lines = direct_read();
    lines.retain(|l| !matches!(l.3, Kind::IrqEntry(_) | Kind::IrqExit));
    let outcome = run(&lines);
    assert_eq!(only(&outcome).elapsed, [30, 40, 840, 15, 50]);
    assert_eq!(
        outcome.interrupt_marks,
        BTreeMap::from([("ufshcd_command", 1)])
    );
}

#[test]
fn a_polled_queue_of_nvme_completes_from_the_moment_at_which_it_is_read() {
    let lines = [
        (100, 0, 7, enter(Op::Pread64)),
        (130, 0, 7, queue("R", 80, 8)),
        (140, 0, 7, queue("R", 800, 8)),
        (150, 0, 7, SETUP(9)),
        (160, 0, 7, issue("R", 80, 8)),
        (165, 0, 7, SETUP(10)),
        (170, 0, 7, issue("R", 800, 8)),
        (1010, 0, 7, Kind::NvmeSq(1)),
        (1012, 0, 7, Kind::NvmeSq(1)),
        (1025, 0, 7, complete("R", 80, 8)),
        (1035, 0, 7, complete("R", 800, 8)),
        (1075, 0, 7, leave(Op::Pread64)),
    ];
    let outcome = run(&lines);
    let io = only(&outcome);
    // The second one is at the device until it is read.
    assert_eq!(io.elapsed, [30, 30, 852, 23, 40]);
    assert_eq!(outcome.interrupt_marks, BTreeMap::from([("nvme_sq", 2)]));
    // With the driver's other event that one marks them all, whatever came between.
    let mut lines = lines.to_vec();
    lines.insert(9, (1020, 0, 7, NVME_DONE(9)));
    lines.insert(11, (1030, 0, 7, NVME_DONE(10)));
    let outcome = run(&lines);
    assert_eq!(only(&outcome).elapsed, [30, 30, 870, 5, 40]);
    assert_eq!(
        outcome.interrupt_marks,
        BTreeMap::from([("nvme_complete_rq", 2)])
    );
}

#[test]
fn foreign_work_is_in_elapsed_only() {
    let mut lines = direct_read();
    // A timer in vfs_fs, another task between wake-up and return.
    lines.splice(2..2, [(110, 0, 7, IRQ), (115, 0, 7, Kind::IrqExit)]);
    let at = lines.len() - 2;
    lines.splice(
        at..,
        [
            (1060, 0, 0, preempt(200)),
            (1100, 0, 200, sleep(7)),
            (1115, 0, 7, leave(Op::Pread64)),
        ],
    );
    let outcome = run(&lines);
    let io = only(&outcome);
    assert_eq!(io.elapsed, [30, 40, 830, 25, 90]);
    // The idle time before the other task was not on the way to this one.
    assert_eq!(io.own, [25, 40, 30, 25, 30]);
    assert!(!io.clean);
}

#[test]
fn without_sched_switch_a_task_runs_between_its_events() {
    let mut lines = direct_read();
    lines.retain(|l| !matches!(l.3, Kind::Switch { .. }));
    let outcome = run(&lines);
    let io = only(&outcome);
    assert_eq!(io.elapsed, [30, 40, 830, 25, 50]);
    assert_eq!(io.own, [30, 40, 10, 25, 50]);
}

#[test]
fn a_split_bio_is_at_the_device_until_its_last_part_is_done() {
    let outcome = run(&[
        (0, 0, 7, enter(Op::Pread64)),
        (10, 0, 7, queue("R", 100, 24)),
        (15, 0, 7, Kind::Split(DISK)),
        (20, 0, 7, issue("R", 100, 16)),
        (30, 0, 7, issue("R", 116, 8)),
        (40, 0, 7, sleep(0)),
        (50, 0, 0, IRQ),
        (55, 0, 0, complete("R", 116, 8)),
        (60, 0, 0, Kind::IrqExit),
        (100, 0, 0, IRQ),
        (105, 0, 0, complete("R", 100, 16)),
        (110, 0, 0, Kind::IrqExit),
        (120, 0, 0, preempt(7)),
        (130, 0, 7, leave(Op::Pread64)),
    ]);
    let io = only(&outcome);
    assert_eq!(io.elapsed, [10, 10, 80, 5, 25]);
    // The first interrupt fell into the time at the device, but it worked for this I/O.
    assert_eq!(io.own, [10, 10, 20, 10, 30]);
    assert_eq!(io.path, "R8+R4");
    assert_eq!(
        (outcome.requests.splits, outcome.requests.attributed),
        (1, 2)
    );
}

#[test]
fn merged_bios_share_a_request_and_gaps_between_requests_are_the_file_systems() {
    let outcome = run(&[
        (0, 0, 7, enter(Op::Write)),
        (10, 0, 7, queue("WS", 100, 8)),
        (12, 0, 7, queue("WS", 108, 8)),
        (14, 0, 7, Kind::Merge(DISK)),
        (20, 0, 7, issue("WS", 100, 16)),
        (40, 0, 7, complete("WS", 100, 16)),
        (70, 0, 7, queue("WS", 200, 1)),
        (75, 0, 7, issue("WS", 200, 1)),
        (90, 0, 7, complete("WS", 200, 1)),
        (95, 0, 7, leave(Op::Write)),
    ]);
    let io = only(&outcome);
    assert_eq!(io.elapsed, [10 + 30, 10 + 5, 20 + 15, 0, 5]);
    assert_eq!((io.path.as_str(), io.bios), ("WS8+WS0.5", 3));
    assert_eq!(outcome.requests.merges, 1);
}

#[test]
fn a_requeued_request_is_at_the_device_from_its_last_issue() {
    for with_event in [true, false] {
        let mut lines = vec![
            (0, 0, 7, enter(Op::Pread64)),
            (10, 0, 7, queue("R", 100, 8)),
            (20, 0, 7, issue("R", 100, 8)),
            (60, 0, 60, issue("R", 100, 8)),
            (90, 0, 7, complete("R", 100, 8)),
            (95, 0, 7, leave(Op::Pread64)),
        ];
        if with_event {
            lines.insert(3, (30, 0, 7, Kind::Requeue(span("R", 100, 8))));
        }
        let outcome = run(&lines);
        assert_eq!(only(&outcome).elapsed, [10, 50, 30, 0, 5]);
        assert_eq!((outcome.requests.seen, outcome.requests.requeues), (1, 1));
    }
}

#[test]
fn a_request_completed_in_parts_ends_with_the_last() {
    let outcome = run(&[
        (0, 0, 7, enter(Op::Pread64)),
        (10, 0, 7, queue("R", 100, 8)),
        (20, 0, 7, issue("R", 100, 8)),
        (60, 0, 7, complete("R", 100, 2)),
        (90, 0, 7, complete("R", 102, 6)),
        (95, 0, 7, leave(Op::Pread64)),
    ]);
    assert_eq!(only(&outcome).elapsed, [10, 10, 70, 0, 5]);
    assert_eq!(outcome.requests.seen, 1);
}

#[test]
fn requests_that_outlive_the_call_are_detached() {
    let outcome = run(&[
        (0, 0, 7, enter(Op::Read)),
        (10, 0, 7, queue("RA", 100, 8)),
        (20, 0, 7, issue("RA", 100, 8)),
        (50, 0, 7, leave(Op::Read)),
        (90, 0, 7, complete("RA", 100, 8)),
    ]);
    let io = only(&outcome);
    assert_eq!(
        (io.elapsed, io.path.as_str(), io.detached),
        ([10, 10, 30, 0, 0], "RA4d", 1)
    );
    assert_eq!((outcome.ios.detached, outcome.requests.attributed), (1, 1));
}
