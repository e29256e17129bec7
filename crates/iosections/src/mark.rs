//! Which event set a boundary, and the times of the smaller steps inside the sections.

/// The event that began or ended a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[allow(missing_docs)] // see `name`
pub enum Mark {
    #[default]
    None,
    SyscallEnter,
    UringSubmit,
    FsBegin,
    PageAdd,
    WriteBegin,
    SyncEnter,
    BioQueue,
    Issue,
    QueueReturn,
    Clamped,
    NvmeSetup,
    UfsCommand,
    MmcStart,
    ScsiStart,
    Irq,
    ThreadedIrq,
    LateIrq,
    NvmeSq,
    NvmeComplete,
    MmcDone,
    ScsiDone,
    Complete,
    DioComplete,
    PagesGot,
    SyncExit,
    UringComplete,
    SyscallExit,
}

impl Mark {
    /// How many there are.
    pub const COUNT: usize = 28;

    /// All of them, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::None,
        Self::SyscallEnter,
        Self::UringSubmit,
        Self::FsBegin,
        Self::PageAdd,
        Self::WriteBegin,
        Self::SyncEnter,
        Self::BioQueue,
        Self::Issue,
        Self::QueueReturn,
        Self::Clamped,
        Self::NvmeSetup,
        Self::UfsCommand,
        Self::MmcStart,
        Self::ScsiStart,
        Self::Irq,
        Self::ThreadedIrq,
        Self::LateIrq,
        Self::NvmeSq,
        Self::NvmeComplete,
        Self::MmcDone,
        Self::ScsiDone,
        Self::Complete,
        Self::DioComplete,
        Self::PagesGot,
        Self::SyncExit,
        Self::UringComplete,
        Self::SyscallExit,
    ];

    /// The event's name. `clamped`: the queue function returned after the interrupt, which is
    /// taken instead; `irq_handler_entry (thread)`: the interrupt only woke the thread that
    /// completed the request; `irq_handler_entry (late softirq)`: the device's last interrupt before
    /// a softirq that did not follow it at once; `none`: no event told, so the next boundary stands for it too.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SyscallEnter => "sys_enter",
            Self::UringSubmit => "io_uring_submit_req",
            Self::FsBegin => "iomap_dio_rw_begin",
            Self::PageAdd => "mm_filemap_add_to_page_cache",
            Self::WriteBegin => "ext4_da_write_begin",
            Self::SyncEnter => "ext4_sync_file_enter",
            Self::BioQueue => "block_bio_queue",
            Self::Issue => "block_rq_issue",
            Self::QueueReturn => "queue_rq_return",
            Self::Clamped => "clamped",
            Self::NvmeSetup => "nvme_setup_cmd",
            Self::UfsCommand => "ufshcd_command",
            Self::MmcStart => "mmc_request_start",
            Self::ScsiStart => "scsi_dispatch_cmd_start",
            Self::Irq => "irq_handler_entry",
            Self::ThreadedIrq => "irq_handler_entry (thread)",
            Self::LateIrq => "irq_handler_entry (late softirq)",
            Self::NvmeSq => "nvme_sq",
            Self::NvmeComplete => "nvme_complete_rq",
            Self::MmcDone => "mmc_request_done",
            Self::ScsiDone => "scsi_dispatch_cmd_done",
            Self::Complete => "block_rq_complete",
            Self::DioComplete => "iomap_dio_complete",
            Self::PagesGot => "mm_filemap_get_pages",
            Self::SyncExit => "ext4_sync_file_exit",
            Self::UringComplete => "io_uring_complete",
            Self::SyscallExit => "sys_exit",
        }
    }
}

/// Counts by mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MarkCounts([u64; Mark::COUNT]);

impl MarkCounts {
    /// Counts one.
    pub fn add(&mut self, mark: Mark) {
        if let Some(count) = self.0.get_mut(mark as usize) {
            *count += 1;
        }
    }

    /// The marks that occurred, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (Mark, u64)> {
        Mark::ALL.into_iter().zip(self.0).filter(|&(_, n)| n > 0)
    }
}

/// A moment on the way of an I/O's first own request, in their usual order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // see `name` and `event`
pub enum Moment {
    FsBegin,
    BioQueue,
    Getrq,
    Insert,
    Issue,
    Device,
    Irq,
    Softirq,
    DriverDone,
    RqComplete,
    IoDone,
    DioComplete,
    UringComplete,
    Waking,
    SchedIn,
}

impl Moment {
    /// How many there are.
    pub const COUNT: usize = 15;

    /// All of them, in order.
    pub const ALL: [Self; Self::COUNT] = [
        Self::FsBegin,
        Self::BioQueue,
        Self::Getrq,
        Self::Insert,
        Self::Issue,
        Self::Device,
        Self::Irq,
        Self::Softirq,
        Self::DriverDone,
        Self::RqComplete,
        Self::IoDone,
        Self::DioComplete,
        Self::UringComplete,
        Self::Waking,
        Self::SchedIn,
    ];

    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FsBegin => "fs_begin",
            Self::BioQueue => "bio_queue",
            Self::Getrq => "getrq",
            Self::Insert => "insert",
            Self::Issue => "issue",
            Self::Device => "device",
            Self::Irq => "irq",
            Self::Softirq => "softirq",
            Self::DriverDone => "driver_done",
            Self::RqComplete => "rq_complete",
            Self::IoDone => "io_done",
            Self::DioComplete => "dio_complete",
            Self::UringComplete => "uring_complete",
            Self::Waking => "waking",
            Self::SchedIn => "sched_in",
        }
    }
}

/// The time of each moment (clock units); absent ones are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moments([u64; Moment::COUNT]);

impl Moments {
    /// The time of a moment. A moment at time 0 counts as absent.
    pub fn get(&self, moment: Moment) -> Option<u64> {
        self.0.get(moment as usize).copied().filter(|&ts| ts != 0)
    }

    pub(crate) fn set(&mut self, moment: Moment, ts: u64) {
        if let Some(at) = self.0.get_mut(moment as usize) {
            *at = ts;
        }
    }

    /// Sets it unless it is set.
    pub(crate) fn first(&mut self, moment: Moment, ts: u64) {
        if let Some(at) = self.0.get_mut(moment as usize).filter(|at| **at == 0) {
            *at = ts;
        }
    }
}
