//! From events to measured I/Os.

use std::sync::Arc;

use crate::block::Block;
use crate::class::Class;
use crate::cpu::Cpu;
use crate::event::{Dev, Event, Kind, Lost, Now, Tag};
use crate::frame::Current;
use crate::gaps::Gaps;
use crate::handlers::{Handler, Silent, Starts};
use crate::io::{Io, IoResult, Ios, Sink};
use crate::limits;
use crate::mark::Moment;
use crate::measure::Measure;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::slab::{IntMap, Ref, Slab};
use crate::task::{Table, Task};
use crate::turns::{Counts, Ran, Tracing, Turns};

/// What the caller knows of tasks.
pub trait Tasks {
    /// Whether this task's I/Os are to be measured.
    fn selected(&self, pid: i32) -> bool;
    /// Whether this task submits requests for others: a journal thread, a kernel worker.
    fn helps(&self, pid: i32) -> bool;
    /// Whether this is the thread of an interrupt.
    fn serves_interrupt(&self, _pid: i32) -> bool {
        false
    }
    /// Whether this is a thread to which softirqs are left.
    fn runs_softirqs(&self, _pid: i32) -> bool {
        false
    }
    /// The task that this one does the entries of `io_uring` for, if it is such a worker.
    fn works_for(&self, _pid: i32) -> Option<i32> {
        None
    }
}

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // independent switches
pub struct Options {
    /// Take the return of the driver's queue function as the hand-over to the device; set by
    /// itself with the first one.
    pub use_queue_return: bool,
    /// Never do so.
    pub ignore_queue_return: bool,
    /// The trace has `nvme_complete_rq`; without it `nvme_sq` is paired with the completions. Set
    /// by itself with the first one.
    pub has_nvme_complete: bool,
    /// There are no system calls: every bio is an I/O (blktrace).
    pub bios_are_ios: bool,
    /// The architecture has no events of system calls (User Mode Linux): what the file system and
    /// the page cache begin and end for a task is an I/O (module `uncalled`).
    pub without_calls: bool,
    /// Count every event in own time, by name and section. Costs time.
    pub count_events: bool,
}

/// The measurement. Feed it all events in order of time, then [`Engine::finish`].
#[derive(Debug)]
pub struct Engine<T, S> {
    pub(crate) options: Options,
    pub(crate) names: T,
    pub(crate) sink: S,
    pub(crate) tasks: Table,
    pub(crate) ios: Ios,
    /// Closed I/Os, whose memory is used again.
    #[allow(clippy::vec_box)] // they go back as they came
    spare: Vec<Box<Io>>,
    /// Open I/Os that write, oldest first.
    pub(crate) writers: Vec<Ref>,
    pub(crate) block: Block,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) tags: IntMap<Tag, Ref>,
    /// The disks of known devices, by their names in `NVMe` events, with the devices' numbers.
    pub(crate) disks: Vec<(u64, usize)>,
    /// Open entries of `io_uring` by what its events call them.
    pub(crate) uring: IntMap<u64, Ref>,
    /// The request that a card has served last, by the host's name.
    pub(crate) cards: IntMap<u64, Ref>,
    /// Those that a worker thread is to do.
    pub(crate) punted: Vec<Ref>,
    pub(crate) switches_seen: bool,
    /// The trace has `io_uring_complete`.
    pub(crate) posts_seen: bool,
    pub(crate) starts: Starts,
    pub(crate) silent: Silent,
    pub(crate) gaps: Gaps,
    /// A gap is still to end, or every event is counted: not even the usual one passes quickly.
    pub(crate) is_watched: bool,
    pub(crate) measure: Measure,
    /// The I/O that was measured last.
    pub(crate) result: IoResult,
    pub(crate) out: Outcome,
}

impl<T: Tasks, S: Sink> Engine<T, S> {
    /// Starts a measurement; the I/Os go to the sink as they end.
    pub fn new(options: Options, names: T, sink: S) -> Self {
        Self {
            options,
            names,
            sink,
            tasks: Table::default(),
            ios: Slab::default(),
            spare: Vec::new(),
            writers: Vec::new(),
            block: Block::default(),
            cpus: Vec::new(),
            tags: IntMap::default(),
            disks: Vec::new(),
            uring: IntMap::default(),
            cards: IntMap::default(),
            punted: Vec::new(),
            switches_seen: false,
            posts_seen: false,
            starts: Starts::default(),
            silent: Silent::default(),
            gaps: Gaps::default(),
            is_watched: options.count_events,
            measure: Measure::new(options.count_events),
            result: IoResult::default(),
            out: Outcome::default(),
        }
    }

    /// Own times count what each CPU executed, by its turns. To be told before any event.
    pub fn set_turns(&mut self, turns: Arc<Turns>) {
        self.measure.ran = Ran::Turns(turns);
    }

    /// No time counts what recorded the trace. To be told before any event.
    pub fn set_tracing(&mut self, tracing: Arc<Tracing>) {
        self.measure.ran = Ran::Untraced(tracing);
    }

    /// Lengths are what was counted between two readings of the clock, in place of time.
    pub fn set_counts(&mut self, counts: Arc<Counts>) {
        self.measure.ran = Ran::Counted(counts);
    }

    /// What the caller knows of tasks, to be told more.
    pub fn names(&mut self) -> &mut T {
        &mut self.names
    }

    /// What takes the I/Os.
    pub fn sink(&mut self) -> &mut S {
        &mut self.sink
    }

    /// Names of the ways so far, by number; see `Outcome::path`.
    pub fn paths(&self) -> &[String] {
        self.measure.paths.so_far()
    }

    /// The bit of a device in `IoResult::devices`; 0 while it has not been seen.
    pub fn bit(&self, dev: Dev) -> u64 {
        let place = self.block.devices.iter().position(|d| d.out.dev == dev);
        place.map_or(0, |place| 1 << place.min(63))
    }

    /// Takes the next event.
    ///
    /// A caller who has many of them, and knows what they are beforehand, takes these three steps
    /// by itself.
    pub fn push(&mut self, event: &Event) {
        let now = Now::new(event.ts, event.cpu, event.pid);
        let cpu = self.place(event.cpu);
        self.pass(now, cpu, event.name, Class::of(&event.kind));
        self.apply(now, cpu, event.kind);
    }

    /// Events of a CPU are missing. To be told as soon as it is known: before any event that is
    /// later than the gap's start.
    pub fn gap(&mut self, cpu: u32, gap: Lost) {
        let cpu = self.place(cpu);
        self.gaps.add(gap, cpu);
        self.is_watched = true;
    }

    /// Ends the measurement. Gives what was counted, the sink, and what is known of tasks.
    pub fn finish(mut self) -> (Outcome, S, T) {
        for cpu in 0..self.cpus.len() {
            self.settle(cpu);
        }
        let open: Vec<Ref> = self.ios.iter().map(|(io, _)| io).collect();
        for io in open {
            if !self.close_unposted(io) {
                self.abandon(io, u64::MAX);
            }
        }
        for task in self.tasks.iter_mut() {
            for (_, io) in task.unreaped.drain(..) {
                if let Some(io) = io {
                    self.sink.take(&io);
                }
            }
        }
        self.block.clear();
        self.out.partitions = self.block.aliases.drain().collect();
        self.out.partitions.sort_unstable();
        self.out.devices = self.block.devices.into_iter().map(|d| d.out).collect();
        self.out.switches = self.switches_seen;
        self.out.probe_events = self.measure.events;
        self.out.paths = self.measure.paths.names();
        (self.out, self.sink, self.names)
    }

    /// The place of a CPU, which holds for good.
    pub fn place(&mut self, number: u32) -> usize {
        let cpu = number.min(limits::CPUS) as usize;
        if self.cpus.len() <= cpu {
            let ran = &self.measure.ran;
            let new = (self.cpus.len()..=cpu).map(|place| Cpu::new(place as u32, ran.clone()));
            self.cpus.extend(new);
        }
        cpu
    }

    pub(crate) fn prune(&mut self) {
        if self.tasks.prune() {
            self.cpus.iter_mut().for_each(|c| c.task = None);
        }
    }

    /// What was in flight when events got lost is not known any more.
    #[cold]
    pub(crate) fn end_gaps(&mut self, now: u64) {
        let mut over = false;
        while let Some(cpu) = self.gaps.over(now) {
            over = true;
            if let Some(cpu) = self.cpus.get_mut(cpu) {
                cpu.reset();
            }
        }
        self.is_watched = self.options.count_events || !self.gaps.are_over();
        if !over {
            return;
        }
        self.block.clear();
        self.silent.clear();
        self.tags.clear();
        self.cards.clear();
        self.tasks.iter_mut().for_each(Task::forget);
        let stale = |io: &Io| io.op.is_async() && !io.submitting;
        let ios = self.ios.iter().filter(|(_, io)| stale(io));
        let stale: Vec<Ref> = ios.map(|(at, _)| at).collect();
        for io in stale {
            if !self.close_unposted(io) {
                self.abandon(io, now);
            }
        }
    }

    /// What an event tells, at the place of its CPU, after [`Engine::pass`].
    ///
    /// Inlined, so that a caller who knows the kind when compiled spares all questions about it.
    #[inline(always)]
    #[allow(clippy::inline_always)] // the calls by kind cost as much as what they do
    pub fn apply(&mut self, now: Now, cpu: usize, kind: Kind) {
        match kind {
            Kind::Other => {}
            // These only set moments.
            Kind::Getrq(..) | Kind::Insert(..) | Kind::IoDone if !self.sink.wants_all() => {}
            Kind::SyscallEnter(op) => self.syscall_enter(now, cpu, op),
            Kind::SyscallExit(op, ret) => self.syscall_exit(now, cpu, op, ret),
            Kind::CallEnter(call, asked, waits) => self.call_enter(now, cpu, call, (asked, waits)),
            Kind::CallExit(call, ret) => self.call_exit(now, cpu, call, ret),
            Kind::Reaped(count) => self.reap(now, cpu, Op::IoSubmit, count),
            Kind::UringSubmit(entry, request) => self.uring_submit(now, cpu, entry, request),
            Kind::UringPunt(request) => self.uring_punt(request),
            Kind::UringComplete(entry) => self.uring_complete(now, entry),
            Kind::FsBegin => self.fs_begin(now, cpu),
            Kind::DioComplete => self.dio_complete(now, cpu),
            Kind::Begins(op) => self.begin_uncalled(now, cpu, op),
            Kind::PagesGot(bytes) => self.pages_got(now, cpu, bytes),
            Kind::SyncExit => self.sync_exit(now, cpu),
            Kind::BioQueue(span) => self.bio_queue(now, cpu, span),
            Kind::Remap { from, to } => self.remap(cpu, from, to),
            Kind::Getrq(dev, at) => self.moment_of_bio(now, cpu, (dev, at), Moment::Getrq),
            Kind::Split(dev) => self.split(cpu, dev),
            Kind::Merge(dev) => self.merge(cpu, dev),
            Kind::Insert(dev, at) => self.moment_of_bio(now, cpu, (dev, at), Moment::Insert),
            Kind::Issue(span) => self.issue(now, cpu, span),
            Kind::Requeue(span) => self.requeue(span),
            Kind::Complete(span) => self.complete(now, cpu, span),
            Kind::IoDone => self.io_done(now, cpu),
            Kind::NvmeSetup(tag) => self.nvme_setup(now, cpu, tag),
            Kind::NvmeSq(disk) => self.nvme_sq(now, cpu, disk),
            Kind::Send(driver, tag) => self.send(now, cpu, driver, tag),
            Kind::Done(driver, tag) => self.done(now, cpu, driver, tag),
            Kind::QueueReturn => self.queue_return(now, cpu),
            Kind::Waking(pid) => self.waking(now, cpu, pid),
            Kind::Switch { blocked, next } => self.switch(now, cpu, blocked, next),
            Kind::IrqEntry(number) => self.irq_entry(now, cpu, number),
            Kind::SoftirqEntry(_) => self.on_cpu(cpu, |c, _| c.enter_softirq(now.ts)),
            Kind::IrqExit => self.irq_exit(cpu),
            Kind::SoftirqExit => self.on_cpu(cpu, |c, ios| c.leave(ios, false)),
        }
    }

    fn irq_entry(&mut self, now: Now, cpu: usize, number: u32) {
        let handler = Handler { ts: now.ts, number };
        self.starts.start(handler);
        self.on_cpu(cpu, |c, ios| c.enter(ios, handler));
    }

    fn irq_exit(&mut self, cpu: usize) {
        let Some(c) = self.cpus.get_mut(cpu) else {
            return;
        };
        c.leave(&mut self.ios, true);
        if let Some((Current::Unknown, Some(handler))) = c.left {
            self.silent.keep(handler, &c.unclaimed);
        }
    }

    pub(crate) fn on_cpu<R: Default>(
        &mut self,
        cpu: usize,
        act: impl FnOnce(&mut Cpu, &mut Ios) -> R,
    ) -> R {
        match self.cpus.get_mut(cpu) {
            Some(c) => act(c, &mut self.ios),
            None => R::default(),
        }
    }

    /// The task that is current on a CPU.
    pub(crate) fn task(&mut self, cpu: usize) -> Option<&mut Task> {
        let place = self.cpus.get(cpu)?.task?;
        self.tasks.get_mut(place)
    }

    /// The I/O of the task that is current on a CPU.
    pub(crate) fn current_io(&self, cpu: usize) -> Option<Ref> {
        self.tasks.get(self.cpus.get(cpu)?.task?)?.io
    }

    /// A place for a new I/O.
    pub(crate) fn open(&mut self, io: impl FnOnce(&mut Io)) -> Ref {
        if self.ios.len() >= limits::OPEN_IOS {
            self.abandon_oldest();
        }
        let mut new = self.spare.pop().unwrap_or_default();
        io(&mut new);
        self.ios.insert(new)
    }

    /// Makes room: an eighth at once, since all are looked at.
    #[cold]
    fn abandon_oldest(&mut self) {
        let mut all: Vec<_> = self.ios.iter().map(|(at, io)| (io.start, at)).collect();
        all.sort_unstable_by_key(|&(start, _)| start);
        for (_, at) in all.into_iter().take(limits::OPEN_IOS / 8) {
            self.abandon(at, u64::MAX);
        }
    }

    /// Keeps a closed I/O's memory, unless it is much.
    pub(crate) fn recycle(&mut self, io: Box<Io>) {
        let small = io.pieces.capacity() <= 1024 && io.requests.capacity() <= 256;
        if small && self.spare.len() < 256 {
            self.spare.push(io);
        }
    }
}
