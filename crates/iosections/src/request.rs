//! A request on its way: whose it is, and what drivers told of it.

use crate::event::Span;
use crate::io::IoRequest;
use crate::mark::Mark;
use crate::section::DeviceSpan;
use crate::slab::Ref;

/// Who a request counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Category {
    Attributed,
    Helper,
    #[default]
    Unattributed,
}

/// The driver's own completion event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DriverDone {
    pub(crate) ts: u64,
    pub(crate) irq: Option<Interrupt>,
    pub(crate) event: Mark,
    /// It was reported in a softirq.
    pub(crate) softirq: bool,
    /// Place of the CPU that heard it.
    pub(crate) cpu: usize,
}

/// A completion interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interrupt {
    pub(crate) ts: u64,
    /// As [`Handler::number`](crate::handlers::Handler::number).
    pub(crate) number: u32,
    pub(crate) kind: Enclosing,
}

/// What the event that reports a completion is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enclosing {
    /// The interrupt's handler.
    Handler,
    /// A softirq that directly followed it.
    Softirq,
    /// A thread that it woke.
    Thread,
}

/// The bios of a request.
pub(crate) type Parts = Vec<Ref>;

/// A request from its first issue to its completion.
#[derive(Debug, Default)]
pub(crate) struct Request {
    pub(crate) span: Span,
    /// Number of its device.
    pub(crate) device: usize,
    pub(crate) parts: Parts,
    /// The I/O that it counts for.
    pub(crate) owner: Option<Ref>,
    pub(crate) category: Category,
    /// It has a helper's bio, and nothing shows for whom.
    pub(crate) ambiguous: bool,
    pub(crate) seq: u64,
    pub(crate) issued: u64,
    pub(crate) issue_task: i32,
    /// CPU of the last issue.
    pub(crate) cpu: u32,
    /// Hardware queue, if a driver told.
    pub(crate) queue: Option<u32>,
    /// Times it was issued again.
    pub(crate) requeues: u32,
    /// Back in the block layer after a requeue.
    pub(crate) requeued: bool,
    pub(crate) setup: Option<u64>,
    /// Sent by the driver: time and event.
    pub(crate) sent: Option<(u64, Mark)>,
    pub(crate) returned: Option<u64>,
    pub(crate) driver_done: Option<DriverDone>,
    /// The next younger request of its chain, see [`Places`](crate::chains::Places).
    pub(crate) younger: Option<Ref>,
}

impl Request {
    /// Makes a used one new where it is, keeping its memory; its number is still to come.
    pub(crate) fn renew(&mut self, device: usize, span: Span, from: &From) {
        (self.device, self.span) = (device, span);
        self.parts.clear();
        (self.owner, self.category) = (None, Category::Unattributed);
        self.ambiguous = false;
        (self.issued, self.issue_task, self.cpu) = (from.ts, from.task, from.cpu);
        (self.queue, self.requeues, self.requeued) = (None, 0, false);
        (self.setup, self.sent, self.returned) = (None, None, None);
        (self.driver_done, self.younger) = (None, None);
    }

    /// As one of its I/Os sees it, with the CPU of its issue.
    pub(crate) fn seen(&self, device: DeviceSpan, marks: (Mark, Mark)) -> IoRequest {
        IoRequest {
            seq: self.seq,
            device,
            dev: self.span.dev,
            rwbs: self.span.rwbs,
            sector: self.span.sector,
            sectors: self.span.sectors,
            queue: self.queue,
            requeues: self.requeues,
            helper: false,
            detached: false,
            marks,
            cpu: self.cpu,
            frame: None,
            batch: None,
            share: None,
            after: 0,
        }
    }
}

/// Who issues a request, where and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct From {
    pub(crate) ts: u64,
    pub(crate) pid: i32,
    /// The task's key: idle tasks differ by CPU.
    pub(crate) task: i32,
    pub(crate) cpu: u32,
}
