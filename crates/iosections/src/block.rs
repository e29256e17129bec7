//! Bios and requests: which request carries which bio.
//!
//! Requests are matched to bios by the sectors they share, never by their first sector alone: a
//! split or a merge keeps the sectors and changes where they start. A flush has no sectors; it
//! belongs to the bios that wait for one (`flush`).

use crate::device::{Device, key};
use crate::event::{Dev, Span};
use crate::limits;
use crate::request::{From, Request};
use crate::slab::{IntMap, Ref, Slab};

/// A bio of an I/O that a completion touched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndedBio {
    pub(crate) place: IoBio,
    /// Nothing more is to come of it.
    pub(crate) over: bool,
}

/// A bio's place in an I/O: the I/O, and the index in its list of bios.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoBio {
    pub(crate) io: Ref,
    pub(crate) index: usize,
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts
pub(crate) struct Bio {
    pub(crate) span: Span,
    pub(crate) pid: i32,
    pub(crate) io: Option<IoBio>,
    /// Submitted by another task than the I/O's.
    pub(crate) helper: bool,
    /// Submitted by a helper, and nothing shows for whom.
    pub(crate) ambiguous: bool,
    pub(crate) serial: u64,
    pub(crate) to_issue: u32,
    pub(crate) to_finish: u32,
    /// A flush may belong to it, before its data (or instead of data) or after.
    pub(crate) flushes: bool,
    /// Waits for a flush before its data.
    pub(crate) needs_flush: bool,
    /// A flush for it is at the device.
    pub(crate) flushing: bool,
}

/// Who submits a bio.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submitter {
    pub(crate) pid: i32,
    pub(crate) helper: bool,
    pub(crate) ambiguous: bool,
}

impl Bio {
    /// Whether a request is just this bio.
    pub(crate) fn is_whole(&self, request: &Span) -> bool {
        let (own, other) = (&self.span, request);
        (own.sector, own.sectors) == (other.sector, other.sectors)
            && own.rwbs.same_op(&other.rwbs)
            && own.sector.checked_add(u64::from(own.sectors)).is_some()
    }
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
    Request(Box<Request>),
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
    /// The device of the last look-up, and its place.
    last: Option<(Dev, usize)>,
    /// Partition → disk.
    pub(crate) aliases: IntMap<Dev, Dev>,
    pub(crate) bios: Slab<Bio>,
    /// Boxed, since they are large and only their places move.
    pub(crate) requests: Slab<Box<Request>>,
    /// Requests that are over, whose memory is used again.
    #[allow(clippy::vec_box)] // they go back as they came
    spare: Vec<Box<Request>>,
    /// The bios of I/Os that the last completion touched.
    pub(crate) ended: Vec<EndedBio>,
    pub(crate) candidates: Vec<(u64, u64, bool, u64, Ref)>,
    pub(crate) serial: u64,
    /// Requests that are back in the block layer.
    requeued: usize,
}

impl Block {
    pub(crate) fn bio(&self, at: Ref) -> Option<&Bio> {
        self.bios.get(at)
    }

    /// The number of a device, partitions resolved; `None` when there are too many.
    #[inline]
    pub(crate) fn device(&mut self, dev: Dev) -> Option<usize> {
        match self.last {
            Some((last, at)) if last == dev => Some(at),
            _ => self.find_device(dev),
        }
    }

    /// The number of a request's device; its span becomes that of the whole device.
    #[inline]
    pub(crate) fn whole_device(&mut self, span: &mut Span) -> Option<usize> {
        match self.last {
            Some((last, at)) if last == span.dev => Some(at),
            _ => {
                let at = self.find_device(span.dev)?;
                span.dev = self.devices.get(at)?.out.dev;
                Some(at)
            }
        }
    }

    #[inline(never)]
    fn find_device(&mut self, dev: Dev) -> Option<usize> {
        let dev = self.aliases.get(&dev).copied().unwrap_or(dev);
        let known = self.devices.iter().position(|d| d.out.dev == dev);
        if known.is_none() && self.devices.len() < limits::DEVICES {
            self.devices.push(Device::new(dev));
        }
        let at = known.or_else(|| self.devices.len().checked_sub(1))?;
        let found = self.devices.get(at)?.out.dev;
        self.last = Some((found, at));
        Some(at).filter(|_| found == dev)
    }

    /// Whether bios or requests of this device number were seen.
    pub(crate) fn knows(&self, dev: Dev) -> bool {
        self.devices.iter().any(|d| d.out.dev == dev)
    }

    /// A bio of a device; its place in an I/O if it has one.
    #[inline(always)]
    #[allow(clippy::inline_always)] // called in one place, for every bio
    pub(crate) fn queue(
        &mut self,
        device: usize,
        span: Span,
        place: Option<IoBio>,
        from: Submitter,
    ) -> Option<Ref> {
        let on = self.devices.get(device)?;
        let waiting = on.waiting.len() + on.flushes.len();
        if waiting > limits::IN_FLIGHT || on.flushes.len() > limits::NEAR {
            self.forget_bios(device);
        }
        let on = self.devices.get_mut(device)?;
        on.out.bios += 1;
        self.serial += 1;
        let serial = self.serial;
        let needs_flush = span.rwbs.preflush();
        let flushes = needs_flush || span.rwbs.fua();
        let bio = self.bios.insert(Bio {
            span,
            pid: from.pid,
            io: place,
            helper: from.helper,
            ambiguous: from.ambiguous,
            serial,
            to_issue: span.sectors,
            to_finish: span.sectors,
            flushes,
            needs_flush,
            flushing: false,
        });
        if span.sectors > 0 {
            on.waiting.insert((span.sector, serial), bio);
            on.longest = on.longest.max(u64::from(span.sectors));
        }
        if flushes {
            on.flushes.push_back(bio);
        }
        Some(bio)
    }

    #[cold]
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

    /// Whether a request is not complete yet.
    pub(crate) fn is_open(&self, at: Ref) -> bool {
        self.requests.get(at).is_some()
    }

    /// A request goes to the driver.
    #[inline(always)]
    #[allow(clippy::inline_always)] // called in one place, for every request
    pub(crate) fn issue(&mut self, device: usize, span: Span, from: &From) -> Issued {
        if self.requeued > 0 {
            if let Some(again) = self.find_live(device, &span, |r| r.requeued) {
                return self.reissue(again, from);
            }
        }
        let mut new = self.spare.pop().unwrap_or_default();
        new.renew(device, span, from);
        self.carry(&mut new, from.pid);
        if new.parts.is_empty() && span.sectors > 0 {
            if let Some(again) = self.find_live(device, &span, |_| true) {
                self.recycle(new);
                return self.reissue(again, from);
            }
            self.carry_adopted(&mut new, from.pid);
        }
        self.serial += 1;
        new.seq = self.serial;
        let request = self.requests.insert(new);
        self.hang(device, key(&span), request);
        Issued::New(request)
    }

    #[cold]
    fn reissue(&mut self, again: Ref, from: &From) -> Issued {
        let mut told = false;
        if let Some(request) = self.requests.get_mut(again) {
            told = request.requeued;
            self.requeued -= usize::from(told);
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
                self.requeued += 1;
            }
        }
    }

    /// A completion event.
    #[inline(always)]
    #[allow(clippy::inline_always)] // called in one place, for every request
    pub(crate) fn complete(&mut self, device: usize, span: &Span) -> Completed {
        self.ended.clear();
        if let Some(request) = self.take_oldest(device, span) {
            self.finish_parts(&request.parts, span);
            return Completed::Request(request);
        }
        self.complete_other(device, span)
    }

    /// The same of a request behind others, of a part of one, or of none that is known.
    #[inline(never)]
    fn complete_other(&mut self, device: usize, span: &Span) -> Completed {
        let Some((at, sectors)) = self.find_done(device, span) else {
            return if span.sectors == 0 {
                self.flush_end(device, span)
            } else {
                Completed::Unknown
            };
        };
        if span.sectors < sectors {
            self.complete_part(device, at, span);
            return Completed::Part;
        }
        let Some(request) = self.requests.remove(at) else {
            return Completed::Nothing;
        };
        self.requeued -= usize::from(request.requeued);
        self.unhang(device, key(span), at, request.younger);
        self.finish_parts(&request.parts, span);
        Completed::Request(request)
    }

    /// The first sectors of a request are done.
    #[cold]
    fn complete_part(&mut self, device: usize, at: Ref, done: &Span) {
        let Some(request) = self.requests.get_mut(at) else {
            return;
        };
        let (parts, younger) = (request.parts.clone(), request.younger.take());
        request.span.sector = request.span.sector.saturating_add(u64::from(done.sectors));
        request.span.sectors -= done.sectors;
        let rest = key(&request.span);
        self.unhang(device, key(done), at, younger);
        self.hang(device, rest, at);
        self.finish_parts(&parts, done);
    }

    /// Keeps the memory of a request that is over, unless it is much.
    pub(crate) fn recycle(&mut self, request: Box<Request>) {
        if request.parts.capacity() <= 256 && self.spare.len() < 256 {
            self.spare.push(request);
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
        self.requeued = 0;
        self.devices.iter_mut().for_each(Device::clear);
        self.bios.drain().for_each(drop);
    }
}
