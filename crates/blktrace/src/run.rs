//! All CPUs of a run in order of time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use crate::entry::Entry;
use crate::error::{Error, Result};
use crate::files::{CpuFile, find, is_dump};
use crate::header::Endian;
use crate::stream::{Cpus, Stream};

/// Buffers of all files together, and of one (bytes).
const BUFFERS: usize = 8 << 20;
const BUFFER_MIN: usize = 16 << 10;
const BUFFER_MAX: usize = 256 << 10;

/// (time, sequence number, place in `streams`) of a record.
type Key = (u64, u32, usize);

/// The files of a run, merged by time; those of equal time by sequence number.
pub struct Run {
    streams: Vec<Stream>,
    /// The streams that have a current record, but for the one at `turn`.
    rivals: BinaryHeap<Reverse<Key>>,
    /// Place of the stream whose record comes next, or came last.
    turn: Option<usize>,
    /// Streams that are not read yet.
    unread: usize,
    /// Whether the record of `turn` was handed out.
    used: bool,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Run")
            .field("files", &self.streams.len())
            .finish_non_exhaustive()
    }
}

impl Run {
    /// Opens the files of a run, as [`find`] finds them; or a file of all CPUs, as `blkparse -d`
    /// writes it.
    ///
    /// # Errors
    /// When there are none or too many, one cannot be read, or what they begin with is not
    /// blktrace's. Damage after that shows as [`Entry::Lost`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        if is_dump(path) {
            return match File::open(path) {
                Ok(file) => {
                    let source = Box::new(file) as Box<dyn Read + Send>;
                    Self::new(vec![(Cpus::All(HashMap::new()), path.to_owned(), source)])
                }
                Err(source) => Err(Error::Io {
                    path: path.to_owned(),
                    source,
                }),
            };
        }
        let mut sources = Vec::new();
        for CpuFile { cpu, path } in find(path)? {
            match File::open(&path) {
                Ok(file) => {
                    let source = Box::new(file) as Box<dyn Read + Send>;
                    sources.push((Cpus::One(cpu, None), path, source));
                }
                Err(source) => return Err(Error::Io { path, source }),
            }
        }
        Self::new(sources)
    }

    /// Takes the bytes of each CPU's file.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn from_bytes(files: Vec<(u32, Vec<u8>)>) -> Result<Self> {
        let source = |(cpu, bytes)| {
            let path = PathBuf::from(format!("CPU {cpu}"));
            (
                Cpus::One(cpu, None),
                path,
                Box::new(Cursor::new(bytes)) as Box<dyn Read + Send>,
            )
        };
        Self::new(files.into_iter().map(source).collect())
    }

    /// Takes the bytes of a file of all CPUs.
    ///
    /// # Errors
    /// As [`Run::open`].
    pub fn dump_from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let path = PathBuf::from("dump");
        let source = Box::new(Cursor::new(bytes)) as Box<dyn Read + Send>;
        Self::new(vec![(Cpus::All(HashMap::new()), path, source)])
    }

    fn new(sources: Vec<(Cpus, PathBuf, Box<dyn Read + Send>)>) -> Result<Self> {
        let block = (BUFFERS / sources.len().max(1)).clamp(BUFFER_MIN, BUFFER_MAX);
        let open = |(cpus, path, source)| Stream::new(cpus, path, source, block);
        let mut streams = sources.into_iter().map(open).collect::<Result<Vec<_>>>()?;
        let layout = streams.iter().find_map(Stream::layout);
        for stream in &mut streams {
            stream.assume(layout)?;
        }
        Ok(Self {
            unread: streams.len(),
            streams,
            rivals: BinaryHeap::new(),
            turn: None,
            used: false,
        })
    }

    /// Byte order of the traced machine; `None` when all files are empty.
    pub fn endian(&self) -> Option<Endian> {
        let layout = self.streams.iter().find_map(Stream::layout);
        layout.map(|layout| layout.endian)
    }

    /// Records with driver-specific data so far; they are skipped.
    pub fn driver_data(&self) -> u64 {
        self.streams.iter().map(|s| s.driver_data).sum()
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// When the operating system refuses to read on.
    #[allow(clippy::should_implement_trait)] // the entry borrows the reader
    #[inline]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        while self.unread > 0 {
            self.unread -= 1;
            if let Some(place) = self.read(self.unread)? {
                return Ok(self.lost(place));
            }
        }
        if let (Some(turn), true) = (self.turn, self.used) {
            self.used = false;
            if let Some(place) = self.step(turn)? {
                return Ok(self.lost(place));
            }
        }
        if self.turn.is_none() {
            self.turn = self.rivals.pop().map(|Reverse((_, _, place))| place);
        }
        self.used = true;
        let stream = self.turn.and_then(|turn| self.streams.get(turn));
        Ok(stream.and_then(Stream::entry))
    }

    /// Reads the first record of a stream; gives the stream's place when a gap comes first.
    fn read(&mut self, place: usize) -> Result<Option<usize>> {
        let Some(stream) = self.streams.get_mut(place) else {
            return Ok(None);
        };
        let more = stream.advance()?;
        if more {
            let (ts, sequence) = stream.key();
            self.rivals.push(Reverse((ts, sequence, place)));
        }
        Ok(stream.has_lost().then_some(place))
    }

    /// Moves the stream of the last record on and chooses whose turn it is. Gives the stream's
    /// place when a gap comes first.
    #[inline]
    fn step(&mut self, turn: usize) -> Result<Option<usize>> {
        let Some(stream) = self.streams.get_mut(turn) else {
            return Ok(None);
        };
        if stream.advance()? {
            let (ts, sequence) = stream.key();
            let key = (ts, sequence, turn);
            if let Some(mut first) = self.rivals.peek_mut() {
                if first.0 < key {
                    self.turn = Some(first.0.2);
                    *first = Reverse(key);
                }
            }
        } else {
            self.turn = None;
        }
        Ok(stream.has_lost().then_some(turn))
    }

    #[cold]
    fn lost(&mut self, place: usize) -> Option<Entry<'static>> {
        let lost = self.streams.get_mut(place)?.take_lost()?;
        Some(Entry::Lost(lost))
    }
}
