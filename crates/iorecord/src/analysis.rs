//! Runs the measurement over a trace.

use std::path::Path;
use std::sync::Arc;

use iosections::{Dev, Engine, Event, IoResult, Kind, Lost, Outcome};
use tracedat::{Events, LostRange, Record, Run, Trace};

use crate::bind::{Binding, Take};
use crate::error::Error;
use crate::filter::Filter;
use crate::names::Names;
use crate::options::{options_of, samples};
use crate::summary::{Collector, Summary, parse_device};

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
    fn split(self, events: Events<'_>) -> (Events<'_>, Events<'_>) {
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

    fn touches(self, gap: &LostRange) -> bool {
        self.0
            .is_none_or(|(from, to)| gap.from.unwrap_or(0) < to && gap.to > from)
    }
}

/// A trace and what was measured in it.
#[derive(Debug)]
pub struct Analysis {
    pub(crate) trace: Arc<Trace>,
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
    /// Reads a file and measures its I/Os.
    ///
    /// # Errors
    /// When the trace cannot be read or the device is no `major:minor`.
    pub fn run(path: impl AsRef<Path>, request: &Request) -> Result<Self, Error> {
        Self::of(Trace::open(path)?, request)
    }

    /// Measures the I/Os of a trace.
    ///
    /// # Errors
    /// As [`Analysis::run`].
    pub fn of(trace: impl Into<Arc<Trace>>, request: &Request) -> Result<Self, Error> {
        let (trace, mut found) = (trace.into(), None);
        Self::measure(&trace, request, &[Window(None)], |analysis| {
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
        trace: impl Into<Arc<Trace>>,
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
        Self::measure(&trace.into(), request, &windows, each)
    }

    fn measure<E: From<Error>>(
        trace: &Arc<Trace>,
        request: &Request,
        windows: &[Window],
        mut each: impl FnMut(Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let wanted = request.device.as_deref().map(device).transpose()?;
        let names = || Names::new(trace.comms(), request.comm.as_deref());
        let collector = || Collector::new(request.keeps_ios());
        let assemble = |measured| Self::assemble(trace.clone(), measured, wanted, request);
        let Some(binding) = Binding::new(trace) else {
            return windows.iter().try_for_each(|_| {
                each(assemble(Measured {
                    facts: Facts::default(),
                    outcome: Outcome::default(),
                    names: names(),
                    collector: collector(),
                }))
            });
        };
        let samples = samples(trace, &binding, windows)?;
        let part = |(&window, sample): (&Window, &Facts)| Part {
            window,
            engine: Engine::new(
                options_of(trace, request, |id| sample.has(id)),
                names(),
                collector(),
            ),
            facts: Facts::default(),
        };
        let parts = windows.iter().zip(&samples).map(part);
        measure(trace, &binding, parts, |measured| each(assemble(measured)))
    }

    pub(crate) fn assemble(
        trace: Arc<Trace>,
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
        let lost = trace.unplaced_losses();
        facts.lost_events = facts.lost_events.saturating_add(lost);
        let device = wanted
            .map(|dev| outcome.disk(dev))
            .or_else(|| outcome.busiest());
        let place = outcome.devices.iter().position(|d| Some(d.dev) == device);
        let mut ios = std::mem::take(&mut collector.ios);
        ios.retain(|io| place.is_some_and(|place| io.devices >> place.min(63) & 1 == 1));
        ios.sort_by_key(|io| (io.start, io.pid));
        let mut summary = match place.and_then(|place| collector.devices.get_mut(place.min(63))) {
            Some(summary) => std::mem::take(summary),
            None => Summary::of(&ios),
        };
        let whole = Whole {
            ios: summary.ios,
            clean: summary.clean,
            detached: summary.detached,
            is_filtered: !request.filter.is_default(),
        };
        if whole.is_filtered {
            ios.retain(|io| request.filter.passes(io));
            summary = Summary::of(&ios);
        }
        Self {
            trace,
            facts,
            outcome,
            device,
            ios,
            summary,
            whole,
            names,
        }
    }

    /// A task's name, as far as the trace tells.
    pub fn comm(&self, pid: i32) -> Option<&str> {
        self.names.comm(pid)
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }
}

pub(crate) struct Measured {
    pub(crate) facts: Facts,
    pub(crate) outcome: Outcome,
    pub(crate) names: Names,
    pub(crate) collector: Collector,
}

/// A window that is being measured.
struct Part {
    window: Window,
    engine: Engine<Names, Collector>,
    facts: Facts,
}

impl Part {
    fn gap(&mut self, gap: &LostRange) {
        if self.window.touches(gap) {
            self.facts.lose(gap);
            let from = gap.from.unwrap_or(0);
            self.engine.gap(gap.cpu, Lost { from, to: gap.to });
        }
    }

    fn finish(self) -> Measured {
        let (outcome, collector, names) = self.engine.finish();
        Measured {
            facts: self.facts,
            outcome,
            names,
            collector,
        }
    }
}

/// Measures one part after the other while the events of all of them pass by once.
fn measure<E: From<Error>>(
    trace: &Trace,
    binding: &Binding,
    mut parts: impl Iterator<Item = Part>,
    mut each: impl FnMut(Measured) -> Result<(), E>,
) -> Result<(), E> {
    let Some(mut part) = parts.next() else {
        return Ok(());
    };
    // Those that end behind the part in which they begin: they touch later ones, too.
    let mut gaps: Vec<LostRange> = Vec::new();
    let mut events = trace.events().map_err(Error::from)?;
    while let Some(run) = events.next_run().map_err(Error::from)? {
        let mut records = match run {
            Run::Events(records) => records,
            Run::Lost(gap) => {
                part.gap(&gap);
                if part.window.is_over(gap.to) {
                    gaps.push(gap);
                }
                continue;
            }
        };
        while let Some(start) = records.start() {
            while part.window.is_over(start) {
                let Some(next) = parts.next() else {
                    return each(part.finish());
                };
                each(std::mem::replace(&mut part, next).finish())?;
                for gap in &gaps {
                    part.gap(gap);
                }
                gaps.retain(|gap| part.window.is_over(gap.to));
            }
            let (inside, rest) = part.window.split(records);
            for record in inside {
                take(&mut part.engine, &mut part.facts, binding, &record);
            }
            records = rest;
        }
    }
    each(part.finish())?;
    for mut part in parts {
        for gap in &gaps {
            part.gap(gap);
        }
        each(part.finish())?;
    }
    Ok(())
}

/// An event on its way to the measurement.
struct Next<'m> {
    engine: &'m mut Engine<Names, Collector>,
    binding: &'m Binding,
    record: &'m Record<'m>,
    name: u16,
    pid: i32,
}

impl Take<()> for Next<'_> {
    #[inline(always)]
    fn take(self, kind: Kind) {
        if let Kind::Switch { next, .. } = kind {
            learn(self.engine, self.binding, self.name, next, self.record.data);
        }
        self.engine.push(&Event {
            ts: self.record.ts,
            cpu: self.record.cpu,
            pid: self.pid,
            name: self.name,
            kind,
        });
    }
}

/// Measures the next event.
#[inline(always)]
fn take(
    engine: &mut Engine<Names, Collector>,
    facts: &mut Facts,
    binding: &Binding,
    record: &Record<'_>,
) {
    let (name, pid) = binding.header.read(record.data);
    facts.count(name);
    let next = Next {
        engine,
        binding,
        record,
        name,
        pid,
    };
    if binding.visit(name, record.data, next).is_none() {
        engine.pass(record.ts, record.cpu, pid, name);
    }
}

/// The name of a task that the trace's own list lacks.
#[inline]
fn learn(
    engine: &mut Engine<Names, Collector>,
    binding: &Binding,
    name: u16,
    next: i32,
    data: &[u8],
) {
    if engine.names().lacks(next) {
        if let Some(comm) = binding.next_comm(name, data) {
            engine.names().learn(next, comm);
        }
    }
}

pub(crate) fn device(text: &str) -> Result<Dev, Error> {
    parse_device(text).ok_or(Error::Option {
        name: "device",
        value: text.to_owned(),
        known: "major:minor, for example 8:0",
    })
}
