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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
        // All kernels have 27 bits; shifts by a number that is known cost half.
        if delta_bits == 27 {
            return (word & 31, word >> 5);
        }
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
    slots: &mut Slots,
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
    floor: u64,
    slots: &mut Slots,
) -> Option<PageEnd> {
    let (bits, padding) = (layout.delta_bits, layout.padding);
    let mut clock = Clock {
        now: sound(stamp)?,
        floor,
        from: 0,
        raised: 0,
    };
    let mut rest = data.get(layout.data..)?;
    // A record takes eight bytes at least.
    slots.make_room(data.len() / 8);
    loop {
        let at = data.len() - rest.len();
        rest = data.get(short_records::<O>(data, at, layout, &mut clock.now, slots)?..)?;
        let Some((word, body)) = rest.split_first_chunk() else {
            break;
        };
        let (kind, delta) = O::split(O::word(*word), bits);
        if kind == padding && delta == 0 {
            break;
        }
        let (first, after) = body.split_first_chunk()?;
        let first = O::word(*first);
        if kind == layout.extend || kind == layout.absolute {
            let wide = (u64::from(first) << bits) | u64::from(delta);
            if kind == layout.extend {
                clock.now = sound(clock.now.checked_add(wide)?)?;
            } else {
                clock.set(wide, slots)?;
            }
            rest = after;
            continue;
        }
        // A long record or a discarded one: its length comes first, and counts itself.
        let len = first as usize;
        rest = body.get(len.checked_next_multiple_of(4)?..)?;
        clock.now = clock.now.wrapping_add(u64::from(delta));
        if len < 4 || (kind != 0 && kind != padding) {
            return None;
        }
        if kind == 0 {
            *slots.next()? = Slot {
                ts: clock.now,
                start: (data.len() - after.len()) as u32,
                end: (data.len() - rest.len()) as u32,
            };
        }
    }
    clock.raise(slots);
    Some(PageEnd {
        last: clock.now.max(clock.floor),
        raised: clock.raised,
    })
}

/// A time that leaves room above it for all deltas of a page: 2^20 of 27 bits at most. No clock
/// comes near that.
fn sound(time: u64) -> Option<u64> {
    Some(time).filter(|&time| time <= u64::MAX - (1 << 48))
}

/// Takes the short records off the data from `at` on: nearly all events are such. Where they end.
fn short_records<O: Order>(
    data: &[u8],
    mut at: usize,
    layout: &Layout,
    clock: &mut u64,
    slots: &mut Slots,
) -> Option<usize> {
    let (bits, padding) = (layout.delta_bits, layout.padding);
    // A copy, which stays in a register.
    let mut now = *clock;
    let mut count = 0;
    let free = slots.all.get_mut(slots.len..)?;
    for slot in free.iter_mut() {
        let Some(word) = data.get(at..at + 4).and_then(<[u8]>::first_chunk) else {
            break;
        };
        let (kind, delta) = O::split(O::word(*word), bits);
        if kind.wrapping_sub(1) >= padding - 1 {
            break;
        }
        let start = at + 4;
        at = start + kind as usize * 4;
        if at > data.len() {
            return None;
        }
        // Cannot wrap: see `sound`.
        now = now.wrapping_add(u64::from(delta));
        *slot = Slot {
            ts: now,
            start: start as u32,
            end: at as u32,
        };
        count += 1;
    }
    slots.len += count;
    *clock = now;
    Some(at)
}

/// The events of a page, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    all: Vec<Slot>,
    len: usize,
}

impl Slots {
    pub(crate) fn as_slice(&self) -> &[Slot] {
        self.all.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Slot] {
        self.all.get_mut(..self.len).unwrap_or_default()
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Room for that many behind those that are there.
    fn make_room(&mut self, count: usize) {
        let size = self.len + count;
        if self.all.len() < size {
            self.all.resize(size, Slot::default());
        }
    }

    /// The next free place.
    fn next(&mut self) -> Option<&mut Slot> {
        let slot = self.all.get_mut(self.len)?;
        self.len += 1;
        Some(slot)
    }
}

/// The time while a page is gone through, of the ring buffer.
struct Clock {
    now: u64,
    /// No event is given an earlier time.
    floor: u64,
    /// The slots from here on have not been held against it.
    from: usize,
    raised: u64,
}

impl Clock {
    /// An absolute time stamp; `None` when it cannot be.
    fn set(&mut self, stamp: u64, slots: &mut Slots) -> Option<()> {
        let next = sound(extend_stamp(stamp, self.now))?;
        if self.now.saturating_sub(next) > TOLERANCE {
            return None;
        }
        self.raise(slots);
        self.floor = self.floor.max(self.now);
        self.now = next;
        Some(())
    }

    /// Raises the times of the new slots to the floor; they never go back among themselves.
    fn raise(&mut self, slots: &mut Slots) {
        let new = slots.as_mut_slice().get_mut(self.from..);
        let early = new.into_iter().flatten().take_while(|s| s.ts < self.floor);
        for slot in early {
            slot.ts = self.floor;
            self.raised += 1;
        }
        self.from = slots.len;
    }
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
