//! perf.data: the records of tracepoints go over as they are, with the formats that perf stored.
//!
//! linux-perf-data (0.13.0) reads this format, too, but panics on damaged files (an attribute
//! section without attributes, a short feature section): nothing that reads foreign bytes may.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::About;
use crate::error::{Error, Result};
use crate::unpack::Input;
use crate::write::{Machine, Taken, Writer, scratch};

const WHAT: &str = "a perf.data file";
const MEND: &str = "record with `perf record -a -e 'block:*'`, or what `iotoll record` prints";
/// Longest formats and attributes (bytes).
const SECTION: u64 = 64 << 20;
/// Attributes of a file: perf has one for each event.
const ATTRIBUTES: usize = 1 << 16;
const IDS: usize = 1 << 20;
/// Events that wait for their round to end (bytes); perf ends one for each look at its buffers.
const WAITING: usize = 256 << 20;
/// Unpacked bytes of one compressed record: no more than a ring buffer holds.
const UNPACKED: usize = 64 << 20;
const TASKS: usize = 1 << 16;

/// `PERF_TYPE_TRACEPOINT`.
const TRACEPOINT: u32 = 2;
/// From here on types are numbers that the kernel gave to PMUs (`PERF_TYPE_MAX`).
const FIRST_UNIT: u32 = 6;

/// Bits of `sample_type` in the order of their fields up to the raw data, but for the first.
const IDENTIFIER: u64 = 1 << 16;
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const ID: u64 = 1 << 6;
const STREAM: u64 = 1 << 9;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const RAW: u64 = 1 << 10;

pub(crate) fn is_perf(head: &[u8]) -> bool {
    head.starts_with(b"PERFILE2") || head.starts_with(b"2ELIFREP")
}

/// Bytes in the file's byte order.
#[derive(Debug, Clone, Copy)]
struct Bytes<'b> {
    bytes: &'b [u8],
    big: bool,
}

impl<'b> Bytes<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let raw: [u8; 2] = *self.take(2)?.first_chunk()?;
        Some(if self.big {
            u16::from_be_bytes(raw)
        } else {
            u16::from_le_bytes(raw)
        })
    }

    fn u32(&mut self) -> Option<u32> {
        let raw: [u8; 4] = *self.take(4)?.first_chunk()?;
        Some(if self.big {
            u32::from_be_bytes(raw)
        } else {
            u32::from_le_bytes(raw)
        })
    }

    fn u64(&mut self) -> Option<u64> {
        let raw: [u8; 8] = *self.take(8)?.first_chunk()?;
        Some(if self.big {
            u64::from_be_bytes(raw)
        } else {
            u64::from_le_bytes(raw)
        })
    }

    /// Up to a NUL, which is taken, too.
    fn string(&mut self) -> Option<&'b [u8]> {
        let end = self.bytes.iter().position(|&b| b == 0)?;
        let text = self.take(end)?;
        self.take(1)?;
        Some(text)
    }
}

/// What an event's records consist of.
#[derive(Debug, Clone, Copy, Default)]
struct Attribute {
    kind: u32,
    sample: u64,
    read: u64,
    /// Records other than samples end with time, CPU and the like.
    id_all: bool,
    has_clock: bool,
}

impl Attribute {
    fn parse(bytes: &[u8], big: bool) -> Option<Self> {
        let at = |offset: usize| Bytes {
            bytes: bytes.get(offset..).unwrap_or_default(),
            big,
        };
        let flags = at(40).u64()?;
        // Bit fields follow the byte order.
        let flag = |bit: u32| flags >> if big { 63 - bit } else { bit } & 1 != 0;
        Some(Self {
            kind: at(0).u32()?,
            sample: at(24).u64()?,
            read: at(32).u64()?,
            id_all: flag(18),
            has_clock: flag(25),
        })
    }

    /// Time, CPU and record of a sample.
    fn sample<'b>(&self, mut body: Bytes<'b>) -> Option<(u64, u32, &'b [u8])> {
        let has = |bit: u64| self.sample & bit != 0;
        for bit in [IDENTIFIER, IP, TID] {
            if has(bit) {
                body.u64()?;
            }
        }
        let time = if has(TIME) { body.u64()? } else { return None };
        for bit in [ADDR, ID, STREAM] {
            if has(bit) {
                body.u64()?;
            }
        }
        let cpu = if has(CPU) { body.u32()? } else { return None };
        body.u32()?;
        if has(PERIOD) {
            body.u64()?;
        }
        if has(READ) {
            self.skip_read(&mut body)?;
        }
        if has(CALLCHAIN) {
            let count = usize::try_from(body.u64()?).ok()?;
            body.take(count.checked_mul(8)?)?;
        }
        if !has(RAW) {
            return None;
        }
        let size = body.u32()? as usize;
        Some((time, cpu, body.take(size)?))
    }

    fn skip_read(&self, body: &mut Bytes<'_>) -> Option<()> {
        let has = |bit: u32| usize::from(self.read >> bit & 1 != 0);
        let (times, each) = (has(0) + has(1), 1 + has(2) + has(4));
        let words = if has(3) == 1 {
            let count = usize::try_from(body.u64()?).ok()?;
            count.checked_mul(each)?.checked_add(times)?
        } else {
            each + times
        };
        body.take(words.checked_mul(8)?)?;
        Some(())
    }

    /// Time and CPU at the end of a record that is no sample.
    fn trailer(&self, record: Bytes<'_>) -> Option<(u64, u32)> {
        let has = |bit: u64| usize::from(self.sample & bit != 0) * 8;
        let all = [TID, TIME, ID, STREAM, CPU, IDENTIFIER];
        let size: usize = all.into_iter().map(has).sum();
        let start = record.bytes.len().checked_sub(size)?;
        let at = |offset: usize| Bytes {
            bytes: record.bytes.get(start + offset..).unwrap_or_default(),
            big: record.big,
        };
        if !self.id_all || has(TIME) == 0 || has(CPU) == 0 {
            return None;
        }
        let time = at(has(TID)).u64()?;
        let cpu = at(has(TID) + has(TIME) + has(ID) + has(STREAM)).u32()?;
        Some((time, cpu))
    }
}

/// What waits for its round to end.
#[derive(Debug)]
struct Waiting {
    time: u64,
    cpu: u32,
    what: Told,
}

#[derive(Debug)]
enum Told {
    Record(Box<[u8]>),
    Lost(u64),
}

/// What is known of a file so far.
struct Reading {
    big: bool,
    attributes: Vec<Attribute>,
    ids: HashMap<u64, usize>,
    writer: Option<Writer>,
    formats: Vec<u8>,
    comms: HashMap<i32, String>,
    waiting: Vec<Waiting>,
    bytes: usize,
    /// Latest time so far, and before the last end of a round.
    latest: u64,
    settled: u64,
    back: u64,
    /// Lost events that nothing says the place of.
    unplaced: u64,
    unread: u64,
    unpacker: Option<Decoder<'static>>,
    packed: Vec<u8>,
}

pub(crate) fn convert(input: Input) -> Result<(File, About)> {
    let big = input.head().starts_with(b"2ELIFREP");
    let file = input.into_file()?;
    let mut head = vec![0; 104];
    let count = read_at(&file, 0, &mut head)?;
    head.truncate(count);
    let mut reading = Reading::new(big);
    let mut r = Bytes {
        bytes: head.get(8..).unwrap_or_default(),
        big,
    };
    let size = r.u64();
    if size == Some(16) {
        reading.records(&file, 16, u64::MAX)?;
        return reading.finish(None);
    }
    let place = |r: &mut Bytes<'_>| Some((r.u64()?, r.u64()?));
    let header = (|| {
        let attribute = r.u64()?;
        let (attributes, data) = (place(&mut r)?, place(&mut r)?);
        place(&mut r)?;
        Some((attribute, attributes, data, r.u64()?))
    })();
    let Some((attribute, attributes, data, features)) = header else {
        return Err(Error::corrupt(WHAT, 0, "its header is cut off"));
    };
    reading.attributes(&file, attribute, attributes)?;
    let len = file.metadata()?.len();
    let (from, size) = data;
    let end = from.saturating_add(size);
    // Bit 1: formats of the tracepoints. perf writes them, and the size of the data, at its end.
    if features & 2 != 0 {
        let table = section(&file, end, 32)?;
        let mut r = Bytes { bytes: &table, big };
        // Bit 0 is reserved; if it were set, its section would come first.
        if features & 1 != 0 {
            place(&mut r);
        }
        let Some((at, size)) = place(&mut r) else {
            return Err(Error::corrupt(
                WHAT,
                end,
                "its table of features is cut off",
            ));
        };
        reading.formats(&section(&file, at, size)?, at)?;
    } else if size == 0 && len > from {
        return Err(Error::foreign(
            "a perf.data file that perf did not finish (it was killed)",
            "record again, and end perf by Ctrl-C or SIGINT",
        ));
    }
    reading.check()?;
    reading.records(&file, from, end)?;
    let cut = (len < end).then(|| format!("it ends {} bytes before it should", end - len));
    reading.finish(cut)
}

fn read_at(file: &File, at: u64, out: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.saturating_add(done as u64)) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // A place that no file has.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => break,
            Err(e) => return Err(e.into()),
        }
    }
    Ok(done)
}

/// A stretch of the file, as far as it is there.
fn section(file: &File, at: u64, size: u64) -> Result<Vec<u8>> {
    let left = file.metadata()?.len().saturating_sub(at);
    let size = size.min(left).min(SECTION);
    let mut out = vec![0; usize::try_from(size).unwrap_or(0)];
    let count = read_at(file, at, &mut out)?;
    out.truncate(count);
    Ok(out)
}

/// The data of a file, from a place on.
struct Data<'f> {
    file: &'f File,
    at: u64,
    end: u64,
}

impl Read for Data<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let want = out.len().min(left);
        let out = out.get_mut(..want).unwrap_or_default();
        let count = self.file.read_at(out, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Reads all of `out`, or as much as there is.
fn fill(source: &mut impl Read, out: &mut [u8]) -> Result<usize> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(done)
}

impl Reading {
    fn new(big: bool) -> Self {
        Self {
            big,
            attributes: Vec::new(),
            ids: HashMap::new(),
            writer: None,
            formats: Vec::new(),
            comms: HashMap::new(),
            waiting: Vec::new(),
            bytes: 0,
            latest: 0,
            settled: 0,
            back: 0,
            unplaced: 0,
            unread: 0,
            unpacker: None,
            packed: Vec::new(),
        }
    }

    fn attributes(&mut self, file: &File, each: u64, place: (u64, u64)) -> Result<()> {
        let (big, bytes) = (self.big, section(file, place.0, place.1)?);
        let each = usize::try_from(each).unwrap_or(usize::MAX);
        if !(64..=4096).contains(&each) {
            let why = format!("attributes of {each} bytes");
            return Err(Error::corrupt(WHAT, 16, why));
        }
        for entry in bytes.chunks_exact(each).take(ATTRIBUTES) {
            let mut r = Bytes {
                bytes: entry.get(each - 16..).unwrap_or_default(),
                big,
            };
            let ids = match (r.u64(), r.u64()) {
                (Some(at), Some(size)) => section(file, at, size)?,
                _ => Vec::new(),
            };
            self.attribute(entry, &ids);
        }
        Ok(())
    }

    fn attribute(&mut self, bytes: &[u8], ids: &[u8]) {
        if let Some(attribute) = Attribute::parse(bytes, self.big) {
            let place = self.attributes.len();
            for id in ids.chunks_exact(8).take(IDS.saturating_sub(self.ids.len())) {
                let id = Bytes {
                    bytes: id,
                    big: self.big,
                }
                .u64();
                self.ids.extend(id.map(|id| (id, place)));
            }
            self.attributes.push(attribute);
        }
    }

    /// What `perf record` stored of tracefs: a trace.dat's first part, of version 0.5 or 0.6.
    fn formats(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let damaged = || Error::corrupt(WHAT, offset, "its formats of tracepoints are cut off");
        let found = tracing(bytes).ok_or_else(damaged)?;
        let (machine, formats) = found;
        self.formats = formats.to_vec();
        let file = tempfile::tempfile().map_err(scratch)?;
        self.writer = Some(Writer::new(file, machine));
        Ok(())
    }

    /// Refuses what has no events of the kernel's.
    fn check(&self) -> Result<()> {
        let points = || self.attributes.iter().filter(|a| a.kind == TRACEPOINT);
        if points().next().is_none() || self.writer.is_none() {
            let others = self.attributes.iter().map(|a| a.kind);
            let what = match others.filter(|&kind| kind != TRACEPOINT).max() {
                None => "a perf.data file without tracepoints",
                Some(0 | 3 | 4) => {
                    "a perf.data file without tracepoints: it has samples of the processor's counters"
                }
                Some(FIRST_UNIT..) => {
                    "a perf.data file without tracepoints: it has records of a hardware unit (Intel PT, Arm SPE or CoreSight, an uncore counter)"
                }
                Some(_) => "a perf.data file without tracepoints: it has samples of other events",
            };
            return Err(Error::foreign(what, MEND));
        }
        let whole = RAW | TIME | CPU;
        if points().all(|a| a.sample & whole != whole) {
            return Err(Error::foreign(
                "a perf.data file whose tracepoints lack their CPU, time or fields",
                MEND,
            ));
        }
        Ok(())
    }

    fn records(&mut self, file: &File, from: u64, end: u64) -> Result<()> {
        let (mut at, big) = (from, self.big);
        let mut source = BufReader::with_capacity(256 << 10, Data { file, at, end });
        let mut record = vec![0; 1 << 16];
        loop {
            let mut head = [0; 8];
            if fill(&mut source, &mut head)? < 8 {
                return Ok(());
            }
            let mut r = Bytes { bytes: &head, big };
            let (kind, _, size) = (r.u32(), r.u16(), r.u16());
            let (Some(kind), Some(size @ 8..)) = (kind, size.map(usize::from)) else {
                let why = format!("a record of {} bytes", size.unwrap_or(0));
                return Err(Error::corrupt(WHAT, at, why));
            };
            let body = record.get_mut(..size - 8).unwrap_or_default();
            if fill(&mut source, body)? < size - 8 {
                return Ok(());
            }
            let body = &*body;
            at += size as u64;
            let follows = match kind {
                // HEADER_TRACING_DATA of a pipe: the formats follow the record.
                66 => Bytes { bytes: body, big }.u32().map(u64::from),
                // AUXTRACE: so do a processor's own traces.
                71 => Bytes { bytes: body, big }.u64(),
                _ => None,
            };
            if let Some(len) = follows {
                let mut part = (&mut source).take(len);
                if kind == 66 {
                    let bytes = crate::read_up_to(&mut part, SECTION)?;
                    self.formats(&bytes, at)?;
                }
                io::copy(&mut part, &mut io::sink())?;
                at = at.saturating_add(len);
                continue;
            }
            self.record(kind, body)?;
        }
    }

    fn record(&mut self, kind: u32, body: &[u8]) -> Result<()> {
        let big = self.big;
        match kind {
            9 => self.sample(body)?,
            2 => {
                // LOST: the event's id, how many, and when.
                let mut r = Bytes { bytes: body, big };
                let count = r.u64().and_then(|_| r.u64()).unwrap_or(1);
                let whole = Bytes { bytes: body, big };
                let place = self.attributes.first().and_then(|a| a.trailer(whole));
                match place {
                    Some((time, cpu)) => self.wait(time, cpu, Told::Lost(count))?,
                    None => self.unplaced = self.unplaced.saturating_add(count),
                }
            }
            3 => self.comm(body),
            // HEADER_ATTR of a pipe: an attribute of the size that it tells, and its ids.
            64 => {
                let size = Bytes {
                    bytes: body.get(4..).unwrap_or_default(),
                    big,
                }
                .u32();
                let size = size.unwrap_or(0) as usize;
                if let Some((attribute, ids)) = body.split_at_checked(size) {
                    if self.attributes.len() < ATTRIBUTES {
                        self.attribute(attribute, ids);
                    }
                }
            }
            68 => self.end_round()?,
            81 => self.unpack(body)?,
            // COMPRESSED2: the size of the data, and padding behind them.
            83 => {
                let mut r = Bytes { bytes: body, big };
                let size = r.u64().and_then(|size| usize::try_from(size).ok());
                let data = size.and_then(|size| r.take(size));
                self.unpack(data.unwrap_or_default())?;
            }
            _ => {}
        }
        Ok(())
    }

    fn sample(&mut self, body: &[u8]) -> Result<()> {
        if self.writer.is_none() {
            self.check()?;
        }
        let big = self.big;
        let whole = Bytes { bytes: body, big };
        // Which event it is of is only asked where events differ: the identifier comes first.
        let first = self.attributes.first().copied().unwrap_or_default();
        let attribute = if first.sample & IDENTIFIER != 0 {
            let id = { whole }.u64();
            let place = id.and_then(|id| self.ids.get(&id));
            place.and_then(|&place| self.attributes.get(place)).copied()
        } else {
            None
        };
        let attribute = attribute.unwrap_or(first);
        if attribute.kind != TRACEPOINT {
            return Ok(());
        }
        let Some((time, cpu, record)) = attribute.sample(whole) else {
            self.unread += 1;
            return Ok(());
        };
        self.wait(time, cpu, Told::Record(record.into()))
    }

    fn comm(&mut self, body: &[u8]) {
        let mut r = Bytes {
            bytes: body,
            big: self.big,
        };
        if let (Some(_), Some(tid), Some(name)) = (r.u32(), r.u32(), r.string()) {
            let tid = tid as i32;
            if self.comms.len() < TASKS || self.comms.contains_key(&tid) {
                let name = String::from_utf8_lossy(name).replace('\n', " ");
                self.comms.insert(tid, name);
            }
        }
    }

    fn wait(&mut self, time: u64, cpu: u32, what: Told) -> Result<()> {
        // No clock comes near this.
        let time = time.min(1 << 62);
        self.latest = self.latest.max(time);
        self.bytes += 64;
        if let Told::Record(record) = &what {
            self.bytes += record.len();
        }
        self.waiting.push(Waiting { time, cpu, what });
        if self.bytes > WAITING {
            self.settled = self.latest;
            self.give()?;
        }
        Ok(())
    }

    /// Every ring buffer was looked at: what was the latest before that look has nothing older
    /// to come.
    fn end_round(&mut self) -> Result<()> {
        self.give()?;
        self.settled = self.latest;
        Ok(())
    }

    fn give(&mut self) -> Result<()> {
        self.waiting.sort_by_key(|w| w.time);
        let end = self.waiting.partition_point(|w| w.time <= self.settled);
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        for Waiting { time, cpu, what } in self.waiting.drain(..end) {
            match what {
                Told::Lost(count) => writer.lost(cpu, Some(count))?,
                Told::Record(record) => {
                    if let Taken::Back(_) = writer.event(cpu, time, &record)? {
                        self.back += 1;
                        writer.lost(cpu, Some(1))?;
                    }
                }
            }
        }
        let size = |w: &Waiting| match &w.what {
            Told::Record(record) => record.len() + 64,
            Told::Lost(_) => 64,
        };
        self.bytes = self.waiting.iter().map(size).sum();
        Ok(())
    }

    /// Records inside a compressed one, which may go on in the next.
    fn unpack(&mut self, data: &[u8]) -> Result<()> {
        let failed = |source| Error::Packing {
            packing: "zstd",
            source,
        };
        let mut unpacker = match self.unpacker.take() {
            Some(unpacker) => unpacker,
            None => Decoder::new().map_err(failed)?,
        };
        let mut plain = std::mem::take(&mut self.packed);
        let (mut input, mut block) = (InBuffer::around(data), vec![0; 128 << 10]);
        loop {
            let mut output = OutBuffer::around(block.as_mut_slice());
            unpacker.run(&mut input, &mut output).map_err(failed)?;
            let count = output.pos();
            plain.extend_from_slice(block.get(..count).unwrap_or_default());
            if input.pos() == data.len() && count < block.len() {
                break;
            }
            if plain.len() > UNPACKED || count == 0 && input.pos() < data.len() {
                let end = "a compressed record is too long";
                return Err(failed(io::Error::other(end)));
            }
        }
        self.unpacker = Some(unpacker);
        let mut rest = Bytes {
            bytes: &plain,
            big: self.big,
        };
        loop {
            let mut r = rest;
            let (Some(kind), Some(_), Some(size)) = (r.u32(), r.u16(), r.u16()) else {
                break;
            };
            let Some(body) = usize::from(size).checked_sub(8).and_then(|len| r.take(len)) else {
                break;
            };
            // Packed data inside of packed data is damage.
            if !matches!(kind, 81 | 83) {
                self.record(kind, body)?;
            }
            rest = r;
        }
        self.packed = rest.bytes.to_vec();
        if self.packed.len() > 1 << 17 {
            return Err(failed(io::Error::other("no record where one must be")));
        }
        Ok(())
    }

    fn finish(mut self, cut: Option<String>) -> Result<(File, About)> {
        self.check()?;
        self.settled = u64::MAX;
        self.give()?;
        let mut notes: Vec<String> = cut.into_iter().collect();
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        say(
            self.unplaced,
            "events were lost by perf, at times that it did not note",
        );
        say(self.back, "events came out of their order and are left out");
        say(
            self.unread,
            "events lack their CPU, time or fields and are left out",
        );
        let Some(writer) = self.writer else {
            return Err(Error::foreign("a perf.data file without tracepoints", MEND));
        };
        let clock = self.attributes.iter().any(|a| a.has_clock);
        let clock = if clock { "perf -k" } else { "perf" };
        let file = writer.finish(&self.formats, &self.comms, clock)?;
        let about = About {
            format: "perf.data".to_owned(),
            resolution: 1,
            notes,
            ..About::default()
        };
        Ok((file, about))
    }
}

/// The machine, and the formats of all events as a trace.dat has them.
fn tracing(bytes: &[u8]) -> Option<(Machine, &[u8])> {
    let mut r = Bytes { bytes, big: false };
    if r.take(10)? != b"\x17\x08\x44tracing" {
        return None;
    }
    r.string()?;
    let (big, long) = (*r.take(1)?.first()? != 0, usize::from(*r.take(1)?.first()?));
    if !matches!(long, 4 | 8) {
        return None;
    }
    r.big = big;
    r.u32()?;
    let block = |r: &mut Bytes<'_>| {
        let len = usize::try_from(r.u64()?).ok()?;
        r.take(len)?;
        Some(())
    };
    for name in [&b"header_page\0"[..], b"header_event\0"] {
        (r.take(name.len())? == name).then_some(())?;
        block(&mut r)?;
    }
    let start = r.bytes;
    for _ in 0..r.u32()? {
        block(&mut r)?;
    }
    for _ in 0..r.u32()? {
        r.string()?;
        for _ in 0..r.u32()? {
            block(&mut r)?;
        }
    }
    let formats = start.get(..start.len() - r.bytes.len())?;
    Some((Machine { big, long }, formats))
}
