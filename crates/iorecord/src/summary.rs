//! Sums up I/Os as they come, by device and way.

use iosections::{Dev, IoResult, MarkCounts, Section, Sink};

use crate::stats::{Stats, Values};

/// Ways told apart while I/Os come in, in the order of their first I/O; the rest is one group.
const WAYS: usize = 64;

/// Takes all measured I/Os.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    /// Whether to keep them one by one; else only sums.
    keep: bool,
    pub(crate) ios: Vec<IoResult>,
    /// By place of the device.
    pub(crate) devices: Vec<Summary>,
}

impl Collector {
    pub(crate) fn new(keep: bool) -> Self {
        Self {
            keep,
            ..Self::default()
        }
    }
}

impl Sink for Collector {
    fn take(&mut self, io: &IoResult) {
        if self.keep {
            self.ios.push(io.clone());
            return;
        }
        let mut devices = io.devices;
        while devices != 0 {
            let device = devices.trailing_zeros() as usize;
            devices &= devices - 1;
            if self.devices.len() <= device {
                self.devices.resize_with(device + 1, Summary::default);
            }
            if let Some(summary) = self.devices.get_mut(device) {
                summary.add(io);
            }
        }
    }
}

/// I/Os of one device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    pub(crate) ways: Vec<Way>,
    /// Place of the last I/O's way.
    last: usize,
    pub(crate) ios: u64,
    pub(crate) clean: u64,
    pub(crate) detached: u64,
    /// Events that set the starts, and the ends.
    pub(crate) starts: MarkCounts,
    pub(crate) ends: MarkCounts,
    /// Own time on the way of the first request, by section.
    pub(crate) first: [Values; 5],
    overhead: [Values; 3],
    total: [Values; 3],
}

/// I/Os that took the same way.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// Its number, or all ones for the rest.
    pub(crate) path: u32,
    pub(crate) ios: u64,
    pub(crate) clean: u64,
    sections: [Triple; 5],
}

/// Elapsed time, own time of clean I/Os, own time of the others.
#[derive(Debug, Clone, Default)]
struct Triple {
    elapsed: Values,
    clean: Values,
    other: Values,
}

/// Summaries of elapsed time, own time, and own time of clean I/Os.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Three {
    pub(crate) elapsed: Stats,
    pub(crate) own: Stats,
    pub(crate) own_clean: Stats,
}

impl Summary {
    /// Sums up I/Os that were kept.
    pub(crate) fn of(ios: &[IoResult]) -> Self {
        let mut summary = Self::default();
        for io in ios {
            summary.add(io);
        }
        summary
    }

    fn add(&mut self, io: &IoResult) {
        self.ios += 1;
        self.clean += u64::from(io.clean);
        self.detached += u64::from(io.detached > 0);
        let [start, _, _, end] = io.marks;
        self.starts.add(start);
        self.ends.add(end);
        self.way(io.path).add(io);
        if let Some(first) = io.first {
            let [fs, submission, _, completion, _] = &mut self.first;
            fs.add(first.vfs_fs);
            submission.add(first.submission);
            if let Some(own) = first.completion {
                completion.add(own);
            }
        }
        let sum = |of: &[u64; 5]| of.iter().sum::<u64>();
        let overhead = |[fs, submission, _, completion, _]: [u64; 5]| fs + submission + completion;
        add_three(
            &mut self.overhead,
            io,
            overhead(io.elapsed),
            overhead(io.own),
        );
        add_three(&mut self.total, io, sum(&io.elapsed), sum(&io.own));
    }

    fn way(&mut self, path: u32) -> &mut Way {
        if self.ways.get(self.last).is_some_and(|way| way.path == path) {
            return &mut self.ways[self.last];
        }
        let known = self.ways.iter().position(|way| way.path == path);
        self.last = known.unwrap_or_else(|| {
            let rest = self.ways.len() >= WAYS;
            if self.ways.len() <= WAYS {
                self.ways.push(Way::new(if rest { u32::MAX } else { path }));
            }
            self.ways.len() - 1
        });
        &mut self.ways[self.last]
    }

    /// All ways together.
    pub(crate) fn section(&self, section: Section) -> Three {
        let mut all = Triple::default();
        for way in &self.ways {
            let part = &way.sections[section.index()];
            all.elapsed.extend(&part.elapsed);
            all.clean.extend(&part.clean);
            all.other.extend(&part.other);
        }
        all.stats()
    }

    pub(crate) fn overhead(&self) -> Three {
        three(&self.overhead)
    }

    pub(crate) fn total(&self) -> Three {
        three(&self.total)
    }
}

fn add_three([elapsed, clean, other]: &mut [Values; 3], io: &IoResult, all: u64, own: u64) {
    elapsed.add(all);
    if io.clean {
        clean.add(own);
    } else {
        other.add(own);
    }
}

fn three([elapsed, clean, other]: &[Values; 3]) -> Three {
    Triple {
        elapsed: elapsed.clone(),
        clean: clean.clone(),
        other: other.clone(),
    }
    .stats()
}

impl Triple {
    fn stats(self) -> Three {
        let mut own = self.other;
        own.extend(&self.clean);
        Three {
            elapsed: self.elapsed.stats(),
            own: own.stats(),
            own_clean: self.clean.stats(),
        }
    }
}

impl Way {
    fn new(path: u32) -> Self {
        Self {
            path,
            ios: 0,
            clean: 0,
            sections: Default::default(),
        }
    }

    fn add(&mut self, io: &IoResult) {
        self.ios += 1;
        self.clean += u64::from(io.clean);
        let times = io.elapsed.iter().zip(&io.own);
        for (part, (&elapsed, &own)) in self.sections.iter_mut().zip(times) {
            part.elapsed.add(elapsed);
            if io.clean {
                part.clean.add(own);
            } else {
                part.other.add(own);
            }
        }
    }

    /// The first of the ways that are shown as one.
    pub(crate) fn as_rest(&self) -> Self {
        Self {
            path: u32::MAX,
            ..self.clone()
        }
    }

    /// Adds all of another way.
    pub(crate) fn join(&mut self, other: &Self) {
        self.ios += other.ios;
        self.clean += other.clean;
        for (to, from) in self.sections.iter_mut().zip(&other.sections) {
            to.elapsed.extend(&from.elapsed);
            to.clean.extend(&from.clean);
            to.other.extend(&from.other);
        }
    }

    pub(crate) fn section(&self, section: Section) -> Three {
        self.sections[section.index()].clone().stats()
    }
}

/// A device as `major:minor`.
pub(crate) fn parse_device(text: &str) -> Option<Dev> {
    let (major, minor) = text.split_once(':')?;
    Some(Dev {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
    })
}
