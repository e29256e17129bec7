//! Traces that no machine records: whatever one event has to go through stays short, and what is
//! forgotten for that shows in the counts.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use common::*;
use iosections::{Engine, Kind, Op, Outcome};

/// Of each kind of thing more than are gone through one by one.
const MANY: u64 = 5000;

fn measured(steps: impl Iterator<Item = (i32, Kind)>) -> Outcome {
    let mut engine = Engine::new(options(), Names, Vec::new());
    for (ts, (pid, kind)) in (1..).zip(steps) {
        engine.push(&event(&(ts, 0, pid, kind)));
    }
    let (out, ios, _) = engine.finish();
    assert_eq!(ios.len() as u64, out.ios.measured);
    let parts = [
        out.ios.measured,
        out.ios.no_request,
        out.ios.waited,
        out.ios.dropped_lost,
        out.ios.incomplete,
        out.ios.ambiguous,
    ];
    assert_eq!(out.ios.seen, parts.iter().sum::<u64>());
    for device in &out.devices {
        let r = device.requests;
        let parts = [r.attributed, r.helper, r.unattributed, r.in_flight];
        assert_eq!(r.seen, parts.iter().sum::<u64>());
    }
    out
}

/// The same steps for each of many numbers, by one task.
fn repeated<const N: usize>(steps: impl Fn(u64) -> [Kind; N]) -> Outcome {
    measured((0..MANY).flat_map(|n| steps(n).map(|kind| (1, kind))))
}

fn way_down(sector: u64, sectors: u32) -> [Kind; 2] {
    let span = span("R", sector, sectors);
    [Kind::BioQueue(span), Kind::Issue(span)]
}

#[test]
fn requests_of_one_place() {
    let out = repeated(|_| way_down(8, 8));
    assert_eq!(out.devices[0].requests.seen, MANY);
    // Those that are found again are completed, the others are not.
    let down = (0..MANY).flat_map(|_| way_down(8, 8));
    let up = (0..MANY).map(|_| Kind::Complete(span("R", 8, 8)));
    let out = measured(down.chain(up).map(|kind| (1, kind)));
    let found = out.devices[0].requests.unattributed;
    assert!((1000..MANY).contains(&found), "{found}");
}

#[test]
fn requests_that_come_back_or_end_in_parts() {
    let back = |n| {
        let [bio, issue] = way_down(8, 8 + n as u32);
        [bio, issue, Kind::Requeue(span("R", 8, 8))]
    };
    assert_eq!(repeated(back).devices[0].requests.requeues, MANY);
    let part = |n| {
        let [bio, issue] = way_down(1 << 20, 1 << 20);
        [bio, issue, Kind::Complete(span("R", (1 << 20) + n, 1))]
    };
    repeated(part);
}

#[test]
fn bios_that_overlap() {
    let long = |n| Kind::BioQueue(span("R", n * 2, 1 << 20));
    let out = repeated(|n| [long(n), Kind::Issue(span("R", n * 2, 1))]);
    assert_eq!(out.devices[0].bios, MANY);
}

#[test]
fn bios_that_wait_for_a_flush() {
    let bio = |n| Kind::BioQueue(span("FWFS", n * 8, 8));
    repeated(|n| [bio(n), Kind::Issue(span("FF", 0, 0))]);
    repeated(|n| [bio(n), Kind::Complete(span("FF", 0, 0))]);
}

#[test]
fn calls_that_never_end() {
    let tasks = 70_000;
    let calls = (1..=tasks).map(|pid| (pid, enter(Op::Pread64)));
    let again = (1..50).map(|pid| (pid, leave(Op::Pread64)));
    let out = measured(calls.chain(again));
    // The oldest were forgotten and counted; the end counts again where the task was forgotten, too.
    assert!((49..=98).contains(&out.ios.seen), "{:?}", out.ios);
    assert_eq!(out.ios.incomplete, out.ios.seen);
}
