//! One row for every request, and for every bio of a device without requests.
//!
//! The [`Engine`](crate::Engine) measures what users asked for; this looks at the block layer alone,
//! and needs no event besides its own: write-back, journals, swap, kernel threads, passthrough, and
//! devices on devices (device mapper, md, zram, loop, `NVMe` multipath) all have rows. What no event
//! tells is absent from a row; nothing is inferred.
//!
//! Memory depends on what is in flight: see `limits`. What falls out goes as a row without end.

use std::collections::{BTreeMap, VecDeque};

use crate::blockrow::{BlockRow, RowKind, RowSink};
use crate::event::{Dev, Span, Tag};
use crate::limits;
use smallvec::SmallVec;

use crate::slab::{IntMap, Ref, Slab};

/// Major number of partitions that have no room beside their disk (`BLOCK_EXT_MAJOR`).
const EXTENDED: u32 = 259;

/// What an event tells of the block layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// `block_bio_queue`.
    BioQueue(Span),
    /// `block_bio_complete`: the end of a bio; of those that requests carry, too, on some kernels.
    BioComplete(Span),
    /// `block_bio_remap`: a bio (its place now) comes from another device or a partition.
    Remap(Span, (Dev, u64)),
    /// `block_rq_remap`: a request (its place now) comes from one of another device.
    RequestRemap(Span, (Dev, u64)),
    /// `block_split`: the bio goes on in two pieces.
    Split(Dev, u64),
    /// `block_getrq`.
    Getrq(Dev, u64),
    /// `block_rq_insert`.
    Insert(Dev, u64),
    /// `block_rq_issue`, with its bytes where the event has them.
    Issue(Span, u32),
    /// `block_rq_requeue`.
    Requeue(Span),
    /// `block_rq_complete`.
    Complete(Span),
    /// blktrace's C: of a request, or of a bio.
    CompleteAny(Span),
    /// A driver sets up the command of the request that it is given next.
    Setup(Tag),
    /// A driver sends the request that the task issued last; whether another one below it is still
    /// to do so, too.
    Send(Tag, bool),
    /// A driver reports the completion.
    Done(Tag),
    /// A file system names the inode that the task works on; 0: it is done with that.
    Inode(Dev, u64),
}

/// Where something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At {
    /// Time (clock units).
    pub ts: u64,
    /// CPU.
    pub cpu: u32,
    /// The task that is current on it.
    pub pid: i32,
}

/// A bio that is not over.
#[derive(Debug)]
struct Bio {
    row: BlockRow,
    span: Span,
    serial: u64,
    /// The bio above that it carries on.
    parent: Option<Ref>,
    /// It has not been queued by itself: the one above goes on as it is.
    moved: bool,
    to_issue: u32,
    to_finish: u32,
    /// Sectors that went on to devices below.
    mapped: u32,
    /// Bios below that are not over.
    children: u32,
    split: bool,
}

/// The bios of a request, nearly always one.
type Carried = SmallVec<[Ref; 2]>;

#[derive(Debug)]
struct Live {
    row: BlockRow,
    span: Span,
    bios: Carried,
    serial: u64,
    requeued: bool,
    /// Another one of its place is done, and it may have been this.
    doubted: bool,
}

/// One device.
#[derive(Debug, Default)]
struct Disk {
    dev: Dev,
    /// Bios that wait for a request, by first sector and age.
    waiting: BTreeMap<(u64, u64), Ref>,
    longest: u64,
    /// Requests by first sector and age.
    live: BTreeMap<(u64, u64), Ref>,
    has_requests: bool,
    flushed: bool,
}

/// What the tasks and CPUs do.
#[derive(Debug, Default, Clone, Copy)]
struct Task {
    setup: Option<(u64, Tag)>,
    issued: Option<Ref>,
    inode: (Dev, u64),
}

/// Makes rows of the events of the block layer, in order of time.
#[derive(Debug)]
pub struct BlockRows<S> {
    sink: S,
    disks: Vec<Disk>,
    bios: Slab<Bio>,
    requests: Slab<Live>,
    /// Bios and requests by age, some of them over.
    ages: VecDeque<(Option<Ref>, Option<Ref>)>,
    parts: IntMap<Dev, Dev>,
    tasks: IntMap<i64, Task>,
    tags: IntMap<Tag, Ref>,
    serial: u64,
}

impl<S: RowSink> BlockRows<S> {
    /// Starts; the rows go to the sink.
    pub fn new(sink: S) -> Self {
        Self {
            sink,
            disks: Vec::new(),
            bios: Slab::default(),
            requests: Slab::default(),
            ages: VecDeque::new(),
            parts: IntMap::default(),
            tasks: IntMap::default(),
            tags: IntMap::default(),
            serial: 0,
        }
    }

    /// Partitions and their disks, as far as they showed.
    pub fn partitions(&self) -> Vec<(Dev, Dev)> {
        let parts = self.parts.iter();
        let mut parts: Vec<_> = parts.map(|(&part, &disk)| (part, disk)).collect();
        parts.sort_unstable();
        parts
    }

    /// The sink.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Takes the next step.
    pub fn push(&mut self, at: At, step: &Step) {
        match *step {
            Step::BioQueue(span) => self.queue(at, span),
            Step::BioComplete(span) => _ = self.bio_complete(at, &span),
            Step::Remap(span, from) => self.remap(at, span, from),
            Step::RequestRemap(span, from) => self.request_remap(at, span, from),
            Step::Split(dev, sector) => self.split(dev, sector),
            Step::Getrq(dev, sector) => self.moment(dev, sector, |row| row.getrq = at.ts),
            Step::Insert(dev, sector) => self.moment(dev, sector, |row| row.insert = at.ts),
            Step::Issue(span, bytes) => self.issue(at, span, bytes),
            Step::Requeue(span) => self.requeue(&span),
            Step::Complete(span) => self.complete(at, &span, false),
            Step::CompleteAny(span) => self.complete(at, &span, true),
            Step::Setup(tag) => self.task(at).setup = Some((at.ts, tag)),
            Step::Send(tag, above) => self.send(at, tag, above),
            Step::Done(tag) => self.driver_done(at, tag),
            Step::Inode(dev, inode) => self.task(at).inode = (dev, inode),
        }
    }

    /// Events are missing: what is in flight goes as it is.
    pub fn gap(&mut self) {
        self.give_all(true);
    }

    /// Ends. Gives the sink, after what was still in flight.
    pub fn finish(mut self) -> S {
        self.give_all(false);
        self.sink
    }

    fn give_all(&mut self, lost: bool) {
        let mut left: Vec<BlockRow> = self.requests.drain().map(|live| live.row).collect();
        left.extend(self.bios.drain().filter_map(|bio| bio.unissued()));
        left.sort_by_key(|row| (row.queued.max(row.issued), row.sector));
        for mut row in left {
            row.lost |= lost;
            self.sink.row(&row);
        }
        for disk in &mut self.disks {
            disk.waiting.clear();
            disk.live.clear();
        }
        self.ages.clear();
        self.tags.clear();
        self.tasks.clear();
    }

    fn task(&mut self, at: At) -> &mut Task {
        if self.tasks.len() >= limits::TASKS {
            self.tasks.clear();
        }
        // Every CPU has its own idle task.
        let key = if at.pid == 0 {
            -1 - i64::from(at.cpu)
        } else {
            i64::from(at.pid)
        };
        self.tasks.entry(key).or_default()
    }

    /// The place of a device, partitions resolved.
    fn disk(&mut self, dev: Dev) -> usize {
        let part = self.parts.get(&dev).copied();
        self.own(part.unwrap_or(dev))
    }

    /// The place of a device as it is.
    fn own(&mut self, dev: Dev) -> usize {
        if let Some(place) = self.disks.iter().position(|disk| disk.dev == dev) {
            return place;
        }
        // One more than are told apart holds all the rest.
        if self.disks.len() <= limits::DEVICES {
            self.disks.push(Disk {
                dev,
                ..Disk::default()
            });
        }
        self.disks.len() - 1
    }

    fn on(&mut self, place: usize) -> Option<&mut Disk> {
        self.disks.get_mut(place)
    }

    /// Makes room for one more: beyond the limit the oldest ones go as they are.
    fn make_room(&mut self) {
        while self.ages.len() >= limits::IN_FLIGHT {
            let Some(oldest) = self.ages.pop_front() else {
                break;
            };
            let full = self.bios.len() + self.requests.len() >= limits::IN_FLIGHT / 2;
            match oldest {
                (Some(bio), _) if self.bios.get(bio).is_none() => {}
                (_, Some(request)) if self.requests.get(request).is_none() => {}
                (Some(bio), _) if full => self.drop_bio(bio),
                (_, Some(request)) if full => self.drop_request(request),
                kept => self.ages.push_back(kept),
            }
        }
    }

    fn drop_bio(&mut self, at: Ref) {
        let Some(bio) = self.bios.remove(at) else {
            return;
        };
        let place = self.disk(bio.span.dev);
        if let Some(on) = self.on(place) {
            on.waiting.remove(&(bio.span.sector, bio.serial));
        }
        if let Some(row) = bio.unissued() {
            self.sink.row(&row);
        }
    }

    fn drop_request(&mut self, at: Ref) {
        let Some(live) = self.requests.remove(at) else {
            return;
        };
        let place = self.disk(live.span.dev);
        if let Some(on) = self.on(place) {
            on.live.remove(&(key(&live.span), live.serial));
        }
        for bio in live.bios {
            self.bios.remove(bio);
        }
        self.sink.row(&live.row);
    }

    /// The oldest bio at a device's place that covers a sector and is accepted.
    fn covering(&self, place: usize, sector: u64, accept: impl Fn(&Bio) -> bool) -> Option<Ref> {
        let on = self.disks.get(place)?;
        let low = sector.saturating_sub(on.longest);
        let mut found: Option<(u64, Ref)> = None;
        for (&(_, serial), &at) in on.waiting.range((low, 0)..=(sector, u64::MAX)) {
            let Some(bio) = self.bios.get(at) else {
                continue;
            };
            let end = bio
                .span
                .sector
                .saturating_add(u64::from(bio.span.sectors.max(1)));
            if end > sector && accept(bio) && found.is_none_or(|(age, _)| serial < age) {
                found = Some((serial, at));
            }
        }
        found.map(|(_, at)| at)
    }

    /// A new bio of a device.
    fn insert(&mut self, mut bio: Bio) -> Option<Ref> {
        self.make_room();
        self.serial += 1;
        bio.serial = self.serial;
        let span = bio.span;
        let place = if bio.moved {
            self.own(span.dev)
        } else {
            self.disk(span.dev)
        };
        let serial = bio.serial;
        bio.row.dev = self.disks.get(place)?.dev;
        if bio.parent.is_none() {
            bio.row.top = bio.row.dev;
        }
        let at = self.bios.insert(bio);
        self.ages.push_back((Some(at), None));
        let on = self.on(place)?;
        on.longest = on.longest.max(u64::from(span.sectors));
        on.waiting.insert((span.sector, serial), at);
        Some(at)
    }

    fn queue(&mut self, at: At, span: Span) {
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

    fn split(&mut self, dev: Dev, sector: u64) {
        let place = self.disk(dev);
        if let Some(found) = self.covering(place, sector, |_| true) {
            if let Some(bio) = self.bios.get_mut(found) {
                bio.split = true;
            }
        }
    }

    fn moment(&mut self, dev: Dev, sector: u64, set: impl Fn(&mut BlockRow)) {
        let place = self.disk(dev);
        if let Some(found) = self.covering(place, sector, |bio| bio.span.sector == sector) {
            if let Some(bio) = self.bios.get_mut(found) {
                set(&mut bio.row);
            }
        }
    }

    /// A bio of one device goes on as one of another; or one of a partition as one of its disk.
    fn remap(&mut self, at: At, span: Span, from: (Dev, u64)) {
        // Places on a partition are not those on its disk.
        let above = self.own(from.0);
        let announced = |bio: &Bio| bio.moved && bio.span.sector == from.1;
        if let Some(found) = self.covering(above, from.1, announced) {
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
        match above.and_then(|above| self.bios.get_mut(above).map(|bio| (above, bio))) {
            Some((above, parent)) => {
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
            }
            None => {
                // Without a bio above it is a partition's, if it is queued next.
                bio.row.part = Some(from.0);
                bio.row.queued = 0;
            }
        }
        self.insert(bio);
    }

    /// A request of one device goes on as one of another (request-based device mapper).
    fn request_remap(&mut self, at: At, span: Span, from: (Dev, u64)) {
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

    /// The bios of a partition whose remap was not recorded: those that this task queued last.
    fn adopt(&mut self, place: usize, span: &Span) -> bool {
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

    fn issue(&mut self, at: At, mut span: Span, bytes: u32) {
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
            live.is_some_and(|live| live.span.sectors == span.sectors)
        };
        let rivals: SmallVec<[Ref; 4]> = same.iter().copied().filter(rivals).collect();
        row.ambiguous = !rivals.is_empty();
        row.bytes = if span.sectors > 0 {
            u64::from(span.sectors) << 9
        } else {
            u64::from(bytes)
        };
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

    /// Requests of the same place and operation that are not complete, oldest first.
    fn same_place(&self, place: usize, span: &Span) -> Carried {
        let Some(on) = self.disks.get(place) else {
            return Carried::new();
        };
        let of_key = on.live.range((key(span), 0)..=(key(span), u64::MAX));
        let same = |at: &Ref| {
            let live = self.requests.get(*at);
            live.is_some_and(|live| {
                (live.span.sectors == 0) == (span.sectors == 0)
                    && live.span.rwbs.same_op(&span.rwbs)
            })
        };
        of_key
            .map(|(_, &at)| at)
            .filter(same)
            .take(limits::NEAR)
            .collect()
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

    fn requeue(&mut self, span: &Span) {
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

    fn send(&mut self, at: At, tag: Tag, above: bool) {
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

    fn driver_done(&mut self, at: At, tag: Tag) {
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

    fn complete(&mut self, at: At, span: &Span, any: bool) {
        let place = self.disk(span.dev);
        if let Some(on) = self.on(place) {
            on.has_requests |= !any;
        }
        let mut same = self.same_place(place, span);
        let requests = &self.requests;
        same.retain(|at| requests.get(*at).is_some_and(|live| !live.requeued));
        let is_whole = |at: &Ref| {
            requests
                .get(*at)
                .is_some_and(|l| l.span.sectors == span.sectors)
        };
        let whole: Carried = same.iter().copied().filter(is_whole).collect();
        if whole.is_empty() {
            match same.first() {
                Some(&request) => self.part_done(request, span),
                None => self.complete_unknown(at, place, span),
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

    /// Sectors of bios are done; bios above that went on as they were are over with them.
    fn finish_bios(&mut self, at: At, bios: &[Ref], span: &Span) {
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
    fn bio_complete(&mut self, at: At, span: &Span) -> bool {
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

impl Bio {
    fn new(at: At, span: Span) -> Self {
        let row = BlockRow {
            kind: RowKind::Bio,
            dev: span.dev,
            top: span.dev,
            top_queued: at.ts,
            rwbs: span.rwbs,
            sector: span.sector,
            bytes: u64::from(span.sectors) << 9,
            bios: 1,
            pid: at.pid,
            cpu: at.cpu,
            queued: at.ts,
            ..BlockRow::default()
        };
        Self {
            row,
            span,
            serial: 0,
            parent: None,
            moved: false,
            to_issue: span.sectors,
            to_finish: span.sectors,
            mapped: 0,
            children: 0,
            split: false,
        }
    }

    /// Who asked first: the task of the bio above where there is one.
    fn set_first(&mut self, at: At, (dev, inode): (Dev, u64)) {
        if self.parent.is_none() {
            (self.row.pid, self.row.top_queued) = (at.pid, at.ts);
            let own = [Some(self.span.dev), self.row.part];
            if own.contains(&Some(dev)) {
                self.row.inode = inode;
            }
        }
        self.row.cpu = at.cpu;
    }

    fn fits_op(&self, span: &Span) -> bool {
        self.span.rwbs.same_op(&span.rwbs)
    }

    fn fits(&self, span: &Span) -> bool {
        self.span.sectors == span.sectors && self.fits_op(span)
    }

    fn contains(&self, span: &Span) -> bool {
        let end = |s: &Span| s.sector.saturating_add(u64::from(s.sectors));
        self.span.sector < span.sector && end(span) <= end(&self.span)
    }

    /// The row of a bio that is given up: none where requests or others below have all of it.
    fn unissued(self) -> Option<BlockRow> {
        let whole = self.to_issue == self.span.sectors;
        (whole && !(self.moved && self.row.queued == 0)).then_some(self.row)
    }
}

fn key(span: &Span) -> u64 {
    if span.sectors == 0 {
        u64::MAX
    } else {
        span.sector
    }
}
