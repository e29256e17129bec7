//! The way down: bios, requests, and the hand-over to the driver.

use crate::block::{Bio, IoBio, Issued, Submitter};
use crate::engine::{Engine, Tasks};
use crate::event::{Dev, Driver, Now, Span, Tag};
use crate::helpers::{Helped, bit};
use crate::io::{BioTime, Sink};
use crate::limits;
use crate::mark::{Mark, Moment};
use crate::request::{Category, From, Request};
use crate::slab::Ref;
use crate::task::{Remap, Setup, task_key};

/// Requests handed to a queue function that has not returned, or is not recorded.
const AWAITING: usize = 256;

/// Where a bio comes from.
#[derive(Debug, Clone, Copy, Default)]
struct Came {
    /// The I/O of the bio above.
    io: Option<Ref>,
    /// That one is a helper's.
    helper: bool,
    /// When the block layer received that one.
    queued: Option<u64>,
    /// The partition that it is for.
    part: Option<Dev>,
}

impl<T: Tasks, S: Sink> Engine<T, S> {
    pub(crate) fn bio_queue(&mut self, now: Now, cpu: usize, span: Span) {
        let Some(device) = self.block.device(span.dev) else {
            return;
        };
        let came = self.task(cpu).is_some_and(|task| task.has_remapped());
        let came = came.then(|| self.came_from(cpu, span));
        let mut io = self.bio_owner(now, cpu);
        let (in_io, mut helper, mut ambiguous) = (io.is_some(), false, false);
        if !in_io {
            // Another task than the I/O's may send on what waited in a device (dm-delay).
            io = came.and_then(|came| came.io);
            helper = io.is_some() && came.is_some_and(|came| came.helper);
            if io.is_none() {
                io = self.punted_to(now.pid());
            }
            if io.is_none() {
                match self.helped(now, cpu, device, &span) {
                    Helped::Io(at) => (io, helper) = (Some(at), true),
                    Helped::Ambiguous => ambiguous = true,
                    Helped::Nobody => {}
                }
            }
        }
        let queued = came.and_then(|came| came.queued).unwrap_or(now.ts);
        let asked = came.and_then(|came| came.part).unwrap_or(span.dev);
        let place = io.and_then(|at| {
            let io = self.ios.get_mut(at)?;
            if io.bios.len() >= limits::PARTS {
                return None;
            }
            let index = io.bios.len();
            io.bios.push(BioTime {
                queued,
                ended: None,
                issued: false,
                helper,
                done: false,
            });
            io.open_bios += 1;
            if !helper {
                io.moments.first(Moment::BioQueue, queued);
                io.sectors += u64::from(span.sectors);
                io.devices |= bit(device);
                if index == 0 {
                    io.asked = asked;
                }
            }
            Some(IoBio { io: at, index })
        });
        let from = Submitter {
            pid: now.pid(),
            helper,
            ambiguous,
        };
        let bio = self.block.queue(device, span, place, from);
        if let Some(task) = self.task(cpu) {
            task.last_bio = bio;
            if helper {
                task.serves = io;
            }
        }
        if let (Some(io), false) = (io, in_io) {
            self.on_cpu(cpu, |c, ios| c.resolve_run(ios, now.pid(), io));
        }
    }

    /// What a bio is that a remap has announced: the one of a stacked device that goes on as this
    /// one, or one of a partition.
    #[inline(never)]
    fn came_from(&mut self, cpu: usize, span: Span) -> Came {
        let Some(task) = self.task(cpu) else {
            return Came::default();
        };
        let same = |&(dev, sector, _): &Remap| (dev, sector) == (span.dev, span.sector);
        let part = task.part.take();
        let part = part.filter(|&(dev, sector, _)| (dev, sector) == (span.dev, span.sector));
        let stacked = task.remap.take_if(|remap| same(remap));
        let mut came = Came {
            part: part.map(|(.., part)| part),
            ..Came::default()
        };
        let parent = stacked.and_then(|(.., bio)| self.block.replaced(bio));
        let Some(place) = parent else {
            return came;
        };
        self.end_bio(place, None);
        if let Some(io) = self.ios.get(place.io) {
            let bio = io.bios.get(place.index);
            came.io = Some(place.io);
            came.queued = bio.map(|bio| bio.queued);
            came.helper = bio.is_some_and(|bio| bio.helper);
        }
        came
    }

    /// Sectors of one device become sectors of another: of a partition, those of its disk, before
    /// the bio is queued; of a stacked device, those of the device below. There the same bio goes
    /// on (`NVMe` multipath), or another one that is queued next (device mapper, md).
    pub(crate) fn remap(&mut self, cpu: usize, from: (Dev, u64), to: (Dev, u64)) {
        if from.0 == to.0 {
            return;
        }
        // What is known as a partition is no device whose bios wait.
        let is_part = self.block.aliases.contains_key(&from.0);
        let bio = (!is_part).then(|| self.block.remapped(from, to)).flatten();
        if let Some(bio) = bio {
            if let Some(task) = self.task(cpu) {
                task.remap = Some((to.0, to.1, bio));
            }
        } else if !self.block.knows(from.0) && self.block.aliases.len() < limits::DEVICES {
            self.block.aliases.insert(from.0, to.0);
            self.of_part(cpu, from.0, to);
        } else if is_part {
            self.of_part(cpu, from.0, to);
        }
    }

    fn of_part(&mut self, cpu: usize, part: Dev, to: (Dev, u64)) {
        if let Some(task) = self.task(cpu) {
            task.part = Some((to.0, to.1, part));
        }
    }

    /// A bio is over, or another one goes on for it.
    pub(crate) fn end_bio(&mut self, place: IoBio, ts: Option<u64>) {
        let Some(io) = self.ios.get_mut(place.io) else {
            return;
        };
        io.end_bio(place.index, ts, true);
    }

    pub(crate) fn issue(&mut self, now: Now, cpu: usize, mut span: Span) {
        let Some(device) = self.block.whole_device(&mut span) else {
            return;
        };
        if self.block.requests.len() >= limits::IN_FLIGHT {
            self.block.clear();
            self.tags.clear();
        }
        let from = From {
            ts: now.ts,
            pid: now.pid(),
            task: task_key(now.pid(), now.cpu()),
            cpu: now.cpu(),
        };
        let at = match self.block.issue(device, span, &from) {
            Issued::New(at) => {
                self.link(at);
                at
            }
            Issued::Again(at, told) => {
                if let Some(on) = self.block.devices.get_mut(device) {
                    on.out.requests.requeues += u64::from(!told);
                }
                at
            }
        };
        let Some(task) = self.task(cpu) else {
            return;
        };
        task.issued = Some(at);
        if task.awaiting.len() < AWAITING {
            task.awaiting.push(at);
        }
        let (has_setup, in_io) = (task.setup.is_some(), task.io.is_some());
        if has_setup {
            self.set_up(cpu, device, at);
        }
        if in_io {
            return;
        }
        let owner = self.block.requests.get(at).and_then(|r| r.owner);
        if let Some(io) = owner {
            self.on_cpu(cpu, |c, ios| c.resolve_run(ios, now.pid(), io));
        }
    }

    /// The driver has set up the command of a request that it is given now.
    #[inline(never)]
    fn set_up(&mut self, cpu: usize, device: usize, at: Ref) {
        let setup = self.task(cpu).and_then(|task| task.setup.take());
        if let (Some(setup), Some(request)) = (setup, self.block.requests.get_mut(at)) {
            request.setup = Some(setup.ts);
            request.queue = Some(setup.tag.queue);
            self.drive(device, at, Driver::Nvme, setup.tag);
            let known = self.disks.iter().any(|known| known.0 == setup.tag.host);
            if !known && self.disks.len() < limits::DEVICES {
                self.disks.push((setup.tag.host, device));
            }
        }
    }

    fn drive(&mut self, device: usize, at: Ref, driver: Driver, tag: Tag) {
        if self.tags.len() >= limits::IN_FLIGHT {
            self.tags.clear();
        }
        self.tags.insert(tag, at);
        if let Some(on) = self.block.devices.get_mut(device) {
            on.driven(driver);
        }
    }

    /// Ties a new request to the I/Os whose bios it carries; the first of them owns it.
    fn link(&mut self, at: Ref) {
        let Some(request) = self.block.requests.get_mut(at) else {
            return;
        };
        for &bio in &request.parts {
            let Some(bio) = self.block.bios.get(bio) else {
                continue;
            };
            request.ambiguous |= bio.ambiguous;
            let Some(place) = bio.io else {
                continue;
            };
            let Some(io) = self.ios.get_mut(place.io) else {
                continue;
            };
            if let Some(time) = io.bios.get_mut(place.index) {
                time.issued = true;
            }
            if io.live.last() != Some(&at) {
                io.live.push(at);
            }
            if request.owner.is_none() {
                request.owner = Some(place.io);
                if self.names.selected(io.pid) {
                    request.category = if bio.helper {
                        Category::Helper
                    } else {
                        Category::Attributed
                    };
                }
            }
        }
    }

    pub(crate) fn requeue(&mut self, span: Span) {
        let Some(device) = self.block.device(span.dev) else {
            return;
        };
        if let Some(on) = self.block.devices.get_mut(device) {
            on.out.requests.requeues += 1;
        }
        self.block.requeue(device, &span);
    }

    pub(crate) fn split(&mut self, cpu: usize, dev: Dev) {
        let io = self.current_io(cpu);
        if let Some(io) = io.and_then(|at| self.ios.get_mut(at)) {
            io.splits += 1;
        }
        let device = self.block.device(dev);
        if let Some(on) = device.and_then(|at| self.block.devices.get_mut(at)) {
            on.out.requests.splits += 1;
        }
    }

    pub(crate) fn merge(&mut self, cpu: usize, dev: Dev) {
        let io = self.current_io(cpu);
        if let Some(io) = io.and_then(|at| self.ios.get_mut(at)) {
            io.merges += 1;
        }
        let device = self.block.device(dev);
        if let Some(on) = device.and_then(|at| self.block.devices.get_mut(at)) {
            on.out.requests.merges += 1;
        }
    }

    /// Something happens to the bio with this first sector: mostly the task's last one.
    pub(crate) fn moment_of_bio(
        &mut self,
        now: Now,
        cpu: usize,
        (dev, sector): (Dev, u64),
        moment: Moment,
    ) {
        let last = self.task(cpu).and_then(|task| task.last_bio);
        let here = |bio: &&Bio| bio.span.sector == sector && bio.span.dev == dev;
        let mut bio = last.and_then(|at| self.block.bios.get(at)).filter(here);
        if bio.is_none() {
            let waiting = self.block.waiting_at(dev, sector);
            bio = waiting.and_then(|at| self.block.bios.get(at));
        }
        let Some(bio) = bio.filter(|bio| !bio.helper) else {
            return;
        };
        let Some(place) = bio.io.filter(|place| place.index == 0) else {
            return;
        };
        if let Some(io) = self.ios.get_mut(place.io) {
            io.moments.first(moment, now.ts);
        }
    }

    pub(crate) fn nvme_setup(&mut self, now: Now, cpu: usize, tag: Tag) {
        if let Some(task) = self.task(cpu) {
            task.setup = Some(Setup { ts: now.ts, tag });
        }
    }

    /// A driver sends the request that the task issued last.
    pub(crate) fn send(&mut self, now: Now, cpu: usize, driver: Driver, tag: Tag) {
        let issued = self.task(cpu).and_then(|task| match driver {
            // Above another driver: that one's own event is still to come.
            Driver::Scsi => task.issued,
            _ => task.issued.take(),
        });
        let Some(at) = issued else {
            // A command of the host's own; that to a card which still has a request done by the
            // driver asks whether it is busy (CMD13), so the request is not over.
            let card = self.cards.get(&tag.host).copied();
            match card.filter(|&at| driver == Driver::Mmc && self.block.is_open(at)) {
                Some(at) => _ = self.tags.insert(tag, at),
                None => _ = self.tags.remove(&tag),
            }
            return;
        };
        let mark = match driver {
            Driver::Ufs => Mark::UfsCommand,
            Driver::Nvme => Mark::NvmeSetup,
            Driver::Mmc => Mark::MmcStart,
            Driver::Scsi => Mark::ScsiStart,
        };
        let Some(request) = self.block.requests.get_mut(at) else {
            return;
        };
        request.sent = Some((now.ts, mark));
        if tag.queue != u32::MAX {
            request.queue = Some(tag.queue);
        }
        let device = request.device;
        self.drive(device, at, driver, tag);
    }

    pub(crate) fn queue_return(&mut self, now: Now, cpu: usize) {
        if self.options.ignore_queue_return {
            return;
        }
        self.options.use_queue_return = true;
        let Some(task) = self.task(cpu) else {
            return;
        };
        let mut returned = std::mem::take(&mut task.awaiting);
        for at in returned.drain(..) {
            if let Some(request) = self.block.requests.get_mut(at) {
                request.returned = Some(now.ts);
            }
        }
        if let Some(task) = self.task(cpu) {
            task.awaiting = returned;
        }
    }

    /// When a request was handed to the device, and by which mark, given that its interrupt came
    /// at `interrupt`, in the task `during` if that is known.
    pub(crate) fn device_start(
        &self,
        request: &Request,
        interrupt: u64,
        during: Option<i32>,
    ) -> (u64, Mark) {
        if self.options.use_queue_return {
            match request.returned {
                Some(ts) if ts <= interrupt => return (ts, Mark::QueueReturn),
                Some(_) => return (interrupt, Mark::Clamped),
                // The interrupt came while the queue function still ran.
                None if during == Some(request.issue_task) => return (interrupt, Mark::Clamped),
                None => {}
            }
        }
        match (request.sent, request.setup) {
            (Some((ts, mark)), _) => (ts, mark),
            (None, Some(ts)) if ts > request.issued => (ts, Mark::NvmeSetup),
            _ => (request.issued, Mark::Issue),
        }
    }
}
