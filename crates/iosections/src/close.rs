//! The ends of I/Os: measured, dropped, or never seen.

use crate::engine::{Engine, Tasks};
use crate::event::Now;
use crate::io::{Io, IoRequest, IoResult, Sink};
use crate::limits;
use crate::mark::Mark;
use crate::measure::{End, describe};
use crate::op::Op;
use crate::request::Category;
use crate::section::DeviceSpan;
use crate::slab::Ref;

impl<T: Tasks, S: Sink> Engine<T, S> {
    pub(crate) fn syscall_enter(&mut self, now: Now, cpu: usize, op: Op) {
        let (pid, ts, on) = (now.pid(), now.ts, now.cpu());
        self.end_earlier_call(cpu);
        let io = self.open(|io| io.renew(pid, op, ts, Mark::SyscallEnter, on));
        let old = self.task(cpu).and_then(|task| task.io.replace(io));
        if let Some(old) = old {
            self.leave(old, ts);
        }
        if op.writes() {
            self.writers.push(io);
        }
    }

    /// An I/O that its task is no longer in, without its exit having been seen.
    pub(crate) fn leave(&mut self, at: Ref, ts: u64) {
        match self.ios.get_mut(at) {
            Some(io) if io.op.is_async() => {
                io.submitting = false;
                self.try_close(at, None);
            }
            _ => self.abandon(at, ts),
        }
    }

    pub(crate) fn syscall_exit(&mut self, now: Now, cpu: usize, op: Op, ret: i64) {
        let open = self.task(cpu).and_then(|task| task.io.take());
        match open {
            Some(at) if self.ios.get(at).is_some_and(|io| io.op == op) => {
                let end = End {
                    ts: now.ts,
                    mark: Mark::SyscallExit,
                    ret: Some(ret),
                };
                self.close(at, end);
            }
            Some(at) => self.leave(at, now.ts),
            None if self.names.selected(now.pid()) && !op.is_by_chance() => {
                self.out.ios.seen += 1;
                if self.gaps.before(now.ts) {
                    self.out.ios.dropped_lost += 1;
                } else {
                    self.out.ios.incomplete += 1;
                }
            }
            None => {}
        }
    }

    /// An I/O whose end was never seen.
    #[cold]
    pub(crate) fn abandon(&mut self, at: Ref, until: u64) {
        let Some(io) = self.take_open(at) else {
            return;
        };
        let counts = !io.op.is_by_chance() || !io.bios.is_empty();
        if counts && self.names.selected(io.pid) {
            self.out.ios.seen += 1;
            if self.gaps.touch(io.start, until) {
                self.out.ios.dropped_lost += 1;
            } else {
                self.out.ios.incomplete += 1;
            }
        }
        self.recycle(io);
    }

    #[inline]
    fn take_open(&mut self, at: Ref) -> Option<Box<Io>> {
        let io = self.ios.remove(at)?;
        if io.op.writes() {
            self.writers.retain(|&w| w != at);
        }
        if let Some((entry, request)) = io.uring {
            self.forget_entry(at, entry);
            if let Some(request) = request {
                self.forget_entry(at, request);
            }
            self.punted.retain(|&p| p != at);
        }
        Some(io)
    }

    /// What the events of `io_uring` call an I/O stands for it no more.
    fn forget_entry(&mut self, at: Ref, name: u64) {
        if self.uring.get(&name) == Some(&at) {
            self.uring.remove(&name);
        }
    }

    /// Measures an I/O.
    pub(crate) fn close(&mut self, at: Ref, end: End) {
        let Some(mut io) = self.take_open(at) else {
            return;
        };
        if self.names.selected(io.pid) {
            if self.measured(at, &mut io, end) {
                self.hand_out();
            } else if io.op.is_async() && self.sink.wants_all() {
                self.wait_to_be_reaped(io.pid, io.op, None);
            }
        }
        self.recycle(io);
    }

    fn measured(&mut self, at: Ref, io: &mut Io, end: End) -> bool {
        if io.op.is_by_chance() && io.bios.is_empty() {
            return false;
        }
        self.out.ios.seen += 1;
        if self.gaps.touch(io.start, end.ts) {
            self.out.ios.dropped_lost += 1;
            return false;
        }
        // What a worker of io_uring did for it cannot be told from what it did for others.
        if io.ambiguous || (io.punted && io.bios.is_empty()) {
            self.out.ios.ambiguous += 1;
            return false;
        }
        for &request in &io.live {
            let request = self.detach(request, at, end.ts);
            io.requests.extend(request);
        }
        if io.requests.is_empty() {
            let count = if io.slept {
                &mut self.out.ios.waited
            } else {
                &mut self.out.ios.no_request
            };
            *count += 1;
            return false;
        }
        for request in &mut io.requests {
            if request.batch.is_some() {
                let batches = self.cpus.get(request.cpu as usize).map(|c| &c.batches);
                request.share = batches.and_then(|b| b.share(request));
            }
        }
        let result = &mut self.result;
        self.measure.finish(io, end, result);
        if self.sink.wants_all() {
            describe(io, end, result);
        }
        self.out.ios.measured += 1;
        self.out.ios.clean += u64::from(result.clean);
        self.out.ios.detached += u64::from(result.detached > 0);
        result.devices = 0;
        for request in &io.requests {
            if let Some(device) = self.block.device(request.dev) {
                result.devices |= 1 << device.min(63);
            }
        }
        let mut devices = result.devices;
        while devices != 0 {
            let place = devices.trailing_zeros() as usize;
            devices &= devices - 1;
            // The last bit stands for all devices from there on.
            let all = self.block.devices.len();
            let end = if place < 63 { place + 1 } else { all };
            let counted = self.block.devices.get_mut(place..end);
            for device in counted.into_iter().flatten() {
                device.out.measured += 1;
            }
        }
        true
    }

    /// An asynchronous I/O waits until its task takes the completion, if that is of interest.
    fn hand_out(&mut self) {
        let io = &self.result;
        let waits = self.sink.wants_all()
            && matches!(io.op, Op::IoSubmit | Op::IoUring)
            // No event tells when it does.
            && !self.options.without_calls
            // A submission thread (SQPOLL) takes none.
            && self.names.works_for(io.pid).is_none();
        if !waits {
            return self.sink.take(io);
        }
        self.wait_to_be_reaped(io.pid, io.op, Some(io.clone()));
    }

    fn wait_to_be_reaped(&mut self, pid: i32, op: Op, io: Option<IoResult>) {
        let Some(task) = self.tasks.by_key_mut(pid) else {
            if let Some(io) = io {
                self.sink.take(&io);
            }
            return;
        };
        task.unreaped.push((op, io));
        if task.unreaped.len() > limits::BATCH {
            for (_, io) in task.unreaped.drain(..) {
                if let Some(io) = io {
                    self.sink.take(&io);
                }
            }
        }
    }

    /// The task takes the completions of its oldest I/Os of this kind, at most so many.
    pub(crate) fn reap(&mut self, now: Now, cpu: usize, op: Op, most: i64) {
        let place = self.cpus.get(cpu).and_then(|c| c.task);
        let Some(task) = place.and_then(|place| self.tasks.get_mut(place)) else {
            return;
        };
        let mut left = most;
        task.unreaped.retain_mut(|(kind, io)| {
            if *kind != op || left <= 0 {
                return true;
            }
            left -= 1;
            if let Some(io) = io {
                // An earlier call may be among events that are missing. Whose turn it is in a ring
                // of io_submit's does not show after any gap; io_uring's is emptied each time.
                io.reaped = Some(now.ts).filter(|&ts| {
                    let ring_shows = op != Op::IoSubmit || !self.gaps.before(ts);
                    ring_shows && !self.gaps.touch(io.end, ts)
                });
                self.sink.take(io);
            }
            false
        });
    }

    /// Closes an asynchronous I/O if nothing more is to come of it. One that ends with the last
    /// completion of its requests stays open up to the next event of that CPU, which may tell of
    /// a later end.
    pub(crate) fn try_close(&mut self, at: Ref, cpu: Option<usize>) {
        let Some(io) = self.ios.get(at) else {
            return;
        };
        if !io.op.is_async() || io.submitting || io.open_bios > 0 {
            return;
        }
        match io.posted {
            Some(ts) => {
                let ts = ts.max(io.last_done);
                self.close_async(at, ts, Mark::UringComplete);
            }
            // Whether the trace has `io_uring_complete` shows only when it comes.
            None if io.uring.is_some() => {}
            None if io.bios.is_empty() => self.close_async(at, io.start, Mark::None),
            None => match cpu.and_then(|cpu| self.cpus.get_mut(cpu)) {
                // Two of its bios may have been in one request.
                Some(cpu) if cpu.ended.back() == Some(&at) => {}
                Some(cpu) => cpu.ended.push_back(at),
                None => self.close_async(at, io.last_done, Mark::Complete),
            },
        }
    }

    /// An entry of `io_uring` that no more events tell of: in a trace without `io_uring_complete` it
    /// ended with its last request. Tells whether it did.
    pub(crate) fn close_unposted(&mut self, at: Ref) -> bool {
        let io = self.ios.get(at).filter(|_| !self.posts_seen);
        let done = io.filter(|io| io.uring.is_some() && !io.submitting && io.open_bios == 0);
        let Some(ts) = done.map(|io| io.last_done).filter(|&ts| ts > 0) else {
            return false;
        };
        self.close_async(at, ts, Mark::Complete);
        true
    }

    pub(crate) fn close_async(&mut self, at: Ref, ts: u64, mark: Mark) {
        let start = self.ios.get(at).map_or(ts, |io| io.start);
        let ts = ts.max(start);
        self.close(
            at,
            End {
                ts,
                mark,
                ret: None,
            },
        );
    }

    /// The next event of a CPU: an I/O that ended with its last completion has no later end.
    pub(crate) fn settle(&mut self, cpu: usize) {
        while let Some(at) = self.cpus.get_mut(cpu).and_then(|c| c.ended.pop_front()) {
            self.try_close(at, None);
        }
    }

    /// A request that is not complete when its I/O ends. A helper's counts for nobody: the task
    /// did not wait for it.
    #[inline(never)]
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
        let (start, mark) = self.device_start(request, end, None);
        let device = DeviceSpan {
            start,
            interrupt: end,
            done: end,
        };
        Some(IoRequest {
            detached: true,
            ..request.seen(device, (mark, Mark::None))
        })
    }
}
