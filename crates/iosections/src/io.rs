//! One I/O from its entry to its exit, and what is measured of it.

use std::num::NonZeroU64;

use crate::event::Dev;
use crate::limits;
use crate::mark::{Mark, Moments};
use crate::op::Op;
use crate::rwbs::Rwbs;
use crate::section::DeviceSpan;
use crate::slab::{Ref, Slab};

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

/// Code executed for an I/O on one CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) cpu: u32,
    /// Name of the event at `end`, where events are counted.
    pub(crate) event: u16,
    pub(crate) mode: Mode,
}

/// A request as one of its I/Os sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IoRequest {
    pub(crate) seq: u64,
    pub(crate) device: DeviceSpan,
    pub(crate) dev: Dev,
    pub(crate) rwbs: Rwbs,
    pub(crate) sector: u64,
    pub(crate) sectors: u32,
    pub(crate) queue: Option<u32>,
    pub(crate) requeues: u32,
    pub(crate) helper: bool,
    pub(crate) detached: bool,
    pub(crate) marks: (Mark, Mark),
    /// CPU of the completion.
    pub(crate) cpu: u32,
    /// The interrupt or softirq of that CPU in which it completed.
    pub(crate) frame: Option<NonZeroU64>,
    /// The batch of completions that it was part of, while that is remembered.
    pub(crate) batch: Option<NonZeroU64>,
    /// Its share of the completion interrupt (`batch`), in clock units.
    pub(crate) share: Option<u64>,
    /// What a task executed to complete it after that interrupt (the MMC core's worker), the way to
    /// that task included.
    pub(crate) after: u64,
}

impl IoRequest {
    /// What its completion took, if an interrupt began it.
    pub(crate) fn completion(&self) -> Option<u64> {
        self.share.map(|share| share + self.after)
    }
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
    /// Nothing more is to come of it.
    pub(crate) done: bool,
}

/// An open I/O.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub(crate) struct Io {
    pub(crate) pid: i32,
    pub(crate) op: Op,
    pub(crate) start: u64,
    pub(crate) start_mark: Mark,
    /// CPU of its entry.
    pub(crate) cpu: u32,
    pub(crate) bios: Vec<BioTime>,
    /// Bios that are not done.
    pub(crate) open_bios: u32,
    /// Requests at the device or on their way.
    pub(crate) live: Vec<Ref>,
    pub(crate) requests: Vec<IoRequest>,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) moments: Moments,
    pub(crate) sectors: u64,
    pub(crate) merges: u32,
    pub(crate) splits: u32,
    /// An interrupt that completed its request served others, too.
    pub(crate) shared: bool,
    /// It is still being submitted (asynchronous ones).
    pub(crate) submitting: bool,
    /// Its call submitted others that the trace does not tell apart from it.
    pub(crate) ambiguous: bool,
    /// A worker thread of `io_uring` does it.
    pub(crate) punted: bool,
    /// Its task sleeps in it, and nobody has woken it yet.
    pub(crate) asleep: bool,
    /// Its task has slept in it.
    pub(crate) slept: bool,
    /// Helper whose bios it got because nobody else waited: to be shown by who wakes its task.
    /// 0 when there is none.
    pub(crate) unproven: i32,
    /// Devices of its own bios, as in `IoResult::devices`.
    pub(crate) devices: u64,
    /// The device that its first own bio was for: a partition, or the uppermost of a stack.
    pub(crate) asked: Dev,
    /// What the events of `io_uring` call it.
    pub(crate) uring: Option<(u64, Option<u64>)>,
    /// `io_uring_complete`.
    pub(crate) posted: Option<u64>,
    /// Last completion of one of its requests.
    pub(crate) last_done: u64,
}

/// Open I/Os; boxed, since they are large and only their places move.
pub(crate) type Ios = Slab<Box<Io>>;

impl Io {
    /// Makes a used one new, keeping its memory.
    pub(crate) fn renew(&mut self, pid: i32, op: Op, start: u64, start_mark: Mark, cpu: u32) {
        (self.pid, self.op, self.cpu) = (pid, op, cpu);
        (self.start, self.start_mark) = (start, start_mark);
        self.bios.clear();
        self.live.clear();
        self.requests.clear();
        self.pieces.clear();
        (self.open_bios, self.sectors, self.last_done) = (0, 0, 0);
        self.moments = Moments::default();
        (self.merges, self.splits) = (0, 0);
        (self.shared, self.ambiguous, self.punted) = (false, false, false);
        (self.asleep, self.slept) = (false, false);
        (self.unproven, self.devices) = (0, 0);
        self.asked = Dev::default();
        self.submitting = op.is_async();
        (self.uring, self.posted) = (None, None);
    }
}

impl Io {
    /// A bio of it ends for now, or for good.
    #[inline]
    pub(crate) fn end_bio(&mut self, index: usize, ts: Option<u64>, over: bool) {
        let Some(bio) = self.bios.get_mut(index) else {
            return;
        };
        // One that needs a flush after its data ends once more.
        bio.ended = ts.or(bio.ended);
        if over && !std::mem::replace(&mut bio.done, true) {
            self.open_bios = self.open_bios.saturating_sub(1);
        }
    }

    /// Code ran for it: one with the piece before where no events are counted.
    #[inline]
    pub(crate) fn add(&mut self, piece: Piece) {
        let joins = |last: &&mut Piece| {
            piece.event == 0 && last.end == piece.start && last.mode == piece.mode
        };
        if let Some(last) = self.pieces.last_mut().filter(joins) {
            last.end = piece.end;
        } else if self.pieces.len() < limits::PARTS {
            self.pieces.push(piece);
        }
    }
}

/// What was measured of one I/O. Times in clock units; arrays by [`Section::index`].
///
/// [`Section::index`]: crate::Section::index
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IoResult {
    /// Time of the submission: the system call's entry, or the entry's own event.
    pub start: u64,
    /// Time of its end: the system call's exit, or the completion of an asynchronous one.
    pub end: u64,
    /// Task.
    pub pid: i32,
    /// What it is.
    pub op: Op,
    /// Bytes, or a negative error number: of a system call its return value, of the others the
    /// bytes of its bios.
    pub bytes: i64,
    /// Device of its first request.
    pub dev: Dev,
    /// Bit of every device that has a request of it, by its place in `Outcome::devices`.
    pub devices: u64,
    /// The device that its first own bio was for: a partition, or the uppermost of a stack, where the
    /// events tell; the disk otherwise.
    pub asked: Dev,
    /// First sector of its first request; `None` for a flush.
    pub sector: Option<u64>,
    /// The operation letter of its first request: R, W, F, D, …
    pub direction: u8,
    /// Number of the way that it took, see `Outcome::path`: its requests in the order of issue, for
    /// example `WS4+hWSM8+hFF+hWSM4`: letters of `rwbs` and KiB, `h` before a request that
    /// another task submitted, `d` after one that outlived the I/O, repetitions as `2xR64`.
    pub path: u32,
    /// Nothing foreign ran in the sections other than `hardware`, and no interrupt was shared.
    pub clean: bool,
    /// Length of each section; they add up to the time from start to end, less what
    /// recorded the trace where that is known ([`Engine::set_tracing`]), but for `hardware`.
    ///
    /// [`Engine::set_tracing`]: crate::Engine::set_tracing
    pub elapsed: [u64; 5],
    /// Time in which code ran for this I/O.
    pub own: [u64; 5],
    /// Own time on the way of its first request alone, in `vfs_fs` (up to its bio), `submission`
    /// and `completion`: free of what journal and flush requests of the same I/O add. `None` when
    /// the task submitted no request itself; no completion when that request outlived the call.
    pub first: Option<FirstRequest>,
    /// Times inside the sections, of its first own request.
    pub moments: Moments,
    /// The events that set its start, the hand-over, the interrupt and its end.
    pub marks: [Mark; 4],
    /// Requests with a part in it.
    pub requests: u32,
    /// Of these, the ones that outlived the I/O.
    pub detached: u32,
    /// Bios submitted for it.
    pub bios: u32,
    /// Bios merged into a request that was there already.
    pub merges: u32,
    /// Bios split.
    pub splits: u32,
    /// Times that a request of it was issued again.
    pub requeues: u32,
    /// Hardware queue of its first request, if the driver tells.
    pub queue: Option<u32>,
    /// CPU of its start.
    pub submit_cpu: u32,
    /// CPU on which its first request completed.
    pub complete_cpu: u32,
    /// When the task took the completion of an asynchronous I/O by a system call.
    pub reaped: Option<u64>,
}

/// Own time of an I/O's first request, in clock units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstRequest {
    /// From the submission to the request's bio.
    pub vfs_fs: u64,
    /// From the bio to the hand-over.
    pub submission: u64,
    /// Share of the interrupt up to its last completion, and what a worker executed to complete the
    /// request after it; from the interrupt to the request's end where no interrupt is known.
    pub completion: Option<u64>,
}

/// Takes the measured I/Os one by one, as they end.
pub trait Sink {
    /// The next one.
    fn take(&mut self, io: &IoResult);

    /// Whether it looks at more of them than at `path`, `clean`, `elapsed`, `own`, `first`, `marks`,
    /// `devices` and `detached`; else the rest means nothing, and an asynchronous one comes when it
    /// ends, not when its task takes the completion. Always the same answer.
    fn wants_all(&self) -> bool {
        true
    }
}

impl Sink for Vec<IoResult> {
    fn take(&mut self, io: &IoResult) {
        self.push(io.clone());
    }
}
