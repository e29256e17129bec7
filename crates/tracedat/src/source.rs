//! The bytes of a trace: a file that is read piece by piece, or memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where bytes come from. A file is read at positions and never mapped: a mapped file that
/// somebody truncates meanwhile kills the process with SIGBUS, a read of it is just short.
#[derive(Debug)]
pub(crate) enum Source {
    /// A file and its length when it was opened (bytes).
    File(File, u64),
    /// Bytes in memory.
    Bytes(Vec<u8>),
}

impl Source {
    pub(crate) fn open(path: &std::path::Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Self::File(file, len))
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File(_, len) => *len,
            Self::Bytes(bytes) => bytes.len() as u64,
        }
    }

    /// Fills `out` from the position `at`; the number of bytes read, fewer only at the end.
    pub(crate) fn read_at(&self, at: u64, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file, _) => read_file(file, at, out),
            Self::Bytes(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let rest = rest.unwrap_or_default();
                let count = rest.len().min(out.len());
                if let (Some(to), Some(from)) = (out.get_mut(..count), rest.get(..count)) {
                    to.copy_from_slice(from);
                }
                Ok(count)
            }
        }
    }
}

fn read_file(file: &File, at: u64, out: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}
