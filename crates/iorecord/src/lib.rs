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
mod blocks;
mod calls;
mod decode;
mod detail;
mod drivers;
mod error;
mod facts;
mod fields;
mod filter;
mod live;
mod markers;
mod names;
mod options;
mod order;
mod record;
mod request;
mod rows;
mod shown;
mod source;
mod stats;
mod steps;
mod stream;
mod summary;
mod tracing;
mod turns;
mod values;
mod walk;
mod window;

pub use analysis::{Analysis, device};
pub use blktrace::{BlktraceEvents, Item, action_name};
pub use blocks::{Blocks, RowTaker, blocks, direction, whole};
pub use calls::{Call, calls};
pub use detail::{io_events, io_events_json, outline};
pub use error::Error;
pub use filter::{Direction, Filter};
pub use iosections::{
    BlockRow, Dev, DeviceOutcome, FirstRequest, IoResult, Mark, MarkCounts, Moment, Op, Outcome,
    RowKind, Section,
};
pub use live::{Cells, Live};
pub use markers::{markers, markers_in};
pub use record::Unit;
pub use request::{DeviceMark, Request};
pub use shown::{Found, Outline, Shown, Wanted};
pub use source::Source;
pub use stats::Stats;
pub use stream::{IoTaker, Wish, stream};
pub use tracing::{Reading, tracing};
pub use values::Values;
