//! The block events of a trace.dat as raw blktrace files (version 7, little-endian), so that
//! blkparse and btt can be timed on the events that the analyser is timed on.

use std::collections::btree_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use tracedat::{Accessor, Entry, EventFormat, Record, Trace};

use crate::Result;

const READ: u32 = 1 << 0;
const WRITE: u32 = 1 << 1;
const FLUSH: u32 = 1 << 2;
const SYNC: u32 = 1 << 3;
const QUEUE: u32 = 1 << 4;
const REQUEUE: u32 = 1 << 5;
const ISSUE: u32 = 1 << 6;
const COMPLETE: u32 = 1 << 7;
const FS: u32 = 1 << 8;
const NOTIFY: u32 = 1 << 10;
const AHEAD: u32 = 1 << 11;
const META: u32 = 1 << 12;
const DISCARD: u32 = 1 << 13;
const FUA: u32 = 1 << 15;

/// ftrace's event, blktrace's action and its categories.
const ACTIONS: [(&str, u32, u32); 15] = [
    ("block_bio_queue", 1, QUEUE),
    ("block_bio_backmerge", 2, QUEUE),
    ("block_bio_frontmerge", 3, QUEUE),
    ("block_rq_merge", 2, QUEUE | FS),
    ("block_getrq", 4, QUEUE),
    ("block_sleeprq", 5, QUEUE),
    ("block_rq_requeue", 6, REQUEUE | FS),
    ("block_rq_issue", 7, ISSUE | FS),
    ("block_rq_complete", 8, COMPLETE | FS),
    ("block_bio_complete", 8, COMPLETE),
    ("block_plug", 9, QUEUE),
    ("block_unplug", 10, QUEUE),
    ("block_rq_insert", 12, QUEUE | FS),
    ("block_split", 13, 0),
    ("block_bio_remap", 15, QUEUE),
];

/// What is read of one kind of event.
struct Source {
    action: u32,
    categories: u32,
    dev: Option<Accessor>,
    sector: Option<Accessor>,
    sectors: Option<Accessor>,
    rwbs: Option<Accessor>,
    error: Option<Accessor>,
    /// What goes into the pdu: of a split, an unplug and a remap.
    new_sector: Option<Accessor>,
    unplugged: Option<Accessor>,
    old: Option<(Accessor, Accessor)>,
}

impl Source {
    fn new(format: &EventFormat) -> Option<Self> {
        let &(_, action, categories) = ACTIONS.iter().find(|a| a.0 == format.name)?;
        let get = |name| format.accessor(name);
        Some(Self {
            action,
            categories,
            dev: get("dev"),
            sector: get("sector"),
            sectors: get("nr_sector"),
            rwbs: get("rwbs"),
            error: get("error").or_else(|| get("errors")),
            new_sector: get("new_sector"),
            unplugged: get("nr_rq"),
            old: get("old_dev").zip(get("old_sector")),
        })
    }

    fn pdu(&self, data: &[u8], dev: u32) -> Vec<u8> {
        let uint = |field: Option<Accessor>| field.and_then(|f| f.uint(data));
        if let Some(number) = uint(self.new_sector).or_else(|| uint(self.unplugged)) {
            return number.to_be_bytes().to_vec();
        }
        let Some((from, sector)) = self.old else {
            return Vec::new();
        };
        let mut pdu = (from.uint(data).unwrap_or(0) as u32).to_be_bytes().to_vec();
        pdu.extend(dev.to_be_bytes());
        pdu.extend(sector.uint(data).unwrap_or(0).to_be_bytes());
        pdu
    }
}

fn rwbs_categories(rwbs: &[u8]) -> u32 {
    let mut letters = rwbs.iter().copied().filter(|&b| b != 0);
    let flushes = rwbs.first() == Some(&b'F') && rwbs.get(1).is_some_and(|&b| b != 0);
    let mut bits = 0;
    if flushes {
        letters.next();
        bits |= FLUSH;
    }
    bits |= match letters.next() {
        Some(b'W') => WRITE,
        Some(b'D') => WRITE | DISCARD,
        Some(b'F') => READ | FLUSH,
        _ => READ,
    };
    letters.fold(bits, |bits, letter| {
        bits | match letter {
            b'F' => FUA,
            b'A' => AHEAD,
            b'S' => SYNC,
            b'M' => META,
            _ => 0,
        }
    })
}

/// One record, less the sequence number.
#[derive(Default)]
struct Raw<'a> {
    ts: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    dev: u32,
    cpu: u32,
    error: u16,
    pdu: &'a [u8],
}

struct Cpu {
    file: BufWriter<File>,
    sequence: u32,
    /// Device of the CPU's last event that has one; plugs and unplugs tell none.
    dev: u32,
}

impl Cpu {
    /// Creates NAME.blktrace.N.
    fn create(name: &Path, cpu: u32) -> Result<Self> {
        let mut path = name.as_os_str().to_owned();
        path.push(format!(".blktrace.{cpu}"));
        let file = BufWriter::with_capacity(1 << 18, File::create(path)?);
        Ok(Self {
            file,
            sequence: 0,
            dev: 0,
        })
    }

    fn write(&mut self, raw: &Raw<'_>) -> std::io::Result<()> {
        self.sequence += u32::from(raw.action >> 16 & NOTIFY == 0);
        let mut head = 0x6561_7407_u32.to_le_bytes().to_vec();
        head.extend(self.sequence.to_le_bytes());
        head.extend(raw.ts.to_le_bytes());
        head.extend(raw.sector.to_le_bytes());
        for word in [raw.bytes, raw.action, raw.pid, raw.dev, raw.cpu] {
            head.extend(word.to_le_bytes());
        }
        head.extend(raw.error.to_le_bytes());
        head.extend((raw.pdu.len() as u16).to_le_bytes());
        self.file.write_all(&head)?;
        self.file.write_all(raw.pdu)
    }
}

/// Writes NAME.blktrace.N for every CPU up to the last with block events, as blktrace does; gives
/// the number of events.
///
/// # Errors
/// When the trace cannot be read or a file not be written.
pub fn convert(trace: &Trace, name: &Path) -> Result<u64> {
    let mut sources: HashMap<u64, Source> = HashMap::new();
    for format in trace.formats().iter().filter(|f| f.system == "block") {
        if let Some(source) = Source::new(format) {
            sources.insert(u64::from(format.id), source);
        }
    }
    let first = trace.formats().first().ok_or("no event formats")?;
    let common = first
        .accessor("common_type")
        .zip(first.accessor("common_pid"));
    let (kind, pid) = common.ok_or("no common fields")?;
    let (mut cpus, mut named, mut count) = (BTreeMap::new(), HashSet::new(), 0);
    let mut entries = trace.events()?;
    while let Some(entry) = entries.next()? {
        let Entry::Event(record) = entry else {
            continue;
        };
        let Some(source) = kind.uint(record.data).and_then(|id| sources.get(&id)) else {
            continue;
        };
        let cpu = match cpus.entry(record.cpu) {
            Slot::Occupied(cpu) => cpu.into_mut(),
            Slot::Vacant(slot) => slot.insert(Cpu::create(name, record.cpu)?),
        };
        let pid = pid.int(record.data).unwrap_or(0) as i32;
        if named.insert(pid) {
            name_task(
                cpu,
                &record,
                pid,
                trace.comms().get(&pid).map_or("<...>", |c| c),
            )?;
        }
        count += u64::from(event(cpu, source, &record, pid)?);
    }
    for cpu in cpus.values_mut() {
        cpu.file.flush()?;
    }
    let last = cpus.keys().next_back().copied().unwrap_or(0);
    for idle in (0..last).filter(|cpu| !cpus.contains_key(cpu)) {
        Cpu::create(name, idle)?;
    }
    Ok(count)
}

fn name_task(cpu: &mut Cpu, record: &Record<'_>, pid: i32, comm: &str) -> Result<()> {
    let mut name = [0; 16];
    for (to, &from) in name.iter_mut().take(15).zip(comm.as_bytes()) {
        *to = from;
    }
    let (ts, cpu_number) = (record.ts, record.cpu);
    let action = NOTIFY << 16;
    let raw = Raw {
        ts,
        action,
        pid: pid as u32,
        cpu: cpu_number,
        pdu: &name,
        ..Raw::default()
    };
    Ok(cpu.write(&raw)?)
}

/// Writes one event; false when its device is not known.
fn event(cpu: &mut Cpu, source: &Source, record: &Record<'_>, pid: i32) -> Result<bool> {
    let uint = |field: Option<Accessor>| field.and_then(|f| f.uint(record.data));
    if let Some(dev) = uint(source.dev) {
        cpu.dev = dev as u32;
    }
    if cpu.dev == 0 {
        return Ok(false);
    }
    let rwbs = source
        .rwbs
        .and_then(|f| f.bytes(record.data))
        .unwrap_or_default();
    let sectors = uint(source.sectors).unwrap_or(0) as u32;
    let pdu = source.pdu(record.data, cpu.dev);
    let error = source.error.and_then(|f| f.int(record.data)).unwrap_or(0);
    cpu.write(&Raw {
        ts: record.ts,
        // ftrace may tell "none" as -1; blktrace says 0.
        sector: uint(source.sector).filter(|&s| s != u64::MAX).unwrap_or(0),
        bytes: sectors.saturating_mul(512),
        action: (source.categories | rwbs_categories(rwbs)) << 16 | source.action,
        pid: pid as u32,
        dev: cpu.dev,
        cpu: record.cpu,
        error: error as u16,
        pdu: &pdu,
    })?;
    Ok(true)
}
