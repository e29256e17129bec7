//! The result of a measurement.

use std::collections::BTreeMap;

use crate::event::Dev;
use crate::io::IoResult;

/// What became of the I/Os that the caller selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// All that were seen; the next four add up to it.
    pub seen: u64,
    /// Measured.
    pub measured: u64,
    /// Without a request on the device (a page-cache hit).
    pub no_request: u64,
    /// Dropped because events are missing while they were open.
    pub dropped_lost: u64,
    /// Entry or exit outside the trace.
    pub incomplete: u64,
    /// Of the measured ones: nothing foreign ran in the software sections.
    pub clean: u64,
    /// Of the measured ones: at least one request outlived the system call.
    pub detached: u64,
}

/// What became of the requests of the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All; the next four add up to it.
    pub seen: u64,
    /// Carried a bio that the task of a selected I/O submitted during it.
    pub attributed: u64,
    /// Carried a bio that a helper submitted for a selected I/O.
    pub helper: u64,
    /// Of no selected I/O.
    pub unattributed: u64,
    /// Issue or completion outside the trace or in a gap.
    pub in_flight: u64,
    /// `block_split` events.
    pub splits: u64,
    /// Merge events.
    pub merges: u64,
    /// Requests issued again.
    pub requeues: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
}

/// Everything measured on one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The measured I/Os in the order of their entries.
    pub results: Vec<IoResult>,
    /// I/Os.
    pub ios: IoCounts,
    /// Requests.
    pub requests: RequestCounts,
    /// Event that marked the hand-over to the device → requests of selected I/Os.
    pub device_marks: BTreeMap<&'static str, u64>,
    /// Event that marked the completion interrupt → requests of selected I/Os.
    pub interrupt_marks: BTreeMap<&'static str, u64>,
    /// Name number of an event → its count in own time, by section, over the measured I/Os.
    pub probe_events: Vec<[u64; 5]>,
    /// Requests that a driver's own event was matched to: UFS, `NVMe`.
    pub drivers: [u64; 2],
    /// The device.
    pub device: Option<Dev>,
}
