//! From events to measured I/Os.

use crate::block::{Block, Category};
use crate::cpu::{Cpu, Ends};
use crate::event::{Dev, Event, Kind, Lost, Op};
use crate::io::{Io, IoRequest, Measure};
use crate::outcome::Outcome;
use crate::section::DeviceSpan;
use crate::slab::{IntMap, Ref, Slab};

/// What the caller knows of tasks.
pub trait Tasks {
    /// Whether this task's I/Os are to be measured.
    fn selected(&self, pid: i32) -> bool;
    /// Whether this task submits requests for others: a journal thread, a kernel worker.
    fn helps(&self, pid: i32) -> bool;
}

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The disk. Events of other devices only serve to tell drivers' events apart.
    pub device: Dev,
    /// Take the return of the driver's queue function as the hand-over to the device.
    pub use_queue_return: bool,
    /// The trace has `nvme_complete_rq`; without it `nvme_sq` is paired with the completions.
    pub has_nvme_complete: bool,
    /// The gaps of all CPUs.
    pub lost: Vec<Lost>,
}

/// A task, or the idle task of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Task {
    pub(crate) io: Option<Ref>,
    pub(crate) blocked: bool,
    /// The I/O that it last submitted a bio for as a helper.
    pub(crate) serves: Option<Ref>,
    /// Its last request that the driver has not confirmed.
    pub(crate) issued: Option<Ref>,
    pub(crate) setup: Option<Setup>,
    /// Requests handed to the queue function that has not returned.
    pub(crate) awaiting: Vec<Ref>,
}

/// An `nvme_setup_cmd` whose `block_rq_issue` is still to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) ts: u64,
    pub(crate) disk: u64,
    pub(crate) tag: (u64, u32, u32),
}

/// The measurement. Feed it all events in order of time, then [`Engine::finish`].
#[derive(Debug)]
pub struct Engine<T> {
    pub(crate) options: Options,
    pub(crate) names: T,
    pub(crate) tasks: IntMap<i32, Task>,
    pub(crate) ios: Slab<Io>,
    /// Open I/Os that write, oldest first.
    pub(crate) writers: Vec<Ref>,
    pub(crate) block: Block,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tags: IntMap<(u64, u32, u32), Ref>,
    /// The disk's name in `NVMe` events.
    pub(crate) disk: Option<u64>,
    pub(crate) switches_seen: bool,
    measure: Measure,
    pub(crate) out: Outcome,
}

/// A task's key: idle tasks share number 0 but not a CPU.
pub(crate) fn task_key(pid: i32, cpu: u32) -> i32 {
    if pid == 0 {
        -1 - (cpu as i32 & i32::MAX)
    } else {
        pid
    }
}

/// The gaps in order, overlapping ones made one.
fn joined(mut gaps: Vec<Lost>) -> Vec<Lost> {
    gaps.sort_unstable_by_key(|l| l.from);
    let mut joined: Vec<Lost> = Vec::new();
    for gap in gaps {
        match joined.last_mut() {
            Some(last) if gap.from <= last.to => last.to = last.to.max(gap.to),
            _ => joined.push(gap),
        }
    }
    joined
}

impl<T: Tasks> Engine<T> {
    /// Starts a measurement.
    pub fn new(mut options: Options, names: T) -> Self {
        options.lost = joined(options.lost);
        let out = Outcome {
            device: Some(options.device),
            ..Outcome::default()
        };
        Self {
            options,
            names,
            tasks: IntMap::default(),
            ios: Slab::default(),
            writers: Vec::new(),
            block: Block::default(),
            cpus: Vec::new(),
            tags: IntMap::default(),
            disk: None,
            switches_seen: false,
            measure: Measure::default(),
            out,
        }
    }

    /// Takes the next event.
    pub fn push(&mut self, event: &Event) {
        let cpu = event.cpu.min(1 << 16) as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        self.account(event, cpu);
        self.apply(event, cpu);
    }

    /// Makes a gap known that [`Options::lost`] does not have, before any event later than its
    /// start is pushed.
    pub fn lost(&mut self, gap: Lost) {
        match self.options.lost.last_mut() {
            Some(last) if (last.from..=last.to).contains(&gap.from) => {
                last.to = last.to.max(gap.to);
            }
            _ => self.options.lost.push(gap),
        }
    }

    /// Events are missing on this CPU just before the next event.
    pub fn gap(&mut self, cpu: u32) {
        if let Some(cpu) = self.cpus.get_mut(cpu as usize) {
            cpu.reset();
        }
        let gone = self.block.clear();
        self.out.requests.seen += gone;
        self.out.requests.in_flight += gone;
        self.tags.clear();
        for task in self.tasks.values_mut() {
            (task.issued, task.setup) = (None, None);
            task.awaiting.clear();
        }
    }

    /// Ends the measurement.
    pub fn finish(mut self) -> Outcome {
        let open: Vec<Ref> = self.ios.iter().map(|(io, _)| io).collect();
        for io in open {
            self.abandon(io, u64::MAX);
        }
        let gone = self.block.clear();
        self.out.requests.seen += gone;
        self.out.requests.in_flight += gone;
        self.out.results.sort_by_key(|r| (r.start, r.pid));
        self.out.probe_events = self.measure.events;
        self.out
    }

    fn account(&mut self, event: &Event, cpu: usize) {
        let task = self.tasks.get(&task_key(event.pid, event.cpu));
        let ends = Ends {
            ts: event.ts,
            name: event.name,
            pid: event.pid,
            own: task.and_then(|t| t.io),
            serves: task
                .and_then(|t| t.serves)
                .filter(|&io| self.ios.get(io).is_some()),
            softirq: matches!(event.kind, Kind::SoftirqEntry(_)),
        };
        if let Some(cpu) = self.cpus.get_mut(cpu) {
            cpu.account(&mut self.ios, ends);
        }
    }

    fn apply(&mut self, event: &Event, cpu: usize) {
        match event.kind {
            Kind::SyscallEnter(op) => self.syscall_enter(event, op),
            Kind::SyscallExit(op, ret) => self.syscall_exit(event, op, ret),
            Kind::BioQueue(span) => self.bio_queue(event, cpu, span),
            Kind::Split(dev) => self.out.requests.splits += u64::from(dev == self.options.device),
            Kind::Merge(dev) => self.out.requests.merges += u64::from(dev == self.options.device),
            Kind::Issue(span) => self.issue(event, cpu, span),
            Kind::Requeue(span) if span.dev == self.options.device => {
                self.out.requests.requeues += 1;
                self.block.requeue(&span);
            }
            Kind::Complete(span) => self.complete(event, cpu, span),
            Kind::NvmeSetup { disk, qid, cid } => self.nvme_setup(event, disk, (disk, qid, cid)),
            Kind::NvmeSq { disk } => self.nvme_sq(event, cpu, disk),
            Kind::NvmeComplete { disk, qid, cid } => {
                self.nvme_complete(event, cpu, disk, (disk, qid, cid));
            }
            Kind::UfsSend { queue, tag } => self.ufs_send(event, (0, queue, tag)),
            Kind::UfsComplete { queue, tag } => self.ufs_complete(event, cpu, (0, queue, tag)),
            Kind::QueueReturn => self.queue_return(event),
            Kind::Switch { blocked, next } => self.switch(event, cpu, blocked, next),
            Kind::IrqEntry => self.on_cpu(cpu, |c, _| c.enter(true, event.ts)),
            Kind::SoftirqEntry(_) => self.on_cpu(cpu, |c, _| c.enter(false, event.ts)),
            Kind::IrqExit => self.on_cpu(cpu, |c, ios| c.leave(ios, true)),
            Kind::SoftirqExit => self.on_cpu(cpu, |c, ios| c.leave(ios, false)),
            Kind::Requeue(_) | Kind::Other => {}
        }
    }

    pub(crate) fn on_cpu<R: Default>(
        &mut self,
        cpu: usize,
        act: impl FnOnce(&mut Cpu, &mut Slab<Io>) -> R,
    ) -> R {
        match self.cpus.get_mut(cpu) {
            Some(c) => act(c, &mut self.ios),
            None => R::default(),
        }
    }

    pub(crate) fn task(&mut self, event: &Event) -> &mut Task {
        self.tasks
            .entry(task_key(event.pid, event.cpu))
            .or_default()
    }

    fn syscall_enter(&mut self, event: &Event, op: Op) {
        let io = self.ios.insert(Io::new(event.pid, op, event.ts));
        if let Some(old) = self.task(event).io.replace(io) {
            self.abandon(old, event.ts);
        }
        if op.writes() {
            self.writers.push(io);
        }
    }

    fn syscall_exit(&mut self, event: &Event, op: Op, ret: i64) {
        let open = self.task(event).io.take();
        match open {
            Some(at) if self.ios.get(at).is_some_and(|io| io.op == op) => {
                self.close(at, event.ts, ret);
            }
            Some(at) => self.abandon(at, event.ts),
            None if self.names.selected(event.pid) => {
                self.out.ios.seen += 1;
                let after_gap = self
                    .options
                    .lost
                    .iter()
                    .any(|l| l.from > 0 && l.to <= event.ts);
                let count = if after_gap {
                    &mut self.out.ios.dropped_lost
                } else {
                    &mut self.out.ios.incomplete
                };
                *count += 1;
            }
            None => {}
        }
    }

    fn switch(&mut self, event: &Event, cpu: usize, blocked: bool, next: i32) {
        self.switches_seen = true;
        self.task(event).blocked = blocked;
        let mut io = None;
        if let Some(task) = self.tasks.get_mut(&task_key(next, event.cpu)) {
            task.blocked = false;
            io = task.io;
        }
        self.on_cpu(cpu, |c, ios| c.switch(ios, next, io));
    }

    /// Whether events are missing between two times.
    fn touches_gap(&self, from: u64, to: u64) -> bool {
        self.options
            .lost
            .iter()
            .any(|l| l.from <= to && l.to >= from)
    }

    /// An I/O whose exit was never seen.
    fn abandon(&mut self, at: Ref, until: u64) {
        self.writers.retain(|&w| w != at);
        let Some(io) = self.ios.remove(at) else {
            return;
        };
        if self.names.selected(io.pid) {
            self.out.ios.seen += 1;
            let count = if self.touches_gap(io.start, until) {
                &mut self.out.ios.dropped_lost
            } else {
                &mut self.out.ios.incomplete
            };
            *count += 1;
        }
    }

    fn close(&mut self, at: Ref, end: u64, ret: i64) {
        self.writers.retain(|&w| w != at);
        let Some(mut io) = self.ios.remove(at) else {
            return;
        };
        if !self.names.selected(io.pid) {
            return;
        }
        self.out.ios.seen += 1;
        if self.touches_gap(io.start, end) {
            self.out.ios.dropped_lost += 1;
            return;
        }
        for request in std::mem::take(&mut io.live) {
            io.requests.extend(self.detach(request, at, end));
        }
        if io.requests.is_empty() {
            self.out.ios.no_request += 1;
            return;
        }
        let result = self.measure.finish(io, end, ret);
        self.out.ios.measured += 1;
        self.out.ios.clean += u64::from(result.clean);
        self.out.ios.detached += u64::from(result.detached > 0);
        self.out.results.push(result);
    }

    /// A request that is not complete when its I/O ends. A helper's counts for nobody: the task
    /// did not wait for it.
    fn detach(&mut self, at: Ref, io: Ref, end: u64) -> Option<IoRequest> {
        let request = self.block.requests.get(at)?;
        let parts = request.parts.iter().filter_map(|&bio| self.block.bio(bio));
        if parts
            .filter(|b| b.io.is_some_and(|i| i.io == io))
            .all(|b| b.helper)
        {
            let request = self.block.requests.get_mut(at)?;
            if request.owner == Some(io) {
                (request.owner, request.category) = (None, Category::Unattributed);
            }
            return None;
        }
        let (start, _) = self.device_start(request, end, None);
        Some(IoRequest {
            seq: request.seq,
            device: DeviceSpan {
                start,
                interrupt: end,
                done: end,
            },
            rwbs: request.span.rwbs,
            sectors: request.span.sectors,
            helper: false,
            detached: true,
            frame: None,
            share: None,
        })
    }
}
