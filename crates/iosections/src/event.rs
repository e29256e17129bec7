//! The events that the sections are cut from, free of any file format.

use crate::op::Op;
use crate::rwbs::Rwbs;

/// A block device number, as the kernel prints it: major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dev {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}

impl std::fmt::Display for Dev {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Sectors of 512 bytes of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The device; of a bio it may be a partition.
    pub dev: Dev,
    /// First sector.
    pub sector: u64,
    /// Number of sectors; 0 for flushes.
    pub sectors: u32,
    /// What is done with them.
    pub rwbs: Rwbs,
}

/// A driver's own name of a request between its send and its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tag {
    /// A number that stands for the disk, host or controller.
    pub host: u64,
    /// Hardware queue; all ones without one.
    pub queue: u32,
    /// Tag or command id without its generation; of mmc the address of the request.
    pub id: u64,
}

/// Drivers that report requests by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names of the drivers
pub enum Driver {
    Ufs,
    Nvme,
    Mmc,
    Scsi,
}

impl Driver {
    /// Name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ufs => "ufs",
            Self::Nvme => "nvme",
            Self::Mmc => "mmc",
            Self::Scsi => "scsi",
        }
    }
}

/// A call that submits I/Os that outlive it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// `io_submit`.
    Submit,
    /// `io_uring_enter`.
    Uring,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The current task enters a system call that is an I/O.
    SyscallEnter(Op),
    /// It leaves it with this return value.
    SyscallExit(Op, i64),
    /// It enters a call that submits this many I/Os (0: it only waits); whether the call also waits
    /// for completions.
    CallEnter(Call, u32, bool),
    /// It leaves it with this return value.
    CallExit(Call, i64),
    /// It leaves a call that takes completions (`io_getevents`, `io_pgetevents`) with this return
    /// value: their number.
    Reaped(i64),
    /// `io_uring_submit_req`, `io_uring_submit_sqe`: an entry is taken up. What its completion will
    /// call it, and the address of its request if that is something else.
    UringSubmit(u64, Option<u64>),
    /// `io_uring_queue_async_work`: a worker thread is to do the request at this address.
    UringPunt(u64),
    /// `io_uring_complete` of this entry.
    UringComplete(u64),
    /// `iomap_dio_rw_begin`: the file system begins a direct I/O.
    FsBegin,
    /// `iomap_dio_complete`.
    DioComplete,
    /// Where no event tells of system calls, the current task begins such an I/O, unless it is in
    /// one: `mm_filemap_add_to_page_cache` a read, `ext4_da_write_begin` a write,
    /// `ext4_sync_file_enter` an fsync.
    Begins(Op),
    /// There, `mm_filemap_get_pages`: a read has its pages, of so many bytes.
    PagesGot(i64),
    /// There, `ext4_sync_file_exit`: a write or an fsync is over.
    SyncExit,
    /// `block_bio_queue`.
    BioQueue(Span),
    /// `block_bio_remap`: sectors of one device become sectors of another.
    Remap {
        /// What they were.
        from: (Dev, u64),
        /// What they are now.
        to: (Dev, u64),
    },
    /// `block_getrq`: the bio has a request (and a tag).
    Getrq(Dev, u64),
    /// `block_split`.
    Split(Dev),
    /// `block_bio_backmerge`, `block_bio_frontmerge` or `block_rq_merge`.
    Merge(Dev),
    /// `block_rq_insert`.
    Insert(Dev, u64),
    /// `block_rq_issue`.
    Issue(Span),
    /// `block_rq_requeue`.
    Requeue(Span),
    /// `block_rq_complete`.
    Complete(Span),
    /// `block_io_done`, just after it.
    IoDone,
    /// `nvme_setup_cmd`: before its `block_rq_issue`.
    NvmeSetup(Tag),
    /// `nvme_sq`: a completion was read from a queue of this disk.
    NvmeSq(u64),
    /// A driver sends a request to the device, after its `block_rq_issue`.
    Send(Driver, Tag),
    /// A driver reports its completion.
    Done(Driver, Tag),
    /// The driver's queue function returns.
    QueueReturn,
    /// `irq_handler_entry` with its number; all ones where the trace does not tell.
    IrqEntry(u32),
    /// `irq_handler_exit`.
    IrqExit,
    /// `softirq_entry` with its vector.
    SoftirqEntry(u32),
    /// `softirq_exit`.
    SoftirqExit,
    /// `sched_waking` of this task.
    Waking(i32),
    /// `sched_switch` away from the current task.
    Switch {
        /// Whether the task waits (it is not merely preempted).
        blocked: bool,
        /// The task that runs next.
        next: i32,
    },
    /// Any other recorded event.
    Other,
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Time (clock units).
    pub ts: u64,
    /// CPU.
    pub cpu: u32,
    /// The task that is current on the CPU (0 = idle).
    pub pid: i32,
    /// A number that stands for the event's name, for the counts of probe events.
    pub name: u16,
    /// What happened.
    pub kind: Kind,
}

/// When and where something happened: a time, a CPU, and the task that is current on it.
///
/// Two words, since these go from function to function in registers, and three numbers would not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Time (clock units).
    pub(crate) ts: u64,
    /// CPU, then task.
    place: u64,
}

impl Now {
    /// Time in clock units; task 0 is the idle one.
    #[inline]
    pub fn new(ts: u64, cpu: u32, pid: i32) -> Self {
        let place = u64::from(cpu) << 32 | u64::from(pid as u32);
        Self { ts, place }
    }

    #[inline]
    pub(crate) fn cpu(self) -> u32 {
        (self.place >> 32) as u32
    }

    #[inline]
    pub(crate) fn pid(self) -> i32 {
        self.place as i32
    }
}

/// A stretch of time in which some CPU's events are missing (clock units, both ends included).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Start; 0 when it reaches back before the trace.
    pub from: u64,
    /// End; `u64::MAX` when the CPU has nothing after it.
    pub to: u64,
}
