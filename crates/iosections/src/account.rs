//! Whom a piece of executed code is given to; the rules are in module `cpu`.

use crate::cpu::{Cpu, PENDING_LIMIT};
use crate::frame::Current;
use crate::give::{give, give_all};
use crate::io::{Ios, Mode, Piece};
use crate::slab::Ref;

/// What `Cpu::account` must know of the event that ends the piece.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) ts: u64,
    /// Its name where events are counted, else 0.
    pub(crate) name: u16,
    pub(crate) pid: i32,
    /// The event is `softirq_entry`.
    pub(crate) softirq: bool,
}

/// Keeps a piece until its owner shows, as one with the piece before it where possible.
fn hold(pending: &mut Vec<Piece>, piece: Piece) {
    let joins =
        |last: &&mut Piece| piece.event == 0 && (last.end, last.cpu) == (piece.start, piece.cpu);
    if let Some(last) = pending.last_mut().filter(joins) {
        last.end = piece.end;
    } else if pending.len() < PENDING_LIMIT {
        pending.push(piece);
    }
}

impl Cpu {
    /// Gives away the piece that ends with an event; or gives it back when it is the current
    /// task's.
    #[inline]
    pub(crate) fn account(&mut self, ios: &mut Ios, ends: Ends) -> Option<Piece> {
        let mut current = None;
        (self.just_left, self.before) = (None, None);
        if self.left.is_some() {
            current = self.end_left(ends.softirq);
        }
        let start = self.last.replace(ends.ts)?;
        let piece = Piece {
            start,
            end: ends.ts,
            cpu: self.number,
            event: ends.name,
            mode: Mode::Timeline,
        };
        if let Some(frame) = self.frames.last_mut() {
            if let Some(irq) = frame.irq {
                let ran = self.ran.between(self.number, start, ends.ts);
                self.batches.ran(irq.ts, ran);
            }
            match frame.current {
                Current::Unknown => hold(&mut frame.pending, piece),
                Current::Foreign => {}
                Current::Io(io, mode) => give(ios, io, mode, piece),
                Current::Slot(serial) => self.hold_for_slot(serial, piece),
            }
            return None;
        }
        // From an interrupt's end to its softirq's beginning is part of both.
        if let Some(irq) = self.before {
            let ran = self.ran.between(self.number, start, ends.ts);
            self.batches.ran(irq.ts, ran);
        }
        if let Some(Current::Io(io, mode)) = current {
            give(ios, io, mode, piece);
            return None;
        }
        if ends.pid == 0 {
            if !(self.wake.is_empty() && self.woke.is_none() && self.unclaimed.is_empty()) {
                hold(&mut self.idle, piece);
            }
            return None;
        }
        // A task runs: whatever the interrupts woke, the idle task did not switch to it.
        self.wake.clear();
        self.idle.clear();
        self.woke = None;
        Some(piece)
    }

    /// The last event ended an interrupt; whose code ran in it, when its softirq begins now.
    fn end_left(&mut self, softirq: bool) -> Option<Current> {
        let (current, irq) = self.left.take()?;
        self.just_left = irq;
        self.before = irq.filter(|_| softirq);
        softirq.then_some(current)
    }

    fn hold_for_slot(&mut self, serial: u64, piece: Piece) {
        if let Some(slot) = self.slots.iter_mut().rev().find(|s| s.serial == serial) {
            hold(&mut slot.pieces, piece);
        }
    }

    /// A piece of a task that has no I/O of its own; `serves` is the one that it last submitted
    /// for.
    #[inline] // a piece would go through memory
    pub(crate) fn account_run(
        &mut self,
        ios: &mut Ios,
        pid: i32,
        serves: Option<Ref>,
        piece: Piece,
    ) {
        if self.run.pid != pid {
            self.run.renew(pid);
        }
        if self.run.io.is_none_or(|io| ios.get(io).is_none()) {
            self.run.io = None;
            if let Some(io) = serves.filter(|&io| ios.get(io).is_some_and(|io| io.asleep)) {
                self.resolve_run(ios, pid, io);
            }
        }
        self.run.ran += self.ran.between(self.number, piece.start, piece.end);
        match self.run.io {
            Some(io) => give(ios, io, Mode::Timeline, piece),
            None => hold(&mut self.run.pending, piece),
        }
    }

    /// What the current task executed to complete a request of this I/O, with the idle task's way to it.
    pub(crate) fn worked(&mut self, pid: i32, io: Option<Ref>) -> u64 {
        if self.run.pid != pid {
            return 0;
        }
        let (ran, fresh) = self.run.worked();
        let leads_here = self.run.asked || io.is_some_and(|io| self.run.wake.contains(&io));
        if !(fresh && leads_here) {
            return ran;
        }
        let way = self.run.idle.iter();
        let way: u64 = way.map(|p| self.ran.between(p.cpu, p.start, p.end)).sum();
        ran + way
    }

    /// The current task, which has no I/O of its own, turns out to work for this one.
    pub(crate) fn resolve_run(&mut self, ios: &mut Ios, pid: i32, io: Ref) {
        if !self.frames.is_empty() || pid == 0 {
            return;
        }
        if self.run.pid != pid {
            self.run.renew(pid);
        }
        if self.run.asked || self.run.wake.contains(&io) {
            give_all(ios, io, Mode::Timeline, &mut self.run.idle);
        }
        self.run.idle.clear();
        give_all(ios, io, Mode::Timeline, &mut self.run.pending);
        self.run.io = Some(io);
    }

    /// The thread that runs a softirq came here for this I/O: the idle task's way to it, and its own
    /// code before the softirq.
    pub(crate) fn resolve_way(&mut self, ios: &mut Ios, pid: i32, io: Ref) {
        if self.run.pid != pid {
            return;
        }
        if std::mem::take(&mut self.run.asked) {
            give_all(ios, io, Mode::Completion, &mut self.run.idle);
        }
        self.run.idle.clear();
        give_all(ios, io, Mode::Completion, &mut self.run.pending);
    }
}
