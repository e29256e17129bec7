//! I/Os where no event tells of system calls: User Mode Linux.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use common::*;
use iosections::{Kind, Mark, Op, Options};

fn uncalled() -> Options {
    Options {
        without_calls: true,
        ..options()
    }
}

#[test]
fn a_direct_io_is_an_io_where_there_are_no_calls() {
    let lines = [
        (100, 0, 1, Kind::FsBegin),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (140, 0, 1, sleep(0)),
        (200, 0, 0, IRQ),
        (215, 0, 0, complete("R", 8, 8)),
        (216, 0, 0, Kind::Waking(1)),
        (220, 0, 0, Kind::IrqExit),
        (230, 0, 0, preempt(1)),
        (250, 0, 1, Kind::DioComplete),
        (300, 0, 1, Kind::FsBegin),
    ];
    let outcome = run_with(uncalled(), &lines);
    let io = only(&outcome);
    assert_eq!((io.start, io.end, io.op), (100, 250, Op::DirectIo));
    assert_eq!((io.bytes, io.direction), (4096, b'R'));
    assert_eq!(
        (io.marks[0], io.marks[3]),
        (Mark::FsBegin, Mark::DioComplete)
    );
    // The second one's end is not there.
    assert_eq!((outcome.ios.seen, outcome.ios.incomplete), (2, 1));
    assert_eq!(run(&lines).ios.seen, 0);
}

#[test]
fn a_read_through_the_page_cache_ends_when_it_has_its_pages() {
    let lines = [
        (100, 0, 1, Kind::Begins(Op::PageRead)),
        (105, 0, 1, Kind::Begins(Op::PageRead)),
        (110, 0, 1, queue("R", 8, 16)),
        (120, 0, 1, issue("R", 8, 16)),
        (140, 0, 1, sleep(0)),
        (200, 0, 0, IRQ),
        (215, 0, 0, complete("R", 8, 16)),
        (216, 0, 0, Kind::Waking(1)),
        (220, 0, 0, Kind::IrqExit),
        (230, 0, 0, preempt(1)),
        (250, 0, 1, Kind::PagesGot(4096)),
        // The page beside it was read ahead.
        (300, 0, 1, Kind::PagesGot(4096)),
        // Somebody else's.
        (310, 0, 101, Kind::PagesGot(4096)),
    ];
    let outcome = run_with(uncalled(), &lines);
    let io = only(&outcome);
    assert_eq!(
        (io.start, io.end, io.op, io.bytes),
        (100, 250, Op::PageRead, 4096)
    );
    assert_eq!((io.marks[0], io.marks[3]), (Mark::PageAdd, Mark::PagesGot));
    assert_eq!(io.elapsed, [10, 10, 80, 15, 35]);
    assert_eq!((outcome.ios.seen, outcome.ios.no_request), (2, 1));
    assert_eq!(run(&lines).ios.seen, 0);
}

#[test]
fn a_write_that_waits_ends_with_its_sync_and_has_the_journals_requests() {
    let lines = [
        (90, 0, JOURNAL, sleep(1)),
        (100, 0, 1, Kind::Begins(Op::PageWrite)),
        (110, 0, 1, queue("WS", 8, 8)),
        (120, 0, 1, issue("WS", 8, 8)),
        (130, 0, 1, sleep(0)),
        (200, 0, 0, complete("WS", 8, 8)),
        (201, 0, 0, Kind::Waking(1)),
        (205, 0, 0, preempt(1)),
        (210, 0, 1, Kind::Waking(JOURNAL)),
        (215, 0, 1, sleep(JOURNAL)),
        (220, 0, JOURNAL, queue("WS", 800, 8)),
        (225, 0, JOURNAL, issue("WS", 800, 8)),
        (230, 0, JOURNAL, sleep(0)),
        (300, 0, 0, complete("WS", 800, 8)),
        (301, 0, 0, Kind::Waking(JOURNAL)),
        (305, 0, 0, preempt(JOURNAL)),
        (310, 0, JOURNAL, Kind::Waking(1)),
        (315, 0, JOURNAL, sleep(1)),
        (330, 0, 1, Kind::SyncExit),
    ];
    let outcome = run_with(uncalled(), &lines);
    let io = only(&outcome);
    assert_eq!((io.start, io.end, io.op), (100, 330, Op::PageWrite));
    assert_eq!((io.path.as_str(), io.bytes), ("WS4+hWS4", 4096));
    assert_eq!(
        (io.marks[0], io.marks[3]),
        (Mark::WriteBegin, Mark::SyncExit)
    );
    assert_eq!((outcome.ios.seen, outcome.requests.helper), (1, 1));
}

#[test]
fn an_fsync_within_another_io_is_none() {
    let outcome = run_with(
        uncalled(),
        &[
            (100, 0, 1, Kind::FsBegin),
            (110, 0, 1, queue("WS", 8, 8)),
            (120, 0, 1, issue("WS", 8, 8)),
            (200, 0, 0, complete("WS", 8, 8)),
            (210, 0, 1, Kind::Begins(Op::Fsync)),
            (220, 0, 1, queue("FF", 0, 0)),
            (225, 0, 1, issue("FF", 0, 0)),
            (260, 0, 0, complete("FF", 0, 0)),
            (270, 0, 1, Kind::SyncExit),
            (280, 0, 1, Kind::DioComplete),
            // By itself it is one.
            (300, 0, 1, Kind::Begins(Op::Fsync)),
            (310, 0, 1, queue("WS", 80, 8)),
            (320, 0, 1, issue("WS", 80, 8)),
            (360, 0, 0, complete("WS", 80, 8)),
            (370, 0, 1, Kind::SyncExit),
        ],
    );
    let found: Vec<_> = outcome.results.iter().map(|io| (io.op, io.end)).collect();
    assert_eq!(found, [(Op::DirectIo, 280), (Op::Fsync, 370)]);
}

#[test]
fn an_entry_of_io_uring_is_an_io_and_no_direct_one() {
    let lines = [
        (100, 0, 1, Kind::UringSubmit(7, Some(7))),
        (105, 0, 1, Kind::FsBegin),
        (110, 0, 1, queue("R", 8, 8)),
        (120, 0, 1, issue("R", 8, 8)),
        (125, 0, 1, Kind::UringSubmit(9, Some(9))),
        (127, 0, 1, Kind::FsBegin),
        (130, 0, 1, queue("R", 80, 8)),
        (135, 0, 1, issue("R", 80, 8)),
        (140, 0, 1, sleep(0)),
        (200, 0, 0, IRQ),
        (215, 0, 0, complete("R", 8, 8)),
        (216, 0, 0, Kind::DioComplete),
        (217, 0, 0, complete("R", 80, 8)),
        (218, 0, 0, Kind::DioComplete),
        (220, 0, 0, Kind::IrqExit),
        (230, 0, 0, preempt(1)),
        (250, 0, 1, Kind::UringComplete(7)),
        (260, 0, 1, Kind::UringComplete(9)),
        // What a worker does for an entry is none by itself.
        (262, 0, WORKER, Kind::FsBegin),
        (264, 0, WORKER, Kind::DioComplete),
        // The same task goes on by another way.
        (300, 0, 1, Kind::FsBegin),
        (310, 0, 1, queue("R", 88, 8)),
        (320, 0, 1, issue("R", 88, 8)),
        (330, 0, 0, complete("R", 88, 8)),
        (340, 0, 1, Kind::DioComplete),
    ];
    let outcome = run_with(uncalled(), &lines);
    let found: Vec<_> = outcome
        .results
        .iter()
        .map(|io| (io.op, io.start, io.end, io.marks[0], io.marks[3]))
        .collect();
    assert_eq!(
        found,
        [
            (
                Op::IoUring,
                100,
                250,
                Mark::UringSubmit,
                Mark::UringComplete
            ),
            (
                Op::IoUring,
                125,
                260,
                Mark::UringSubmit,
                Mark::UringComplete
            ),
            (Op::DirectIo, 300, 340, Mark::FsBegin, Mark::DioComplete),
        ]
    );
    assert_eq!((outcome.ios.seen, outcome.ios.incomplete), (3, 0));
}
