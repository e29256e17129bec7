//! Texts that user space wrote into a trace (`trace_marker`).

use std::path::Path;

use tracedat::{Entry, Trace};

use crate::error::Error;

/// The markers of a trace in the order of their time: clock units of the trace, and the text
/// without the line end.
///
/// # Errors
/// When the trace cannot be read.
pub fn markers(path: impl AsRef<Path>) -> Result<Vec<(u64, String)>, Error> {
    markers_in(&Trace::open(path)?)
}

/// The markers of a trace that is open already, as [`markers`] gives them.
///
/// # Errors
/// When the trace is damaged.
pub fn markers_in(trace: &Trace) -> Result<Vec<(u64, String)>, Error> {
    let mut found = Vec::new();
    let Some(print) = trace.format("ftrace", "print") else {
        return Ok(found);
    };
    let Some(text) = print.field("buf").map(|f| f.offset) else {
        return Ok(found);
    };
    let kind = print.accessor("common_type");
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        let Entry::Event(record) = entry else {
            continue;
        };
        if kind.and_then(|a| a.uint(record.data)) != Some(u64::from(print.id)) {
            continue;
        }
        // `buf` has no length of its own: it ends with the record, or earlier at a NUL.
        let bytes = record.data.get(text..).unwrap_or_default();
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        let text = String::from_utf8_lossy(bytes.get(..end).unwrap_or_default());
        found.push((record.ts, text.trim_end().to_owned()));
    }
    Ok(found)
}
