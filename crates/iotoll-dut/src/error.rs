//! What can go wrong, in one line each, and the exit code that says whose fault it is.

use std::io;
use std::path::Path;

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command's words or files are wrong.
    #[error("{0}")]
    Usage(String),
    /// The trace, the ring buffer or the output failed.
    #[error("{0}")]
    Infrastructure(String),
    /// A trace, not named yet, could not be measured.
    #[error("{0}")]
    Measuring(#[from] iorecord::Error),
}

impl Error {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A file that could not be read: that it is missing is the command line's fault.
    pub(crate) fn reading(path: &Path, error: &io::Error) -> Self {
        let message = format!("{}: {error}", path.display());
        if error.kind() == io::ErrorKind::NotFound {
            Self::Usage(message)
        } else {
            Self::Infrastructure(message)
        }
    }

    /// A trace that could not be measured.
    pub(crate) fn measuring(path: &Path, error: &iorecord::Error) -> Self {
        match error {
            iorecord::Error::Option { name, value, known } => Self::Usage(format!(
                "--{}: no {value:?}; use {known}",
                name.replace('_', "-")
            )),
            other => Self::Infrastructure(format!("{}: {other}", path.display())),
        }
    }

    /// Names the trace that could not be measured.
    pub(crate) fn at(self, path: &Path) -> Self {
        match self {
            Self::Measuring(error) => Self::measuring(path, &error),
            other => other,
        }
    }

    /// The exit code, as docs/dut.md lists them.
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Infrastructure(_) | Self::Measuring(_) => 4,
        }
    }
}

impl From<lexopt::Error> for Error {
    fn from(error: lexopt::Error) -> Self {
        Self::Usage(format!("{error}; see iotoll-dut --help"))
    }
}

/// Standard output could not be written.
pub(crate) fn writing(error: &io::Error) -> Error {
    Error::Infrastructure(format!("standard output: {error}"))
}
