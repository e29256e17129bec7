//! Completions of `NVMe` queues that are read on one CPU and may end on another.
//!
//! `nvme_sq` names a disk and no request. On one CPU the order of the queue tells which one it is. A
//! request that ends elsewhere (`rq_affinity`, CPUs that share no cache) is carried over by an
//! interrupt between CPUs, and ends in a softirq there.

use crate::cpu::Slot;
use crate::engine::{Engine, Tasks};
use crate::io::Sink;
use crate::mark::Mark;
use crate::request::{DriverDone, Enclosing, Request};
use crate::slab::Ref;

impl<T: Tasks, S: Sink> Engine<T, S> {
    /// The device that `NVMe` events call so, if its requests showed.
    #[inline]
    pub(crate) fn device_of(&self, disk: u64) -> Option<usize> {
        let known = self.disks.iter().find(|known| known.0 == disk);
        known.map(|known| known.1)
    }

    /// The number of the hard interrupt that a CPU handles.
    pub(crate) fn handling(&self, cpu: usize) -> Option<u32> {
        let interrupt = self.cpus.get(cpu)?.interrupt()?;
        (interrupt.kind == Enclosing::Handler && interrupt.number != u32::MAX)
            .then_some(interrupt.number)
    }

    /// What another CPU's interrupt read of a request that a softirq ends here: the oldest completion
    /// of the disk, since the issue, whose request did not show there.
    #[inline(never)]
    pub(crate) fn read_elsewhere(
        &mut self,
        cpu: usize,
        request: &Request,
        owner: Option<Ref>,
    ) -> Option<DriverDone> {
        if !self.cpus.get(cpu)?.in_softirq() {
            return None;
        }
        let disk = self.disks.iter().find(|known| known.1 == request.device)?.0;
        let others = (0..self.cpus.len()).filter(|&other| other != cpu);
        let (at, place) = others
            .filter_map(|other| {
                Some((
                    self.cpus.get(other)?.read_since(disk, request.issued)?,
                    other,
                ))
            })
            .min()?;
        let slot = self.on_cpu(place, |c, ios| c.take_read(ios, disk, at, owner))?;
        Some(read(&slot, place))
    }
}

/// A completion read from an `NVMe` queue.
pub(crate) fn read(slot: &Slot, cpu: usize) -> DriverDone {
    DriverDone {
        cpu,
        ts: slot.ts,
        irq: slot.irq,
        event: Mark::NvmeSq,
        softirq: false,
    }
}
