//! Rows of all requests and bios of a trace, and their sums by device.

use std::cell::RefCell;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::path::PathBuf;

use blktrace::{Entry as Note, Run as Blktrace, What};
use iosections::{At, BlockRow, BlockRows, Dev, RowKind, RowSink, Step};
use serde_json::{Value, json};
use tracedat::{Run, Trace};

use crate::analysis::device;
use crate::bins::BLOCK;
use crate::error::Error;
use crate::filter::{Direction, Filter};
use crate::names::{LEARNED, Names};
use crate::request::Request;
use crate::source::Source;
use crate::stats::Stats;
use crate::steps::{Steps, of_blktrace};
use crate::values::{KEPT, Values};
use crate::window::Window;

/// Tasks that are told apart on a device; the rest is one.
const TASKS: usize = 1 << 10;
/// Requests without an end whose issues are kept.
const OPEN: usize = 1 << 16;
/// Devices that are told apart.
const DEVICES: usize = 64;
/// A request without an end is missing its completion, and not just in flight when the trace ends,
/// if it was issued so many times the longest duration of the device before.
const OVERDUE: u64 = 2;

/// Gets rows in the order in which they end.
pub trait RowTaker {
    /// The next row of this window.
    ///
    /// # Errors
    /// Any that ends the walk.
    fn take(&mut self, window: usize, row: &BlockRow) -> Result<(), Error>;
}

/// Which rows are looked at.
#[derive(Debug)]
pub struct RowFilter {
    device: Option<Dev>,
    filter: Filter,
    has_comm: bool,
}

impl RowFilter {
    fn new(request: &Request) -> Result<Self, Error> {
        Ok(Self {
            device: request.device.as_deref().map(device).transpose()?,
            filter: request.filter.clone(),
            has_comm: request.comm.is_some(),
        })
    }

    fn passes(&self, row: &BlockRow, names: &Names) -> bool {
        use iosections::Tasks;
        let on = self
            .device
            .is_none_or(|dev| row.dev == dev || row.part == Some(dev) || row.top == dev);
        let bytes = i64::try_from(row.bytes).unwrap_or(i64::MAX);
        on && (!self.has_comm || names.selected(row.pid))
            && self.filter.passes_row(row.pid, direction(row), bytes)
    }
}

/// What a request or bio does to the data.
pub fn direction(row: &BlockRow) -> Direction {
    Direction::of_letter(row.rwbs.op())
}

/// The durations of a row, in the order of [`durations`].
const DURATIONS: [&str; 9] = [
    "q2d", "d2c", "q2c", "d2s", "s2f", "f2c", "before", "below", "after",
];

fn durations(row: &BlockRow) -> [Option<u64>; DURATIONS.len()] {
    let span = |from: u64, to: u64| to.checked_sub(from).filter(|_| from > 0 && to > 0);
    let (below, above) = row.below_span;
    let bio = row.kind == RowKind::Bio;
    [
        row.q2d(),
        row.d2c(),
        row.q2c(),
        span(row.issued, row.sent),
        span(row.sent.max(row.issued), row.driver_done),
        span(row.driver_done, row.done),
        span(row.queued, below).filter(|_| bio),
        span(below, above).filter(|_| bio),
        span(above, row.done).filter(|_| bio),
    ]
}

/// Durations of one kind: they are summed up a block at a time, which is cheaper than one by one.
#[derive(Debug, Clone, Default)]
struct Duration {
    waiting: Vec<u64>,
    values: Values,
}

impl Duration {
    /// `rows`: how many there are, of all kinds and devices.
    fn add(&mut self, value: u64, rows: u64) {
        self.waiting.push(value);
        if self.waiting.len() >= BLOCK {
            self.values.add(&self.waiting);
            self.waiting.clear();
            if rows > KEPT {
                self.values.coarsen();
            }
        }
    }

    /// `None` without any.
    fn stats(&self) -> Option<Stats> {
        let mut values = self.values.clone();
        values.add(&self.waiting);
        Some(values.stats()).filter(|stats| stats.count > 0)
    }
}

/// What is summed up of a device.
#[derive(Debug, Default)]
struct Sums {
    requests: u64,
    bios: u64,
    bytes: u64,
    directions: BTreeMap<Direction, u64>,
    durations: [Duration; DURATIONS.len()],
    requeues: u64,
    ambiguous: u64,
    lost: u64,
    no_bio: u64,
    no_end: u64,
    no_issue: u64,
    /// Issues of requests without an end.
    open: Vec<u64>,
    longest: u64,
    deepest: u32,
    above: BTreeMap<Dev, u64>,
    below: BTreeMap<Dev, u64>,
    parts: BTreeMap<Dev, u64>,
    tasks: HashMap<i32, (u64, u64)>,
    inodes: u64,
}

/// Sums rows up, and gives them on.
struct Collector<'a> {
    filter: &'a RowFilter,
    names: Names,
    keep: usize,
    last: u64,
    /// Rows so far.
    seen: u64,
    devices: BTreeMap<Dev, Sums>,
    slow: BinaryHeap<Slow>,
    /// Rows to be given on, where somebody takes them.
    rows: Option<Vec<BlockRow>>,
}

/// A slow row: the quickest of them is the largest, to be taken out first.
#[derive(Debug, PartialEq, Eq)]
struct Slow(u64, BlockRow);

impl Ord for Slow {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let rank = |slow: &Self| (std::cmp::Reverse(slow.0), slow.1.queued, slow.1.sector);
        rank(self).cmp(&rank(other))
    }
}

impl PartialOrd for Slow {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl RowSink for Collector<'_> {
    fn row(&mut self, row: &BlockRow) {
        if !self.filter.passes(row, &self.names) {
            return;
        }
        self.sum(row);
        self.rank(row);
        if let Some(rows) = &mut self.rows {
            rows.push(*row);
        }
    }
}

impl Collector<'_> {
    fn sum(&mut self, row: &BlockRow) {
        self.seen += 1;
        let full = self.devices.len() >= DEVICES && !self.devices.contains_key(&row.dev);
        let key = if full { Dev::default() } else { row.dev };
        let sums = self.devices.entry(key).or_default();
        sums.add(row, self.seen);
    }

    fn rank(&mut self, row: &BlockRow) {
        let Some(took) = whole(row).filter(|_| self.keep > 0) else {
            return;
        };
        let quickest = self.slow.peek().map_or(0, |slow| slow.0);
        if self.slow.len() < self.keep {
            self.slow.push(Slow(took, *row));
        } else if took > quickest {
            self.slow.pop();
            self.slow.push(Slow(took, *row));
        }
    }
}

/// From the first that is known of a row, in the uppermost layer, to its end.
pub fn whole(row: &BlockRow) -> Option<u64> {
    let known = [row.top_queued, row.queued, row.issued];
    let from = known.into_iter().filter(|&ts| ts > 0).min()?;
    row.done.checked_sub(from).filter(|_| row.done > 0)
}

impl Sums {
    /// `rows`: how many there are of all devices.
    fn add(&mut self, row: &BlockRow, rows: u64) {
        match row.kind {
            RowKind::Request => self.requests += 1,
            RowKind::Bio => self.bios += 1,
        }
        self.bytes += row.bytes;
        *self.directions.entry(direction(row)).or_default() += 1;
        self.requeues += u64::from(row.requeues);
        self.ambiguous += u64::from(row.ambiguous);
        self.lost += u64::from(row.lost);
        self.inodes += u64::from(row.inode > 0);
        self.no_bio += u64::from(row.queued == 0);
        self.deepest = self.deepest.max(row.ahead + u32::from(row.issued > 0));
        if row.kind == RowKind::Request && row.issued == 0 {
            self.no_issue += 1;
        }
        let from = row.issued.max(row.queued);
        if row.done == 0 && !row.ambiguous && !row.lost {
            self.no_end += 1;
            if self.open.len() < OPEN {
                self.open.push(from);
            }
        }
        self.longest = self.longest.max(row.done.saturating_sub(from));
        if row.top != row.dev {
            count(&mut self.above, row.top);
        }
        if let Some(dev) = row.below {
            count(&mut self.below, dev);
        }
        if let Some(dev) = row.part {
            count(&mut self.parts, dev);
        }
        let full = self.tasks.len() >= TASKS && !self.tasks.contains_key(&row.pid);
        let task = self.tasks.entry(if full { -1 } else { row.pid });
        let task = task.or_default();
        *task = (task.0 + 1, task.1 + row.bytes);
        for (all, value) in self.durations.iter_mut().zip(durations(row)) {
            if let Some(value) = value {
                all.add(value, rows);
            }
        }
    }

    fn json(&self, dev: Dev, names: &Names, last: u64) -> Value {
        let wait = self.longest.saturating_mul(OVERDUE);
        let late = self
            .open
            .iter()
            .filter(|from| from.saturating_add(wait) < last);
        // Those that are not kept one by one fell out long ago.
        let overdue = late.count() as u64 + (self.no_end - self.open.len() as u64);
        let mut tasks: Vec<_> = self.tasks.iter().collect();
        tasks.sort_by_key(|(pid, (rows, _))| (std::cmp::Reverse(*rows), **pid));
        let tasks = tasks.into_iter().take(16).map(|(pid, (rows, bytes))| {
            json!({"pid": pid, "task": names.comm(*pid), "rows": rows, "bytes": bytes})
        });
        let durations = DURATIONS.iter().zip(&self.durations);
        let durations: serde_json::Map<String, Value> = durations
            .filter_map(|(name, all)| Some(((*name).to_owned(), stats_json(&all.stats()?))))
            .collect();
        let directions = self.directions.iter();
        let directions: BTreeMap<_, _> = directions.map(|(way, n)| (way.name(), n)).collect();
        json!({
            "dev": dev.to_string(),
            "requests": self.requests,
            "bios": self.bios,
            "bytes": self.bytes,
            "directions": directions,
            "requeues": self.requeues,
            "ambiguous": self.ambiguous,
            "lost": self.lost,
            "no_bio": self.no_bio,
            "no_issue": self.no_issue,
            "no_end": self.no_end,
            "overdue": overdue,
            "deepest": self.deepest,
            "above": by_name(&self.above),
            "below": by_name(&self.below),
            "partitions": by_name(&self.parts),
            "inodes": self.inodes,
            "tasks": tasks.collect::<Vec<_>>(),
            "durations": durations,
        })
    }
}

fn by_name(counts: &BTreeMap<Dev, u64>) -> BTreeMap<String, u64> {
    counts
        .iter()
        .map(|(dev, n)| (dev.to_string(), *n))
        .collect()
}

fn count(counts: &mut BTreeMap<Dev, u64>, dev: Dev) {
    if counts.len() < DEVICES || counts.contains_key(&dev) {
        *counts.entry(dev).or_default() += 1;
    }
}

fn stats_json(stats: &Stats) -> Value {
    let mut found = json!({
        "count": stats.count,
        "min": stats.min,
        "median": stats.median,
        "mean": stats.mean,
        "p90": stats.p90,
        "p99": stats.p99,
        "p99_9": stats.p99_9,
        "max": stats.max,
    });
    if let (false, Some(map)) = (stats.exact, found.as_object_mut()) {
        map.insert("resolution".into(), (1.0 / 256.0).into());
    }
    found
}

/// What a window has of the block layer.
#[derive(Debug)]
pub struct Blocks {
    /// The sums by device, as JSON text.
    pub json: String,
    /// The slowest rows, slowest first.
    pub slow: Vec<BlockRow>,
}

/// Makes the rows of each of some windows, in one walk. `keep`: how many slow ones are kept.
///
/// # Errors
/// When the trace cannot be read, the device is no `major:minor`, or what `taker` returns.
pub fn blocks(
    source: &Source,
    request: &Request,
    windows: &[(u64, u64)],
    keep: usize,
    taker: Option<&mut dyn RowTaker>,
) -> Result<Vec<Blocks>, Error> {
    let filter = RowFilter::new(request)?;
    let parts = Parts {
        windows,
        filter: &filter,
        keep,
        taker,
        current: 0,
        rows: None,
        found: Vec::new(),
    };
    match source {
        Source::Trace(trace) => of_trace(trace, request, parts),
        Source::Blktrace(files) => of_run(files, request, parts),
    }
}

/// The windows, one after the other.
struct Parts<'a, 't> {
    windows: &'a [(u64, u64)],
    filter: &'a RowFilter,
    keep: usize,
    taker: Option<&'t mut (dyn RowTaker + 't)>,
    /// Place of the window that `rows` is of, or that comes next.
    current: usize,
    rows: Option<BlockRows<Collector<'a>>>,
    found: Vec<Blocks>,
}

impl Parts<'_, '_> {
    /// The first window that is not over at this time; `None` behind the last.
    fn at(&mut self, time: u64, names: impl Fn() -> Names) -> Result<Option<(u64, u64)>, Error> {
        while let Some(&(from, to)) = self.windows.get(self.current) {
            if self.rows.is_none() {
                self.rows = Some(BlockRows::new(Collector {
                    filter: self.filter,
                    names: names(),
                    keep: self.keep,
                    last: 0,
                    seen: 0,
                    devices: BTreeMap::new(),
                    slow: BinaryHeap::new(),
                    rows: self.taker.is_some().then(Vec::new),
                }));
            }
            if time < to {
                return Ok(Some((from, to)));
            }
            self.next()?;
        }
        Ok(None)
    }

    fn push(&mut self, at: At, step: &Step) {
        if let Some(rows) = &mut self.rows {
            rows.sink().last = at.ts;
            rows.push(at, step);
        }
    }

    /// Events are missing somewhere in this stretch.
    fn gap(&mut self, from: u64, to: u64) {
        let window = self.windows.get(self.current);
        if window.is_some_and(|window| to > window.0 && from < window.1) {
            if let Some(rows) = &mut self.rows {
                rows.gap();
            }
        }
    }

    /// Gives on the rows that have come.
    fn give(&mut self) -> Result<(), Error> {
        let (Some(rows), Some(taker)) = (&mut self.rows, &mut self.taker) else {
            return Ok(());
        };
        for row in rows.sink().rows.iter_mut().flat_map(|rows| rows.drain(..)) {
            taker.take(self.current, &row)?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<(), Error> {
        if let Some(rows) = self.rows.take() {
            let partitions = rows.partitions();
            let mut collector = rows.finish();
            for row in collector.rows.take().into_iter().flatten() {
                if let Some(taker) = &mut self.taker {
                    taker.take(self.current, &row)?;
                }
            }
            self.found.push(collector.blocks(&partitions)?);
        }
        self.current += 1;
        Ok(())
    }

    fn finish(mut self, names: impl Fn() -> Names) -> Result<Vec<Blocks>, Error> {
        self.at(u64::MAX, names)?;
        Ok(self.found)
    }
}

impl Collector<'_> {
    fn blocks(self, partitions: &[(Dev, Dev)]) -> Result<Blocks, Error> {
        let devices = self.devices.iter();
        let devices = devices.map(|(dev, sums)| sums.json(*dev, &self.names, self.last));
        let devices: Vec<Value> = devices.collect();
        let partitions = partitions.iter();
        let partitions: Vec<[String; 2]> = partitions
            .map(|(part, disk)| [part.to_string(), disk.to_string()])
            .collect();
        let all = json!({"devices": devices, "partitions": partitions});
        let slow = self.slow.into_sorted_vec();
        Ok(Blocks {
            json: serde_json::to_string(&all)?,
            slow: slow.into_iter().map(|Slow(_, row)| row).collect(),
        })
    }
}

fn of_trace(
    trace: &Trace,
    request: &Request,
    mut parts: Parts<'_, '_>,
) -> Result<Vec<Blocks>, Error> {
    let names = || Names::new(trace.comms(), request.comm.as_deref());
    let Some(steps) = Steps::new(trace) else {
        return parts.finish(names);
    };
    let mut events = trace.events()?;
    while let Some(run) = events.next_run()? {
        let mut records = match run {
            Run::Events(records) => records,
            Run::Lost(gap) => {
                parts.gap(gap.from.unwrap_or(0), gap.to);
                continue;
            }
        };
        while let Some(start) = records.start() {
            let Some(window) = parts.at(start, names)? else {
                return Ok(parts.found);
            };
            let (inside, rest) = Window(Some(window)).split(records);
            for record in inside {
                if let Some((pid, step)) = steps.read(&record) {
                    let (ts, cpu) = (record.ts, record.cpu);
                    parts.push(At { ts, cpu, pid }, &step);
                }
            }
            parts.give()?;
            records = rest;
        }
    }
    parts.finish(names)
}

fn of_run(
    files: &[PathBuf],
    request: &Request,
    mut parts: Parts<'_, '_>,
) -> Result<Vec<Blocks>, Error> {
    let saved: RefCell<HashMap<i32, String>> = RefCell::new(HashMap::new());
    let names = || Names::new(&saved.borrow(), request.comm.as_deref());
    let mut run = files.first().map(Blktrace::open).transpose()?;
    while let Some(entry) = run.as_mut().map_or(Ok(None), Blktrace::next)? {
        let event = match entry {
            Note::Event(event) => event,
            Note::Lost(gap) => {
                parts.gap(gap.from.unwrap_or(0), gap.to);
                continue;
            }
            Note::Note(note) => {
                let (What::Process(name), 1..) = (note.what, note.pid) else {
                    continue;
                };
                if let Some(rows) = &mut parts.rows {
                    rows.sink().names.learn(note.pid, name);
                }
                if saved.borrow().len() < LEARNED {
                    let name = String::from_utf8_lossy(name).into_owned();
                    saved.borrow_mut().insert(note.pid, name);
                }
                continue;
            }
        };
        let (ts, cpu, pid) = (event.ts, event.cpu, event.pid);
        let Some((from, _)) = parts.at(ts, names)? else {
            return Ok(parts.found);
        };
        if let Some(step) = of_blktrace(&event).filter(|_| ts >= from) {
            parts.push(At { ts, cpu, pid }, &step);
            parts.give()?;
        }
    }
    parts.finish(names)
}
