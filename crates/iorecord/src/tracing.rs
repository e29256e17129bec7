//! What the recording of a trace executed, as the board of the trace counted it.
//!
//! The board writes two numbers for each reading of the trace's clock: how far it has moved, and what
//! the recording executed meanwhile (tools/plugin/tracing.h). Each event has one of these times.

use std::path::Path;
use std::sync::Arc;

use iosections::Tracing;
use tracedat::{Entry, Trace};

use crate::error::Error;

const MAGIC: &[u8] = b"IOTOLLT1";

/// Reads what a board counted: times, and what was executed until each, in any order.
///
/// # Errors
/// When the file cannot be read, or is no such file.
pub fn tracing(path: &Path) -> Result<Vec<(u64, u64)>, Error> {
    let bytes = std::fs::read(path).map_err(|e| wrong(path, e.to_string()))?;
    decode(&bytes).map_err(|why| wrong(path, why.to_owned()))
}

fn wrong(path: &Path, why: String) -> Error {
    Error::Tracing {
        path: path.to_owned(),
        why,
    }
}

/// The same, checked to be of this trace.
pub(crate) fn read(path: &Path, trace: &Trace) -> Result<Arc<Tracing>, Error> {
    let wrong = |why| wrong(path, why);
    let tracing = Tracing::new(tracing(path)?);
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        if let Entry::Event(record) = entry {
            if record.cpu != 0 {
                return Err(wrong("is of one CPU, and the trace is not".to_owned()));
            }
            if !tracing.has(record.ts) {
                let ts = record.ts;
                return Err(wrong(format!(
                    "does not belong to this trace: nothing was counted at its event of {ts}"
                )));
            }
        }
    }
    Ok(Arc::new(tracing))
}

fn decode(bytes: &[u8]) -> Result<Vec<(u64, u64)>, &'static str> {
    let mut left = bytes
        .strip_prefix(MAGIC)
        .ok_or("is not what a board's recording executed")?;
    let (mut marks, mut time, mut executed) = (Vec::new(), 0_u64, 0_u64);
    while !left.is_empty() {
        let cut = "is cut off; run the boot again";
        time = time.wrapping_add(number(&mut left).ok_or(cut)?);
        executed = executed.wrapping_add(number(&mut left).ok_or(cut)?);
        marks.push((time, executed));
    }
    Ok(marks)
}

/// The next number: LEB128, the sign in its lowest bit.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some((value >> 1) ^ (value & 1).wrapping_neg());
        }
        shift += 7;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // a test may panic
mod tests {
    use super::*;

    #[test]
    fn numbers_are_differences_with_a_sign() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0xc8, 0x01, 0x0e, 0x01, 0x08, 0x04, 0x01]);
        let marks = decode(&bytes).unwrap();
        assert_eq!(marks, [(100, 7), (99, 11), (101, 10)]);
    }

    #[test]
    fn files_that_are_cut_off_or_wrong_are_refused() {
        assert!(decode(b"IOTOLLC1").unwrap_err().contains("is not"));
        let mut bytes = MAGIC.to_vec();
        bytes.push(0x02);
        assert!(decode(&bytes).unwrap_err().contains("cut off"));
        bytes.push(0x80);
        assert!(decode(&bytes).unwrap_err().contains("cut off"));
        let endless = [MAGIC, &[0xff; 40]].concat();
        assert!(decode(&endless).unwrap_err().contains("cut off"));
    }
}
