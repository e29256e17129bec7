//! Gives the I/Os of a trace on while it is read: memory does not grow with them.

use iosections::{Dev, Engine, IoResult};

use crate::error::Error;
use crate::filter::Filter;
use crate::names::Names;
use crate::request::Request;
use crate::source::Source;
use crate::summary::Collector;
use crate::walk::{self, Measured, Watch};
use crate::window::Window;

/// I/Os that are given on at a time.
const BATCH: usize = 1 << 11;
/// I/Os that wait, where all are to come in the order of their starts: only one that ends after so
/// many younger ones comes late.
const WAITING: usize = 1 << 13;

/// A stretch of time, and the device whose I/Os are wanted in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// From the first time stamp to before the second.
    pub time: (u64, u64),
    /// Every device without one.
    pub device: Option<Dev>,
}

/// Takes I/Os.
pub trait IoTaker {
    /// Some I/Os of a window, with the names of their ways by number.
    ///
    /// # Errors
    /// Any that ends the walk.
    fn take(&mut self, window: usize, ios: &[IoResult], paths: &[String]) -> Result<(), Error>;
}

struct Flow<'a> {
    wishes: &'a [Wish],
    filter: &'a Filter,
    taker: &'a mut dyn IoTaker,
    /// How many wait for older ones.
    wait: usize,
    /// What has been looked through, and the window that it is of.
    waiting: Vec<IoResult>,
    window: usize,
}

impl Flow<'_> {
    /// Takes over what has come; `bit` is that of the device.
    fn collect(&mut self, new: &mut Vec<IoResult>, bit: u64) {
        let device = self.wishes.get(self.window).and_then(|wish| wish.device);
        let filter = self.filter;
        let wanted = |io: &IoResult| {
            let here = device.is_none_or(|dev| io.asked == dev || io.devices & bit != 0);
            here && filter.passes(io)
        };
        self.waiting.extend(new.drain(..).filter(wanted));
    }

    /// Gives on the oldest ones, up to those that wait for others.
    fn give(&mut self, keep: usize, paths: &[String]) -> Result<(), Error> {
        self.waiting.sort_by_key(|io| (io.start, io.pid));
        let count = self.waiting.len().saturating_sub(keep);
        let (window, ready) = (self.window, self.waiting.get(..count).unwrap_or_default());
        for some in ready.chunks(BATCH) {
            self.taker.take(window, some, paths)?;
        }
        self.waiting.drain(..count);
        Ok(())
    }
}

impl Watch<Error> for &std::cell::RefCell<Flow<'_>> {
    #[inline]
    fn look(&mut self, window: usize, engine: &mut Engine<Names, Collector>) -> Result<(), Error> {
        if engine.sink().ios.len() < BATCH {
            return Ok(());
        }
        let mut flow = self.borrow_mut();
        flow.window = window;
        let device = flow.wishes.get(window).and_then(|wish| wish.device);
        let bit = device.map_or(0, |dev| engine.bit(dev));
        flow.collect(&mut engine.sink().ios, bit);
        if flow.waiting.len() >= flow.wait + BATCH {
            let wait = flow.wait;
            flow.give(wait, engine.paths())?;
        }
        Ok(())
    }
}

/// Gives on the I/Os of some windows that follow each other in time, as they are measured.
///
/// # Errors
/// When the trace cannot be read, or what the taker returns.
pub fn stream(
    source: &Source,
    request: &Request,
    wishes: &[Wish],
    in_order: bool,
    taker: &mut dyn IoTaker,
) -> Result<(), Error> {
    let wait = if in_order { WAITING } else { 0 };
    let request = Request {
        keep_ios: true,
        device: None,
        ..request.clone()
    };
    let windows: Vec<Window> = wishes.iter().map(|w| Window(Some(w.time))).collect();
    let flow = std::cell::RefCell::new(Flow {
        wishes,
        filter: &request.filter,
        taker,
        wait,
        waiting: Vec::with_capacity(wait + 2 * BATCH),
        window: 0,
    });
    let mut ended = 0;
    let each = |mut measured: Measured| {
        let mut flow = flow.borrow_mut();
        flow.window = ended;
        let device = wishes.get(ended).and_then(|wish| wish.device);
        let place = |dev: Dev| measured.outcome.devices.iter().position(|d| d.dev == dev);
        let bit = device.and_then(place).map_or(0, |place| 1 << place.min(63));
        flow.collect(&mut measured.collector.ios, bit);
        ended += 1;
        flow.give(0, &measured.outcome.paths)
    };
    match source {
        Source::Trace(trace) => walk::trace(trace, &request, &windows, each, &flow),
        Source::Blktrace(files) => walk::blktrace(files, &request, &windows, each, &flow),
    }
}
