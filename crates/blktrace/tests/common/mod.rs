//! Writes small blktrace files of every kind that the reader knows.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::pedantic)]

use blktrace::{Endian, Entry, Event, Lost, Note, Run};

/// Kind of file.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub endian: Endian,
    pub version: u8,
}

pub const PLAIN: Shape = Shape {
    endian: Endian::Little,
    version: 7,
};

pub fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    for endian in [Endian::Little, Endian::Big] {
        for version in [7, 8] {
            shapes.push(Shape { endian, version });
        }
    }
    shapes
}

/// A record to write.
#[derive(Debug, Clone)]
pub struct Rec {
    pub sequence: u32,
    pub ts: u64,
    pub sector: u64,
    pub bytes: u32,
    pub action: u64,
    pub pid: u32,
    pub dev: u32,
    pub cpu: u32,
    pub error: u16,
    pub pdu: Vec<u8>,
}

pub const QUEUE: u64 = 1 | (1 << 4 | 1) << 16;
pub const NOTIFY: u64 = 1 << 10 << 16;

impl Rec {
    /// A queued read.
    pub fn queue(cpu: u32, sequence: u32, ts: u64) -> Self {
        Self {
            sequence,
            ts,
            sector: 8 * u64::from(sequence),
            bytes: 4096,
            action: QUEUE,
            pid: 42,
            dev: 8 << 20,
            cpu,
            error: 0,
            pdu: Vec::new(),
        }
    }

    pub fn note(cpu: u32, number: u64, ts: u64, pdu: &[u8]) -> Self {
        Self {
            action: NOTIFY | number,
            pdu: pdu.to_vec(),
            ..Self::queue(cpu, 0xdead_beef, ts)
        }
    }

    pub fn write(&self, shape: &Shape) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |value: u64, size: usize| {
            let mut raw = value.to_le_bytes()[..size].to_vec();
            if shape.endian == Endian::Big {
                raw.reverse();
            }
            out.extend(raw);
        };
        put(0x6561_7400 | u64::from(shape.version), 4);
        put(self.sequence.into(), 4);
        put(self.ts, 8);
        put(self.sector, 8);
        put(self.bytes.into(), 4);
        if shape.version == 7 {
            put(self.action, 4);
            put(self.pid.into(), 4);
        } else {
            put(self.pid.into(), 4);
            put(self.action, 8);
        }
        put(self.dev.into(), 4);
        put(self.cpu.into(), 4);
        put(self.error.into(), 2);
        put(self.pdu.len() as u64, 2);
        if shape.version == 8 {
            out.extend([0; 12]);
        }
        out.extend(&self.pdu);
        out
    }
}

pub fn file(shape: &Shape, records: &[Rec]) -> Vec<u8> {
    records.iter().flat_map(|r| r.write(shape)).collect()
}

/// An entry that owns its bytes, as text where that is enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// CPU, time, sequence number, pdu.
    Event(u32, u64, u32, Vec<u8>),
    Note(String),
    Lost(Lost),
}

impl Seen {
    pub fn event(event: &Event<'_>) -> Self {
        Self::Event(event.cpu, event.ts, event.sequence, event.pdu.to_vec())
    }

    pub fn note(note: &Note<'_>) -> Self {
        Self::Note(format!("{note:?}"))
    }

    pub fn lost(&self) -> Option<Lost> {
        match self {
            Self::Lost(lost) => Some(*lost),
            _ => None,
        }
    }
}

pub fn entries(files: Vec<(u32, Vec<u8>)>) -> Vec<Seen> {
    let mut run = Run::from_bytes(files).unwrap();
    let mut seen = Vec::new();
    while let Some(entry) = run.next().unwrap() {
        seen.push(match entry {
            Entry::Event(event) => Seen::event(&event),
            Entry::Note(note) => Seen::note(&note),
            Entry::Lost(lost) => Seen::Lost(lost),
        });
    }
    seen
}
