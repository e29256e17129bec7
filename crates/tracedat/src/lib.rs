//! Reads `trace.dat`, the file that trace-cmd records ftrace's ring buffers into, in its versions
//! 6 and 7, packed or not, of either byte order and either size of `long`.
//!
//! It knows nothing of the block layer. Every event is read by the format that the file carries:
//!
//! ```no_run
//! # fn main() -> tracedat::Result<()> {
//! let trace = tracedat::Trace::open("trace.dat")?;
//! let sector = trace.format("block", "block_rq_issue").and_then(|f| f.accessor("sector"));
//! let mut events = trace.events()?;
//! while let Some(entry) = events.next()? {
//!     match entry {
//!         tracedat::Entry::Event(record) => {
//!             println!("{} {:?}", record.ts, sector.and_then(|s| s.uint(record.data)));
//!         }
//!         tracedat::Entry::Lost(gap) => println!("{gap:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every length that the file states is checked before it is used; damage is an [`Error`], never
//! a panic.

mod access;
mod buffer;
mod bytes;
mod clock;
mod compress;
mod cursor;
mod decode;
mod error;
mod format;
mod head;
mod layout;
mod live;
mod merge;
mod meta;
mod packed;
mod pages;
mod reader;
mod source;
mod trace;
mod v6;
mod v7;

pub use access::{Accessor, Location};
pub use buffer::Buffer;
pub use bytes::Endian;
pub use compress::Compression;
pub use cursor::{Cursor, Entry, LostRange, LostReason, Record};
pub use error::{Error, Result};
pub use format::{EventFormat, Field};
pub use live::LiveOptions;
pub use merge::Merged;
pub use meta::Guest;
pub use trace::Trace;
