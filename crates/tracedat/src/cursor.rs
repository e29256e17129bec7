//! The events of one CPU.

use crate::bytes::Endian;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::meta::TscToNs;
use crate::pages::Pages;

/// The kernel keeps flags above this in the commit word.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// Absolute time stamps carry 59 bits; the upper five come from the page.
const STAMP_HIGH: u64 = 0xf8 << 56;

/// Why events are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostReason {
    /// The ring buffer overwrote them before they were read.
    Overwritten,
    /// The bytes that hold them contradict the format.
    Damaged,
    /// The file ends before them.
    CutOff,
}

/// A stretch of time in which events of one CPU are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostRange {
    /// The CPU whose events they were.
    pub cpu: u32,
    /// Time of the last event before the gap (clock units); `None` at the CPU's start.
    pub from: Option<u64>,
    /// Time from which events are there again (clock units); [`u64::MAX`] if never.
    pub to: u64,
    /// How many events were lost, if the kernel knew.
    pub count: Option<u64>,
    /// Why.
    pub reason: LostReason,
}

/// One event as recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The CPU.
    pub cpu: u32,
    /// Time (clock units; nanoseconds for all clocks but `counter`, `uptime` and raw tsc).
    pub ts: u64,
    /// The event's fields, the common ones included.
    pub data: &'a [u8],
}

/// What a trace gives one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry<'a> {
    /// An event.
    Event(Record<'a>),
    /// A gap. It comes right after the CPU's last event before it, so before all events of any
    /// CPU that are later than its `from`.
    Lost(LostRange),
}

/// Walks the pages of one CPU. Holds the current entry until it is advanced.
#[derive(Debug)]
pub struct Cursor<'a> {
    cpu: u32,
    pages: Pages<'a>,
    layout: Layout,
    endian: Endian,
    tsc: Option<TscToNs>,
    /// Next unread byte of the page, and the end of its events.
    at: usize,
    end: usize,
    /// Time of the last header word, in raw units.
    raw: u64,
    /// Current event: time in clock units, and its place in the page.
    ts: u64,
    data: (usize, usize),
    any: bool,
    /// A gap found but not yet the current entry, and the gap that is the current entry.
    pending: Option<LostRange>,
    lost: Option<LostRange>,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(
        cpu: u32,
        pages: Pages<'a>,
        layout: Layout,
        endian: Endian,
        tsc: Option<TscToNs>,
    ) -> Self {
        let data = (0, 0);
        Self {
            cpu,
            pages,
            layout,
            endian,
            tsc,
            at: 0,
            end: 0,
            raw: 0,
            ts: 0,
            data,
            any: false,
            pending: None,
            lost: None,
        }
    }

    /// The CPU's number.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Time at which the current entry is due (clock units): an event's own, a gap's `from`.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.lost.map_or(self.ts, |lost| lost.from.unwrap_or(0))
    }

    /// The current entry; meaningful after [`Cursor::advance`] said true.
    #[inline]
    pub(crate) fn entry(&self) -> Entry<'_> {
        if let Some(lost) = self.lost {
            return Entry::Lost(lost);
        }
        let (from, to) = self.data;
        Entry::Event(Record {
            cpu: self.cpu,
            ts: self.ts,
            data: self.pages.page().get(from..to).unwrap_or_default(),
        })
    }

    /// The next event or gap of this CPU; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    #[allow(clippy::should_implement_trait)] // the record borrows the reader
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        Ok(if self.advance()? {
            Some(self.entry())
        } else {
            None
        })
    }

    /// Goes to the next entry; false after the last.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        self.lost = None;
        loop {
            if self.at >= self.end && !self.next_page()? {
                return Ok(false);
            }
            self.lost = self.pending.take();
            if self.lost.is_some() {
                return Ok(true);
            }
            if self.step()? {
                self.any = true;
                return Ok(true);
            }
        }
    }

    fn next_page(&mut self) -> Result<bool> {
        if !self.pages.advance()? {
            return Ok(false);
        }
        let layout = self.layout;
        let page = self.pages.page();
        let read = |at: usize, size: usize| Some(self.endian.uint(page.get(at..at + size)?));
        let (Some(stamp), Some(commit)) = (
            read(layout.stamp, 8),
            read(layout.commit, layout.commit_size),
        ) else {
            return Err(self.damage("a page without room for its header"));
        };
        let size = (commit & COMMIT_MASK) as usize;
        let end = layout.data + size;
        if end > page.len() {
            let len = page.len();
            return Err(self.damage(&format!(
                "a page of {len} bytes holds {size} bytes of events"
            )));
        }
        if commit & MISSED != 0 {
            let count = (commit & MISSED_STORED != 0)
                .then(|| read(end, layout.commit_size))
                .flatten();
            let from = self.any.then_some(self.ts);
            self.pending = Some(LostRange {
                cpu: self.cpu,
                from,
                to: self.scale(stamp),
                count,
                reason: LostReason::Overwritten,
            });
        }
        (self.raw, self.at, self.end) = (stamp, layout.data, end);
        Ok(true)
    }

    /// Reads one header word; true when it was an event.
    #[inline]
    fn step(&mut self) -> Result<bool> {
        let (layout, endian) = (self.layout, self.endian);
        let page = self.pages.page().get(..self.end).unwrap_or_default();
        let Some(word) = endian.u32_at(page, self.at) else {
            return Err(self.damage("an event without room for its header"));
        };
        let (kind, delta) = split(word, layout.delta_bits, endian);
        let body = self.at + 4;
        let first = endian.u32_at(page, body);
        if kind == layout.padding && delta == 0 {
            self.at = self.end;
            return Ok(false);
        }
        let Some(len) = (match (kind, first) {
            (0, Some(len)) if len >= 4 => Some(len as usize),
            (k, Some(len)) if k == layout.padding => Some(len as usize),
            (k, Some(_)) if k == layout.extend || k == layout.absolute => Some(4),
            (k, _) if k != 0 && k < layout.padding => Some(k as usize * 4),
            _ => None,
        }) else {
            return Err(self.damage("an event without a length"));
        };
        let next = body.saturating_add(len.next_multiple_of(4));
        if next > self.end {
            return Err(self.damage(&format!("an event of {len} bytes leaves its page")));
        }
        let wide = (u64::from(first.unwrap_or(0)) << layout.delta_bits) | u64::from(delta);
        let from = if kind == 0 { body + 4 } else { body };
        self.at = next;
        if kind == layout.absolute {
            self.raw = extend_stamp(wide, self.raw);
            return Ok(false);
        }
        self.raw = self.raw.wrapping_add(if kind == layout.extend {
            wide
        } else {
            delta.into()
        });
        if kind >= layout.padding {
            return Ok(false);
        }
        self.ts = self.scale(self.raw);
        self.data = (from, next);
        Ok(true)
    }

    fn scale(&self, raw: u64) -> u64 {
        self.tsc.map_or(raw, |tsc| tsc.apply(raw))
    }

    fn damage(&self, what: &str) -> Error {
        let at = self.pages.offset();
        Error::corrupt(
            at,
            format!("CPU {}: {what} (at byte {} of the page)", self.cpu, self.at),
        )
    }
}

/// Splits a header word: `type_len` and `time_delta` are bit fields, so their place follows the
/// byte order.
#[inline]
fn split(word: u32, delta_bits: u32, endian: Endian) -> (u32, u32) {
    let type_bits = 32 - delta_bits;
    match endian {
        Endian::Little => (word & ((1 << type_bits) - 1), word >> type_bits),
        Endian::Big => (word >> delta_bits, word & ((1 << delta_bits) - 1)),
    }
}

/// Puts the upper bits of `before` on a 59-bit absolute time stamp.
fn extend_stamp(stamp: u64, before: u64) -> u64 {
    if before & STAMP_HIGH == 0 {
        return stamp;
    }
    let full = stamp | before & STAMP_HIGH;
    if full < before {
        full.wrapping_add(1 << 59)
    } else {
        full
    }
}
