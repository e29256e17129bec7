//! What can be wrong with a file, in one line each.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a trace could not be read. Every message is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read the file.
    #[error("cannot be read ({0}); check the path and its permissions")]
    Io(#[from] std::io::Error),
    /// The first ten bytes are not trace-cmd's.
    #[error("is not a trace.dat (no trace-cmd magic at offset 0); record it with trace-cmd")]
    Magic,
    /// The file ends inside something.
    #[error("ends at {end:#x} inside {what} at offset {offset:#x}; copy or record it again")]
    Truncated {
        /// Offset in the file (bytes) where the thing starts.
        offset: u64,
        /// Length of the file or of the enclosing part (bytes).
        end: u64,
        /// What was being read.
        what: &'static str,
    },
    /// Bytes that contradict the format.
    #[error("is damaged at offset {offset:#x}: {what}; copy or record it again")]
    Corrupt {
        /// Offset in the file (bytes).
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A buffer was asked for that the trace lacks.
    #[error("has no buffer {name:?}; it has {known}")]
    NoBuffer {
        /// The name asked for.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A file of tracefs is missing or unreadable.
    #[error("cannot read {path} ({source}); mount tracefs there and run as root")]
    Tracefs {
        /// The file.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A valid file that this reader does not know.
    #[error("uses {what}, which is not supported; {mend}")]
    Unsupported {
        /// The unknown thing.
        what: String,
        /// What the user can do.
        mend: &'static str,
    },
}

impl Error {
    /// A [`Error::Corrupt`] at `offset`.
    pub(crate) fn corrupt(offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt {
            offset,
            what: what.into(),
        }
    }
}
