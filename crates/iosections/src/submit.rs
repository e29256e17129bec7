//! The way down: bios, requests, and the hand-over to the driver.

use crate::block::{Category, IoBio, Issued, Request};
use crate::engine::{Engine, Setup, Tasks, task_key};
use crate::event::{Event, Span};
use crate::io::BioTime;
use crate::slab::Ref;

impl<T: Tasks> Engine<T> {
    pub(crate) fn bio_queue(&mut self, event: &Event, cpu: usize, span: Span) {
        if span.dev != self.options.device {
            return;
        }
        let own = self.task(event).io;
        let helped = if own.is_none() {
            self.helped(event, span)
        } else {
            None
        };
        let place = own.or(helped).and_then(|at| {
            let io = self.ios.get_mut(at)?;
            io.bios.push(BioTime {
                queued: event.ts,
                ended: None,
                issued: false,
                helper: helped.is_some(),
            });
            Some(IoBio {
                io: at,
                index: io.bios.len() - 1,
            })
        });
        self.block.queue(span, event.pid, place, helped.is_some());
        if let Some(io) = helped {
            self.task(event).serves = Some(io);
            self.on_cpu(cpu, |c, ios| c.resolve_run(ios, event.pid, io));
        }
    }

    /// The I/O that a task without one submits a bio for: the one that it served before if that
    /// still waits; else the only waiting I/O that writes; else the oldest of them with nothing
    /// at the device.
    fn helped(&mut self, event: &Event, span: Span) -> Option<Ref> {
        if event.pid == 0 || span.rwbs.op() == b'R' || !self.names.helps(event.pid) {
            return None;
        }
        let before = self.task(event).serves;
        let waiting = |&at: &Ref| self.ios.get(at).is_some_and(|io| self.waits(io.pid));
        if let Some(io) = before.filter(waiting) {
            return Some(io);
        }
        let mut candidates = self.writers.iter().copied().filter(waiting);
        let first = candidates.next()?;
        if candidates.next().is_none() {
            return Some(first);
        }
        let idle = |&at: &Ref| self.ios.get(at).is_some_and(|io| io.live.is_empty());
        self.writers.iter().copied().filter(waiting).find(idle)
    }

    /// Whether a task sleeps; without `sched_switch` every task might.
    fn waits(&self, pid: i32) -> bool {
        !self.switches_seen || self.tasks.get(&pid).is_some_and(|t| t.blocked)
    }

    pub(crate) fn issue(&mut self, event: &Event, cpu: usize, span: Span) {
        if span.dev != self.options.device {
            let task = self.task(event);
            (task.issued, task.setup) = (None, None);
            return;
        }
        let key = task_key(event.pid, event.cpu);
        let at = match self.block.issue(span, key, event.pid, event.ts) {
            Issued::New(at) => {
                self.link(at);
                at
            }
            Issued::Again(at, told) => {
                self.out.requests.requeues += u64::from(!told);
                at
            }
        };
        let setup = {
            let task = self.task(event);
            task.issued = Some(at);
            task.awaiting.push(at);
            task.setup.take()
        };
        if let (Some(setup), Some(request)) = (setup, self.block.requests.get_mut(at)) {
            request.setup = Some(setup.ts);
            self.disk = Some(setup.disk);
            self.tags.insert(setup.tag, at);
            self.out.drivers[1] += 1;
        }
        let owner = self.block.requests.get(at).and_then(|r| r.owner);
        if let (Some(io), None) = (owner, self.task(event).io) {
            self.on_cpu(cpu, |c, ios| c.resolve_run(ios, event.pid, io));
        }
    }

    /// Ties a new request to the I/Os whose bios it carries; the first of them owns it.
    fn link(&mut self, at: Ref) {
        let Some(request) = self.block.requests.get(at) else {
            return;
        };
        let bios = request.parts.iter().filter_map(|&bio| self.block.bio(bio));
        let places: Vec<(IoBio, bool)> = bios.filter_map(|b| Some((b.io?, b.helper))).collect();
        let mut owner = None;
        for (place, helper) in places {
            let Some(io) = self.ios.get_mut(place.io) else {
                continue;
            };
            if let Some(bio) = io.bios.get_mut(place.index) {
                bio.issued = true;
            }
            if !io.live.contains(&at) {
                io.live.push(at);
            }
            let kind = if helper {
                Category::Helper
            } else {
                Category::Attributed
            };
            owner.get_or_insert((place.io, io.pid, kind));
        }
        let (Some((io, pid, kind)), Some(request)) = (owner, self.block.requests.get_mut(at))
        else {
            return;
        };
        request.owner = Some(io);
        if self.names.selected(pid) {
            request.category = kind;
        }
    }

    pub(crate) fn nvme_setup(&mut self, event: &Event, disk: u64, tag: (u64, u32, u32)) {
        self.task(event).setup = Some(Setup {
            ts: event.ts,
            disk,
            tag,
        });
    }

    pub(crate) fn ufs_send(&mut self, event: &Event, tag: (u64, u32, u32)) {
        let Some(at) = self.task(event).issued.take() else {
            self.tags.remove(&tag);
            return;
        };
        if let Some(request) = self.block.requests.get_mut(at) {
            request.sent = Some(event.ts);
            self.tags.insert(tag, at);
            self.out.drivers[0] += 1;
        }
    }

    pub(crate) fn queue_return(&mut self, event: &Event) {
        let mut returned = std::mem::take(&mut self.task(event).awaiting);
        for at in returned.drain(..) {
            if let Some(request) = self.block.requests.get_mut(at) {
                request.returned = Some(event.ts);
            }
        }
        self.task(event).awaiting = returned;
    }

    /// When a request was handed to the device, and by which mark, given that its interrupt came
    /// at `interrupt`, in the task `during` if that is known.
    pub(crate) fn device_start(
        &self,
        request: &Request,
        interrupt: u64,
        during: Option<i32>,
    ) -> (u64, &'static str) {
        if self.options.use_queue_return {
            match request.returned {
                Some(ts) if ts <= interrupt => return (ts, "queue_rq_return"),
                Some(_) => return (interrupt, "clamped"),
                // The interrupt came while the queue function still ran.
                None if during == Some(request.issue_task) => return (interrupt, "clamped"),
                None => {}
            }
        }
        match (request.sent, request.setup) {
            (Some(ts), _) => (ts, "ufshcd_command"),
            (None, Some(ts)) if ts > request.issued => (ts, "nvme_setup_cmd"),
            _ => (request.issued, "block_rq_issue"),
        }
    }
}
