//! A whole trace.

use std::collections::HashMap;
use std::path::Path;

use crate::bytes::Endian;
use crate::compress::Compression;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::file::{self, Head};
use crate::format::EventFormat;
use crate::layout::Layout;
use crate::merge::Merged;
use crate::meta::{Buffer, Meta};
use crate::pages::Pages;

/// A trace.dat in memory. Its trace data stay packed; they are unpacked while they are read.
#[derive(Debug)]
pub struct Trace {
    file: Vec<u8>,
    head: Head,
    meta: Meta,
    buffer: usize,
}

impl Trace {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is no trace.dat, is damaged before its data, or uses something
    /// unknown. Damage inside the data shows while the events are read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::from_bytes(std::fs::read(path)?)
    }

    /// Takes a file's bytes.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_bytes(file: Vec<u8>) -> Result<Self> {
        let (head, meta) = file::parse(&file)?;
        // The top buffer comes first; an instance counts only when the top one is empty.
        let has_data = |b: &Buffer| b.parts.iter().any(|p| p.size > 0);
        let buffer = meta.buffers.iter().position(has_data).unwrap_or(0);
        Ok(Self {
            file,
            head,
            meta,
            buffer,
        })
    }

    fn used(&self) -> Option<&Buffer> {
        self.meta.buffers.get(self.buffer)
    }

    /// Version of the file format: 6 or 7.
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
        let own = self.used().map_or("", |b| b.clock.as_str());
        if own.is_empty() {
            &self.meta.clock
        } else {
            own
        }
    }

    /// Name of the instance that is read; empty for the top one.
    pub fn instance(&self) -> &str {
        self.used().map_or("", |b| b.name.as_str())
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

    /// One reader for each CPU.
    ///
    /// # Errors
    /// When the file ends before a CPU's data.
    pub fn cursors(&self) -> Result<Vec<Cursor<'_>>> {
        let Some(buffer) = self.used() else {
            return Ok(Vec::new());
        };
        let endian = self.head.endian;
        let layout = self.meta.layout.unwrap_or(Layout::usual(self.head.long));
        let tsc = self.meta.tsc.filter(|_| self.clock().contains("tsc"));
        let packing = buffer.packed.then_some((self.head.compression, endian));
        let open = |&part| {
            let pages = Pages::new(&self.file, part, buffer.page_size, packing)?;
            Ok(Cursor::new(part.cpu, pages, layout, endian, tsc))
        };
        buffer.parts.iter().map(open).collect()
    }

    /// All events in order of time.
    ///
    /// # Errors
    /// As [`Trace::cursors`], and when the first page of a CPU is damaged.
    pub fn events(&self) -> Result<Merged<'_>> {
        Merged::new(self.cursors()?)
    }
}
