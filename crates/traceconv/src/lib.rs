//! Turns recordings of the kernel's trace events in other formats into a trace.dat, so that
//! everything that reads a trace.dat reads them, too: perf.data, Perfetto, the text of ftrace, of
//! `trace-cmd report`, of `perf script` and of systrace, and any of these packed.
//!
//! It knows no block layer; of the kernel's events it knows how they are printed
//! ([`printed`]) and how Perfetto numbers them ([`perfetto`]). Records of perf.data go over as
//! they are.
//!
//! The trace.dat is a file without a name: it is gone with its [`Recording`]. It takes about as
//! much space as the recording's events in a ring buffer. Memory does not depend on the length.
//!
//! Nothing in a recording makes this crate panic, or take much memory.

mod error;
mod foreign;
mod formats;
mod perf;
mod perfetto;
mod printed;
mod text;
mod unpack;
mod wire;
mod write;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

pub use error::{Error, Result};

use crate::unpack::Input;

/// What a recording is, beside its events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// Its format, such as `perf.data`.
    pub format: String,
    /// How it was packed, such as `gzip`.
    pub packing: Option<&'static str>,
    /// What its times are a multiple of (ns).
    pub resolution: u64,
    /// What a reader must know: what is missing, or was not understood. One line each.
    pub notes: Vec<String>,
}

/// A recording that became a trace.dat, or a `blkparse -d` file.
#[derive(Debug)]
pub struct Recording {
    file: File,
    /// What it was.
    pub about: About,
}

impl Recording {
    /// Where the trace.dat can be opened while this lives.
    pub fn path(&self) -> PathBuf {
        path_of(&self.file)
    }
}

/// A file without a name, by its number in this process.
pub(crate) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Reads a recording; `None` when it is a plain trace.dat or a raw file of blktrace.
///
/// # Errors
/// When it cannot be read, is damaged, or is something else; the message says what.
pub fn open(path: impl AsRef<Path>) -> Result<Option<Recording>> {
    let path = path.as_ref();
    let mut found = convert(Input::open(path)?)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(recording) = found.as_mut().filter(|_| name.contains(".blktrace.")) {
        let note = "it is one CPU's file of blktrace, and those of others are not read: unpack all of them";
        recording.about.notes.push(note.to_owned());
    }
    Ok(found)
}

/// [`open`] of bytes.
///
/// # Errors
/// As [`open`].
pub fn from_bytes(bytes: Vec<u8>) -> Result<Option<Recording>> {
    convert(Input::new(Box::new(std::io::Cursor::new(bytes)))?)
}

fn convert(mut input: Input) -> Result<Option<Recording>> {
    let packing = input.packing;
    let head = input.head();
    let own = head.starts_with(b"\x17\x08\x44tracing") || is_blktrace(head);
    let (file, mut about) = if own {
        if packing.is_none() {
            return Ok(None);
        }
        let format = if is_blktrace(head) {
            "blktrace"
        } else {
            "trace.dat"
        };
        let about = About {
            format: format.to_owned(),
            resolution: 1,
            ..About::default()
        };
        (input.spool()?, about)
    } else if perf::is_perf(head) {
        perf::convert(input)?
    } else if perfetto::is_perfetto(head) {
        perfetto::convert(input)?
    } else if text::is_text(head) {
        text::convert(input)?
    } else {
        return Err(foreign::named(head));
    };
    about.packing = packing;
    Ok(Some(Recording { file, about }))
}

/// The magic of a raw blktrace file, of either byte order.
fn is_blktrace(head: &[u8]) -> bool {
    match head {
        [7 | 8, rest @ ..] => rest.starts_with(b"tae"),
        [0x65, 0x61, 0x74, 7 | 8, ..] => true,
        _ => false,
    }
}

/// Reads as much as there is, up to a limit.
fn read_up_to(source: &mut dyn Read, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut out = Vec::new();
    source.take(limit).read_to_end(&mut out)?;
    Ok(out)
}
