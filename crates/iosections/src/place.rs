//! Requests by their place: first sector, oldest first.

use std::collections::hash_map::Entry;

use crate::block::{Block, Request};
use crate::device::key;
use crate::event::Span;
use crate::slab::Ref;

impl Block {
    /// Puts a request behind those of the same first sector.
    pub(crate) fn hang(&mut self, device: usize, key: u64, request: Ref) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        let mut at = match on.by_sector.entry(key) {
            Entry::Vacant(free) => {
                free.insert(request);
                return;
            }
            Entry::Occupied(taken) => *taken.get(),
        };
        while let Some(next) = self.requests.get(at).and_then(|r| r.younger) {
            at = next;
        }
        if let Some(last) = self.requests.get_mut(at) {
            last.younger = Some(request);
        }
    }

    pub(crate) fn unhang(&mut self, device: usize, key: u64, request: Ref) {
        let younger = self
            .requests
            .get_mut(request)
            .and_then(|r| r.younger.take());
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        let Entry::Occupied(mut here) = on.by_sector.entry(key) else {
            return;
        };
        let first = *here.get();
        if first == request {
            match younger {
                Some(next) => _ = here.insert(next),
                None => _ = here.remove(),
            }
            return;
        }
        let mut at = first;
        while let Some(r) = self.requests.get_mut(at) {
            match r.younger {
                Some(next) if next == request => {
                    r.younger = younger;
                    return;
                }
                Some(next) => at = next,
                None => return,
            }
        }
    }

    /// A request of the same place and operation, oldest first.
    pub(crate) fn find_live(
        &self,
        device: usize,
        span: &Span,
        accept: impl Fn(&Request) -> bool,
    ) -> Option<Ref> {
        let same = |r: &Request| {
            r.span.rwbs.op() == span.rwbs.op() && (r.span.sectors == 0) == (span.sectors == 0)
        };
        let mut at = *self.devices.get(device)?.by_sector.get(&key(span))?;
        loop {
            let request = self.requests.get(at)?;
            if same(request) && accept(request) {
                return Some(at);
            }
            at = request.younger?;
        }
    }
}
