//! The five latency sections, and the timeline of one I/O over them.

/// One of the consecutive parts of an I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// From the system call's entry to the first bio; also the gaps in which the file system
    /// prepares the next bio after all requests so far have completed.
    VfsFs,
    /// A bio is in the block layer, nothing is at the device.
    Submission,
    /// At least one request is at the device.
    Hardware,
    /// From the completion interrupt to `block_rq_complete`, with nothing else at the device.
    Completion,
    /// From the last completion to the system call's exit.
    Return,
}

impl Section {
    /// In order.
    pub const ALL: [Self; 5] = [
        Self::VfsFs,
        Self::Submission,
        Self::Hardware,
        Self::Completion,
        Self::Return,
    ];

    /// The name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VfsFs => "vfs_fs",
            Self::Submission => "submission",
            Self::Hardware => "hardware",
            Self::Completion => "completion",
            Self::Return => "return",
        }
    }

    /// Place in arrays of five.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the software overhead counts it (sections 1, 2 and 4).
    pub const fn is_overhead(self) -> bool {
        matches!(self, Self::VfsFs | Self::Submission | Self::Completion)
    }
}

/// A request's way through the device (clock units, start ≤ interrupt ≤ done).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DeviceSpan {
    pub(crate) start: u64,
    pub(crate) interrupt: u64,
    pub(crate) done: u64,
}

/// Consecutive stretches that fill `[start, end)` of an I/O.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// (end, section), ends rising; the first stretch starts at the I/O's start.
    stretches: Vec<(u64, Section)>,
    edges: Vec<(u64, Edge, i32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    Bio,
    Device,
    Completing,
}

impl Timeline {
    /// Cuts `[start, end)` by the bios' time in the block layer and the requests' time at the
    /// device. Everything outside is cut off.
    pub(crate) fn build(
        &mut self,
        (start, end): (u64, u64),
        bios: impl Iterator<Item = (u64, u64)>,
        requests: impl Iterator<Item = DeviceSpan>,
    ) {
        self.edges.clear();
        self.stretches.clear();
        let mut last_bio = start;
        let clip = |ts: u64| ts.clamp(start, end);
        for (from, to) in bios {
            last_bio = last_bio.max(clip(from));
            self.edges.push((clip(from), Edge::Bio, 1));
            self.edges.push((clip(to.max(from)), Edge::Bio, -1));
        }
        for span in requests {
            let interrupt = span.interrupt.max(span.start);
            self.edges.push((clip(span.start), Edge::Device, 1));
            self.edges.push((clip(interrupt), Edge::Device, -1));
            self.edges.push((clip(interrupt), Edge::Completing, 1));
            self.edges
                .push((clip(span.done.max(interrupt)), Edge::Completing, -1));
        }
        self.edges.sort_unstable();
        let (mut at, mut counts) = (start, [0_i32; 3]);
        let mut edges = std::mem::take(&mut self.edges);
        for &(ts, edge, step) in &edges {
            if ts > at {
                self.push(ts, state(counts, at < last_bio));
                at = ts;
            }
            if let Some(count) = counts.get_mut(edge as usize) {
                *count += step;
            }
        }
        edges.clear();
        self.edges = edges;
        if end > at {
            self.push(end, state(counts, at < last_bio));
        }
    }

    fn push(&mut self, end: u64, section: Section) {
        match self.stretches.last_mut() {
            Some(last) if last.1 == section => last.0 = end,
            _ => self.stretches.push((end, section)),
        }
    }

    /// Calls `each(from, to, section)` for the parts of `[from, to)`, which must lie within.
    pub(crate) fn cut(&self, from: u64, to: u64, mut each: impl FnMut(u64, u64, Section)) {
        let first = if self.stretches.len() > 8 {
            self.stretches.partition_point(|&(end, _)| end <= from)
        } else {
            0
        };
        let mut at = from;
        for &(end, section) in self.stretches.get(first..).unwrap_or_default() {
            if at >= to {
                break;
            }
            if end <= at {
                continue;
            }
            let until = end.min(to);
            each(at, until, section);
            at = until;
        }
    }
}

/// The section of a moment, from the numbers of bios in the block layer, requests at the device
/// and requests completing, and whether a later bio follows.
fn state([bios, device, completing]: [i32; 3], bio_follows: bool) -> Section {
    if device > 0 {
        Section::Hardware
    } else if completing > 0 {
        Section::Completion
    } else if bios > 0 {
        Section::Submission
    } else if bio_follows {
        Section::VfsFs
    } else {
        Section::Return
    }
}
