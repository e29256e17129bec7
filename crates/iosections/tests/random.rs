//! Any stream of events keeps the rules.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use std::collections::BTreeMap;

use common::*;
use iosections::{Kind, Lost, Op, Options};
use proptest::prelude::*;
use proptest::sample::Index;

fn kinds() -> impl Strategy<Value = Kind> {
    let rwbs = prop::sample::select(vec!["R", "WS", "FWFS", "WFS"]);
    let spans = (rwbs, 0..6_u64, 1..3_u32).prop_map(|(r, s, n)| span(r, s * 8, n * 8));
    let flush = prop::sample::select(vec![span("FF", 0, 0), span("FWS", 0, 0)]);
    let spans = prop_oneof![9 => spans, 1 => flush];
    let ops = prop::sample::select(vec![Op::Pread64, Op::Pwrite64]);
    prop_oneof![
        3 => ops.clone().prop_map(enter),
        3 => ops.prop_map(leave),
        4 => spans.clone().prop_map(Kind::BioQueue),
        4 => spans.clone().prop_map(Kind::Issue),
        4 => spans.clone().prop_map(Kind::Complete),
        1 => spans.prop_map(Kind::Requeue),
        1 => (0..3_u32).prop_map(SETUP),
        1 => Just(Kind::NvmeSq(1)),
        1 => (0..3_u32).prop_map(SEND),
        1 => (0..3_u32).prop_map(DONE),
        1 => (0..3_u32).prop_map(NVME_DONE),
        1 => Just(Kind::QueueReturn),
        2 => (0..3_u32).prop_map(Kind::IrqEntry),
        2 => Just(Kind::IrqExit),
        1 => Just(Kind::SoftirqEntry(4)),
        1 => Just(Kind::SoftirqExit),
        3 => (any::<bool>(), 0..4_i32).prop_map(|(blocked, next)| Kind::Switch { blocked, next }),
    ]
}

/// Any nonsense that a ring buffer might hold; the current task follows the switches.
fn streams(cpus: u32) -> impl Strategy<Value = Vec<Line>> {
    prop::collection::vec((0..8_u64, 0..cpus, kinds()), 0..300).prop_map(|steps| {
        let (mut ts, mut current) = (1000, [0, 1, 2, 3]);
        let mut lines = Vec::new();
        for (delta, cpu, kind) in steps {
            ts += delta;
            let pid: i32 = [0, 1, 2, JOURNAL][current[cpu as usize]];
            lines.push((ts, cpu, pid, kind));
            if let Kind::Switch { next, .. } = kind {
                current[cpu as usize] = next as usize;
                if let Some((_, _, _, Kind::Switch { next: to, .. })) = lines.last_mut() {
                    *to = [0, 1, 2, JOURNAL][next as usize];
                }
            }
        }
        lines
    })
}

/// Exit time of every I/O by (task, entry), as plain bookkeeping.
fn exits(lines: &[Line]) -> BTreeMap<(i32, u64), u64> {
    let (mut open, mut exits) = (BTreeMap::new(), BTreeMap::new());
    for &(ts, cpu, pid, kind) in lines {
        let task = if pid == 0 { -1 - cpu as i32 } else { pid };
        match kind {
            Kind::SyscallEnter(_) => drop(open.insert(task, ts)),
            Kind::SyscallExit(..) => {
                if let Some(start) = open.remove(&task) {
                    exits.insert((pid, start), ts);
                }
            }
            _ => {}
        }
    }
    exits
}

fn any_options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(returns, nvme, count_events)| {
        Options {
            use_queue_return: returns,
            ignore_queue_return: !returns,
            has_nvme_complete: nvme,
            count_events,
            ..options()
        }
    })
}

/// Gaps begin anywhere, or at an event's own time.
fn streams_with_gaps(cpus: u32) -> impl Strategy<Value = (Vec<Line>, Vec<(u32, Lost)>)> {
    let at = prop::option::of(any::<Index>());
    let gap = (0..3_u32, 0..3000_u64, 0..200_u64, at);
    let gaps = prop::collection::vec(gap, 0..3);
    (streams(cpus), gaps).prop_map(|(lines, gaps)| {
        let place = |(cpu, any, len, at): (u32, u64, u64, Option<Index>)| {
            let event = at.filter(|_| !lines.is_empty()).map(|at| at.get(&lines).0);
            let from = event.unwrap_or(any);
            (cpu, lost(from, from + len))
        };
        let gaps = gaps.into_iter().map(place).collect();
        (lines, gaps)
    })
}

/// Reads of three tasks, each on a CPU of its own, and stretches in which one CPU's events are lost.
fn reads_with_gaps() -> impl Strategy<Value = (Vec<Line>, Vec<(u32, Lost)>)> {
    let reads = prop::collection::vec(prop::array::uniform9(1..20_u64), 0..8);
    let gaps = prop::collection::vec((0..3_u32, 1000..2000_u64, 0..300_u64), 0..3);
    (prop::collection::vec(reads, 3), gaps).prop_map(|(tasks, gaps)| {
        let mut lines = Vec::new();
        for (cpu, reads) in (0_u32..).zip(tasks) {
            let (pid, mut ts, mut sector) = (cpu as i32 + 1, 1000, u64::from(cpu) * 1000);
            for deltas in reads {
                let events = [
                    (pid, enter(Op::Pread64)),
                    (pid, queue("R", sector, 8)),
                    (pid, issue("R", sector, 8)),
                    (pid, sleep(0)),
                    (0, IRQ),
                    (0, complete("R", sector, 8)),
                    (0, Kind::IrqExit),
                    (0, sleep(pid)),
                    (pid, leave(Op::Pread64)),
                ];
                for ((pid, kind), delta) in events.into_iter().zip(deltas) {
                    ts += delta;
                    lines.push((ts, cpu, pid, kind));
                }
                sector += 8;
            }
        }
        lines.sort_by_key(|&(ts, cpu, ..)| (ts, cpu));
        let gaps = gaps.into_iter();
        let gaps = gaps.map(|(cpu, from, len)| (cpu, lost(from, from + len)));
        (lines, gaps.collect())
    })
}

/// All that is known of an I/O.
fn show(io: &Measured) -> String {
    format!("{io:?}")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sections_add_up((lines, gaps) in streams_with_gaps(3), options in any_options()) {
        let exits = exits(&lines);
        for io in feed(options, &gaps, &lines).results {
            let end = exits[&(io.pid, io.start)];
            prop_assert_eq!(io.elapsed.iter().sum::<u64>(), end - io.start);
        }
    }

    #[test]
    fn one_cpu_does_one_thing_at_a_time(lines in streams(1), options in any_options()) {
        let span = lines.last().map_or(0, |l| l.0) - lines.first().map_or(0, |l| l.0);
        let outcome = run_with(options, &lines);
        let own: u64 = outcome.results.iter().map(|io| io.own.iter().sum::<u64>()).sum();
        prop_assert!(own <= span);
        for io in &outcome.results {
            let (own, elapsed) = (io.own.iter().sum::<u64>(), io.elapsed.iter().sum::<u64>());
            prop_assert!(own <= elapsed);
            prop_assert!(!io.clean || own - io.own[2] >= elapsed - io.elapsed[2]);
        }
    }

    #[test]
    fn gaps_change_only_what_touches_them((lines, gaps) in streams_with_gaps(2)) {
        let whole = feed(options(), &[], &lines);
        let gappy = feed(options(), &gaps, &lines);
        // The event at a gap's own start is not missing: what ends with it is measured.
        let touched = |io: &Measured| gaps.iter().any(|(_, g)| g.from < io.end && g.to >= io.start);
        for io in gappy.results.iter().filter(|io| io.requests == 1 && io.bios == 1) {
            prop_assert!(!touched(io));
        }
        // What had ended with all its requests by then is what it is without gaps.
        let first = gaps.iter().map(|(_, g)| g.from).min().unwrap_or(u64::MAX);
        let ended = |io: &&Measured| io.end < first && io.detached == 0;
        let before = |run: &Run| -> Vec<String> {
            run.results.iter().filter(ended).map(show).collect()
        };
        prop_assert_eq!(before(&gappy), before(&whole));
        prop_assert_eq!(gappy.ios.seen, whole.ios.seen);
    }

    #[test]
    fn what_no_gap_touches_is_measured_as_without((lines, gaps) in reads_with_gaps()) {
        let missing = |line: &Line| {
            let (ts, on) = (line.0, line.1);
            gaps.iter().any(|&(cpu, gap)| cpu == on && gap.from < ts && ts < gap.to)
        };
        let left: Vec<Line> = lines.iter().filter(|line| !missing(line)).copied().collect();
        let touched = |io: &&Measured| gaps.iter().any(|(_, g)| g.from < io.end && g.to >= io.start);
        let whole = run(&lines).results;
        prop_assert_eq!(whole.len(), lines.len() / 9);
        let spared: Vec<String> = whole.iter().filter(|io| !touched(io)).map(show).collect();
        let measured: Vec<String> = feed(options(), &gaps, &left).results.iter().map(show).collect();
        prop_assert_eq!(measured, spared);
    }
}
