//! Measures while the events come: the running kernel's ring buffers, one look after the other.
//!
//! Nothing is known of what is still to come, so the device has to be named, and what a scan of a
//! whole trace finds out comes from what is being recorded: that a probe is on says that its events
//! will come. What is kept: the events of two looks, and the I/Os of the cell that is going on.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use iosections::{Engine, Event, Lost, Options, Tasks};
use tracedat::{Entry, LostRange, Trace};

use crate::analysis::{Analysis, DeviceMark, Request, parse_device, writes_for_others};
use crate::bind::{Binding, is_queue_return};
use crate::error::Error;
use crate::markers::Texts;
use crate::order::{Item, Order, What};
use crate::scan::Scan;

/// Names of tasks, which become known while the measurement runs.
#[derive(Debug, Clone, Default)]
struct Names {
    comms: Rc<RefCell<HashMap<i32, String>>>,
    wanted: Option<String>,
}

impl Tasks for Names {
    fn selected(&self, pid: i32) -> bool {
        self.wanted
            .as_ref()
            .is_none_or(|wanted| self.comms.borrow().get(&pid) == Some(wanted))
    }

    fn helps(&self, pid: i32) -> bool {
        self.comms
            .borrow()
            .get(&pid)
            .is_none_or(|comm| writes_for_others(comm))
    }
}

/// Which stretch of the events makes a record.
#[derive(Debug, Clone)]
pub enum Cells {
    /// All of them, under this name.
    Whole(String),
    /// From each marker that begins with this text to the next; the rest of it is the name.
    Marked(String),
}

/// The cell that is going on.
struct Current {
    name: String,
    engine: Engine<Names>,
    scan: Scan,
}

/// A measurement of the running kernel.
pub struct Live {
    trace: Arc<Trace>,
    binding: Binding,
    texts: Option<Texts>,
    names: Names,
    options: Options,
    cells: Cells,
    order: Order,
    /// Gaps of which some may reach into the next cell.
    gaps: Vec<LostRange>,
    /// CPUs whose next event is the first after a gap.
    after_gap: HashSet<u32>,
    current: Option<Current>,
}

impl Live {
    /// Prepares the measurement of what a live trace will give. `partitions` are the other device
    /// numbers of the disk `request.device`.
    ///
    /// # Errors
    /// When the request names no device, or the trace records no event.
    pub fn new(
        trace: Trace,
        request: &Request,
        partitions: &[String],
        cells: Cells,
    ) -> Result<Self, Error> {
        let text = request.device.as_deref().unwrap_or_default();
        let device = parse_device(text)?;
        let mut binding = Binding::new(&trace).ok_or(Error::NoEvents)?;
        for partition in partitions {
            binding.aliases.insert(parse_device(partition)?, device);
        }
        let probed = |f: &tracedat::EventFormat| f.system == "iotoll" && is_queue_return(&f.name);
        let options = Options {
            device,
            use_queue_return: request.device_mark == DeviceMark::Auto
                && trace.formats().iter().any(probed),
            has_nvme_complete: trace.format("nvme", "nvme_complete_rq").is_some(),
            lost: Vec::new(),
        };
        let names = Names {
            wanted: request.comm.clone(),
            ..Names::default()
        };
        let mut live = Self {
            texts: Texts::new(&trace),
            trace: Arc::new(trace),
            binding,
            names,
            options,
            order: Order::default(),
            gaps: Vec::new(),
            after_gap: HashSet::new(),
            current: None,
            cells,
        };
        if let Cells::Whole(name) = &live.cells {
            live.current = Some(live.begin(name.clone()));
        }
        Ok(live)
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
        match self.current.take() {
            Some(current) => self.end(current, &mut ended),
            None => Ok(()),
        }
    }

    fn collect(&mut self) -> Result<(), Error> {
        let mut look = self.order.look();
        let mut events = self.trace.events()?;
        while let Some(entry) = events.next()? {
            match entry {
                Entry::Lost(gap) => look.gap(&gap),
                Entry::Event(record) => {
                    let text = self.texts.and_then(|texts| texts.read(record.data));
                    look.event(self.binding.event(&record), text);
                }
            }
        }
        look.end();
        drop(events);
        if let Some(trace) = Arc::get_mut(&mut self.trace) {
            trace.refresh()?;
        }
        let mut comms = self.names.comms.borrow_mut();
        comms.extend(self.trace.comms().iter().map(|(&k, v)| (k, v.clone())));
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
                self.gap(gap);
                return Ok(());
            }
        };
        if let (Cells::Marked(prefix), Some(text)) = (&self.cells, &text) {
            if let Some(name) = text.strip_prefix(prefix.as_str()) {
                let name = name.to_owned();
                if let Some(current) = self.current.take() {
                    self.end(current, ended)?;
                }
                self.gaps.retain(|gap| gap.to > event.ts);
                self.current = Some(self.begin(name));
            }
        }
        self.push(&event);
        Ok(())
    }

    fn begin(&self, name: String) -> Current {
        let mut scan = Scan::default();
        for gap in &self.gaps {
            scan.gap(gap);
        }
        let options = Options {
            lost: scan.lost.clone(),
            ..self.options.clone()
        };
        Current {
            name,
            engine: Engine::new(options, self.names.clone()),
            scan,
        }
    }

    fn gap(&mut self, gap: LostRange) {
        let from = gap.from.unwrap_or(0);
        self.after_gap.insert(gap.cpu);
        self.gaps.retain(|old| old.to > from);
        self.gaps.push(gap);
        if let Some(current) = &mut self.current {
            current.scan.gap(&gap);
            current.engine.lost(Lost { from, to: gap.to });
        }
    }

    fn push(&mut self, event: &Event) {
        let after_gap = !self.after_gap.is_empty() && self.after_gap.remove(&event.cpu);
        let Some(current) = &mut self.current else {
            return;
        };
        if after_gap {
            current.engine.gap(event.cpu);
        }
        current.scan.add(event.name);
        current.engine.push(event);
    }

    fn end<E: From<Error>>(
        &self,
        current: Current,
        ended: &mut impl FnMut(&str, &Analysis) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut scan = current.scan;
        let unplaced = self.trace.unplaced_losses();
        scan.lost_events = scan.lost_events.saturating_add(unplaced);
        let analysis = Analysis {
            trace: self.trace.clone(),
            scan,
            outcome: current.engine.finish(),
        };
        ended(&current.name, &analysis)
    }
}
