//! Any stream of events in order of time, pushed through the measurement: no panic, and the
//! sections of each I/O add up to its whole duration.
#![no_main]

use std::collections::HashSet;

use arbitrary::{Arbitrary, Result, Unstructured};
use iosections::{
    Call, Dev, Driver, Engine, Event, IoResult, Kind, Lost, Op, Options, Rwbs, Span, Tag, Tasks,
};
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

    fn works_for(&self, pid: i32) -> Option<i32> {
        (pid == TASKS - 3).then_some(1)
    }

    fn serves_interrupt(&self, pid: i32) -> bool {
        pid == TASKS
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

fn tag(u: &mut Unstructured<'_>) -> Result<Tag> {
    Ok(Tag {
        host: u.int_in_range(1..=2)?,
        queue: *u.choose(&[0, 1, u32::MAX])?,
        id: u.int_in_range(0..=3)?,
    })
}

fn driver(u: &mut Unstructured<'_>) -> Result<Driver> {
    let all = [Driver::Ufs, Driver::Nvme, Driver::Mmc, Driver::Scsi];
    Ok(*u.choose(&all)?)
}

fn call(u: &mut Unstructured<'_>) -> Result<Call> {
    Ok(*u.choose(&[Call::Submit, Call::Uring])?)
}

fn submission(u: &mut Unstructured<'_>) -> Result<Kind> {
    let entry = u.int_in_range(0..=5_u64)?;
    Ok(match u.int_in_range(0..=7_u8)? {
        0 => Kind::CallEnter(call(u)?, u.int_in_range(0..=3)?, bool::arbitrary(u)?),
        1 => Kind::CallExit(call(u)?, u.int_in_range(-1..=3)?),
        2 => Kind::Reaped(u.int_in_range(-1..=3)?),
        3 => Kind::UringSubmit(entry, u.choose(&[None, Some(entry), Some(99)]).copied()?),
        4 => Kind::UringPunt(*u.choose(&[entry, 99])?),
        5 => Kind::UringComplete(entry),
        6 => Kind::FsBegin,
        _ => Kind::DioComplete,
    })
}

fn block(u: &mut Unstructured<'_>) -> Result<Kind> {
    let at = span(u)?;
    Ok(match u.int_in_range(0..=9_u8)? {
        0 | 1 => Kind::BioQueue(at),
        2 => Kind::Split(at.dev),
        3 => Kind::Merge(at.dev),
        4 => Kind::Issue(at),
        5 => Kind::Requeue(at),
        6 => Kind::Complete(at),
        7 => Kind::Getrq(at.dev, at.sector),
        8 => Kind::Insert(at.dev, at.sector),
        _ => {
            let to = span(u)?;
            Kind::Remap {
                from: (at.dev, at.sector),
                to: (to.dev, to.sector),
            }
        }
    })
}

fn kind(u: &mut Unstructured<'_>) -> Result<Kind> {
    let op = *u.choose(&Op::CALLS)?;
    Ok(match u.int_in_range(0..=17_u8)? {
        0 => Kind::SyscallEnter(op),
        1 => Kind::SyscallExit(op, i64::arbitrary(u)?),
        2 | 3 => submission(u)?,
        4..=6 => block(u)?,
        7 => Kind::NvmeSetup(tag(u)?),
        8 => Kind::NvmeSq(u.int_in_range(1..=2)?),
        9 => Kind::Send(driver(u)?, tag(u)?),
        10 => Kind::Done(driver(u)?, tag(u)?),
        11 => Kind::QueueReturn,
        12 => Kind::IrqEntry(*u.choose(&[7, 8, 9, u32::MAX])?),
        13 => Kind::IrqExit,
        14 => Kind::SoftirqEntry(u.int_in_range(0..=9)?),
        15 => Kind::SoftirqExit,
        16 => Kind::Waking(u.int_in_range(0..=TASKS)?),
        _ => Kind::Switch {
            blocked: bool::arbitrary(u)?,
            next: u.int_in_range(0..=TASKS)?,
        },
    })
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let options = Options {
        use_queue_return: bool::arbitrary(u)?,
        ignore_queue_return: bool::arbitrary(u)?,
        has_nvme_complete: bool::arbitrary(u)?,
        bios_are_ios: u.ratio(1_u8, 8)?,
        count_events: bool::arbitrary(u)?,
    };
    let mut engine = Engine::new(options, Names, Vec::new());
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
            // It begins now, as a reader tells it.
            let to = ts + u64::from(u8::arbitrary(u)?);
            engine.gap(cpu, Lost { from: ts, to });
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
    let (outcome, ios, _) = engine.finish();
    for io in &ios {
        let end = io.start + io.elapsed.iter().sum::<u64>();
        assert_eq!(end, io.end, "the sections do not add up: {io:?}");
        if !io.op.is_async() {
            let whole = entered.contains(&(io.pid, io.start)) && left.contains(&(io.pid, end));
            assert!(whole, "no such call: {io:?}");
        }
    }
    check_counts(&outcome, &ios);
    Ok(())
}

/// Everything that was seen is counted once.
fn check_counts(outcome: &iosections::Outcome, ios: &[IoResult]) {
    let c = &outcome.ios;
    let parts = c.measured + c.no_request + c.waited + c.dropped_lost + c.incomplete + c.ambiguous;
    assert_eq!(c.seen, parts);
    assert_eq!(c.measured, ios.len() as u64);
    for device in &outcome.devices {
        let r = &device.requests;
        assert_eq!(r.seen, r.attributed + r.helper + r.unattributed + r.in_flight);
    }
}

fuzz_target!(|bytes: &[u8]| {
    // Bytes that run out in the middle of an event end the stream.
    let _ = run(&mut Unstructured::new(bytes));
});
