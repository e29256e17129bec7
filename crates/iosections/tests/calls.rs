//! Calls that submit I/Os which outlive them: `io_submit` and `io_uring_enter`.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use common::*;
use iosections::{Call, Kind, Mark, Moment, Op};

fn uring(n: u32) -> Kind {
    Kind::CallEnter(Call::Uring, n, true)
}

fn uring_done(n: i64) -> Kind {
    Kind::CallExit(Call::Uring, n)
}

#[test]
fn an_iocb_ends_with_its_last_completion_and_is_reaped_later() {
    let outcome = run(&[
        (100, 0, 1, submit(1)),
        (110, 0, 1, queue("R", 8, 8)),
        (130, 0, 1, issue("R", 8, 8)),
        (140, 0, 1, submitted(1)),
        (200, 0, 0, IRQ),
        (215, 0, 0, complete("R", 8, 8)),
        (217, 0, 0, Kind::IoDone),
        (220, 0, 0, Kind::IrqExit),
        (300, 0, 1, Kind::Reaped(1)),
    ]);
    assert_eq!(brief(&outcome), [(100, 215, "R4", [10, 20, 70, 15, 0])]);
    let io = only(&outcome);
    assert_eq!(
        (io.op, io.bytes, io.reaped),
        (Op::IoSubmit, 4096, Some(300))
    );
    assert_eq!(
        io.marks,
        [Mark::SyscallEnter, Mark::Issue, Mark::Irq, Mark::Complete]
    );
    assert_eq!(io.moments.get(Moment::IoDone), Some(217));
    assert_eq!((io.direction, io.sector), (b'R', Some(8)));
}

#[test]
fn the_completion_of_the_direct_io_ends_it_where_it_shows() {
    let outcome = run(&[
        (100, 0, 1, submit(1)),
        (105, 0, 1, Kind::FsBegin),
        (110, 0, 1, queue("R", 8, 8)),
        (130, 0, 1, issue("R", 8, 8)),
        (140, 0, 1, submitted(1)),
        (200, 0, 0, IRQ),
        (215, 0, 0, complete("R", 8, 8)),
        (219, 0, 0, Kind::DioComplete),
        (220, 0, 0, Kind::IrqExit),
    ]);
    assert_eq!(brief(&outcome), [(100, 219, "R4", [10, 20, 70, 15, 4])]);
    assert_eq!(only(&outcome).marks[3], Mark::DioComplete);
    assert_eq!(only(&outcome).moments.get(Moment::FsBegin), Some(105));
}

/// Three iocbs of one call, the last two merged into one request.
fn batch(asked: u32, returned: i64) -> Vec<Line> {
    vec![
        (100, 0, 1, submit(asked)),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, queue("R", 800, 8)),
        (130, 0, 1, queue("R", 808, 8)),
        (131, 0, 1, Kind::Merge(DISK)),
        (140, 0, 1, issue("R", 8, 8)),
        (150, 0, 1, issue("R", 800, 16)),
        (160, 0, 1, submitted(returned)),
        (200, 0, 0, IRQ),
        (210, 0, 0, complete("R", 800, 16)),
        (220, 0, 0, complete("R", 8, 8)),
        (230, 0, 0, Kind::IrqExit),
    ]
}

/// A call whose exit was not seen is over when its task is in the next one.
#[test]
fn a_call_whose_exit_is_missing_takes_nothing_of_the_next_one() {
    for asked in [1, 3] {
        let mut lines = batch(asked, 0);
        // Not the exit; and all completions are asynchronous to what follows.
        lines.retain(|line| !matches!(line.3, Kind::CallExit(..)));
        let read = [
            (300, 0, 1, Kind::SyscallEnter(Op::Read)),
            (305, 0, 1, Kind::FsBegin),
            (310, 0, 1, queue("R", 1600, 8)),
            (315, 0, 1, Kind::FsBegin),
            (320, 0, 1, queue("R", 1608, 8)),
            (330, 0, 1, issue("R", 1600, 16)),
            (350, 0, 0, IRQ),
            (360, 0, 0, complete("R", 1600, 16)),
            (370, 0, 0, Kind::IrqExit),
            (400, 0, 1, Kind::SyscallExit(Op::Read, 8192)),
        ];
        let outcome = run(&[lines, read.to_vec()].concat());
        // One iocb is known for what it is; three are not told apart for sure.
        assert_eq!(outcome.ios.ambiguous, if asked > 1 { 3 } else { 0 });
        let last = outcome.results.last().unwrap();
        assert_eq!((last.start, last.end, last.op), (300, 400, Op::Read));
        assert_eq!(outcome.results.len(), if asked > 1 { 1 } else { 2 });
    }
}

#[test]
fn iocbs_of_one_call_are_told_apart_by_their_bios() {
    let outcome = run(&batch(3, 3));
    assert_eq!(
        brief(&outcome),
        [
            (100, 220, "R4", [10, 30, 60, 20, 0]),
            (120, 210, "R8", [0, 30, 50, 10, 0]),
            (130, 210, "R8", [0, 20, 50, 10, 0]),
        ]
    );
    assert_eq!(outcome.results[2].merges, 1);
    assert_eq!(outcome.results[1].marks[0], Mark::BioQueue);
}

#[test]
fn what_does_not_add_up_is_ambiguous() {
    let outcome = run(&batch(2, 2));
    assert!(outcome.results.is_empty());
    assert_eq!((outcome.ios.seen, outcome.ios.ambiguous), (3, 3));
    // One iocb is one I/O, however many bios it has.
    let outcome = run(&batch(1, 1));
    assert_eq!((outcome.ios.seen, only(&outcome).bios), (1, 3));
}

#[test]
fn entries_of_io_uring_show_and_end_by_their_own_events() {
    let outcome = run_with(
        options(),
        &[
            (100, 0, 1, uring(2)),
            (105, 0, 1, Kind::UringSubmit(7, Some(7))),
            (110, 0, 1, queue("R", 8, 8)),
            (120, 0, 1, issue("R", 8, 8)),
            (125, 0, 1, Kind::UringSubmit(9, None)),
            (130, 0, 1, queue("W", 80, 8)),
            (140, 0, 1, issue("W", 80, 8)),
            (150, 0, 1, uring_done(2)),
            (200, 0, 0, IRQ),
            (210, 0, 0, complete("W", 80, 8)),
            (215, 0, 0, complete("R", 8, 8)),
            (216, 0, 0, Kind::IrqExit),
            (230, 0, 1, Kind::UringComplete(9)),
            (240, 0, 1, Kind::UringComplete(7)),
            (250, 0, 1, uring(0)),
            (260, 0, 1, uring_done(0)),
        ],
    );
    assert_eq!(
        brief(&outcome),
        [
            (100, 240, "R4", [10, 10, 80, 15, 25]),
            (125, 230, "W4", [5, 10, 60, 10, 20]),
        ]
    );
    let marks = outcome.results.iter().map(|io| (io.marks[0], io.marks[3]));
    let expected = [Mark::SyscallEnter, Mark::UringSubmit].map(|m| (m, Mark::UringComplete));
    assert!(marks.eq(expected));
    assert!(outcome.results[0].reaped == Some(260));
}

#[test]
fn a_submission_thread_has_no_call() {
    let outcome = run(&[
        (100, 0, 1, Kind::UringSubmit(7, None)),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (125, 0, 1, Kind::UringSubmit(9, None)),
        (140, 0, 1, Kind::Other),
        (200, 1, 0, complete("R", 8, 8)),
        (210, 0, 1, Kind::UringComplete(7)),
        (220, 0, 1, Kind::UringComplete(9)),
    ]);
    assert_eq!(brief(&outcome), [(100, 210, "R4", [10, 10, 80, 0, 10])]);
    assert_eq!((outcome.ios.seen, outcome.ios.no_request), (2, 1));
}

#[test]
fn what_a_worker_does_is_told_apart_only_when_there_is_one_entry() {
    let lines = |entries: &[u64]| {
        let mut lines = vec![(90, 0, 1, uring(2))];
        for &entry in entries {
            lines.push((
                100 + entry,
                0,
                1,
                Kind::UringSubmit(entry, Some(1000 + entry)),
            ));
            lines.push((100 + entry, 0, 1, Kind::UringPunt(1000 + entry)));
        }
        lines.extend([
            (120, 0, 1, uring_done(entries.len() as i64)),
            (130, 1, WORKER, queue("R", 8, 8)),
            (140, 1, WORKER, issue("R", 8, 8)),
            (200, 1, 0, complete("R", 8, 8)),
            (210, 1, WORKER, Kind::UringComplete(7)),
            (220, 1, WORKER, Kind::UringComplete(9)),
        ]);
        lines
    };
    let one = run(&lines(&[7]));
    assert_eq!(brief(&one), [(90, 210, "R4", [40, 10, 60, 0, 10])]);
    let two = run(&lines(&[7, 9]));
    assert_eq!((two.ios.seen, two.ios.ambiguous), (2, 2));
    assert_eq!((two.requests.seen, two.requests.unattributed), (1, 1));
}

/// A call of three iocbs, and one of one: the task takes what `taken` says, then.
fn reaped(taken: &[(u64, i64)]) -> Vec<Option<u64>> {
    let mut lines = batch(3, 3);
    lines.extend([
        (300, 0, 1, submit(1)),
        (310, 0, 1, queue("R", 1600, 8)),
        (320, 0, 1, issue("R", 1600, 8)),
        (330, 0, 1, submitted(1)),
        (340, 0, 0, IRQ),
        (350, 0, 0, complete("R", 1600, 8)),
        (360, 0, 0, Kind::IrqExit),
    ]);
    lines.extend(taken.iter().map(|&(at, n)| (at, 0, 1, Kind::Reaped(n))));
    run(&lines).results.iter().map(|io| io.reaped).collect()
}

#[test]
fn f2_3_each_iocb_is_taken_when_its_turn_has_come() {
    // They end in the order 2, 3, 1, 4.
    let each = [(400, 1), (410, 2), (420, 0), (430, -4), (440, 1)];
    let times = [410, 400, 410, 440].map(Some);
    assert_eq!(reaped(&each), times);
    assert_eq!(reaped(&[(400, 4)]), [400; 4].map(Some));
    assert_eq!(reaped(&[(400, 3)]), [Some(400), Some(400), Some(400), None]);
}

#[test]
fn f2_3_an_iocb_that_the_page_cache_served_takes_its_turn() {
    let mut lines = vec![(50, 0, 1, submit(1)), (60, 0, 1, submitted(1))];
    lines.extend(batch(1, 1).into_iter().filter(|l| l.0 != 120 && l.0 != 130));
    lines.retain(|l| !matches!(l.3, Kind::Merge(_)));
    lines.extend([(400, 0, 1, Kind::Reaped(1)), (410, 0, 1, Kind::Reaped(1))]);
    let outcome = run(&lines);
    assert_eq!(only(&outcome).reaped, Some(410));
}

#[test]
fn f2_3_a_call_that_waits_for_nothing_takes_nothing() {
    let lines = |waits| {
        vec![
            (100, 0, 1, uring(1)),
            (110, 0, 1, Kind::UringSubmit(5, None)),
            (120, 0, 1, queue("R", 8, 8)),
            (130, 0, 1, issue("R", 8, 8)),
            (140, 0, 1, uring_done(1)),
            (200, 0, 0, complete("R", 8, 8)),
            (210, 0, 0, Kind::UringComplete(5)),
            (300, 0, 1, Kind::CallEnter(Call::Uring, 0, waits)),
            (310, 0, 1, uring_done(0)),
        ]
    };
    assert_eq!(only(&run(&lines(true))).reaped, Some(310));
    assert_eq!(only(&run(&lines(false))).reaped, None);
}

#[test]
fn f2_5_the_first_entries_end_by_their_own_events_too() {
    // Four entries are at the device before the first `io_uring_complete` of the trace.
    let mut lines = Vec::new();
    for n in 0..4 {
        let (at, sector) = (100 + n * 20, n * 80);
        lines.extend([
            (at, 0, 1, uring(1)),
            (at + 2, 0, 1, Kind::UringSubmit(n, None)),
            (at + 4, 0, 1, queue("R", sector, 8)),
            (at + 6, 0, 1, issue("R", sector, 8)),
            (at + 8, 0, 1, uring_done(1)),
            (200 + n, 0, 0, complete("R", sector, 8)),
            (220 + n, 0, 1, Kind::UringComplete(n)),
        ]);
    }
    lines.sort_by_key(|l| l.0);
    let ends = |run: &Run| -> Vec<(u64, Mark)> {
        let ios = run.results.iter();
        ios.map(|io| (io.end, io.marks[3])).collect()
    };
    let posted = (220..224).map(|ts| (ts, Mark::UringComplete));
    assert_eq!(ends(&run(&lines)), posted.collect::<Vec<_>>());
    // Without such events they end with their requests.
    lines.retain(|l| !matches!(l.3, Kind::UringComplete(_)));
    let done = (200..204).map(|ts| (ts, Mark::Complete));
    assert_eq!(ends(&run(&lines)), done.collect::<Vec<_>>());
}
