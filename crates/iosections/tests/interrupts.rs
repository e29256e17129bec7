//! Whose interrupt it was (FINDINGS F2.2): a late softirq, the interrupts of other devices.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::pedantic)]

mod common;

use common::*;
use iosections::{Kind, Mark, Op};

const NETWORK: Kind = Kind::IrqEntry(30);
const NET_RX: Kind = Kind::SoftirqEntry(3);
const BLOCK: Kind = Kind::SoftirqEntry(4);

/// A read from `at` on that a softirq completes right after the disk's interrupt.
fn usual(at: u64) -> Vec<Line> {
    read(
        at,
        &[
            (at + 50, 0, 0, IRQ),
            (at + 52, 0, 0, Kind::IrqExit),
            (at + 53, 0, 0, BLOCK),
            (at + 60, 0, 0, complete("R", at, 8)),
            (at + 61, 0, 0, Kind::SoftirqExit),
        ],
    )
}

/// A read whose completion is `how`.
fn read(at: u64, how: &[Line]) -> Vec<Line> {
    let mut lines = vec![
        (at, 0, 1, enter(Op::Pread64)),
        (at + 10, 0, 1, queue("R", at, 8)),
        (at + 20, 0, 1, issue("R", at, 8)),
        (at + 30, 0, 1, sleep(0)),
    ];
    lines.extend(how);
    lines.extend([
        (at + 90, 0, 0, preempt(1)),
        (at + 95, 0, 1, leave(Op::Pread64)),
    ]);
    lines
}

/// Sections and interrupt mark of the read at 1000, after some usual ones.
fn after_usual(how: &[Line]) -> ([u64; 5], Mark) {
    let mut lines: Vec<Line> = (0..3).flat_map(|n| usual(100 + n * 100)).collect();
    lines.extend(read(1000, how));
    let outcome = run(&lines);
    let io = outcome.results.last().unwrap();
    assert_eq!(io.start, 1000);
    (io.elapsed, io.marks[2])
}

#[test]
fn f2_2_a_softirq_at_once_begins_with_its_interrupt() {
    assert_eq!(
        after_usual(&usual(1000)[4..9]),
        ([10, 10, 30, 10, 35], Mark::Irq)
    );
}

#[test]
fn f2_2_a_late_softirq_is_completion() {
    // The disk's interrupt comes inside the network's softirq; the block softirq is next.
    let nested = [
        (1040, 0, 0, NETWORK),
        (1042, 0, 0, Kind::IrqExit),
        (1043, 0, 0, NET_RX),
        (1050, 0, 0, IRQ),
        (1052, 0, 0, Kind::IrqExit),
        (1070, 0, 0, Kind::SoftirqExit),
        (1071, 0, 0, BLOCK),
        (1075, 0, 0, complete("R", 1000, 8)),
        (1076, 0, 0, Kind::SoftirqExit),
    ];
    let late = ([10, 10, 30, 25, 20], Mark::LateIrq);
    assert_eq!(after_usual(&nested), late);
    // Left to the softirq's own thread.
    let thread = [
        (1050, 0, 0, IRQ),
        (1052, 0, 0, Kind::IrqExit),
        (1060, 0, 0, sleep(15)),
        (1070, 0, 15, BLOCK),
        (1075, 0, 15, complete("R", 1000, 8)),
        (1076, 0, 15, Kind::SoftirqExit),
        (1080, 0, 15, sleep(0)),
    ];
    assert_eq!(after_usual(&thread), late);
}

#[test]
fn f2_2_an_interrupt_of_the_network_is_not_the_disks() {
    let how = [
        (1045, 1, 0, IRQ),
        (1047, 1, 0, Kind::IrqExit),
        (1060, 0, 0, NETWORK),
        (1062, 0, 0, Kind::IrqExit),
        (1063, 0, 0, BLOCK),
        (1075, 0, 0, complete("R", 1000, 8)),
        (1076, 0, 0, Kind::SoftirqExit),
    ];
    // The disk's last one was on another CPU.
    assert_eq!(after_usual(&how), ([10, 10, 25, 30, 20], Mark::LateIrq));
    // Without any of the disk's since the issue nothing tells when the device was done.
    assert_eq!(after_usual(&how[2..]), ([10, 10, 55, 0, 20], Mark::None));
}

#[test]
fn f2_2_a_handler_that_encloses_completions_is_the_disks_for_sure() {
    // Completed in the handler: whatever softirqs followed before, this number is the disk's.
    let inside = read(
        500,
        &[
            (550, 0, 0, Kind::IrqEntry(8)),
            (560, 0, 0, complete("R", 500, 8)),
            (561, 0, 0, Kind::IrqExit),
        ],
    );
    let lines = [usual(100), inside, usual(1000)].concat();
    let marks: Vec<Mark> = run(&lines).results.iter().map(|io| io.marks[2]).collect();
    assert_eq!(marks, [Mark::Irq, Mark::Irq, Mark::None]);
}

#[test]
fn f2_2_without_numbers_any_interrupt_may_be_the_disks() {
    let unknown = |line: &Line| match line.3 {
        Kind::IrqEntry(_) => (line.0, line.1, line.2, Kind::IrqEntry(u32::MAX)),
        _ => *line,
    };
    let lines: Vec<Line> = usual(100).iter().map(unknown).collect();
    let outcome = run(&lines);
    assert_eq!(only(&outcome).marks[2], Mark::Irq);
}

/// What was executed for the read at 1000.
fn own_after_usual(how: &[Line]) -> [u64; 5] {
    let mut lines: Vec<Line> = (0..3).flat_map(|n| usual(100 + n * 100)).collect();
    lines.extend(read(1000, how));
    run(&lines).results.last().unwrap().own
}

#[test]
fn f7_1_the_handler_of_a_late_softirq_is_counted() {
    // The disk's interrupt inside the network's softirq; the block softirq is next.
    let nested = [
        (1040, 0, 0, NETWORK),
        (1042, 0, 0, Kind::IrqExit),
        (1043, 0, 0, NET_RX),
        (1050, 0, 0, IRQ),
        (1057, 0, 0, Kind::IrqExit),
        (1070, 0, 0, Kind::SoftirqExit),
        (1071, 0, 0, BLOCK),
        (1075, 0, 0, complete("R", 1000, 8)),
        (1076, 0, 0, Kind::SoftirqExit),
    ];
    // The handler and its softirq; the network's softirq between them is not for the disk.
    assert_eq!(own_after_usual(&nested)[3], 7 + 4);
}

#[test]
fn f7_1_work_left_to_the_softirqs_thread_is_counted() {
    // The disk's interrupt wakes the thread, to which the idle task switches.
    let woken = |by: Kind| {
        [
            (1045, 1, 0, by),
            (1047, 1, 0, Kind::IrqExit),
            (1050, 0, 0, IRQ),
            (1051, 0, 0, Kind::Waking(SOFTIRQS)),
            (1052, 0, 0, Kind::IrqExit),
            (1060, 0, 0, preempt(SOFTIRQS)),
            (1070, 0, SOFTIRQS, BLOCK),
            (1075, 0, SOFTIRQS, complete("R", 1000, 8)),
            (1076, 0, SOFTIRQS, Kind::SoftirqExit),
            (1080, 0, SOFTIRQS, sleep(0)),
        ]
    };
    // All from the interrupt to the completion: handler, idle task, thread, softirq.
    assert_eq!(own_after_usual(&woken(NETWORK))[3], 25);
    // Woken by the network's interrupt: the way to the thread is not the read's alone.
    let mut network = woken(NETWORK);
    network[2].3 = NETWORK;
    network[0].3 = IRQ;
    assert_eq!(own_after_usual(&network)[3], 2 + 5);
}

/// The interrupt between CPUs that carries a completion to the one that submitted (arm64 traces it).
const IPI: Kind = Kind::IrqEntry(2);

/// A read from CPU 2 whose device interrupts CPU 0: the request completes in a softirq of CPU 2, to
/// which an interrupt between CPUs carries it (`rq_affinity` 2, or CPUs that share no cache).
fn crossed(at: u64, set_up: Kind, sent: Kind, reported: Kind) -> Vec<Line> {
    vec![
        (at, 2, 1, enter(Op::Pread64)),
        (at + 10, 2, 1, queue("R", at, 8)),
        (at + 15, 2, 1, set_up),
        (at + 20, 2, 1, issue("R", at, 8)),
        (at + 25, 2, 1, sent),
        (at + 30, 2, 1, sleep(0)),
        (at + 50, 0, 0, IRQ),
        (at + 55, 0, 0, reported),
        (at + 58, 0, 0, Kind::IrqExit),
        (at + 62, 2, 0, IPI),
        (at + 65, 2, 0, Kind::IrqExit),
        (at + 66, 2, 0, BLOCK),
        (at + 75, 2, 0, complete("R", at, 8)),
        (at + 76, 2, 0, Kind::SoftirqExit),
        (at + 90, 2, 0, preempt(1)),
        (at + 95, 2, 1, leave(Op::Pread64)),
    ]
}

#[test]
fn a_completion_on_another_cpu_begins_with_the_devices_interrupt() {
    // Of NVMe, no event of the driver's names the request in the interrupt.
    for (set_up, sent, reported) in [
        (Kind::Other, SEND(3), DONE(3)),
        (SETUP(9), Kind::Other, Kind::NvmeSq(1)),
    ] {
        let lines: Vec<Line> = (0..4)
            .flat_map(|n| crossed(1000 + n * 200, set_up, sent, reported))
            .collect();
        let outcome = run(&lines);
        assert_eq!(outcome.results.len(), 4);
        for io in &outcome.results {
            // The wait for the other CPU, its interrupt and its softirq are all completion.
            assert_eq!(io.elapsed[3..], [25, 20], "{reported:?}");
            assert_eq!(io.marks[2], Mark::Irq, "{reported:?}");
            assert_eq!(io.complete_cpu, 2);
            // Handler, interrupt between CPUs, softirq; the way between them ran for nobody.
            assert_eq!(io.own[3], 8 + 3 + 9, "{reported:?}");
        }
    }
}

#[test]
fn a_completion_of_another_cpu_is_told_apart_though_the_first_one_goes_on() {
    // CPU 0 handles a timer before CPU 2 has its turn.
    let mut lines: Vec<Line> = (0..4)
        .flat_map(|n| crossed(1000 + n * 200, SETUP(9), Kind::Other, Kind::NvmeSq(1)))
        .collect();
    for n in (0..4).rev() {
        let timer = [
            (1059 + n * 200, 0, 0, Kind::IrqEntry(11)),
            (1061 + n * 200, 0, 0, Kind::IrqExit),
        ];
        let at = n as usize * 16 + 9;
        lines.splice(at..at, timer);
    }
    for io in &run(&lines).results {
        assert_eq!(io.elapsed[3], 25);
        assert_eq!(io.own[3], 8 + 3 + 9);
    }
}
