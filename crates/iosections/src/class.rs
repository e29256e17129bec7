//! Kinds of events by what they tell of whose code runs.

use crate::event::Kind;

/// What the kind of an event tells of whose code runs before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Nothing, and it does not even stand between an interrupt's end and what follows from that.
    Other,
    /// Nothing.
    Noted,
    /// Nothing, and it may stand between a completion and a later end of that I/O.
    IoDone,
    /// It may begin the next I/O of a call.
    FsBegin,
    /// It may end an asynchronous I/O.
    DioComplete,
    /// It may begin or end an I/O where no event tells of system calls; elsewhere it tells nothing.
    Uncalled,
    /// It begins a softirq.
    Softirq,
    /// The code before it and that after it may run for different I/Os.
    Boundary,
}

impl Class {
    /// That of a kind.
    pub const fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Other => Self::Other,
            Kind::Getrq(..)
            | Kind::Insert(..)
            | Kind::Merge(_)
            | Kind::Split(_)
            | Kind::Remap { .. }
            | Kind::Waking(_) => Self::Noted,
            Kind::IoDone => Self::IoDone,
            Kind::FsBegin => Self::FsBegin,
            Kind::DioComplete => Self::DioComplete,
            Kind::Begins(_) | Kind::PagesGot(_) | Kind::SyncExit => Self::Uncalled,
            Kind::SoftirqEntry(_) => Self::Softirq,
            _ => Self::Boundary,
        }
    }

    /// Whether the completion before it has no later end.
    pub(crate) const fn settles(self) -> bool {
        !matches!(
            self,
            Self::Other | Self::IoDone | Self::DioComplete | Self::Uncalled
        )
    }
}
