//! What is known of one request, or of one bio without requests.

use crate::event::Dev;
use crate::rwbs::Rwbs;

/// What a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RowKind {
    /// A request.
    #[default]
    Request,
    /// A bio of a device that has no requests, or that never became one in the trace.
    Bio,
}

/// A request or bio. Times in clock units; 0: no event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockRow {
    /// Request or bio.
    pub kind: RowKind,
    /// Its device.
    pub dev: Dev,
    /// The partition that its first bio was for.
    pub part: Option<Dev>,
    /// The uppermost device that its first bio comes from: `dev` itself where there is none above.
    pub top: Dev,
    /// When the bio of that device was queued.
    pub top_queued: u64,
    /// The operation and its flags.
    pub rwbs: Rwbs,
    /// First sector; `u64::MAX`: a passthrough request, which has none.
    pub sector: u64,
    /// Bytes.
    pub bytes: u64,
    /// Bios that it carries; 0 of passthrough, flushes, and where bios are not recorded.
    pub bios: u32,
    /// Task that queued its first bio; without one, that issued it.
    pub pid: i32,
    /// CPU of its issue; of a bio, where it was queued.
    pub cpu: u32,
    /// CPU of its completion.
    pub done_cpu: u32,
    /// Q: its first bio was queued.
    pub queued: u64,
    /// G: that bio has a request.
    pub getrq: u64,
    /// I: the request is with the scheduler.
    pub insert: u64,
    /// D: it goes to the driver, for the last time.
    pub issued: u64,
    /// The driver's own hand-over.
    pub sent: u64,
    /// The driver's own completion.
    pub driver_done: u64,
    /// C: it is complete.
    pub done: u64,
    /// Times that it was issued again.
    pub requeues: u32,
    /// Requests of the device that were issued before and not complete.
    pub ahead: u32,
    /// The device below that a bio went on to, first.
    pub below: Option<Dev>,
    /// When it first went on there, and when the last of what became of it was complete.
    pub below_span: (u64, u64),
    /// Inode that the file system named last before its first bio was queued, in the same task.
    pub inode: u64,
    /// Another request of the same place was in flight: whose completion is whose does not show.
    pub ambiguous: bool,
    /// Events were lost while it was in flight.
    pub lost: bool,
}

impl BlockRow {
    /// From the first bio's queue to the issue.
    pub fn q2d(&self) -> Option<u64> {
        between(self.queued, self.issued)
    }

    /// From the issue to the completion.
    pub fn d2c(&self) -> Option<u64> {
        between(self.issued, self.done)
    }

    /// From the first bio's queue to the completion.
    pub fn q2c(&self) -> Option<u64> {
        between(self.queued, self.done)
    }
}

fn between(from: u64, to: u64) -> Option<u64> {
    to.checked_sub(from).filter(|_| from > 0 && to > 0)
}

/// Takes rows as they end.
pub trait RowSink {
    /// The next one.
    fn row(&mut self, row: &BlockRow);
}

impl RowSink for Vec<BlockRow> {
    fn row(&mut self, row: &BlockRow) {
        self.push(*row);
    }
}
