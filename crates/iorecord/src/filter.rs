//! Which of the measured I/Os are shown.

use iosections::IoResult;

use crate::error::Error;

/// What an I/O does to the data, by its first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// It reads.
    Read,
    /// It writes.
    Write,
    /// It flushes the device's cache.
    Flush,
    /// It gives blocks back.
    Discard,
    /// Anything else, such as writing zeroes.
    Other,
}

impl Direction {
    const NAMED: [(Self, &'static str, Option<u8>); 5] = [
        (Self::Read, "read", Some(b'R')),
        (Self::Write, "write", Some(b'W')),
        (Self::Flush, "flush", Some(b'F')),
        (Self::Discard, "discard", Some(b'D')),
        (Self::Other, "other", None),
    ];

    /// That of an I/O.
    pub fn of(io: &IoResult) -> Self {
        Self::of_letter(io.direction)
    }

    /// That of an operation's letter in `rwbs`.
    pub(crate) fn of_letter(letter: u8) -> Self {
        let known = Self::NAMED.iter().find(|n| n.2 == Some(letter));
        known.map_or(Self::Other, |named| named.0)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = Self::NAMED.iter().find(|named| named.0 == self);
        known.map_or("other", |named| named.1)
    }

    /// The one of this name.
    ///
    /// # Errors
    /// For any other name.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let known = Self::NAMED.iter().find(|named| named.1 == name);
        known.map(|named| named.0).ok_or_else(|| Error::Option {
            name: "direction",
            value: name.to_owned(),
            known: "read, write, flush, discard or other",
        })
    }
}

/// Chooses among the I/Os that were found; everything passes the default one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only those of these tasks, if any is named.
    pub pids: Vec<i32>,
    /// Only these directions, if any is named.
    pub directions: Vec<Direction>,
    /// Only those of at least so many bytes.
    pub least: Option<i64>,
    /// Only those of at most so many bytes.
    pub most: Option<i64>,
}

impl Filter {
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn passes(&self, io: &IoResult) -> bool {
        self.passes_row(io.pid, Direction::of(io), io.bytes)
    }

    /// The same of anything that has a task, a direction and a size.
    pub(crate) fn passes_row(&self, pid: i32, direction: Direction, bytes: i64) -> bool {
        (self.pids.is_empty() || self.pids.contains(&pid))
            && (self.directions.is_empty() || self.directions.contains(&direction))
            && self.least.is_none_or(|least| least <= bytes)
            && self.most.is_none_or(|most| bytes <= most)
    }
}
