//! Requests that journal threads and kernel workers submit (FINDINGS F2.1): whose they are only
//! where the trace shows it.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::pedantic)]

mod common;

use common::*;
use iosections::{Dev, Kind, Op, Span};

const OTHER: Dev = Dev {
    major: 259,
    minor: 0,
};

fn on_other(span: Span) -> Span {
    Span { dev: OTHER, ..span }
}

/// A task writes four KiB on a CPU of its own, which then idles, and sleeps on; `until` it is back.
fn writer(pid: i32, cpu: u32, from: u64, until: u64) -> Vec<Line> {
    let sector = pid as u64 * 1000;
    vec![
        (from, cpu, pid, enter(Op::Pwrite64)),
        (from + 1, cpu, pid, queue("WS", sector, 8)),
        (from + 2, cpu, pid, issue("WS", sector, 8)),
        (from + 3, cpu, pid, sleep(0)),
        (from + 8, cpu, 0, IRQ),
        (from + 10, cpu, 0, complete("WS", sector, 8)),
        (from + 12, cpu, 0, Kind::IrqExit),
        (from + 14, cpu, 0, preempt(pid)),
        (from + 16, cpu, pid, sleep(0)),
        (until, cpu, 0, preempt(pid)),
        (until + 2, cpu, pid, leave(Op::Pwrite64)),
    ]
}

/// The journal thread writes one KiB on CPU 9.
fn journal(at: u64) -> Vec<Line> {
    vec![
        (at, 9, 0, preempt(JOURNAL)),
        (at + 1, 9, JOURNAL, queue("WSM", 70, 2)),
        (at + 2, 9, JOURNAL, issue("WSM", 70, 2)),
        (at + 3, 9, JOURNAL, sleep(0)),
        (at + 8, 9, 0, IRQ),
        (at + 10, 9, 0, complete("WSM", 70, 2)),
        (at + 12, 9, 0, Kind::IrqExit),
        (at + 14, 9, 0, preempt(JOURNAL)),
        (at + 18, 9, JOURNAL, sleep(0)),
    ]
}

fn together(parts: &[&[Line]]) -> Run {
    let mut lines = parts.concat();
    lines.sort_by_key(|l| l.0);
    run(&lines)
}

fn paths(run: &Run) -> Vec<(i32, &str)> {
    let ios = run.results.iter();
    ios.map(|io| (io.pid, io.path.as_str())).collect()
}

/// (requests of a helper, ambiguous requests, ambiguous I/Os)
fn counts(run: &Run) -> (u64, u64, u64) {
    (
        run.requests.helper,
        run.requests.ambiguous,
        run.ios.ambiguous,
    )
}

#[test]
fn f2_1_the_only_one_that_sleeps_with_nothing_at_the_device_is_helped() {
    let outcome = together(&[&writer(1, 1, 0, 90), &journal(40)]);
    assert_eq!(paths(&outcome), [(1, "WS4+hWSM1")]);
    assert_eq!(counts(&outcome), (1, 0, 0));
}

#[test]
fn f2_1_who_waits_for_its_own_request_is_not_helped() {
    // The journal's bio comes at 5, the task's own request is at the device up to 10.
    let outcome = together(&[&writer(1, 1, 0, 90), &journal(4)]);
    assert_eq!(paths(&outcome), [(1, "WS4")]);
    assert_eq!(counts(&outcome), (0, 0, 0));
}

#[test]
fn f2_1_another_device_is_not_the_ios() {
    let mut lines = journal(40);
    for line in &mut lines {
        line.3 = match line.3 {
            Kind::BioQueue(span) => Kind::BioQueue(on_other(span)),
            Kind::Issue(span) => Kind::Issue(on_other(span)),
            Kind::Complete(span) => Kind::Complete(on_other(span)),
            other => other,
        };
    }
    // Not even where the task has woken the helper.
    let woke = [(15, 1, 1, Kind::Waking(JOURNAL))];
    for woke in [&woke[..0], &woke[..]] {
        let outcome = together(&[&writer(1, 1, 0, 90), &lines, woke]);
        assert_eq!(paths(&outcome), [(1, "WS4")]);
        let other = outcome.outcome.device(OTHER).map(|on| on.requests);
        assert_eq!(
            other.map(|r| (r.helper, r.unattributed, r.ambiguous)),
            Some((0, 1, 0))
        );
    }
}

#[test]
fn f2_1_without_sched_events_nobody_is_helped() {
    let is_switch = |line: &&Line| matches!(line.3, Kind::Switch { .. });
    let mut lines = [writer(1, 1, 0, 90), journal(40)].concat();
    lines.sort_by_key(|l| l.0);
    let lines: Vec<Line> = lines.iter().filter(|l| !is_switch(l)).copied().collect();
    let outcome = run(&lines);
    assert_eq!(paths(&outcome), [(1, "WS4")]);
    assert_eq!(counts(&outcome), (0, 1, 0));
    assert_eq!(outcome.requests.unattributed, 1);
}

#[test]
fn f2_1_who_is_woken_waits_no_more() {
    // Woken at 30 by the end of what it waited for; it runs at 90.
    let woken = [(30, 5, 0, Kind::Waking(1))];
    let outcome = together(&[&writer(1, 1, 0, 90), &journal(40), &woken]);
    assert_eq!(paths(&outcome), [(1, "WS4")]);
    assert_eq!(counts(&outcome), (0, 0, 0));
}

#[test]
fn f2_1_of_several_the_one_that_woke_the_helper_is_helped() {
    let two = [writer(1, 1, 0, 90), writer(2, 2, 1, 95)].concat();
    let outcome = together(&[&two, &journal(40)]);
    assert_eq!(paths(&outcome), [(1, "WS4"), (2, "WS4")]);
    assert_eq!(counts(&outcome), (0, 1, 0));

    let asks = [(16, 2, 2, Kind::Waking(JOURNAL))];
    let outcome = together(&[&two, &journal(40), &asks]);
    assert_eq!(paths(&outcome), [(1, "WS4"), (2, "WS4+hWSM1")]);
    assert_eq!(counts(&outcome), (1, 0, 0));

    // A worker that it woke wakes the journal thread in its turn.
    let chain = [
        (16, 2, 2, Kind::Waking(WORKER)),
        (30, 5, WORKER, Kind::Waking(JOURNAL)),
    ];
    let outcome = together(&[&two, &journal(40), &chain]);
    assert_eq!(paths(&outcome), [(1, "WS4"), (2, "WS4+hWSM1")]);
}

#[test]
fn f2_1_who_wakes_the_task_shows_whether_it_waited_for_the_helper() {
    let by_helper = [(55, 9, JOURNAL, Kind::Waking(1))];
    let by_its_completion = [(51, 9, 0, Kind::Waking(1))];
    for woken in [&by_helper, &by_its_completion] {
        let outcome = together(&[&writer(1, 1, 0, 90), &journal(40), woken]);
        assert_eq!(paths(&outcome), [(1, "WS4+hWSM1")]);
        assert_eq!(counts(&outcome), (1, 0, 0));
    }
    for stranger in [0, 200] {
        let woken = [(70, 5, stranger, Kind::Waking(1))];
        let outcome = together(&[&writer(1, 1, 0, 90), &journal(40), &woken]);
        assert_eq!(paths(&outcome), []);
        assert_eq!(outcome.ios.ambiguous, 1);
    }
}

#[test]
fn f2_1_code_of_a_helper_counts_while_the_task_sleeps() {
    // The second run of the journal thread, without a bio.
    let more = [
        (70, 9, 0, preempt(JOURNAL)),
        (76, 9, JOURNAL, sleep(0)),
        (80, 9, 0, preempt(JOURNAL)),
        (85, 9, JOURNAL, sleep(0)),
    ];
    let own = |woken: &[Line]| {
        let outcome = together(&[&writer(1, 1, 0, 90), &journal(40), &more, woken]);
        only(&outcome).own.iter().sum::<u64>()
    };
    let both = own(&[]);
    assert_eq!(both - own(&[(75, 9, JOURNAL, Kind::Waking(1))]), 5);
}
