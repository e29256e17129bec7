//! What a trace says about itself: events, task names, clock, statistics of the ring buffers.

use std::collections::HashMap;

use crate::buffer::Buffer;
use crate::bytes::{Endian, lossy};
use crate::clock::{Clocks, TimeShift, TscToNs, number};
use crate::error::{Error, Result};
use crate::format::EventFormat;
use crate::layout::Layout;
use crate::reader::Reader;

/// More events than `common_type` can number.
const EVENT_LIMIT: u32 = 1 << 16;
/// A machine with more CPUs than this is a damaged file.
const CPU_LIMIT: u32 = 1 << 14;

/// A guest that was traced together with this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guest {
    /// Its name.
    pub name: String,
    /// Identifier of its own trace.
    pub trace_id: u64,
    /// Its CPUs: (CPU, thread on the host that runs it).
    pub cpus: Vec<(u32, u32)>,
}

/// Everything of the file but the trace data.
#[derive(Debug, Default)]
pub(crate) struct Meta {
    pub(crate) layout: Option<Layout>,
    pub(crate) formats: Vec<EventFormat>,
    pub(crate) comms: HashMap<i32, String>,
    pub(crate) clock: String,
    pub(crate) cpu_count: u32,
    pub(crate) stats: Vec<String>,
    pub(crate) clocks: Clocks,
    pub(crate) trace_id: Option<u64>,
    pub(crate) guests: Vec<Guest>,
    pub(crate) buffers: Vec<Buffer>,
    /// Names of buffers that hold text instead of events.
    pub(crate) texts: Vec<String>,
    /// Behind the last section that was read, as far as its header says (bytes).
    pub(crate) end: u64,
}

impl Meta {
    pub(crate) fn read_headers(&mut self, r: &mut Reader<'_>, long: usize) -> Result<()> {
        let offset = r.offset();
        r.expect(b"header_page\0", "header_page")?;
        let page = r.block("header_page")?;
        r.expect(b"header_event\0", "header_event")?;
        let event = r.block("header_event")?;
        self.layout = Some(Layout::parse(&page, &event, long, offset)?);
        Ok(())
    }

    pub(crate) fn read_ftrace_formats(&mut self, r: &mut Reader<'_>, endian: Endian) -> Result<()> {
        self.read_group(r, "ftrace", endian)
    }

    pub(crate) fn read_event_formats(&mut self, r: &mut Reader<'_>, endian: Endian) -> Result<()> {
        for _ in 0..bounded(r, "number of event systems", EVENT_LIMIT)? {
            let system = r.string("name of an event system")?;
            self.read_group(r, &system, endian)?;
        }
        Ok(())
    }

    fn read_group(&mut self, r: &mut Reader<'_>, system: &str, endian: Endian) -> Result<()> {
        for _ in 0..bounded(r, "number of events", EVENT_LIMIT)? {
            let text = r.block("event format")?;
            self.formats
                .extend(EventFormat::parse(system, &text, endian));
        }
        Ok(())
    }

    pub(crate) fn read_comms(&mut self, r: &mut Reader<'_>) -> Result<()> {
        self.comms = comms(&r.block("saved command lines")?);
        Ok(())
    }

    /// One option that both versions of the file have; unknown ones are skipped.
    pub(crate) fn read_option(&mut self, id: u16, r: &mut Reader<'_>) -> Result<()> {
        let text = |r: &mut Reader<'_>| Ok::<_, Error>(lossy(&r.take(r.left(), "option")?));
        match id {
            1 => self.add_offset(number(&text(r)?).saturating_mul(1000)),
            2 => self.stats.push(text(r)?),
            4 => self.clock = chosen_clock(&text(r)?),
            7 => self.add_offset(number(&text(r)?)),
            8 => self.cpu_count = cpu_count(r)?,
            11 if r.left() >= 8 => self.trace_id = Some(r.u64("TRACEID option")?),
            12 if r.left() >= 16 => self.clocks.shift = Some(TimeShift::read(r)?),
            13 => self.guests.push(read_guest(r)?),
            14 => {
                let (mult, shift) = (r.u32("TSC2NSEC option")?, r.u32("TSC2NSEC option")?);
                self.clocks.tsc = (mult != 0).then_some(TscToNs { mult, shift });
            }
            _ => {}
        }
        Ok(())
    }

    fn add_offset(&mut self, nanoseconds: i64) {
        self.clocks.offset = self.clocks.offset.wrapping_add(nanoseconds);
    }

    /// Events that the kernel reports as never written into any page.
    pub(crate) fn unplaced_losses(&self) -> u64 {
        let keys = ["dropped events:", "commit overrun:"];
        self.stats
            .iter()
            .flat_map(|text| text.lines())
            .filter_map(|line| {
                let value = keys.iter().find_map(|key| line.trim().strip_prefix(key))?;
                value.trim().parse::<u64>().ok()
            })
            .fold(0, u64::saturating_add)
    }
}

/// `saved_cmdlines`: lines of `PID NAME`.
pub(crate) fn comms(text: &[u8]) -> HashMap<i32, String> {
    lossy(text)
        .lines()
        .filter_map(|line| line.trim_start().split_once(' '))
        .filter_map(|(pid, comm)| Some((pid.parse().ok()?, comm.to_owned())))
        .collect()
}

fn read_guest(r: &mut Reader<'_>) -> Result<Guest> {
    let what = "GUEST option";
    let (name, trace_id) = (r.string(what)?, r.u64(what)?);
    let count = bounded(r, "number of a guest's CPUs", CPU_LIMIT)?;
    let mut cpus = Vec::new();
    for _ in 0..count {
        cpus.push((r.u32(what)?, r.u32(what)?));
    }
    Ok(Guest {
        name,
        trace_id,
        cpus,
    })
}

/// A CPU's number.
pub(crate) fn cpu_number(r: &mut Reader<'_>) -> Result<u32> {
    bounded(r, "a CPU's number", CPU_LIMIT - 1)
}

pub(crate) fn cpu_count(r: &mut Reader<'_>) -> Result<u32> {
    bounded(r, "number of CPUs", CPU_LIMIT)
}

fn bounded(r: &mut Reader<'_>, what: &'static str, limit: u32) -> Result<u32> {
    let offset = r.offset();
    let count = r.u32(what)?;
    if count > limit {
        let text = format!("{what} is {count}, more than {limit}");
        return Err(Error::corrupt(offset, text));
    }
    Ok(count)
}

/// The clock in brackets of the kernel's `trace_clock` file, or the whole text without brackets.
pub(crate) fn chosen_clock(text: &str) -> String {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(name, _)| name)
        .trim()
        .to_owned()
}
