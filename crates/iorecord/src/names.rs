//! Which tasks are measured, and which work for others.

use std::collections::{HashMap, HashSet};

use iosections::Tasks;

/// Names that kernel threads which write for others begin with.
const HELPERS: [&str; 9] = [
    "jbd2/",
    "kworker",
    "kjournald",
    "f2fs_",
    "xfs",
    "btrfs",
    "kdmflush",
    "dmcrypt",
    "flush-",
];
/// Threads of `io_uring`: their names end with the number of the task that they work for.
const URING: [&str; 2] = ["iou-sqp-", "iou-wrk-"];
/// Most tasks whose names are learned while reading.
pub(crate) const LEARNED: usize = 1 << 16;

/// The names of tasks, and what was asked for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    comms: HashMap<i32, String>,
    wanted: Option<String>,
    /// Tasks with the wanted name.
    chosen: HashSet<i32>,
}

impl Names {
    /// Takes the names that a trace has saved; `wanted` limits what is measured.
    pub(crate) fn new(saved: &HashMap<i32, String>, wanted: Option<&str>) -> Self {
        let mut names = Self {
            comms: HashMap::new(),
            wanted: wanted.map(str::to_owned),
            chosen: HashSet::new(),
        };
        names.update(saved);
        names
    }

    /// Takes the names that a running kernel has saved by now.
    pub(crate) fn update(&mut self, saved: &HashMap<i32, String>) {
        // The threads of io_uring last: they are chosen by the tasks that they work for.
        for uring in [false, true] {
            for (&task, comm) in saved {
                if owner(comm).is_some() == uring && self.comms.get(&task) != Some(comm) {
                    self.choose(task, comm);
                    self.comms.insert(task, comm.clone());
                }
            }
        }
    }

    /// Whether a task's name is still to be learned.
    pub(crate) fn lacks(&self, pid: i32) -> bool {
        pid != 0 && !self.comms.contains_key(&pid) && self.comms.len() < LEARNED
    }

    /// A task's name shows in an event; too many new ones are not kept.
    pub(crate) fn learn(&mut self, pid: i32, comm: &[u8]) {
        if self.comms.len() >= LEARNED && !self.comms.contains_key(&pid) {
            return;
        }
        let comm = String::from_utf8_lossy(comm).into_owned();
        self.choose(pid, &comm);
        self.comms.insert(pid, comm);
    }

    fn choose(&mut self, pid: i32, comm: &str) {
        let by_owner = owner(comm).is_some_and(|owner| self.chosen.contains(&owner));
        if by_owner || self.wanted.as_deref() == Some(comm) {
            self.chosen.insert(pid);
        }
    }

    /// A task's name.
    pub(crate) fn comm(&self, pid: i32) -> Option<&str> {
        self.comms.get(&pid).map(String::as_str)
    }
}

/// The task that a thread of `io_uring` works for.
fn owner(comm: &str) -> Option<i32> {
    let number = URING.iter().find_map(|name| comm.strip_prefix(name))?;
    number.parse().ok()
}

impl Tasks for Names {
    #[inline]
    fn selected(&self, pid: i32) -> bool {
        self.wanted.is_none() || self.chosen.contains(&pid)
    }

    fn helps(&self, pid: i32) -> bool {
        self.comm(pid)
            .is_some_and(|comm| HELPERS.iter().any(|h| comm.starts_with(h)))
    }

    fn serves_interrupt(&self, pid: i32) -> bool {
        self.comm(pid).is_some_and(|comm| comm.starts_with("irq/"))
    }

    fn runs_softirqs(&self, pid: i32) -> bool {
        self.comm(pid)
            .is_some_and(|comm| comm.starts_with("ksoftirqd/"))
    }

    fn works_for(&self, pid: i32) -> Option<i32> {
        self.comm(pid).and_then(owner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use iosections::Tasks;

    use super::Names;

    #[test]
    fn threads_of_io_uring_count_for_their_task() {
        let saved = [(9, "iou-sqp-7"), (7, "fio"), (8, "iou-wrk-5")];
        let saved: HashMap<i32, String> = saved.map(|(p, c)| (p, c.to_owned())).into();
        let mut names = Names::new(&saved, Some("fio"));
        assert_eq!(
            [7, 8, 9, 10].map(|p| names.selected(p)),
            [true, false, true, false]
        );
        assert!(names.lacks(10));
        names.learn(10, b"fio");
        names.learn(11, b"iou-wrk-10");
        assert!(names.selected(10) && names.selected(11) && !names.lacks(10));
        assert!(Names::new(&saved, None).selected(8));
    }
}
