//! One block device: its bios that wait for a request, its requests by place, its counts.

use std::collections::VecDeque;

use crate::chains::Places;
use crate::event::{Dev, Driver, Span};
use crate::handlers::Handlers;
use crate::mark::Mark;
use crate::outcome::DeviceOutcome;
use crate::request::{Category, Request};
use crate::slab::Ref;
use crate::waiting::Waiting;

/// Key of the requests without sectors.
pub(crate) const NO_SECTOR: u64 = u64::MAX;

#[derive(Debug, Default)]
pub(crate) struct Device {
    /// Bios that still wait for a request for some of their sectors, by first sector and age.
    pub(crate) waiting: Waiting,
    /// Longest bio so far (sectors), the reach of a look-back in `waiting`.
    pub(crate) longest: u64,
    /// Bios with a flush before or after, oldest first.
    pub(crate) flushes: VecDeque<Ref>,
    /// Seen: a flush with nobody waiting for one but bios whose data are written.
    pub(crate) flush_after: bool,
    /// Its requests.
    pub(crate) places: Places,
    /// Its interrupts.
    pub(crate) handlers: Handlers,
    pub(crate) out: DeviceOutcome,
}

impl Device {
    pub(crate) fn new(dev: Dev) -> Self {
        Self {
            out: DeviceOutcome {
                dev,
                ..DeviceOutcome::default()
            },
            ..Self::default()
        }
    }

    /// A driver's event was matched to a request.
    pub(crate) fn driven(&mut self, driver: Driver) {
        if let Some(count) = self.out.drivers.get_mut(driver as usize) {
            *count += 1;
        }
    }

    /// A request is over, at the device from and to these events.
    pub(crate) fn completed(&mut self, request: &Request, marks: (Mark, Mark)) {
        let counts = &mut self.out.requests;
        counts.seen += 1;
        counts.flushes += u64::from(request.span.rwbs.op() == b'F');
        match request.category {
            Category::Attributed => counts.attributed += 1,
            Category::Helper => counts.helper += 1,
            Category::Unattributed => {
                counts.unattributed += 1;
                counts.ambiguous += u64::from(request.ambiguous);
                return;
            }
        }
        self.out.device_marks.add(marks.0);
        self.out.interrupt_marks.add(marks.1);
    }

    /// Forgets what is in flight.
    pub(crate) fn clear(&mut self) {
        self.waiting.drain().for_each(drop);
        self.flushes.clear();
        self.places = Places::default();
    }
}

pub(crate) fn key(span: &Span) -> u64 {
    if span.sectors == 0 {
        NO_SECTOR
    } else {
        span.sector
    }
}
