//! The cells of a batch: a text in the trace begins each.

use iorecord::markers_in;
use tracedat::Trace;

/// What such a text starts with; lava-jobs/dut/mark.sh writes it.
pub(crate) const MARKER: &str = "iotoll cell ";

/// A cell's name, and its time from the one stamp to before the other (clock units).
pub(crate) type Cell = (String, (u64, u64));

/// The cells in order of time; each ends where the next begins.
pub(crate) fn windows(trace: &Trace) -> Result<Vec<Cell>, iorecord::Error> {
    let marks: Vec<(u64, String)> = markers_in(trace)?
        .into_iter()
        .filter_map(|(time, text)| Some((time, text.strip_prefix(MARKER)?.to_owned())))
        .collect();
    let ends: Vec<u64> = marks.iter().skip(1).map(|&(time, _)| time).collect();
    let ends = ends.into_iter().chain([u64::MAX]);
    Ok(marks
        .into_iter()
        .zip(ends)
        .map(|((start, name), end)| (name, (start, end)))
        .collect())
}
