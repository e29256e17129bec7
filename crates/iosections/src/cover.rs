//! Which bios fill the sectors of a request, and what of them is done.

use std::ops::Range;

use crate::block::{Block, EndedBio};
use crate::device::Device;
use crate::event::Span;
use crate::limits;
use crate::request::{Parts, Request};
use crate::waiting::Place;

impl Block {
    /// Finds the bios that a new request carries.
    #[inline(always)]
    #[allow(clippy::inline_always)] // for every request
    pub(crate) fn carry(&mut self, request: &mut Request, pid: i32) {
        let (device, span) = (request.device, &request.span);
        if span.sectors > 0 {
            self.cover(device, span, pid, &mut request.parts);
        } else if span.rwbs.op() == b'F' {
            self.take_flushers(device, &mut request.parts);
        }
    }

    /// The bios that fill the request's sectors, each sector from one bio: the issuing task's own
    /// before others', older before younger.
    #[inline(always)]
    #[allow(clippy::inline_always)] // for every request
    fn cover(&mut self, device: usize, span: &Span, pid: i32, parts: &mut Parts) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        let end = span.sector.saturating_add(u64::from(span.sectors));
        let reach = span.sector.saturating_sub(on.longest);
        let reach = (reach, 0)..(end, 0);
        // Nearly always a request is one of the bios that wait.
        if let Some((number, at)) = on.waiting.only(&reach) {
            if let Some(bio) = self.bios.get_mut(at).filter(|bio| bio.is_whole(span)) {
                bio.to_issue = bio.to_issue.saturating_sub(span.sectors);
                if bio.to_issue == 0 {
                    on.waiting.remove_number(number);
                }
                parts.push(at);
                return;
            }
        }
        self.cover_with(device, reach, span, pid, parts);
    }

    /// The same from any number of bios that begin at these places.
    #[inline(never)]
    fn cover_with(
        &mut self,
        device: usize,
        reach: Range<Place>,
        span: &Span,
        pid: i32,
        parts: &mut Parts,
    ) {
        let Some(on) = self.devices.get_mut(device) else {
            return;
        };
        let end = span.sector.saturating_add(u64::from(span.sectors));
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let near = on.waiting.range(reach).rev().take(limits::NEAR);
        candidates.extend(near.filter_map(|at| {
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
    }

    /// Finds the bios of a new request among those of a partition.
    #[cold]
    pub(crate) fn carry_adopted(&mut self, request: &mut Request, pid: i32) {
        if self.adopt(request.device, &request.span) {
            self.carry(request, pid);
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
                && d.places.is_empty()
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

    /// Takes the completed sectors off the bios; leaves those that belong to an I/O in `ended`.
    #[inline]
    pub(crate) fn finish_parts(&mut self, parts: &Parts, done: &Span) {
        let end = done.sector.saturating_add(u64::from(done.sectors));
        for &at in parts {
            self.bios.change(at, |bio| {
                if done.sectors == 0 {
                    (bio.flushing, bio.needs_flush) = (false, false);
                } else {
                    let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
                    let from = bio.span.sector.max(done.sector);
                    let shared = bio_end.min(end).saturating_sub(from);
                    bio.to_finish = bio.to_finish.saturating_sub(shared as u32);
                }
                let over = bio.to_finish == 0 && bio.to_issue == 0 && !bio.needs_flush;
                if let Some(place) = bio.io {
                    self.ended.push(EndedBio { place, over });
                }
                over && !bio.flushes
            });
        }
    }
}
