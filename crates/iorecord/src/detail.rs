//! The events that belong to single I/Os, in one more pass over a trace.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};
use tracedat::{Entry, Record, Trace};

use crate::blkdetail;
use crate::decode::{Decoder, Decoders, Role, Sectors};
use crate::error::Error;
use crate::shown::{Found, Outline, Shown, Wanted};
use crate::source::Source;

/// Interrupt and softirq events that are remembered per CPU, to be shown before a completion.
const CONTEXT: usize = 8;

/// The only loop of this module and of `calls` over a trace: all events in order of time.
pub(crate) fn walk(
    trace: &Trace,
    mut each: impl FnMut(&Record<'_>) -> ControlFlow<()>,
) -> Result<(), tracedat::Error> {
    let mut events = trace.events()?;
    while let Some(entry) = events.next()? {
        if let Entry::Event(record) = entry {
            if each(&record).is_break() {
                break;
            }
        }
    }
    Ok(())
}

/// First time and task names of a trace, without reading it all; of a blktrace run, all of it.
///
/// # Errors
/// When the trace cannot be read.
pub fn outline(path: impl AsRef<Path>) -> Result<Outline, Error> {
    let trace = match Source::open(path)? {
        Source::Trace(trace) => trace,
        Source::Blktrace(files) => return blkdetail::outline(&files),
    };
    let mut first = None;
    walk(&trace, |record| {
        first = Some(record.ts);
        ControlFlow::Break(())
    })?;
    let tasks = trace.comms().iter().map(|(&pid, name)| (pid, name.clone()));
    Ok(Outline {
        first,
        tasks: tasks.collect(),
    })
}

/// Collects the events of some I/Os, at most `limit` of each, in the order of `wanted`.
///
/// # Errors
/// When the trace cannot be read.
pub fn io_events(
    path: impl AsRef<Path>,
    wanted: &[Wanted],
    limit: usize,
) -> Result<Vec<Found>, Error> {
    let trace = match Source::open(path)? {
        Source::Trace(trace) => trace,
        Source::Blktrace(files) => return blkdetail::io_events(&files, wanted, limit),
    };
    let decoders = Decoders::new(&trace);
    let mut collector = Collector::new(wanted, limit);
    walk(&trace, |record| {
        if collector.done(record.ts) {
            return ControlFlow::Break(());
        }
        if let Some((pid, decoder)) = decoders.of(record.data) {
            collector.push(record, pid, decoder);
        }
        ControlFlow::Continue(())
    })?;
    Ok(collector.into_found())
}

/// [`io_events`] as JSON text: per I/O `events` (each `[time, cpu, pid, event, [[field, value]]]`)
/// and `cut`.
///
/// # Errors
/// As [`io_events`], or when it cannot be written as JSON.
pub fn io_events_json(
    path: impl AsRef<Path>,
    wanted: &[Wanted],
    limit: usize,
) -> Result<String, Error> {
    let event = |e: &Shown| json!([e.ts, e.cpu, e.pid, e.event, e.fields]);
    let found = io_events(path, wanted, limit)?;
    let all: Value = found
        .iter()
        .map(|f| json!({"cut": f.cut, "events": f.events.iter().map(event).collect::<Value>()}))
        .collect();
    Ok(serde_json::to_string(&all)?)
}

/// Driver, host, queue and tag of a command.
type Tag = (String, [u64; 3]);

/// An I/O while its events pass by.
struct Open<'w> {
    place: usize,
    wanted: &'w Wanted,
    /// Sectors that are known to be its own.
    sectors: Vec<Sectors>,
    tags: Vec<Tag>,
}

impl<'w> Open<'w> {
    fn new(place: usize, wanted: &'w Wanted) -> Self {
        let known = wanted.sectors.as_ref().map(|range| Sectors {
            dev: wanted.dev.clone(),
            first: *range.start(),
            last: *range.end(),
        });
        Self {
            place,
            wanted,
            sectors: known.into_iter().collect(),
            tags: Vec::new(),
        }
    }

    fn on_own_sectors(&self, sectors: &Sectors) -> bool {
        self.sectors.iter().any(|own| own.overlap(sectors))
    }

    /// The same sectors whatever the device: a task's bio may name the partition.
    fn on_own_place(&self, sectors: &Sectors) -> bool {
        let anywhere = Sectors {
            dev: None,
            ..sectors.clone()
        };
        self.on_own_sectors(&anywhere)
    }

    /// Takes over what an event of the I/O's own says about its sectors. A bio names a partition
    /// where its request names the disk, so that later events match by the device asked for too.
    /// More of them than events are shown would only cost time.
    fn learn(&mut self, sectors: &Sectors, limit: usize) {
        if self.sectors.len() <= limit && !self.sectors.contains(sectors) {
            self.sectors.push(sectors.clone());
            if let Some(dev) = &self.wanted.dev {
                self.sectors.push(Sectors {
                    dev: Some(dev.clone()),
                    ..sectors.clone()
                });
            }
        }
    }
}

/// What a CPU did last.
#[derive(Default)]
struct Cpu {
    /// Interrupt and softirq events since the last interrupt's entry.
    context: VecDeque<Shown>,
    /// Tag of the driver's last event before a request was issued, with the task (`NVMe` sets a
    /// command up before `block_rq_issue`).
    setup: Option<(i32, Tag, Shown)>,
    /// Places of the I/Os whose request was issued last, with the task: the driver's next event
    /// is theirs (UFS, MMC and SCSI send after `block_rq_issue`).
    issued: Option<(i32, Vec<usize>)>,
}

struct Collector<'w> {
    /// Not begun yet, the earliest last.
    waiting: Vec<(usize, &'w Wanted)>,
    open: Vec<Open<'w>>,
    found: Vec<Found>,
    cpus: HashMap<u32, Cpu>,
    limit: usize,
}

impl<'w> Collector<'w> {
    fn new(wanted: &'w [Wanted], limit: usize) -> Self {
        let mut waiting: Vec<_> = wanted.iter().enumerate().collect();
        waiting.sort_by_key(|(_, io)| std::cmp::Reverse(*io.time.start()));
        Self {
            waiting,
            open: Vec::new(),
            found: vec![Found::default(); wanted.len()],
            cpus: HashMap::new(),
            limit,
        }
    }

    /// Opens and closes I/Os as time goes on; true when none is left.
    fn done(&mut self, now: u64) -> bool {
        self.open.retain(|io| *io.wanted.time.end() >= now);
        while let Some(&(place, io)) = self.waiting.last() {
            if *io.time.start() > now {
                break;
            }
            self.waiting.pop();
            if io.time.contains(&now) {
                self.open.push(Open::new(place, io));
            }
        }
        self.open.is_empty() && self.waiting.is_empty()
    }

    fn push(&mut self, record: &Record<'_>, pid: i32, decoder: &Decoder) {
        if self.open.is_empty() {
            self.cpus.clear();
            return;
        }
        let owners = match decoder.role {
            Role::Block { .. } => self.block(record, pid, decoder),
            Role::Driver { .. } => self.driver(record, pid, decoder),
            _ => self.plain(record, pid, decoder),
        };
        if matches!(decoder.role, Role::Interrupt { .. }) {
            self.remember(record, pid, decoder);
        }
        if !owners.is_empty() {
            let shown = decoder.show(record, pid);
            for place in owners {
                self.keep(place, shown.clone());
            }
        }
    }

    fn keep(&mut self, place: usize, shown: Shown) {
        let Some(found) = self.found.get_mut(place) else {
            return;
        };
        if found.events.contains(&shown) {
            return;
        }
        if found.events.len() < self.limit {
            found.events.push(shown);
        } else {
            found.cut += 1;
        }
    }

    /// An event of the task itself, or one that wakes or switches it.
    fn plain(&self, record: &Record<'_>, pid: i32, decoder: &Decoder) -> Vec<usize> {
        let named = |io: &Open<'_>| decoder.tasks(record.data).contains(&io.wanted.pid);
        let mine = self.open.iter();
        mine.filter(|io| io.wanted.pid == pid || named(io))
            .map(|io| io.place)
            .collect()
    }

    fn block(&mut self, record: &Record<'_>, pid: i32, decoder: &Decoder) -> Vec<usize> {
        let Some(sectors) = decoder.sectors(record.data) else {
            return self.plain(record, pid, decoder);
        };
        let mut owners = Vec::new();
        for io in &mut self.open {
            let own = io.wanted.pid == pid && (io.wanted.alone || io.on_own_place(&sectors));
            if own || io.on_own_sectors(&sectors) {
                io.learn(&sectors, self.limit);
                owners.push(io.place);
            }
        }
        match decoder.name.as_str() {
            "block_rq_issue" => self.issue(record.cpu, pid, &owners),
            "block_rq_complete" => self.before_completion(record.cpu, &owners),
            _ => {}
        }
        owners
    }

    /// Ties the driver's event just before or just after to the request.
    fn issue(&mut self, cpu: u32, pid: i32, owners: &[usize]) {
        let cpu = self.cpus.entry(cpu).or_default();
        cpu.issued = Some((pid, owners.to_vec()));
        let Some((_, tag, shown)) = cpu.setup.take().filter(|(task, ..)| *task == pid) else {
            return;
        };
        for &place in owners {
            self.give_tag(place, &tag);
            self.keep(place, shown.clone());
        }
    }

    fn give_tag(&mut self, place: usize, tag: &Tag) {
        for io in self.open.iter_mut().filter(|io| io.place == place) {
            if io.tags.len() <= self.limit && !io.tags.contains(tag) {
                io.tags.push(tag.clone());
            }
        }
    }

    /// The interrupt that the completion is part of.
    fn before_completion(&mut self, cpu: u32, owners: &[usize]) {
        let context = self.cpus.get(&cpu).map(|cpu| cpu.context.clone());
        for shown in context.into_iter().flatten() {
            for &place in owners {
                self.keep(place, shown.clone());
            }
        }
    }

    fn driver(&mut self, record: &Record<'_>, pid: i32, decoder: &Decoder) -> Vec<usize> {
        let Some(tag) = decoder.tag(record.data) else {
            return self.plain(record, pid, decoder);
        };
        let key: Tag = (decoder.system.clone(), tag);
        let holds = |io: &Open<'_>| io.tags.contains(&key);
        let mut owners: Vec<usize> = self
            .open
            .iter()
            .filter(|io| holds(io) || (io.wanted.alone && io.wanted.pid == pid))
            .map(|io| io.place)
            .collect();
        let cpu = self.cpus.entry(record.cpu).or_default();
        if decoder.before_issue() {
            cpu.setup = Some((pid, key.clone(), decoder.show(record, pid)));
        } else if let Some((_, issued)) = cpu.issued.take().filter(|(task, _)| *task == pid) {
            owners.extend(issued);
            owners.sort_unstable();
            owners.dedup();
        }
        for &place in &owners {
            self.give_tag(place, &key);
        }
        owners
    }

    fn remember(&mut self, record: &Record<'_>, pid: i32, decoder: &Decoder) {
        let cpu = self.cpus.entry(record.cpu).or_default();
        if matches!(decoder.role, Role::Interrupt { entry: true }) {
            cpu.context.clear();
        }
        if cpu.context.len() == CONTEXT {
            cpu.context.pop_front();
        }
        cpu.context.push_back(decoder.show(record, pid));
    }

    fn into_found(mut self) -> Vec<Found> {
        for found in &mut self.found {
            // What came before a completion was taken in after it.
            found.events.sort_by_key(|e| e.ts);
        }
        self.found
    }
}
