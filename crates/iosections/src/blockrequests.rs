//! Requests: which bios they carry, issued, sent by a driver, requeued, and complete.

use smallvec::SmallVec;

use crate::blockrow::{BlockRow, RowKind, RowSink};
use crate::blockstate::{At, BlockRows, Carried, Live, key};
use crate::event::{Span, Tag};
use crate::limits;
use crate::slab::Ref;

/// Where a passthrough request completes: `blk_rq_pos` is -1, and its issue names no sectors at all.
pub(crate) const NOWHERE: u64 = u64::MAX;

impl<S: RowSink> BlockRows<S> {
    /// The bios of a request: those that wait for it with some of its sectors.
    fn carried(&self, place: usize, span: &Span) -> Carried {
        let Some(on) = self.disks.get(place) else {
            return Carried::new();
        };
        if span.sectors == 0 {
            // A flush is for all bios that are nothing else; of other requests without sectors
            // no event names the bios.
            let bare = |at: &Ref| self.bios.get(*at).is_some_and(|bio| bio.span.sectors == 0);
            let all = on.waiting.values().copied().filter(bare);
            return if span.rwbs.op() == b'F' {
                all.collect()
            } else {
                Carried::new()
            };
        }
        let end = span.sector.saturating_add(u64::from(span.sectors));
        let mut found: SmallVec<[(u64, Ref); 4]> = SmallVec::new();
        let low = span.sector.saturating_sub(on.longest);
        for (&(_, serial), &at) in on.waiting.range((low, 0)..(end.max(1), 0)) {
            let Some(bio) = self.bios.get(at) else {
                continue;
            };
            if bio.to_issue == 0 || !bio.fits_op(span) {
                continue;
            }
            let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
            if bio_end > span.sector {
                found.push((serial, at));
            }
        }
        found.sort_unstable_by_key(|&(serial, _)| serial);
        // Of several that cover the same sectors the oldest goes first; no more than are needed.
        let mut left = u64::from(span.sectors);
        let mut all = Carried::new();
        for (_, at) in found {
            if left == 0 {
                break;
            }
            let Some(bio) = self.bios.get(at) else {
                continue;
            };
            let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
            let shared = bio_end.min(end) - bio.span.sector.max(span.sector);
            left = left.saturating_sub(shared);
            all.push(at);
        }
        all
    }

    pub(crate) fn issue(&mut self, at: At, mut span: Span, bytes: u32) {
        let place = self.disk(span.dev);
        let Some(on) = self.on(place) else {
            return;
        };
        span.dev = on.dev;
        on.has_requests = true;
        on.flushed |= span.rwbs.op() == b'F';
        let ahead = on.live.len() as u32;
        let mut bios = self.carried(place, &span);
        let same = self.same_place(place, &span);
        let again = |live: &Live| live.requeued || (bios.is_empty() && live.row.bios > 0);
        let again = same
            .iter()
            .copied()
            .find(|&at| self.requests.get(at).is_some_and(again));
        if let Some(again) = again {
            self.reissue(at, again);
            return;
        }
        if bios.is_empty() && span.sectors > 0 && same.is_empty() && self.adopt(place, &span) {
            bios = self.carried(place, &span);
        }
        let mut row = self.row_of(&bios, &span);
        (row.issued, row.cpu, row.ahead) = (at.ts, at.cpu, ahead);
        let rivals = |at: &Ref| {
            let live = self.requests.get(*at);
            live.is_some_and(|live| {
                live.span.sectors == span.sectors
                    && (span.sectors > 0 || live.row.bytes >> 9 == u64::from(bytes) >> 9)
            })
        };
        let rivals: SmallVec<[Ref; 4]> = same.iter().copied().filter(rivals).collect();
        row.ambiguous = !rivals.is_empty();
        row.bytes = if span.sectors > 0 {
            u64::from(span.sectors) << 9
        } else {
            u64::from(bytes)
        };
        if span.sectors == 0 && bytes > 0 {
            row.sector = NOWHERE;
        }
        if bios.is_empty() {
            row.pid = at.pid;
        }
        for other in rivals {
            if let Some(live) = self.requests.get_mut(other) {
                live.row.ambiguous = true;
            }
        }
        self.take_sectors(place, &bios, &span);
        self.start(
            at,
            Live {
                row,
                span,
                bios,
                serial: 0,
                requeued: false,
                doubted: false,
            },
        );
    }

    /// A request is on its way.
    fn start(&mut self, at: At, mut live: Live) {
        self.make_room();
        self.serial += 1;
        live.serial = self.serial;
        let (place, key, serial) = (self.disk(live.span.dev), key(&live.span), self.serial);
        let request = self.requests.insert(live);
        self.ages.push_back((None, Some(request)));
        if let Some(on) = self.on(place) {
            on.live.insert((key, serial), request);
        }
        let task = self.task(at);
        task.issued = Some(request);
        if let Some((_, tag)) = task.setup.take() {
            self.name(tag, request);
        }
    }

    fn name(&mut self, tag: Tag, request: Ref) {
        if self.tags.len() >= limits::IN_FLIGHT {
            self.tags.clear();
        }
        self.tags.insert(tag, request);
    }

    /// What a request knows from its bios; the first one is the oldest.
    fn row_of(&self, bios: &[Ref], span: &Span) -> BlockRow {
        let first = bios.first().and_then(|&at| self.bios.get(at));
        let mut row = first.map_or_else(BlockRow::default, |bio| bio.row);
        (row.kind, row.dev, row.sector, row.rwbs) =
            (RowKind::Request, span.dev, span.sector, span.rwbs);
        (row.below, row.below_span) = (None, (0, 0));
        if first.is_none() {
            row.top = span.dev;
        }
        row.bios = bios.len() as u32;
        row
    }

    /// Takes the sectors of a request off the bios that wait.
    fn take_sectors(&mut self, place: usize, bios: &[Ref], span: &Span) {
        let end = span.sector.saturating_add(u64::from(span.sectors));
        for &at in bios {
            let Some(bio) = self.bios.get_mut(at) else {
                continue;
            };
            let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
            let shared = bio_end
                .min(end)
                .saturating_sub(bio.span.sector.max(span.sector));
            bio.to_issue = bio.to_issue.saturating_sub(shared as u32);
            if bio.to_issue == 0 {
                let waits = (bio.span.sector, bio.serial);
                if let Some(on) = self.disks.get_mut(place) {
                    on.waiting.remove(&waits);
                }
            }
        }
    }

    fn reissue(&mut self, at: At, again: Ref) {
        let Some(live) = self.requests.get_mut(again) else {
            return;
        };
        live.requeued = false;
        live.row.requeues += 1;
        (live.row.issued, live.row.cpu, live.row.sent) = (at.ts, at.cpu, 0);
        let task = self.task(at);
        task.issued = Some(again);
        if let Some((_, tag)) = task.setup.take() {
            self.name(tag, again);
        }
    }

    pub(crate) fn requeue(&mut self, span: &Span) {
        let place = self.disk(span.dev);
        let same = self.same_place(place, span);
        let waits = |at: &&Ref| self.requests.get(**at).is_some_and(|live| !live.requeued);
        if let Some(live) = same
            .iter()
            .find(waits)
            .copied()
            .and_then(|at| self.requests.get_mut(at))
        {
            live.requeued = true;
        }
    }

    pub(crate) fn send(&mut self, at: At, tag: Tag, above: bool) {
        let task = self.task(at);
        let issued = if above {
            task.issued
        } else {
            task.issued.take()
        };
        let Some(request) = issued else {
            self.tags.remove(&tag);
            return;
        };
        if let Some(live) = self.requests.get_mut(request) {
            live.row.sent = at.ts;
            self.name(tag, request);
        }
    }

    pub(crate) fn driver_done(&mut self, at: At, tag: Tag) {
        let Some(request) = self.tags.remove(&tag) else {
            return;
        };
        // The lowest driver's word counts: SCSI's comes after that of the host's driver.
        if let Some(live) = self.requests.get_mut(request) {
            if live.row.driver_done == 0 {
                live.row.driver_done = at.ts;
            }
        }
    }

    pub(crate) fn complete(&mut self, at: At, span: &Span, any: bool) {
        let place = self.disk(span.dev);
        if let Some(on) = self.on(place) {
            on.has_requests |= !any;
        }
        let nowhere = span.sector == NOWHERE;
        let sectors = if nowhere { 0 } else { span.sectors };
        let mut same = self.same_place(place, &Span { sectors, ..*span });
        let requests = &self.requests;
        same.retain(|at| requests.get(*at).is_some_and(|live| !live.requeued));
        let is_whole = |at: &Ref| {
            requests.get(*at).is_some_and(|l| {
                let size = !nowhere || l.row.bytes >> 9 == u64::from(span.sectors);
                l.span.sectors == sectors && size
            })
        };
        let whole: Carried = same.iter().copied().filter(is_whole).collect();
        if whole.is_empty() {
            match same.first() {
                Some(&request) if !nowhere => self.part_done(request, span),
                _ => self.complete_unknown(at, place, span),
            }
            return;
        }
        // Of several of one place, a driver that has reported just one leaves no doubt.
        let told = |at: &&Ref| requests.get(**at).is_some_and(|l| l.row.driver_done > 0);
        let mut reported = whole.iter().filter(told);
        let certain = match (reported.next(), reported.next()) {
            (Some(only), None) => Some(*only),
            _ => None,
        };
        if let Some(request) = certain.or_else(|| whole.first().copied()) {
            let sure = certain.is_some() || whole.len() == 1;
            self.clear_doubts(&whole, request, sure);
            self.request_done(at, request);
        }
    }

    /// One of several requests of a place is done: the only other one is no longer like it, unless it
    /// was not sure which of them it was.
    fn clear_doubts(&mut self, whole: &[Ref], done: Ref, sure: bool) {
        let last = whole.len() == 2;
        for &at in whole {
            let Some(live) = self.requests.get_mut(at) else {
                continue;
            };
            if !sure {
                live.doubted = true;
            } else if at == done || last {
                live.row.ambiguous &= live.doubted;
            }
        }
    }

    /// The first sectors of a request are done.
    fn part_done(&mut self, request: Ref, span: &Span) {
        let Some(live) = self.requests.get_mut(request) else {
            return;
        };
        let old = (key(&live.span), live.serial);
        live.span.sector = live.span.sector.saturating_add(u64::from(span.sectors));
        live.span.sectors = live.span.sectors.saturating_sub(span.sectors);
        let (moved, dev) = ((key(&live.span), live.serial), live.span.dev);
        let place = self.disk(dev);
        if let Some(on) = self.on(place) {
            on.live.remove(&old);
            on.live.insert(moved, request);
        }
    }

    fn request_done(&mut self, at: At, request: Ref) {
        let Some(live) = self.requests.remove(request) else {
            return;
        };
        let place = self.disk(live.span.dev);
        if let Some(on) = self.on(place) {
            on.live.remove(&(key(&live.span), live.serial));
        }
        let mut row = live.row;
        (row.done, row.done_cpu) = (at.ts, at.cpu);
        if row.ambiguous {
            row.done = 0;
        }
        self.sink.row(&row);
        let whole = Span {
            sector: row.sector,
            sectors: (row.bytes >> 9) as u32,
            ..live.span
        };
        self.finish_bios(at, &live.bios, &whole);
    }

    /// A completion of no request that is known: of a bio, or of one that began before the trace.
    fn complete_unknown(&mut self, at: At, place: usize, span: &Span) {
        let Some(on) = self.disks.get(place) else {
            return;
        };
        if span.sectors == 0 && on.flushed {
            return; // the end of a bio that went through the flush machinery
        }
        let dev = on.dev;
        if self.bio_complete(at, span) {
            return;
        }
        let span = Span { dev, ..*span };
        let bios = self.carried(place, &span);
        let mut row = self.row_of(&bios, &span);
        row.bytes = u64::from(span.sectors) << 9;
        (row.done, row.done_cpu) = (at.ts, at.cpu);
        self.take_sectors(place, &bios, &span);
        self.sink.row(&row);
        self.finish_bios(at, &bios, &span);
    }
}
