//! Takes the events of all windows past their measurements, in one walk.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use iosections::{Class, Counts, Engine, Kind, Lost, Now, Options, Outcome, Tracing, Turns};
use tracedat::{LostRange, Record, Run, Trace};

use crate::bind::{Binding, Take};
use crate::blktrace::{BlktraceEvents, Item};
use crate::error::Error;
use crate::facts::Facts;
use crate::names::{LEARNED, Names};
use crate::options::{options_of, samples};
use crate::request::Request;
use crate::summary::Collector;
use crate::tracing;
use crate::turns;
use crate::window::Window;

/// What was measured in a window.
pub(crate) struct Measured {
    pub(crate) facts: Facts,
    pub(crate) outcome: Outcome,
    pub(crate) names: Names,
    pub(crate) collector: Collector,
}

/// A window that is being measured.
struct Part {
    /// Its number.
    place: usize,
    window: Window,
    engine: Engine<Names, Collector>,
    facts: Facts,
}

impl Part {
    fn new(
        (place, window): (usize, Window),
        options: Options,
        names: Names,
        request: &Request,
    ) -> Self {
        Self {
            place,
            window,
            engine: Engine::new(options, names, Collector::new(request)),
            facts: Facts::default(),
        }
    }

    fn with_turns(mut self, turns: Option<&Arc<Turns>>) -> Self {
        if let Some(turns) = turns {
            self.engine.set_turns(Arc::clone(turns));
        }
        self
    }

    fn with_tracing(mut self, tracing: Option<&Arc<Tracing>>) -> Self {
        if let Some(tracing) = tracing {
            self.engine.set_tracing(Arc::clone(tracing));
        }
        self
    }

    fn with_counts(mut self, counts: Option<&Arc<Counts>>) -> Self {
        if let Some(counts) = counts {
            self.engine.set_counts(Arc::clone(counts));
        }
        self
    }

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

/// The parts, one after the other, while the events of all of them pass by once.
struct Walk<I, F> {
    parts: I,
    /// The current one; `None` behind the last.
    part: Option<Part>,
    /// Those that end behind the part in which they begin: they touch later ones, too.
    gaps: Vec<LostRange>,
    each: F,
}

impl<E, I: Iterator<Item = Part>, F: FnMut(Measured) -> Result<(), E>> Walk<I, F> {
    fn new(mut parts: I, each: F) -> Self {
        Self {
            part: parts.next(),
            parts,
            gaps: Vec::new(),
            each,
        }
    }

    fn gap(&mut self, gap: LostRange) {
        if let Some(part) = &mut self.part {
            part.gap(&gap);
            if part.window.is_over(gap.to) {
                self.gaps.push(gap);
            }
        }
    }

    /// The first part that is not over at this time, be it still to begin; `None` behind the last.
    #[inline]
    fn at(&mut self, time: u64) -> Result<Option<&mut Part>, E> {
        while self.part.as_ref().is_some_and(|p| p.window.is_over(time)) {
            self.next()?;
        }
        Ok(self.part.as_mut())
    }

    #[cold]
    fn next(&mut self) -> Result<(), E> {
        if let Some(part) = self.part.take() {
            (self.each)(part.finish())?;
        }
        self.part = self.parts.next();
        if let Some(part) = &mut self.part {
            for gap in &self.gaps {
                part.gap(gap);
            }
            self.gaps.retain(|gap| part.window.is_over(gap.to));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), E> {
        while self.part.is_some() {
            self.next()?;
        }
        Ok(())
    }
}

/// Looks at the measurement of a window, by its place, while it goes on.
pub(crate) trait Watch<E> {
    /// Some events later.
    fn look(&mut self, window: usize, engine: &mut Engine<Names, Collector>) -> Result<(), E>;
}

/// Nobody looks.
pub(crate) struct Unwatched;

impl<E> Watch<E> for Unwatched {
    #[inline]
    fn look(&mut self, _: usize, _: &mut Engine<Names, Collector>) -> Result<(), E> {
        Ok(())
    }
}

/// Measures windows of a trace.
pub(crate) fn trace<E: From<Error>>(
    trace: &Trace,
    request: &Request,
    windows: &[Window],
    mut each: impl FnMut(Measured) -> Result<(), E>,
    mut watch: impl Watch<E>,
) -> Result<(), E> {
    let names = || Names::new(trace.comms(), request.comm.as_deref());
    let Some(binding) = Binding::new(trace) else {
        return windows.iter().try_for_each(|_| {
            each(Measured {
                facts: Facts::default(),
                outcome: Outcome::default(),
                names: names(),
                collector: Collector::new(request),
            })
        });
    };
    let samples = samples(trace, &binding, windows)?;
    let turns = request.turns.as_deref();
    let turns = turns.map(|path| turns::read(path, trace)).transpose()?;
    let tracing = request.tracing.as_deref();
    let tracing = tracing.map(|path| tracing::read(path, trace)).transpose()?;
    let counts = request.counts.clone().map(|c| Arc::new(Counts::new(c)));
    let part = |((place, &window), sample): ((usize, &Window), &Facts)| {
        let options = options_of(trace, request, |id| sample.has(id));
        Part::new((place, window), options, names(), request)
            .with_turns(turns.as_ref())
            .with_tracing(tracing.as_ref())
            .with_counts(counts.as_ref())
    };
    let mut walk = Walk::new(windows.iter().enumerate().zip(&samples).map(part), each);
    let mut events = trace.events().map_err(Error::from)?;
    while let Some(run) = events.next_run().map_err(Error::from)? {
        let mut records = match run {
            Run::Events(records) => records,
            Run::Lost(gap) => {
                walk.gap(gap);
                continue;
            }
        };
        while let Some(start) = records.start() {
            let Some(part) = walk.at(start)? else {
                return Ok(());
            };
            let (inside, rest) = part.window.split(records);
            let cpu = part.engine.place(inside.cpu());
            for record in inside {
                take(&mut part.engine, &mut part.facts, &binding, &record, cpu);
            }
            watch.look(part.place, &mut part.engine)?;
            records = rest;
        }
    }
    walk.finish()
}

/// Measures windows of a blktrace run.
pub(crate) fn blktrace<E: From<Error>>(
    files: &[PathBuf],
    request: &Request,
    windows: &[Window],
    each: impl FnMut(Measured) -> Result<(), E>,
    mut watch: impl Watch<E>,
) -> Result<(), E> {
    let Some(file) = files.first() else {
        return Ok(());
    };
    // A name comes before its task's first event, be it in an earlier window.
    let saved = RefCell::new(HashMap::new());
    let options = Options {
        bios_are_ios: true,
        count_events: false,
        ..Options::default()
    };
    let part = |(place, &window): (usize, &Window)| {
        let names = Names::new(&saved.borrow(), request.comm.as_deref());
        Part::new((place, window), options, names, request)
    };
    let mut walk = Walk::new(windows.iter().enumerate().map(part), each);
    for item in BlktraceEvents::open(file)? {
        match item? {
            Item::Lost(gap) => walk.gap(gap),
            Item::Task(pid, name) => {
                if let Some(part) = &mut walk.part {
                    part.engine.names().learn(pid, name.as_bytes());
                }
                let mut saved = saved.borrow_mut();
                if saved.len() < LEARNED || saved.contains_key(&pid) {
                    saved.insert(pid, name);
                }
            }
            Item::Event(event) => {
                let Some(part) = walk.at(event.ts)? else {
                    break;
                };
                if part.window.has_begun(event.ts) {
                    part.facts.count(event.name);
                    part.engine.push(&event);
                    watch.look(part.place, &mut part.engine)?;
                }
            }
        }
    }
    walk.finish()
}

/// What an event tells, on its way to the measurement.
struct Next<'m> {
    engine: &'m mut Engine<Names, Collector>,
    now: Now,
    /// The place of its CPU.
    cpu: usize,
}

impl Take<()> for Next<'_> {
    #[inline(always)]
    #[allow(clippy::inline_always)] // as `Plan::tell`
    fn take(self, kind: Kind) {
        self.engine.apply(self.now, self.cpu, kind);
    }
}

/// Measures the next event, at the place of its CPU.
#[inline(always)]
#[allow(clippy::inline_always)] // as `Plan::tell`
fn take(
    engine: &mut Engine<Names, Collector>,
    facts: &mut Facts,
    binding: &Binding,
    record: &Record<'_>,
    cpu: usize,
) {
    let (name, pid) = binding.header.read(record.data);
    facts.count(name);
    let now = Now::new(record.ts, record.cpu, pid);
    match binding.plan(name) {
        None => engine.pass(now, cpu, name, Class::Other),
        Some(plan) if plan.reach <= record.data.len() => {
            engine.pass(now, cpu, name, plan.class);
            plan.tell(record.data, Next { engine, now, cpu });
        }
        Some(_) => take_whole(engine, binding, *record),
    }
}

/// Measures an event that may lack its fields, or that names a task.
#[inline(never)]
fn take_whole(engine: &mut Engine<Names, Collector>, binding: &Binding, record: Record<'_>) {
    let event = binding.event(&record);
    if let Kind::Switch { next, .. } = event.kind {
        // The name of a task that the trace's own list lacks.
        if engine.names().lacks(next) {
            if let Some(comm) = binding.next_comm(event.name, record.data) {
                engine.names().learn(next, comm);
            }
        }
    }
    engine.push(&event);
}
