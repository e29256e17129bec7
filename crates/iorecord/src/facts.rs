//! How often events occur, and are lost.

use tracedat::LostRange;

/// What a trace has.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Events by number.
    pub(crate) counts: Vec<u64>,
    pub(crate) lost_events: u64,
    pub(crate) lost_ranges: u64,
}

impl Facts {
    #[inline]
    pub(crate) fn count(&mut self, id: u16) {
        match self.counts.get_mut(usize::from(id)) {
            Some(count) => *count += 1,
            None => self.count_first(id),
        }
    }

    #[cold]
    fn count_first(&mut self, id: u16) {
        self.counts.resize(usize::from(id), 0);
        self.counts.push(1);
    }

    /// Whether there is an event of this number.
    pub(crate) fn has(&self, id: u16) -> bool {
        self.counts.get(usize::from(id)).is_some_and(|&n| n > 0)
    }

    pub(crate) fn lose(&mut self, gap: &LostRange) {
        self.lost_ranges += 1;
        self.lost_events = self.lost_events.saturating_add(gap.count.unwrap_or(1));
    }
}
