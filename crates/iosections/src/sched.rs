//! Tasks wake one another, and take turns on a CPU.

use crate::cpu::Cpu;
use crate::engine::{Engine, Tasks};
use crate::event::Now;
use crate::io::Sink;
use crate::mark::Moment;
use crate::slab::Ref;
use crate::task::task_key;

impl<T: Tasks, S: Sink> Engine<T, S> {
    /// A task is woken: by an interrupt, or by a task whose write waits for what it will do.
    pub(crate) fn waking(&mut self, now: Now, cpu: usize, pid: i32) {
        let irq = self.cpus.get(cpu).and_then(Cpu::waking_irq);
        let asked = match irq {
            Some(_) => None,
            None => self.asks(now, cpu).filter(|_| self.names.helps(pid)),
        };
        let place = self.tasks.place(pid);
        let Some(task) = self.tasks.get_mut(place) else {
            return;
        };
        task.woken_by = irq;
        task.handed.clear();
        if irq.is_some() && self.names.serves_interrupt(pid) {
            if let Some(c) = self.cpus.get_mut(cpu) {
                c.hand_on(pid, &mut task.handed);
            }
        }
        if irq.is_some() && self.names.runs_softirqs(pid) {
            if let Some(c) = self.cpus.get_mut(cpu) {
                c.woke = Some(pid);
            }
        }
        if irq.is_none() {
            task.woken_for = asked;
        }
        let Some(at) = task.io else {
            return;
        };
        if let Some(io) = self.ios.get_mut(at).filter(|io| io.last_done > 0) {
            io.moments.set(Moment::Waking, now.ts);
        }
        let waker = irq.is_none().then_some(now.pid());
        let completed = irq.and_then(|_| self.cpus.get(cpu)?.last_done);
        self.woken(at, waker, completed);
    }

    /// The writing I/O for which a task wakes another one: its own, or the one that it was itself
    /// woken for.
    fn asks(&mut self, now: Now, cpu: usize) -> Option<Ref> {
        let helps = now.pid() != 0 && self.names.helps(now.pid());
        let task = self.task(cpu)?;
        let asks = task.io.or(task.woken_for.filter(|_| helps))?;
        self.ios.get(asks).filter(|io| io.op.writes()).map(|_| asks)
    }

    pub(crate) fn switch(&mut self, now: Now, cpu: usize, blocked: bool, next: i32) {
        self.switches_seen = true;
        let leaves = self.current_io(cpu).and_then(|at| self.ios.get_mut(at));
        if let Some(io) = leaves {
            io.asleep = blocked;
            io.slept |= blocked;
        }
        let io = self
            .tasks
            .by_key(task_key(next, now.cpu()))
            .and_then(|task| task.io);
        if let Some(io) = io.and_then(|at| self.ios.get_mut(at)) {
            io.asleep = false;
            if io.moments.get(Moment::Waking).is_some() {
                io.moments.set(Moment::SchedIn, now.ts);
            }
        }
        self.on_cpu(cpu, |c, ios| c.switch(ios, next, io));
    }
}
