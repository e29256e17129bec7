//! Which files belong to a run.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::header::{First, first_word};

/// A machine with more CPUs than this is a folder with something else in it.
const LIMIT: usize = 4096;

/// One CPU's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuFile {
    /// The CPU, as in the file's name.
    pub cpu: u32,
    /// Where it lies.
    pub path: PathBuf,
}

/// Whether a path looks like one CPU's file, `NAME.blktrace.N`.
pub fn is_cpu_file(path: impl AsRef<Path>) -> bool {
    let name = path.as_ref().file_name().and_then(|name| name.to_str());
    name.and_then(split).is_some()
}

/// Whether a path is a file of all CPUs, as `blkparse -d` writes it: it begins as one of blktrace's
/// does, and is not called like one CPU's.
pub fn is_dump(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    let mut word = [0; 4];
    let mut read = || std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut word));
    !is_cpu_file(path) && read().is_ok() && matches!(first_word(word), First::Known(_))
}

/// The files of a run, by CPU. `path` is the name before `.blktrace.N`, as `blktrace -o` had it,
/// or one of the files.
///
/// # Errors
/// When there is none, there are too many, or their folder cannot be read.
pub fn find(path: impl AsRef<Path>) -> Result<Vec<CpuFile>> {
    let path = path.as_ref();
    let no_files = || Error::NoFiles {
        path: path.to_owned(),
    };
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .ok_or_else(no_files)?;
    let name = split(name).map_or(name, |(name, _)| name);
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let io = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for file in std::fs::read_dir(folder).map_err(io)? {
        let file = file.map_err(io)?;
        let this = file.file_name();
        if let Some((_, cpu)) = this.to_str().and_then(split).filter(|f| f.0 == name) {
            let path = file.path();
            found.push(CpuFile { cpu, path });
        }
    }
    if found.len() > LIMIT {
        return Err(Error::TooManyFiles {
            path: path.to_owned(),
            count: found.len(),
            limit: LIMIT,
        });
    }
    found.sort_by_key(|f| f.cpu);
    if found.is_empty() {
        Err(no_files())
    } else {
        Ok(found)
    }
}

/// `NAME.blktrace.N` as (NAME, N).
fn split(file: &str) -> Option<(&str, u32)> {
    let (name, cpu) = file.rsplit_once(".blktrace.")?;
    Some((name, cpu.parse().ok()?))
}
