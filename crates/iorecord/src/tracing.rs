//! What the recording of a trace executed, as the board of the trace counted it.
//!
//! The board writes for each reading of the trace's clock how far it has moved, and what the recording
//! executed meanwhile; with several CPUs also which of them read it, and what that CPU executed besides
//! (tools/plugin/tracing.h). Each event has one of these times.

use std::path::Path;
use std::sync::Arc;

use iosections::{Counts, Tracing};
use tracedat::{Entry, Trace};

use crate::error::Error;

const ONE: &[u8] = b"IOTOLLT1";
const SEVERAL: &[u8] = b"IOTOLLT2";

/// A reading of the trace's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// What was read.
    pub time: u64,
    /// What the recording executed until then, on all CPUs.
    pub executed: u64,
    /// Who read it.
    pub cpu: u32,
    /// What that CPU executed besides; 0 on a board with one, whose clock tells that.
    own: u64,
}

/// Reads what a board counted, in any order.
///
/// # Errors
/// When the file cannot be read, or is no such file.
pub fn tracing(path: &Path) -> Result<Vec<Reading>, Error> {
    let bytes = std::fs::read(path).map_err(|e| wrong(path, e.to_string()))?;
    let (readings, _) = decode(&bytes).map_err(|why| wrong(path, why.to_owned()))?;
    Ok(readings)
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
    let bytes = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let (readings, several) = decode(&bytes).map_err(|why| wrong(why.to_owned()))?;
    let marks = readings.iter().map(|r| (r.time, r.executed)).collect();
    let tracing = if several {
        let own = readings.iter().map(|r| (r.cpu, r.time, r.own));
        Tracing::of_several(marks, Counts::new(own))
    } else {
        Tracing::new(marks)
    };
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        if let Entry::Event(record) = entry {
            if record.cpu != 0 && !several {
                return Err(wrong("is of one CPU, and the trace is not".to_owned()));
            }
            if !tracing.has(record.cpu, record.ts) {
                let ts = record.ts;
                return Err(wrong(format!(
                    "does not belong to this trace: nothing was counted at its event of {ts}"
                )));
            }
        }
    }
    Ok(Arc::new(tracing))
}

/// The readings, and whether they are of several CPUs.
fn decode(bytes: &[u8]) -> Result<(Vec<Reading>, bool), &'static str> {
    let several = bytes.starts_with(SEVERAL);
    let mut left = bytes
        .strip_prefix(if several { SEVERAL } else { ONE })
        .ok_or("is not what a board's recording executed")?;
    let (mut readings, mut last, mut owns) = (Vec::new(), (0_u64, 0_u64), Vec::new());
    while !left.is_empty() {
        let mut next = || number(&mut left).ok_or("is cut off; run the boot again");
        last = (last.0.wrapping_add(next()?), last.1.wrapping_add(next()?));
        let (mut cpu, mut own) = (0, 0);
        if several {
            cpu = u8::try_from(next()?).map_err(|_| "names a CPU that no board has")?;
            let place = usize::from(cpu);
            if owns.len() <= place {
                owns.resize(place + 1, 0_u64);
            }
            let moved = next()?;
            if let Some(sum) = owns.get_mut(place) {
                *sum = sum.wrapping_add(moved);
                own = *sum;
            }
        }
        readings.push(Reading {
            time: last.0,
            executed: last.1,
            cpu: u32::from(cpu),
            own,
        });
    }
    Ok((readings, several))
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

    fn reading(time: u64, executed: u64, cpu: u32, own: u64) -> Reading {
        Reading {
            time,
            executed,
            cpu,
            own,
        }
    }

    #[test]
    fn numbers_are_differences_with_a_sign() {
        let mut bytes = ONE.to_vec();
        bytes.extend([0xc8, 0x01, 0x0e, 0x01, 0x08, 0x04, 0x01]);
        let (readings, several) = decode(&bytes).unwrap();
        let wanted = [(100, 7), (99, 11), (101, 10)].map(|(t, e)| reading(t, e, 0, 0));
        assert_eq!((readings.as_slice(), several), (&wanted[..], false));
    }

    #[test]
    fn each_of_several_cpus_has_its_own_count() {
        let mut bytes = SEVERAL.to_vec();
        bytes.extend([0x14, 0x0e, 0x00, 0x0a, 0x02, 0x04, 0x06, 0x0c]);
        bytes.extend([0x04, 0x02, 0x00, 0x06]);
        let (readings, several) = decode(&bytes).unwrap();
        let wanted = [(10, 7, 0, 5), (11, 9, 3, 6), (13, 10, 0, 8)];
        let wanted = wanted.map(|(t, e, c, o)| reading(t, e, c, o));
        assert_eq!((readings.as_slice(), several), (&wanted[..], true));
        bytes.pop();
        assert!(decode(&bytes).unwrap_err().contains("cut off"));
    }

    #[test]
    fn files_that_are_cut_off_or_wrong_are_refused() {
        assert!(decode(b"IOTOLLC1").unwrap_err().contains("is not"));
        let mut bytes = ONE.to_vec();
        bytes.push(0x02);
        assert!(decode(&bytes).unwrap_err().contains("cut off"));
        bytes.push(0x80);
        assert!(decode(&bytes).unwrap_err().contains("cut off"));
        let endless = [ONE, &[0xff; 40]].concat();
        assert!(decode(&endless).unwrap_err().contains("cut off"));
    }
}
