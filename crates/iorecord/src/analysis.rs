//! Runs the measurement over a trace.

use std::path::Path;

use iosections::{Dev, DeviceOutcome, IoResult, Outcome};

use crate::error::Error;
use crate::facts::Facts;
use crate::names::Names;
use crate::request::Request;
use crate::source::Source;
use crate::summary::{Summary, parse_device};
use crate::walk::{self, Measured, Unwatched};
use crate::window::Window;

/// A trace and what was measured in it.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) source: Source,
    pub(crate) facts: Facts,
    /// All counts.
    pub outcome: Outcome,
    /// The device that was asked for, or that has most bios.
    pub device: Option<Dev>,
    /// The one that was asked for, if that is a partition or a device on others: the I/Os are those
    /// whose first bio was for it.
    pub asked: Option<Dev>,
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
            Source::Trace(trace) => walk::trace(trace, request, windows, each, Unwatched),
            Source::Blktrace(files) => walk::blktrace(files, request, windows, each, Unwatched),
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
        let asked = wanted.filter(|&dev| is_above(&outcome, dev));
        let mut ios = std::mem::take(&mut collector.ios);
        ios.retain(|io| match asked {
            Some(dev) => io.asked == dev,
            None => place.is_some_and(|place| io.devices >> place.min(63) & 1 == 1),
        });
        ios.sort_by_key(|io| (io.start, io.pid));
        let sums = match asked {
            Some(_) => collector.asked(),
            None => place.and_then(|place| collector.summary(place.min(63))),
        };
        let kept = sums.is_none() || request.keep_ios;
        let [mut summary, chosen] = match sums.filter(|_| !kept) {
            Some(sums) => sums,
            None => [Summary::of(&ios), Summary::default()],
        };
        let whole = Whole {
            ios: summary.ios(),
            clean: summary.clean(),
            detached: summary.detached,
            is_filtered: !request.filter.is_default(),
        };
        if whole.is_filtered {
            ios.retain(|io| request.filter.passes(io));
            summary = if kept { Summary::of(&ios) } else { chosen };
        }
        Self {
            source,
            facts,
            outcome,
            device,
            asked,
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

    /// Whether own times are known: the source tells of switches between tasks, and this part of it
    /// has some.
    pub fn knows_own(&self) -> bool {
        self.source.sees_all() && self.outcome.switches
    }

    /// A task's name, as far as the trace tells.
    pub fn comm(&self, pid: i32) -> Option<&str> {
        self.names.comm(pid)
    }
}

/// Whether a device's bios went on to another one: it is a partition, or on others.
fn is_above(outcome: &Outcome, dev: Dev) -> bool {
    let is_part = outcome.disk(dev) != dev;
    let has_requests = |d: &DeviceOutcome| d.measured > 0 || d.requests.seen > 0;
    is_part || !outcome.device(dev).is_some_and(has_requests)
}

/// A device of the form `major:minor`.
///
/// # Errors
/// For any other text.
pub fn device(text: &str) -> Result<Dev, Error> {
    parse_device(text).ok_or(Error::Option {
        name: "device",
        value: text.to_owned(),
        known: "major:minor, for example 8:0",
    })
}
