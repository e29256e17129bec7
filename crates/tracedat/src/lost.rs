//! Missing events: where, and why.

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// The ring buffer overwrote them before they were read.
    Overwritten,
    /// Their times run back against those around them, by more than a millisecond: a damaged
    /// page, or a clock that was set back.
    Disordered,
    /// The bytes that hold them contradict the format.
    Damaged,
    /// The file ends before them.
    CutOff,
}

/// A stretch of time in which events of one CPU are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRange {
    /// The CPU whose events they were.
    pub cpu: u32,
    /// Time of the last event before the gap (clock units); `None` at the CPU's start.
    pub from: Option<u64>,
    /// Time from which events are there again (clock units); [`u64::MAX`] if never.
    pub to: u64,
    /// How many events were lost, if the kernel knew.
    pub count: Option<u64>,
    /// Why; of several reasons in one gap the last in the order of [`LostReason`].
    pub reason: LostReason,
}
