//! From one event of a CPU to the next: the code between them goes to its I/O.

use crate::account::Ends;
use crate::class::Class;
use crate::cpu::Cpu;
use crate::engine::{Engine, Tasks};
use crate::event::Now;
use crate::give::give;
use crate::io::{Mode, Sink};
use crate::task::task_key;

impl<T: Tasks, S: Sink> Engine<T, S> {
    /// The next event comes, at the place of its CPU; `name` as in [`Event`].
    ///
    /// [`Event`]: crate::Event
    #[inline(always)]
    #[allow(clippy::inline_always)] // the usual case is short, and every event goes through it
    pub fn pass(&mut self, now: Now, cpu: usize, name: u16, class: Class) {
        if self.is_watched || !self.goes_on(now, cpu, class) {
            self.end_piece(now, cpu, name, class);
        }
    }

    /// The two usual cases, in which little is to be done: an event that tells nothing of whose
    /// code runs before and after it, and one of a task that is in its I/O.
    #[inline(always)]
    #[allow(clippy::inline_always)] // as `pass`
    fn goes_on(&mut self, now: Now, cpu: usize, class: Class) -> bool {
        let Some(c) = self.cpus.get_mut(cpu) else {
            return false;
        };
        let Some(task) = c.task.filter(|_| c.pid == now.pid()) else {
            return false;
        };
        let nothing = class == Class::Uncalled && !self.options.without_calls;
        if nothing || matches!(class, Class::Other | Class::Noted | Class::IoDone) {
            if !nothing && class != Class::Other {
                c.note();
            }
            return true;
        }
        let task = self.tasks.get(task);
        let noted = match class {
            Class::DioComplete => c.ended.is_empty() && !self.options.without_calls,
            Class::FsBegin if self.options.without_calls => false,
            Class::FsBegin => {
                let call = task.and_then(|task| task.call.as_ref());
                call.is_none_or(|call| call.asked <= 1)
            }
            _ => false,
        };
        if noted {
            c.note();
            return true;
        }
        let io = task.and_then(|task| task.io).filter(|_| now.pid() != 0);
        let io = io.and_then(|io| self.ios.get_mut(io));
        io.is_some_and(|io| c.go_on(io, now.ts))
    }

    /// The piece of code that an event ends goes to its I/O.
    #[inline(never)]
    fn end_piece(&mut self, now: Now, cpu: usize, name: u16, class: Class) {
        if self.is_watched {
            self.end_gaps(now.ts);
            if !self.options.count_events && self.goes_on(now, cpu, class) {
                return;
            }
        }
        let ends = Ends {
            ts: now.ts,
            name: if self.options.count_events { name } else { 0 },
            pid: now.pid(),
            softirq: class == Class::Softirq,
        };
        let same = |c: &Cpu| c.task.is_some() && c.pid == now.pid();
        if !self.cpus.get(cpu).is_some_and(same) {
            self.change_task(now, cpu);
        }
        let Some(c) = self.cpus.get_mut(cpu) else {
            return;
        };
        if let Some(piece) = c.account(&mut self.ios, ends) {
            let task = c.task.and_then(|place| self.tasks.get(place));
            if let Some(io) = task.and_then(|task| task.io) {
                give(&mut self.ios, io, Mode::Timeline, piece);
            } else {
                let serves = task.and_then(|task| task.serves);
                c.account_run(&mut self.ios, now.pid(), serves, piece);
            }
        }
        if class.settles() && !c.ended.is_empty() {
            self.settle(cpu);
        }
    }

    /// Another task than before is current.
    #[inline(never)]
    fn change_task(&mut self, now: Now, cpu: usize) {
        let task = self.tasks.place(task_key(now.pid(), now.cpu()));
        if let Some(c) = self.cpus.get_mut(cpu) {
            (c.pid, c.task) = (now.pid(), Some(task));
        }
        self.prune();
    }
}
