//! One I/O from its entry to its exit, and what is measured of it.

use crate::event::{Op, Rwbs};
use crate::path::path;
use crate::section::{DeviceSpan, Section, Timeline};
use crate::slab::Ref;

/// How a stretch of executed code is given to a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The section that the I/O is in at that moment.
    Timeline,
    /// The same, but `completion` while another request of the I/O is at the device.
    Completion,
    /// The same, but `return` while another request of the I/O is at the device.
    Return,
}

/// Code executed for an I/O on one CPU, up to the event that ends the piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Name of the event at `end`.
    pub(crate) event: u16,
    pub(crate) mode: Mode,
}

/// A request as one of its I/Os sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoRequest {
    pub(crate) seq: u64,
    pub(crate) device: DeviceSpan,
    pub(crate) rwbs: Rwbs,
    pub(crate) sectors: u32,
    pub(crate) helper: bool,
    pub(crate) detached: bool,
    /// The interrupt or softirq in which it completed.
    pub(crate) frame: Option<(usize, u64)>,
    /// Its share of the completion interrupt (`batch`), in clock units.
    pub(crate) share: Option<u64>,
}

/// A bio's time in the block layer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BioTime {
    pub(crate) queued: u64,
    /// Last completion so far.
    pub(crate) ended: Option<u64>,
    /// Some request carries it.
    pub(crate) issued: bool,
    /// Another task submitted it.
    pub(crate) helper: bool,
}

/// An open I/O.
#[derive(Debug)]
pub(crate) struct Io {
    pub(crate) pid: i32,
    pub(crate) op: Op,
    pub(crate) start: u64,
    pub(crate) bios: Vec<BioTime>,
    /// Requests at the device or on their way.
    pub(crate) live: Vec<Ref>,
    pub(crate) requests: Vec<IoRequest>,
    pub(crate) pieces: Vec<Piece>,
    /// An interrupt that completed its request served others, too.
    pub(crate) shared: bool,
}

impl Io {
    pub(crate) fn new(pid: i32, op: Op, start: u64) -> Self {
        Self {
            pid,
            op,
            start,
            bios: Vec::new(),
            live: Vec::new(),
            requests: Vec::new(),
            pieces: Vec::new(),
            shared: false,
        }
    }
}

/// What was measured of one I/O. Times in clock units; arrays by [`Section::index`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoResult {
    /// Time of the system call's entry.
    pub start: u64,
    /// Task.
    pub pid: i32,
    /// System call.
    pub op: Op,
    /// Its return value: bytes, or a negative error number.
    pub ret: i64,
    /// Its requests in the order of issue, for example `WS4+hWSM8+hFF+hWSM4`: letters of `rwbs`
    /// and KiB, `h` before a request that another task submitted, `d` after one that outlived the
    /// system call, repetitions as `2xR64`.
    pub path: String,
    /// Nothing foreign ran in the sections other than `hardware`, and no interrupt was shared.
    pub clean: bool,
    /// Length of each section; they add up to the time from entry to exit.
    pub elapsed: [u64; 5],
    /// Time in which code ran for this I/O.
    pub own: [u64; 5],
    /// Own time on the way of its first request alone, in `vfs_fs` (up to its bio), `submission`
    /// and `completion`: free of what journal and flush requests of the same I/O add. `None` when
    /// the task submitted no request itself; no completion when that request outlived the call.
    pub first: Option<FirstRequest>,
    /// Requests with a part in it.
    pub requests: u32,
    /// Of these, the ones that outlived the system call.
    pub detached: u32,
    /// Bios submitted for it on the device.
    pub bios: u32,
}

/// Own time of an I/O's first request, in clock units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRequest {
    /// From the system call's entry to the request's bio.
    pub vfs_fs: u64,
    /// From the bio to the hand-over.
    pub submission: u64,
    /// Share of the interrupt up to its last completion; from the interrupt to the request's end
    /// where the completion ran in no interrupt.
    pub completion: Option<u64>,
}

/// Work space and counts of the measurement.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    timeline: Timeline,
    /// Events inside own pieces, by name and section.
    pub(crate) events: Vec<[u64; 5]>,
}

impl Measure {
    /// Cuts a closed I/O. Its pieces may be in any order.
    pub(crate) fn finish(&mut self, mut io: Io, end: u64, ret: i64) -> IoResult {
        let start = io.start;
        io.requests.sort_unstable_by_key(|r| r.seq);
        // What a helper had not finished by now, the task did not wait for.
        io.bios.retain(|b| !b.helper || b.ended.is_some());
        // A bio that no request carried (a driver that ends bios itself) takes no time.
        let bios = io.bios.iter().map(|b| {
            let open = if b.issued { end } else { b.queued };
            (b.queued, b.ended.unwrap_or(open))
        });
        self.timeline
            .build((start, end), bios, io.requests.iter().map(|r| r.device));
        let mut elapsed = [0; 5];
        self.timeline.cut(start, end, |from, to, section| {
            add(&mut elapsed, section, to - from);
        });
        let (own, covered) = self.own(&mut io.pieces, start, end);
        let software: u64 = elapsed.iter().sum::<u64>() - at(&elapsed, Section::Hardware);
        let first = first_request(&io);
        IoResult {
            first,
            start,
            pid: io.pid,
            op: io.op,
            ret,
            path: path(&io.requests),
            clean: covered == software && !io.shared,
            elapsed,
            own,
            requests: io.requests.len() as u32,
            detached: io.requests.iter().filter(|r| r.detached).count() as u32,
            bios: io.bios.len() as u32,
        }
    }

    /// Own time by section, and how much of the software sections it covers.
    fn own(&mut self, pieces: &mut [Piece], start: u64, end: u64) -> ([u64; 5], u64) {
        pieces.sort_unstable_by_key(|p| p.start);
        let (mut own, mut covered, mut reached) = ([0; 5], 0, start);
        for piece in pieces.iter() {
            let (from, to) = (piece.start.max(start), piece.end.min(end));
            if from >= to {
                continue;
            }
            let mut last = Section::VfsFs;
            self.timeline.cut(from, to, |from, to, section| {
                last = match (piece.mode, section) {
                    (Mode::Completion, Section::Hardware) => Section::Completion,
                    (Mode::Return, Section::Hardware) => Section::Return,
                    _ => section,
                };
                add(&mut own, last, to - from);
                if section != Section::Hardware {
                    covered += to.saturating_sub(from.max(reached));
                }
            });
            reached = reached.max(to);
            if piece.end <= end {
                self.count(piece.event, last);
            }
        }
        (own, covered)
    }

    fn count(&mut self, event: u16, section: Section) {
        let event = usize::from(event);
        if self.events.len() <= event {
            self.events.resize(event + 1, [0; 5]);
        }
        if let Some(counts) = self.events.get_mut(event) {
            add(counts, section, 1);
        }
    }
}

/// Cuts the way of the first request that the task itself submitted; the pieces are in order.
fn first_request(io: &Io) -> Option<FirstRequest> {
    let bio = io.bios.iter().find(|b| !b.helper)?.queued;
    let request = io.requests.iter().find(|r| !r.helper)?;
    let device = request.device;
    let ran = |from: u64, to: u64| {
        let lengths = io.pieces.iter().map(|p| {
            let (start, end) = (p.start.max(from), p.end.min(to));
            end.saturating_sub(start)
        });
        lengths.sum()
    };
    Some(FirstRequest {
        vfs_fs: ran(io.start, bio),
        submission: ran(bio, device.start),
        completion: (!request.detached).then(|| {
            let alone = || ran(device.interrupt, device.done);
            request.share.unwrap_or_else(alone)
        }),
    })
}

fn add(sums: &mut [u64; 5], section: Section, amount: u64) {
    if let Some(sum) = sums.get_mut(section.index()) {
        *sum += amount;
    }
}

fn at(sums: &[u64; 5], section: Section) -> u64 {
    sums.get(section.index()).copied().unwrap_or(0)
}
