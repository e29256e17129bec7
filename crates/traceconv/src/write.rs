//! Writes a trace.dat (version 6) while events come in, CPU by CPU.
//!
//! Each CPU has a stretch of the file of its own, far from the next: the file is sparse, so that
//! only what is written takes space, and nothing has to be moved when all is known.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};

/// Bytes from the start of a CPU's data to that of the next; the description comes first. A file
/// of ext4's largest size (16 TiB) has room for 2047 CPUs.
const STRIDE: u64 = 1 << 33;
const SLOTS: usize = 2047;
/// Largest number of a CPU that `tracedat` reads.
const CPU_LIMIT: u32 = 1 << 14;
/// Size of a ring-buffer page (bytes).
const PAGE: usize = 64 << 10;
/// Longest record whose length fits into the header word, in words of 4 bytes.
const SHORT: usize = 28;
/// Bits of a time delta.
const DELTA_BITS: u32 = 27;
/// Steps back in time that are taken for an imprecise clock (ns), as `tracedat` takes them.
const TOLERANCE: u64 = 1_000_000;

const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

/// Byte order and size of `long` of the machine that recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) big: bool,
    pub(crate) long: usize,
}

impl Machine {
    /// Of what is written from values, not copied from a recording.
    pub(crate) const OWN: Self = Self {
        big: false,
        long: 8,
    };

    pub(crate) fn u32(self, value: u32) -> [u8; 4] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    pub(crate) fn u64(self, value: u64) -> [u8; 8] {
        if self.big {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    /// A header word of the ring buffer: its bit fields follow the byte order.
    fn word(self, kind: u32, delta: u32) -> [u8; 4] {
        if self.big {
            (kind << DELTA_BITS | delta).to_be_bytes()
        } else {
            (delta << (32 - DELTA_BITS) | kind).to_le_bytes()
        }
    }
}

/// Events that are missing before the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missed {
    None,
    Some(u64),
    Unknown,
}

/// The page of a CPU that is being filled.
#[derive(Debug)]
struct Cpu {
    slot: u64,
    /// Bytes written to the file.
    written: u64,
    page: Vec<u8>,
    last: u64,
    started: bool,
    missed: Missed,
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    Yes,
    /// It is from before its predecessor on the CPU, by so much (ns).
    Back(u64),
}

/// The file under construction.
#[derive(Debug)]
pub(crate) struct Writer {
    file: File,
    machine: Machine,
    cpus: HashMap<u32, Cpu>,
    pub(crate) events: u64,
}

impl Writer {
    pub(crate) fn new(file: File, machine: Machine) -> Self {
        Self {
            file,
            machine,
            cpus: HashMap::new(),
            events: 0,
        }
    }

    fn data(&self) -> usize {
        8 + self.machine.long
    }

    fn cpu(&mut self, cpu: u32) -> Result<&mut Cpu> {
        let slot = self.cpus.len();
        let data = self.data();
        let known = self.cpus.contains_key(&cpu);
        if cpu >= CPU_LIMIT || (!known && slot >= SLOTS) {
            return Err(Error::foreign(
                format!("of a machine with a CPU {cpu}"),
                "at most 2047 CPUs are read: record fewer",
            ));
        }
        Ok(self.cpus.entry(cpu).or_insert_with(|| Cpu {
            slot: slot as u64 + 1,
            written: 0,
            page: vec![0; data],
            last: 0,
            started: false,
            missed: Missed::None,
        }))
    }

    /// Adds an event; its record has the layout of the format with its number.
    pub(crate) fn event(&mut self, cpu: u32, ts: u64, record: &[u8]) -> Result<Taken> {
        let (machine, data) = (self.machine, self.data());
        let words = record.len().div_ceil(4);
        // Head word, length word, time extend (two words), and the count of missed events.
        let size = words * 4 + 16 + machine.long;
        if data + size > PAGE {
            self.lost(cpu, Some(1))?;
            return Ok(Taken::Yes);
        }
        let state = self.cpu(cpu)?;
        let back = state.last.saturating_sub(ts);
        if back > TOLERANCE {
            return Ok(Taken::Back(back));
        }
        let ts = ts.max(state.last);
        if state.page.len() + size > PAGE {
            self.flush(cpu)?;
        }
        let state = self.cpu(cpu)?;
        if !state.started {
            let stamp = machine.u64(ts);
            state.page.splice(0..8, stamp);
            (state.started, state.last) = (true, ts);
        }
        let mut delta = ts - state.last;
        state.last = ts;
        if delta >> DELTA_BITS != 0 {
            let low = delta as u32 & ((1 << DELTA_BITS) - 1);
            state.page.extend(machine.word(30, low));
            state.page.extend(machine.u32((delta >> DELTA_BITS) as u32));
            delta = 0;
        }
        if words <= SHORT && words > 0 {
            state.page.extend(machine.word(words as u32, delta as u32));
        } else {
            state.page.extend(machine.word(0, delta as u32));
            state.page.extend(machine.u32(words as u32 * 4 + 4));
        }
        state.page.extend(record);
        state.page.resize(state.page.len().next_multiple_of(4), 0);
        self.events += 1;
        Ok(Taken::Yes)
    }

    /// Events of a CPU are missing here: how many, if that is known.
    pub(crate) fn lost(&mut self, cpu: u32, count: Option<u64>) -> Result<()> {
        self.flush(cpu)?;
        let state = self.cpu(cpu)?;
        state.missed = match (state.missed, count) {
            (Missed::None, Some(count)) => Missed::Some(count),
            (Missed::Some(before), Some(count)) => Missed::Some(before.saturating_add(count)),
            _ => Missed::Unknown,
        };
        Ok(())
    }

    fn flush(&mut self, cpu: u32) -> Result<()> {
        let (machine, data) = (self.machine, self.data());
        let state = self.cpu(cpu)?;
        if !state.started {
            return Ok(());
        }
        let mut commit = (state.page.len() - data) as u64;
        let missed = std::mem::replace(&mut state.missed, Missed::None);
        if missed != Missed::None {
            commit |= MISSED;
        }
        if let Missed::Some(count) = missed {
            commit |= MISSED_STORED;
            let count = machine.u64(count);
            let low = if machine.big { 8 - machine.long } else { 0 };
            let bytes = count.get(low..low + machine.long).unwrap_or_default();
            state.page.extend_from_slice(bytes);
        }
        let word = machine.u64(commit);
        let low = if machine.big { 8 - machine.long } else { 0 };
        let word = word.get(low..low + machine.long).unwrap_or_default();
        state.page.splice(8..data, word.iter().copied());
        state.page.resize(PAGE, 0);
        let at = state.slot * STRIDE + state.written;
        state.written += PAGE as u64;
        let full = state.written > STRIDE - PAGE as u64;
        let mut page = std::mem::replace(&mut state.page, vec![0; data]);
        state.started = false;
        self.file.write_all_at(&page, at).map_err(scratch)?;
        page.clear();
        if full {
            return Err(Error::foreign(
                format!("too long: CPU {cpu} alone has more than 8 GiB of events"),
                "cut it into pieces",
            ));
        }
        Ok(())
    }

    /// Writes the description. `formats` are those of the group `ftrace`, and of all others, in
    /// the file's own layout; `comms` are names by thread number; `clock` is the trace clock.
    pub(crate) fn finish(
        mut self,
        formats: &[u8],
        comms: &HashMap<i32, String>,
        clock: &str,
    ) -> Result<File> {
        let mut numbers: Vec<u32> = self.cpus.keys().copied().collect();
        numbers.sort_unstable();
        for &cpu in &numbers {
            // Losses at a CPU's end have no page behind them to say so.
            let machine = self.machine;
            let tail = self.cpu(cpu)?;
            if tail.missed != Missed::None && !tail.started {
                tail.started = true;
                tail.page = machine.u64(tail.last).to_vec();
                tail.page.resize(8 + machine.long, 0);
            }
            self.flush(cpu)?;
        }
        let machine = self.machine;
        let mut out = b"\x17\x08\x44tracing6\0".to_vec();
        out.extend([u8::from(machine.big), machine.long as u8]);
        out.extend(machine.u32(PAGE as u32));
        out.extend(header_texts(machine));
        out.extend(formats);
        // No symbols, no formats of trace_printk().
        out.extend([0; 8]);
        let mut names: Vec<_> = comms.iter().collect();
        names.sort_unstable();
        let mut lines = String::new();
        for (pid, name) in names {
            let _ = writeln!(lines, "{pid} {name}");
        }
        out.extend(machine.u64(lines.len() as u64));
        out.extend(lines.as_bytes());
        let count = numbers.last().map_or(1, |last| last + 1);
        out.extend(machine.u32(count));
        let option = format!("[{clock}]\0");
        out.extend(b"options  \0");
        out.extend(&machine_u16(machine, 4));
        out.extend(machine.u32(option.len() as u32));
        out.extend(option.as_bytes());
        out.extend([0; 2]);
        out.extend(b"flyrecord\0");
        for number in 0..count {
            let cpu = self.cpus.get(&number);
            out.extend(machine.u64(cpu.map_or(0, |c| c.slot * STRIDE)));
            out.extend(machine.u64(cpu.map_or(0, |c| c.written)));
        }
        self.file.write_all_at(&out, 0).map_err(scratch)?;
        Ok(self.file)
    }
}

fn machine_u16(machine: Machine, value: u16) -> [u8; 2] {
    if machine.big {
        value.to_be_bytes()
    } else {
        value.to_le_bytes()
    }
}

/// `header_page` and `header_event`, each with its length in front.
fn header_texts(machine: Machine) -> Vec<u8> {
    let (long, data) = (machine.long, 8 + machine.long);
    let page = format!(
        "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
         \tfield: local_t commit;\toffset:8;\tsize:{long};\tsigned:1;\n\
         \tfield: char data;\toffset:{data};\tsize:{};\tsigned:1;\n",
        PAGE - data
    );
    let event = "# compressed entry header\n\ttype_len    :    5 bits\n\ttime_delta  :   27 bits\n\
                 \tarray       :   32 bits\n\n\tpadding     : type == 29\n\ttime_extend : type == 30\n\
                 \ttime_stamp : type == 31\n\tdata max type_len  == 28\n";
    let mut out = Vec::new();
    for (name, text) in [("header_page\0", page.as_str()), ("header_event\0", event)] {
        out.extend(name.as_bytes());
        out.extend(machine.u64(text.len() as u64));
        out.extend(text.as_bytes());
    }
    out
}

/// An error of the file that is written.
pub(crate) fn scratch(source: io::Error) -> Error {
    let folder = std::env::temp_dir().display().to_string();
    Error::Scratch { folder, source }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use tracedat::{Entry, Trace};

    use super::{Machine, Writer};
    use crate::formats::Formats;

    proptest! {
        /// Whatever is written is read again, on either byte order and size of long.
        #[test]
        fn what_is_written_is_read(
            big in any::<bool>(),
            long in prop::sample::select(vec![4_usize, 8]),
            events in prop::collection::vec((0_u32..4, 0_u64..1 << 40, 8_usize..300), 0..200),
        ) {
            let mut writer = Writer::new(tempfile::tempfile().unwrap(), Machine { big, long });
            let mut now: HashMap<u32, u64> = HashMap::new();
            let mut expected = Vec::new();
            for (place, &(cpu, step, len)) in events.iter().enumerate() {
                let time = now.entry(cpu).or_insert(1);
                *time += step;
                let record = vec![place as u8; len];
                writer.event(cpu, *time, &record).unwrap();
                let mut padded = record;
                padded.resize(len.next_multiple_of(4), 0);
                expected.push((*time, cpu, padded));
            }
            // No groups of formats: what they hold is not of this crate's byte order.
            let file = writer.finish(&[0; 8], &HashMap::new(), "local").unwrap();
            let trace = Trace::open(crate::path_of(&file)).unwrap();
            let mut found = Vec::new();
            let mut read = trace.events().unwrap();
            while let Some(entry) = read.next().unwrap() {
                if let Entry::Event(record) = entry {
                    found.push((record.ts, record.cpu, record.data.to_vec()));
                }
            }
            expected.sort_by_key(|e| (e.0, e.1));
            found.sort_by_key(|e| (e.0, e.1));
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn losses_are_told_where_they_are() {
        let mut writer = Writer::new(tempfile::tempfile().unwrap(), Machine::OWN);
        writer.event(1, 10, &[1; 8]).unwrap();
        writer.lost(1, Some(3)).unwrap();
        writer.lost(1, Some(4)).unwrap();
        writer.event(1, 30, &[2; 8]).unwrap();
        writer.lost(1, None).unwrap();
        let formats = Formats::default().bytes();
        let file = writer.finish(&formats, &HashMap::new(), "local").unwrap();
        let trace = Trace::open(crate::path_of(&file)).unwrap();
        let mut read = trace.events().unwrap();
        let mut gaps = Vec::new();
        while let Some(entry) = read.next().unwrap() {
            if let Entry::Lost(gap) = entry {
                gaps.push((gap.from, gap.to, gap.count));
            }
        }
        assert_eq!(gaps.first(), Some(&(Some(10), 30, Some(7))));
        assert_eq!(gaps.len(), 2, "{gaps:?}");
    }
}
