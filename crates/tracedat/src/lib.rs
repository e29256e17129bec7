//! Reads `trace.dat`, the file that trace-cmd records ftrace's ring buffers into, in its versions
//! 6 and 7, packed or not, of either byte order and either size of `long`.
//!
//! It knows nothing of the block layer, and has no unsafe code. Every event is read by the format that the file carries:
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
//! [`Trace::from_tracefs`] reads the running kernel's own ring buffers in the same way.
//!
//! # Speed and memory
//!
//! A file is neither mapped nor read as a whole. Each CPU has one block of at most 64 KiB, all
//! of them together 8 MiB, but at least three pages each; packed data are unpacked chunk by chunk
//! (trace-cmd packs ten pages at once). So memory depends on the number of CPUs and the size of
//! the event formats, not on the length of the trace. A page is taken apart as a whole, and the
//! CPUs are merged run by run, without work for each event in a heap.
//!
//! # Damage
//!
//! Damage before the trace data (formats, options, places of the data) is an [`Error`] of one
//! line. Damage in the data of a CPU is an [`Entry::Lost`], and reading goes on with the next page
//! or packed chunk, and with the other CPUs:
//!
//! - A page is sound from its header to its last event, or none of its events is given. What its
//!   bytes cannot tell (a field's value) is not checked.
//! - Times of one CPU never go back. A step back of up to a million clock units (a millisecond)
//!   is raised to the time before it and counted ([`Merged::raised`]). A page that starts earlier
//!   than that, or that most of the three pages behind it contradict, is
//!   [`LostReason::Disordered`]. If a wrong time lies between those of the next two pages, nothing
//!   tells which of two pages is wrong; then the later one is lost.
//! - A file that ends early gives all that is in it, then [`LostReason::CutOff`] up to the end.
//! - Pages that are missing without a trace cannot be noticed.
//!
//! # Limits
//!
//! Every length that the file states is checked before it is used; nothing in a file makes this
//! crate panic or take much memory. Beyond these limits a file is refused or its data count as
//! damaged:
//!
//! | what | limit |
//! |---|---|
//! | size of a ring-buffer page | 64 bytes to 8 MiB |
//! | pages of all CPUs that are read together | 128 MiB |
//! | unpacked chunk of trace data | 16 MiB, and 256 MiB for all CPUs together; twice that where another thread unpacks |
//! | unpacked section, event formats and the like | 64 MiB |
//! | CPUs, and their numbers | 16384 |
//! | event formats | 65536 in each group |
//! | buffers, or sections of options | 1024 |
//! | samples of a guest's clock | 1048576 for each CPU |

mod access;
mod ahead;
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
mod lost;
mod merge;
mod meta;
mod packed;
mod pages;
mod pipe;
mod preamble;
mod reader;
mod source;
mod trace;
mod tracefs;
mod v6;
mod v7;

pub use access::{Accessor, Location};
pub use buffer::Buffer;
pub use bytes::Endian;
pub use compress::Compression;
pub use cursor::{Cursor, Entry, Events, Record, Run};
pub use error::{Error, Result};
pub use format::{EventFormat, Field};
pub use live::LiveOptions;
pub use lost::{LostRange, LostReason};
pub use merge::Merged;
pub use meta::Guest;
pub use trace::Trace;
