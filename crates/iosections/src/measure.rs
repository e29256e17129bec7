//! Cuts a closed I/O into its sections.

use crate::io::{BioTime, FirstRequest, Io, IoResult, Mode, Piece};
use crate::mark::Mark;
use crate::op::Op;
use crate::path::Paths;
use crate::section::{Section, Timeline};

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

    /// Cuts a closed I/O. Its pieces may be in any order.
    pub(crate) fn finish(&mut self, io: &mut Io, end: End) -> IoResult {
        if io.requests.len() > 1 {
            io.requests.sort_unstable_by_key(|r| r.seq);
        }
        self.build(io, end.ts);
        let mut elapsed = [0; 5];
        self.timeline.cut(io.start, end.ts, |from, to, section| {
            add(&mut elapsed, section, to - from);
        });
        let (own, covered) = self.own(&mut io.pieces, io.start, end.ts);
        let software: u64 = elapsed.iter().sum::<u64>() - at(&elapsed, Section::Hardware);
        let detached = io.requests.iter().filter(|r| r.detached).count() as u32;
        let first = io.requests.first();
        let own_first = io.requests.iter().find(|r| !r.helper).or(first);
        let marks = own_first.map_or((Mark::None, Mark::None), |r| r.marks);
        IoResult {
            start: io.start,
            end: end.ts,
            pid: io.pid,
            op: io.op,
            bytes: end
                .ret
                .unwrap_or_else(|| io.sectors.saturating_mul(512) as i64),
            dev: first.map(|r| r.dev).unwrap_or_default(),
            devices: 0,
            sector: first.filter(|r| r.sectors > 0).map(|r| r.sector),
            direction: direction(io),
            path: self.paths.number(&io.requests),
            clean: covered == software && !io.shared,
            elapsed,
            own,
            first: first_request(io),
            moments: io.moments,
            marks: [io.start_mark, marks.0, marks.1, end.mark],
            requests: io.requests.len() as u32,
            detached,
            bios: io.bios.len() as u32,
            merges: io.merges,
            splits: io.splits,
            requeues: io.requests.iter().map(|r| r.requeues).sum(),
            queue: own_first.and_then(|r| r.queue),
            submit_cpu: io.cpu,
            complete_cpu: own_first.map_or(io.cpu, |r| r.cpu),
            reaped: None,
        }
    }

    fn build(&mut self, io: &mut Io, end: u64) {
        if let ([bio], [request]) = (io.bios.as_slice(), io.requests.as_slice()) {
            let d = request.device;
            if bio.ended == Some(d.done) && !bio.helper {
                let cuts = [bio.queued, d.start, d.interrupt, d.done, end];
                if io.start <= bio.queued && cuts.is_sorted() {
                    self.timeline.straight(io.start, cuts);
                    return;
                }
            }
        }
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
    fn own(&mut self, pieces: &mut [Piece], start: u64, end: u64) -> ([u64; 5], u64) {
        if !pieces.is_sorted_by_key(|p| p.start) {
            pieces.sort_unstable_by_key(|p| p.start);
        }
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
            if self.counts_events && piece.end <= end {
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

/// What the I/O does: of its first own request; of a call for a flush always F.
fn direction(io: &Io) -> u8 {
    if matches!(io.op, Op::Fsync | Op::Fdatasync | Op::SyncFileRange) {
        return b'F';
    }
    let first = io.requests.iter().find(|r| !r.helper);
    first.or(io.requests.first()).map_or(0, |r| r.rwbs.op())
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
