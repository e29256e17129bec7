//! Tasks that submit requests for others: journal threads, kernel workers.
//!
//! A helper's bio belongs to an I/O only where the trace shows that the I/O waits for it:
//! - the I/O writes or waits for writes, is for the bio's device, and has nothing of its own at the
//!   device;
//! - its task woke the helper (or a helper of that I/O did), and nobody has woken the task since; or
//! - its task sleeps (`sched_switch`), and no other such I/O does. Where the trace has
//!   `sched_waking`, the helper or the completion of its request must then wake the task; else the
//!   I/O counts as ambiguous.
//!
//! Without `sched_switch` nothing shows who waits, and a helper's bio belongs to nobody.

use crate::engine::{Engine, Tasks};
use crate::event::{Now, Span};
use crate::io::Sink;
use crate::slab::Ref;

/// For whom a helper submits a bio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Helped {
    Io(Ref),
    Nobody,
    /// Somebody waits, but nothing shows who waits for this.
    Ambiguous,
}

impl<T: Tasks, S: Sink> Engine<T, S> {
    /// The I/O that a task without one submits a bio for.
    pub(crate) fn helped(&mut self, now: Now, cpu: usize, device: usize, span: &Span) -> Helped {
        let pid = now.pid();
        if pid == 0 || span.rwbs.op() == b'R' || !self.names.helps(pid) || self.writers.is_empty() {
            return Helped::Nobody;
        }
        if !self.switches_seen {
            return Helped::Ambiguous;
        }
        let task = self.task(cpu);
        let (woken_for, serves) = task.map_or((None, None), |t| (t.woken_for, t.serves));
        // It may be on its way to sleep yet.
        let asked = woken_for.filter(|&at| self.may_wait(at, device));
        let asked = asked.or(serves.filter(|&at| self.sleeps(at, device)));
        if let Some(io) = asked {
            return Helped::Io(io);
        }
        let sleeping = |&at: &Ref| self.sleeps(at, device) && self.is_for(at, device);
        let mut all = self.writers.iter().copied().filter(sleeping);
        let Some(first) = all.next() else {
            return Helped::Nobody;
        };
        if all.next().is_some() {
            return Helped::Ambiguous;
        }
        if let Some(io) = self.ios.get_mut(first) {
            io.unproven = pid;
        }
        Helped::Io(first)
    }

    /// Whether an I/O may wait for a helper that submits to this device: it has nothing of its own
    /// at a device, and is for no other device.
    fn may_wait(&self, at: Ref, device: usize) -> bool {
        let Some(io) = self.ios.get(at) else {
            return false;
        };
        let own = |at: &Ref| {
            let request = self.block.requests.get(*at);
            request.is_some_and(|r| r.parts.iter().any(|&bio| self.is_own(bio)))
        };
        (io.devices == 0 || self.is_for(at, device)) && !io.live.iter().any(own)
    }

    fn is_own(&self, bio: Ref) -> bool {
        let bio = self.block.bio(bio);
        bio.is_some_and(|bio| bio.io.is_some() && !bio.helper)
    }

    fn sleeps(&self, at: Ref, device: usize) -> bool {
        let asleep = self.ios.get(at).is_some_and(|io| io.asleep);
        asleep && self.may_wait(at, device)
    }

    /// Whether an I/O has a bio for this device, or only for stacked devices: those have no requests.
    fn is_for(&self, at: Ref, device: usize) -> bool {
        let devices = self.ios.get(at).map_or(0, |io| io.devices);
        let mut all = self.block.devices.iter().enumerate();
        devices & bit(device) != 0
            || devices != 0
                && all.all(|(place, on)| {
                    devices & bit(place) == 0 || on.out.requests.seen == 0 && on.places.is_empty()
                })
    }

    /// The task of an I/O is woken.
    pub(crate) fn woken(&mut self, at: Ref, waker: Option<i32>, completed: Option<Ref>) {
        let Some(io) = self.ios.get_mut(at).filter(|io| io.asleep) else {
            return;
        };
        io.asleep = false;
        if io.unproven != 0 {
            io.ambiguous |= waker != Some(io.unproven) && completed != Some(at);
            io.unproven = 0;
        }
    }
}

/// The bit of a device in `Io::devices`.
pub(crate) fn bit(device: usize) -> u64 {
    1 << device.min(63)
}
