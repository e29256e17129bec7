//! Turns a trace.dat, or the raw files of blktrace, into the record of its cell.
//!
//! It binds [`tracedat`], which knows no block layer, to [`iosections`], which knows no file
//! format: events are found by name and fields, never by kernel version. [`Analysis`] does the
//! work; [`Analysis::record`] is what is stored and judged.

mod analysis;
mod bind;
mod bins;
mod blkdetail;
mod blktrace;
mod calls;
mod decode;
mod detail;
mod drivers;
mod error;
mod fields;
mod filter;
mod live;
mod markers;
mod names;
mod options;
mod order;
mod record;
mod rows;
mod source;
mod stats;
mod summary;
mod walk;

pub use analysis::{Analysis, DeviceMark, Request};
pub use blktrace::{BlktraceEvents, Item, action_name};
pub use calls::{Call, calls};
pub use detail::{Found, Outline, Shown, Wanted, io_events, io_events_json, outline};
pub use error::Error;
pub use filter::{Direction, Filter};
pub use iosections::{
    Dev, DeviceOutcome, FirstRequest, IoResult, Mark, MarkCounts, Moment, Op, Outcome, Section,
};
pub use live::{Cells, Live};
pub use markers::{markers, markers_in};
pub use record::Unit;
pub use source::Source;
pub use stats::{Stats, Values};
