//! What user space asked for.

/// What one I/O is: a system call by itself, or one entry that a call submits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[allow(missing_docs)] // the names of the calls
pub enum Op {
    #[default]
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
    Msync,
    Syncfs,
    Sync,
    /// It may read or write storage, or not (pipes, sockets); an I/O only if requests come of it.
    Splice,
    /// Likewise.
    Sendfile,
    /// Likewise.
    CopyFileRange,
    /// It may discard (`BLKDISCARD`, `FITRIM`); an I/O only if requests come of it.
    Ioctl,
    /// It may discard, or write zeros; likewise.
    Fallocate,
    /// One iocb of `io_submit`.
    IoSubmit,
    /// One submission queue entry of `io_uring`.
    IoUring,
    /// A bio, where the trace has no system calls (blktrace).
    Bio,
    /// A direct I/O of iomap, where the architecture has no events of system calls.
    DirectIo,
    /// A read through the page cache, there.
    PageRead,
    /// A write through the page cache that its file's flags make wait (`O_SYNC`), there.
    PageWrite,
}

impl Op {
    /// The system calls that are one I/O each, or none.
    pub const CALLS: [Self; 21] = [
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
        Self::Msync,
        Self::Syncfs,
        Self::Sync,
        Self::Splice,
        Self::Sendfile,
        Self::CopyFileRange,
        Self::Ioctl,
        Self::Fallocate,
    ];

    /// The call's name, as in `sys_enter_NAME`; `io_uring`, `bio` for those that are no call.
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
            Self::Msync => "msync",
            Self::Syncfs => "syncfs",
            Self::Sync => "sync",
            Self::Splice => "splice",
            Self::Sendfile => "sendfile64",
            Self::CopyFileRange => "copy_file_range",
            Self::Ioctl => "ioctl",
            Self::Fallocate => "fallocate",
            Self::IoSubmit => "io_submit",
            Self::IoUring => "io_uring",
            Self::Bio => "bio",
            Self::DirectIo => "iomap_dio",
            Self::PageRead => "page_read",
            Self::PageWrite => "page_write",
        }
    }

    /// How it was submitted: `sync`, `libaio`, `io_uring` or `bio`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::IoSubmit => "libaio",
            Self::IoUring => "io_uring",
            Self::Bio => "bio",
            _ => "sync",
        }
    }

    /// The call of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        // 32-bit kernels have both.
        let name = if name == "sendfile" {
            "sendfile64"
        } else {
            name
        };
        Self::CALLS.into_iter().find(|op| op.name() == name)
    }

    /// Whether it outlives the system call that submits it.
    pub const fn is_async(self) -> bool {
        matches!(self, Self::IoSubmit | Self::IoUring | Self::Bio)
    }

    /// Whether it is an I/O only if requests come of it.
    pub const fn is_by_chance(self) -> bool {
        matches!(
            self,
            Self::Splice | Self::Sendfile | Self::CopyFileRange | Self::Ioctl | Self::Fallocate
        )
    }

    /// Whether it only waits until data are stored.
    pub const fn is_flush(self) -> bool {
        matches!(
            self,
            Self::Fsync
                | Self::Fdatasync
                | Self::SyncFileRange
                | Self::Msync
                | Self::Syncfs
                | Self::Sync
        )
    }

    /// Whether the call writes or waits for writes, so that others may submit requests for it.
    pub const fn writes(self) -> bool {
        let data = matches!(
            self,
            Self::Write
                | Self::Pwrite64
                | Self::Writev
                | Self::Pwritev
                | Self::Pwritev2
                | Self::Splice
                | Self::Sendfile
                | Self::CopyFileRange
                | Self::PageWrite
        );
        data || self.is_flush()
    }
}
