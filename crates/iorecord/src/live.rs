//! Measures while the events come: the running kernel's ring buffers, one look after the other.
//!
//! What is kept: the events of two looks, and of the cell that is going on what its record needs.

use std::sync::Arc;

use iosections::{Dev, Engine, Kind, Lost};
use tracedat::{Entry, LostRange, Trace};

use crate::analysis::{Analysis, device};
use crate::bind::Binding;
use crate::error::Error;
use crate::facts::Facts;
use crate::markers::Texts;
use crate::names::Names;
use crate::options::options_of;
use crate::order::{Item, Order, What};
use crate::request::Request;
use crate::summary::Collector;
use crate::walk::Measured;

/// Which stretch of the events makes a record.
#[derive(Debug, Clone)]
pub enum Cells {
    /// All of them, under this name.
    Whole(String),
    /// From each marker that begins with this text to the next; the rest of it is the name.
    Marked(String),
}

/// What is being measured.
#[derive(Debug)]
struct Current {
    /// `None` before the first marker: what happens there only teaches names.
    name: Option<String>,
    engine: Engine<Names, Collector>,
    facts: Facts,
}

/// A measurement of the running kernel.
#[derive(Debug)]
pub struct Live {
    trace: Arc<Trace>,
    binding: Binding,
    texts: Option<Texts>,
    request: Request,
    device: Option<Dev>,
    cells: Cells,
    order: Order,
    /// Gaps of which some may reach into the next cell.
    gaps: Vec<LostRange>,
    current: Current,
}

impl Live {
    /// Prepares the measurement of what a live trace will give.
    ///
    /// # Errors
    /// When the device is no `major:minor`, or the trace records no event.
    pub fn new(trace: Trace, request: &Request, cells: Cells) -> Result<Self, Error> {
        let wanted = request.device.as_deref().map(device).transpose()?;
        let names = Names::new(trace.comms(), request.comm.as_deref());
        let name = match &cells {
            Cells::Whole(name) => Some(name.clone()),
            Cells::Marked(_) => None,
        };
        Ok(Self {
            binding: Binding::new(&trace).ok_or(Error::NoEvents)?,
            texts: Texts::new(&trace),
            current: begin(&trace, request, name, names),
            trace: Arc::new(trace),
            request: request.clone(),
            device: wanted,
            cells,
            order: Order::default(),
            gaps: Vec::new(),
        })
    }

    /// Takes all events that the ring buffers hold now. `ended` gets each cell whose end is among
    /// those of the look before.
    ///
    /// # Errors
    /// When the ring buffers cannot be read, or what `ended` returns.
    pub fn look<E: From<Error>>(
        &mut self,
        mut ended: impl FnMut(&str, &Analysis) -> Result<(), E>,
    ) -> Result<(), E> {
        self.collect()?;
        for item in self.order.settled() {
            self.take(item, &mut ended)?;
        }
        Ok(())
    }

    /// Ends the measurement after a last look.
    ///
    /// # Errors
    /// As [`Live::look`].
    pub fn finish<E: From<Error>>(
        mut self,
        mut ended: impl FnMut(&str, &Analysis) -> Result<(), E>,
    ) -> Result<(), E> {
        self.collect()?;
        for item in self.order.rest() {
            self.take(item, &mut ended)?;
        }
        self.next(None, &mut ended)
    }

    fn collect(&mut self) -> Result<(), Error> {
        let names = self.current.engine.names();
        let mut look = self.order.look();
        let mut events = self.trace.events()?;
        while let Some(entry) = events.next()? {
            let record = match entry {
                Entry::Event(record) => record,
                Entry::Lost(gap) => {
                    look.gap(&gap);
                    continue;
                }
            };
            let event = self.binding.event(&record);
            if let Kind::Switch { next, .. } = event.kind {
                if names.lacks(next) {
                    if let Some(comm) = self.binding.next_comm(event.name, record.data) {
                        names.learn(next, comm);
                    }
                }
            }
            look.event(event, self.texts.and_then(|texts| texts.read(record.data)));
        }
        look.end();
        drop(events);
        if let Some(trace) = Arc::get_mut(&mut self.trace) {
            trace.refresh()?;
        }
        names.update(self.trace.comms());
        Ok(())
    }

    fn take<E: From<Error>>(
        &mut self,
        item: Item,
        ended: &mut impl FnMut(&str, &Analysis) -> Result<(), E>,
    ) -> Result<(), E> {
        let (event, text) = match item.what {
            What::Event(event, text) => (event, text),
            What::Gap(gap) => {
                // A cell that begins now is not touched by what has ended before.
                let from = gap.from.unwrap_or(0);
                self.gaps.retain(|old| old.to > from);
                self.gaps.push(gap);
                self.current.gap(&gap);
                return Ok(());
            }
        };
        let name = match (&self.cells, &text) {
            (Cells::Marked(prefix), Some(text)) => text.strip_prefix(prefix.as_str()),
            _ => None,
        };
        if let Some(name) = name {
            self.next(Some(name.to_owned()), ended)?;
            self.gaps.retain(|gap| gap.to > event.ts);
            for gap in &self.gaps {
                self.current.gap(gap);
            }
        }
        self.current.facts.count(event.name);
        self.current.engine.push(&event);
        Ok(())
    }

    /// Ends the cell that is going on, and begins another one.
    fn next<E: From<Error>>(
        &mut self,
        name: Option<String>,
        ended: &mut impl FnMut(&str, &Analysis) -> Result<(), E>,
    ) -> Result<(), E> {
        let empty = begin(&self.trace, &self.request, name, Names::default());
        let last = std::mem::replace(&mut self.current, empty);
        let (outcome, collector, names) = last.engine.finish();
        let measured = Measured {
            facts: last.facts,
            outcome,
            names,
            collector,
        };
        let analysis = Analysis::assemble(
            self.trace.clone().into(),
            measured,
            self.device,
            &self.request,
        );
        if let Some(name) = &last.name {
            ended(name, &analysis)?;
        }
        *self.current.engine.names() = analysis.names;
        Ok(())
    }
}

impl Current {
    fn gap(&mut self, gap: &LostRange) {
        self.facts.lose(gap);
        let from = gap.from.unwrap_or(0);
        self.engine.gap(gap.cpu, Lost { from, to: gap.to });
    }
}

/// A cell without events yet. That a probe is on says that its events will come.
fn begin(trace: &Trace, request: &Request, name: Option<String>, names: Names) -> Current {
    let collector = Collector::new(request);
    let options = options_of(trace, request, |_| true);
    Current {
        name,
        engine: Engine::new(options, names, collector),
        facts: Facts::default(),
    }
}
