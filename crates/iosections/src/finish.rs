//! The way up: drivers' completion events, `block_rq_complete`, and what comes after it.

use std::num::NonZeroU64;

use crate::block::{Completed, EndedBio, IoBio};
use crate::cpu::Cpu;
use crate::crossed::read;
use crate::engine::{Engine, Tasks};
use crate::event::{Driver, Now, Span, Tag};
use crate::give::give_all;
use crate::io::{IoRequest, Mode, Sink};
use crate::limits;
use crate::mark::{Mark, Moment};
use crate::op::Op;
use crate::request::{Category, DriverDone, Enclosing, Interrupt, Request};
use crate::section::DeviceSpan;
use crate::slab::Ref;
use crate::task::task_key;

impl<T: Tasks, S: Sink> Engine<T, S> {
    pub(crate) fn nvme_sq(&mut self, now: Now, cpu: usize, disk: u64) {
        if let Some(device) = self.device_of(disk) {
            // Its requests may end in softirqs alone, and on other CPUs.
            if let Some((number, on)) = self.handling(cpu).zip(self.block.devices.get_mut(device)) {
                on.handlers.enclosed(number);
            }
            self.on_cpu(cpu, |c, _| c.open_slot(disk, now.ts));
        } else {
            self.on_cpu(cpu, |c, ios| c.mark(ios, None, Mode::Completion));
        }
    }

    /// A driver reports that the device has completed a request.
    pub(crate) fn done(&mut self, now: Now, cpu: usize, driver: Driver, tag: Tag) {
        let request = self.tags.remove(&tag);
        let owner = self.owner(request);
        let mut slot = None;
        if driver == Driver::Nvme {
            self.options.has_nvme_complete = true;
            slot = self.on_cpu(cpu, |c, ios| c.close_slot(ios, tag.host, owner));
            // An interrupt after a poll forgets what was read: this event marks all of a trace alike.
            slot = slot.filter(|slot| !slot.polled);
        } else if let (Driver::Mmc, Some(at)) = (driver, request) {
            if self.cards.len() >= limits::DEVICES {
                self.cards.clear();
            }
            self.cards.insert(tag.host, at);
        } else if request.is_none() {
            // A command that carries no request: another driver's, or one of the host's own.
            return self.on_cpu(cpu, |c, ios| c.mark(ios, None, Mode::Completion));
        }
        let done = match &slot {
            Some(slot) => read(slot, cpu),
            None => DriverDone {
                cpu,
                ts: now.ts,
                irq: self.interrupt_of(cpu),
                event: match driver {
                    Driver::Ufs => Mark::UfsCommand,
                    Driver::Nvme => Mark::NvmeComplete,
                    Driver::Mmc => Mark::MmcDone,
                    Driver::Scsi => Mark::ScsiDone,
                },
                softirq: self.cpus.get(cpu).is_some_and(Cpu::in_softirq),
            },
        };
        if let Some(request) = request.and_then(|at| self.block.requests.get_mut(at)) {
            // The lowest driver's word counts: SCSI's comes after that of the host's driver. The
            // card's last one: after a write it is asked whether it is still busy.
            match driver {
                Driver::Mmc => request.driver_done = Some(done),
                _ => _ = request.driver_done.get_or_insert(done),
            }
        }
        self.on_cpu(cpu, |c, ios| {
            c.run.worked();
            c.mark(ios, owner, Mode::Completion);
        });
    }

    /// The open I/O that a request counts for.
    fn owner(&self, request: Option<Ref>) -> Option<Ref> {
        let owner = self.block.requests.get(request?)?.owner?;
        self.ios.get(owner).map(|_| owner)
    }

    /// The interrupt that a CPU handles; or, in a thread that an interrupt woke, that one.
    fn interrupt_of(&self, cpu: usize) -> Option<Interrupt> {
        let handled = self.cpus.get(cpu).and_then(Cpu::interrupt);
        handled.or_else(|| self.woken_by(cpu))
    }

    /// The interrupt that woke its thread, if that runs on a CPU.
    #[inline(never)]
    fn woken_by(&self, cpu: usize) -> Option<Interrupt> {
        let c = self.cpus.get(cpu)?;
        let woken_by = self.tasks.get(c.task?)?.woken_by?;
        if !self.names.serves_interrupt(c.pid) {
            return None;
        }
        Some(Interrupt {
            ts: woken_by,
            number: u32::MAX,
            kind: Enclosing::Thread,
        })
    }

    pub(crate) fn complete(&mut self, now: Now, cpu: usize, span: Span) {
        let Some(device) = self.block.device(span.dev) else {
            return;
        };
        match self.block.complete(device, &span) {
            Completed::Request(request) => {
                self.request_done(now, cpu, &request);
                self.block.recycle(request);
            }
            Completed::FlushEnd(place) => self.flush_end(now, cpu, place),
            Completed::Unknown => {
                if let Some(on) = self.block.devices.get_mut(device) {
                    on.out.requests.seen += 1;
                    on.out.requests.in_flight += 1;
                }
                self.on_cpu(cpu, |c, ios| {
                    // It has its share of the interrupt, known or not.
                    if let Some(irq) = c.hard_irq() {
                        c.batches.completed(irq.ts, &[]);
                    }
                    c.mark(ios, None, Mode::Return);
                });
            }
            Completed::Part | Completed::Nothing => {}
        }
    }

    fn request_done(&mut self, now: Now, cpu: usize, request: &Request) {
        let owner = request.owner.filter(|&io| self.ios.get(io).is_some());
        let reported = match request.driver_done {
            Some(done) => Some(done),
            None => self.read_for(cpu, request, owner),
        };
        let inner = self.cpus.get(cpu).and_then(|c| c.frames.last());
        let (handled, softirq) = inner.map_or((None, None), |f| (f.within, f.softirq));
        let frame = inner.and_then(|f| NonZeroU64::new(f.serial));
        let inner_is_task = inner.is_none();
        let (interrupt, interrupt_mark) = self.interrupt(now, cpu, request, reported);
        let during = handled.map(|_| task_key(now.pid(), now.cpu()));
        let (start, device_mark) = self.device_start(request, interrupt, during);
        let marks = (device_mark, interrupt_mark);
        if let Some(on) = self.block.devices.get_mut(request.device) {
            on.completed(request, marks);
        }
        let (mut batch, mut after) = (None, 0);
        if let (Mark::Irq, Some(c)) = (interrupt_mark, self.cpus.get_mut(cpu)) {
            batch = c.batches.completed(interrupt, &self.block.ended);
            if inner_is_task {
                after = c.worked(now.pid(), owner);
            }
        }
        let device = DeviceSpan {
            start,
            interrupt: interrupt.max(start),
            done: now.ts,
        };
        let seen = IoRequest {
            helper: request.category == Category::Helper,
            cpu: now.cpu(),
            frame,
            batch,
            after,
            ..request.seen(device, marks)
        };
        let may_close = self.hand_back(request, &seen, softirq);
        if let (Some(io), Some(done)) = (owner, reported) {
            if done.cpu != cpu && done.irq.is_some() {
                self.on_cpu(cpu, |c, ios| c.brought(ios, io));
            }
        }
        self.on_cpu(cpu, |c, ios| c.mark(ios, owner, Mode::Return));
        if let (Some(io), Mark::LateIrq) = (owner, interrupt_mark) {
            self.began_for(now, cpu, io, interrupt);
        }
        if let (Some(io), true) = (owner, now.pid() != 0) {
            if self.current_io(cpu).is_none() {
                self.works_for(now, cpu, io);
            }
        }
        if may_close {
            let ended = std::mem::take(&mut self.block.ended);
            for bio in &ended {
                self.try_close(bio.place.io, Some(cpu));
            }
            self.block.ended = ended;
        }
    }

    /// The completion interrupt's time, and what marks it, given what a driver reported.
    #[inline]
    fn interrupt(
        &mut self,
        now: Now,
        cpu: usize,
        request: &Request,
        reported: Option<DriverDone>,
    ) -> (u64, Mark) {
        let handled = match reported.and_then(|done| done.irq) {
            Some(irq) => Some(irq),
            None => self.interrupt_of(cpu),
        };
        let softirq = match reported {
            Some(done) => done.softirq,
            None => self.cpus.get(cpu).is_some_and(Cpu::in_softirq),
        };
        let Some(on) = self.block.devices.get_mut(request.device) else {
            return (now.ts, Mark::None);
        };
        let mark = handled.and_then(|irq| match irq.kind {
            Enclosing::Thread => Some(Mark::ThreadedIrq),
            _ if irq.number == u32::MAX => Some(Mark::Irq),
            Enclosing::Handler => {
                on.handlers.enclosed(irq.number);
                Some(Mark::Irq)
            }
            Enclosing::Softirq => {
                on.handlers.in_softirq(Some(irq.number));
                on.handlers.is_of(irq.number).then_some(Mark::Irq)
            }
        });
        if softirq && handled.is_none() {
            on.handlers.in_softirq(None);
        }
        // A handler, or its thread, may go on with what the device reported later, also of a
        // request that another CPU issued meanwhile: then its beginning tells nothing.
        let timely = handled.filter(|irq| irq.ts >= request.issued);
        if let (Some(irq), Some(mark)) = (timely, mark) {
            return (irq.ts, mark);
        }
        let at = reported.map_or(now.ts, |done| done.ts);
        let late = softirq.then(|| self.late(request, at)).flatten();
        match (late, reported) {
            (Some(ts), _) => (ts, Mark::LateIrq),
            (None, Some(done)) => (at, done.event),
            (None, None) => (at, Mark::None),
        }
    }

    /// The last interrupt of a request's device before a softirq that came late.
    #[inline(never)]
    fn late(&self, request: &Request, until: u64) -> Option<u64> {
        let on = self.block.devices.get(request.device)?;
        self.starts.of(&on.handlers, request.issued, until)
    }

    /// The current task, which has no I/O of its own, completes a request of this one: so its code is
    /// for it, and that of the interrupt which woke it.
    #[inline(never)]
    fn works_for(&mut self, now: Now, cpu: usize, io: Ref) {
        self.on_cpu(cpu, |c, ios| c.resolve_run(ios, now.pid(), io));
        let place = self.cpus.get(cpu).and_then(|c| c.task);
        if let Some(task) = place.and_then(|place| self.tasks.get_mut(place)) {
            give_all(&mut self.ios, io, Mode::Completion, &mut task.handed);
        }
    }

    /// A late softirq completes a request of this I/O: so what the interrupt's handler executed is for
    /// it; and the way to the thread that runs the softirq, if that interrupt woke it.
    #[inline(never)]
    fn began_for(&mut self, now: Now, cpu: usize, io: Ref, interrupt: u64) {
        if let Some(pieces) = self.silent.of(interrupt) {
            give_all(&mut self.ios, io, Mode::Completion, pieces);
        }
        let woken_by = self.task(cpu).and_then(|task| task.woken_by);
        if woken_by == Some(interrupt) && self.names.runs_softirqs(now.pid()) {
            self.on_cpu(cpu, |c, ios| c.resolve_way(ios, now.pid(), io));
        }
    }

    /// What was read from an `NVMe` queue for a request that no other event of the driver's tells of.
    #[inline]
    fn read_for(
        &mut self,
        cpu: usize,
        request: &Request,
        owner: Option<Ref>,
    ) -> Option<DriverDone> {
        if request.setup.is_none() || self.options.has_nvme_complete {
            return None;
        }
        match self.on_cpu(cpu, |c, ios| c.close_next_slot(ios, owner)) {
            Some(slot) => Some(read(&slot, cpu)),
            None => self.read_elsewhere(cpu, request, owner),
        }
    }

    /// Tells all I/Os with a bio in the request that it is complete. Gives whether one of them may
    /// end by it.
    #[inline(never)]
    fn hand_back(&mut self, request: &Request, seen: &IoRequest, softirq: Option<u64>) -> bool {
        let mut may_close = false;
        let done = seen.device.done;
        for &EndedBio { place, over } in &self.block.ended {
            let Some(io) = self.ios.get_mut(place.io) else {
                continue;
            };
            io.end_bio(place.index, Some(done), over);
            may_close |= io.op.is_async();
            let is_told = |last: &IoRequest| last.seq == request.seq;
            if io.requests.last().is_some_and(is_told) || io.requests.len() >= limits::PARTS {
                continue;
            }
            let live = &self.block.requests;
            match *io.live {
                [only] if live.get(only).is_none() => io.live.clear(),
                _ => io.live.retain(|&at| live.get(at).is_some()),
            }
            io.last_done = done;
            if !seen.helper && io.moments.get(Moment::RqComplete).is_none() {
                let m = &mut io.moments;
                m.set(Moment::Issue, request.issued);
                m.set(Moment::Device, seen.device.start);
                if matches!(seen.marks.1, Mark::Irq | Mark::ThreadedIrq | Mark::LateIrq) {
                    m.set(Moment::Irq, seen.device.interrupt);
                }
                m.set(Moment::Softirq, softirq.unwrap_or(0));
                m.set(Moment::DriverDone, request.driver_done.map_or(0, |d| d.ts));
                m.set(Moment::RqComplete, done);
            }
            io.requests.push(*seen);
        }
        may_close
    }

    /// A flush bio ends after its last request. In the same interrupt this still belongs to that
    /// request's completion.
    fn flush_end(&mut self, now: Now, cpu: usize, place: IoBio) {
        let frame = self.cpus.get(cpu).and_then(Cpu::frame);
        self.end_bio(place, Some(now.ts));
        let Some(io) = self.ios.get_mut(place.io) else {
            return;
        };
        io.last_done = now.ts;
        if let Some(last) = io
            .requests
            .last_mut()
            .filter(|r| r.frame == frame && frame.is_some() && r.cpu == now.cpu())
        {
            last.device.done = now.ts;
        }
        self.on_cpu(cpu, |c, ios| c.mark(ios, Some(place.io), Mode::Return));
        self.try_close(place.io, Some(cpu));
    }

    /// `block_io_done`, right after the completion on the same CPU.
    pub(crate) fn io_done(&mut self, now: Now, cpu: usize) {
        let last = self.cpus.get(cpu).and_then(|c| c.last_done);
        if let Some(io) = last.and_then(|at| self.ios.get_mut(at)) {
            io.moments.first(Moment::IoDone, now.ts);
        }
    }

    /// `iomap_dio_complete`: in the completion itself, or in the task that waited for it.
    pub(crate) fn dio_complete(&mut self, now: Now, cpu: usize) {
        let current = self.current_io(cpu);
        let current = current.and_then(|at| self.ios.get_mut(at));
        if let Some(io) = current.filter(|io| !io.op.is_async()) {
            io.moments.first(Moment::DioComplete, now.ts);
            if io.op == Op::DirectIo {
                self.end_uncalled(now, cpu, Mark::DioComplete, None);
            }
            return;
        }
        let Some(at) = self.cpus.get_mut(cpu).and_then(|c| c.ended.pop_front()) else {
            return;
        };
        if let Some(io) = self.ios.get_mut(at) {
            io.moments.first(Moment::DioComplete, now.ts);
        }
        self.close_async(at, now.ts, Mark::DioComplete);
    }
}
