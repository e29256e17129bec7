//! Bios: queued, split, carried on to partitions, disks and devices below, and over.

use crate::blockrow::{BlockRow, RowSink};
use crate::blockstate::{At, Bio, BlockRows, Carried, Disk};
use crate::event::{Dev, Span};
use crate::limits;
use crate::slab::Ref;

/// Major number of partitions that have no room beside their disk (`BLOCK_EXT_MAJOR`).
const EXTENDED: u32 = 259;

impl<S: RowSink> BlockRows<S> {
    pub(crate) fn queue(&mut self, at: At, span: Span) {
        let inode = self.task(at).inode;
        // The one that a remap has announced, or the rest of a split one.
        let same = |bio: &Bio| bio.moved && bio.span.sector == span.sector && bio.fits(&span);
        let place = self.disk(span.dev);
        if let Some(found) = self.covering(place, span.sector, same) {
            let Some(bio) = self.bios.get_mut(found) else {
                return;
            };
            (bio.moved, bio.row.queued) = (false, at.ts);
            bio.set_first(at, inode);
            let part = bio.row.part.zip(Some(bio.span.dev));
            if let Some((part, disk)) = part {
                self.learn_part(part, disk);
            }
            return;
        }
        let rest = |bio: &Bio| bio.split && bio.contains(&span) && bio.fits_op(&span);
        if self.covering(place, span.sector, rest).is_some() {
            return;
        }
        let mut bio = Bio::new(at, span);
        bio.set_first(at, inode);
        bio.row.part = Some(span.dev).filter(|dev| self.parts.contains_key(dev));
        self.insert(bio);
    }

    pub(crate) fn split(&mut self, dev: Dev, sector: u64) {
        let place = self.disk(dev);
        if let Some(found) = self.covering(place, sector, |_| true) {
            if let Some(bio) = self.bios.get_mut(found) {
                bio.split = true;
            }
        }
    }

    pub(crate) fn moment(&mut self, dev: Dev, sector: u64, set: impl Fn(&mut BlockRow)) {
        let place = self.disk(dev);
        if let Some(found) = self.covering(place, sector, |bio| bio.span.sector == sector) {
            if let Some(bio) = self.bios.get_mut(found) {
                set(&mut bio.row);
            }
        }
    }

    /// A bio of one device goes on as one of another; or one of a partition as one of its disk.
    pub(crate) fn remap(&mut self, at: At, span: Span, from: (Dev, u64)) {
        // Places on a partition are not those on its disk.
        let above = self.own(from.0);
        let announced = |bio: &Bio| bio.moved && bio.span.sector == from.1;
        let mut found = self.covering(above, from.1, announced);
        if found.is_none() && from.0 != span.dev {
            // Since Linux 4.14 what goes on to a partition is announced by the disk's number, but
            // with the place on the partition (`bio_dev` is the disk's): md on partitions.
            let on_disk = |bio: &Bio| announced(bio) && bio.parent.is_some() && bio.fits(&span);
            let disk = self.own(span.dev);
            found = self.covering(disk, from.1, on_disk);
        }
        if let Some(found) = found {
            self.move_on(found, span, from.0);
            return;
        }
        let open = |bio: &Bio| bio.fits_op(&span);
        let free = |bio: &Bio| bio.fits_op(&span) && bio.mapped < bio.span.sectors.max(1);
        let above = if from.0 == span.dev || self.parts.contains_key(&from.0) {
            None
        } else {
            let free = self.covering(above, from.1, free);
            free.or_else(|| self.covering(above, from.1, open))
        };
        let mut bio = Bio::new(at, span);
        bio.moved = true;
        if let Some((above, parent)) =
            above.and_then(|above| self.bios.get_mut(above).map(|bio| (above, bio)))
        {
            parent.mapped = parent.mapped.saturating_add(span.sectors.max(1));
            parent.children += 1;
            parent.row.below = parent.row.below.or(Some(span.dev));
            if parent.row.below_span.0 == 0 {
                parent.row.below_span.0 = at.ts;
            }
            bio.row.top = parent.row.top;
            bio.row.top_queued = parent.row.top_queued;
            (bio.row.pid, bio.row.inode) = (parent.row.pid, parent.row.inode);
            bio.parent = Some(above);
        } else {
            // Without a bio above it is a partition's, if it is queued next.
            bio.row.part = Some(from.0);
            bio.row.queued = 0;
        }
        self.insert(bio);
    }

    /// A request of one device goes on as one of another (request-based device mapper).
    pub(crate) fn request_remap(&mut self, at: At, span: Span, from: (Dev, u64)) {
        let above = Span {
            dev: from.0,
            sector: from.1,
            ..span
        };
        let place = self.disk(above.dev);
        let same = self.same_place(place, &above);
        let Some(live) = same.first().and_then(|&at| self.requests.get(at)) else {
            return;
        };
        let mut bio = Bio::new(at, span);
        (bio.row.pid, bio.row.inode) = (live.row.pid, live.row.inode);
        let (top, queued) = (live.row.top, live.row.top_queued);
        bio.moved = true;
        if let Some(new) = self.insert(bio) {
            if let Some(bio) = self.bios.get_mut(new) {
                (bio.row.top, bio.row.top_queued) = (top, queued);
            }
        }
    }

    fn learn_part(&mut self, part: Dev, disk: Dev) {
        let known = self
            .disks
            .iter()
            .any(|on| on.dev == part && on.has_requests);
        if part != disk && !known && self.parts.len() < limits::DEVICES {
            self.parts.insert(part, disk);
        }
    }

    /// An announced bio of a partition becomes one of its disk.
    fn move_on(&mut self, found: Ref, span: Span, part: Dev) {
        let Some(bio) = self.bios.get_mut(found) else {
            return;
        };
        let old = (bio.span.dev, bio.span.sector, bio.serial);
        (bio.span, bio.row.part) = (span, Some(part));
        (bio.row.sector, bio.to_issue, bio.to_finish) = (span.sector, span.sectors, span.sectors);
        let serial = bio.serial;
        let place = self.own(old.0);
        if let Some(on) = self.on(place) {
            on.waiting.remove(&(old.1, old.2));
        }
        let place = self.own(span.dev);
        let dev = self.disks.get(place).map(|on| on.dev);
        if let (Some(bio), Some(dev)) = (self.bios.get_mut(found), dev) {
            bio.row.dev = dev;
            if bio.parent.is_none() {
                bio.row.top = dev;
            }
        }
        if let Some(on) = self.on(place) {
            on.longest = on.longest.max(u64::from(span.sectors));
            on.waiting.insert((span.sector, serial), found);
        }
    }

    /// The bios of a partition whose remap was not recorded: those that this task queued last.
    pub(crate) fn adopt(&mut self, place: usize, span: &Span) -> bool {
        let fits = |on: &Disk| {
            let at = on.waiting.range((span.sector, 0)..=(span.sector, u64::MAX));
            let mut bios = at.filter_map(|(_, &at)| self.bios.get(at));
            let (part, disk) = (on.dev.major, span.dev.major);
            let may_be = part == disk || part == EXTENDED;
            may_be && !on.has_requests && bios.any(|bio| bio.fits(span) && bio.children == 0)
        };
        let others = self
            .disks
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != place);
        let mut candidates = others.filter(|(_, on)| fits(on)).map(|(other, _)| other);
        let (Some(part), None) = (candidates.next(), candidates.next()) else {
            return false;
        };
        let Some(taken) = self
            .on(part)
            .map(|on| (on.dev, std::mem::take(&mut on.waiting), on.longest))
        else {
            return false;
        };
        self.learn_part(taken.0, span.dev);
        for &at in taken.1.values() {
            if let Some(bio) = self.bios.get_mut(at) {
                (bio.row.part, bio.row.dev, bio.row.top) = (Some(taken.0), span.dev, span.dev);
                bio.span.dev = span.dev;
            }
        }
        if let Some(on) = self.on(place) {
            on.longest = on.longest.max(taken.2);
            on.waiting.extend(taken.1);
        }
        true
    }

    /// Sectors of bios are done; bios above that went on as they were are over with them.
    pub(crate) fn finish_bios(&mut self, at: At, bios: &[Ref], span: &Span) {
        let end = span.sector.saturating_add(u64::from(span.sectors));
        for &place in bios {
            let Some(bio) = self.bios.get_mut(place) else {
                continue;
            };
            let bio_end = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
            let shared = bio_end
                .min(end)
                .saturating_sub(bio.span.sector.max(span.sector));
            bio.to_finish = bio.to_finish.saturating_sub(shared as u32);
            if bio.to_finish == 0 && bio.to_issue == 0 {
                self.bio_over(at, place);
            }
        }
    }

    /// A bio is over: one above may be, too.
    fn bio_over(&mut self, at: At, place: Ref) {
        let Some(bio) = self.bios.remove(place) else {
            return;
        };
        let Some((above, parent)) = bio.parent.and_then(|at| Some((at, self.bios.get_mut(at)?)))
        else {
            return;
        };
        parent.children = parent.children.saturating_sub(1);
        parent.row.below_span.1 = at.ts;
        let all_on = parent.mapped >= parent.span.sectors.max(1);
        if bio.moved && parent.children == 0 && all_on {
            // The same bio went on: its end is that of what carried it.
            self.end_bio(at, above);
        }
    }

    /// The end of a bio that has a row of its own.
    fn end_bio(&mut self, at: At, place: Ref) {
        let Some(bio) = self.bios.get_mut(place) else {
            return;
        };
        (bio.row.done, bio.row.done_cpu) = (at.ts, at.cpu);
        if bio.row.ambiguous {
            bio.row.done = 0;
        }
        let (row, dev, waits) = (bio.row, bio.span.dev, (bio.span.sector, bio.serial));
        let disk = self.disk(dev);
        if let Some(on) = self.on(disk) {
            on.waiting.remove(&waits);
        }
        self.sink.row(&row);
        self.bio_over(at, place);
    }

    /// Tells whether there was such a bio; of those that requests carry there is none.
    pub(crate) fn bio_complete(&mut self, at: At, span: &Span) -> bool {
        let place = self.disk(span.dev);
        let Some(on) = self.disks.get(place).filter(|on| !on.has_requests) else {
            return false;
        };
        let bios = |at: &Ref| self.bios.get(*at);
        let exact = |bio: &Bio| bio.span.sectors == span.sectors && bio.fits_op(span);
        let here = on.waiting.range((span.sector, 0)..=(span.sector, u64::MAX));
        let exact: Carried = here
            .map(|(_, at)| *at)
            .filter(|at| bios(at).is_some_and(exact))
            .collect();
        // Of several alike, those whose parts below are not done are not over.
        let idle = |at: &&Ref| bios(at).is_some_and(|bio| bio.children == 0);
        let idle: Carried = exact.iter().filter(idle).copied().collect();
        let over = if idle.is_empty() { exact } else { idle };
        let found = over.first().copied();
        // A driver may have moved the bio's place on as it worked.
        let end = span.sector.saturating_add(u64::from(span.sectors));
        let found = found.or_else(|| {
            let low = span.sector.saturating_sub(on.longest);
            let near = on.waiting.range((low, 0)..=(span.sector, u64::MAX));
            let ends = |bio: &Bio| {
                let own = bio.span.sector.saturating_add(u64::from(bio.span.sectors));
                own == end && bio.span.sectors > 0 && bio.fits_op(span)
            };
            near.map(|(_, at)| *at)
                .find(|at| bios(at).is_some_and(ends))
        });
        for &like in over.iter().filter(|_| over.len() > 1) {
            if let Some(bio) = self.bios.get_mut(like) {
                bio.row.ambiguous = true;
            }
        }
        if let Some(found) = found {
            self.end_bio(at, found);
        }
        found.is_some()
    }
}
