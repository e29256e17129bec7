//! A whole trace.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::ahead::Unpacking;
use crate::buffer::Buffer;
use crate::bytes::Endian;
use crate::compress::{Compression, Unpacker};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::format::EventFormat;
use crate::head::Head;
use crate::layout::Layout;
use crate::live::Live;
use crate::merge::Merged;
use crate::meta::{Guest, Meta};
use crate::packed::Packing;
use crate::pages::{self, Feed, Pages};
use crate::preamble;
use crate::source::Source;

/// Pages of all CPUs that are read at the same time (bytes).
const PAGE_BUDGET: u64 = 128 << 20;
/// Unpacked chunks of all CPUs at the same time (bytes); trace-cmd packs ten pages at once.
const CHUNK_BUDGET: usize = 256 << 20;
/// Largest chunk (bytes).
const CHUNK_LIMIT: usize = 16 << 20;

/// Trace clocks that do not count nanoseconds, besides `x86-tsc`: events (`counter`), hundredths of
/// a second (`uptime`), and the counters of other processors; `ticks` of a text that does not say.
const COUNTERS: [&str; 5] = ["counter", "uptime", "ppc-tb", "s390-tod", "ticks"];

/// A trace: a file of trace-cmd's, or the kernel's own ring buffers. Its events stay where they
/// are, and packed; they are fetched and unpacked while they are read.
#[derive(Debug)]
pub struct Trace {
    source: Arc<Source>,
    live: Option<Live>,
    head: Head,
    meta: Meta,
    /// Places of the buffers that are read.
    selected: Vec<usize>,
}

impl Trace {
    /// Opens a file.
    ///
    /// # Errors
    /// When it cannot be read, is no trace.dat, is damaged before its data, or uses something
    /// unknown. Damage inside the data shows as [`crate::Entry::Lost`] while the events are read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::of(Source::open(path.as_ref())?)
    }

    /// Takes a file's bytes.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_bytes(file: Vec<u8>) -> Result<Self> {
        Self::of(Source::Bytes(file))
    }

    fn of(source: Source) -> Result<Self> {
        let (head, meta) = preamble::parse(&source)?;
        Ok(Self::with(source, None, head, meta))
    }

    pub(crate) fn with(source: Source, live: Option<Live>, head: Head, meta: Meta) -> Self {
        // The top buffer comes first; an instance leads only when the top one is empty.
        let lead = meta.buffers.iter().position(Buffer::has_data).unwrap_or(0);
        let clock = meta.buffers.get(lead).map(|b| b.clock.clone());
        let same = |b: &Buffer| Some(&b.clock) == clock.as_ref() && b.has_data();
        let others = (0..meta.buffers.len())
            .filter(|&at| at != lead && meta.buffers.get(at).is_some_and(same));
        let selected = std::iter::once(lead).chain(others).collect();
        Self {
            source: Arc::new(source),
            live,
            head,
            meta,
            selected,
        }
    }

    /// The first of the buffers that are read.
    fn used(&self) -> Option<&Buffer> {
        self.meta.buffers.get(*self.selected.first()?)
    }

    /// All buffers (instances) of the trace. Those with the clock of the first one that has data
    /// are read together, unless [`Trace::select`] chose one.
    pub fn buffers(&self) -> &[Buffer] {
        &self.meta.buffers
    }

    /// The buffers that are read.
    pub fn selected(&self) -> impl Iterator<Item = &Buffer> {
        let buffers = &self.meta.buffers;
        self.selected.iter().filter_map(|&at| buffers.get(at))
    }

    /// Reads only the buffer of this name from now on; the top one has the empty name.
    ///
    /// # Errors
    /// When there is none of this name.
    pub fn select(&mut self, name: &str) -> Result<()> {
        let at = self.meta.buffers.iter().position(|b| b.name == name);
        let Some(at) = at else {
            return Err(Error::NoBuffer {
                name: name.to_owned(),
                known: self.names(),
            });
        };
        self.selected = vec![at];
        Ok(())
    }

    /// Leaves out a buffer from now on, unless it is the only one that is read.
    pub fn leave_out(&mut self, name: &str) {
        if self.selected.len() > 1 {
            let buffers = &self.meta.buffers;
            let stays = |at: &usize| buffers.get(*at).is_some_and(|b| b.name != name);
            self.selected.retain(stays);
        }
    }

    fn names(&self) -> String {
        let names = self.meta.buffers.iter().map(|b| format!("{:?}", b.name));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Version of the file format: 6 or 7; 0 of a live trace.
    pub fn version(&self) -> u32 {
        self.head.version
    }

    /// Compression of the sections and the data.
    pub fn compression(&self) -> Compression {
        self.head.compression
    }

    /// Byte order of the traced machine.
    pub fn endian(&self) -> Endian {
        self.head.endian
    }

    /// Size of `long` on the traced machine (bytes).
    pub fn long_size(&self) -> usize {
        self.head.long
    }

    /// Size of a ring-buffer page (bytes).
    pub fn page_size(&self) -> u32 {
        self.used().map_or(self.head.page_size, |b| b.page_size)
    }

    /// Number of CPUs with a place in the file, be it empty.
    pub fn cpus(&self) -> usize {
        self.used()
            .map_or(self.meta.cpu_count as usize, |b| b.parts.len())
    }

    /// Name of the trace clock, for example `local`.
    pub fn clock(&self) -> &str {
        self.used().map_or(&self.meta.clock, |b| self.clock_of(b))
    }

    /// Whether its times are ticks, since its clock counts something else than nanoseconds, and the
    /// file does not say how long a tick is (`TSC2NSEC`).
    pub fn is_in_ticks(&self) -> bool {
        match self.clock() {
            clock if clock.contains("tsc") => self.meta.clocks.tsc.is_none(),
            clock => COUNTERS.contains(&clock),
        }
    }

    fn clock_of<'b>(&'b self, buffer: &'b Buffer) -> &'b str {
        if buffer.clock.is_empty() {
            &self.meta.clock
        } else {
            &buffer.clock
        }
    }

    /// Name of the first instance that is read; empty for the top one.
    pub fn instance(&self) -> &str {
        self.used().map_or("", |b| b.name.as_str())
    }

    /// Identifier of the recording, if it has one; a guest's trace is recorded together with one
    /// of the host.
    pub fn trace_id(&self) -> Option<u64> {
        self.meta.trace_id
    }

    /// Identifier of the host's trace, in the trace of a guest. Its time stamps are moved to the
    /// host's clock.
    pub fn host_trace_id(&self) -> Option<u64> {
        self.meta.clocks.shift.as_ref().map(|shift| shift.peer)
    }

    /// Guests that were traced with this machine; their events are in files of their own.
    pub fn guests(&self) -> &[Guest] {
        &self.meta.guests
    }

    /// All event formats of the file.
    pub fn formats(&self) -> &[EventFormat] {
        &self.meta.formats
    }

    /// One event's format.
    pub fn format(&self, system: &str, name: &str) -> Option<&EventFormat> {
        self.meta
            .formats
            .iter()
            .find(|f| f.name == name && f.system == system)
    }

    /// Names of tasks by thread number, as saved at the end of the recording.
    pub fn comms(&self) -> &HashMap<i32, String> {
        &self.meta.comms
    }

    /// Events that the kernel counted as lost without any trace in the data (a full buffer in
    /// producer/consumer mode, or a write that was itself interrupted too often).
    pub fn unplaced_losses(&self) -> u64 {
        self.meta.unplaced_losses()
    }

    /// Reads a live trace's task names and statistics again, which change while it records. A
    /// file's stay as they are.
    ///
    /// # Errors
    /// When tracefs cannot be read.
    pub fn refresh(&mut self) -> Result<()> {
        match &self.live {
            Some(live) => live.refresh(&mut self.meta),
            None => Ok(()),
        }
    }

    /// One reader for each CPU of each buffer that is read.
    ///
    /// # Errors
    /// When there are more CPUs, or larger pages, than can be read at the same time.
    pub fn cursors(&self) -> Result<Vec<Cursor>> {
        let parts = || {
            let with_data = |b: &'_ Buffer| b.parts.iter().filter(|p| p.size > 0).count();
            self.selected().map(with_data)
        };
        let cpus = parts().sum::<usize>();
        let bytes = self.selected().zip(parts());
        let bytes = bytes.map(|(b, cpus)| u64::from(b.page_size) * cpus as u64);
        if bytes.sum::<u64>() > PAGE_BUDGET {
            return Err(Error::Unsupported {
                what: format!("{cpus} CPUs with pages of {} bytes", self.page_size()),
                mend: "record or convert fewer CPUs, or smaller sub-buffers",
            });
        }
        let compression = self.head.compression;
        let unpacker = Arc::new(Mutex::new(Unpacker::new(compression)?));
        let packed = self.selected().filter(|buffer| buffer.packed);
        let packed = packed
            .flat_map(|buffer| &buffer.parts)
            .map(|part| part.size);
        let unpacking = Unpacking::start(cpus, packed.fold(0, u64::saturating_add));
        let layout = self.meta.layout.unwrap_or(Layout::usual(self.head.long));
        let mut cursors = Vec::new();
        for buffer in self.selected() {
            for part in &buffer.parts {
                let packing = buffer.packed.then(|| Packing {
                    unpacker: Arc::clone(&unpacker),
                    endian: self.head.endian,
                    page_size: buffer.page_size as usize,
                    limit: (CHUNK_BUDGET / cpus.max(1)).min(CHUNK_LIMIT),
                });
                let feed = match &self.live {
                    Some(live) => Feed::Pipe(live.pipe(part.cpu)?),
                    None => pages::of_file(&self.source, *part, packing, unpacking.clone()),
                };
                let pages = Pages::new(feed, buffer.page_size as usize, cpus);
                let clock = self.meta.clocks.of(part.cpu, self.clock_of(buffer));
                let endian = self.head.endian;
                cursors.push(Cursor::new(part.cpu, pages, layout, endian, clock));
            }
        }
        Ok(cursors)
    }

    /// All events in order of time.
    ///
    /// # Errors
    /// As [`Trace::cursors`].
    pub fn events(&self) -> Result<Merged> {
        Ok(Merged::new(self.cursors()?))
    }
}
