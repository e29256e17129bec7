//! Turns a trace.dat into the record of its cell.
//!
//! It binds [`tracedat`], which knows no block layer, to [`iosections`], which knows no file
//! format: events are found by name and fields, never by kernel version. [`Analysis`] does the
//! work; [`Analysis::record`] is what is stored and judged.

mod analysis;
mod bind;
mod error;
mod fields;
mod live;
mod markers;
mod names;
mod order;
mod record;
mod stats;
mod summary;

pub use analysis::{Analysis, DeviceMark, Request};
pub use error::Error;
pub use iosections::{
    Dev, DeviceOutcome, FirstRequest, IoResult, Mark, MarkCounts, Moment, Op, Outcome, Section,
};
pub use live::{Cells, Live};
pub use markers::{markers, markers_in};
pub use record::Unit;
pub use stats::{Stats, Values};
pub use summary::Filter;
