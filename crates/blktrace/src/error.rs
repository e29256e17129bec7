//! What can be wrong with a run's files, in one line each.

use std::path::PathBuf;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a run could not be read. Every message is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read something.
    #[error("{}: cannot be read ({source}); check the path and its permissions", path.display())]
    Io {
        /// File or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is no file of that run.
    #[error("{}: no such file, nor one of that name with .blktrace.N behind it; give a trace.dat, or the name that blktrace -o had", path.display())]
    NoFiles {
        /// The name given.
        path: PathBuf,
    },
    /// More CPUs than any machine has.
    #[error("{}: {count} files, more than the {limit} that are read; move what is not of this run away", path.display())]
    TooManyFiles {
        /// The name given.
        path: PathBuf,
        /// Files found.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// The first record is not blktrace's.
    #[error("{}: is not a raw blktrace file (no 0x656174 magic at offset 0); record it with blktrace", path.display())]
    Magic {
        /// The file.
        path: PathBuf,
    },
    /// A version of the format that this reader does not know.
    #[error("{}: has version {version} of the format, and 7 and 8 are known; record it with a blktrace of those", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u8,
    },
}
