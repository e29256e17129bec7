//! What a trace says about itself: events, task names, clock, statistics of the ring buffers.

use std::collections::HashMap;

use crate::bytes::{Endian, Reader, lossy};
use crate::error::{Error, Result};
use crate::format::EventFormat;
use crate::layout::Layout;

/// More events than `common_type` can number.
const EVENT_LIMIT: u32 = 1 << 16;

/// Conversion of time-stamp counter ticks to nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TscToNs {
    pub(crate) mult: u32,
    pub(crate) shift: u32,
}

impl TscToNs {
    pub(crate) fn apply(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.mult)) >> self.shift.min(127)) as u64
    }
}

/// Data of one CPU in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CpuPart {
    pub(crate) cpu: u32,
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

/// One recorded instance.
#[derive(Debug, Clone, Default)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) clock: String,
    pub(crate) page_size: u32,
    pub(crate) packed: bool,
    pub(crate) parts: Vec<CpuPart>,
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
    pub(crate) tsc: Option<TscToNs>,
    pub(crate) buffers: Vec<Buffer>,
}

impl Meta {
    pub(crate) fn read_headers(&mut self, r: &mut Reader<'_>, long: usize) -> Result<()> {
        let offset = r.offset();
        r.expect(b"header_page\0", "header_page")?;
        let page = r.block(true, "header_page")?;
        r.expect(b"header_event\0", "header_event")?;
        let event = r.block(true, "header_event")?;
        self.layout = Some(Layout::parse(page, event, long, offset)?);
        Ok(())
    }

    pub(crate) fn read_ftrace_formats(&mut self, r: &mut Reader<'_>, endian: Endian) -> Result<()> {
        self.read_group(r, "ftrace", endian)
    }

    pub(crate) fn read_event_formats(&mut self, r: &mut Reader<'_>, endian: Endian) -> Result<()> {
        for _ in 0..bounded(r, "number of event systems")? {
            let system = r.string("name of an event system")?;
            self.read_group(r, &system, endian)?;
        }
        Ok(())
    }

    fn read_group(&mut self, r: &mut Reader<'_>, system: &str, endian: Endian) -> Result<()> {
        for _ in 0..bounded(r, "number of events")? {
            let text = r.block(true, "event format")?;
            self.formats
                .extend(EventFormat::parse(system, text, endian));
        }
        Ok(())
    }

    /// `saved_cmdlines`: lines of `PID NAME`.
    pub(crate) fn read_comms(&mut self, r: &mut Reader<'_>) -> Result<()> {
        let text = lossy(r.block(true, "saved command lines")?);
        self.comms = text
            .lines()
            .filter_map(|line| line.trim_start().split_once(' '))
            .filter_map(|(pid, comm)| Some((pid.parse().ok()?, comm.to_owned())))
            .collect();
        Ok(())
    }

    /// One option of the options part; unknown ones are skipped.
    pub(crate) fn read_option(&mut self, id: u16, data: &[u8], r: &mut Reader<'_>) -> Result<()> {
        match id {
            2 => self.stats.push(lossy(data)),
            4 => self.clock = chosen_clock(&lossy(data)),
            8 => self.cpu_count = r.u32("CPUCOUNT option")?,
            14 => {
                let (mult, shift) = (r.u32("TSC2NSEC option")?, r.u32("TSC2NSEC option")?);
                self.tsc = (mult != 0).then_some(TscToNs { mult, shift });
            }
            _ => {}
        }
        Ok(())
    }

    /// Events that the kernel reports as never written into any page: (lost, without a place).
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

fn bounded(r: &mut Reader<'_>, what: &'static str) -> Result<u32> {
    let offset = r.offset();
    let count = r.u32(what)?;
    if count > EVENT_LIMIT {
        return Err(Error::corrupt(offset, format!("{what} is {count}")));
    }
    Ok(count)
}

/// The clock in brackets of the kernel's `trace_clock` file, or the whole text without brackets.
fn chosen_clock(text: &str) -> String {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or(text, |(name, _)| name)
        .trim()
        .to_owned()
}
