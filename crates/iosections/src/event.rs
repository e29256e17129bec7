//! The events that the sections are cut from, free of any file format.

/// A block device number, as the kernel prints it: major and minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

/// The system calls that are one I/O each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names of the calls
pub enum Op {
    Read,
    Pread64,
    Readv,
    Preadv,
    Preadv2,
    Write,
    Pwrite64,
    Writev,
    Pwritev,
    Pwritev2,
    Fsync,
    Fdatasync,
    SyncFileRange,
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Read,
        Self::Pread64,
        Self::Readv,
        Self::Preadv,
        Self::Preadv2,
        Self::Write,
        Self::Pwrite64,
        Self::Writev,
        Self::Pwritev,
        Self::Pwritev2,
        Self::Fsync,
        Self::Fdatasync,
        Self::SyncFileRange,
    ];

    /// The call's name, as in `sys_enter_NAME`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Pread64 => "pread64",
            Self::Readv => "readv",
            Self::Preadv => "preadv",
            Self::Preadv2 => "preadv2",
            Self::Write => "write",
            Self::Pwrite64 => "pwrite64",
            Self::Writev => "writev",
            Self::Pwritev => "pwritev",
            Self::Pwritev2 => "pwritev2",
            Self::Fsync => "fsync",
            Self::Fdatasync => "fdatasync",
            Self::SyncFileRange => "sync_file_range",
        }
    }

    /// The call of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Whether the call writes or waits for writes, so that others may submit requests for it.
    pub const fn writes(self) -> bool {
        !matches!(
            self,
            Self::Read | Self::Pread64 | Self::Readv | Self::Preadv | Self::Preadv2
        )
    }
}

/// The block layer's `rwbs` letters: a leading F (flush first), the operation, then flags
/// (F: forced unit access, S: synchronous, M: metadata, A: read-ahead, …).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Rwbs {
    text: [u8; 10],
}

impl Rwbs {
    /// Takes the letters up to the first null, ten at most.
    pub fn new(letters: &[u8]) -> Self {
        let mut text = [0; 10];
        for (to, &from) in text.iter_mut().zip(letters.iter().take_while(|&&b| b != 0)) {
            *to = from;
        }
        Self { text }
    }

    /// The letters; other bytes than letters become `?`.
    pub fn letters(&self) -> String {
        let letters = self.text.iter().take_while(|&&b| b != 0);
        letters
            .map(|&b| {
                if b.is_ascii_alphabetic() {
                    char::from(b)
                } else {
                    '?'
                }
            })
            .collect()
    }

    /// A flush of the device's cache comes before the data.
    pub fn preflush(&self) -> bool {
        matches!(self.text, [b'F', second, ..] if second != 0)
    }

    /// The letter of the operation: R, W, D, F (a flush by itself), …
    pub fn op(&self) -> u8 {
        let [first, second, ..] = self.text;
        if self.preflush() { second } else { first }
    }

    /// Forced unit access: a device without it gets a flush after the data.
    pub fn fua(&self) -> bool {
        self.text
            .iter()
            .skip(1 + usize::from(self.preflush()))
            .any(|&b| b == b'F')
    }
}

/// Sectors of 512 bytes of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The device (a partition already resolved to its disk).
    pub dev: Dev,
    /// First sector.
    pub sector: u64,
    /// Number of sectors; 0 for flushes.
    pub sectors: u32,
    /// What is done with them.
    pub rwbs: Rwbs,
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The current task enters a system call that is an I/O.
    SyscallEnter(Op),
    /// It leaves it with this return value.
    SyscallExit(Op, i64),
    /// `block_bio_queue`.
    BioQueue(Span),
    /// `block_split`.
    Split(Dev),
    /// `block_bio_backmerge`, `block_bio_frontmerge` or `block_rq_merge`.
    Merge(Dev),
    /// `block_rq_issue`.
    Issue(Span),
    /// `block_rq_requeue`.
    Requeue(Span),
    /// `block_rq_complete`.
    Complete(Span),
    /// `nvme_setup_cmd`: (disk, hardware queue, command id without its generation).
    NvmeSetup {
        /// A number that stands for the disk's name.
        disk: u64,
        /// Hardware queue.
        qid: u32,
        /// Tag.
        cid: u32,
    },
    /// `nvme_sq`: a completion was read from the queue of this disk.
    NvmeSq {
        /// A number that stands for the disk's name.
        disk: u64,
    },
    /// `nvme_complete_rq`.
    NvmeComplete {
        /// A number that stands for the disk's name.
        disk: u64,
        /// Hardware queue.
        qid: u32,
        /// Tag.
        cid: u32,
    },
    /// `ufshcd_command` that sends a request.
    UfsSend {
        /// Hardware queue (all ones without one).
        queue: u32,
        /// Tag.
        tag: u32,
    },
    /// `ufshcd_command` that completes one.
    UfsComplete {
        /// Hardware queue (all ones without one).
        queue: u32,
        /// Tag.
        tag: u32,
    },
    /// The driver's queue function returns.
    QueueReturn,
    /// `irq_handler_entry`.
    IrqEntry,
    /// `irq_handler_exit`.
    IrqExit,
    /// `softirq_entry` with its vector.
    SoftirqEntry(u32),
    /// `softirq_exit`.
    SoftirqExit,
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

/// A stretch of time in which some CPU's events are missing (clock units, both ends included).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Start; 0 when it reaches back before the trace.
    pub from: u64,
    /// End.
    pub to: u64,
}
