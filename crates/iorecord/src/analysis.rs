//! Runs the measurement over a trace.

use std::path::Path;
use std::sync::Arc;

use iosections::{Dev, Engine, Event, IoResult, Kind, Lost, Options, Outcome};
use tracedat::{Entry, LostRange, Record, Run, Trace};

use crate::bind::{Binding, Take};
use crate::error::Error;
use crate::names::Names;
use crate::summary::{Collector, Filter, Summary, parse_device};

/// Events looked at beforehand, to know which kinds the trace has.
const SAMPLE: usize = 1 << 14;

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
    /// Only I/Os of this task.
    pub pid: Option<i32>,
    /// Device as `major:minor`; the one with most bios if not given. A partition stands for its
    /// disk.
    pub device: Option<String>,
    /// Hand-over to the device.
    pub device_mark: DeviceMark,
    /// Only events from the first time stamp to before the second: one cell of a batch.
    pub window: Option<(u64, u64)>,
    /// Only these of the measured I/Os.
    pub filter: Filter,
    /// Keep the measured I/Os one by one, not only their sums.
    pub keep_ios: bool,
    /// Count the recorded events in each section's own time.
    pub count_events: bool,
}

impl Request {
    /// Whether an event at this time is looked at.
    fn covers(&self, time: u64) -> bool {
        self.window
            .is_none_or(|(from, to)| (from..to).contains(&time))
    }

    fn touches(&self, gap: &LostRange) -> bool {
        self.window
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
    /// Its measured I/Os in the order of their starts, if they were to be kept.
    pub ios: Vec<IoResult>,
    pub(crate) summary: Summary,
    /// I/Os that the filter has left out.
    pub(crate) filtered: u64,
    pub(crate) names: Names,
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
        let trace = trace.into();
        let wanted = request.device.as_deref().map(device).transpose()?;
        let names = Names::new(trace.comms(), request.comm.as_deref(), request.pid);
        let collector = Collector::new(request.filter.clone(), request.keep_ios);
        let measured = match Binding::new(&trace) {
            Some(binding) => measure(&trace, &binding, request, names, collector)?,
            None => Measured {
                facts: Facts::default(),
                outcome: Outcome::default(),
                names,
                collector,
            },
        };
        Ok(Self::assemble(trace, measured, wanted))
    }

    pub(crate) fn assemble(trace: Arc<Trace>, measured: Measured, wanted: Option<Dev>) -> Self {
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
        let summary = match place.and_then(|place| collector.devices.get_mut(place.min(63))) {
            Some(summary) => std::mem::take(summary),
            None => Summary::of(ios.iter()),
        };
        Self {
            trace,
            facts,
            outcome,
            device,
            ios,
            summary,
            filtered: collector.filtered,
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

fn measure(
    trace: &Trace,
    binding: &Binding,
    request: &Request,
    names: Names,
    collector: Collector,
) -> Result<Measured, Error> {
    let options = options(trace, binding, request)?;
    let mut engine = Engine::new(options, names, collector);
    let mut facts = Facts::default();
    let mut events = trace.events()?;
    while let Some(run) = events.next_run()? {
        let records = match run {
            Run::Events(records) => records,
            Run::Lost(gap) => {
                if request.touches(&gap) {
                    facts.lose(&gap);
                    let from = gap.from.unwrap_or(0);
                    engine.gap(gap.cpu, Lost { from, to: gap.to });
                }
                continue;
            }
        };
        let records = match request.window {
            Some((_, to)) if records.start() >= Some(to) => break,
            Some((from, to)) => records.within(from, to),
            None => records,
        };
        for record in records {
            take(&mut engine, &mut facts, binding, &record);
        }
    }
    let (outcome, collector, names) = engine.finish();
    Ok(Measured {
        facts,
        outcome,
        names,
        collector,
    })
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
    #[allow(clippy::inline_always)] // as `Binding::visit`
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
#[allow(clippy::inline_always)] // as `Binding::visit`
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

/// Options by what the beginning of the trace holds. The engine also goes by what comes later.
fn options(trace: &Trace, binding: &Binding, request: &Request) -> Result<Options, Error> {
    let mut seen = Facts::default();
    let mut events = trace.events()?;
    let mut left = SAMPLE;
    while let Some(entry) = events.next()? {
        let Entry::Event(record) = entry else {
            continue;
        };
        if request.covers(record.ts) {
            seen.count(binding.header.read(record.data).0);
            left -= 1;
        }
        if left == 0 || request.window.is_some_and(|(_, to)| record.ts >= to) {
            break;
        }
    }
    Ok(options_of(trace, request, |id| {
        seen.counts.get(usize::from(id)).is_some_and(|&n| n > 0)
    }))
}

/// Options by which events occur.
pub(crate) fn options_of(
    trace: &Trace,
    request: &Request,
    occurs: impl Fn(u16) -> bool,
) -> Options {
    let has = |system: &str, wanted: &dyn Fn(&str) -> bool| {
        let mut formats = trace.formats().iter();
        formats.any(|f| f.system == system && wanted(&f.name) && occurs(f.id))
    };
    let auto = request.device_mark == DeviceMark::Auto;
    Options {
        use_queue_return: auto && has("iotoll", &crate::bind::is_queue_return),
        ignore_queue_return: !auto,
        has_nvme_complete: has("nvme", &|name| name == "nvme_complete_rq"),
        has_uring_complete: has("io_uring", &|name| name == "io_uring_complete"),
        bios_are_ios: false,
        count_events: request.count_events,
    }
}

pub(crate) fn device(text: &str) -> Result<Dev, Error> {
    parse_device(text).ok_or(Error::Option {
        name: "device",
        value: text.to_owned(),
        known: "major:minor, for example 8:0",
    })
}
