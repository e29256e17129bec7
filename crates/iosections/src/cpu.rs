//! What each CPU executes, and for which I/O.
//!
//! Between two events of a CPU lies a *piece* of executed code. It is given to an I/O
//! - when the I/O's task is current (unless an interrupt is being handled);
//! - when a helper task is current, from its switch-in to its switch-out, if it submitted or
//!   issued something for the I/O in that run, or submitted in an earlier run and the I/O's task
//!   sleeps;
//! - inside an interrupt or softirq, by the last request that the handler marked (completed, or
//!   reported complete); what comes before the first mark goes to the first request;
//! - in the idle task, between an interrupt that completed something for the I/O and the switch
//!   to its task or helper;
//! - in an interrupt that only wakes its thread, and in the idle task after it, by whom the thread
//!   then works for.
//!
//! Anything else is foreign and given to nobody.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use crate::batch::Batches;
use crate::frame::{Current, Frames};
use crate::give::give_all;
use crate::handlers::Handler;
use crate::io::{Io, Ios, Mode, Piece};
use crate::request::{Enclosing, Interrupt};
use crate::slab::Ref;
use crate::turns::Ran;

/// Most pieces that wait for an owner; a foreign task that runs longer never gets one.
pub(crate) const PENDING_LIMIT: usize = 4096;
/// Most completions that are kept for other CPUs.
const PASSED_LIMIT: usize = 64;
/// Most I/Os that the idle task may be on the way to, or that one interrupt is told apart by.
const WAKE_LIMIT: usize = 256;

/// A completion read from an `NVMe` queue (`nvme_sq`), waiting for its request to show.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) serial: u64,
    disk: u64,
    pub(crate) ts: u64,
    pub(crate) irq: Option<Interrupt>,
    /// A task read it, in no interrupt.
    pub(crate) polled: bool,
    pub(crate) pieces: Vec<Piece>,
}

/// The time that a task without an I/O of its own is current.
#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) pid: i32,
    pub(crate) io: Option<Ref>,
    pub(crate) pending: Vec<Piece>,
    /// Idle time before the switch, and the I/Os whose completion ended it.
    pub(crate) idle: Vec<Piece>,
    pub(crate) wake: Vec<Ref>,
    /// An interrupt that nobody's completion claimed woke the task: `idle` leads to it.
    pub(crate) asked: bool,
    /// Executed by the task so far, or since a request was last completed in it or reported complete.
    pub(crate) ran: u64,
    /// Nothing was completed or reported in it yet: what led to it counts for the first of these.
    pub(crate) fresh: bool,
}

impl Run {
    /// What the task executed since this was last asked, and whether it is asked for the first time.
    pub(crate) fn worked(&mut self) -> (u64, bool) {
        (
            std::mem::take(&mut self.ran),
            std::mem::take(&mut self.fresh),
        )
    }

    pub(crate) fn renew(&mut self, pid: i32) {
        self.pid = pid;
        self.io = None;
        self.pending.clear();
        self.idle.clear();
        self.wake.clear();
        self.asked = false;
        (self.ran, self.fresh) = (0, true);
    }
}

/// One CPU.
#[derive(Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) number: u32,
    pub(crate) ran: Ran,
    pub(crate) last: Option<u64>,
    /// The current task as of the last event: its number, and its place among the tasks.
    pub(crate) pid: i32,
    pub(crate) task: Option<usize>,
    /// Asynchronous I/Os that ended with the last completion, until the next event; those of a
    /// merged request in the order of its bios.
    pub(crate) ended: VecDeque<Ref>,
    /// The I/O that was completed or reported last.
    pub(crate) last_done: Option<Ref>,
    pub(crate) frames: Frames,
    pub(crate) run: Run,
    /// I/Os that got a completion since the CPU was last switched, and the idle pieces since.
    pub(crate) wake: Vec<Ref>,
    pub(crate) idle: Vec<Piece>,
    pub(crate) slots: VecDeque<Slot>,
    /// Those whose requests did not show here: another CPU may end them.
    passed: VecDeque<Slot>,
    /// The frame that the last event ended: whose code ran last in it, and its interrupt.
    pub(crate) left: Option<(Current, Option<Handler>)>,
    /// The interrupt that the event before the last one ended.
    pub(crate) just_left: Option<Handler>,
    /// The interrupt before a softirq that the last event began.
    pub(crate) before: Option<Handler>,
    pub(crate) batches: Batches,
    /// What the last interrupt executed that no completion claimed.
    pub(crate) unclaimed: Vec<Piece>,
    /// The task that it woke.
    pub(crate) woke: Option<i32>,
    serial: u64,
}

impl Cpu {
    pub(crate) fn new(number: u32, ran: Ran) -> Self {
        Self {
            number,
            ran,
            ..Self::default()
        }
    }

    /// The CPU switches to another task; `io` is the I/O of that task, if it has one.
    pub(crate) fn switch(&mut self, ios: &mut Ios, next: i32, io: Option<Ref>) {
        self.pass_on();
        self.run.renew(if io.is_some() { 0 } else { next });
        match io {
            Some(io) if self.wake.contains(&io) => {
                give_all(ios, io, Mode::Timeline, &mut self.idle);
            }
            Some(_) => {}
            None => {
                std::mem::swap(&mut self.run.idle, &mut self.idle);
                std::mem::swap(&mut self.run.wake, &mut self.wake);
                self.run.asked = self.woke == Some(next);
            }
        }
        self.woke = None;
        self.idle.clear();
        self.wake.clear();
    }

    /// A hard interrupt begins.
    pub(crate) fn enter(&mut self, ios: &mut Ios, handler: Handler) {
        if self.frames.is_empty() {
            self.pass_on();
        }
        self.serial += 1;
        self.unclaimed.clear();
        if self.wake.is_empty() {
            // Idle time before this interrupt was waiting, not the way to somebody.
            self.idle.clear();
            self.woke = None;
        }
        self.batches.begin(ios, handler.ts);
        self.frames.begin(true, Some(handler), None, self.serial);
    }

    /// Goes on to something else: completions that were read may be other CPUs' to end.
    #[inline]
    fn pass_on(&mut self) {
        if !self.slots.is_empty() {
            self.pass_slots();
        }
    }

    #[inline(never)]
    fn pass_slots(&mut self) {
        let read = self.slots.drain(..);
        self.passed.extend(read.filter(|slot| slot.irq.is_some()));
        while self.passed.len() > PASSED_LIMIT {
            self.passed.pop_front();
        }
    }

    /// When the oldest completion of a disk was read here, since then, that no request showed for.
    pub(crate) fn read_since(&self, disk: u64, since: u64) -> Option<u64> {
        let read = self.passed.iter().chain(&self.slots);
        read.filter(|slot| slot.disk == disk && slot.irq.is_some())
            .map(|slot| slot.ts)
            .find(|&ts| ts >= since)
    }

    /// That completion is of this I/O, whose request another CPU ends.
    pub(crate) fn take_read(
        &mut self,
        ios: &mut Ios,
        disk: u64,
        at: u64,
        io: Option<Ref>,
    ) -> Option<Slot> {
        let is_it = |slot: &Slot| slot.disk == disk && slot.ts == at;
        if let Some(place) = self.slots.iter().position(is_it) {
            return self.take_slot(ios, place, io);
        }
        let place = self.passed.iter().position(is_it)?;
        let mut slot = self.passed.remove(place)?;
        if let Some(io) = io {
            give_all(ios, io, Mode::Completion, &mut slot.pieces);
        }
        Some(slot)
    }

    /// Another CPU heard of this I/O's request, and this one ends it in a softirq: the interrupt that
    /// the softirq directly followed brought it here.
    pub(crate) fn brought(&mut self, ios: &mut Ios, io: Ref) {
        if self
            .frames
            .last()
            .is_some_and(|f| !f.hard && f.irq.is_some())
        {
            give_all(ios, io, Mode::Completion, &mut self.unclaimed);
        }
    }

    /// A softirq begins.
    pub(crate) fn enter_softirq(&mut self, ts: u64) {
        self.serial += 1;
        self.frames.begin(false, self.before, Some(ts), self.serial);
    }

    /// It ends.
    pub(crate) fn leave(&mut self, ios: &mut Ios, hard: bool) {
        let Some(frame) = self.frames.end(hard) else {
            return;
        };
        if hard && frame.current == Current::Unknown {
            std::mem::swap(&mut self.unclaimed, &mut frame.pending);
        }
        if frame.ios.len() + usize::from(frame.foreign) > 1 {
            for &io in &frame.ios {
                if let Some(io) = ios.get_mut(io) {
                    io.shared = true;
                }
            }
        }
        self.left = Some((frame.current, frame.irq));
    }

    /// A handler reports something of a request: the code from here on runs for it.
    pub(crate) fn mark(&mut self, ios: &mut Ios, io: Option<Ref>, mode: Mode) {
        let current = io.map_or(Current::Foreign, |io| Current::Io(io, mode));
        self.last_done = io;
        if let Some(io) = io.filter(|io| !self.wake.contains(io)) {
            if self.wake.len() < WAKE_LIMIT {
                self.wake.push(io);
            }
        }
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        if frame.current == Current::Unknown {
            // Idle time before this interrupt was waiting, not waking up.
            self.idle.clear();
        }
        match (io, frame.current) {
            (Some(io), Current::Unknown) => {
                give_all(ios, io, Mode::Completion, &mut frame.pending);
            }
            (None, Current::Unknown) => frame.pending.clear(),
            _ => {}
        }
        match io {
            Some(io) if frame.ios.len() < WAKE_LIMIT && !frame.ios.contains(&io) => {
                frame.ios.push(io);
            }
            None => frame.foreign = true,
            _ => {}
        }
        frame.current = current;
    }

    /// A completion was read whose request is not known yet.
    pub(crate) fn open_slot(&mut self, disk: u64, ts: u64) {
        let irq = self.interrupt();
        self.serial += 1;
        let serial = self.serial;
        let polled = self.frames.last().is_none();
        // A task that polls reads one as well: what it executes is for its own I/O.
        let pieces = self.frames.last_mut().map_or_else(Vec::new, |frame| {
            self.idle.clear();
            frame.current = Current::Slot(serial);
            std::mem::take(&mut frame.pending)
        });
        self.slots.push_back(Slot {
            serial,
            disk,
            ts,
            irq,
            polled,
            pieces,
        });
        if self.slots.len() > PENDING_LIMIT {
            self.slots.pop_front();
        }
    }

    /// The oldest such completion of the disk belongs to this I/O.
    pub(crate) fn close_slot(&mut self, ios: &mut Ios, disk: u64, io: Option<Ref>) -> Option<Slot> {
        let place = self.slots.iter().position(|s| s.disk == disk)?;
        self.take_slot(ios, place, io)
    }

    /// The oldest such completion of any disk belongs to this I/O.
    pub(crate) fn close_next_slot(&mut self, ios: &mut Ios, io: Option<Ref>) -> Option<Slot> {
        self.take_slot(ios, 0, io)
    }

    fn take_slot(&mut self, ios: &mut Ios, place: usize, io: Option<Ref>) -> Option<Slot> {
        let mut slot = self.slots.remove(place)?;
        if let Some(io) = io {
            give_all(ios, io, Mode::Completion, &mut slot.pieces);
        }
        Some(slot)
    }

    /// The hard interrupt being handled; or, in a softirq that directly followed one, that one.
    pub(crate) fn hard_irq(&self) -> Option<Handler> {
        self.frames.last()?.within
    }

    /// The same, as one that reports a completion.
    pub(crate) fn interrupt(&self) -> Option<Interrupt> {
        let frame = self.frames.last()?;
        let Handler { ts, number } = frame.within?;
        let kind = if frame.hard {
            Enclosing::Handler
        } else {
            Enclosing::Softirq
        };
        Some(Interrupt { ts, number, kind })
    }

    /// Whether a softirq is being handled.
    pub(crate) fn in_softirq(&self) -> bool {
        self.frames.last().is_some_and(|frame| !frame.hard)
    }

    /// The interrupt that wakes a task now: the one being handled; or the one that has just ended,
    /// since the kernel wakes an interrupt's thread after its handler.
    pub(crate) fn waking_irq(&self) -> Option<u64> {
        let left = self.left.and_then(|(_, irq)| irq);
        let irq = self.hard_irq().or(left).or(self.just_left);
        irq.map(|irq| irq.ts)
    }

    /// An event of a task in its own I/O: the same as `Cpu::account` when no interrupt is being
    /// handled, none has just ended, and no I/O waits for the next event. Else nothing happens.
    #[inline]
    pub(crate) fn go_on(&mut self, io: &mut Io, ts: u64) -> bool {
        if !self.frames.is_empty() || self.left.is_some() || !self.ended.is_empty() {
            return false;
        }
        (self.just_left, self.before) = (None, None);
        self.wake.clear();
        self.idle.clear();
        if let Some(start) = self.last.replace(ts) {
            io.add(Piece {
                start,
                end: ts,
                cpu: self.number,
                event: 0,
                mode: Mode::Timeline,
            });
        }
        true
    }

    /// An event passes that ends no piece.
    pub(crate) fn note(&mut self) {
        self.just_left = None;
    }

    /// The interrupt that is handled, or has just ended, wakes its thread: what it executed, and the way to that
    /// thread, is for whom the thread works.
    pub(crate) fn hand_on(&mut self, pid: i32, to: &mut Vec<Piece>) {
        let handled = self.frames.last_mut();
        let from = match handled.filter(|frame| frame.hard && frame.current == Current::Unknown) {
            Some(frame) => &mut frame.pending,
            None => &mut self.unclaimed,
        };
        if !from.is_empty() {
            to.append(from);
            self.woke = Some(pid);
        }
    }

    /// Number of the interrupt or softirq being handled.
    pub(crate) fn frame(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.frames.last()?.serial)
    }

    /// Events of this CPU are missing: nothing is known any more.
    pub(crate) fn reset(&mut self) {
        let serial = self.serial;
        let new = Self::new(self.number, std::mem::take(&mut self.ran));
        *self = Self { serial, ..new };
    }
}
