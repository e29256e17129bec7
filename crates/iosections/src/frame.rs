//! The hard interrupts and softirqs that a CPU is handling, one within the other.

use crate::handlers::Handler;
use crate::io::{Mode, Piece};
use crate::slab::Ref;

/// Deepest nesting of interrupts and softirqs; more is a trace without their ends.
const NESTING_LIMIT: usize = 64;

/// Whose code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Current {
    /// Not known yet; the pieces wait.
    #[default]
    Unknown,
    /// Nobody's.
    Foreign,
    /// An I/O's.
    Io(Ref, Mode),
    /// The completion with this number, whose request shows later.
    Slot(u64),
}

/// A hard interrupt or softirq being handled.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) hard: bool,
    /// The hard interrupt: this one, or the one that a softirq directly followed.
    pub(crate) irq: Option<Handler>,
    /// The same of the innermost one, from here outwards, that has any.
    pub(crate) within: Option<Handler>,
    /// Start of a softirq.
    pub(crate) softirq: Option<u64>,
    pub(crate) serial: u64,
    pub(crate) current: Current,
    pub(crate) pending: Vec<Piece>,
    pub(crate) ios: Vec<Ref>,
    pub(crate) foreign: bool,
}

/// Those of one CPU. A frame stays where it is, and its memory is used again.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    all: Vec<Frame>,
    depth: usize,
}

impl Frames {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.depth == 0
    }

    /// The innermost one.
    #[inline]
    pub(crate) fn last(&self) -> Option<&Frame> {
        self.all.get(self.depth.checked_sub(1)?)
    }

    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut Frame> {
        self.all.get_mut(self.depth.checked_sub(1)?)
    }

    /// A new innermost one.
    pub(crate) fn begin(
        &mut self,
        hard: bool,
        irq: Option<Handler>,
        softirq: Option<u64>,
        serial: u64,
    ) {
        if self.depth == NESTING_LIMIT {
            self.depth = 0;
            return;
        }
        if self.depth == self.all.len() {
            self.all.push(Frame::default());
        }
        let within = irq.or_else(|| self.last()?.within);
        if let Some(frame) = self.all.get_mut(self.depth) {
            (frame.hard, frame.irq, frame.softirq) = (hard, irq, softirq);
            frame.within = within;
            (frame.serial, frame.current, frame.foreign) = (serial, Current::Unknown, false);
            frame.pending.clear();
            frame.ios.clear();
            self.depth += 1;
        }
    }

    /// Ends the innermost one, and gives it; all of them when it is not of this kind.
    pub(crate) fn end(&mut self, hard: bool) -> Option<&mut Frame> {
        let depth = self.depth.checked_sub(1)?;
        let fits = self.all.get(depth).is_some_and(|frame| frame.hard == hard);
        self.depth = if fits { depth } else { 0 };
        self.all.get_mut(depth).filter(|_| fits)
    }
}
