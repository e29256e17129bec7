//! What is known of bios and requests in flight, by device: the state of [`BlockRows`].
//!
//! It depends on what is in flight: see `limits`. What falls out goes as a row without end.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use crate::blockrow::{BlockRow, RowKind, RowSink};
use crate::event::{Dev, Span, Tag};
use crate::limits;
use crate::slab::{IntMap, Ref, Slab};

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
pub(crate) struct Bio {
    pub(crate) row: BlockRow,
    pub(crate) span: Span,
    pub(crate) serial: u64,
    /// The bio above that it carries on.
    pub(crate) parent: Option<Ref>,
    /// It has not been queued by itself: the one above goes on as it is.
    pub(crate) moved: bool,
    pub(crate) to_issue: u32,
    pub(crate) to_finish: u32,
    /// Sectors that went on to devices below.
    pub(crate) mapped: u32,
    /// Bios below that are not over.
    pub(crate) children: u32,
    pub(crate) split: bool,
}

/// The bios of a request, nearly always one.
pub(crate) type Carried = SmallVec<[Ref; 2]>;

#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) row: BlockRow,
    pub(crate) span: Span,
    pub(crate) bios: Carried,
    pub(crate) serial: u64,
    pub(crate) requeued: bool,
    /// Another one of its place is done, and it may have been this.
    pub(crate) doubted: bool,
}

/// One device.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) dev: Dev,
    /// Bios that wait for a request, by first sector and age.
    pub(crate) waiting: BTreeMap<(u64, u64), Ref>,
    pub(crate) longest: u64,
    /// Requests by first sector and age.
    pub(crate) live: BTreeMap<(u64, u64), Ref>,
    pub(crate) has_requests: bool,
    pub(crate) flushed: bool,
}

/// What the tasks and CPUs do.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Task {
    pub(crate) setup: Option<(u64, Tag)>,
    pub(crate) issued: Option<Ref>,
    pub(crate) inode: (Dev, u64),
}

/// Makes rows of the events of the block layer, in order of time.
#[derive(Debug)]
pub struct BlockRows<S> {
    pub(crate) sink: S,
    pub(crate) disks: Vec<Disk>,
    pub(crate) bios: Slab<Bio>,
    pub(crate) requests: Slab<Live>,
    /// Bios and requests by age, some of them over.
    pub(crate) ages: VecDeque<(Option<Ref>, Option<Ref>)>,
    pub(crate) parts: IntMap<Dev, Dev>,
    pub(crate) tasks: IntMap<i64, Task>,
    pub(crate) tags: IntMap<Tag, Ref>,
    pub(crate) serial: u64,
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

    pub(crate) fn task(&mut self, at: At) -> &mut Task {
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
    pub(crate) fn disk(&mut self, dev: Dev) -> usize {
        let part = self.parts.get(&dev).copied();
        self.own(part.unwrap_or(dev))
    }

    /// The place of a device as it is.
    pub(crate) fn own(&mut self, dev: Dev) -> usize {
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

    pub(crate) fn on(&mut self, place: usize) -> Option<&mut Disk> {
        self.disks.get_mut(place)
    }

    /// Makes room for one more: beyond the limit the oldest ones go as they are.
    pub(crate) fn make_room(&mut self) {
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
    pub(crate) fn covering(
        &self,
        place: usize,
        sector: u64,
        accept: impl Fn(&Bio) -> bool,
    ) -> Option<Ref> {
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
    pub(crate) fn insert(&mut self, mut bio: Bio) -> Option<Ref> {
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

    /// Requests of the same place and operation that are not complete, oldest first.
    pub(crate) fn same_place(&self, place: usize, span: &Span) -> Carried {
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
}

impl Bio {
    pub(crate) fn new(at: At, span: Span) -> Self {
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
    pub(crate) fn set_first(&mut self, at: At, (dev, inode): (Dev, u64)) {
        if self.parent.is_none() {
            (self.row.pid, self.row.top_queued) = (at.pid, at.ts);
            let own = [Some(self.span.dev), self.row.part];
            if own.contains(&Some(dev)) {
                self.row.inode = inode;
            }
        }
        self.row.cpu = at.cpu;
    }

    pub(crate) fn fits_op(&self, span: &Span) -> bool {
        self.span.rwbs.same_op(&span.rwbs)
    }

    pub(crate) fn fits(&self, span: &Span) -> bool {
        self.span.sectors == span.sectors && self.fits_op(span)
    }

    pub(crate) fn contains(&self, span: &Span) -> bool {
        let end = |s: &Span| s.sector.saturating_add(u64::from(s.sectors));
        self.span.sector < span.sector && end(span) <= end(&self.span)
    }

    /// The row of a bio that is given up: none where requests or others below have all of it.
    pub(crate) fn unissued(self) -> Option<BlockRow> {
        let whole = self.to_issue == self.span.sectors;
        (whole && !(self.moved && self.row.queued == 0)).then_some(self.row)
    }
}

/// Where a device's requests are looked up: those without sectors have a place of their own.
pub(crate) fn key(span: &Span) -> u64 {
    if span.sectors == 0 {
        u64::MAX
    } else {
        span.sector
    }
}
