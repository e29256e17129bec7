//! The document of one cell: its record, and the per-I/O figures that the gate compares.

use std::fmt::Write;

use iorecord::{Analysis, IoResult, Section};

use crate::error::Error;
use crate::options::Options;

/// Of the host's model `DutRecord` (src/iotoll/records/models/analysis.py).
const SCHEMA: &str = "iotoll.dut/1";

type Column = (&'static str, fn(&IoResult) -> Option<u64>);

/// What the gate compares: one entry per measured I/O each, by the names of the host's table.
const COLUMNS: [Column; 4] = [
    ("first_vfs_fs", |io| Some(io.first?.vfs_fs)),
    ("first_submission", |io| Some(io.first?.submission)),
    ("first_completion", |io| io.first?.completion),
    ("own_return", |io| own(io, Section::Return)),
];

/// The other sections' own counts, for calibrations.
const OWN: [Column; 4] = [
    ("own_vfs_fs", |io| own(io, Section::VfsFs)),
    ("own_submission", |io| own(io, Section::Submission)),
    ("own_hardware", |io| own(io, Section::Hardware)),
    ("own_completion", |io| own(io, Section::Completion)),
];

fn own(io: &IoResult, section: Section) -> Option<u64> {
    io.own.get(section.index()).copied()
}

/// One line of JSON without its line end.
///
/// # Errors
/// When the record cannot be written as JSON.
pub(crate) fn document(
    cell: &str,
    digest: Option<&str>,
    analysis: &Analysis,
    options: &Options,
) -> Result<String, Error> {
    let failed = |e: &dyn std::fmt::Display| Error::Infrastructure(format!("{cell}: {e}"));
    let name = serde_json::to_string(cell).map_err(|e| failed(&e))?;
    let record = analysis.record(options.unit).map_err(|e| failed(&e))?;
    let mut text = format!("{{\"schema_version\":\"{SCHEMA}\",\"cell\":{name},");
    if let Some(digest) = digest {
        let _ = write!(text, "\"trace_sha256\":\"{digest}\",");
    }
    text.push_str("\"record\":");
    text.push_str(&record);
    if options.columns() {
        text.push_str(",\"columns\":{");
        let more: &[Column] = if options.own { &OWN } else { &[] };
        for (place, (name, value)) in COLUMNS.iter().chain(more).enumerate() {
            let comma = if place > 0 { "," } else { "" };
            let _ = write!(text, "{comma}\"{name}\":[");
            let known = analysis.knows_own();
            let values = analysis.ios.iter().map(|io| value(io).filter(|_| known));
            push_values(&mut text, values);
            text.push(']');
        }
        text.push('}');
    }
    text.push('}');
    Ok(text)
}

fn push_values(text: &mut String, values: impl Iterator<Item = Option<u64>>) {
    for (place, value) in values.enumerate() {
        if place > 0 {
            text.push(',');
        }
        let _ = match value {
            Some(value) => write!(text, "{value}"),
            None => write!(text, "null"),
        };
    }
}
