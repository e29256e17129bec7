//! I/Os of an architecture without events of system calls (User Mode Linux).
//!
//! A task begins one with the first event of the file system or the page cache while it is in none,
//! and ends it with the last:
//! - a direct I/O from `iomap_dio_rw_begin` to `iomap_dio_complete`;
//! - a read through the page cache from `mm_filemap_add_to_page_cache` to `mm_filemap_get_pages`,
//!   which comes when its pages have their data; one that finds them shows by the latter alone;
//! - a write with `O_SYNC` from `ext4_da_write_begin` to `ext4_sync_file_exit`;
//! - an fsync from `ext4_sync_file_enter` to `ext4_sync_file_exit`;
//! - an entry of `io_uring` from `io_uring_submit_req` to `io_uring_complete` (module `calls`).
//!
//! What lies outside of these (the way into and out of the kernel, `file_update_time`, the copy of
//! data that were read) is in no I/O.

use crate::engine::{Engine, Tasks};
use crate::event::Now;
use crate::io::Sink;
use crate::mark::Mark;
use crate::measure::End;
use crate::op::Op;
use crate::slab::Ref;

impl<T: Tasks, S: Sink> Engine<T, S> {
    /// The task begins an I/O, unless it is in one.
    pub(crate) fn begin_uncalled(&mut self, now: Now, cpu: usize, op: Op) {
        if !self.options.without_calls || self.open_io(cpu).is_some() {
            return;
        }
        if self.names.works_for(now.pid()).is_some() {
            return; // A worker of io_uring: its entry is the I/O.
        }
        let mark = match op {
            Op::PageRead => Mark::PageAdd,
            Op::PageWrite => Mark::WriteBegin,
            Op::Fsync => Mark::SyncEnter,
            _ => Mark::FsBegin,
        };
        let io = self.start(now, cpu, op, mark);
        if op.writes() {
            self.writers.push(io);
        }
    }

    /// A read has its pages.
    pub(crate) fn pages_got(&mut self, now: Now, cpu: usize, bytes: i64) {
        if !self.options.without_calls {
            return;
        }
        match self.open_io(cpu) {
            Some((_, Op::PageRead)) => self.end_uncalled(now, cpu, Mark::PagesGot, Some(bytes)),
            None if self.names.selected(now.pid()) => {
                self.out.ios.seen += 1;
                self.out.ios.no_request += 1;
            }
            _ => {}
        }
    }

    /// A write or an fsync is over; not if it is a part of another I/O (a direct one).
    pub(crate) fn sync_exit(&mut self, now: Now, cpu: usize) {
        if let Some((_, Op::PageWrite | Op::Fsync)) = self.open_io(cpu) {
            if self.options.without_calls {
                self.end_uncalled(now, cpu, Mark::SyncExit, None);
            }
        }
    }

    /// The task ends the I/O that it is in; `ret` is how many bytes it has, where that is known.
    pub(crate) fn end_uncalled(&mut self, now: Now, cpu: usize, mark: Mark, ret: Option<i64>) {
        if let Some(at) = self.task(cpu).and_then(|task| task.io.take()) {
            let ts = now.ts;
            self.close(at, End { ts, mark, ret });
        }
    }

    /// The I/O that the current task is in. An entry of `io_uring` that ended is none, although no
    /// call's end says that its task is done with it.
    fn open_io(&self, cpu: usize) -> Option<(Ref, Op)> {
        let at = self.current_io(cpu)?;
        Some((at, self.ios.get(at)?.op))
    }
}
