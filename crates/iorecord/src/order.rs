//! Puts the events of several looks at the ring buffers in order of time.
//!
//! One look empties the CPUs one after the other, so an event of the CPU that was emptied first
//! may come only with the next look although it is older than the last of this one. But what was
//! recorded before one look ended is there at the end of the next at the latest: up to the latest
//! time of the look before, everything is known.

use std::collections::HashMap;

use iosections::Event;
use tracedat::LostRange;

/// What one CPU said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// An event, and its text if it is a marker.
    Event(Event, Option<String>),
    /// Events are missing from here on.
    Gap(LostRange),
}

/// Something at its time (clock units).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    time: u64,
    pub(crate) what: What,
}

/// What was read and not yet given on.
#[derive(Debug, Default)]
pub(crate) struct Order {
    waiting: Vec<Item>,
    /// Latest time by CPU.
    last: HashMap<u32, u64>,
    /// Latest time of all before the present look, and before the one before.
    known: u64,
    settled: u64,
}

/// One look at all CPUs.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    order: &'a mut Order,
    latest: u64,
}

impl Order {
    /// Begins a look.
    pub(crate) fn look(&mut self) -> Look<'_> {
        let latest = self.known;
        Look {
            order: self,
            latest,
        }
    }

    /// What no later look can add anything before, in order of time.
    pub(crate) fn settled(&mut self) -> Vec<Item> {
        let end = self.waiting.partition_point(|i| i.time <= self.settled);
        let rest = self.waiting.split_off(end);
        std::mem::replace(&mut self.waiting, rest)
    }

    /// Everything, in order of time.
    pub(crate) fn rest(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.waiting)
    }
}

impl Look<'_> {
    pub(crate) fn event(&mut self, event: Event, text: Option<String>) {
        let (time, what) = (event.ts, What::Event(event, text));
        self.latest = self.latest.max(time);
        self.order.last.insert(event.cpu, time);
        self.order.waiting.push(Item { time, what });
    }

    /// A gap at the beginning of a look began after all that this look's predecessor could see.
    pub(crate) fn gap(&mut self, gap: &LostRange) {
        let last = self.order.last.get(&gap.cpu).copied();
        let time = last.unwrap_or(0).max(self.order.settled);
        let mut gap = *gap;
        gap.from = gap.from.max(Some(time).filter(|&time| time > 0));
        let what = What::Gap(gap);
        self.order.waiting.push(Item { time, what });
    }

    /// Ends the look: [`Order::settled`] is what it has made sure of.
    pub(crate) fn end(self) {
        let order = self.order;
        order.settled = order.known;
        order.known = self.latest;
        // Two runs in order of time; equal times stay in the order of the CPUs and looks.
        order.waiting.sort_by_key(|item| item.time);
    }
}
