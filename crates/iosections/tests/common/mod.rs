//! Hand-written event lists.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::pedantic)]

use iosections::{
    Dev, Engine, Event, IoResult, Kind, Lost, Op, Options, Outcome, Rwbs, Span, Tasks,
};

pub const DISK: Dev = Dev { major: 8, minor: 0 };
pub const JOURNAL: i32 = 50;
pub const WORKER: i32 = 60;

/// Tasks below 50 are the users', 50 to 99 help, 100 on belong to nobody who matters.
pub struct Names;

impl Tasks for Names {
    fn selected(&self, pid: i32) -> bool {
        (1..50).contains(&pid)
    }
    fn helps(&self, pid: i32) -> bool {
        (50..100).contains(&pid)
    }
}

pub fn options() -> Options {
    Options {
        device: DISK,
        use_queue_return: false,
        has_nvme_complete: false,
        lost: vec![],
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
        Kind::IrqEntry => 6,
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

pub fn run_with(options: Options, lines: &[Line]) -> Outcome {
    let mut engine = Engine::new(options, Names);
    lines.iter().for_each(|line| engine.push(&event(line)));
    let outcome = engine.finish();
    check(&outcome);
    outcome
}

pub fn run(lines: &[Line]) -> Outcome {
    run_with(options(), lines)
}

pub fn only(outcome: &Outcome) -> &IoResult {
    assert_eq!(outcome.results.len(), 1, "{outcome:#?}");
    &outcome.results[0]
}

/// What always holds.
pub fn check(outcome: &Outcome) {
    let r = &outcome.requests;
    assert_eq!(
        r.seen,
        r.attributed + r.helper + r.unattributed + r.in_flight,
        "{r:?}"
    );
    let i = &outcome.ios;
    assert_eq!(
        i.seen,
        i.measured + i.no_request + i.dropped_lost + i.incomplete,
        "{i:?}"
    );
    assert_eq!(i.measured as usize, outcome.results.len());
    assert_eq!(
        i.clean,
        outcome.results.iter().filter(|r| r.clean).count() as u64
    );
    assert!(outcome.results.iter().all(|r| r.requests > 0));
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

pub const SETUP: fn(u32) -> Kind = |cid| Kind::NvmeSetup {
    disk: 1,
    qid: 1,
    cid,
};
pub const SEND: fn(u32) -> Kind = |tag| Kind::UfsSend {
    queue: u32::MAX,
    tag,
};
pub const DONE: fn(u32) -> Kind = |tag| Kind::UfsComplete {
    queue: u32::MAX,
    tag,
};
