//! What can be wrong with a recording, in one line each.

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a recording could not be read. Every message is one line and says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused to read or write.
    #[error("cannot be read ({0}); check the path and its permissions")]
    Io(#[from] std::io::Error),
    /// The trace.dat that it becomes could not be written.
    #[error(
        "cannot be unpacked into {folder} ({source}); free some space there, or name another folder in TMPDIR"
    )]
    Scratch {
        /// Where it was to be.
        folder: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file of a known kind that has no events of the kernel's.
    #[error("is {what}; {mend}")]
    Foreign {
        /// What it is, with an article.
        what: String,
        /// What would give a trace.
        mend: &'static str,
    },
    /// Bytes that contradict the format.
    #[error("is {what}, and damaged at {place}: {why}; copy or record it again")]
    Corrupt {
        /// What it is, with an article.
        what: &'static str,
        /// Where, with the unit.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// Packed data that cannot be unpacked.
    #[error("cannot be unpacked as {packing} ({source}); copy it again")]
    Packing {
        /// The packing's name.
        packing: &'static str,
        /// What the library said.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn foreign(what: impl Into<String>, mend: &'static str) -> Self {
        let what = what.into();
        Self::Foreign { what, mend }
    }

    pub(crate) fn corrupt(what: &'static str, at: u64, why: impl Into<String>) -> Self {
        let (place, why) = (format!("offset {at:#x}"), why.into());
        Self::Corrupt { what, place, why }
    }
}
