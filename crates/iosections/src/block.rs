//! Bios and requests of one device: which request carries which bio.
//!
//! Requests are matched to bios by the sectors they share, never by their first sector alone: a
//! split or a merge keeps the sectors and changes where they start. A flush has no sectors; it
//! belongs to the bios that wait for one.

use std::collections::BTreeMap;

use crate::event::Span;
use crate::slab::{IntMap, Ref, Slab};

/// Key of the requests without sectors.
const NO_SECTOR: u64 = u64::MAX;

/// A bio's place in an I/O: the I/O, and the index in its list of bios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoBio {
    pub(crate) io: Ref,
    pub(crate) index: usize,
}

#[derive(Debug)]
pub(crate) struct Bio {
    pub(crate) span: Span,
    pub(crate) pid: i32,
    pub(crate) io: Option<IoBio>,
    /// Submitted by another task than the I/O's.
    pub(crate) helper: bool,
    serial: u64,
    to_issue: u32,
    to_finish: u32,
    /// Waits for a flush before its data (or instead of data).
    needs_flush: bool,
    /// A flush for it is at the device.
    flushing: bool,
}

/// Who a request counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    Attributed,
    Helper,
    Unattributed,
}

/// The driver's own completion event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DriverDone {
    pub(crate) ts: u64,
    pub(crate) irq: Option<u64>,
    pub(crate) event: &'static str,
}

/// A request from its first issue to its completion.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) span: Span,
    pub(crate) parts: Vec<Ref>,
    /// The I/O that it counts for.
    pub(crate) owner: Option<Ref>,
    pub(crate) category: Category,
    pub(crate) seq: u64,
    pub(crate) issued: u64,
    pub(crate) issue_task: i32,
    /// Back in the block layer after a requeue.
    requeued: bool,
    pub(crate) setup: Option<u64>,
    pub(crate) sent: Option<u64>,
    pub(crate) returned: Option<u64>,
    pub(crate) driver_done: Option<DriverDone>,
}

/// What an issue was.
pub(crate) enum Issued {
    New(Ref),
    /// The same request again; whether a requeue event told so.
    Again(Ref, bool),
}

/// What a completion was.
pub(crate) enum Completed {
    /// A request's end, and the bios that ended with it or lost sectors to it.
    Request(Box<Request>, Vec<IoBio>),
    /// Part of a request; the rest is still at the device.
    Part,
    /// The end of a bio that went through the flush machinery, after its requests.
    FlushEnd(IoBio),
    /// The end of a request that was issued before the trace.
    Unknown,
    /// Nothing that counts.
    Nothing,
}

/// All that is in flight on the device.
#[derive(Debug, Default)]
pub(crate) struct Block {
    bios: Slab<Bio>,
    /// Bios that still wait for sectors, by first sector.
    waiting: BTreeMap<(u64, u64), Ref>,
    /// Longest bio so far (sectors), the reach of a look-back in `waiting`.
    longest: u64,
    /// Bios with a flush before or after, oldest first.
    flushes: Vec<Ref>,
    /// Seen: a flush with nobody waiting for one but bios whose data are written.
    flush_after: bool,
    pub(crate) requests: Slab<Request>,
    by_sector: IntMap<u64, Vec<Ref>>,
    serial: u64,
}

impl Block {
    pub(crate) fn bio(&self, at: Ref) -> Option<&Bio> {
        self.bios.get(at)
    }

    pub(crate) fn queue(&mut self, span: Span, pid: i32, io: Option<IoBio>, helper: bool) {
        self.serial += 1;
        let serial = self.serial;
        let needs_flush = span.rwbs.preflush();
        let bio = self.bios.insert(Bio {
            span,
            pid,
            io,
            helper,
            serial,
            to_issue: span.sectors,
            to_finish: span.sectors,
            needs_flush,
            flushing: false,
        });
        if span.sectors > 0 {
            self.waiting.insert((span.sector, serial), bio);
            self.longest = self.longest.max(u64::from(span.sectors));
        }
        if needs_flush || span.rwbs.fua() {
            self.flushes.push(bio);
        }
    }

    /// A request goes to the driver.
    pub(crate) fn issue(&mut self, span: Span, task: i32, pid: i32, ts: u64) -> Issued {
        if let Some(again) = self.find_live(&span, |r| r.requeued) {
            return self.reissue(again, task, ts);
        }
        let parts = if span.sectors > 0 {
            self.cover(&span, pid)
        } else if span.rwbs.op() == b'F' {
            self.take_flushers()
        } else {
            Vec::new()
        };
        if parts.is_empty() && span.sectors > 0 {
            if let Some(again) = self.find_live(&span, |_| true) {
                return self.reissue(again, task, ts);
            }
        }
        self.serial += 1;
        let request = self.requests.insert(Request {
            span,
            parts,
            owner: None,
            category: Category::Unattributed,
            seq: self.serial,
            issued: ts,
            issue_task: task,
            requeued: false,
            setup: None,
            sent: None,
            returned: None,
            driver_done: None,
        });
        self.by_sector.entry(key(&span)).or_default().push(request);
        Issued::New(request)
    }

    fn reissue(&mut self, again: Ref, task: i32, ts: u64) -> Issued {
        let mut told = false;
        if let Some(request) = self.requests.get_mut(again) {
            told = request.requeued;
            (request.issued, request.issue_task, request.requeued) = (ts, task, false);
            (request.setup, request.sent, request.returned) = (None, None, None);
        }
        Issued::Again(again, told)
    }

    pub(crate) fn requeue(&mut self, span: &Span) {
        if let Some(at) = self.find_live(span, |r| !r.requeued) {
            if let Some(request) = self.requests.get_mut(at) {
                request.requeued = true;
            }
        }
    }

    /// A request of the same place and operation, oldest first.
    fn find_live(&self, span: &Span, accept: impl Fn(&Request) -> bool) -> Option<Ref> {
        let same = |r: &Request| {
            r.span.rwbs.op() == span.rwbs.op() && (r.span.sectors == 0) == (span.sectors == 0)
        };
        self.by_sector
            .get(&key(span))?
            .iter()
            .copied()
            .find(|&at| self.requests.get(at).is_some_and(|r| same(r) && accept(r)))
    }

    /// The bios that fill the request's sectors, each sector from one bio: the issuing task's own
    /// before others', older before younger.
    fn cover(&mut self, span: &Span, pid: i32) -> Vec<Ref> {
        let end = span.sector.saturating_add(u64::from(span.sectors));
        let reach = span.sector.saturating_sub(self.longest);
        let mut candidates: Vec<(u64, u64, bool, u64, Ref)> = self
            .waiting
            .range((reach, 0)..(end, 0))
            .filter_map(|(_, &at)| {
                let bio = self.bios.get(at)?;
                let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
                let fits = bio.to_issue > 0
                    && bio_end > span.sector
                    && bio.span.rwbs.op() == span.rwbs.op();
                fits.then_some((bio.span.sector, bio_end, bio.pid != pid, bio.serial, at))
            })
            .collect();
        candidates.sort_unstable_by_key(|&(_, _, foreign, serial, _)| (foreign, serial));
        let (mut at, mut parts) = (span.sector, Vec::new());
        while at < end {
            let here = candidates
                .iter()
                .position(|&(from, to, ..)| from <= at && at < to);
            let Some(&(_, to, _, _, bio)) = here.and_then(|place| candidates.get(place)) else {
                let next = candidates
                    .iter()
                    .map(|&(from, ..)| from)
                    .filter(|&from| from > at);
                at = next.min().unwrap_or(end);
                continue;
            };
            let taken = to.min(end) - at;
            if let Some(bio) = self.bios.get_mut(bio) {
                bio.to_issue = bio.to_issue.saturating_sub(taken as u32);
            }
            parts.push(bio);
            at += taken;
        }
        parts
    }

    /// The bios that a new flush serves.
    fn take_flushers(&mut self) -> Vec<Ref> {
        let bios = &mut self.bios;
        let mut parts: Vec<Ref> = Vec::new();
        let mut written: Vec<Ref> = Vec::new();
        for &at in &self.flushes {
            match bios.get(at) {
                Some(b) if b.flushing => {}
                Some(b) if b.needs_flush => parts.push(at),
                Some(b) if b.span.rwbs.fua() && b.to_finish == 0 => written.push(at),
                _ => {}
            }
        }
        if parts.is_empty() && !written.is_empty() {
            self.flush_after = true;
        }
        if self.flush_after {
            parts.append(&mut written);
        }
        for &at in &parts {
            if let Some(bio) = bios.get_mut(at) {
                bio.flushing = true;
            }
        }
        // What is finished and got no further flush will get none.
        self.flushes.retain(|&at| {
            let waits = |b: &Bio| b.flushing || b.needs_flush || b.to_finish > 0;
            let keep = bios.get(at).is_some_and(waits);
            if !keep {
                bios.remove(at);
            }
            keep
        });
        parts
    }

    /// A completion event.
    pub(crate) fn complete(&mut self, span: &Span) -> Completed {
        let Some(at) = self
            .find_live(span, |r| !r.requeued)
            .or_else(|| self.find_live(span, |_| true))
        else {
            return if span.sectors == 0 {
                self.flush_end(span)
            } else {
                Completed::Unknown
            };
        };
        self.unlink(key(span), at);
        let Some(request) = self.requests.get_mut(at) else {
            return Completed::Nothing;
        };
        if span.sectors < request.span.sectors {
            let parts = request.parts.clone();
            request.span.sector = request.span.sector.saturating_add(u64::from(span.sectors));
            request.span.sectors -= span.sectors;
            let rest = key(&request.span);
            self.by_sector.entry(rest).or_default().push(at);
            self.finish_parts(&parts, span);
            return Completed::Part;
        }
        match self.requests.remove(at) {
            Some(request) => {
                let ended = self.finish_parts(&request.parts, span);
                Completed::Request(Box::new(request), ended)
            }
            None => Completed::Nothing,
        }
    }

    fn unlink(&mut self, key: u64, at: Ref) {
        if let Some(list) = self.by_sector.get_mut(&key) {
            list.retain(|&other| other != at);
            if list.is_empty() {
                self.by_sector.remove(&key);
            }
        }
    }

    /// Takes the completed sectors off the bios; gives the bios that belong to an I/O.
    fn finish_parts(&mut self, parts: &[Ref], done: &Span) -> Vec<IoBio> {
        let mut touched = Vec::new();
        let end = done.sector.saturating_add(u64::from(done.sectors));
        for &at in parts {
            let Some(bio) = self.bios.get_mut(at) else {
                continue;
            };
            touched.extend(bio.io);
            if done.sectors == 0 {
                (bio.flushing, bio.needs_flush) = (false, false);
                continue;
            }
            let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
            let shared = bio_end
                .min(end)
                .saturating_sub(bio.span.sector.max(done.sector));
            bio.to_finish = bio.to_finish.saturating_sub(shared as u32);
            if bio.to_issue == 0 {
                self.waiting.remove(&(bio.span.sector, bio.serial));
            }
            let lingers = bio.span.rwbs.fua() || bio.span.rwbs.preflush();
            if bio.to_finish == 0 && bio.to_issue == 0 && !lingers {
                self.bios.remove(at);
            }
        }
        touched
    }

    /// `block_rq_complete` without sectors and without a request: the end of a flush bio.
    fn flush_end(&mut self, span: &Span) -> Completed {
        let place = self.flushes.iter().position(|&at| {
            self.bios.get(at).is_some_and(|b| {
                b.span.rwbs.op() == span.rwbs.op()
                    && !b.needs_flush
                    && b.to_finish == 0
                    && (b.span.sectors == 0 || b.span.sector == span.sector)
            })
        });
        let Some(place) = place else {
            return Completed::Nothing;
        };
        let at = self.flushes.remove(place);
        let io = self.bios.remove(at).and_then(|bio| bio.io);
        io.map_or(Completed::Nothing, Completed::FlushEnd)
    }

    /// Forgets everything, after a gap in the events. Gives the number of requests in flight.
    pub(crate) fn clear(&mut self) -> u64 {
        let in_flight = self.requests.iter().count() as u64;
        *self = Self {
            serial: self.serial,
            flush_after: self.flush_after,
            requests: std::mem::take(&mut self.requests),
            ..Self::default()
        };
        let gone: Vec<Ref> = self.requests.iter().map(|(at, _)| at).collect();
        for at in gone {
            self.requests.remove(at);
        }
        in_flight
    }
}

fn key(span: &Span) -> u64 {
    if span.sectors == 0 {
        NO_SECTOR
    } else {
        span.sector
    }
}
