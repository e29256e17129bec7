//! What a run holds: events, notes and gaps.

use crate::header::{Endian, Header};

/// An action's number in its lower 16 bits; above it are the categories.
const CATEGORY_SHIFT: u32 = 16;
/// The action was done for a control group, whose id comes before the rest of the pdu.
const CGROUP: u16 = 1 << 8;

/// The categories of an event (`BLK_TC_*`), as bits of [`Event::categories`].
#[allow(missing_docs)] // the kernel's names
pub mod category {
    pub const READ: u64 = 1 << 0;
    pub const WRITE: u64 = 1 << 1;
    pub const FLUSH: u64 = 1 << 2;
    pub const SYNC: u64 = 1 << 3;
    pub const QUEUE: u64 = 1 << 4;
    pub const REQUEUE: u64 = 1 << 5;
    pub const ISSUE: u64 = 1 << 6;
    pub const COMPLETE: u64 = 1 << 7;
    pub const FS: u64 = 1 << 8;
    pub const PC: u64 = 1 << 9;
    pub const NOTIFY: u64 = 1 << 10;
    pub const AHEAD: u64 = 1 << 11;
    pub const META: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const DRV_DATA: u64 = 1 << 14;
    pub const FUA: u64 = 1 << 15;
}

/// What happened (`__BLK_TA_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Act {
    /// Q: a bio was queued.
    Queue,
    /// M: it was merged to the end of a request.
    BackMerge,
    /// F: it was merged to the start of a request.
    FrontMerge,
    /// G: a request was allocated.
    GetRq,
    /// S: a task waits for a free request.
    SleepRq,
    /// R: a request went back to the queue.
    Requeue,
    /// D: a request went to the driver.
    Issue,
    /// C: a request, or the bio of a driver without requests, is complete.
    Complete,
    /// P: a task holds its requests back.
    Plug,
    /// U: it lets them go.
    Unplug,
    /// T: they went for the time that passed.
    UnplugTimer,
    /// I: a request went to the I/O scheduler.
    Insert,
    /// X: a bio was split.
    Split,
    /// B: its data were copied to memory that the device can reach.
    Bounce,
    /// A: a bio moved to another device.
    Remap,
    /// A request was aborted.
    Abort,
    /// Another number.
    Other(u16),
}

impl Act {
    pub(crate) const DRV_DATA: u16 = 17;

    fn new(number: u16) -> Self {
        match number {
            1 => Self::Queue,
            2 => Self::BackMerge,
            3 => Self::FrontMerge,
            4 => Self::GetRq,
            5 => Self::SleepRq,
            6 => Self::Requeue,
            7 => Self::Issue,
            8 => Self::Complete,
            9 => Self::Plug,
            10 => Self::Unplug,
            11 => Self::UnplugTimer,
            12 => Self::Insert,
            13 => Self::Split,
            14 => Self::Bounce,
            15 => Self::Remap,
            16 => Self::Abort,
            other => Self::Other(other),
        }
    }

    /// The letter that blkparse prints.
    pub const fn letter(self) -> char {
        match self {
            Self::Queue => 'Q',
            Self::BackMerge => 'M',
            Self::FrontMerge => 'F',
            Self::GetRq => 'G',
            Self::SleepRq => 'S',
            Self::Requeue => 'R',
            Self::Issue => 'D',
            Self::Complete => 'C',
            Self::Plug => 'P',
            Self::Unplug => 'U',
            Self::UnplugTimer => 'T',
            Self::Insert => 'I',
            Self::Split => 'X',
            Self::Bounce => 'B',
            Self::Remap => 'A',
            Self::Abort | Self::Other(_) => '?',
        }
    }
}

/// Where a bio was before it was remapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remap {
    /// The device it was for (the kernel's number, as [`Event::dev`]).
    pub from: u32,
    /// The device it goes to.
    pub to: u32,
    /// First sector on the former.
    pub sector: u64,
}

/// One event of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// CPU.
    pub cpu: u32,
    /// Time (ns, monotonic clock of the traced machine).
    pub ts: u64,
    /// Number of the event on its CPU, from 1.
    pub sequence: u32,
    /// What happened.
    pub act: Act,
    /// Bits of [`category`].
    pub categories: u64,
    /// First sector (512 bytes).
    pub sector: u64,
    /// Length (bytes).
    pub bytes: u32,
    /// The task that was current.
    pub pid: i32,
    /// The traced device: major << 20 | minor.
    pub dev: u32,
    /// Result of a completion: 0, or a negative error number.
    pub error: i16,
    /// Control group that it was done for.
    pub cgroup: Option<u64>,
    /// What follows the header, less the control group.
    pub pdu: &'a [u8],
}

impl<'a> Event<'a> {
    #[inline]
    pub(crate) fn new(header: &Header, pdu: &'a [u8], endian: Endian) -> Self {
        let (number, cgroup, pdu) = number_and_pdu(header, pdu, endian);
        Self {
            cpu: header.cpu,
            ts: header.ts,
            sequence: header.sequence,
            act: Act::new(number),
            categories: header.action >> CATEGORY_SHIFT,
            sector: header.sector,
            bytes: header.bytes,
            pid: header.pid as i32,
            dev: header.dev,
            error: header.error as i16,
            cgroup,
            pdu,
        }
    }

    /// Where a remapped bio comes from; `None` of other events.
    pub fn remap(&self) -> Option<Remap> {
        // Big-endian on every machine.
        let at = |at: usize| self.pdu.get(at..).unwrap_or_default();
        (self.act == Act::Remap)
            .then(|| {
                Some(Remap {
                    from: Endian::Big.u32(at(0))?,
                    to: Endian::Big.u32(at(4))?,
                    sector: Endian::Big.u64(at(8))?,
                })
            })
            .flatten()
    }
}

/// The action's number, the control group and the rest of the pdu.
#[inline]
fn number_and_pdu<'a>(
    header: &Header,
    pdu: &'a [u8],
    endian: Endian,
) -> (u16, Option<u64>, &'a [u8]) {
    let number = header.action as u16;
    if number & CGROUP == 0 {
        return (number, None, pdu);
    }
    let rest = pdu.get(8..).unwrap_or_default();
    (number & !CGROUP, endian.u64(pdu), rest)
}

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What<'a> {
    /// The name of the task with the note's pid, up to 15 bytes.
    Process(&'a [u8]),
    /// The wall clock at the note's time: seconds since 1970, and nanoseconds.
    Clock(u32, u32),
    /// Text from the kernel or from the debugfs file `msg`.
    Message(&'a [u8]),
    /// A note of another kind, with its number.
    Other(u16),
}

/// A note that blktrace or the kernel put between the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Note<'a> {
    /// CPU.
    pub cpu: u32,
    /// Time (ns, as of the events).
    pub ts: u64,
    /// Task.
    pub pid: i32,
    /// Device, as of the events.
    pub dev: u32,
    /// Control group of a message.
    pub cgroup: Option<u64>,
    /// What it says.
    pub what: What<'a>,
}

impl<'a> Note<'a> {
    pub(crate) fn new(header: &Header, pdu: &'a [u8], endian: Endian) -> Self {
        let (number, cgroup, pdu) = number_and_pdu(header, pdu, endian);
        let text = pdu.split(|&b| b == 0).next().unwrap_or_default();
        let what = match number {
            0 => What::Process(text),
            1 => {
                let seconds = endian.u32(pdu);
                let nanoseconds = endian.u32(pdu.get(4..).unwrap_or_default());
                seconds
                    .zip(nanoseconds)
                    .map_or(What::Other(1), |(s, ns)| What::Clock(s, ns))
            }
            2 => What::Message(text),
            other => What::Other(other),
        };
        Self {
            cpu: header.cpu,
            ts: header.ts,
            pid: header.pid as i32,
            dev: header.dev,
            cgroup,
            what,
        }
    }
}

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The CPU's sequence numbers have a gap, or go back.
    Sequence,
    /// Bytes that are no record.
    Damaged,
    /// The file ends inside a record.
    CutOff,
    /// Records from before their predecessors; they are left out.
    BackInTime,
}

impl Reason {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Sequence => "the sequence numbers have a gap",
            Self::Damaged => "bytes that are no record",
            Self::CutOff => "the file ends inside a record",
            Self::BackInTime => "records from before their predecessors",
        }
    }
}

/// A stretch of time in which a CPU's events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The CPU, as in its file's name.
    pub cpu: u32,
    /// Time of the last event before the gap (ns); `None` at the file's start.
    pub from: Option<u64>,
    /// Time of the first event after it (ns); [`u64::MAX`] when none follows.
    pub to: u64,
    /// How many events are missing, if that can be known.
    pub count: Option<u64>,
    /// Why.
    pub reason: Reason,
    /// Offset in the CPU's file (bytes).
    pub offset: u64,
}

/// One thing in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// An event.
    Event(Event<'a>),
    /// A note.
    Note(Note<'a>),
    /// A gap; it comes before any event of any CPU that is later than its start.
    Lost(Lost),
}
