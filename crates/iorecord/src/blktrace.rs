//! Translates raw blktrace files to events of the measurement.
//!
//! blktrace sees the block layer and nothing else: there are no system calls, so that every queued
//! bio (Q) is an I/O of its own, and no interrupts. Of the five sections that leaves `submission`,
//! from the bio (Q) to the request at the driver (D), and the time from there to the completion
//! (C), in which `hardware` and `completion` are **one**: see [`NOT_TOLD_APART`].

use std::collections::HashMap;
use std::path::Path;

use blktrace::{Act, Entry, Note, Run, What, category};
use iosections::{Event, Kind, Lost, Rwbs, Span};

use crate::error::Error;
use crate::fields::dev;

/// What every result from blktrace has to say of itself.
pub const NOT_TOLD_APART: &str = "blktrace records no interrupt: hardware and completion are not \
told apart, and the time from issue (D) to completion (C) is both; there are no system calls \
either, so every bio (Q) is one I/O, without vfs_fs and return";

/// The kernel has no more tasks than this at a time (`PID_MAX_LIMIT`); names beyond are not kept.
const NAMES: usize = 1 << 22;

/// One thing in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Item {
    /// An event. Its `name` is the number of the action, see [`action_name`].
    Event(Event),
    /// A gap. It comes before any event that is later than its start.
    Lost(Gap),
}

/// Missing events of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The CPU.
    pub cpu: u32,
    /// The stretch of time (ns); to the end of time when no event follows.
    pub range: Lost,
    /// Number of events, if it can be known.
    pub count: Option<u64>,
    /// Why, in words.
    pub reason: &'static str,
}

/// A run's events in order of time, as the engine takes them (with `bios_are_ios`).
#[derive(Debug)]
pub struct BlktraceEvents {
    run: Run,
    names: HashMap<i32, String>,
}

impl BlktraceEvents {
    /// Opens a run: the name before `.blktrace.N`, or one of the files.
    ///
    /// # Errors
    /// When there are no such files, or they are not blktrace's.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Ok(Self {
            run: Run::open(path)?,
            names: HashMap::new(),
        })
    }

    /// Names of tasks, as far as the run has been read: a name comes before the task's first event.
    /// The idle task (0) has none.
    pub fn names(&self) -> &HashMap<i32, String> {
        &self.names
    }

    fn note(names: &mut HashMap<i32, String>, note: &Note<'_>) {
        if let What::Process(name) = note.what {
            // Every CPU has its own task 0.
            if note.pid != 0 && (names.len() < NAMES || names.contains_key(&note.pid)) {
                names.insert(note.pid, String::from_utf8_lossy(name).into_owned());
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Item>, Error> {
        while let Some(entry) = self.run.next()? {
            match entry {
                Entry::Event(event) => return Ok(Some(Item::Event(translate(&event)))),
                Entry::Note(note) => Self::note(&mut self.names, &note),
                Entry::Lost(lost) => {
                    let (from, to) = (lost.from.unwrap_or(0), lost.to);
                    return Ok(Some(Item::Lost(Gap {
                        cpu: lost.cpu,
                        range: Lost { from, to },
                        count: lost.count,
                        reason: lost.reason.text(),
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

#[inline]
fn translate(event: &blktrace::Event<'_>) -> Event {
    let dev = dev(u64::from(event.dev));
    let span = || Span {
        dev,
        sector: event.sector,
        sectors: event.bytes >> 9,
        rwbs: rwbs(event),
    };
    let (name, kind) = match event.act {
        Act::Queue => (1, Kind::BioQueue(span())),
        Act::BackMerge => (2, Kind::Merge(dev)),
        Act::FrontMerge => (3, Kind::Merge(dev)),
        Act::GetRq => (4, Kind::Getrq(dev, event.sector)),
        Act::Insert => (12, Kind::Insert(dev, event.sector)),
        Act::SleepRq => (5, Kind::Other),
        Act::Requeue => (6, Kind::Requeue(span())),
        Act::Issue => (7, Kind::Issue(span())),
        Act::Complete => (8, Kind::Complete(span())),
        Act::Plug => (9, Kind::Other),
        Act::Unplug => (10, Kind::Other),
        Act::UnplugTimer => (11, Kind::Other),
        Act::Split => (13, Kind::Split(dev)),
        Act::Bounce => (14, Kind::Other),
        Act::Remap => (15, remap(event).unwrap_or(Kind::Other)),
        Act::Abort => (16, Kind::Other),
        Act::Other(_) => (0, Kind::Other),
    };
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
fn rwbs(event: &blktrace::Event<'_>) -> Rwbs {
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
