//! Tasks, and the calls by which they submit several I/Os.

use smallvec::SmallVec;

use crate::event::{Call, Dev, Tag};
use crate::io::{IoResult, Piece};
use crate::limits;
use crate::op::Op;
use crate::slab::{IntMap, Ref};

/// A task, or the idle task of one CPU.
#[derive(Debug, Default)]
pub(crate) struct Task {
    /// The I/O that it is in, or submits.
    pub(crate) io: Option<Ref>,
    pub(crate) call: Option<Submission>,
    /// The I/O that it last submitted a bio for as a helper.
    pub(crate) serves: Option<Ref>,
    /// Its last request that the driver has not confirmed.
    pub(crate) issued: Option<Ref>,
    pub(crate) setup: Option<Setup>,
    /// Requests handed to the queue function that has not returned.
    pub(crate) awaiting: Vec<Ref>,
    /// The bio that it queued last.
    pub(crate) last_bio: Option<Ref>,
    /// A bio of a stacked device that has become one of the device below.
    pub(crate) remap: Option<Remap>,
    /// Where a bio of a partition is on the disk, and the partition.
    pub(crate) part: Option<(Dev, u64, Dev)>,
    /// Start of the interrupt that woke it last.
    pub(crate) woken_by: Option<u64>,
    /// What that interrupt executed, if it only woke this task.
    pub(crate) handed: Vec<Piece>,
    /// The writing I/O in which another task woke it last.
    pub(crate) woken_for: Option<Ref>,
    /// Asynchronous I/Os that ended and were not taken yet, in the order of their ends; `None`
    /// stands for one that was not measured.
    pub(crate) unreaped: Vec<(Op, Option<IoResult>)>,
}

impl Task {
    /// Forgets the requests on their way, after a gap.
    pub(crate) fn forget(&mut self) {
        (self.issued, self.setup, self.remap) = (None, None, None);
        self.part = None;
        self.awaiting.clear();
    }

    /// A remap has announced the next bio.
    pub(crate) fn has_remapped(&self) -> bool {
        self.remap.is_some() || self.part.is_some()
    }

    fn is_idle(&self) -> bool {
        self.io.is_none() && self.call.is_none() && self.unreaped.is_empty()
    }
}

/// Device and first sector below, and the bio.
pub(crate) type Remap = (Dev, u64, Ref);

/// A call that submits asynchronous I/Os.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) call: Call,
    /// How many it was asked to submit.
    pub(crate) asked: u32,
    /// It waits for completions, too.
    pub(crate) waits: bool,
    /// Each entry shows by an event of its own.
    pub(crate) marked: bool,
    /// The I/Os so far.
    pub(crate) ios: SmallVec<[Ref; 2]>,
}

/// An `nvme_setup_cmd` whose `block_rq_issue` is still to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) ts: u64,
    pub(crate) tag: Tag,
}

/// All tasks, by key.
#[derive(Debug, Default)]
pub(crate) struct Table {
    places: IntMap<i32, usize>,
    list: Vec<Task>,
}

/// A task's key: idle tasks share number 0 but not a CPU.
pub(crate) fn task_key(pid: i32, cpu: u32) -> i32 {
    if pid == 0 {
        -1 - (cpu as i32 & i32::MAX)
    } else {
        pid
    }
}

impl Table {
    /// The place of a task; it is made if need be.
    pub(crate) fn place(&mut self, key: i32) -> usize {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        self.places.insert(key, self.list.len());
        self.list.push(Task::default());
        self.list.len() - 1
    }

    /// Makes room when there are too many. Tells whether places have changed.
    pub(crate) fn prune(&mut self) -> bool {
        if self.list.len() < limits::TASKS {
            return false;
        }
        let mut list = std::mem::take(&mut self.list);
        let keep: Vec<(i32, usize)> = self.places.drain().collect();
        for (key, place) in keep {
            let Some(task) = list.get_mut(place).filter(|t| !t.is_idle()) else {
                continue;
            };
            // Those that never end are forgotten as well, once nothing else helps.
            if self.list.len() < limits::TASKS / 2 {
                self.places.insert(key, self.list.len());
                self.list.push(std::mem::take(task));
            }
        }
        true
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Task> {
        self.list.get(place)
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Task> {
        self.list.get_mut(place)
    }

    pub(crate) fn by_key(&self, key: i32) -> Option<&Task> {
        self.list.get(*self.places.get(&key)?)
    }

    pub(crate) fn by_key_mut(&mut self, key: i32) -> Option<&mut Task> {
        self.list.get_mut(*self.places.get(&key)?)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Task> {
        self.list.iter_mut()
    }
}
