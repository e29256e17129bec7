//! The way up: drivers' completion events and `block_rq_complete`.

use crate::block::{Category, Completed, DriverDone, IoBio, Request};
use crate::cpu::Slot;
use crate::engine::{Engine, Tasks, task_key};
use crate::event::{Event, Span};
use crate::io::{IoRequest, Mode};
use crate::section::DeviceSpan;
use crate::slab::Ref;

/// The mark of a completion that an interrupt encloses.
const IRQ: &str = "irq_handler_entry";

impl<T: Tasks> Engine<T> {
    pub(crate) fn nvme_sq(&mut self, event: &Event, cpu: usize, disk: u64) {
        if self.disk == Some(disk) {
            self.on_cpu(cpu, |c, _| c.open_slot(event.ts));
        } else {
            self.on_cpu(cpu, |c, ios| c.mark(ios, None, Mode::Completion));
        }
    }

    pub(crate) fn nvme_complete(
        &mut self,
        event: &Event,
        cpu: usize,
        disk: u64,
        tag: (u64, u32, u32),
    ) {
        let request = self.tags.remove(&tag);
        let owner = self.owner(request);
        let slot = if self.disk == Some(disk) {
            self.on_cpu(cpu, |c, ios| c.close_slot(ios, owner))
        } else {
            None
        };
        let event = match &slot {
            Some(slot) => DriverDone {
                ts: slot.ts,
                irq: slot.irq,
                event: "nvme_sq",
            },
            None => DriverDone {
                ts: event.ts,
                irq: self.hard_irq(cpu),
                event: "nvme_complete_rq",
            },
        };
        self.driver_done(cpu, request, owner, event);
    }

    pub(crate) fn ufs_complete(&mut self, event: &Event, cpu: usize, tag: (u64, u32, u32)) {
        let request = self.tags.remove(&tag);
        let owner = self.owner(request);
        let irq = self.hard_irq(cpu);
        let done = DriverDone {
            ts: event.ts,
            irq,
            event: "ufshcd_command",
        };
        self.driver_done(cpu, request, owner, done);
    }

    fn driver_done(
        &mut self,
        cpu: usize,
        request: Option<Ref>,
        owner: Option<Ref>,
        done: DriverDone,
    ) {
        if let Some(request) = request.and_then(|at| self.block.requests.get_mut(at)) {
            request.driver_done = Some(done);
        }
        self.on_cpu(cpu, |c, ios| c.mark(ios, owner, Mode::Completion));
    }

    /// The open I/O that a request counts for.
    fn owner(&self, request: Option<Ref>) -> Option<Ref> {
        let owner = self.block.requests.get(request?)?.owner?;
        self.ios.get(owner).map(|_| owner)
    }

    fn hard_irq(&self, cpu: usize) -> Option<u64> {
        self.cpus.get(cpu)?.hard_irq()
    }

    /// The CPU and the number of the interrupt or softirq that it handles.
    fn frame(&self, cpu: usize) -> Option<(usize, u64)> {
        Some((cpu, self.cpus.get(cpu)?.frame()?))
    }

    pub(crate) fn complete(&mut self, event: &Event, cpu: usize, span: Span) {
        if span.dev != self.options.device {
            self.on_cpu(cpu, |c, ios| c.mark(ios, None, Mode::Return));
            return;
        }
        match self.block.complete(&span) {
            Completed::Request(request, bios) => {
                self.request_done(event, cpu, &request, &bios);
            }
            Completed::FlushEnd(place) => self.flush_end(event, cpu, place),
            Completed::Unknown => {
                self.out.requests.seen += 1;
                self.out.requests.in_flight += 1;
                self.on_cpu(cpu, |c, ios| c.mark(ios, None, Mode::Return));
            }
            Completed::Part | Completed::Nothing => {}
        }
    }

    fn request_done(&mut self, event: &Event, cpu: usize, request: &Request, bios: &[IoBio]) {
        let owner = request.owner.filter(|&io| self.ios.get(io).is_some());
        let pairs = request.setup.is_some() && request.driver_done.is_none();
        let slot = if pairs && !self.options.has_nvme_complete {
            self.on_cpu(cpu, |c, ios| c.close_slot(ios, owner))
        } else {
            None
        };
        let (interrupt, interrupt_mark) = self.interrupt(event, cpu, request, slot.as_ref());
        let during = self.hard_irq(cpu).map(|_| task_key(event.pid, event.cpu));
        let (start, device_mark) = self.device_start(request, interrupt, during);
        let counts = &mut self.out.requests;
        counts.seen += 1;
        counts.flushes += u64::from(request.span.rwbs.op() == b'F');
        match request.category {
            Category::Attributed => counts.attributed += 1,
            Category::Helper => counts.helper += 1,
            Category::Unattributed => counts.unattributed += 1,
        }
        if request.category != Category::Unattributed {
            *self.out.device_marks.entry(device_mark).or_default() += 1;
            *self.out.interrupt_marks.entry(interrupt_mark).or_default() += 1;
        }
        let device = DeviceSpan {
            start,
            interrupt: interrupt.max(start),
            done: event.ts,
        };
        self.hand_back(event, cpu, request, bios, device);
        if interrupt_mark == IRQ {
            let owners = bios.iter().map(|place| place.io);
            self.on_cpu(cpu, |c, ios| {
                c.batches.completed(ios, interrupt, request.seq, owners);
            });
        }
        self.on_cpu(cpu, |c, ios| c.mark(ios, owner, Mode::Return));
        if let (Some(io), None, false) = (owner, self.task(event).io, event.pid == 0) {
            self.on_cpu(cpu, |c, ios| c.resolve_run(ios, event.pid, io));
        }
    }

    /// The completion interrupt's time, and what marks it.
    fn interrupt(
        &self,
        event: &Event,
        cpu: usize,
        request: &Request,
        slot: Option<&Slot>,
    ) -> (u64, &'static str) {
        let driver = request.driver_done;
        let slot_irq = slot.and_then(|s| s.irq);
        let irq = driver
            .and_then(|d| d.irq)
            .or(slot_irq)
            .or_else(|| self.hard_irq(cpu));
        match (irq, driver, slot) {
            (Some(ts), ..) => (ts, IRQ),
            (None, Some(done), _) => (done.ts, done.event),
            (None, None, Some(slot)) => (slot.ts, "nvme_sq"),
            (None, None, None) => (event.ts, "none"),
        }
    }

    /// Tells all I/Os with a bio in the request that it is complete.
    fn hand_back(
        &mut self,
        event: &Event,
        cpu: usize,
        request: &Request,
        bios: &[IoBio],
        device: DeviceSpan,
    ) {
        let frame = self.frame(cpu);
        for place in bios {
            let Some(io) = self.ios.get_mut(place.io) else {
                continue;
            };
            if let Some(bio) = io.bios.get_mut(place.index) {
                bio.ended = Some(event.ts);
            }
            if io.requests.last().is_some_and(|r| r.seq == request.seq) {
                continue;
            }
            io.live.retain(|&at| self.block.requests.get(at).is_some());
            io.requests.push(IoRequest {
                seq: request.seq,
                device,
                rwbs: request.span.rwbs,
                sectors: request.span.sectors,
                helper: request.category == Category::Helper,
                detached: false,
                frame,
                share: None,
            });
        }
    }

    /// A flush bio ends after its last request. In the same interrupt this still belongs to that
    /// request's completion.
    fn flush_end(&mut self, event: &Event, cpu: usize, place: IoBio) {
        let frame = self.frame(cpu);
        let Some(io) = self.ios.get_mut(place.io) else {
            return;
        };
        if let Some(bio) = io.bios.get_mut(place.index) {
            bio.ended = Some(event.ts);
        }
        if let Some(last) = io
            .requests
            .last_mut()
            .filter(|r| r.frame == frame && frame.is_some())
        {
            last.device.done = event.ts;
        }
        self.on_cpu(cpu, |c, ios| c.mark(ios, Some(place.io), Mode::Return));
    }
}
