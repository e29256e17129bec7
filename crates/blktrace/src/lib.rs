//! Reads the raw files that `blktrace` records, `NAME.blktrace.0`, `NAME.blktrace.1`, …: one for
//! each CPU, of either byte order, merged by time.
//!
//! The format is `struct blk_io_trace` (version 7) and `struct blk_io_trace2` (version 8, Linux
//! 6.19 on) of the kernel's `include/uapi/linux/blktrace_api.h`: a header of 48 or 64 bytes, then
//! `pdu_len` bytes that depend on the action. This crate knows that format and nothing else of
//! the block layer.
//!
//! ```no_run
//! # fn main() -> blktrace::Result<()> {
//! let mut run = blktrace::Run::open("sda")?; // sda.blktrace.0, sda.blktrace.1, …
//! while let Some(entry) = run.next()? {
//!     match entry {
//!         blktrace::Entry::Event(e) => println!("{} {:?} {}", e.ts, e.act, e.sector),
//!         blktrace::Entry::Note(note) => println!("{} {:?}", note.ts, note.what),
//!         blktrace::Entry::Lost(lost) => println!("lost: {lost:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What may be missing
//! Damage inside a file is an [`Entry::Lost`], never an error and never a panic; reading goes on
//! at the next record. A gap in a CPU's sequence numbers is one too: so Linux 7.3 shows the events
//! that the kernel dropped because blktrace was too slow. Linux 6.12 and older take the number only
//! once there is room for the event, so there they leave no gap, and their count is nowhere but in
//! blktrace's own closing words (`Total: … events (dropped N)`).
//!
//! # Memory
//! Each file is read in blocks: 8 MiB for all of them together, but at least 16 KiB and at most
//! 256 KiB for each, and twice the longest record (64 + 65535 bytes) once one is met that does not
//! fit.

mod entry;
mod error;
mod files;
mod header;
mod run;
mod stream;

pub use entry::{Act, Entry, Event, Lost, Note, Reason, Remap, What, category};
pub use error::{Error, Result};
pub use files::{CpuFile, find, is_cpu_file, is_dump};
pub use header::Endian;
pub use run::Run;
