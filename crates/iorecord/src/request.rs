//! What is to be analysed.

use std::path::PathBuf;

use crate::filter::Filter;

/// What to take as the hand-over to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceMark {
    /// The return of the driver's queue function where the trace has it, else the last event
    /// before it.
    #[default]
    Auto,
    /// The last event before the hand-over, always.
    LastBefore,
}

/// What to analyse in a trace.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Only I/Os of tasks with this name, and of the threads that `io_uring` has for them.
    pub comm: Option<String>,
    /// Device as `major:minor`; the one with most bios if not given. Of a partition, or of a device
    /// on others (device mapper, md, multipath), the I/Os whose first bio was for it.
    pub device: Option<String>,
    /// Hand-over to the device.
    pub device_mark: DeviceMark,
    /// Only these of the measured I/Os; the counts stay those of all of them.
    pub filter: Filter,
    /// The trace's architecture has no events of system calls: the I/Os are those of iomap, the page
    /// cache and `io_uring`.
    pub without_calls: bool,
    /// Keep the measured I/Os one by one, not only their sums.
    pub keep_ios: bool,
    /// Count the recorded events in each section's own time.
    pub count_events: bool,
    /// The turns of a board's CPUs: own times count what each CPU executed itself.
    pub turns: Option<PathBuf>,
    /// What the recording of the trace executed: it is left out of all lengths. Not with `turns`.
    pub tracing: Option<PathBuf>,
    /// What was counted until each reading of the trace's clock, as CPU, time and what that CPU has:
    /// lengths are counts in place of time. Not with `turns` or `tracing`.
    pub counts: Option<Vec<(u32, u64, u64)>>,
}

impl Request {
    /// The filter, if it leaves anything out.
    pub(crate) fn chosen(&self) -> Option<Filter> {
        (!self.filter.is_default()).then(|| self.filter.clone())
    }
}
