//! Bios and requests: which request carries which bio.
//!
//! Requests are matched to bios by the sectors they share, never by their first sector alone: a
//! split or a merge keeps the sectors and changes where they start. A flush has no sectors; it
//! belongs to the bios that wait for one (`flush`).

use smallvec::SmallVec;

use crate::device::{Device, key};
use crate::event::{Dev, Span};
use crate::limits;
use crate::mark::Mark;
use crate::slab::{IntMap, Ref, Slab};

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
    pub(crate) to_issue: u32,
    pub(crate) to_finish: u32,
    /// Waits for a flush before its data (or instead of data).
    pub(crate) needs_flush: bool,
    /// A flush for it is at the device.
    pub(crate) flushing: bool,
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
    pub(crate) irq: Option<Interrupt>,
    pub(crate) event: Mark,
}

/// A completion interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupt {
    pub(crate) ts: u64,
    /// It only woke the thread that completed the request.
    pub(crate) threaded: bool,
}

/// The bios of a request.
pub(crate) type Parts = SmallVec<[Ref; 2]>;

/// A request from its first issue to its completion.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) span: Span,
    /// Number of its device.
    pub(crate) device: usize,
    pub(crate) parts: Parts,
    /// The I/O that it counts for.
    pub(crate) owner: Option<Ref>,
    pub(crate) category: Category,
    pub(crate) seq: u64,
    pub(crate) issued: u64,
    pub(crate) issue_task: i32,
    /// CPU of the last issue.
    pub(crate) cpu: u32,
    /// Hardware queue, if a driver told.
    pub(crate) queue: Option<u32>,
    /// Times it was issued again.
    pub(crate) requeues: u32,
    /// Back in the block layer after a requeue.
    requeued: bool,
    pub(crate) setup: Option<u64>,
    /// Sent by the driver: time and event.
    pub(crate) sent: Option<(u64, Mark)>,
    pub(crate) returned: Option<u64>,
    pub(crate) driver_done: Option<DriverDone>,
    /// The next younger request of the same first sector.
    younger: Option<Ref>,
}

/// What an issue was.
pub(crate) enum Issued {
    New(Ref),
    /// The same request again; whether a requeue event told so.
    Again(Ref, bool),
}

/// What a completion was.
pub(crate) enum Completed {
    /// A request's end; the bios that ended with it or lost sectors to it are in `Block::ended`.
    Request(Request),
    /// Part of a request; the rest is still at the device.
    Part,
    /// The end of a bio that went through the flush machinery, after its requests.
    FlushEnd(IoBio),
    /// The end of a request that was issued before the trace.
    Unknown,
    /// Nothing that counts.
    Nothing,
}

/// All that is in flight.
#[derive(Debug, Default)]
pub(crate) struct Block {
    pub(crate) devices: Vec<Device>,
    /// The device of the last look-up.
    last: usize,
    /// Partition → disk.
    pub(crate) aliases: IntMap<Dev, Dev>,
    pub(crate) bios: Slab<Bio>,
    pub(crate) requests: Slab<Request>,
    /// The bios of I/Os that the last completion touched.
    pub(crate) ended: Vec<IoBio>,
    candidates: Vec<(u64, u64, bool, u64, Ref)>,
    serial: u64,
}

impl Block {
    pub(crate) fn bio(&self, at: Ref) -> Option<&Bio> {
        self.bios.get(at)
    }

    /// The number of a device, partitions resolved; `None` when there are too many.
    #[inline]
    pub(crate) fn device(&mut self, dev: Dev) -> Option<usize> {
        if self
            .devices
            .get(self.last)
            .is_some_and(|d| d.out.dev == dev)
        {
            return Some(self.last);
        }
        let dev = self.aliases.get(&dev).copied().unwrap_or(dev);
        let known = self.devices.iter().position(|d| d.out.dev == dev);
        if known.is_none() && self.devices.len() < limits::DEVICES {
            self.devices.push(Device::new(dev));
        }
        let at = known.or_else(|| self.devices.len().checked_sub(1));
        self.last = at?;
        at.filter(|&at| self.devices.get(at).is_some_and(|d| d.out.dev == dev))
    }

    /// Whether bios or requests of this device number were seen.
    pub(crate) fn knows(&self, dev: Dev) -> bool {
        self.devices.iter().any(|d| d.out.dev == dev)
    }

    /// A bio of a device; its place in an I/O if it has one.
    pub(crate) fn queue(
        &mut self,
        device: usize,
        span: Span,
        pid: i32,
        place: Option<IoBio>,
        helper: bool,
    ) -> Option<Ref> {
        let on = self.devices.get_mut(device)?;
        on.out.bios += 1;
        if on.waiting.len() + on.flushes.len() > limits::IN_FLIGHT {
            self.forget_bios(device);
        }
        self.serial += 1;
        let serial = self.serial;
        let needs_flush = span.rwbs.preflush();
        let bio = self.bios.insert(Bio {
            span,
            pid,
            io: place,
            helper,
            serial,
            to_issue: span.sectors,
            to_finish: span.sectors,
            needs_flush,
            flushing: false,
        });
        let on = self.devices.get_mut(device)?;
        if span.sectors > 0 {
            on.waiting.insert((span.sector, serial), bio);
            on.longest = on.longest.max(u64::from(span.sectors));
        }
        if needs_flush || span.rwbs.fua() {
            on.flushes.push_back(bio);
        }
        Some(bio)
    }

    fn forget_bios(&mut self, device: usize) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        for (_, at) in on.waiting.drain() {
            self.bios.remove(at);
        }
        for at in std::mem::take(&mut on.flushes) {
            self.bios.remove(at);
        }
    }

    /// The I/O of a bio that waits with this first sector.
    pub(crate) fn waiting_at(&mut self, dev: Dev, sector: u64) -> Option<(usize, Ref)> {
        if !self.knows(dev) && !self.aliases.contains_key(&dev) {
            return None;
        }
        let device = self.device(dev)?;
        let first = self.devices.get(device)?.waiting.at(sector).next();
        first.map(|at| (device, at))
    }

    /// A bio of a stacked device becomes one of the device below. `None` without such a bio.
    pub(crate) fn remapped(&mut self, from: (Dev, u64), to: (Dev, u64)) -> Option<Ref> {
        let at = match self.waiting_at(from.0, from.1) {
            Some((_, at)) => at,
            None => self.flush_at(from)?,
        };
        let (above, below) = (self.device(from.0)?, self.device(to.0)?);
        let bio = self.bios.get_mut(at)?;
        let on = self.devices.get_mut(above)?;
        on.waiting.remove((bio.span.sector, bio.serial));
        let flushes = on.flushes.iter().position(|&f| f == at);
        let flushes = flushes.and_then(|place| on.flushes.remove(place));
        on.out.bios = on.out.bios.saturating_sub(1);
        (bio.span.dev, bio.span.sector) = to;
        let (key, sectors) = ((bio.span.sector, bio.serial), bio.span.sectors);
        let on = self.devices.get_mut(below)?;
        on.out.bios += 1;
        on.flushes.extend(flushes);
        if sectors > 0 {
            on.waiting.insert(key, at);
            on.longest = on.longest.max(u64::from(sectors));
        }
        Some(at)
    }

    /// The youngest bio of a device that is a flush and nothing else.
    fn flush_at(&mut self, (dev, sector): (Dev, u64)) -> Option<Ref> {
        if !self.knows(dev) {
            return None;
        }
        let device = self.device(dev)?;
        let bios = &self.bios;
        let bare = |at: &&Ref| {
            let bio = bios.get(**at);
            bio.is_some_and(|b| b.span.sectors == 0 && b.span.sector == sector && !b.flushing)
        };
        self.devices
            .get(device)?
            .flushes
            .iter()
            .rev()
            .find(bare)
            .copied()
    }

    /// A bio goes on as another one: its place in an I/O.
    pub(crate) fn replaced(&mut self, at: Ref) -> Option<IoBio> {
        let bio = self.bios.remove(at)?;
        let device = self.device(bio.span.dev)?;
        let on = self.devices.get_mut(device)?;
        on.waiting.remove((bio.span.sector, bio.serial));
        on.out.bios = on.out.bios.saturating_sub(1);
        bio.io
    }

    /// Whether a request is not complete yet.
    pub(crate) fn is_open(&self, at: Ref) -> bool {
        self.requests.get(at).is_some()
    }

    /// A request goes to the driver.
    pub(crate) fn issue(&mut self, device: usize, span: Span, from: &From) -> Issued {
        if let Some(again) = self.find_live(device, &span, |r| r.requeued) {
            return self.reissue(again, from);
        }
        let mut parts = self.carried(device, &span, from.pid);
        if parts.is_empty() && span.sectors > 0 {
            if let Some(again) = self.find_live(device, &span, |_| true) {
                return self.reissue(again, from);
            }
            if self.adopt(device, &span) {
                parts = self.carried(device, &span, from.pid);
            }
        }
        self.serial += 1;
        let request = self.requests.insert(Request {
            span,
            device,
            parts,
            owner: None,
            category: Category::Unattributed,
            seq: self.serial,
            issued: from.ts,
            issue_task: from.task,
            cpu: from.cpu,
            queue: None,
            requeues: 0,
            requeued: false,
            setup: None,
            sent: None,
            returned: None,
            driver_done: None,
            younger: None,
        });
        self.hang(device, key(&span), request);
        Issued::New(request)
    }

    fn carried(&mut self, device: usize, span: &Span, pid: i32) -> Parts {
        if span.sectors > 0 {
            self.cover(device, span, pid)
        } else if span.rwbs.op() == b'F' {
            self.take_flushers(device)
        } else {
            Parts::new()
        }
    }

    /// Puts a request behind those of the same first sector.
    fn hang(&mut self, device: usize, key: u64, request: Ref) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        let mut at = match on.by_sector.entry(key) {
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(request);
                return;
            }
            std::collections::hash_map::Entry::Occupied(taken) => *taken.get(),
        };
        while let Some(next) = self.requests.get(at).and_then(|r| r.younger) {
            at = next;
        }
        if let Some(last) = self.requests.get_mut(at) {
            last.younger = Some(request);
        }
    }

    fn unhang(&mut self, device: usize, key: u64, request: Ref) {
        let younger = self
            .requests
            .get_mut(request)
            .and_then(|r| r.younger.take());
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        let Some(&first) = on.by_sector.get(&key) else {
            return;
        };
        if first == request {
            match younger {
                Some(next) => on.by_sector.insert(key, next),
                None => on.by_sector.remove(&key),
            };
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

    fn reissue(&mut self, again: Ref, from: &From) -> Issued {
        let mut told = false;
        if let Some(request) = self.requests.get_mut(again) {
            told = request.requeued;
            request.requeues += 1;
            (request.issued, request.requeued) = (from.ts, false);
            (request.issue_task, request.cpu) = (from.task, from.cpu);
            (request.setup, request.sent, request.returned) = (None, None, None);
        }
        Issued::Again(again, told)
    }

    pub(crate) fn requeue(&mut self, device: usize, span: &Span) {
        if let Some(at) = self.find_live(device, span, |r| !r.requeued) {
            if let Some(request) = self.requests.get_mut(at) {
                request.requeued = true;
            }
        }
    }

    /// A request of the same place and operation, oldest first.
    fn find_live(
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

    /// Bios of a device without requests whose sectors become this device's request: a partition
    /// whose `block_bio_remap` was not recorded. Tells whether there were any.
    fn adopt(&mut self, device: usize, span: &Span) -> bool {
        let bios = &self.bios;
        let fits = |d: &Device| {
            let mut here = d.waiting.at(span.sector);
            let op = span.rwbs.op();
            d.out.requests.seen == 0
                && d.by_sector.is_empty()
                && here.any(|at| bios.get(at).is_some_and(|b| b.span.rwbs.op() == op))
        };
        let Some(from) = self
            .devices
            .iter()
            .position(fits)
            .filter(|&from| from != device)
        else {
            return false;
        };
        let Some(part) = self.devices.get_mut(from) else {
            return false;
        };
        let mut taken = std::mem::replace(part, Device::new(part.out.dev));
        let Some(disk) = self.devices.get_mut(device) else {
            return false;
        };
        disk.longest = disk.longest.max(taken.longest);
        for (place, bio) in taken.waiting.drain() {
            disk.waiting.insert(place, bio);
        }
        disk.flushes.extend(taken.flushes);
        disk.out.add(&taken.out);
        let (from, to) = (taken.out.dev, disk.out.dev);
        self.aliases.insert(from, to);
        true
    }

    /// The bios that fill the request's sectors, each sector from one bio: the issuing task's own
    /// before others', older before younger.
    fn cover(&mut self, device: usize, span: &Span, pid: i32) -> Parts {
        let mut parts = Parts::new();
        let Some(on) = self.devices.get_mut(device) else {
            return parts;
        };
        let end = span.sector.saturating_add(u64::from(span.sectors));
        let reach = span.sector.saturating_sub(on.longest);
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        candidates.extend(on.waiting.range((reach, 0)..(end, 0)).filter_map(|at| {
            let bio = self.bios.get(at)?;
            let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
            let fits = bio_end > span.sector && bio.span.rwbs.op() == span.rwbs.op();
            fits.then_some((bio.span.sector, bio_end, bio.pid != pid, bio.serial, at))
        }));
        if candidates.len() > 1 {
            candidates.sort_unstable_by_key(|&(_, _, foreign, serial, _)| (foreign, serial));
        }
        let mut at = span.sector;
        while at < end {
            let here = candidates
                .iter()
                .position(|&(from, to, ..)| from <= at && at < to);
            let Some(&(from, to, _, serial, bio)) = here.and_then(|place| candidates.get(place))
            else {
                let later = candidates.iter().map(|c| c.0).filter(|&from| from > at);
                at = later.min().unwrap_or(end);
                continue;
            };
            let taken = to.min(end) - at;
            if let Some(bio) = self.bios.get_mut(bio) {
                bio.to_issue = bio.to_issue.saturating_sub(taken as u32);
                if bio.to_issue == 0 {
                    on.waiting.remove((from, serial));
                }
            }
            parts.push(bio);
            at += taken;
        }
        self.candidates = candidates;
        parts
    }

    /// A completion event.
    pub(crate) fn complete(&mut self, device: usize, span: &Span) -> Completed {
        self.ended.clear();
        // Of several that begin at this sector the one of this length; a part of one otherwise.
        let Some(at) = self
            .find_live(device, span, |r| {
                !r.requeued && r.span.sectors == span.sectors
            })
            .or_else(|| self.find_live(device, span, |r| !r.requeued))
            .or_else(|| self.find_live(device, span, |_| true))
        else {
            return if span.sectors == 0 {
                self.flush_end(device, span)
            } else {
                Completed::Unknown
            };
        };
        self.unhang(device, key(span), at);
        let Some(request) = self.requests.get_mut(at) else {
            return Completed::Nothing;
        };
        if span.sectors < request.span.sectors {
            let parts = request.parts.clone();
            request.span.sector = request.span.sector.saturating_add(u64::from(span.sectors));
            request.span.sectors -= span.sectors;
            let rest = key(&request.span);
            self.hang(device, rest, at);
            self.finish_parts(&parts, span);
            return Completed::Part;
        }
        match self.requests.remove(at) {
            Some(request) => {
                self.finish_parts(&request.parts, span);
                Completed::Request(request)
            }
            None => Completed::Nothing,
        }
    }

    /// Takes the completed sectors off the bios; leaves those that belong to an I/O in `ended`.
    fn finish_parts(&mut self, parts: &Parts, done: &Span) {
        let end = done.sector.saturating_add(u64::from(done.sectors));
        for &at in parts {
            let Some(bio) = self.bios.get_mut(at) else {
                continue;
            };
            self.ended.extend(bio.io);
            if done.sectors == 0 {
                (bio.flushing, bio.needs_flush) = (false, false);
                continue;
            }
            let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
            let shared = bio_end
                .min(end)
                .saturating_sub(bio.span.sector.max(done.sector));
            bio.to_finish = bio.to_finish.saturating_sub(shared as u32);
            let lingers = bio.span.rwbs.fua() || bio.span.rwbs.preflush();
            if bio.to_finish == 0 && bio.to_issue == 0 && !lingers {
                self.bios.remove(at);
            }
        }
    }

    /// Forgets everything in flight, after a gap in the events; counts the requests.
    pub(crate) fn clear(&mut self) {
        for request in self.requests.drain() {
            if let Some(device) = self.devices.get_mut(request.device) {
                device.out.requests.seen += 1;
                device.out.requests.in_flight += 1;
            }
        }
        self.devices.iter_mut().for_each(Device::clear);
        self.bios.drain().for_each(drop);
    }
}

/// Who issues a request, where and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    pub(crate) ts: u64,
    pub(crate) pid: i32,
    /// The task's key: idle tasks differ by CPU.
    pub(crate) task: i32,
    pub(crate) cpu: u32,
}
