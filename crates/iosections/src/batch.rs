//! Completion interrupts, and what each of the requests that one completes has cost.
//!
//! A driver reads all completions that it finds, and ends the requests after that (UFS in the block
//! softirq, `NVMe` in batches): between two events lies the end of one request and the beginning of
//! the next one's. So a request's own completion is not a stretch of time; it is an equal share of
//! what the interrupt executed up to its last `block_rq_complete`. A cost on the way of every
//! completion moves each share by just that cost, in a batch of any length.

use std::num::NonZeroU64;

use crate::block::EndedBio;
use crate::io::{IoRequest, Ios};
use crate::slab::Ref;

/// Interrupts remembered: one can be nested in the softirq of another.
const REMEMBERED: usize = 8;

/// One interrupt, with the softirq that directly followed it.
#[derive(Debug, Default)]
struct Batch {
    serial: u64,
    /// Start of the hard interrupt (clock units).
    irq: u64,
    /// Executed so far, without interrupts nested in it.
    ran: u64,
    /// Executed up to the last completion.
    ran_at_last: u64,
    count: u64,
    /// The I/Os with a request in it.
    ios: Vec<Ref>,
}

impl Batch {
    fn share(&self) -> Option<u64> {
        self.ran_at_last.checked_div(self.count)
    }
}

/// The last interrupts of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    all: [Batch; REMEMBERED],
    /// Place of the youngest.
    youngest: usize,
    serial: u64,
}

impl Batches {
    /// A hard interrupt begins. What the oldest one cost goes to its I/Os that are still open.
    pub(crate) fn begin(&mut self, ios: &mut Ios, irq: u64) {
        self.youngest = (self.youngest + 1) % REMEMBERED;
        self.serial += 1;
        let Some(batch) = self.all.get_mut(self.youngest) else {
            return;
        };
        let share = batch.share();
        for at in batch.ios.drain(..) {
            let Some(io) = ios.get_mut(at) else {
                continue;
            };
            for request in &mut io.requests {
                if request
                    .batch
                    .is_some_and(|serial| serial.get() == batch.serial)
                {
                    (request.share, request.batch) = (share, None);
                }
            }
        }
        (batch.irq, batch.ran, batch.ran_at_last, batch.count) = (irq, 0, 0, 0);
        batch.serial = self.serial;
    }

    /// Code was executed in the interrupt that began at `irq`.
    #[inline]
    pub(crate) fn ran(&mut self, irq: u64, length: u64) {
        if let Some(batch) = self.find(irq) {
            batch.ran += length;
        }
    }

    /// A request was completed in it, with these bios. Gives the batch's number.
    #[inline]
    pub(crate) fn completed(&mut self, irq: u64, bios: &[EndedBio]) -> Option<NonZeroU64> {
        let batch = self.find(irq)?;
        batch.count += 1;
        batch.ran_at_last = batch.ran;
        for bio in bios {
            batch.ios.push(bio.place.io);
        }
        NonZeroU64::new(batch.serial)
    }

    /// What a request cost in the batch that it was part of, as far as that has come.
    pub(crate) fn share(&self, request: &IoRequest) -> Option<u64> {
        let Some(serial) = request.batch.map(NonZeroU64::get) else {
            return request.share;
        };
        // Numbers and places rise together.
        let batch = self.all.get(serial as usize % REMEMBERED)?;
        batch.share().filter(|_| batch.serial == serial)
    }

    #[inline]
    fn find(&mut self, irq: u64) -> Option<&mut Batch> {
        let place = if self.is_of(self.youngest, irq) {
            self.youngest
        } else {
            self.find_older(irq)?
        };
        self.all.get_mut(place)
    }

    #[inline]
    fn is_of(&self, place: usize, irq: u64) -> bool {
        let batch = self.all.get(place);
        batch.is_some_and(|b| b.irq == irq && b.serial != 0)
    }

    /// The youngest of that time: the places run downwards from the youngest of all.
    #[inline(never)]
    fn find_older(&self, irq: u64) -> Option<usize> {
        let mut older =
            (1..REMEMBERED).map(|back| (self.youngest + REMEMBERED - back) % REMEMBERED);
        older.find(|&place| self.is_of(place, irq))
    }
}
