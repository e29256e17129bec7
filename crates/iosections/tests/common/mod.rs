//! Hand-written event lists.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::pedantic)]

use std::collections::BTreeMap;

use iosections::{
    Call, Dev, DeviceOutcome, Driver, Engine, Event, IoCounts, IoResult, Kind, Lost, MarkCounts,
    Op, Options, Outcome, RequestCounts, Rwbs, Span, Tag, Tasks,
};

pub const DISK: Dev = Dev { major: 8, minor: 0 };
pub const JOURNAL: i32 = 50;
pub const WORKER: i32 = 60;
/// The thread to which softirqs are left.
pub const SOFTIRQS: i32 = 115;
/// The disk's interrupt.
pub const IRQ: Kind = Kind::IrqEntry(7);

/// Tasks below 50 are the users', 50 to 99 help, 100 on belong to nobody who matters.
pub struct Names;

impl Tasks for Names {
    fn selected(&self, pid: i32) -> bool {
        (1..50).contains(&pid)
    }
    fn helps(&self, pid: i32) -> bool {
        (50..100).contains(&pid)
    }
    fn works_for(&self, pid: i32) -> Option<i32> {
        (pid == WORKER).then_some(1)
    }
    fn serves_interrupt(&self, pid: i32) -> bool {
        pid == 9
    }
    fn runs_softirqs(&self, pid: i32) -> bool {
        pid == SOFTIRQS
    }
}

pub fn options() -> Options {
    Options {
        ignore_queue_return: true,
        count_events: true,
        ..Options::default()
    }
}

pub fn span(rwbs: &str, sector: u64, sectors: u32) -> Span {
    Span {
        dev: DISK,
        sector,
        sectors,
        rwbs: Rwbs::new(rwbs.as_bytes()),
    }
}

/// (time, CPU, current task, what)
pub type Line = (u64, u32, i32, Kind);

pub fn event(&(ts, cpu, pid, kind): &Line) -> Event {
    let name = match kind {
        Kind::SyscallEnter(_) => 1,
        Kind::SyscallExit(..) => 2,
        Kind::BioQueue(_) => 3,
        Kind::Issue(_) => 4,
        Kind::Complete(_) => 5,
        Kind::IrqEntry(_) => 6,
        Kind::IrqExit => 7,
        Kind::Switch { .. } => 8,
        _ => 9,
    };
    Event {
        ts,
        cpu,
        pid,
        name,
        kind,
    }
}

/// What came out, of one disk.
#[derive(Debug)]
pub struct Run {
    pub results: Vec<Measured>,
    pub ios: IoCounts,
    pub requests: RequestCounts,
    pub device_marks: BTreeMap<&'static str, u64>,
    pub interrupt_marks: BTreeMap<&'static str, u64>,
    pub drivers: [u64; 4],
    pub probe_events: Vec<[u64; 5]>,
    pub outcome: Outcome,
}

/// One I/O with the name of its way.
#[derive(Debug)]
pub struct Measured {
    pub io: IoResult,
    pub path: String,
}

impl std::ops::Deref for Measured {
    type Target = IoResult;
    fn deref(&self) -> &IoResult {
        &self.io
    }
}

fn marks(counts: MarkCounts) -> BTreeMap<&'static str, u64> {
    counts.iter().map(|(mark, n)| (mark.name(), n)).collect()
}

/// Feeds events, and each gap as soon as it can be known.
pub fn feed(options: Options, gaps: &[(u32, Lost)], lines: &[Line]) -> Run {
    let mut gaps = gaps.to_vec();
    gaps.sort_by_key(|(_, gap)| std::cmp::Reverse(gap.from));
    let mut engine = Engine::new(options, Names, Vec::new());
    for line in lines {
        while gaps.last().is_some_and(|(_, gap)| gap.from < line.0) {
            let (cpu, gap) = gaps.pop().unwrap();
            engine.gap(cpu, gap);
        }
        engine.push(&event(line));
    }
    let (outcome, mut results, _) = engine.finish();
    results.sort_by_key(|io| (io.start, io.pid));
    check(&outcome, &results);
    let disk = outcome.device(DISK).cloned().unwrap_or_default();
    let named = |io: IoResult| Measured {
        path: outcome.path(io.path).to_owned(),
        io,
    };
    Run {
        results: results.into_iter().map(named).collect(),
        ios: outcome.ios,
        requests: disk.requests,
        device_marks: marks(disk.device_marks),
        interrupt_marks: marks(disk.interrupt_marks),
        drivers: disk.drivers,
        probe_events: outcome.probe_events.clone(),
        outcome,
    }
}

pub fn run_with(options: Options, lines: &[Line]) -> Run {
    feed(options, &[], lines)
}

pub fn run(lines: &[Line]) -> Run {
    run_with(options(), lines)
}

pub fn only(run: &Run) -> &Measured {
    assert_eq!(run.results.len(), 1, "{run:#?}");
    &run.results[0]
}

/// What always holds.
pub fn check(outcome: &Outcome, results: &[IoResult]) {
    for DeviceOutcome { requests: r, .. } in &outcome.devices {
        assert_eq!(
            r.seen,
            r.attributed + r.helper + r.unattributed + r.in_flight,
            "{r:?}"
        );
    }
    let i = &outcome.ios;
    assert_eq!(
        i.seen,
        i.measured + i.no_request + i.waited + i.dropped_lost + i.incomplete + i.ambiguous,
        "{i:?}"
    );
    assert_eq!(i.measured as usize, results.len());
    assert_eq!(i.clean, results.iter().filter(|r| r.clean).count() as u64);
    for io in results {
        assert!(io.requests > 0);
        assert_eq!(io.elapsed.iter().sum::<u64>(), io.end - io.start);
    }
}

pub fn enter(op: Op) -> Kind {
    Kind::SyscallEnter(op)
}

pub fn leave(op: Op) -> Kind {
    Kind::SyscallExit(op, 4096)
}

pub fn sleep(next: i32) -> Kind {
    Kind::Switch {
        blocked: true,
        next,
    }
}

pub fn preempt(next: i32) -> Kind {
    Kind::Switch {
        blocked: false,
        next,
    }
}

pub fn queue(rwbs: &str, sector: u64, sectors: u32) -> Kind {
    Kind::BioQueue(span(rwbs, sector, sectors))
}

pub fn issue(rwbs: &str, sector: u64, sectors: u32) -> Kind {
    Kind::Issue(span(rwbs, sector, sectors))
}

pub fn complete(rwbs: &str, sector: u64, sectors: u32) -> Kind {
    Kind::Complete(span(rwbs, sector, sectors))
}

pub fn lost(from: u64, to: u64) -> Lost {
    Lost { from, to }
}

/// What no driver in these tests uses.
const NO_QUEUE: u32 = u32::MAX;

fn tag(host: u64, queue: u32, id: u32) -> Tag {
    Tag {
        host,
        queue,
        id: u64::from(id),
    }
}

pub const SETUP: fn(u32) -> Kind = |cid| Kind::NvmeSetup(tag(1, 1, cid));
pub const NVME_DONE: fn(u32) -> Kind = |cid| Kind::Done(Driver::Nvme, tag(1, 1, cid));
pub const SEND: fn(u32) -> Kind = |id| Kind::Send(Driver::Ufs, tag(0, NO_QUEUE, id));
pub const DONE: fn(u32) -> Kind = |id| Kind::Done(Driver::Ufs, tag(0, NO_QUEUE, id));

pub fn submit(n: u32) -> Kind {
    Kind::CallEnter(Call::Submit, n, false)
}

pub fn submitted(n: i64) -> Kind {
    Kind::CallExit(Call::Submit, n)
}

/// (start, end, path, elapsed) of all I/Os.
pub fn brief(run: &Run) -> Vec<(u64, u64, &str, [u64; 5])> {
    let ios = run.results.iter();
    ios.map(|io| (io.start, io.end, io.path.as_str(), io.elapsed))
        .collect()
}
