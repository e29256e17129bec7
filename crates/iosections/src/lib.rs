//! Cuts I/Os out of a stream of kernel events and measures their latency sections.
//!
//! It knows no file format: the caller translates its events to [`Event`] and feeds them to an
//! [`Engine`] in order of time. One I/O is one system call of one task; see [`Section`] for its
//! parts, which always add up to its whole duration.

mod batch;
mod block;
mod cpu;
mod engine;
mod event;
mod finish;
mod io;
mod outcome;
mod path;
mod section;
mod slab;
mod stats;
mod submit;

pub use engine::{Engine, Options, Tasks};
pub use event::{Dev, Event, Kind, Lost, Op, Rwbs, Span};
pub use io::{FirstRequest, IoResult};
pub use outcome::{IoCounts, Outcome, RequestCounts};
pub use section::Section;
pub use stats::Stats;
