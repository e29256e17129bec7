//! What can go wrong, in one line each.

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The trace could not be read.
    #[error("{0}")]
    Trace(#[from] tracedat::Error),
    /// The files of a blktrace run could not be read.
    #[error("{0}")]
    Blktrace(#[from] blktrace::Error),
    /// A file is missing between those of other CPUs.
    #[error("{}: has no file of CPU {cpu}, and some up to CPU {last}; get it, or make it an empty file if that CPU was offline", run.display())]
    MissingCpu {
        /// The run's name or one of its files, as given.
        run: std::path::PathBuf,
        /// The CPU.
        cpu: u32,
        /// The last one that has a file.
        last: u32,
    },
    /// An option's value is not one of the known ones.
    #[error("has no {name} {value:?}; use {known}")]
    Option {
        /// The option.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would do.
        known: &'static str,
    },
    /// The turns of a board's CPUs cannot be used.
    #[error("{}: {why}", path.display())]
    Turns {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong, and the mend.
        why: String,
    },
    /// What the recording of the trace executed cannot be used.
    #[error("{}: {why}", path.display())]
    Tracing {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong, and the mend.
        why: String,
    },
    /// Who takes the rows wants no more.
    #[error("was not read to its end")]
    Stopped,
    /// Nothing is being recorded.
    #[error("no event is enabled; enable those that the sections need first")]
    NoEvents,
    /// The record could not be written as JSON.
    #[error("gives no JSON ({0}); report this")]
    Json(#[from] serde_json::Error),
}
