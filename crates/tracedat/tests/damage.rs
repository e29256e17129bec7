//! Damaged files give gaps in the right places, never a panic and never endless work.
#![allow(missing_docs, clippy::unwrap_used, clippy::pedantic)]

mod common;

use std::collections::BTreeSet;

use common::{Item, Page, Shape, file, tick};
use proptest::prelude::*;
use proptest::sample::Index;
use tracedat::{Endian, Entry, LostRange, LostReason, Trace};

/// Time between two pages, and the most that an event may be moved.
const STEP: u64 = 100_000_000;
const TOLERANCE: u64 = 1_000_000;
const PAGES: u64 = 8;
const EVENTS: u64 = 3;

/// (time, CPU, serial) of an event.
type Seen = (u64, u32, u64);

/// All events and gaps of a file.
fn read(bytes: Vec<u8>) -> Result<(Vec<Seen>, Vec<LostRange>), tracedat::Error> {
    let trace = Trace::from_bytes(bytes)?;
    let serial = trace
        .format("test", "tick")
        .and_then(|f| f.accessor("serial"));
    let (mut all, mut gaps) = (Vec::new(), Vec::new());
    let mut events = trace.events()?;
    let mut last = 0;
    while let Some(entry) = events.next()? {
        match entry {
            Entry::Event(r) => {
                assert!(r.ts >= last);
                last = r.ts;
                let serial = serial.and_then(|s| s.uint(r.data)).unwrap_or(u64::MAX);
                all.push((r.ts, r.cpu, serial));
            }
            Entry::Lost(gap) => {
                assert!(gap.from.unwrap_or(last) >= last, "{gap:?} came late");
                gaps.push(gap);
            }
        }
    }
    Ok((all, gaps))
}

/// Page `n` of one CPU; the CPUs' pages alternate in time.
fn one_page(shape: &Shape, cpu: u64, n: u64) -> Page {
    let items = (0..EVENTS).map(|e| Item::Event(e * 1000, tick(shape, cpu * 1000 + n * 10 + e)));
    Page {
        ts: (1 + 2 * n + cpu) * STEP,
        missed: None,
        items: items.collect(),
    }
}

fn sample(shape: &Shape) -> Vec<(u32, Vec<Page>)> {
    let pages = |cpu| (0..PAGES).map(|n| one_page(shape, cpu, n)).collect();
    vec![(0, pages(0)), (1, pages(1))]
}

fn whole(shape: &Shape) -> Vec<u8> {
    file(shape, &sample(shape))
}

/// Where a page's bytes are in an unpacked file.
fn place(shape: &Shape, bytes: &[u8], cpu: u64, n: u64) -> usize {
    let page = common::page(shape, &one_page(shape, cpu, n));
    let found = bytes.windows(page.len()).position(|w| w == page);
    found.unwrap()
}

/// Every event but those of `count` pages from `n` on is there, at its time, give or take the
/// tolerance; what is there besides lies between the pages around those.
fn others_intact(
    before: &[Seen],
    after: &[Seen],
    (cpu, n, count): (u64, u64, u64),
) -> Result<(), String> {
    let base = cpu * 1000 + n * 10;
    let own: BTreeSet<u64> = (0..count)
        .flat_map(|page| (0..EVENTS).map(move |e| base + page * 10 + e))
        .collect();
    let mut rest = after.to_vec();
    for event in before.iter().filter(|e| !own.contains(&e.2)) {
        let same = |e: &Seen| (e.1, e.2) == (event.1, event.2);
        let near = |e: &Seen| e.0 >= event.0 && e.0 - event.0 <= TOLERANCE;
        let at = rest.iter().position(|e| same(e) && near(e));
        rest.remove(at.ok_or_else(|| format!("{event:?} is missing"))?);
    }
    let start = (1 + 2 * n + cpu) * STEP;
    let range = start.saturating_sub(2 * STEP)..=start + 2 * count * STEP + TOLERANCE;
    for event in rest {
        if u64::from(event.1) != cpu || !range.contains(&event.0) {
            return Err(format!("{event:?} is new"));
        }
    }
    Ok(())
}

fn shapes() -> Vec<Shape> {
    let plain = Shape::PLAIN;
    let old = Shape {
        version: 6,
        ..plain
    };
    let foreign = Shape {
        endian: Endian::Big,
        long: 4,
        ..old
    };
    let zlib = Shape {
        packing: "zlib",
        ..plain
    };
    let zstd = Shape {
        packing: "zstd",
        endian: Endian::Big,
        ..plain
    };
    vec![plain, old, foreign, zlib, zstd]
}

fn unpacked() -> Vec<Shape> {
    let mut shapes = shapes();
    shapes.retain(|s| s.packing == "none");
    shapes
}

#[test]
fn cut_off_anywhere() {
    for shape in shapes() {
        let bytes = whole(&shape);
        let (all, gaps) = read(bytes.clone()).unwrap();
        assert_eq!((all.len() as u64, gaps.len()), (2 * PAGES * EVENTS, 0));
        for len in 0..bytes.len() {
            let Ok((some, gaps)) = read(bytes[..len].to_vec()) else {
                continue;
            };
            for cpu in 0..2 {
                let of = |list: &[Seen]| -> Vec<Seen> {
                    list.iter().filter(|e| e.1 == cpu).copied().collect()
                };
                let (all, some) = (of(&all), of(&some));
                assert_eq!(all[..some.len()], some, "{shape:?} cut at {len}");
                let ends = gaps.iter().filter(|g| g.cpu == cpu);
                let ends: Vec<_> = ends.map(|g| (g.from, g.to, g.reason)).collect();
                if some.len() < all.len() {
                    let from = some.last().map(|e| e.0);
                    assert_eq!(ends, [(from, u64::MAX, LostReason::CutOff)], "cut at {len}");
                }
            }
        }
    }
}

#[test]
fn each_byte_turned() {
    for shape in shapes() {
        let bytes = whole(&shape);
        for at in 0..bytes.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            let _ = read(bytes);
        }
    }
}

#[test]
fn a_page_of_zeros_is_a_gap_up_to_the_next() {
    for shape in unpacked() {
        for (cpu, n) in [(0, 0), (1, 3), (0, PAGES - 1)] {
            let mut bytes = whole(&shape);
            let (all, _) = read(bytes.clone()).unwrap();
            let at = place(&shape, &bytes, cpu, n);
            bytes[at..at + shape.page_size].fill(0);
            let (some, gaps) = read(bytes).unwrap();
            assert_eq!(some.len() as u64, all.len() as u64 - EVENTS);
            others_intact(&all, &some, (cpu, n, 1)).unwrap();
            let start = (1 + 2 * n + cpu) * STEP;
            let gap = LostRange {
                cpu: cpu as u32,
                from: (n > 0).then(|| start - 2 * STEP + 3000),
                to: if n + 1 < PAGES {
                    start + 2 * STEP
                } else {
                    u64::MAX
                },
                count: None,
                reason: LostReason::Damaged,
            };
            assert_eq!(gaps, [gap], "{shape:?}");
        }
    }
}

#[test]
fn a_page_with_a_wrong_time_alone_is_lost() {
    for shape in unpacked() {
        for n in 0..PAGES - 1 {
            // Far in the future, or in the past; before the first page anything is in order.
            for wrong in [1 << 60, 1] {
                if n == 0 && wrong == 1 {
                    continue;
                }
                let mut bytes = whole(&shape);
                let (all, _) = read(bytes.clone()).unwrap();
                let at = place(&shape, &bytes, 0, n);
                bytes.splice(at..at + 8, shape.int(wrong, 8));
                let (some, gaps) = read(bytes).unwrap();
                assert_eq!(gaps.len(), 1, "page {n} at {wrong}");
                assert_eq!(gaps[0].reason, LostReason::Disordered);
                others_intact(&all, &some, (0, n, 1)).unwrap();
            }
        }
    }
}

#[test]
fn small_steps_back_are_raised_and_counted() {
    let shape = Shape::PLAIN;
    let page = |ts, serial| Page {
        ts,
        missed: None,
        items: vec![
            Item::Event(0, tick(&shape, serial)),
            Item::Event(30, tick(&shape, serial + 1)),
        ],
    };
    let bytes = file(
        &shape,
        &[(0, vec![page(1000, 0), page(1010, 2), page(2000, 4)])],
    );
    let (all, gaps) = read(bytes.clone()).unwrap();
    let times: Vec<u64> = all.iter().map(|e| e.0).collect();
    assert_eq!(times, [1000, 1030, 1030, 1040, 2000, 2030]);
    assert!(gaps.is_empty());
    let trace = Trace::from_bytes(bytes).unwrap();
    let mut events = trace.events().unwrap();
    while events.next().unwrap().is_some() {}
    assert_eq!(events.raised(), 1);
}

#[test]
fn a_damaged_chunk_is_a_gap_and_the_next_chunks_are_read() {
    for packing in ["zlib", "zstd"] {
        let shape = Shape {
            packing,
            ..Shape::PLAIN
        };
        let bytes = whole(&shape);
        let (all, _) = read(bytes.clone()).unwrap();
        // The second chunk of the first CPU holds its pages 3 to 5: spoil it from its middle on.
        let start: &[u8] = if packing == "zlib" {
            &[0x78, 0x01]
        } else {
            &[0x28, 0xb5, 0x2f, 0xfd]
        };
        let sizes = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let plain = (3 * shape.page_size as u32).to_le_bytes();
        let chunks: Vec<usize> = (8..bytes.len() - 4)
            .filter(|&at| bytes[at..].starts_with(start) && bytes[at - 4..at] == plain)
            .collect();
        let (at, len) = (chunks[1], sizes(chunks[1] - 8) as usize);
        let spoil = |range: std::ops::Range<usize>| {
            let mut bytes = bytes.clone();
            bytes[range].fill(0xa5);
            read(bytes).unwrap()
        };
        let (some, gaps) = spoil(at + len / 2..at + len);
        // The next chunk is found even when its place is lost with the sizes of this one.
        assert_eq!(spoil(at - 8..at), (some.clone(), gaps.clone()));
        let lost = |e: &&Seen| e.1 == 0 && (3 * 10..6 * 10).contains(&e.2);
        let kept: Vec<Seen> = all.iter().filter(|e| !lost(e)).copied().collect();
        assert_eq!(some, kept, "{packing}");
        let gap = LostRange {
            cpu: 0,
            from: Some(5 * STEP + 3000),
            to: 13 * STEP,
            count: None,
            reason: LostReason::Damaged,
        };
        assert_eq!(gaps, [gap]);
    }
}

/// Bytes put over a part of a page.
#[derive(Debug, Clone)]
struct Harm {
    cpu: u64,
    page: u64,
    from: Index,
    bytes: Vec<u8>,
}

fn harm() -> impl Strategy<Value = Harm> {
    let bytes = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..300),
        (1..300_usize, any::<u8>()).prop_map(|(len, byte)| vec![byte; len]),
    ];
    (0..2_u64, 0..PAGES, any::<Index>(), bytes).prop_map(|(cpu, page, from, bytes)| Harm {
        cpu,
        page,
        from,
        bytes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damage_of_a_page_stays_there(
        shape in prop::sample::select(unpacked()),
        harm in harm(),
    ) {
        let mut bytes = whole(&shape);
        let (all, _) = read(bytes.clone()).unwrap();
        let start = place(&shape, &bytes, harm.cpu, harm.page);
        let from = harm.from.index(shape.page_size);
        let len = harm.bytes.len().min(shape.page_size - from);
        bytes[start + from..start + from + len].copy_from_slice(&harm.bytes[..len]);
        let (some, gaps) = read(bytes).unwrap();
        let intact = |pages| others_intact(&all, &some, (harm.cpu, harm.page, pages));
        let one = intact(1);
        // A time between those of the next page and the one after it does not tell which of the
        // two is wrong: then it is the next one that is lost, and said to be. And nothing
        // follows the last page that could contradict it.
        let disordered = gaps.iter().any(|g| g.reason == LostReason::Disordered);
        let either = disordered && intact(2).is_ok();
        prop_assert!(one.is_ok() || either || harm.page + 1 == PAGES, "{:?} {:?}", one, gaps);
    }

    #[test]
    fn a_dropped_page_takes_only_its_own_events(
        shape in prop::sample::select(shapes()),
        cpu in 0..2_usize,
        page in 0..PAGES as usize,
    ) {
        let (all, _) = read(whole(&shape)).unwrap();
        let mut cpus = sample(&shape);
        cpus[cpu].1.remove(page);
        let (some, _) = read(file(&shape, &cpus)).unwrap();
        let base = (cpu * 1000 + page * 10) as u64;
        let kept: Vec<Seen> =
            all.into_iter().filter(|e| !(base..base + EVENTS).contains(&e.2)).collect();
        prop_assert_eq!(some, kept);
    }

    #[test]
    fn the_order_of_the_cpus_does_not_matter(
        shape in prop::sample::select(shapes()).prop_filter("6 numbers them", |s| s.version == 7),
        order in Just((0..5_u32).collect::<Vec<_>>()).prop_shuffle(),
        holes in 1..7_u32,
    ) {
        let cpu = |n: u32| (n * holes, vec![one_page(&shape, u64::from(n), u64::from(n % 2))]);
        let sorted: Vec<_> = (0..5).map(cpu).collect();
        let mixed: Vec<_> = order.into_iter().map(cpu).collect();
        prop_assert_eq!(read(file(&shape, &sorted)).unwrap(), read(file(&shape, &mixed)).unwrap());
    }

    #[test]
    fn random_damage(
        shape in prop::sample::select(shapes()),
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 1..20),
    ) {
        let mut bytes = whole(&shape);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = read(bytes);
    }

    #[test]
    fn random_bytes(mut noise in prop::collection::vec(any::<u8>(), 0..2000), start in any::<bool>()) {
        if start {
            let head = whole(&Shape::PLAIN);
            noise.splice(0..0, head[..26].iter().copied());
        }
        let _ = read(noise);
    }
}
