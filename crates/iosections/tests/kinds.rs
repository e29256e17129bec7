//! Calls that may be I/Os, bios as I/Os, stacked devices, other drivers, interrupts.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use common::*;
use iosections::{Dev, Driver, Kind, Mark, Moment, Op, Options, Tag};

#[test]
fn who_is_woken_by_a_write_works_for_it_before_it_sleeps() {
    let outcome = run(&[
        (90, 1, JOURNAL, sleep(0)),
        (100, 0, 1, enter(Op::Fsync)),
        (110, 0, 1, Kind::Waking(JOURNAL)),
        (115, 1, 0, preempt(JOURNAL)),
        (120, 1, JOURNAL, queue("WS", 8, 8)),
        (130, 1, JOURNAL, issue("WS", 8, 8)),
        (140, 0, 1, sleep(0)),
        (200, 1, 0, complete("WS", 8, 8)),
        (260, 0, 1, leave(Op::Fsync)),
    ]);
    assert_eq!(only(&outcome).path, "hWS4");
    assert_eq!(outcome.requests.helper, 1);
}

#[test]
fn a_call_that_may_be_an_io_is_one_if_requests_come_of_it() {
    let outcome = run(&[
        (100, 0, 1, enter(Op::Ioctl)),
        (120, 0, 1, leave(Op::Ioctl)),
        (200, 0, 1, enter(Op::Ioctl)),
        (210, 0, 1, queue("DS", 8, 800)),
        (220, 0, 1, issue("DS", 8, 800)),
        (280, 0, 0, complete("DS", 8, 800)),
        (300, 0, 1, leave(Op::Ioctl)),
        (310, 0, 1, leave(Op::Ioctl)),
    ]);
    assert_eq!(
        (only(&outcome).path.as_str(), outcome.ios.seen),
        ("DS400", 1)
    );
    assert_eq!(only(&outcome).direction, b'D');
}

#[test]
fn every_bio_is_an_io_where_there_are_no_calls() {
    let options = Options {
        bios_are_ios: true,
        ..options()
    };
    let outcome = run_with(
        options,
        &[
            (110, 0, 1, queue("R", 8, 8)),
            (112, 0, 1, queue("R", 16, 8)),
            (120, 0, 1, issue("R", 8, 16)),
            (200, 0, 0, complete("R", 8, 16)),
        ],
    );
    assert_eq!(
        brief(&outcome),
        [
            (110, 200, "R8", [0, 10, 80, 0, 0]),
            (112, 200, "R8", [0, 8, 80, 0, 0]),
        ]
    );
    assert_eq!(outcome.results[0].op.kind(), "bio");
}

#[test]
fn a_stacked_device_is_part_of_submission() {
    let dm = Dev {
        major: 253,
        minor: 0,
    };
    let mut upper = span("R", 8, 8);
    upper.dev = dm;
    let outcome = run(&[
        (100, 0, 1, enter(Op::Pread64)),
        (110, 0, 1, Kind::BioQueue(upper)),
        (
            115,
            0,
            1,
            Kind::Remap {
                from: (dm, 8),
                to: (DISK, 2056),
            },
        ),
        (120, 0, 1, queue("R", 2056, 8)),
        (140, 0, 1, issue("R", 2056, 8)),
        (200, 0, 0, complete("R", 2056, 8)),
        (260, 0, 1, leave(Op::Pread64)),
        // A partition on the same disk: its remap comes before the bio.
        (300, 0, 1, enter(Op::Pread64)),
        (
            305,
            0,
            1,
            Kind::Remap {
                from: (Dev { major: 8, minor: 1 }, 8),
                to: (DISK, 72),
            },
        ),
        (310, 0, 1, queue("R", 72, 8)),
        (340, 0, 1, issue("R", 72, 8)),
        (400, 0, 0, complete("R", 72, 8)),
        (460, 0, 1, leave(Op::Pread64)),
    ]);
    assert_eq!(
        brief(&outcome),
        [
            (100, 260, "R4", [10, 30, 60, 0, 60]),
            (300, 460, "R4", [10, 30, 60, 0, 60]),
        ]
    );
    assert_eq!(outcome.outcome.disk(Dev { major: 8, minor: 1 }), DISK);
    assert_eq!(outcome.outcome.disk(dm), dm);
}

#[test]
fn the_lowest_driver_tells_the_hand_over_and_the_completion() {
    let tag = |host, id| Tag {
        host,
        queue: u32::MAX,
        id,
    };
    let outcome = run(&[
        (100, 0, 1, enter(Op::Pread64)),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (130, 0, 1, Kind::Send(Driver::Scsi, tag(5, 1))),
        (
            140,
            0,
            1,
            Kind::Send(Driver::Mmc, tag(6, 0xffff_8000_0000_1000)),
        ),
        (
            200,
            0,
            2,
            Kind::Done(Driver::Mmc, tag(6, 0xffff_8000_0000_1000)),
        ),
        (205, 0, 2, Kind::Done(Driver::Scsi, tag(5, 1))),
        (220, 0, 2, complete("R", 8, 8)),
        (260, 0, 1, leave(Op::Pread64)),
    ]);
    assert_eq!(brief(&outcome), [(100, 260, "R4", [10, 30, 60, 20, 40])]);
    assert_eq!(only(&outcome).marks[1..3], [Mark::MmcStart, Mark::MmcDone]);
}

#[test]
fn a_worker_that_completes_after_the_interrupt_is_part_of_the_completion() {
    let mmc = Tag {
        host: 6,
        queue: u32::MAX,
        id: 0xffff_8000_0000_1000,
    };
    // As the MMC core does: the interrupt's handler ends its part, and a worker the request.
    let outcome = run(&[
        (100, 0, 1, enter(Op::Pread64)),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (130, 0, 1, Kind::Send(Driver::Mmc, mmc)),
        (140, 0, 1, sleep(0)),
        (200, 0, 0, IRQ),
        (205, 0, 0, Kind::Done(Driver::Mmc, mmc)),
        (207, 0, 0, Kind::IrqExit),
        (210, 0, 0, preempt(WORKER)),
        (240, 0, WORKER, complete("R", 8, 8)),
        (245, 0, WORKER, sleep(1)),
        (260, 0, 1, leave(Op::Pread64)),
    ]);
    let found = only(&outcome);
    assert_eq!(found.elapsed, [10, 20, 70, 40, 20]);
    // Interrupt, the way to the worker, and what that executed: 7, 3 and 30.
    assert_eq!(found.first.unwrap().completion, Some(40));
    assert_eq!(found.own[3], 40);
}

#[test]
fn what_a_worker_did_before_the_device_was_done_is_not_completion() {
    let mmc = |id| Tag {
        host: 6,
        queue: u32::MAX,
        id,
    };
    let outcome = run(&[
        (100, 0, 1, enter(Op::Pwrite64)),
        (110, 0, 1, queue("W", 8, 8)),
        (120, 0, 1, issue("W", 8, 8)),
        (130, 0, 1, Kind::Send(Driver::Mmc, mmc(1))),
        (140, 0, 1, sleep(0)),
        (200, 0, 0, IRQ),
        (205, 0, 0, Kind::Done(Driver::Mmc, mmc(1))),
        (207, 0, 0, Kind::IrqExit),
        (210, 0, 0, preempt(WORKER)),
        // It asks whether the card is still busy.
        (230, 0, WORKER, Kind::Send(Driver::Mmc, mmc(1))),
        (240, 0, WORKER, IRQ),
        (244, 0, WORKER, Kind::Done(Driver::Mmc, mmc(1))),
        (246, 0, WORKER, Kind::IrqExit),
        (265, 0, WORKER, complete("W", 8, 8)),
        (270, 0, WORKER, sleep(1)),
        (290, 0, 1, leave(Op::Pwrite64)),
    ]);
    let first = only(&outcome).first.unwrap();
    // The second interrupt, and 19 after it.
    assert_eq!(first.completion, Some(25));
    assert_eq!(only(&outcome).elapsed[3], 25);
}

#[test]
fn a_threaded_interrupt_is_the_one_that_woke_the_thread() {
    let lines = |irq: u64| {
        [
            (90, 0, 9, sleep(1)),
            (100, 0, 1, enter(Op::Pread64)),
            (110, 0, 1, queue("R", 8, 8)),
            (120, 0, 1, issue("R", 8, 8)),
            (130, 0, 1, sleep(0)),
            (irq, 0, 0, IRQ),
            (irq + 1, 0, 0, Kind::Waking(9)),
            (irq + 2, 0, 0, Kind::IrqExit),
            (190, 0, 0, preempt(9)),
            (210, 0, 9, complete("R", 8, 8)),
            (215, 0, 9, Kind::Waking(1)),
            (220, 0, 9, sleep(1)),
            (260, 0, 1, leave(Op::Pread64)),
        ]
    };
    let outcome = run(&lines(180));
    assert_eq!(brief(&outcome), [(100, 260, "R4", [10, 10, 60, 30, 50])]);
    let io = only(&outcome);
    assert_eq!(io.marks[2], Mark::ThreadedIrq);
    assert_eq!(io.moments.get(Moment::Waking), Some(215));
    assert_eq!(io.moments.get(Moment::SchedIn), Some(220));
}

#[test]
fn f7_1_work_moved_into_an_interrupt_thread_is_counted() {
    // The handler ends the request, or wakes its thread, which does it; on an idle CPU.
    let lines = |thread: bool, wakes_inside: bool| {
        let (wake, exit) = if wakes_inside { (184, 190) } else { (191, 190) };
        let mut lines = vec![
            (90, 0, 9, sleep(1)),
            (100, 0, 1, enter(Op::Pread64)),
            (110, 0, 1, queue("R", 8, 8)),
            (120, 0, 1, issue("R", 8, 8)),
            (130, 0, 1, sleep(0)),
            (180, 0, 0, IRQ),
            (exit, 0, 0, Kind::IrqExit),
            (230, 0, if thread { 9 } else { 0 }, Kind::Waking(1)),
            (260, 0, 1, leave(Op::Pread64)),
        ];
        if thread {
            lines.extend([
                (wake, 0, 0, Kind::Waking(9)),
                (200, 0, 0, preempt(9)),
                (220, 0, 9, complete("R", 8, 8)),
                (240, 0, 9, sleep(1)),
            ]);
        } else {
            lines.extend([(188, 0, 0, complete("R", 8, 8)), (240, 0, 0, preempt(1))]);
        }
        lines.sort_by_key(|l| l.0);
        lines
    };
    let own = |lines: &[Line]| only(&run(lines)).own;
    // 180 to 188 in the handler; to the task by way of the idle one.
    assert_eq!(own(&lines(false, false)), [10, 10, 10, 8, 2 + 50 + 20]);
    // The handler, the way to the thread, the thread: nothing is left out.
    assert_eq!(own(&lines(true, false)), [10, 10, 10, 40, 20 + 20]);
    // What follows the wake-up inside the handler is nobody's.
    assert_eq!(own(&lines(true, true)), [10, 10, 10, 40 - 6, 20 + 20]);
    let marks = only(&run(&lines(true, false))).marks;
    assert_eq!(marks[2], Mark::ThreadedIrq);
}

#[test]
fn an_interrupt_from_before_the_issue_woke_nobody_for_it() {
    let outcome = run(&[
        (50, 0, 9, sleep(0)),
        (80, 0, 0, IRQ),
        (81, 0, 0, Kind::Waking(9)),
        (82, 0, 0, Kind::IrqExit),
        (90, 0, 0, preempt(1)),
        (100, 0, 1, enter(Op::Pread64)),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (130, 0, 1, sleep(9)),
        (210, 0, 9, complete("R", 8, 8)),
        (260, 0, 1, leave(Op::Pread64)),
    ]);
    assert_eq!(only(&outcome).marks[2], Mark::None);
}

#[test]
fn a_handler_that_goes_on_with_a_request_issued_meanwhile_did_not_begin_for_it() {
    let tag = Tag {
        host: 5,
        queue: u32::MAX,
        id: 1,
    };
    let outcome = run(&[
        (80, 1, 0, IRQ),
        (100, 0, 1, enter(Op::Pread64)),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (130, 0, 1, Kind::Send(Driver::Scsi, tag)),
        (190, 1, 0, Kind::Done(Driver::Scsi, tag)),
        (210, 1, 0, complete("R", 8, 8)),
        (215, 1, 0, Kind::IrqExit),
        (260, 0, 1, leave(Op::Pread64)),
    ]);
    assert_eq!(brief(&outcome), [(100, 260, "R4", [10, 20, 60, 20, 50])]);
    assert_eq!(only(&outcome).marks[2], Mark::ScsiDone);
}

#[test]
fn a_requeued_request_counts_from_its_last_issue() {
    let outcome = run(&[
        (100, 0, 1, enter(Op::Pread64)),
        (110, 0, 1, queue("R", 8, 8)),
        (112, 0, 1, Kind::Getrq(DISK, 8)),
        (115, 0, 1, Kind::Insert(DISK, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (125, 0, 1, Kind::Requeue(span("R", 8, 8))),
        (150, 0, 1, issue("R", 8, 8)),
        (200, 0, 0, complete("R", 8, 8)),
        (260, 0, 1, leave(Op::Pread64)),
    ]);
    let io = only(&outcome);
    assert_eq!((io.elapsed, io.requeues), ([10, 40, 50, 0, 60], 1));
    let moments = [Moment::Getrq, Moment::Insert, Moment::Issue].map(|m| io.moments.get(m));
    assert_eq!(moments, [Some(112), Some(115), Some(150)]);
}

#[test]
fn what_was_in_flight_in_a_gap_is_dropped() {
    let lines = [
        (100, 0, 1, submit(1)),
        (110, 0, 1, queue("R", 8, 8)),
        (130, 0, 1, issue("R", 8, 8)),
        (140, 0, 1, submitted(1)),
        (500, 0, 1, submit(1)),
        (510, 0, 1, queue("R", 8, 8)),
        (530, 0, 1, issue("R", 8, 8)),
        (540, 0, 1, submitted(1)),
        (600, 0, 0, complete("R", 8, 8)),
    ];
    let outcome = feed(options(), &[(1, lost(150, 400))], &lines);
    assert_eq!(brief(&outcome), [(500, 600, "R4", [10, 20, 70, 0, 0])]);
    assert_eq!((outcome.ios.seen, outcome.ios.dropped_lost), (2, 1));
}

#[test]
fn requests_of_one_first_sector_are_told_apart_by_their_lengths() {
    let outcome = run(&[
        (100, 0, 1, submit(1)),
        (110, 0, 1, queue("R", 8, 48)),
        (120, 0, 1, issue("R", 8, 48)),
        (130, 0, 1, submitted(1)),
        (140, 0, 1, submit(1)),
        (150, 0, 1, queue("R", 8, 64)),
        (160, 0, 1, issue("R", 8, 64)),
        (170, 0, 1, submitted(1)),
        (200, 0, 0, complete("R", 8, 64)),
        (300, 0, 0, complete("R", 8, 48)),
    ]);
    assert_eq!(
        brief(&outcome),
        [
            (100, 300, "R24", [10, 10, 180, 0, 0]),
            (140, 200, "R32", [10, 10, 40, 0, 0]),
        ]
    );
}

#[test]
fn f2_6_calls_that_move_or_store_data_are_ios() {
    let lines = |op, rwbs, sectors| {
        vec![
            (0, 0, 1, enter(op)),
            (10, 0, 1, queue(rwbs, 8, sectors)),
            (20, 0, 1, issue(rwbs, 8, sectors)),
            (40, 0, 1, complete(rwbs, 8, sectors)),
            (60, 0, 1, leave(op)),
        ]
    };
    for (op, rwbs, direction) in [
        (Op::Splice, "RA", b'R'),
        (Op::Sendfile, "R", b'R'),
        (Op::CopyFileRange, "W", b'W'),
        (Op::Msync, "WS", b'F'),
        (Op::Syncfs, "WS", b'F'),
        (Op::Sync, "WS", b'F'),
    ] {
        let outcome = run(&lines(op, rwbs, 8));
        assert_eq!(
            (only(&outcome).op, only(&outcome).direction),
            (op, direction)
        );
        // Between pipes and sockets some of them are no I/O; the others found nothing to store.
        let ends: Vec<Line> = lines(op, rwbs, 8).into_iter().step_by(4).collect();
        let ios = run(&ends).ios;
        let counts = u64::from(!op.is_by_chance());
        assert_eq!((ios.seen, ios.no_request), (counts, counts));
    }
    assert_eq!(Op::from_name("sendfile"), Op::from_name("sendfile64"));
}

#[test]
fn f2_6_a_trim_that_reads_first_discards() {
    let outcome = run(&[
        (0, 0, 1, enter(Op::Ioctl)),
        (10, 0, 1, queue("RM", 8, 8)),
        (20, 0, 1, issue("RM", 8, 8)),
        (30, 0, 1, complete("RM", 8, 8)),
        (40, 0, 1, queue("DS", 800, 64)),
        (50, 0, 1, issue("DS", 800, 64)),
        (60, 0, 1, complete("DS", 800, 64)),
        (70, 0, 1, leave(Op::Ioctl)),
    ]);
    assert_eq!(only(&outcome).path, "RM4+DS32");
    assert_eq!(only(&outcome).direction, b'D');
}

#[test]
fn f2_6_who_sleeps_without_a_request_waits_for_another_ones() {
    // Task 2 reads ahead what task 1 wants; task 3 finds its page in the cache.
    let outcome = run(&[
        (0, 0, 2, enter(Op::Read)),
        (1, 0, 2, queue("RA", 8, 64)),
        (2, 0, 2, issue("RA", 8, 64)),
        (3, 0, 2, sleep(1)),
        (4, 0, 1, enter(Op::Read)),
        (6, 0, 1, sleep(3)),
        (7, 0, 3, enter(Op::Read)),
        (8, 0, 3, leave(Op::Read)),
        (9, 0, 3, sleep(0)),
        (50, 0, 0, complete("RA", 8, 64)),
        (60, 0, 0, preempt(1)),
        (70, 0, 1, leave(Op::Read)),
        (72, 0, 1, sleep(2)),
        (80, 0, 2, leave(Op::Read)),
    ]);
    let ios = outcome.ios;
    assert_eq!((ios.seen, ios.measured), (3, 1));
    assert_eq!((ios.waited, ios.no_request), (1, 1));
}
