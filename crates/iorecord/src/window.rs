//! Stretches of time that are looked at.

use tracedat::{Events, LostRange};

/// The stretch of time that is looked at: from the one stamp to before the other, or all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window(pub(crate) Option<(u64, u64)>);

impl Window {
    /// Those of some events that are in it, and those behind it.
    pub(crate) fn split(self, events: Events<'_>) -> (Events<'_>, Events<'_>) {
        let all = events.clone();
        match self.0 {
            Some((from, to)) => (all.within(from, to), events.within(to, u64::MAX)),
            None => (all, events.within(0, 0)),
        }
    }

    pub(crate) fn has_begun(self, time: u64) -> bool {
        self.0.is_none_or(|(from, _)| from <= time)
    }

    pub(crate) fn is_over(self, time: u64) -> bool {
        self.0.is_some_and(|(_, to)| to <= time)
    }

    pub(crate) fn touches(self, gap: &LostRange) -> bool {
        self.0
            .is_none_or(|(from, to)| gap.from.unwrap_or(0) < to && gap.to > from)
    }
}
