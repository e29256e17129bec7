//! Which interrupts are a device's.
//!
//! An interrupt is a device's when its handler encloses a completion of the device's requests, or a
//! driver's report of one. Of a device whose completions all come in softirqs it is the one that at
//! least half of these softirqs directly follow; a loop device has none. Any other interrupt before
//! a completion (of the network, of the timer) tells nothing of it.

use crate::io::Piece;

/// Interrupts remembered of one device, and of all: a queue for each of many CPUs has its own.
const LIMIT: usize = 1 << 12;
/// Those that softirqs followed.
const FOLLOWED: usize = 64;

/// A hard interrupt being handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Handler {
    /// Its start (clock units).
    pub(crate) ts: u64,
    /// Its number; all ones where the trace does not tell.
    pub(crate) number: u32,
}

/// The interrupts of a device, by number.
#[derive(Debug, Default)]
pub(crate) struct Handlers {
    /// Those that enclosed a completion, rising.
    inside: Vec<u32>,
    /// Those that softirqs with completions followed, and how often.
    followed: Vec<(u32, u64)>,
    /// Completions in softirqs.
    softirqs: u64,
}

impl Handlers {
    /// A handler of this number encloses a completion.
    #[inline]
    pub(crate) fn enclosed(&mut self, number: u32) {
        if self.inside.last() != Some(&number) {
            self.learn(number);
        }
    }

    #[inline(never)]
    fn learn(&mut self, number: u32) {
        if let Err(place) = self.inside.binary_search(&number) {
            if self.inside.len() < LIMIT {
                self.inside.insert(place, number);
            }
        }
    }

    /// A softirq with a completion followed nothing, or directly a handler of this number.
    pub(crate) fn in_softirq(&mut self, number: Option<u32>) {
        self.softirqs += 1;
        let Some(number) = number else {
            return;
        };
        if let Some(known) = self.followed.iter_mut().find(|known| known.0 == number) {
            known.1 += 1;
        } else if self.followed.len() < FOLLOWED {
            self.followed.push((number, 1));
        }
    }

    /// Whether an interrupt is the device's.
    pub(crate) fn is_of(&self, number: u32) -> bool {
        if !self.inside.is_empty() {
            return self.inside.binary_search(&number).is_ok();
        }
        let usual = self.followed.iter().rev().max_by_key(|known| known.1);
        usual.is_some_and(|known| known.0 == number && known.1 * 2 >= self.softirqs)
    }
}

/// The last start of each interrupt, on any CPU.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    all: Vec<(u32, u64)>,
    /// Place of the last one.
    last: usize,
}

impl Starts {
    #[inline]
    pub(crate) fn start(&mut self, handler: Handler) {
        match self.all.get_mut(self.last) {
            Some(known) if known.0 == handler.number => known.1 = handler.ts,
            _ => self.start_other(handler),
        }
    }

    #[inline(never)]
    fn start_other(&mut self, handler: Handler) {
        let known = self.all.iter().position(|known| known.0 == handler.number);
        let place = known.unwrap_or(self.all.len());
        if let Some(known) = self.all.get_mut(place) {
            known.1 = handler.ts;
        } else if place < LIMIT {
            self.all.push((handler.number, handler.ts));
        }
        self.last = place;
    }

    /// The last start of a device's interrupt between two times.
    #[inline(never)]
    pub(crate) fn of(&self, device: &Handlers, from: u64, to: u64) -> Option<u64> {
        let starts = self.all.iter().filter(|known| device.is_of(known.0));
        starts
            .map(|known| known.1)
            .filter(|ts| (from..=to).contains(ts))
            .max()
    }
}

/// What handlers executed that no completion in them claimed: of each number the last one.
///
/// Where a late softirq completes a request, the handler that the device called ran for it, too.
#[derive(Debug, Default)]
pub(crate) struct Silent {
    all: Vec<(Handler, Vec<Piece>)>,
}

impl Silent {
    pub(crate) fn keep(&mut self, handler: Handler, pieces: &[Piece]) {
        let known = self
            .all
            .iter()
            .position(|known| known.0.number == handler.number);
        let place = known.unwrap_or(self.all.len());
        if place == self.all.len() && place < LIMIT {
            self.all.push((handler, Vec::new()));
        }
        if let Some(known) = self.all.get_mut(place) {
            known.0 = handler;
            known.1.clear();
            known.1.extend_from_slice(pieces);
        }
    }

    /// Of the handler that began then.
    pub(crate) fn of(&mut self, ts: u64) -> Option<&mut Vec<Piece>> {
        let known = self.all.iter_mut().find(|known| known.0.ts == ts)?;
        Some(&mut known.1)
    }

    /// Events are missing.
    pub(crate) fn clear(&mut self) {
        self.all.clear();
    }
}
