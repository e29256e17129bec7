//! Texts that user space wrote into a trace (`trace_marker`).

use std::path::Path;

use tracedat::{Accessor, Entry, Trace};

use crate::error::Error;
use crate::source::Source;

/// The markers of a trace in the order of their time: clock units of the trace, and the text
/// without the line end. blktrace has none.
///
/// # Errors
/// When the trace cannot be read.
pub fn markers(path: impl AsRef<Path>) -> Result<Vec<(u64, String)>, Error> {
    match Source::open(path)? {
        Source::Trace(trace) => markers_in(&trace),
        Source::Blktrace(_) => Ok(Vec::new()),
    }
}

/// The markers of a trace that is open already, as [`markers`] gives them.
///
/// # Errors
/// When the trace is damaged.
pub fn markers_in(trace: &Trace) -> Result<Vec<(u64, String)>, Error> {
    let mut found = Vec::new();
    let Some(texts) = Texts::new(trace) else {
        return Ok(found);
    };
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        if let Entry::Event(record) = entry {
            found.extend(texts.read(record.data).map(|text| (record.ts, text)));
        }
    }
    Ok(found)
}

/// How to read the texts of a trace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Texts {
    kind: Accessor,
    id: u16,
    /// Place of the text in the record.
    at: usize,
}

impl Texts {
    /// `None` when the trace cannot have any.
    pub(crate) fn new(trace: &Trace) -> Option<Self> {
        let print = trace.format("ftrace", "print")?;
        Some(Self {
            kind: print.accessor("common_type")?,
            id: print.id,
            at: print.field("buf")?.offset,
        })
    }

    /// The text without its line end, if the record is one.
    pub(crate) fn read(&self, record: &[u8]) -> Option<String> {
        if self.kind.uint(record) != Some(u64::from(self.id)) {
            return None;
        }
        // `buf` has no length of its own: it ends with the record, or earlier at a NUL.
        let bytes = record.get(self.at..).unwrap_or_default();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
        Some(text.trim_end().to_owned())
    }
}
