//! Sums up I/Os as they come, by device and way.

use iosections::{Dev, IoResult, MarkCounts, Section, Sink};

use crate::filter::Filter;
use crate::request::Request;
use crate::rows::Rows;
use crate::stats::Stats;
use crate::values::{KEPT, Values};

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
    /// Those of the I/Os that pass the filter.
    pub(crate) chosen: Vec<Summary>,
    filter: Option<Filter>,
    /// The I/Os that were for this device, all of them and those that pass.
    asked: Option<(Dev, [Summary; 2])>,
}

impl Collector {
    /// Keeps I/Os, or only their sums; `asked` is the device that was asked for.
    pub(crate) fn new(request: &Request) -> Self {
        let device = request.device.as_deref().and_then(parse_device);
        Self {
            keep: request.keep_ios,
            filter: request.chosen(),
            asked: device.map(|dev| (dev, Default::default())),
            ..Self::default()
        }
    }

    /// The sums of the device at this place: all, and what passes the filter.
    pub(crate) fn summary(&mut self, place: usize) -> Option<[Summary; 2]> {
        let mut take = |all: bool| {
            let from = if all {
                &mut self.devices
            } else {
                &mut self.chosen
            };
            let mut summary = std::mem::take(from.get_mut(place)?);
            summary.settle();
            Some(summary)
        };
        let (all, chosen) = (take(true)?, take(false));
        Some([all, chosen.unwrap_or_default()])
    }

    /// The sums of the I/Os that were for the device that was asked for.
    pub(crate) fn asked(&mut self) -> Option<[Summary; 2]> {
        let (_, mut both) = self.asked.take()?;
        both.iter_mut().for_each(Summary::settle);
        Some(both)
    }
}

impl Sink for Collector {
    #[inline]
    fn take(&mut self, io: &IoResult) {
        if self.keep {
            self.ios.push(io.clone());
        } else {
            self.sum_up(io);
        }
    }

    fn wants_all(&self) -> bool {
        self.keep || self.filter.is_some()
    }
}

impl Collector {
    fn sum_up(&mut self, io: &IoResult) {
        add(&mut self.devices, io);
        let passes = match &self.filter {
            Some(filter) => filter.passes(io),
            None => false,
        };
        if passes {
            add(&mut self.chosen, io);
        }
        if let Some((dev, [all, chosen])) = &mut self.asked {
            if io.asked == *dev {
                all.add(io);
                if passes {
                    chosen.add(io);
                }
            }
        }
    }
}

/// Adds an I/O to the sums of each of its devices.
#[inline]
fn add(sums: &mut Vec<Summary>, io: &IoResult) {
    let mut devices = io.devices;
    while devices != 0 {
        let device = devices.trailing_zeros() as usize;
        devices &= devices - 1;
        match sums.get_mut(device) {
            Some(summary) => summary.add(io),
            None => add_first(sums, device, io),
        }
    }
}

#[cold]
fn add_first(sums: &mut Vec<Summary>, device: usize, io: &IoResult) {
    sums.resize_with(device, Summary::default);
    let mut summary = Summary::default();
    summary.add(io);
    sums.push(summary);
}

/// I/Os of one device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary {
    pub(crate) ways: Vec<Way>,
    /// Place of the last I/O's way.
    last: usize,
    pub(crate) detached: u64,
    /// Events that set the starts, and the ends.
    pub(crate) starts: MarkCounts,
    pub(crate) ends: MarkCounts,
    /// Those of the hand-overs and the interrupts, of first own requests.
    pub(crate) handed: MarkCounts,
    pub(crate) interrupts: MarkCounts,
    all: All,
}

/// What is summed up of all ways together.
#[derive(Debug, Clone, Default)]
struct All {
    ios: u64,
    /// Own time on the way of the first request, by section.
    first: [Values; 5],
    overhead: Triple,
    total: Triple,
}

/// I/Os that took the same way.
#[derive(Debug, Clone)]
pub(crate) struct Way {
    /// Its number, or all ones for the rest.
    pub(crate) path: u32,
    pub(crate) ios: u64,
    pub(crate) clean: u64,
    sections: [Triple; 5],
    /// I/Os that wait to be summed up: those that are not clean, and those that are.
    waiting: [Rows; 2],
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
        summary.settle();
        summary
    }

    #[inline]
    fn add(&mut self, io: &IoResult) {
        self.detached += u64::from(io.detached > 0);
        let [start, handed, interrupt, end] = io.marks;
        self.starts.add(start);
        self.handed.add(handed);
        self.interrupts.add(interrupt);
        self.ends.add(end);
        let place = self.way(io.path);
        if let Some(way) = self.ways.get_mut(place) {
            way.add(io, &mut self.all);
        }
    }

    /// Sums up what waits for more I/Os.
    fn settle(&mut self) {
        for way in &mut self.ways {
            way.sum_up(false, &mut self.all);
            way.sum_up(true, &mut self.all);
        }
    }

    /// The place of a way.
    #[inline]
    fn way(&mut self, path: u32) -> usize {
        let is_last = |way: &Way| way.path == path;
        if !self.ways.get(self.last).is_some_and(is_last) {
            self.last = self.find(path);
        }
        self.last
    }

    #[inline(never)]
    fn find(&mut self, path: u32) -> usize {
        let known = self.ways.iter().position(|way| way.path == path);
        known.unwrap_or_else(|| {
            let rest = self.ways.len() >= WAYS;
            if self.ways.len() <= WAYS {
                self.ways.push(Way::new(if rest { u32::MAX } else { path }));
            }
            self.ways.len() - 1
        })
    }

    pub(crate) fn ios(&self) -> u64 {
        self.ways.iter().map(|way| way.ios).sum()
    }

    pub(crate) fn clean(&self) -> u64 {
        self.ways.iter().map(|way| way.clean).sum()
    }

    /// Own time on the way of the first request.
    pub(crate) fn first(&self, section: Section) -> Stats {
        self.all.first[section.index()].clone().stats()
    }

    /// All ways together.
    pub(crate) fn section(&self, section: Section) -> Three {
        let mut all = Triple::default();
        for way in &self.ways {
            all.extend(&way.sections[section.index()]);
        }
        all.stats()
    }

    pub(crate) fn overhead(&self) -> Three {
        self.all.overhead.clone().stats()
    }

    pub(crate) fn total(&self) -> Three {
        self.all.total.clone().stats()
    }
}

impl Triple {
    /// Values are counted in bins from now on.
    fn coarsen(&mut self) {
        for values in [&mut self.elapsed, &mut self.clean, &mut self.other] {
            values.coarsen();
        }
    }

    /// Adds elapsed times and own times of I/Os that are all clean, or all not.
    fn add(&mut self, clean: bool, [elapsed, own]: [&[u64]; 2]) {
        self.elapsed.add(elapsed);
        let to = if clean {
            &mut self.clean
        } else {
            &mut self.other
        };
        to.add(own);
    }

    fn extend(&mut self, other: &Self) {
        self.elapsed.extend(&other.elapsed);
        self.clean.extend(&other.clean);
        self.other.extend(&other.other);
    }

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
            waiting: Default::default(),
        }
    }

    #[inline]
    fn add(&mut self, io: &IoResult, all: &mut All) {
        let [other, clean] = &mut self.waiting;
        let rows = if io.clean { clean } else { other };
        if rows.push(io) {
            self.sum_up(io.clean, all);
        }
    }

    /// Sums up the clean I/Os, or the others, that wait for it.
    #[inline(never)]
    fn sum_up(&mut self, clean: bool, all: &mut All) {
        let rows = &mut self.waiting[usize::from(clean)];
        self.ios += rows.len() as u64;
        self.clean += if clean { rows.len() as u64 } else { 0 };
        for (section, values) in self.sections.iter_mut().zip(rows.sections()) {
            section.add(clean, values);
        }
        for (first, values) in all.first.iter_mut().zip(rows.first()) {
            first.add(values);
        }
        rows.overhead(|sums| all.overhead.add(clean, sums));
        rows.total(|sums| all.total.add(clean, sums));
        all.ios += rows.len() as u64;
        rows.clear();
        if all.ios > KEPT {
            self.sections.iter_mut().for_each(Triple::coarsen);
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
            to.extend(from);
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
