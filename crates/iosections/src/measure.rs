//! Cuts a closed I/O into its sections.

use crate::io::{BioTime, FirstRequest, Io, IoRequest, IoResult, Mode, Piece};
use crate::mark::Mark;
use crate::op::Op;
use crate::path::Paths;
use crate::section::{Section, Timeline};
use crate::turns::Ran;

/// How an I/O ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) ts: u64,
    pub(crate) mark: Mark,
    /// Return value of the system call.
    pub(crate) ret: Option<i64>,
}

/// Work space and counts of the measurement.
#[derive(Debug, Default)]
pub(crate) struct Measure {
    timeline: Timeline,
    pub(crate) ran: Ran,
    pub(crate) paths: Paths,
    /// Events inside own pieces, by name and section.
    pub(crate) events: Vec<[u64; 5]>,
    /// Whether to count them.
    counts_events: bool,
}

impl Measure {
    pub(crate) fn new(counts_events: bool) -> Self {
        Self {
            counts_events,
            ..Self::default()
        }
    }

    /// Cuts a closed I/O into `result`; [`describe`] tells the rest of it. Its requests and pieces may
    /// be in any order.
    pub(crate) fn finish(&mut self, io: &mut Io, end: End, result: &mut IoResult) {
        if io.requests.len() > 1 {
            io.requests.sort_unstable_by_key(|r| r.seq);
        }
        let cuts = straight(io, end.ts).filter(|_| !self.counts_events && !self.ran.is_known());
        let covered = match cuts.and_then(|cuts| cut_straight(io, &cuts, result)) {
            Some(covered) => covered,
            None => self.cut(io, end.ts, result),
        };
        let software: u64 =
            result.elapsed.iter().sum::<u64>() - at(&result.elapsed, Section::Hardware);
        result.clean = covered == software && !io.shared;
        let marks = own_first(io).map_or((Mark::None, Mark::None), |r| r.marks);
        result.marks = [io.start_mark, marks.0, marks.1, end.mark];
        result.path = self.paths.number(&io.requests);
        result.asked = io.asked;
        result.detached = 0;
        for request in &io.requests {
            result.detached += u32::from(request.detached);
        }
    }

    /// Cuts any I/O; gives how much of the software sections its own time covers.
    #[inline(never)]
    fn cut(&mut self, io: &mut Io, end: u64, result: &mut IoResult) -> u64 {
        if !io.pieces.is_sorted_by_key(|p| p.start) {
            io.pieces.sort_unstable_by_key(|p| p.start);
        }
        self.build(io, end);
        let mut elapsed = [0; 5];
        self.timeline.cut(io.start, end, |from, to, section| {
            // The device works on while the trace is recorded.
            let passed = match section {
                Section::Hardware => to - from,
                _ => self.ran.passed(from, to),
            };
            add(&mut elapsed, section, passed);
        });
        let (own, covered) = self.own(&io.pieces, io.start, end);
        (result.elapsed, result.own) = (elapsed, own);
        result.first = first_request(io, &self.ran);
        covered
    }

    fn build(&mut self, io: &mut Io, end: u64) {
        // What a helper had not finished by now, the task did not wait for.
        io.bios.retain(|b| !b.helper || b.ended.is_some());
        // A bio that no request carried (a driver that ends bios itself) takes no time.
        let span = |b: &BioTime| {
            let open = if b.issued { end } else { b.queued };
            (b.queued, b.ended.unwrap_or(open))
        };
        let requests = io.requests.iter().map(|r| r.device);
        self.timeline
            .build((io.start, end), io.bios.iter().map(span), requests);
    }

    /// Own time by section, and how much of the software sections it covers.
    fn own(&mut self, pieces: &[Piece], start: u64, end: u64) -> ([u64; 5], u64) {
        let (mut own, mut covered, mut reached) = ([0; 5], 0, start);
        for piece in pieces {
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
                add(&mut own, last, self.ran.between(piece.cpu, from, to));
                if section != Section::Hardware {
                    covered += self.ran.passed(from.max(reached), to);
                }
            });
            reached = reached.max(to);
            if self.counts_events && piece.end <= end {
                self.count(piece.event, last);
            }
        }
        (own, covered)
    }

    #[cold]
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

/// The ends of the sections of an I/O that is one bio in one request, rising; with its start before
/// them.
fn straight(io: &Io, end: u64) -> Option<[u64; 6]> {
    let ([bio], [request]) = (io.bios.as_slice(), io.requests.as_slice()) else {
        return None;
    };
    let d = request.device;
    let cuts = [io.start, bio.queued, d.start, d.interrupt, d.done, end];
    let plain = bio.ended == Some(d.done) && !bio.helper && !request.helper;
    let [start, queued, sent, interrupt, done, end] = cuts;
    let rises = start <= queued && queued <= sent && sent <= interrupt && interrupt <= done;
    (plain && rises && done <= end).then_some(cuts)
}

/// The same as [`Measure::cut`] between such ends, unless pieces overlap or are in another order.
fn cut_straight(io: &Io, cuts: &[u64; 6], result: &mut IoResult) -> Option<u64> {
    let [start, queued, sent, interrupt, done, end] = *cuts;
    let mut way = Way {
        pieces: io.pieces.iter(),
        from: start,
        to: start,
        mode: Mode::Timeline,
    };
    let fs = way.ran(queued)?;
    let submission = way.ran(sent)?;
    // Code that runs while the device has the request: which section it counts for.
    let (mut stayed, mut completion, mut back) = (0, 0, 0);
    way.run(interrupt, |mode, time| match mode {
        Mode::Timeline => stayed += time,
        Mode::Completion => completion += time,
        Mode::Return => back += time,
    })?;
    let completing = way.ran(done)?;
    let returning = way.ran(end)?;
    result.elapsed = [
        queued - start,
        sent - queued,
        interrupt - sent,
        done - interrupt,
        end - done,
    ];
    let device = io.requests.first().filter(|r| !r.detached);
    result.first = Some(FirstRequest {
        vfs_fs: fs,
        submission,
        completion: device.map(|r| r.completion().unwrap_or(completing)),
    });
    result.own = [
        fs,
        submission,
        stayed,
        completing + completion,
        returning + back,
    ];
    Some(fs + submission + completing + returning)
}

/// Goes along the pieces of an I/O.
struct Way<'a> {
    pieces: std::slice::Iter<'a, Piece>,
    /// What is left of the current piece.
    from: u64,
    to: u64,
    mode: Mode,
}

impl Way<'_> {
    /// Tells how long each piece ran up to an edge; none if one begins before the last one's end.
    #[inline]
    fn run(&mut self, edge: u64, mut ran: impl FnMut(Mode, u64)) -> Option<()> {
        loop {
            if self.to > edge {
                if self.from < edge {
                    ran(self.mode, edge - self.from);
                    self.from = edge;
                }
                return Some(());
            }
            ran(self.mode, self.to - self.from);
            let Some(next) = self.pieces.next() else {
                self.from = self.to;
                return Some(());
            };
            if next.start < self.to || next.end < next.start {
                return None;
            }
            (self.from, self.to, self.mode) = (next.start, next.end, next.mode);
        }
    }

    #[inline]
    fn ran(&mut self, edge: u64) -> Option<u64> {
        let mut sum = 0;
        self.run(edge, |_, time| sum += time)?;
        Some(sum)
    }
}

/// The first request that the task itself submitted, else the first one.
fn own_first(io: &Io) -> Option<&IoRequest> {
    let own = io.requests.iter().find(|r| !r.helper);
    own.or(io.requests.first())
}

/// What else is known of an I/O that is cut.
pub(crate) fn describe(io: &Io, end: End, result: &mut IoResult) {
    let (first, own_first) = (io.requests.first(), own_first(io));
    (result.start, result.end) = (io.start, end.ts);
    (result.pid, result.op) = (io.pid, io.op);
    result.bytes = end
        .ret
        .unwrap_or_else(|| io.sectors.saturating_mul(512) as i64);
    result.dev = first.map(|r| r.dev).unwrap_or_default();
    result.sector = first.filter(|r| r.sectors > 0).map(|r| r.sector);
    result.direction = direction(io, own_first);
    result.moments = io.moments;
    result.requests = io.requests.len() as u32;
    result.bios = io.bios.len() as u32;
    (result.merges, result.splits) = (io.merges, io.splits);
    result.requeues = 0;
    for request in &io.requests {
        result.requeues += request.requeues;
    }
    result.queue = own_first.and_then(|r| r.queue);
    result.submit_cpu = io.cpu;
    result.complete_cpu = own_first.map_or(io.cpu, |r| r.cpu);
    result.reaped = None;
}

/// What the I/O does: of its first own request; of a call for a flush always F; of one that
/// discards D, although it may read first what is free (fstrim).
fn direction(io: &Io, first: Option<&IoRequest>) -> u8 {
    if io.op.is_flush() {
        return b'F';
    }
    let discards = |r: &IoRequest| r.rwbs.op() == b'D';
    if matches!(io.op, Op::Ioctl | Op::Fallocate) && io.requests.iter().any(discards) {
        return b'D';
    }
    first.map_or(0, |r| r.rwbs.op())
}

/// Cuts the way of the first request that the task itself submitted; the pieces are in order.
fn first_request(io: &Io, clock: &Ran) -> Option<FirstRequest> {
    let bio = io.bios.iter().find(|b| !b.helper)?.queued;
    let request = io.requests.iter().find(|r| !r.helper)?;
    let device = request.device;
    let ran = |from: u64, to: u64| {
        let lengths = io.pieces.iter().map(|p| {
            let (start, end) = (p.start.max(from), p.end.min(to));
            if start < end {
                clock.between(p.cpu, start, end)
            } else {
                0
            }
        });
        lengths.sum()
    };
    Some(FirstRequest {
        vfs_fs: ran(io.start, bio),
        submission: ran(bio, device.start),
        completion: (!request.detached).then(|| {
            let alone = || ran(device.interrupt, device.done);
            request.completion().unwrap_or_else(alone)
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
