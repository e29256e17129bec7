//! Puts the events of several looks at the ring buffers in order of time.
//!
//! One look empties the CPUs one after the other, so an event of the CPU that was emptied first
//! may come only with the next look although it is older than the last of this one. But what was
//! recorded before one look ended is there at the end of the next at the latest: up to the latest
//! time of the look before, everything is known.

use std::collections::HashMap;

use iosections::Event;
use tracedat::LostRange;

/// What one CPU said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// An event, and its text if it is a marker.
    Event(Event, Option<String>),
    /// Events are missing from here on.
    Gap(LostRange),
}

/// Something at its time (clock units).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    time: u64,
    pub(crate) what: What,
}

/// What was read and not yet given on.
#[derive(Debug, Default)]
pub(crate) struct Order {
    waiting: Vec<Item>,
    /// Latest time by CPU.
    last: HashMap<u32, u64>,
    /// Latest time of all before the present look, and before the one before.
    known: u64,
    settled: u64,
}

/// One look at all CPUs.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    order: &'a mut Order,
    latest: u64,
}

impl Order {
    /// Begins a look.
    pub(crate) fn look(&mut self) -> Look<'_> {
        let latest = self.known;
        Look {
            order: self,
            latest,
        }
    }

    /// What no later look can add anything before, in order of time.
    pub(crate) fn settled(&mut self) -> Vec<Item> {
        let end = self.waiting.partition_point(|i| i.time <= self.settled);
        let rest = self.waiting.split_off(end);
        std::mem::replace(&mut self.waiting, rest)
    }

    /// Everything, in order of time.
    pub(crate) fn rest(&mut self) -> Vec<Item> {
        std::mem::take(&mut self.waiting)
    }
}

impl Look<'_> {
    pub(crate) fn event(&mut self, event: Event, text: Option<String>) {
        let (time, what) = (event.ts, What::Event(event, text));
        self.latest = self.latest.max(time);
        self.order.last.insert(event.cpu, time);
        self.order.waiting.push(Item { time, what });
    }

    /// A gap at the beginning of a look began after all that this look's predecessor could see.
    pub(crate) fn gap(&mut self, gap: &LostRange) {
        let last = self.order.last.get(&gap.cpu).copied();
        let time = last.unwrap_or(0).max(self.order.settled);
        let mut gap = *gap;
        gap.from = gap.from.max(Some(time).filter(|&time| time > 0));
        let what = What::Gap(gap);
        self.order.waiting.push(Item { time, what });
    }

    /// Ends the look: [`Order::settled`] is what it has made sure of.
    pub(crate) fn end(self) {
        let order = self.order;
        order.settled = order.known;
        order.known = self.latest;
        // Two runs in order of time; equal times stay in the order of the CPUs and looks.
        order.waiting.sort_by_key(|item| item.time);
    }
}

#[cfg(test)]
mod tests {
    use iosections::Kind;
    use proptest::prelude::*;
    use tracedat::LostReason;

    use super::*;

    fn event(cpu: u32, ts: u64) -> Event {
        let (pid, name, kind) = (1, 1, Kind::Other);
        Event {
            ts,
            cpu,
            pid,
            name,
            kind,
        }
    }

    fn gap(cpu: u32, from: Option<u64>, to: u64) -> LostRange {
        LostRange {
            cpu,
            from,
            to,
            count: None,
            reason: LostReason::Overwritten,
        }
    }

    fn times(items: &[Item]) -> Vec<u64> {
        items.iter().map(|item| item.time).collect()
    }

    proptest! {
        /// CPUs are emptied one after the other while they go on recording: whatever comes
        /// when, it is given on in order of time, and all of it.
        #[test]
        fn looks_join_in_order(
            events in prop::collection::vec((0u32..3, 0u64..1000), 0..300),
            steps in prop::collection::vec(1u64..40, 1..90),
        ) {
            let (mut order, mut given) = (Order::default(), Vec::new());
            let mut now = 0;
            let mut read: HashMap<u32, u64> = HashMap::new();
            for look_at in steps.chunks(3) {
                let mut seen: Vec<&(u32, u64)> = Vec::new();
                for (cpu, step) in (0..).zip(look_at) {
                    now += step;
                    let from = read.insert(cpu, now).map_or(0, |t| t + 1);
                    let new = events.iter().filter(|e| e.0 == cpu && (from..=now).contains(&e.1));
                    seen.extend(new);
                }
                seen.sort_by_key(|e| e.1);
                let mut look = order.look();
                for (cpu, ts) in seen {
                    look.event(event(*cpu, *ts), None);
                }
                look.end();
                given.extend(times(&order.settled()));
            }
            given.extend(times(&order.rest()));
            let mut expected: Vec<u64> = events
                .iter()
                .filter(|e| read.get(&e.0).is_some_and(|&t| e.1 <= t))
                .map(|e| e.1)
                .collect();
            expected.sort_unstable();
            prop_assert_eq!(given, expected);
        }
    }

    #[test]
    fn a_gap_begins_after_what_was_given_on() {
        let mut order = Order::default();
        for times in [[10, 20], [30, 40], [50, 60]] {
            let mut look = order.look();
            for ts in times {
                look.event(event(1, ts), None);
            }
            look.end();
            order.settled();
        }
        // CPU 0 was silent; all up to 40 has been given on.
        let mut look = order.look();
        look.gap(&gap(0, None, 65));
        look.event(event(0, 66), None);
        look.gap(&gap(0, Some(66), 70));
        look.end();
        let found: Vec<_> = order.rest().into_iter().map(|item| item.what).collect();
        assert!(found.contains(&What::Gap(gap(0, Some(40), 65))));
        assert!(found.contains(&What::Gap(gap(0, Some(66), 70))));
    }

    #[test]
    fn a_gap_comes_where_its_cpu_ended() {
        let mut order = Order::default();
        let mut look = order.look();
        look.event(event(0, 10), None);
        look.event(event(1, 15), None);
        look.end();
        let mut look = order.look();
        look.gap(&gap(0, None, 30));
        look.event(event(0, 31), None);
        look.end();
        let items = order.rest();
        assert_eq!(times(&items), [10, 10, 15, 31]);
        assert_eq!(
            items.get(1).map(|i| &i.what),
            Some(&What::Gap(gap(0, Some(10), 30)))
        );
    }
}
