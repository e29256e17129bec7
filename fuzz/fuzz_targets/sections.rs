//! Any stream of events in order of time, pushed through the measurement: no panic, and the
//! sections of each I/O add up to its whole duration.
#![no_main]

use std::collections::HashSet;

use arbitrary::{Arbitrary, Result, Unstructured};
use iosections::{Dev, Engine, Event, Kind, Lost, Op, Options, Rwbs, Span, Tasks};
use libfuzzer_sys::fuzz_target;

/// Few of everything, so that events meet.
const CPUS: u32 = 4;
const TASKS: i32 = 6;

const LETTERS: [&[u8]; 8] = [b"R", b"W", b"WS", b"FF", b"FWFS", b"RA", b"D", b"RM"];

struct Names;

impl Tasks for Names {
    fn selected(&self, pid: i32) -> bool {
        pid < TASKS - 1
    }

    fn helps(&self, pid: i32) -> bool {
        pid == TASKS - 2
    }
}

fn span(u: &mut Unstructured<'_>) -> Result<Span> {
    Ok(Span {
        dev: Dev {
            major: 8,
            minor: u.int_in_range(0..=1)?,
        },
        sector: u64::from(u.int_in_range(0..=7_u8)?) * 8,
        sectors: u32::from(u.int_in_range(0..=3_u8)?) * 8,
        rwbs: Rwbs::new(u.choose(&LETTERS)?),
    })
}

fn kind(u: &mut Unstructured<'_>) -> Result<Kind> {
    let tag = u32::from(u.int_in_range(0..=3_u8)?);
    let op = *u.choose(&Op::ALL)?;
    Ok(match u.int_in_range(0..=18_u8)? {
        0 => Kind::SyscallEnter(op),
        1 => Kind::SyscallExit(op, i64::arbitrary(u)?),
        2 => Kind::BioQueue(span(u)?),
        3 => Kind::Split(span(u)?.dev),
        4 => Kind::Merge(span(u)?.dev),
        5 => Kind::Issue(span(u)?),
        6 => Kind::Requeue(span(u)?),
        7 => Kind::Complete(span(u)?),
        8 => Kind::NvmeSetup { disk: 1, qid: 1, cid: tag },
        9 => Kind::NvmeSq { disk: 1 },
        10 => Kind::NvmeComplete { disk: 1, qid: 1, cid: tag },
        11 => Kind::UfsSend { queue: 0, tag },
        12 => Kind::UfsComplete { queue: 0, tag },
        13 => Kind::QueueReturn,
        14 => Kind::IrqEntry,
        15 => Kind::IrqExit,
        16 => Kind::SoftirqEntry(tag),
        17 => Kind::SoftirqExit,
        _ => Kind::Switch {
            blocked: bool::arbitrary(u)?,
            next: u.int_in_range(0..=TASKS)?,
        },
    })
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let mut lost = Vec::new();
    for _ in 0..u.int_in_range(0..=2_u8)? {
        let from = u64::from(u8::arbitrary(u)?);
        let to = from + u64::from(u8::arbitrary(u)?);
        lost.push(Lost { from, to });
    }
    let options = Options {
        device: Dev { major: 8, minor: 0 },
        use_queue_return: bool::arbitrary(u)?,
        has_nvme_complete: bool::arbitrary(u)?,
        lost,
    };
    let mut engine = Engine::new(options, Names);
    let mut ts = 0_u64;
    let (mut entered, mut left) = (HashSet::new(), HashSet::new());
    while !u.is_empty() {
        // Mostly small steps, sometimes huge ones.
        let step = match u8::arbitrary(u)? {
            255 => u64::from(u32::arbitrary(u)?),
            step => u64::from(step & 7),
        };
        ts += step;
        let cpu = u.int_in_range(0..=CPUS - 1)?;
        if u.ratio(1_u8, 32)? {
            engine.gap(cpu);
        }
        let event = Event {
            ts,
            cpu,
            pid: u.int_in_range(0..=TASKS)?,
            name: u16::from(u8::arbitrary(u)?),
            kind: kind(u)?,
        };
        match event.kind {
            Kind::SyscallEnter(_) => drop(entered.insert((event.pid, ts))),
            Kind::SyscallExit(..) => drop(left.insert((event.pid, ts))),
            _ => {}
        }
        engine.push(&event);
    }
    for io in engine.finish().results {
        let end = io.start + io.elapsed.iter().sum::<u64>();
        let whole = entered.contains(&(io.pid, io.start)) && left.contains(&(io.pid, end));
        assert!(whole, "the sections do not add up to a call: {io:?}");
    }
    Ok(())
}

fuzz_target!(|bytes: &[u8]| {
    // Bytes that run out in the middle of an event end the stream.
    let _ = run(&mut Unstructured::new(bytes));
});
