//! The events of one CPU.

use crate::bytes::Endian;
use crate::clock::CpuClock;
use crate::decode::{self, PageEnd, PageHead, Slot, Slots, TOLERANCE};
use crate::error::Result;
use crate::layout::Layout;
use crate::lost::{LostRange, LostReason};
use crate::pages::{Pages, Step};

/// Pages that are asked which of two contradicting times is wrong.
const JURY: usize = 3;

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

/// What a trace gives one after the other, many events at a time.
#[derive(Debug, Clone)]
pub enum Run<'a> {
    /// Events of one CPU, with nothing of another CPU between them.
    Events(Events<'a>),
    /// As [`Entry::Lost`].
    Lost(LostRange),
}

/// Consecutive events of one CPU.
#[derive(Debug, Clone)]
pub struct Events<'a> {
    cpu: u32,
    page: &'a [u8],
    slots: std::slice::Iter<'a, Slot>,
}

impl Events<'_> {
    /// The CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Time of the first one (clock units); `None` when there is none.
    pub fn start(&self) -> Option<u64> {
        self.slots.as_slice().first().map(|slot| slot.ts)
    }

    /// Those whose times are from `from` to before `to`: times never go back.
    #[must_use]
    pub fn within(mut self, from: u64, to: u64) -> Self {
        let slots = self.slots.as_slice();
        let place = |time: u64| slots.partition_point(|slot| slot.ts < time);
        let places = place(from)..place(to);
        self.slots = slots.get(places).unwrap_or_default().iter();
        self
    }
}

impl<'a> Iterator for Events<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let slot = self.slots.next()?;
        Some(Record {
            cpu: self.cpu,
            ts: slot.ts,
            data: slot.of(self.page),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.slots.size_hint()
    }
}

/// A gap whose end is not known yet.
#[derive(Debug, Clone, Copy)]
struct Gap {
    reason: LostReason,
    count: Option<u64>,
}

/// Walks the pages of one CPU. Holds the current entry until it is advanced.
#[derive(Debug)]
pub struct Cursor {
    cpu: u32,
    pages: Pages,
    layout: Layout,
    endian: Endian,
    clock: CpuClock,
    /// The events of the current page, and which of them is the current one.
    slots: Slots,
    now: usize,
    slot: Slot,
    /// The gap that is the current entry.
    lost: Option<LostRange>,
    /// Time of the last event of the pages so far: in clock units and of the ring buffer.
    last: Option<(u64, u64)>,
    gap: Option<Gap>,
    raised: u64,
}

impl Cursor {
    pub(crate) fn new(
        cpu: u32,
        pages: Pages,
        layout: Layout,
        endian: Endian,
        clock: CpuClock,
    ) -> Self {
        Self {
            cpu,
            pages,
            layout,
            endian,
            clock,
            slots: Slots::default(),
            now: 0,
            slot: Slot::default(),
            lost: None,
            last: None,
            gap: None,
            raised: 0,
        }
    }

    /// The CPU's number.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// How many events so far were earlier than the one before them on this CPU, by up to a
    /// millisecond, and got its time.
    pub fn raised(&self) -> u64 {
        self.raised
    }

    /// Time at which the current entry is due (clock units): an event's own, a gap's `from`.
    #[inline]
    pub(crate) fn due(&self) -> u64 {
        self.slot.ts
    }

    /// The current entry; meaningful after [`Cursor::advance`] said true.
    #[inline]
    pub(crate) fn entry(&self) -> Entry<'_> {
        if let Some(lost) = self.lost {
            return Entry::Lost(lost);
        }
        self.event(self.slot)
    }

    /// An event of the current page.
    #[inline]
    pub(crate) fn event(&self, slot: Slot) -> Entry<'_> {
        Entry::Event(Record {
            cpu: self.cpu,
            ts: slot.ts,
            data: slot.of(self.pages.page()),
        })
    }

    /// Steps over the next event of the current page if its time is before `limit`. The current
    /// entry stays what it was; [`Cursor::advance`] goes on behind the event.
    #[inline]
    pub(crate) fn take_before(&mut self, limit: u64) -> Option<Slot> {
        let slot = self
            .slots
            .as_slice()
            .get(self.now)
            .filter(|slot| slot.ts < limit)?;
        self.now += 1;
        Some(*slot)
    }

    /// The current entry as a run.
    #[inline]
    pub(crate) fn run(&self) -> Run<'_> {
        match self.lost {
            Some(lost) => Run::Lost(lost),
            None => Run::Events(self.events(std::slice::from_ref(&self.slot))),
        }
    }

    fn events<'s>(&'s self, slots: &'s [Slot]) -> Events<'s> {
        Events {
            cpu: self.cpu,
            page: self.pages.page(),
            slots: slots.iter(),
        }
    }

    /// Steps over the next events of the current page whose times are before `limit`. As with
    /// [`Cursor::take_before`] the current entry stays what it was.
    pub(crate) fn run_before(&mut self, limit: u64) -> Option<Events<'_>> {
        let from = self.now;
        let left = self.slots.as_slice().get(from..)?;
        let all = left.last().is_some_and(|slot| slot.ts < limit);
        self.now += if all {
            left.len()
        } else {
            left.partition_point(|slot| slot.ts < limit)
        };
        Some(self.events(self.slots.as_slice().get(from..self.now)?))
    }

    /// Whether there are such events.
    pub(crate) fn has_before(&self, limit: u64) -> bool {
        self.slots
            .as_slice()
            .get(self.now)
            .is_some_and(|slot| slot.ts < limit)
    }

    /// The next event or gap of this CPU; `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read.
    #[inline]
    #[allow(clippy::should_implement_trait)] // the record borrows the reader
    pub fn next(&mut self) -> Result<Option<Entry<'_>>> {
        Ok(if self.advance()? {
            Some(self.entry())
        } else {
            None
        })
    }

    /// Goes to the next entry; false after the last.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if let Some(&slot) = self.slots.as_slice().get(self.now) {
            self.now += 1;
            self.slot = slot;
            self.lost = None;
            return Ok(true);
        }
        self.next_page()
    }

    /// Goes to the first entry behind the current page.
    #[inline(never)]
    fn next_page(&mut self) -> Result<bool> {
        let from = self.last.map(|(ts, _)| ts);
        self.now = 0;
        loop {
            self.slots.clear();
            let to = match self.pages.advance()? {
                Step::Page => match self.take_page() {
                    Some(stamp) => self.clock.apply(stamp),
                    None => continue,
                },
                Step::Hole(reason) => {
                    self.miss(reason, None);
                    continue;
                }
                Step::End if self.gap.is_none() => {
                    self.lost = None;
                    return Ok(false);
                }
                Step::End => u64::MAX,
            };
            let Some(gap) = self.gap.take() else {
                return self.advance();
            };
            // The next call takes the first event of the page, which is ready.
            self.slot.ts = from.unwrap_or(0);
            self.lost = Some(LostRange {
                cpu: self.cpu,
                from,
                to: to.max(self.slot.ts),
                count: gap.count,
                reason: gap.reason,
            });
            return Ok(true);
        }
    }

    /// Takes the current page apart; its time stamp if it is sound and has events.
    fn take_page(&mut self) -> Option<u64> {
        let page = self.pages.page();
        let floor = self.last.map_or(0, |(_, raw)| raw);
        let parts = decode::page_head(page, &self.layout, self.endian).and_then(|head| {
            let (layout, endian) = (&self.layout, self.endian);
            let end = decode::events(page, &head, layout, endian, floor, &mut self.slots)?;
            Some((head, end))
        });
        let Some((head, end)) = parts else {
            self.slots.clear();
            self.miss(LostReason::Damaged, None);
            return None;
        };
        if self.contradicts(&head, &end, floor) {
            self.slots.clear();
            self.miss(LostReason::Disordered, None);
            return None;
        }
        if head.missed {
            self.miss(LostReason::Overwritten, head.count);
        }
        self.raised += end.raised;
        self.convert();
        self.last = Some((self.slots.as_slice().last()?.ts, end.last));
        Some(head.stamp)
    }

    /// Whether the page's times cannot be true: they start before the page before (`floor`), or
    /// more of the pages behind it speak against its end than for it.
    fn contradicts(&self, head: &PageHead, end: &PageEnd, floor: u64) -> bool {
        let late = |stamp: u64, than: u64| stamp.saturating_add(TOLERANCE) >= than;
        if !late(head.stamp, floor) {
            return true;
        }
        let heads = |page| decode::page_head(page, &self.layout, self.endian);
        let mut stamps = self.pages.ahead().filter_map(heads).map(|head| head.stamp);
        let Some(first) = stamps.next().filter(|&stamp| !late(stamp, end.last)) else {
            return false;
        };
        let votes = std::iter::once(first).chain(stamps).take(JURY);
        let sum: i32 = votes
            .map(|stamp| match (late(stamp, end.last), late(stamp, floor)) {
                (true, _) => -1,
                (_, true) => 1,
                _ => 0,
            })
            .sum();
        sum > 0
    }

    /// Brings the page's times into clock units, and keeps them in order.
    fn convert(&mut self) {
        if self.clock.is_identity() {
            return;
        }
        let mut floor = self.last.map_or(0, |(ts, _)| ts);
        for slot in self.slots.as_mut_slice() {
            let ts = self.clock.apply(slot.ts);
            self.raised += u64::from(ts < floor);
            floor = floor.max(ts);
            slot.ts = floor;
        }
    }

    /// Remembers that something is missing here.
    fn miss(&mut self, reason: LostReason, count: Option<u64>) {
        self.gap = Some(match self.gap {
            None => Gap { reason, count },
            Some(gap) => Gap {
                reason: gap.reason.max(reason),
                count: gap.count.zip(count).map(|(a, b)| a.saturating_add(b)),
            },
        });
    }
}
