//! Translates raw blktrace files to events of the measurement.
//!
//! blktrace sees the block layer and nothing else: there are no system calls, so that every queued
//! bio (Q) is an I/O of its own, and no interrupts. Of the five sections that leaves `submission`,
//! from the bio (Q) to the request at the driver (D), and the time from there to the completion
//! (C), in which `hardware` and `completion` are **one**.

use std::path::Path;

use blktrace::{Act, Entry, Reason, Run, What, category};
use iosections::{Event, Kind, Rwbs, Section, Span};
use tracedat::{LostRange, LostReason};

use crate::error::Error;
use crate::fields::dev;

/// The sections that no result from blktrace has, and why.
pub(crate) const NOT_SEEN: [(Section, &str); 3] = [
    (Section::VfsFs, "blktrace sees no system calls"),
    (
        Section::Completion,
        "blktrace sees no interrupts: it is part of hardware",
    ),
    (Section::Return, "blktrace sees no system calls"),
];

/// One thing in a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An event. Its `name` is the number of the action, see [`action_name`].
    Event(Event),
    /// A gap. It comes before any event that is later than its start.
    Lost(LostRange),
    /// A task's name, before its first event. The idle task (0) has none.
    Task(i32, String),
}

/// A run's events in order of time, as the engine takes them (with `bios_are_ios`).
#[derive(Debug)]
pub struct BlktraceEvents(Run);

impl BlktraceEvents {
    /// Opens a run: the name before `.blktrace.N`, or one of the files.
    ///
    /// # Errors
    /// When there are no such files, or they are not blktrace's.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self(Run::open(path)?))
    }

    fn advance(&mut self) -> Result<Option<Item>, Error> {
        while let Some(entry) = self.0.next()? {
            match entry {
                Entry::Event(event) => return Ok(Some(Item::Event(translate(&event)))),
                Entry::Note(note) => {
                    // Every CPU has its own task 0.
                    if let (What::Process(name), 1..) = (note.what, note.pid) {
                        let name = String::from_utf8_lossy(name).into_owned();
                        return Ok(Some(Item::Task(note.pid, name)));
                    }
                }
                Entry::Lost(lost) => {
                    return Ok(Some(Item::Lost(LostRange {
                        cpu: lost.cpu,
                        from: lost.from,
                        to: lost.to,
                        count: lost.count,
                        reason: match lost.reason {
                            Reason::Sequence => LostReason::Overwritten,
                            Reason::Damaged => LostReason::Damaged,
                            Reason::CutOff => LostReason::CutOff,
                            Reason::BackInTime => LostReason::Disordered,
                        },
                    })));
                }
            }
        }
        Ok(None)
    }
}

impl Iterator for BlktraceEvents {
    type Item = Result<Item, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}

/// The name of an action, by the number in [`Event::name`].
pub fn action_name(number: u16) -> &'static str {
    const NAMES: [&str; 17] = [
        "other",
        "queue",
        "backmerge",
        "frontmerge",
        "getrq",
        "sleeprq",
        "requeue",
        "issue",
        "complete",
        "plug",
        "unplug",
        "unplug_timer",
        "insert",
        "split",
        "bounce",
        "remap",
        "abort",
    ];
    NAMES.get(usize::from(number)).copied().unwrap_or("other")
}

/// The number of an action, as [`Event::name`] has it: that of the format.
#[inline]
pub(crate) fn number_of(act: Act) -> u16 {
    match act {
        Act::Queue => 1,
        Act::BackMerge => 2,
        Act::FrontMerge => 3,
        Act::GetRq => 4,
        Act::SleepRq => 5,
        Act::Requeue => 6,
        Act::Issue => 7,
        Act::Complete => 8,
        Act::Plug => 9,
        Act::Unplug => 10,
        Act::UnplugTimer => 11,
        Act::Insert => 12,
        Act::Split => 13,
        Act::Bounce => 14,
        Act::Remap => 15,
        Act::Abort => 16,
        Act::Other(_) => 0,
    }
}

#[inline]
fn translate(event: &blktrace::Event<'_>) -> Event {
    let dev = dev(u64::from(event.dev));
    let span = || Span {
        dev,
        sector: event.sector,
        sectors: event.bytes >> 9,
        rwbs: rwbs(event),
    };
    let kind = match event.act {
        Act::Queue => Kind::BioQueue(span()),
        Act::BackMerge | Act::FrontMerge => Kind::Merge(dev),
        Act::GetRq => Kind::Getrq(dev, event.sector),
        Act::Insert => Kind::Insert(dev, event.sector),
        Act::Requeue => Kind::Requeue(span()),
        Act::Issue => Kind::Issue(span()),
        Act::Complete => Kind::Complete(span()),
        Act::Split => Kind::Split(dev),
        Act::Remap => remap(event).unwrap_or(Kind::Other),
        _ => Kind::Other,
    };
    let name = number_of(event.act);
    Event {
        ts: event.ts,
        cpu: event.cpu,
        pid: event.pid,
        name,
        kind,
    }
}

fn remap(event: &blktrace::Event<'_>) -> Option<Kind> {
    let remap = event.remap()?;
    Some(Kind::Remap {
        from: (dev(u64::from(remap.from)), remap.sector),
        to: (dev(u64::from(remap.to)), event.sector),
    })
}

/// The letters that ftrace shows for the same bio or request.
#[inline]
pub(crate) fn rwbs(event: &blktrace::Event<'_>) -> Rwbs {
    let bits = event.categories;
    let has = |bit| bits & bit != 0;
    let mut letters = [0; 10];
    let mut len = 0;
    let mut put = |letter: u8| {
        if let Some(place) = letters.get_mut(len) {
            *place = letter;
        }
        len += 1;
    };
    if has(category::FLUSH) {
        put(b'F');
    }
    put(if has(category::DISCARD) {
        b'D'
    } else if has(category::WRITE) {
        b'W'
    } else if event.bytes > 0 {
        b'R'
    } else if has(category::FLUSH) {
        // A request of the operation flush counts as a read without bytes; a bio that only asks
        // for a flush is a write.
        b'F'
    } else {
        b'N'
    });
    for (bit, letter) in [
        (category::FUA, b'F'),
        (category::AHEAD, b'A'),
        (category::SYNC, b'S'),
        (category::META, b'M'),
    ] {
        if has(bit) {
            put(letter);
        }
    }
    Rwbs::new(&letters)
}
