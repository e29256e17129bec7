//! Calls that submit several I/Os at once: `io_submit` and `io_uring_enter`.
//!
//! A call that is asked for one I/O submits just that. One that is asked for more is told apart by
//! what shows of each entry: `io_uring_submit_req`, else `iomap_dio_rw_begin`, else its bio. If the
//! number found is not what the call returns, none of them is measured: they count as ambiguous.

use smallvec::SmallVec;

use crate::engine::{Engine, Tasks};
use crate::event::{Call, Now};
use crate::io::Sink;
use crate::limits;
use crate::mark::{Mark, Moment};
use crate::op::Op;
use crate::slab::Ref;
use crate::task::Submission;

fn op(call: Call) -> Op {
    match call {
        Call::Submit => Op::IoSubmit,
        Call::Uring => Op::IoUring,
    }
}

impl<T: Tasks, S: Sink> Engine<T, S> {
    pub(crate) fn call_enter(
        &mut self,
        now: Now,
        cpu: usize,
        call: Call,
        (asked, waits): (u32, bool),
    ) {
        self.end_earlier_call(cpu);
        let old = self.task(cpu).and_then(|task| {
            task.call = Some(Submission {
                call,
                asked,
                waits,
                marked: false,
                ios: SmallVec::new(),
            });
            task.io.take()
        });
        if let Some(old) = old {
            self.leave(old, now.ts);
        }
        if asked > 0 {
            self.start(now, cpu, op(call), Mark::SyscallEnter);
        }
    }

    /// The task begins to submit the next I/O.
    pub(crate) fn start(&mut self, now: Now, cpu: usize, op: Op, mark: Mark) -> Ref {
        let (pid, ts, on) = (now.pid(), now.ts, now.cpu());
        let io = self.open(|io| io.renew(pid, op, ts, mark, on));
        let mut old = None;
        if let Some(task) = self.task(cpu) {
            old = task.io.replace(io);
            if let Some(call) = task.call.as_mut() {
                if call.ios.len() < limits::BATCH {
                    call.ios.push(io);
                }
            }
        }
        let within_call = self.task(cpu).is_some_and(|task| task.call.is_some());
        if let (Some(old), false) = (old, within_call) {
            // A submission thread (SQPOLL) has no call whose end would tell.
            self.leave(old, ts);
        }
        io
    }

    pub(crate) fn call_exit(&mut self, now: Now, cpu: usize, call: Call, ret: i64) {
        let Some(task) = self.task(cpu) else {
            return;
        };
        let Some(submission) = task.call.take().filter(|s| s.call == call) else {
            return;
        };
        task.io = None;
        let told_apart = submission.marked || ret <= 0 || submission.asked <= 1 || {
            submission.ios.len() as u64 == ret as u64
        };
        self.end_submission(&submission.ios, told_apart);
        if submission.waits {
            // How many of them user space takes off the ring does not show: all that are there.
            self.reap(now, cpu, op(call), i64::MAX);
        }
    }

    /// The task enters a call, so one whose exit should have come is over. Only asked for here: to
    /// take it out makes every call's entry longer.
    #[inline]
    pub(crate) fn end_earlier_call(&mut self, cpu: usize) {
        if self.task(cpu).is_some_and(|task| task.call.is_some()) {
            self.end_call_unseen(cpu);
        }
    }

    /// What the call returned is not known.
    #[cold]
    fn end_call_unseen(&mut self, cpu: usize) {
        let Some(call) = self.task(cpu).and_then(|task| {
            task.io = None;
            task.call.take()
        }) else {
            return;
        };
        let told_apart = call.marked || call.asked <= 1;
        self.end_submission(&call.ios, told_apart);
    }

    /// A call submits no more; `told_apart` says whether these are all its I/Os, each by itself.
    fn end_submission(&mut self, ios: &[Ref], told_apart: bool) {
        for &at in ios {
            if let Some(io) = self.ios.get_mut(at) {
                io.submitting = false;
                io.ambiguous |= !told_apart;
            }
            self.try_close(at, None);
        }
    }

    /// An entry of `io_uring` is taken up.
    pub(crate) fn uring_submit(&mut self, now: Now, cpu: usize, entry: u64, request: Option<u64>) {
        let current = self.current_io(cpu);
        let fresh = current.filter(|&at| {
            let io = self.ios.get(at);
            io.is_some_and(|io| io.uring.is_none() && io.op == Op::IoUring)
        });
        let io = match fresh {
            Some(io) => io,
            None => self.start(now, cpu, Op::IoUring, Mark::UringSubmit),
        };
        if let Some(call) = self.task(cpu).and_then(|task| task.call.as_mut()) {
            call.marked = true;
        }
        if let Some(io) = self.ios.get_mut(io) {
            io.uring = Some((entry, request));
        }
        if let Some(request) = request.filter(|&request| request != entry) {
            self.uring.insert(request, io);
        }
        if let Some(old) = self.uring.insert(entry, io) {
            // Its end was not seen, and its request is used again.
            if !self.close_unposted(old) {
                self.abandon(old, now.ts);
            }
        }
        if self.uring.len() > limits::OPEN_IOS {
            self.uring.clear();
        }
    }

    /// A worker thread is to do an entry.
    pub(crate) fn uring_punt(&mut self, request: u64) {
        let at = self.uring.get(&request).copied();
        let Some((at, io)) = at.and_then(|at| Some((at, self.ios.get_mut(at)?))) else {
            return;
        };
        if !std::mem::replace(&mut io.punted, true) && self.punted.len() < limits::BATCH {
            self.punted.push(at);
        }
    }

    /// The entry that a worker of `io_uring` submits a bio for: the only one that it can be.
    pub(crate) fn punted_to(&self, pid: i32) -> Option<Ref> {
        if self.punted.is_empty() {
            return None;
        }
        let owner = self.names.works_for(pid)?;
        let of_owner = |at: &&Ref| {
            let io = self.ios.get(**at);
            io.is_some_and(|io| io.pid == owner && io.posted.is_none())
        };
        let mut all = self.punted.iter().filter(of_owner);
        let first = all.next().copied();
        first.filter(|_| all.next().is_none())
    }

    pub(crate) fn uring_complete(&mut self, now: Now, entry: u64) {
        self.posts_seen = true;
        let Some(at) = self.uring.remove(&entry) else {
            return;
        };
        if let Some(io) = self.ios.get_mut(at) {
            let task = self.tasks.by_key(io.pid);
            // A submission thread tells by nothing else that it is done with the last entry.
            io.submitting &= task.is_some_and(|task| task.call.is_some());
            io.posted = Some(now.ts);
            io.moments.first(Moment::UringComplete, now.ts);
        }
        self.try_close(at, None);
    }

    /// The file system begins a direct I/O: of a call with several, the next one.
    pub(crate) fn fs_begin(&mut self, now: Now, cpu: usize) {
        if self.options.without_calls {
            self.begin_uncalled(now, cpu, Op::DirectIo);
        }
        let Some(at) = self.current_io(cpu) else {
            return;
        };
        let begun =
            |io: &crate::io::Io| io.moments.get(Moment::FsBegin).is_some() || !io.bios.is_empty();
        let next = self.ios.get(at).filter(|io| begun(io)).map(|io| io.op);
        let at = match next.filter(|_| self.takes_next(cpu)) {
            Some(op) => self.start(now, cpu, op, Mark::FsBegin),
            None => at,
        };
        if let Some(io) = self.ios.get_mut(at) {
            io.moments.first(Moment::FsBegin, now.ts);
        }
    }

    /// Whether the current call has more than one I/O, and no event of its own tells of each.
    fn takes_next(&mut self, cpu: usize) -> bool {
        let call = self.task(cpu).and_then(|task| task.call.as_ref());
        call.is_some_and(|call| call.asked > 1 && !call.marked)
    }

    /// The I/O that a bio of the current task is for: in a call whose entries show by nothing
    /// else, every bio is one.
    pub(crate) fn bio_owner(&mut self, now: Now, cpu: usize) -> Option<Ref> {
        if self.options.bios_are_ios {
            let io = self.start(now, cpu, Op::Bio, Mark::BioQueue);
            if let Some(task) = self.task(cpu) {
                task.io = None;
            }
            if let Some(io) = self.ios.get_mut(io) {
                io.submitting = false;
            }
            return Some(io);
        }
        let at = self.current_io(cpu)?;
        let io = self.ios.get(at)?;
        let is_second = !io.bios.is_empty() && io.moments.get(Moment::FsBegin).is_none();
        if io.op.is_async() && is_second && self.takes_next(cpu) {
            let op = self.ios.get(at)?.op;
            return Some(self.start(now, cpu, op, Mark::BioQueue));
        }
        Some(at)
    }
}
