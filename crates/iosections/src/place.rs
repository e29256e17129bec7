//! Requests by their place: first sector, oldest first.

use std::iter;

use crate::block::Block;
use crate::device::key;
use crate::event::Span;
use crate::limits;
use crate::request::Request;
use crate::slab::Ref;

/// Whether two requests have the same place and operation.
#[inline]
fn is_like(one: &Span, other: &Span) -> bool {
    (one.sector == other.sector || other.sectors == 0)
        && (one.sectors == 0) == (other.sectors == 0)
        && one.rwbs.same_op(&other.rwbs)
}

impl Block {
    /// Puts a request behind those of its chain.
    #[inline]
    pub(crate) fn hang(&mut self, device: usize, key: u64, request: Ref) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        match on.places.chain_mut(key) {
            Some(oldest @ None) => *oldest = Some(request),
            Some(&mut Some(oldest)) => return self.hang_behind(device, oldest, request),
            None => return,
        }
        on.places.count += 1;
    }

    /// Behind too many it is not found again: its completion is not seen.
    #[inline(never)]
    fn hang_behind(&mut self, device: usize, mut at: Ref, request: Ref) {
        let mut length = 1;
        while let Some(next) = self.requests.get(at).and_then(|r| r.younger) {
            (at, length) = (next, length + 1);
        }
        let last = self.requests.get_mut(at).filter(|_| length < limits::NEAR);
        if let (Some(last), Some(on)) = (last, self.devices.get_mut(device)) {
            last.younger = Some(request);
            on.places.count += 1;
        }
    }

    /// Takes a request out of its chain; `younger` hangs on it.
    #[inline]
    pub(crate) fn unhang(&mut self, device: usize, key: u64, request: Ref, younger: Option<Ref>) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        on.places.count = on.places.count.saturating_sub(1);
        match on.places.chain_mut(key) {
            Some(oldest) if *oldest == Some(request) => *oldest = younger,
            Some(&mut Some(oldest)) => self.unhang_behind(oldest, request, younger),
            _ => {}
        }
    }

    #[inline(never)]
    fn unhang_behind(&mut self, mut at: Ref, request: Ref, younger: Option<Ref>) {
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

    /// Requests of the same place and operation, oldest first.
    #[inline]
    fn of_place<'a>(
        &'a self,
        device: usize,
        span: &'a Span,
    ) -> impl Iterator<Item = (Ref, &'a Request)> {
        let get = |at: Ref| self.requests.get(at).map(|request| (at, &**request));
        let oldest = self.devices.get(device);
        let oldest = oldest.and_then(|on| on.places.chain(key(span)));
        let chain = iter::successors(oldest.and_then(get), move |(_, r)| r.younger.and_then(get));
        chain.filter(|(_, r)| is_like(&r.span, span))
    }

    /// The oldest request of the same place and operation that is accepted.
    pub(crate) fn find_live(
        &self,
        device: usize,
        span: &Span,
        accept: impl Fn(&Request) -> bool,
    ) -> Option<Ref> {
        let mut here = self.of_place(device, span);
        here.find(|(_, r)| accept(r)).map(|(at, _)| at)
    }

    /// Takes out the request that a completion is of, if that is of all its sectors, and it is the
    /// oldest of its chain. Nearly always it is.
    #[inline]
    pub(crate) fn take_oldest(&mut self, device: usize, span: &Span) -> Option<Box<Request>> {
        let places = &mut self.devices.get_mut(device)?.places;
        let oldest = places.chain_mut(key(span))?;
        let request = self.requests.remove_if((*oldest)?, |r| {
            is_like(&r.span, span) && r.span.sectors == span.sectors && !r.requeued
        })?;
        *oldest = request.younger;
        places.count = places.count.saturating_sub(1);
        Some(request)
    }

    /// The request that a completion is of: of several that begin at this sector the one of this
    /// length, else the oldest; one that is back in the block layer only without any other. With
    /// the number of its sectors.
    pub(crate) fn find_done(&self, device: usize, span: &Span) -> Option<(Ref, u32)> {
        let (mut part, mut back) = (None, None);
        for (at, r) in self.of_place(device, span) {
            let found = (at, r.span.sectors);
            if r.requeued {
                back = back.or(Some(found));
            } else if r.span.sectors == span.sectors {
                return Some(found);
            } else {
                part = part.or(Some(found));
            }
        }
        part.or(back)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Completed;
    use crate::chains::CHAINS;
    use crate::event::Dev;
    use crate::request::From;
    use crate::rwbs::Rwbs;

    #[test]
    fn requests_of_one_chain_are_told_apart() {
        let mut block = Block::default();
        let span = |n: u64| Span {
            dev: Dev { major: 8, minor: 0 },
            sector: n * 8,
            sectors: 8,
            rwbs: Rwbs::new(b"R"),
        };
        assert_eq!(block.device(span(0).dev), Some(0));
        let count = 3 * CHAINS as u64;
        for ts in 0..count {
            let (pid, task, cpu) = (1, 1, 0);
            block.issue(0, span(ts), &From { ts, pid, task, cpu });
        }
        let thirds = (0..count).step_by(3);
        let others = (0..count).rev().filter(|n| n % 3 != 0);
        for n in thirds.chain(others) {
            let done = block.complete(0, &span(n));
            assert!(matches!(done, Completed::Request(r) if r.issued == n));
            assert!(matches!(block.complete(0, &span(n)), Completed::Unknown));
        }
        assert!(block.devices.iter().all(|on| on.places.is_empty()));
    }
}
