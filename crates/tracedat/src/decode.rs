//! One ring-buffer page, taken apart as a whole: it is sound from its first to its last event,
//! or none of it counts.

use crate::bytes::Endian;
use crate::layout::Layout;

/// The kernel keeps flags above this in the commit word.
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// Absolute time stamps carry 59 bits; the upper five come from the page.
const STAMP_HIGH: u64 = 0xf8 << 56;

/// Where an event is in its page, and when it happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// Time: of the ring buffer first, later in clock units.
    pub(crate) ts: u64,
    /// Start and end of the record (bytes from the start of the page).
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Slot {
    /// The record in its page.
    #[inline]
    pub(crate) fn of(self, page: &[u8]) -> &[u8] {
        let place = self.start as usize..self.end as usize;
        page.get(place).unwrap_or_default()
    }
}

/// What a page's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageHead {
    /// Time at the page's start, of the ring buffer.
    pub(crate) stamp: u64,
    /// End of the events (bytes from the start of the page).
    pub(crate) end: usize,
    /// Events are missing before this page.
    pub(crate) missed: bool,
    /// How many they are, if the kernel said.
    pub(crate) count: Option<u64>,
}

/// What is known after all events of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageEnd {
    /// Time of the last event, of the ring buffer.
    pub(crate) last: u64,
    /// Events whose time was raised to the one before.
    pub(crate) raised: u64,
}

/// Takes the header off a page; `None` when it cannot be one.
pub(crate) fn page_head(page: &[u8], layout: &Layout, endian: Endian) -> Option<PageHead> {
    let read = |at: usize, size: usize| Some(endian.uint(page.get(at..at.checked_add(size)?)?));
    let stamp = read(layout.stamp, 8)?;
    let commit = read(layout.commit, layout.commit_size)?;
    let end = layout.data + (commit & COMMIT_MASK) as usize;
    // Nothing is kept in the upper half of a 64-bit commit word, but the kernel sets the flag of
    // missed events as a negative int, which sets all of it.
    let upper = commit >> 32;
    let plain = upper == 0 || (upper == u64::from(u32::MAX) && commit & MISSED != 0);
    // A page of zeros was never written.
    let empty = stamp == 0 && commit == 0;
    if empty || !plain || end % 4 != layout.data % 4 || end > page.len() {
        return None;
    }
    let missed = commit & MISSED != 0;
    let stored = missed && commit & MISSED_STORED != 0;
    Some(PageHead {
        stamp,
        end,
        missed,
        count: stored.then(|| read(end, layout.commit_size)).flatten(),
    })
}

/// Bit fields follow the byte order: the first one is in the lower bits on little-endian.
trait Order {
    fn word(bytes: [u8; 4]) -> u32;
    /// A header word's `type_len` and `time_delta`.
    fn split(word: u32, delta_bits: u32) -> (u32, u32);
}

struct Little;
struct Big;

impl Order for Little {
    #[inline]
    fn word(bytes: [u8; 4]) -> u32 {
        u32::from_le_bytes(bytes)
    }

    #[inline]
    fn split(word: u32, delta_bits: u32) -> (u32, u32) {
        let kind_bits = 32 - delta_bits;
        (word & ((1 << kind_bits) - 1), word >> kind_bits)
    }
}

impl Order for Big {
    #[inline]
    fn word(bytes: [u8; 4]) -> u32 {
        u32::from_be_bytes(bytes)
    }

    #[inline]
    fn split(word: u32, delta_bits: u32) -> (u32, u32) {
        (word >> delta_bits, word & ((1 << delta_bits) - 1))
    }
}

/// Time stamps that go back by no more than this (a millisecond of the nanosecond clocks) are
/// raised to the time before them; more than that is damage. The kernel's ring buffer stores no
/// step back inside a page, but a page can follow one.
pub(crate) const TOLERANCE: u64 = 1_000_000;

/// Appends the page's events to `slots`, none of them before `floor`; `None` when the page
/// contradicts the format.
pub(crate) fn events(
    page: &[u8],
    head: &PageHead,
    layout: &Layout,
    endian: Endian,
    floor: u64,
    slots: &mut Vec<Slot>,
) -> Option<PageEnd> {
    let data = page.get(..head.end)?;
    match endian {
        Endian::Little => walk::<Little>(data, head.stamp, layout, floor, slots),
        Endian::Big => walk::<Big>(data, head.stamp, layout, floor, slots),
    }
}

fn walk<O: Order>(
    data: &[u8],
    stamp: u64,
    layout: &Layout,
    mut floor: u64,
    slots: &mut Vec<Slot>,
) -> Option<PageEnd> {
    let word_at = |at: usize| Some(O::word(*data.get(at..)?.first_chunk()?));
    let (bits, padding) = (layout.delta_bits, layout.padding);
    let (mut at, mut raw, mut raised) = (layout.data, stamp, 0);
    // A record takes eight bytes at least.
    slots.reserve(data.len() / 8);
    while at < data.len() {
        let (kind, delta) = O::split(word_at(at)?, bits);
        let body = at + 4;
        // Nearly all events: a short record.
        if kind.wrapping_sub(1) < padding - 1 {
            at = body + kind as usize * 4;
            // No clock comes near the end of the numbers: a page that does is damaged.
            raw = raw.saturating_add(u64::from(delta));
            raised += u64::from(raw < floor);
            slots.push(Slot {
                ts: raw.max(floor),
                start: body as u32,
                end: at as u32,
            });
            continue;
        }
        if kind == padding && delta == 0 {
            break;
        }
        let first = word_at(body)?;
        let wide = (u64::from(first) << bits) | u64::from(delta);
        if kind == layout.extend || kind == layout.absolute {
            at = body + 4;
            if kind == layout.extend {
                raw = raw.checked_add(wide)?;
                continue;
            }
            let next = extend_stamp(wide, raw);
            if raw.saturating_sub(next) > TOLERANCE {
                return None;
            }
            floor = floor.max(raw);
            raw = next;
            continue;
        }
        // A long record or a discarded one: its length comes first.
        let len = first as usize;
        at = body.checked_add(len.checked_next_multiple_of(4)?)?;
        if len < 4 || at > data.len() {
            return None;
        }
        raw = raw.checked_add(u64::from(delta))?;
        if kind == 0 {
            raised += u64::from(raw < floor);
            slots.push(Slot {
                ts: raw.max(floor),
                start: body as u32 + 4,
                end: at as u32,
            });
        } else if kind != padding {
            return None;
        }
    }
    // Only the last record can have left the page.
    (at <= data.len() && raw < u64::MAX).then_some(PageEnd {
        last: raw.max(floor),
        raised,
    })
}

/// Puts the upper bits of `before` on a 59-bit absolute time stamp.
fn extend_stamp(stamp: u64, before: u64) -> u64 {
    if before & STAMP_HIGH == 0 {
        return stamp;
    }
    let full = stamp | before & STAMP_HIGH;
    if full < before && before - full > 1 << 58 {
        full.wrapping_add(1 << 59)
    } else {
        full
    }
}
