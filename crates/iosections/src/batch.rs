//! Completion interrupts, and what each of the requests that one completes has cost.
//!
//! A driver reads all completions that it finds, and ends the requests after that (UFS in the block
//! softirq, `NVMe` in batches): between two events lies the end of one request and the beginning of
//! the next one's. So a request's own completion is not a stretch of time; it is an equal share of
//! what the interrupt executed up to its last `block_rq_complete`. A cost on the way of every
//! completion moves each share by just that cost, in a batch of any length.

use std::collections::VecDeque;

use crate::io::Io;
use crate::slab::{Ref, Slab};

/// Interrupts remembered: one can be nested in the softirq of another.
const REMEMBERED: usize = 8;

/// One interrupt, with the softirq that directly followed it.
#[derive(Debug)]
struct Batch {
    /// Start of the hard interrupt (clock units).
    irq: u64,
    /// Executed so far, without interrupts nested in it.
    ran: u64,
    count: u64,
    /// The requests' I/Os, and the requests' numbers.
    requests: Vec<(Ref, u64)>,
}

/// The last interrupts of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Batches(VecDeque<Batch>);

impl Batches {
    /// A hard interrupt begins.
    pub(crate) fn begin(&mut self, irq: u64) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(Batch {
            irq,
            ran: 0,
            count: 0,
            requests: Vec::new(),
        });
    }

    /// Code was executed in the interrupt that began at `irq`.
    pub(crate) fn ran(&mut self, irq: u64, length: u64) {
        if let Some(batch) = self.find(irq) {
            batch.ran += length;
        }
    }

    /// A request was completed in it; `owners` are I/Os that have it in their list already.
    pub(crate) fn completed(
        &mut self,
        ios: &mut Slab<Io>,
        irq: u64,
        seq: u64,
        owners: impl Iterator<Item = Ref>,
    ) {
        let Some(batch) = self.find(irq) else {
            return;
        };
        batch.count += 1;
        batch.requests.extend(owners.map(|io| (io, seq)));
        let share = batch.ran / batch.count;
        for &(io, seq) in &batch.requests {
            let requests = ios.get_mut(io).map(|io| io.requests.iter_mut().rev());
            if let Some(request) = requests.and_then(|mut all| all.find(|r| r.seq == seq)) {
                request.share = Some(share);
            }
        }
    }

    fn find(&mut self, irq: u64) -> Option<&mut Batch> {
        self.0.iter_mut().rev().find(|b| b.irq == irq)
    }
}
