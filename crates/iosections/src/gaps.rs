//! Where events are missing.

use crate::event::Lost;

/// Stretches of missing events.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Disjoint, rising.
    all: Vec<Lost>,
    /// Ends that are still to come.
    ahead: Vec<(u64, usize)>,
}

impl Gaps {
    /// They come in the order of their starts.
    pub(crate) fn add(&mut self, gap: Lost, cpu: usize) {
        match self.all.last_mut() {
            Some(last) if gap.from <= last.to => last.to = last.to.max(gap.to),
            _ => self.all.push(gap),
        }
        self.ahead.push((gap.to, cpu));
    }

    /// No gap goes on.
    #[inline]
    pub(crate) fn are_over(&self) -> bool {
        self.ahead.is_empty()
    }

    /// Whether events are missing between two times.
    pub(crate) fn touch(&self, from: u64, to: u64) -> bool {
        let after = self.all.partition_point(|gap| gap.to < from);
        self.all.get(after).is_some_and(|gap| gap.from <= to)
    }

    /// Whether events are missing at some time before, but not only before the trace.
    pub(crate) fn before(&self, ts: u64) -> bool {
        let first = self.all.iter().find(|gap| gap.from > 0);
        first.is_some_and(|gap| gap.to <= ts)
    }

    /// A CPU whose gap has ended by now.
    pub(crate) fn over(&mut self, now: u64) -> Option<usize> {
        let place = self.ahead.iter().position(|&(to, _)| to <= now)?;
        Some(self.ahead.swap_remove(place).1)
    }
}
