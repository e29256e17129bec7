//! Runs the measurement over a trace.

use std::path::Path;

use iosections::{Dev, IoResult, Outcome};
use tracedat::{Events, LostRange};

use crate::error::Error;
use crate::filter::Filter;
use crate::names::Names;
use crate::source::Source;
use crate::summary::{Collector, Summary, parse_device};
use crate::walk;

/// What to take as the hand-over to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceMark {
    /// The return of the driver's queue function where the trace has it, else the last event
    /// before it.
    #[default]
    Auto,
    /// The last event before the hand-over, always.
    LastBefore,
}

/// What to analyse in a trace.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Only I/Os of tasks with this name, and of the threads that `io_uring` has for them.
    pub comm: Option<String>,
    /// Device as `major:minor`; the one with most bios if not given. A partition stands for its
    /// disk.
    pub device: Option<String>,
    /// Hand-over to the device.
    pub device_mark: DeviceMark,
    /// Only these of the measured I/Os; the counts stay those of all of them.
    pub filter: Filter,
    /// Keep the measured I/Os one by one, not only their sums.
    pub keep_ios: bool,
    /// Count the recorded events in each section's own time.
    pub count_events: bool,
}

impl Request {
    /// Whether the I/Os are needed one by one.
    pub(crate) fn keeps_ios(&self) -> bool {
        self.keep_ios || !self.filter.is_default()
    }
}

/// The stretch of time that is looked at: from the one stamp to before the other, or all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window(Option<(u64, u64)>);

impl Window {
    /// Those of some events that are in it, and those behind it.
    pub(crate) fn split(self, events: Events<'_>) -> (Events<'_>, Events<'_>) {
        let all = events.clone();
        match self.0 {
            Some((from, to)) => (all.within(from, to), events.within(to, u64::MAX)),
            None => (all, events.within(0, 0)),
        }
    }

    pub(crate) fn has_begun(self, time: u64) -> bool {
        self.0.is_none_or(|(from, _)| from <= time)
    }

    pub(crate) fn is_over(self, time: u64) -> bool {
        self.0.is_some_and(|(_, to)| to <= time)
    }

    pub(crate) fn touches(self, gap: &LostRange) -> bool {
        self.0
            .is_none_or(|(from, to)| gap.from.unwrap_or(0) < to && gap.to > from)
    }
}

/// A trace and what was measured in it.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) source: Source,
    pub(crate) facts: Facts,
    /// All counts.
    pub outcome: Outcome,
    /// The device that was asked for, or that has most bios.
    pub device: Option<Dev>,
    /// Its measured I/Os that passed the filter, in the order of their starts, if they were to be
    /// kept.
    pub ios: Vec<IoResult>,
    /// Of what passed the filter.
    pub(crate) summary: Summary,
    pub(crate) whole: Whole,
    pub(crate) names: Names,
}

/// The device's I/Os before the filter.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) ios: u64,
    pub(crate) clean: u64,
    pub(crate) detached: u64,
    pub(crate) is_filtered: bool,
}

/// What a trace has.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Events by number.
    pub(crate) counts: Vec<u64>,
    pub(crate) lost_events: u64,
    pub(crate) lost_ranges: u64,
}

impl Facts {
    #[inline]
    pub(crate) fn count(&mut self, id: u16) {
        match self.counts.get_mut(usize::from(id)) {
            Some(count) => *count += 1,
            None => self.count_first(id),
        }
    }

    #[cold]
    fn count_first(&mut self, id: u16) {
        self.counts.resize(usize::from(id), 0);
        self.counts.push(1);
    }

    /// Whether there is an event of this number.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.counts.get(usize::from(id)).is_some_and(|&n| n > 0)
    }

    pub(crate) fn lose(&mut self, gap: &LostRange) {
        self.lost_ranges += 1;
        self.lost_events = self.lost_events.saturating_add(gap.count.unwrap_or(1));
    }
}

impl Analysis {
    /// Reads a file, or the files of a blktrace run, and measures its I/Os.
    ///
    /// # Errors
    /// When it cannot be read or the device is no `major:minor`.
    pub fn run(path: impl AsRef<Path>, request: &Request) -> Result<Self, Error> {
        Self::of(Source::open(path)?, request)
    }

    /// Measures the I/Os of a trace.
    ///
    /// # Errors
    /// As [`Analysis::run`].
    pub fn of(source: impl Into<Source>, request: &Request) -> Result<Self, Error> {
        let mut found = None;
        Self::measure(&source.into(), request, &[Window(None)], |analysis| {
            found = Some(analysis);
            Ok::<_, Error>(())
        })?;
        found.ok_or(Error::NoEvents)
    }

    /// Measures the I/Os of each of some windows, such as the cells of a batch, in one walk over
    /// the trace: only events from the first time stamp to before the second. `each` gets them in
    /// order.
    ///
    /// # Errors
    /// As [`Analysis::run`], when the windows overlap or fall in time, or what `each` returns.
    pub fn windows<E: From<Error>>(
        source: impl Into<Source>,
        request: &Request,
        windows: &[(u64, u64)],
        each: impl FnMut(Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let bounds: Vec<u64> = windows.iter().flat_map(|&(from, to)| [from, to]).collect();
        if !bounds.is_sorted() {
            let value = format!("{windows:?}");
            let (name, known) = ("windows", "stretches that follow each other in time");
            return Err(Error::Option { name, value, known }.into());
        }
        let windows: Vec<Window> = windows.iter().map(|&w| Window(Some(w))).collect();
        Self::measure(&source.into(), request, &windows, each)
    }

    fn measure<E: From<Error>>(
        source: &Source,
        request: &Request,
        windows: &[Window],
        mut each: impl FnMut(Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let wanted = request.device.as_deref().map(device).transpose()?;
        let each = |measured| each(Self::assemble(source.clone(), measured, wanted, request));
        match source {
            Source::Trace(trace) => walk::trace(trace, request, windows, each),
            Source::Blktrace(files) => walk::blktrace(files, request, windows, each),
        }
    }

    pub(crate) fn assemble(
        source: Source,
        measured: Measured,
        wanted: Option<Dev>,
        request: &Request,
    ) -> Self {
        let Measured {
            mut facts,
            outcome,
            names,
            mut collector,
        } = measured;
        let lost = source.unplaced_losses();
        facts.lost_events = facts.lost_events.saturating_add(lost);
        let device = wanted
            .map(|dev| outcome.disk(dev))
            .or_else(|| outcome.busiest());
        let place = outcome.devices.iter().position(|d| Some(d.dev) == device);
        let mut ios = std::mem::take(&mut collector.ios);
        ios.retain(|io| place.is_some_and(|place| io.devices >> place.min(63) & 1 == 1));
        ios.sort_by_key(|io| (io.start, io.pid));
        let sums = place.and_then(|place| collector.summary(place.min(63)));
        let mut summary = sums.unwrap_or_else(|| Summary::of(&ios));
        let whole = Whole {
            ios: summary.ios(),
            clean: summary.clean(),
            detached: summary.detached,
            is_filtered: !request.filter.is_default(),
        };
        if whole.is_filtered {
            ios.retain(|io| request.filter.passes(io));
            summary = Summary::of(&ios);
        }
        Self {
            source,
            facts,
            outcome,
            device,
            ios,
            summary,
            whole,
            names,
        }
    }

    /// What was measured.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// A task's name, as far as the trace tells.
    pub fn comm(&self, pid: i32) -> Option<&str> {
        self.names.comm(pid)
    }
}

pub(crate) struct Measured {
    pub(crate) facts: Facts,
    pub(crate) outcome: Outcome,
    pub(crate) names: Names,
    pub(crate) collector: Collector,
}

pub(crate) fn device(text: &str) -> Result<Dev, Error> {
    parse_device(text).ok_or(Error::Option {
        name: "device",
        value: text.to_owned(),
        known: "major:minor, for example 8:0",
    })
}
