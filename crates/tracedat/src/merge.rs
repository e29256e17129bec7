//! All CPUs in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::cursor::{Cursor, LostRange, Record};
use crate::error::Result;

/// The events of all CPUs by time; those of equal time by CPU number.
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
                heap.push(Reverse((cursor.ts(), cursor.cpu(), place)));
            }
        }
        Ok(Self {
            cursors,
            heap,
            started: false,
        })
    }

    /// The next event, and the gap in its CPU's data just before it; `None` at the end.
    ///
    /// # Errors
    /// When a page or an event contradicts the format.
    #[allow(clippy::should_implement_trait)] // the record borrows the reader
    pub fn next(&mut self) -> Result<Option<(Record<'_>, Option<LostRange>)>> {
        if self.started {
            self.step()?;
        }
        self.started = true;
        let Some(&Reverse((_, _, place))) = self.heap.peek() else {
            return Ok(None);
        };
        Ok(self.cursors.get_mut(place).map(|cursor| {
            let lost = cursor.take_lost();
            (cursor.record(), lost)
        }))
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
            Some(cursor.ts())
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
