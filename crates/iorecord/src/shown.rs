//! Single I/Os that are asked for, and events that are shown.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// An I/O whose events are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Thread number of its task.
    pub pid: i32,
    /// Start and end (clock units of the trace), both included.
    pub time: RangeInclusive<u64>,
    /// Device as `major:minor` of the disk, if known.
    pub dev: Option<String>,
    /// First and last sector of its first request, if known.
    pub sectors: Option<RangeInclusive<u64>>,
    /// Its task did nothing else meanwhile (a plain system call): all of the task's events are
    /// the I/O's. Otherwise only those on its sectors and its tag are.
    pub alone: bool,
}

/// The events of one I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// In order of time.
    pub events: Vec<Shown>,
    /// Events beyond the limit, which are left out.
    pub cut: u64,
}

/// One event with its fields decoded by the format that the trace carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// Time (clock units of the trace).
    pub ts: u64,
    /// The CPU.
    pub cpu: u32,
    /// Thread number of the task that ran.
    pub pid: i32,
    /// Name of the event.
    pub event: String,
    /// Fields in the order of the format, without the common ones.
    pub fields: Vec<(String, String)>,
}

/// What a trace begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outline {
    /// Time of the first event (clock units); `None` without events.
    pub first: Option<u64>,
    /// Names of tasks by thread number.
    pub tasks: BTreeMap<i32, String>,
}
