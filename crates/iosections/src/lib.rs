//! Cuts I/Os out of a stream of kernel events and measures their latency sections.
//!
//! It knows no file format: the caller translates its events to [`Event`] and feeds them to an
//! [`Engine`] in order of time. One I/O is a system call of one task, one entry that a call
//! submits, or a bio; see [`Section`] for its parts, which always add up to its whole duration.
//!
//! Its memory depends on what is in flight, not on the length of the stream, and is limited
//! whatever the stream says (module `limits`).

mod account;
mod batch;
mod block;
mod blockbios;
mod blockrequests;
mod blockrow;
mod blockrows;
mod blockstate;
mod calls;
mod chains;
mod class;
mod close;
mod cover;
mod cpu;
mod crossed;
mod device;
mod engine;
mod event;
mod finish;
mod flush;
mod frame;
mod gaps;
mod give;
mod handlers;
mod helpers;
mod io;
mod limits;
mod mark;
mod measure;
mod op;
mod outcome;
mod pass;
mod path;
mod place;
mod request;
mod rwbs;
mod sched;
mod section;
mod slab;
mod stacked;
mod submit;
mod task;
mod turns;
mod uncalled;
mod waiting;

pub use blockrow::{BlockRow, RowKind, RowSink};
pub use blockrows::Step;
pub use blockstate::{At, BlockRows};
pub use class::Class;
pub use engine::{Engine, Options, Tasks};
pub use event::{Call, Dev, Driver, Event, Kind, Lost, Now, Span, Tag};
pub use io::{FirstRequest, IoResult, Sink};
pub use mark::{Mark, MarkCounts, Moment, Moments};
pub use op::Op;
pub use outcome::{DeviceOutcome, IoCounts, Outcome, RequestCounts};
pub use rwbs::Rwbs;
pub use section::Section;
pub use turns::{Counts, Tracing, Turns};
