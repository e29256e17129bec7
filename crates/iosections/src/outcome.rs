//! The result of a measurement, apart from the I/Os themselves.

use crate::event::{Dev, Driver};
use crate::mark::MarkCounts;

/// What became of the I/Os that the caller selected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// All that were seen; the next six add up to it.
    pub seen: u64,
    /// Measured.
    pub measured: u64,
    /// Without a request on any device, and without sleep (a page-cache hit).
    pub no_request: u64,
    /// Without a request, but its task slept: for what another task reads or writes (read-ahead, a
    /// journal's commit), or for something else than storage. The trace does not tell which.
    pub waited: u64,
    /// Dropped because events are missing while they were open.
    pub dropped_lost: u64,
    /// Entry or exit outside the trace.
    pub incomplete: u64,
    /// Several were submitted by one call, and the trace does not tell them apart; or a helper
    /// submitted for one that another task than the helper woke.
    pub ambiguous: u64,
    /// Of the measured ones: nothing foreign ran in the software sections.
    pub clean: u64,
    /// Of the measured ones: at least one request outlived the I/O.
    pub detached: u64,
}

/// What became of the requests of a device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// All; the next four add up to it.
    pub seen: u64,
    /// Carried a bio that the task of a selected I/O submitted during it.
    pub attributed: u64,
    /// Carried a bio that a helper submitted for a selected I/O.
    pub helper: u64,
    /// Of no selected I/O.
    pub unattributed: u64,
    /// Of the unattributed: a helper's while I/Os wait, and nothing shows for which of them.
    pub ambiguous: u64,
    /// Issue or completion outside the trace or in a gap.
    pub in_flight: u64,
    /// `block_split` events.
    pub splits: u64,
    /// Merge events.
    pub merges: u64,
    /// Requests issued again.
    pub requeues: u64,
    /// Flushes of the device's cache.
    pub flushes: u64,
}

impl RequestCounts {
    fn add(&mut self, other: &Self) {
        self.seen += other.seen;
        self.attributed += other.attributed;
        self.helper += other.helper;
        self.unattributed += other.unattributed;
        self.ambiguous += other.ambiguous;
        self.in_flight += other.in_flight;
        self.splits += other.splits;
        self.merges += other.merges;
        self.requeues += other.requeues;
        self.flushes += other.flushes;
    }
}

/// What was seen of one device.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// The device; partitions count for their disk.
    pub dev: Dev,
    /// Bios.
    pub bios: u64,
    /// Measured I/Os with a request on it.
    pub measured: u64,
    /// Requests.
    pub requests: RequestCounts,
    /// Event that marked the hand-over to the device → requests of selected I/Os.
    pub device_marks: MarkCounts,
    /// Event that marked the completion interrupt → requests of selected I/Os.
    pub interrupt_marks: MarkCounts,
    /// Requests that a driver's own event was matched to, by [`Driver`].
    pub drivers: [u64; 4],
}

impl DeviceOutcome {
    /// Takes over the counts of a partition.
    pub(crate) fn add(&mut self, part: &Self) {
        self.bios += part.bios;
        self.requests.add(&part.requests);
    }

    /// The driver with most events, if any had one.
    pub fn driver(&self) -> Option<Driver> {
        let all = [Driver::Ufs, Driver::Nvme, Driver::Mmc, Driver::Scsi];
        let counted = all.into_iter().zip(self.drivers).filter(|&(_, n)| n > 0);
        // Under UFS there is SCSI, too: the more special one wins a tie.
        counted
            .max_by_key(|&(driver, n)| (n, std::cmp::Reverse(driver)))
            .map(|(driver, _)| driver)
    }
}

/// Everything counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// I/Os.
    pub ios: IoCounts,
    /// The devices, in the order of their first event.
    pub devices: Vec<DeviceOutcome>,
    /// Partitions and their disks, as far as they showed.
    pub partitions: Vec<(Dev, Dev)>,
    /// `sched_switch` events were seen; without them nothing tells whose code ran, and own times are
    /// not known.
    pub switches: bool,
    /// The ways that I/Os took, by number.
    pub paths: Vec<String>,
    /// Name number of an event → its count in own time, by section, over the measured I/Os.
    pub probe_events: Vec<[u64; 5]>,
}

impl Outcome {
    /// The disk of a device that is a partition, else the device itself.
    pub fn disk(&self, dev: Dev) -> Dev {
        let part = self.partitions.iter().find(|(part, _)| *part == dev);
        part.map_or(dev, |&(_, disk)| disk)
    }

    /// One device.
    pub fn device(&self, dev: Dev) -> Option<&DeviceOutcome> {
        self.devices.iter().find(|d| d.dev == dev)
    }

    /// The device with most measured I/Os; else with most bios, the smallest number among equals.
    pub fn busiest(&self) -> Option<Dev> {
        let most = self
            .devices
            .iter()
            .max_by_key(|d| (d.measured, d.bios, std::cmp::Reverse(d.dev)));
        most.map(|d| d.dev)
    }

    /// The name of a way.
    pub fn path(&self, number: u32) -> &str {
        self.paths
            .get(number as usize)
            .map_or("other", String::as_str)
    }
}
