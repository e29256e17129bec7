//! The records of one CPU's file, read block by block.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;

use crate::entry::{Act, Entry, Event, Lost, Note, Reason, category};
use crate::error::{Error, Result};
use crate::header::{First, Header, Layout, first_word};

/// Devices and CPUs whose numbers are followed in a file of all CPUs.
const COUNTED: usize = 1 << 16;

/// The CPUs that a file is of.
#[derive(Debug)]
pub(crate) enum Cpus {
    /// One, as in the file's name: the sequence number of its last event.
    One(u32, Option<u32>),
    /// All, as `blkparse -d` writes them: those of the last events by device and CPU. Notes in it
    /// have times of another clock, which blkparse leaves as they are.
    All(HashMap<(u32, u32), u32>),
}

/// One CPU's file, or one of all; holds the current record until [`Stream::advance`].
pub(crate) struct Stream {
    cpus: Cpus,
    path: PathBuf,
    source: Box<dyn Read + Send>,
    /// Bytes `at..end` are read from the file and not used yet; `buf[0]` is at `base` in the file.
    buf: Vec<u8>,
    at: usize,
    end: usize,
    base: u64,
    eof: bool,
    layout: Option<Layout>,
    /// The version that the file's first word tells, if it is not one of the known.
    unknown: Option<u8>,
    /// The current record: its header, and its whole length.
    header: Header,
    len: usize,
    /// Time of the last record.
    ts: Option<u64>,
    lost: Option<Lost>,
    /// Records with driver-specific data, which are skipped.
    pub(crate) driver_data: u64,
}

/// What stands at the current place of the file.
enum Found {
    Record(Header, usize),
    /// No record: the magic is missing.
    Damage,
    /// The start of a record, up to the end of the file.
    Part,
    End,
}

impl Stream {
    /// `block` is the size of the buffer (bytes).
    pub(crate) fn new(
        cpus: Cpus,
        path: PathBuf,
        source: Box<dyn Read + Send>,
        block: usize,
    ) -> Result<Self> {
        let mut stream = Self {
            cpus,
            path,
            source,
            buf: vec![0; block],
            at: 0,
            end: 0,
            base: 0,
            eof: false,
            layout: None,
            unknown: None,
            header: Header::default(),
            len: 0,
            ts: None,
            lost: None,
            driver_data: 0,
        };
        stream.fill(4)?;
        if let Some(&word) = stream.rest().first_chunk() {
            match first_word(word) {
                First::Known(layout) => stream.layout = Some(layout),
                First::Version(version) => stream.unknown = Some(version),
                First::Foreign => {}
            }
        }
        Ok(stream)
    }

    /// The layout that the file's first word tells; `None` of an empty or damaged file.
    pub(crate) fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Takes the layout of another file of the run, for a file that is damaged at its start.
    pub(crate) fn assume(&mut self, layout: Option<Layout>) -> Result<()> {
        self.layout = self.layout.or(layout);
        if self.layout.is_none() && self.end > 0 {
            let path = self.path.clone();
            return Err(match self.unknown {
                Some(version) => Error::Version { path, version },
                None => Error::Magic { path },
            });
        }
        Ok(())
    }

    /// Bytes that are read and not used.
    fn rest(&self) -> &[u8] {
        self.buf.get(self.at..self.end).unwrap_or_default()
    }

    fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Reads on until at least `need` bytes are there; false when the file ends before.
    fn fill(&mut self, need: usize) -> Result<bool> {
        if self.end - self.at >= need {
            return Ok(true);
        }
        self.buf.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        (self.at, self.end) = (0, self.end - self.at);
        if self.buf.len() < need {
            // Twice as much, so that a file made of headers that all state a long pdu does not
            // move the whole buffer for each of them.
            self.buf.resize(2 * need, 0);
        }
        while self.end < need && !self.eof {
            let room = self.buf.get_mut(self.end..).unwrap_or_default();
            match self.source.read(room) {
                Ok(0) => self.eof = true,
                Ok(count) => self.end += count.min(room.len()),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let path = self.path.clone();
                    return Err(Error::Io { path, source });
                }
            }
        }
        Ok(self.end >= need)
    }

    #[inline]
    fn look(&mut self, layout: Layout) -> Result<Found> {
        if let Some(header) = layout.read(self.rest()) {
            let len = layout.size() + usize::from(header.pdu_len);
            if self.end - self.at >= len || self.fill(len)? {
                return Ok(Found::Record(header, len));
            }
            return Ok(Found::Part);
        }
        self.look_further(layout)
    }

    #[cold]
    fn look_further(&mut self, layout: Layout) -> Result<Found> {
        if self.end - self.at < layout.size() && self.fill(layout.size())? {
            return self.look(layout);
        }
        let (rest, magic) = (self.rest(), layout.magic());
        Ok(if rest.is_empty() {
            Found::End
        } else if rest.len() < layout.size() && rest.iter().zip(&magic).all(|(a, b)| a == b) {
            Found::Part
        } else {
            Found::Damage
        })
    }

    /// Goes to the next record; false after the last. A gap before it is left for
    /// [`Stream::take_lost`].
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let Some(layout) = self.layout else {
            return Ok(false);
        };
        loop {
            self.at += std::mem::take(&mut self.len);
            match self.look(layout)? {
                Found::Record(header, len) => {
                    (self.header, self.len) = (header, len);
                    if self.accept() {
                        return Ok(true);
                    }
                }
                Found::Damage => {
                    self.gap(Reason::Damaged);
                    self.resync(layout)?;
                }
                Found::Part => {
                    self.gap(Reason::CutOff);
                    self.at = self.end;
                }
                Found::End => return Ok(false),
            }
        }
    }

    /// Whether the record that was just read is one to hand out.
    #[inline]
    fn accept(&mut self) -> bool {
        let event = !self.is_note();
        if matches!(self.cpus, Cpus::All(_)) {
            // blkparse counts from its first event. That gets 1: to readers, 0 is no time.
            self.header.ts = if event {
                self.header.ts.saturating_add(1)
            } else {
                self.ts.unwrap_or(0)
            };
        }
        let header = &self.header;
        if self.ts.is_some_and(|last| header.ts < last) {
            self.gap(Reason::BackInTime);
            return false;
        }
        if event {
            self.count();
        }
        if let Some(lost) = &mut self.lost {
            lost.to = self.header.ts;
        }
        self.ts = Some(self.header.ts);
        let drop = event && self.header.action as u16 & 0xff == Act::DRV_DATA;
        self.driver_data += u64::from(drop);
        !drop
    }

    /// Follows the sequence numbers.
    #[inline]
    fn count(&mut self) {
        let header = &self.header;
        let last = match &self.cpus {
            // A task that moves between the kernel's choice of the CPU and of the buffer has
            // another CPU's.
            Cpus::One(cpu, _) if *cpu != header.cpu => return,
            Cpus::One(_, last) => *last,
            Cpus::All(last) => last.get(&(header.dev, header.cpu)).copied(),
        };
        // Events that ftrace's `blk` tracer put into this format have no number (0).
        let due = last.map_or(1, |last| last.wrapping_add(1));
        if header.sequence == 0 && due != 0 {
            return;
        }
        let missing = header.sequence.wrapping_sub(due);
        match &mut self.cpus {
            Cpus::One(_, last) => *last = Some(header.sequence),
            Cpus::All(last) => {
                let key = (header.dev, header.cpu);
                if last.len() < COUNTED || last.contains_key(&key) {
                    last.insert(key, header.sequence);
                }
            }
        }
        if missing != 0 {
            self.gap(Reason::Sequence);
        }
        if let Some(lost) = &mut self.lost {
            lost.count = (missing < 1 << 31).then_some(u64::from(missing));
        }
    }

    #[cold]
    fn gap(&mut self, reason: Reason) {
        let cpu = match self.cpus {
            Cpus::One(cpu, _) => cpu,
            Cpus::All(_) => self.header.cpu,
        };
        let (from, offset) = (self.ts, self.offset());
        self.lost.get_or_insert(Lost {
            cpu,
            from,
            to: u64::MAX,
            count: None,
            reason,
            offset,
        });
    }

    /// Looks for the next record after damage: a header with all of its pdu, and behind it another
    /// one or the end of the file.
    #[cold]
    fn resync(&mut self, layout: Layout) -> Result<()> {
        let magic = layout.magic();
        loop {
            self.at += 1;
            if !self.fill(layout.size())? {
                self.at = self.end;
                return Ok(());
            }
            let Some(skip) = self.rest().windows(4).position(|w| w == magic) else {
                self.at = self.end - 4;
                continue;
            };
            self.at += skip;
            if let Found::Record(_, len) = self.look(layout)? {
                self.fill(len + 4)?;
                let next = self.rest().get(len..).unwrap_or_default();
                if next.is_empty() || next.starts_with(&magic) {
                    return Ok(());
                }
            }
        }
    }

    /// The gap just before the current record, or before the file's end; once.
    #[inline]
    pub(crate) fn take_lost(&mut self) -> Option<Lost> {
        self.lost.take()
    }

    /// Whether there is such a gap.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Place of the current record among those of all CPUs: by time, then by sequence number.
    #[inline]
    pub(crate) fn key(&self) -> (u64, u32) {
        // The kernel leaves whatever was there before as the sequence number of a note.
        let sequence = if self.is_note() {
            0
        } else {
            self.header.sequence
        };
        (self.header.ts, sequence)
    }

    #[inline]
    fn is_note(&self) -> bool {
        self.header.action >> 16 & category::NOTIFY != 0
    }

    /// The current record; meaningful after [`Stream::advance`] said true.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        let layout = self.layout?;
        let pdu = self.rest().get(layout.size()..self.len)?;
        Some(if self.is_note() {
            Entry::Note(Note::new(&self.header, pdu, layout.endian))
        } else {
            Entry::Event(Event::new(&self.header, pdu, layout.endian))
        })
    }
}
