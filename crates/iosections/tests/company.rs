//! I/Os beside each other, helpers and losses.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::pedantic)]

mod common;

use common::*;
use iosections::{Dev, Kind, Op};

/// Two reads that one interrupt completes, on one CPU.
fn batch(first: Kind, second: Kind) -> Vec<Line> {
    vec![
        (0, 0, 1, enter(Op::Pread64)),
        (10, 0, 1, queue("R", 100, 8)),
        (20, 0, 1, issue("R", 100, 8)),
        (22, 0, 1, SEND(1)),
        (30, 0, 1, sleep(2)),
        (31, 0, 2, enter(Op::Pread64)),
        (40, 0, 2, queue("R", 200, 8)),
        (50, 0, 2, issue("R", 200, 8)),
        (52, 0, 2, SEND(2)),
        (60, 0, 2, sleep(0)),
        (100, 0, 0, IRQ),
        (110, 0, 0, first),
        (115, 0, 0, complete("R", 100, 8)),
        (125, 0, 0, second),
        (132, 0, 0, complete("R", 200, 8)),
        (140, 0, 0, Kind::IrqExit),
        (150, 0, 0, preempt(1)),
        (160, 0, 1, leave(Op::Pread64)),
        (170, 0, 1, sleep(2)),
        (180, 0, 2, leave(Op::Pread64)),
    ]
}

#[test]
fn one_interrupt_for_two_is_shared_out() {
    let outcome = run(&batch(DONE(1), DONE(2)));
    let [one, two] = &outcome.results[..] else {
        panic!("{outcome:?}")
    };
    assert_eq!(one.elapsed, [10, 12, 78, 15, 45]);
    assert_eq!(one.own, [10, 12, 8, 15, 10 + 10 + 10]);
    assert_eq!(two.elapsed, [9, 12, 48, 32, 48]);
    // Entry to first mark is the first one's; the way back through task 1 is not the second's.
    assert_eq!(two.own, [9, 12, 8, 7, 8 + 10]);
    assert!(!one.clean && !two.clean);
    // What the first requests' completions cost: 32 up to the last one, for two of them.
    let share = |io: &iosections::IoResult| io.first.and_then(|f| f.completion);
    assert_eq!((share(one), share(two)), (Some(16), Some(16)));
}

#[test]
fn the_share_counts_the_softirq_and_not_what_interrupts_it() {
    let mut lines = batch(DONE(1), Kind::Other);
    lines.retain(|l| l.0 <= 110 || l.0 >= 150);
    lines.extend([
        (112, 0, 0, DONE(2)),
        (114, 0, 0, Kind::IrqExit),
        (117, 0, 0, Kind::SoftirqEntry(4)),
        (120, 0, 0, complete("R", 100, 8)),
        (121, 0, 0, IRQ),
        (129, 0, 0, Kind::IrqExit),
        (131, 0, 0, complete("R", 200, 8)),
        (133, 0, 0, Kind::SoftirqExit),
    ]);
    lines.sort_by_key(|l| l.0);
    let outcome = run(&lines);
    let shares: Vec<_> = outcome
        .results
        .iter()
        .map(|io| io.first.unwrap().completion.unwrap())
        .collect();
    // 100 to 131 without the timer's 121 to 129.
    assert_eq!(shares, [23 / 2, 23 / 2]);
}

#[test]
fn nvme_batches_are_shared_out_by_the_order_of_the_queue() {
    let mut lines = batch(Kind::NvmeSq(1), Kind::Other);
    lines.retain(|l| !matches!(l.3, Kind::Send(..)));
    lines.insert(2, (15, 0, 1, SETUP(1)));
    lines.insert(7, (45, 0, 2, SETUP(2)));
    let at = lines
        .iter()
        .position(|l| l.3 == complete("R", 100, 8))
        .unwrap();
    lines.insert(at, (113, 0, 0, Kind::NvmeSq(1)));
    let outcome = run(&lines);
    let [one, two] = &outcome.results[..] else {
        panic!("{outcome:?}")
    };
    assert_eq!(one.elapsed, [10, 10, 80, 15, 45]);
    assert_eq!(one.own[3], 13);
    assert_eq!(two.own[3], 2);
    assert_eq!(two.elapsed[3], 32);
}

#[test]
fn two_tasks_may_read_the_same_sectors_at_once() {
    let outcome = run(&[
        (0, 0, 1, enter(Op::Pread64)),
        (1, 1, 2, enter(Op::Pread64)),
        (10, 0, 1, queue("R", 100, 8)),
        (11, 1, 2, queue("R", 100, 8)),
        (20, 1, 2, issue("R", 100, 8)),
        (30, 0, 1, issue("R", 100, 8)),
        (50, 0, 1, complete("R", 100, 8)),
        (60, 0, 1, complete("R", 100, 8)),
        (70, 0, 1, leave(Op::Pread64)),
        (70, 1, 2, leave(Op::Pread64)),
    ]);
    // Requests of the same sectors complete in the order of issue: task 2's first.
    assert_eq!(outcome.results[0].elapsed, [10, 20, 30, 0, 10]);
    assert_eq!(outcome.results[1].elapsed, [10, 9, 30, 0, 20]);
}

/// A synchronous write whose journal thread and worker do the rest; after the FUA write comes
/// another flush if the device has no FUA.
fn journalled(flush_after: bool, zero_complete: bool) -> Vec<Line> {
    let mut lines = vec![
        (0, 0, 1, enter(Op::Pwrite64)),
        (10, 0, 1, queue("WS", 800, 8)),
        (20, 0, 1, issue("WS", 800, 8)),
        (25, 0, 1, sleep(0)),
        (50, 0, 0, IRQ),
        (55, 0, 0, complete("WS", 800, 8)),
        (58, 0, 0, Kind::IrqExit),
        (60, 0, 0, preempt(1)),
        (65, 0, 1, sleep(JOURNAL)),
        (70, 0, JOURNAL, queue("FWFSM", 100, 2)),
        (75, 0, JOURNAL, sleep(WORKER)),
        (80, 0, WORKER, issue("FF", 0, 0)),
        (85, 0, WORKER, sleep(0)),
        (100, 0, 0, IRQ),
        (105, 0, 0, complete("FF", u64::MAX, 0)),
        (110, 0, 0, Kind::IrqExit),
        (115, 0, 0, preempt(WORKER)),
        (120, 0, WORKER, issue("WFSM", 100, 2)),
        (125, 0, WORKER, sleep(0)),
        (150, 0, 0, IRQ),
        (155, 0, 0, complete("WFSM", 100, 2)),
    ];
    if flush_after {
        lines.extend([
            (158, 0, 0, Kind::IrqExit),
            (160, 0, 0, preempt(WORKER)),
            (165, 0, WORKER, issue("FF", 0, 0)),
            (170, 0, WORKER, sleep(0)),
            (175, 0, 0, IRQ),
            (177, 0, 0, complete("FF", u64::MAX, 0)),
        ]);
    }
    if zero_complete {
        lines.push((178, 0, 0, complete("WFSM", 100, 0)));
    }
    lines.extend([
        (180, 0, 0, Kind::IrqExit),
        (185, 0, 0, preempt(JOURNAL)),
        (190, 0, JOURNAL, sleep(1)),
        (195, 0, 1, leave(Op::Pwrite64)),
    ]);
    lines
}

#[test]
fn helpers_requests_belong_to_the_write_that_waits_for_them() {
    for (flush_after, zero_complete, path, elapsed) in [
        (
            false,
            false,
            "WS4+hFF+hWFSM1",
            [10 + 15, 10 + 10 + 15, 30 + 20 + 30, 5 + 5 + 5, 40],
        ),
        (false, true, "WS4+hFF+hWFSM1", [25, 35, 80, 5 + 5 + 28, 17]),
        (
            true,
            false,
            "WS4+hFF+hWFSM1+hFF",
            [25, 35 + 10, 80 + 10, 15 + 2, 18],
        ),
        (true, true, "WS4+hFF+hWFSM1+hFF", [25, 45, 90, 15 + 3, 17]),
    ] {
        let outcome = run(&journalled(flush_after, zero_complete));
        let io = only(&outcome);
        assert_eq!((io.path.as_str(), io.elapsed), (path, elapsed));
        assert!(io.clean, "{io:?}");
        let software: u64 = io.elapsed.iter().sum::<u64>() - io.elapsed[2];
        assert_eq!(software, io.own.iter().sum::<u64>() - io.own[2]);
        let requests = 3 + u64::from(flush_after);
        assert_eq!(outcome.requests.seen, requests);
        assert_eq!(
            (outcome.requests.attributed, outcome.requests.helper),
            (1, requests - 1)
        );
    }
}

#[test]
fn nobody_waited_for_what_a_helper_has_not_finished() {
    let mut lines = journalled(false, false);
    let at = lines.iter().position(|l| l.0 == 100).unwrap();
    lines.insert(at, (99, 1, 1, leave(Op::Pwrite64)));
    lines.pop();
    let outcome = run(&lines);
    assert_eq!(only(&outcome).path, "WS4");
    assert_eq!(
        (outcome.requests.helper, outcome.requests.unattributed),
        (0, 2)
    );
}

#[test]
fn helpers_read_for_nobody_and_strangers_help_nobody() {
    for (pid, rwbs) in [(JOURNAL, "R"), (200, "WS")] {
        let outcome = run(&[
            (0, 0, 1, enter(Op::Fsync)),
            (5, 0, 1, sleep(pid)),
            (10, 0, pid, queue(rwbs, 800, 8)),
            (20, 0, pid, issue(rwbs, 800, 8)),
            (30, 0, pid, complete(rwbs, 800, 8)),
            (40, 0, pid, sleep(1)),
            (50, 0, 1, leave(Op::Fsync)),
        ]);
        assert_eq!((outcome.ios.waited, outcome.requests.unattributed), (1, 1));
    }
}

#[test]
fn what_touches_a_gap_is_dropped() {
    let io = |at: u64, sector: u64| {
        [
            (at, 0, 1, enter(Op::Pread64)),
            (at + 10, 0, 1, queue("R", sector, 8)),
            (at + 20, 0, 1, issue("R", sector, 8)),
            (at + 30, 0, 1, complete("R", sector, 8)),
            (at + 40, 0, 1, leave(Op::Pread64)),
        ]
    };
    let lines: Vec<Line> = (0..5).flat_map(|n| io(n * 100, n * 8)).collect();
    // A later gap overlaps; one reaches back before the trace.
    let gaps = [(1, lost(240, 300)), (2, lost(0, 20)), (3, lost(230, 250))];
    let outcome = feed(options(), &gaps, &lines);
    let starts: Vec<u64> = outcome.results.iter().map(|r| r.start).collect();
    assert_eq!(starts, [100, 400]);
    assert_eq!((outcome.ios.seen, outcome.ios.dropped_lost), (5, 3));
}

#[test]
fn what_the_trace_cuts_off_is_incomplete() {
    let outcome = run(&[
        (0, 0, 1, leave(Op::Pread64)),
        (5, 0, 1, complete("R", 8, 8)),
        (10, 0, 1, enter(Op::Pread64)),
        (15, 0, 1, leave(Op::Pread64)),
        (20, 0, 1, enter(Op::Pread64)),
        (30, 0, 1, queue("R", 100, 8)),
        (40, 0, 1, issue("R", 100, 8)),
        (50, 0, 100, enter(Op::Pread64)),
    ]);
    assert_eq!(
        (
            outcome.ios.seen,
            outcome.ios.incomplete,
            outcome.ios.no_request
        ),
        (3, 2, 1)
    );
    assert_eq!((outcome.requests.seen, outcome.requests.in_flight), (2, 2));
}

#[test]
fn other_devices_and_unselected_tasks_do_not_count() {
    let mut other = span("R", 100, 8);
    other.dev = Dev {
        major: 259,
        minor: 0,
    };
    let outcome = run(&[
        (0, 0, 1, enter(Op::Pread64)),
        (10, 0, 1, Kind::BioQueue(other)),
        (20, 0, 1, Kind::Issue(other)),
        (30, 0, 1, Kind::Complete(other)),
        (40, 0, 1, leave(Op::Pread64)),
        (50, 0, 100, enter(Op::Pread64)),
        (60, 0, 100, queue("R", 100, 8)),
        (70, 0, 100, issue("R", 100, 8)),
        (80, 0, 100, complete("R", 100, 8)),
        (90, 0, 100, leave(Op::Pread64)),
    ]);
    assert_eq!((outcome.ios.seen, only(&outcome).dev), (1, other.dev));
    let disk = outcome.outcome.device(DISK).map(|d| d.measured);
    assert_eq!(disk, Some(0));
    assert_eq!(
        (outcome.requests.seen, outcome.requests.unattributed),
        (1, 1)
    );
}
