//! First look at a trace: what is in it, which device is used most, where events are missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iosections::{Dev, Kind, Lost};
use tracedat::{Accessor, Entry, Trace};

use crate::analysis::Request;
use crate::bind::{Binding, dev, is_queue_return};
use crate::error::Error;

/// What the first look found.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Events by number.
    pub(crate) counts: Vec<u64>,
    pub(crate) lost: Vec<Lost>,
    pub(crate) lost_events: u64,
    /// Bios by device, partitions resolved.
    pub(crate) bios: BTreeMap<Dev, u64>,
    /// Partition → disk.
    pub(crate) aliases: HashMap<Dev, Dev>,
    /// Names of tasks that the trace's own list lacks.
    pub(crate) comms: HashMap<i32, String>,
}

/// State while one pass runs over the CPUs.
struct Pass {
    scan: Scan,
    remap: Option<(u16, Accessor, Accessor)>,
    switch: Option<(u16, Accessor, Accessor)>,
    requests: BTreeSet<Dev>,
    /// Bio's device → request's device, seen right after each other on the same sectors.
    followed: HashMap<Dev, Dev>,
}

fn fields(
    trace: &Trace,
    event: (&str, &str),
    a: &str,
    b: &str,
) -> Option<(u16, Accessor, Accessor)> {
    let format = trace.format(event.0, event.1)?;
    Some((format.id, format.accessor(a)?, format.accessor(b)?))
}

fn touches(lost: &tracedat::LostRange, request: &Request) -> bool {
    request
        .window
        .is_none_or(|(from, to)| lost.from.unwrap_or(0) < to && lost.to > from)
}

impl Scan {
    /// Reads the whole trace once, CPU by CPU.
    pub(crate) fn run(trace: &Trace, binding: &Binding, request: &Request) -> Result<Self, Error> {
        let mut pass = Pass {
            scan: Self::default(),
            remap: fields(trace, ("block", "block_bio_remap"), "old_dev", "dev"),
            switch: fields(trace, ("sched", "sched_switch"), "next_pid", "next_comm"),
            requests: BTreeSet::new(),
            followed: HashMap::new(),
        };
        for mut cursor in trace.cursors()? {
            let mut bio = None;
            while let Some(entry) = cursor.next()? {
                let record = match entry {
                    Entry::Event(record) => record,
                    Entry::Lost(lost) => {
                        if touches(&lost, request) {
                            pass.scan.gap(&lost);
                        }
                        continue;
                    }
                };
                if !request.covers(record.ts) {
                    continue;
                }
                let id = binding.id(record.data);
                pass.scan.add(id);
                pass.extra(id, record.data, trace);
                match binding.event(&record).kind {
                    Kind::BioQueue(span) => {
                        *pass.scan.bios.entry(span.dev).or_default() += 1;
                        bio = Some(span);
                    }
                    Kind::Issue(span) => {
                        pass.requests.insert(span.dev);
                        if let Some(bio) = bio.take().filter(|b| b.sector == span.sector) {
                            if bio.dev != span.dev {
                                pass.followed.insert(bio.dev, span.dev);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        let mut scan = pass.finish();
        scan.lost_events = scan.lost_events.saturating_add(trace.unplaced_losses());
        Ok(scan)
    }

    /// Counts an event.
    pub(crate) fn add(&mut self, id: u16) {
        let id = usize::from(id);
        if self.counts.len() <= id {
            self.counts.resize(id + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(id) {
            *count += 1;
        }
    }

    /// Takes note of a gap.
    pub(crate) fn gap(&mut self, lost: &tracedat::LostRange) {
        let from = lost.from.unwrap_or(0);
        self.lost.push(Lost { from, to: lost.to });
        let count = lost.count.unwrap_or(1);
        self.lost_events = self.lost_events.saturating_add(count);
    }

    /// The device with most bios.
    pub(crate) fn busiest(&self) -> Option<Dev> {
        let most = self
            .bios
            .iter()
            .max_by_key(|&(dev, &bios)| (bios, std::cmp::Reverse(*dev)));
        most.map(|(&dev, _)| dev)
    }

    /// How often an event occurs.
    pub(crate) fn count(&self, id: u16) -> u64 {
        self.counts.get(usize::from(id)).copied().unwrap_or(0)
    }

    /// Whether the driver's queue function was probed.
    pub(crate) fn has_queue_return(&self, trace: &Trace) -> bool {
        trace
            .formats()
            .iter()
            .any(|f| f.system == "iotoll" && is_queue_return(&f.name) && self.count(f.id) > 0)
    }
}

impl Pass {
    /// Partitions and task names.
    fn extra(&mut self, id: u16, data: &[u8], trace: &Trace) {
        if let Some((_, old, new)) = self.remap.filter(|r| r.0 == id) {
            if let (Some(old), Some(new)) = (old.uint(data), new.uint(data)) {
                if old != new {
                    self.scan.aliases.insert(dev(old), dev(new));
                }
            }
        }
        if let Some((_, pid, comm)) = self.switch.filter(|s| s.0 == id) {
            let pid = pid.int(data).unwrap_or(0) as i32;
            if !trace.comms().contains_key(&pid) && !self.scan.comms.contains_key(&pid) {
                let comm = comm.text(data).unwrap_or_default();
                let comm = String::from_utf8_lossy(comm).into_owned();
                self.scan.comms.insert(pid, comm);
            }
        }
    }

    /// Resolves partitions: a device with bios but no requests, whose bios become requests of
    /// another device at the same sector.
    fn finish(mut self) -> Scan {
        for (&bio, &request) in &self.followed {
            if !self.requests.contains(&bio) {
                self.scan.aliases.insert(bio, request);
            }
        }
        let requests = &self.requests;
        self.scan.aliases.retain(|bio, _| !requests.contains(bio));
        let mut bios = BTreeMap::new();
        for (dev, count) in &self.scan.bios {
            let disk = self.scan.aliases.get(dev).unwrap_or(dev);
            *bios.entry(*disk).or_insert(0) += count;
        }
        self.scan.bios = bios;
        self.scan
    }
}
