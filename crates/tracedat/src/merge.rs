//! All CPUs in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::cursor::{Cursor, Entry};
use crate::error::Result;

/// The entries of all CPUs by time; those of equal time by CPU number.
#[derive(Debug)]
pub struct Merged<'a> {
    cursors: Vec<Cursor<'a>>,
    /// (time, CPU, place in `cursors`) of every CPU that has a current event.
    heap: BinaryHeap<Reverse<(u64, u32, usize)>>,
    started: bool,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(mut cursors: Vec<Cursor<'a>>) -> Result<Self> {
        let mut heap = BinaryHeap::new();
        for (place, cursor) in cursors.iter_mut().enumerate() {
            if cursor.advance()? {
                heap.push(Reverse((cursor.due(), cursor.cpu(), place)));
            }
        }
        Ok(Self {
            cursors,
            heap,
            started: false,
        })
    }

    /// The next event or gap; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    #[allow(clippy::should_implement_trait)] // the record borrows the reader
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        if self.started {
            self.step()?;
        }
        self.started = true;
        let Some(&Reverse((_, _, place))) = self.heap.peek() else {
            return Ok(None);
        };
        Ok(self.cursors.get(place).map(Cursor::entry))
    }

    /// Moves the CPU of the last event on.
    fn step(&mut self) -> Result<()> {
        let Some(mut top) = self.heap.peek_mut() else {
            return Ok(());
        };
        let Reverse((_, cpu, place)) = *top;
        let Some(cursor) = self.cursors.get_mut(place) else {
            return Ok(());
        };
        let more = if cursor.advance()? {
            Some(cursor.due())
        } else {
            None
        };
        match more {
            Some(ts) => *top = Reverse((ts, cpu, place)),
            None => drop(PeekMut::pop(top)),
        }
        Ok(())
    }
}
