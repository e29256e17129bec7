//! All CPUs in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::cursor::{Cursor, Entry, Run};
use crate::error::Result;

/// The entries of all CPUs by time; those of equal time by CPU number.
///
/// Events come in runs of one CPU, so the CPU with the earliest entry is kept out of the heap
/// and asked on until another one is earlier.
#[derive(Debug)]
pub struct Merged {
    /// By CPU number; those of one CPU in the order of the buffers.
    cursors: Vec<Cursor>,
    /// Place of the cursor whose entry was given last.
    top: usize,
    /// The entries of that cursor that are due before this are next.
    limit: u64,
    /// (due, place in `cursors`) of all other cursors that have an entry.
    others: BinaryHeap<Reverse<(u64, usize)>>,
    started: bool,
}

impl Merged {
    pub(crate) fn new(mut cursors: Vec<Cursor>) -> Self {
        cursors.sort_by_key(Cursor::cpu);
        Self {
            cursors,
            top: usize::MAX,
            limit: 0,
            others: BinaryHeap::new(),
            started: false,
        }
    }

    /// The next event or gap; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    #[inline]
    #[allow(clippy::should_implement_trait)] // the record borrows the reader
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        let run = self.cursors.get_mut(self.top);
        let Some(slot) = run.and_then(|cursor| cursor.take_before(self.limit)) else {
            self.leave()?;
            return Ok(self.cursors.get(self.top).map(Cursor::entry));
        };
        Ok(self.cursors.get(self.top).map(|cursor| cursor.event(slot)))
    }

    /// The next events, or gap; `None` at the end. Quicker than one event at a time.
    ///
    /// # Errors
    /// As [`Merged::next`].
    pub fn next_run(&mut self) -> Result<Option<Run<'_>>> {
        let current = self.cursors.get(self.top);
        if current.is_some_and(|cursor| cursor.has_before(self.limit)) {
            let limit = self.limit;
            let run = self.cursors.get_mut(self.top);
            return Ok(run.and_then(|c| c.run_before(limit)).map(Run::Events));
        }
        self.leave()?;
        Ok(self.cursors.get(self.top).map(Cursor::run))
    }

    /// Goes to the next entry when it is not the next event of the page that is being read.
    fn leave(&mut self) -> Result<()> {
        let due = match self.cursors.get_mut(self.top) {
            Some(cursor) => cursor.advance()?.then(|| cursor.due()),
            None => None,
        };
        if due.is_none_or(|due| due >= self.limit) {
            self.switch(due)?;
        }
        Ok(())
    }

    /// How many events so far were earlier than the one before them on their CPU, by up to a
    /// millisecond, and got its time.
    pub fn raised(&self) -> u64 {
        self.cursors.iter().map(Cursor::raised).sum()
    }

    /// Goes over to the cursor with the earliest entry; `due` is that of the current one.
    fn switch(&mut self, due: Option<u64>) -> Result<()> {
        if !self.started {
            self.started = true;
            for (place, cursor) in self.cursors.iter_mut().enumerate() {
                if cursor.advance()? {
                    self.others.push(Reverse((cursor.due(), place)));
                }
            }
        }
        let next = match (due, self.others.peek_mut()) {
            (Some(due), Some(mut first)) => {
                let Reverse((other, place)) = *first;
                if (due, self.top) <= (other, place) {
                    Some(self.top)
                } else {
                    *first = Reverse((due, self.top));
                    Some(place)
                }
            }
            (None, Some(first)) => Some(PeekMut::pop(first).0.1),
            (due, None) => due.map(|_| self.top),
        };
        self.top = next.unwrap_or(usize::MAX);
        // At the same time the lower place comes first.
        self.limit = self
            .others
            .peek()
            .map_or(u64::MAX, |Reverse((due, place))| {
                due.saturating_add(u64::from(self.top < *place))
            });
        Ok(())
    }
}
